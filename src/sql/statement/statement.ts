/**
 * A statement of a batch. It is compiled once for all batches of a shape, and filled with the
 * values of each.
 */
import type { RenderedSql, Slot } from '../../fragment/fragment.ts'
import {
  isSlot,
  placeOf,
  writeSlot,
  type RefusedHere,
  type SlotPlace,
  type Values
} from './slot.ts'

/** A statement whose values still have to be written. */
export interface CompiledStatement extends StatementFacts, RenderedSql<string | null | Slot> {}

export interface Statement extends StatementFacts, RenderedSql {
  /** The statement that was filled. */
  readonly compiled?: CompiledStatement
  /** Places a value in the only row of `values` that it stores. */
  readonly toRow?: ToRow | undefined
}

/** Returns the place with its row, or as it is if the value stands elsewhere. */
export type ToRow = <Place extends SlotPlace>(place: Place) => Place

interface StatementFacts {
  /** Values that their types refuse: the statement cannot be sent. */
  readonly refused?: readonly RefusedHere[] | undefined
  /** The issues that it can raise, by their numbers; see raiseIssue. */
  readonly issues?: readonly RefusedHere[]
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

/** Returns the statement with its values. */
export function fillStatement (compiled: CompiledStatement, values: Values): Statement {
  const refused: RefusedHere[] = [...compiled.refused ?? []]
  const parameters = compiled.parameters.map(parameter =>
    isSlot(parameter) ? writeSlot(parameter, values, refused) : parameter
  )
  return { ...compiled, compiled, parameters, refused }
}

/** The place of the value of a parameter; undefined: it has none, or several. */
export function placeOfParameter (
  { compiled, toRow }: Statement,
  number: number
): SlotPlace | undefined {
  const place = placeOf(compiled?.parameters[number - 1])
  return toRow === undefined ? place : place && toRow(place)
}
