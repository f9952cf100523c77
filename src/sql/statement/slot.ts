/**
 * Values of a request in the types that they meet. A statement is compiled once for all batches of
 * a shape; each value is written when a batch fills it, or is refused by its type.
 */
import { parameter, type Fragment, type ParameterText, type Slot } from '../../fragment/fragment.ts'
import type { Type } from '../../catalogue/type.ts'
import { bytesOf, has, writeJson, type Json, type JsonObject } from '../../json/parse.ts'
import { readValuePlaceholder, type Values } from '../../plan/fingerprint.ts'
import { isIssue, write, writeMember, type WriteIssue } from '../../values/write.ts'

/** Where a value stands in its operation. */
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
  readonly write: (values: Values, refused: RefusedHere[]) => ParameterText
}

/** A parameter with the text of a value, or of that for which it is a placeholder. */
export function slot (value: Json, type: Type, place: SlotPlace): Fragment {
  const position = readValuePlaceholder(value)
  const written: ValueSlot = {
    write (values, refused) {
      const text = write(position === undefined ? value : values[position] as Json, type)
      if (!isIssue(text)) return text
      refused.push({ ...place, issue: text })
      return null
    }
  }
  return parameter(written)
}

/** A member of rows, and the type of the values that it has. */
export interface RowMember {
  readonly name: string
  /** Its name in messages. */
  readonly column: string
  readonly type: Type
}

/**
 * A parameter with the rows of a parameter of a named batch as JSON. Those of an upload were
 * written while they were read.
 */
export function rowsSlot (position: number, members: readonly RowMember[]): Fragment {
  const written: ValueSlot = {
    write (values, refused) {
      const rows = values[position] as readonly JsonObject[]
      return bytesOf(rows) ?? writeJson(rows.map((row, i) => writeRow(row, i, members, refused)))
    }
  }
  return parameter(written)
}

function writeRow (
  row: JsonObject,
  position: number,
  members: readonly RowMember[],
  refused: RefusedHere[]
): JsonObject {
  const changed: Record<string, Json> = {}
  for (const { name, column, type } of members) {
    if (!has(row, name)) continue
    const value = row[name] as Json
    const written = writeMember(value, type, issue => {
      refused.push({ column, row: position, issue })
    })
    if (written !== value) changed[name] = written
  }
  return { ...row, ...changed }
}

/** Whether a parameter is a value that is still to be written. */
export function isSlot (parameter: unknown): parameter is Slot {
  return typeof parameter === 'object' && parameter !== null && 'write' in parameter
}

/** Writes a value. Adds it to `refused` if its type refuses it. */
export function writeSlot (slot: Slot, values: Values, refused: RefusedHere[]): ParameterText {
  return (slot as ValueSlot).write(values, refused)
}
