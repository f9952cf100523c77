/**
 * Values of a request in the types that they meet. A statement is compiled once for all batches of
 * a shape; each value is written when a batch fills it, or is refused by its type.
 */
import { parameter, type Fragment, type ParameterText, type Slot } from '../../fragment/fragment.ts'
import type { Type } from '../../catalogue/type.ts'
import { fromDatabase } from '../../errors/postgres.ts'
import { SqlState } from '../../errors/sqlstates.ts'
import { writeJson, type Json, type JsonObject } from '../../json/parse.ts'
import { readValuePlaceholder, type Values } from '../../plan/fingerprint.ts'
import {
  findWritten,
  writeRow,
  writtenRows,
  type RowMembers,
  type WrittenRows
} from '../../values/rows.ts'
import { isIssue, write, type WriteIssue } from '../../values/write.ts'

/** The place of a value in its operation. */
export interface SlotPlace {
  readonly column: string
  /** The position of its row in `values`. */
  readonly row?: number | undefined
  /** It is the operand of a condition. */
  readonly isCompared?: boolean
}

/** A value that its type refuses. */
export interface RefusedValue extends SlotPlace {
  readonly issue: WriteIssue
  /** The operation. */
  readonly index: number
}

/** A refused value of one operation. */
export type RefusedHere = Omit<RefusedValue, 'index'>

interface ValueSlot extends Slot {
  /** Undefined: its value are rows. */
  readonly place?: SlotPlace
  readonly write: (values: Values, refused: RefusedHere[]) => ParameterText
}

/** A parameter with the text of a value, or of that for which it is a placeholder. */
export function slot (value: Json, type: Type, place: SlotPlace): Fragment {
  const position = readValuePlaceholder(value)
  const written: ValueSlot = {
    place,
    write (values, refused) {
      const text = write(position === undefined ? value : values[position] as Json, type)
      if (!isIssue(text)) return text
      refused.push({ ...place, issue: text })
      return null
    }
  }
  return parameter(written)
}

/** The rows of a parameter. */
export interface RowsSlot extends ValueSlot {
  readonly position: number
  readonly members: RowMembers
}

/**
 * A parameter with the rows of a parameter of a named batch as JSON. Those of an upload were
 * written while they arrived; the statement fails with `serialization_failure` if that was in other
 * types.
 */
export function rowsSlot (position: number, members: RowMembers): Fragment {
  const written: RowsSlot = {
    position,
    members,
    write (values, refused) {
      const list = values[position] as readonly JsonObject[]
      const texts = writtenRows(list)
      if (texts !== undefined) return findText(texts, members)
      return writeJson(list.map((row, i) => writeRow(row, members, ({ column }, issue) =>
        refused.push({ column, row: i, issue }))))
    }
  }
  return parameter(written)
}

function findText (written: readonly WrittenRows[], members: RowMembers): readonly Buffer[] {
  const text = findWritten(written, members)
  if (text !== undefined) return text
  const message = 'The columns of the batch were changed while its rows arrived.'
  throw fromDatabase({ code: SqlState.serialization_failure, message }, NOWHERE)
}

const NOWHERE = { op: null, index: null, anonymous: false, verbose: false }

/** Whether a parameter takes rows. */
export function isRowsSlot (parameter: unknown): parameter is RowsSlot {
  return isSlot(parameter) && 'members' in parameter
}

/** Whether a parameter is a value that is still to be written. */
export function isSlot (parameter: unknown): parameter is Slot {
  return typeof parameter === 'object' && parameter !== null && 'write' in parameter
}

/** The place of the value of a parameter; undefined: it is no value, or several. */
export function placeOf (parameter: unknown): SlotPlace | undefined {
  return isSlot(parameter) ? (parameter as ValueSlot).place : undefined
}

/** Writes a value. Adds it to `refused` if its type refuses it. */
export function writeSlot (slot: Slot, values: Values, refused: RefusedHere[]): ParameterText {
  return (slot as ValueSlot).write(values, refused)
}
