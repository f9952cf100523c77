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
import { isSlot, writeSlot, type RefusedHere } from './slot.ts'

/** A statement whose values may still have to be written. */
export interface CompiledStatement extends StatementFacts, RenderedSql<string | null | Slot> {}

export interface Statement extends StatementFacts, RenderedSql {
  /** The parameters before their values were written. */
  readonly slots?: readonly unknown[]
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
  return fixed.some(hasPlaceholder) ? undefined : { statement, parameters }
}

/**
 * Returns the statement with the values at their positions. Returns undefined if the text of an
 * object or an array is needed, for which the statement has no place.
 */
export function fillTemplate (
  { statement, parameters }: Template,
  values: Values
): Statement | undefined {
  const refused: RefusedHere[] = []
  const filled = parameters.map(parameter => {
    if (isSlot(parameter)) return writeSlot(parameter, values, refused)
    return isPlaceholder(parameter) ? fillPlaceholder(parameter, values) : parameter
  })
  return filled.every(text => text !== undefined)
    ? {
        ...statement,
        parameters: filled,
        slots: parameters,
        refused: [...statement.refused ?? [], ...refused]
      }
    : undefined
}

/** Returns the statement with the values that it was compiled with. */
export function fillOwn (statement: CompiledStatement): Statement {
  const refused: RefusedHere[] = []
  const parameters = statement.parameters.map(parameter =>
    isSlot(parameter) ? writeSlot(parameter, [], refused) : parameter
  )
  const { parameters: slots } = statement
  return { ...statement, parameters, slots, refused: [...statement.refused ?? [], ...refused] }
}

function isPlaceholder (
  parameter: Template['parameters'][number]
): parameter is Placeholder {
  return typeof parameter === 'object' && parameter !== null && 'position' in parameter
}
