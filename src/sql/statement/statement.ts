/**
 * A statement of a batch, and the template of statements whose values are placeholders: it is
 * compiled once, and filled with the values of each batch.
 */
import type { ParameterText, RenderedSql, Slot } from '../../fragment/fragment.ts'
import {
  fillPlaceholder,
  hasPlaceholder,
  readPlaceholder,
  type Placeholder,
  type Values
} from '../../plan/fingerprint.ts'
import { isSlot, placeOf, writeSlot, type RefusedHere, type SlotPlace } from './slot.ts'

/** A statement whose values may still have to be written. */
export interface CompiledStatement extends StatementFacts, RenderedSql<string | null | Slot> {}

export interface Statement extends StatementFacts, RenderedSql {
  /** Where the values of its parameters stand; undefined: it is no value, or several. */
  readonly places?: ReadonlyArray<SlotPlace | undefined>
}

interface StatementFacts {
  /** Values that their types refuse: the statement cannot be sent. */
  readonly refused?: readonly RefusedHere[] | undefined
  /** Whether the text does not depend on the amount of data, so that preparing it pays off. */
  readonly prepare: boolean
  /**
   * Whether column 0 of each row of the result is one row as JSON. Otherwise the result is one row,
   * and its column 0 is the result of the operation as JSON.
   */
  readonly separateRows?: boolean
  /** Whether it can run code of the database, which may change the session. */
  readonly runsCode?: boolean
}

/** A statement whose parameters may be placeholders. */
export interface Template {
  readonly statement: CompiledStatement
  readonly parameters: ReadonlyArray<Placeholder | ParameterText | Slot>
  readonly places: NonNullable<Statement['places']>
}

/**
 * Returns the template of a statement that was compiled with placeholders, or undefined if one of
 * them is not the whole of a parameter.
 */
export function createTemplate (statement: CompiledStatement): Template | undefined {
  const parameters = statement.parameters.map(parameter =>
    typeof parameter === 'string' ? readPlaceholder(parameter) ?? parameter : parameter
  )
  const fixed = [statement.text, ...parameters.filter(value => typeof value === 'string')]
  return fixed.some(hasPlaceholder)
    ? undefined
    : { statement, parameters, places: statement.parameters.map(placeOf) }
}

/**
 * Returns the statement with the values at their positions. Returns undefined if the text of an
 * object or an array is needed, for which the statement has no place.
 */
export function fillTemplate (
  { statement, parameters, places }: Template,
  values: Values
): Statement | undefined {
  const refused: RefusedHere[] = []
  const filled = parameters.map(parameter => {
    if (isSlot(parameter)) return writeSlot(parameter, values, refused)
    return isPlaceholder(parameter) ? fillPlaceholder(parameter, values) : parameter
  })
  return filled.every(text => text !== undefined)
    ? { ...statement, parameters: filled, places, refused: addTo(statement, refused) }
    : undefined
}

/** Returns the statement with the values that it was compiled with. */
export function fillOwn (statement: CompiledStatement): Statement {
  const refused: RefusedHere[] = []
  const parameters = statement.parameters.map(parameter =>
    isSlot(parameter) ? writeSlot(parameter, [], refused) : parameter
  )
  const places = statement.parameters.map(placeOf)
  return { ...statement, parameters, places, refused: addTo(statement, refused) }
}

function addTo (
  { refused = [] }: CompiledStatement,
  more: readonly RefusedHere[]
): readonly RefusedHere[] {
  return more.length === 0 ? refused : [...refused, ...more]
}

function isPlaceholder (
  parameter: Template['parameters'][number]
): parameter is Placeholder {
  return typeof parameter === 'object' && parameter !== null && 'position' in parameter
}
