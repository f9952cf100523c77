/**
 * Values of a request in the types that they meet. A statement is compiled once for all batches of
 * a shape; each value is written when a batch fills it, or is refused by its type.
 */
import { parameter, type Fragment, type ParameterText, type Slot } from '../../fragment/fragment.ts'
import { baseOf, type Type } from '../../catalogue/type.ts'
import type { Failure } from '../../errors/catalogue.ts'
import { fromDatabase } from '../../errors/postgres.ts'
import { SqlState } from '../../errors/sqlstates.ts'
import {
  isNested,
  isObject,
  textOf,
  writeJson,
  type Json,
  type JsonObject
} from '../../json/parse.ts'
import { replaceNumbers } from '../../plan/document.ts'
import type { Given, ValuePath } from '../../plan/nodes.ts'
import type { Parameter } from '../../plan/parameter.ts'
import { readCells, type Cells } from '../../plan/stored-values.ts'
import { arrayText } from '../../plan/value-text.ts'
import {
  findWritten,
  writeRow,
  writtenRows,
  type RowMembers,
  type WrittenRows
} from '../../values/rows.ts'
import type { WriteIssue } from '../../values/issue.ts'
import {
  copyDimension,
  copyElement,
  copyElements,
  isIssue,
  isJson,
  scalarText,
  write,
  writeMember
} from '../../values/write.ts'
import { writeMixed } from '../../values/write-mixed.ts'

/** The place of a value in its operation. */
export interface SlotPlace {
  readonly column: string
  /** The position of its row in `values`. */
  readonly row?: number | undefined
  /** Its member in a row of a parameter. */
  readonly member?: string | undefined
  /** It is one of several values of the column. */
  readonly isArray?: boolean
  /** It is the operand of a condition, or a key. */
  readonly isCompared?: boolean | undefined
  /** The path of the operand of a condition in its operation. */
  readonly at?: ValuePath | undefined
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
  /** Undefined: it is written in no type, or in those of several columns. */
  readonly place?: SlotPlace
  readonly write: (values: Values, refused: RefusedHere[]) => ParameterText
}

/**
 * A value of an earlier operation, which the service has read. PostgreSQL reads the text of a
 * single value in its type, as it does where the statement itself reads the value: it may round.
 */
export class ReadValue {
  readonly json: Json

  constructor (json: Json) {
    this.json = json
  }
}

/** Stands for a value that is not read yet. */
export const UNKNOWN = new ReadValue(null)

/** The values of a batch, by the positions that its plan uses. */
export type Values = ReadonlyArray<Json | ReadValue>

function valueOf (given: Given, values: Values): Json {
  if (given.position !== undefined) return valueAt(values, given.position)
  const { value, references = [] } = given
  // A copy of many values would take long.
  if (references.length === 0) return value
  let isKnown = true
  const whole = replaceNumbers(value, number => {
    const { position, isList } = references[number]?.parameter as Parameter
    isKnown &&= values[position] !== UNKNOWN
    const item = valueAt(values, position)
    return isList ? copyDimension(item) : copyElement(item)
  })
  // Types refuse NULL in a range, and in place of a list in a list.
  return isKnown ? whole : null
}

function valueAt (values: Values, position: number): Json {
  return jsonOf(values[position] as Json | ReadValue)
}

/** Returns a value, whether it is of the request or of an earlier operation. */
export function jsonOf (value: Json | ReadValue): Json {
  return value instanceof ReadValue ? value.json : value
}

function isRead (given: Given, values: Values): boolean {
  return given.position !== undefined && values[given.position] instanceof ReadValue
}

/** A parameter that is written when a batch fills the statement. */
function written (write: ValueSlot['write'], place?: SlotPlace): Fragment {
  const slot: ValueSlot = { write, ...place !== undefined && { place } }
  return parameter(slot)
}

/** A parameter with the text of a value in a type. */
export function slot (given: Given, type: Type, place: SlotPlace): Fragment {
  return written((values, refused) => {
    const write = isRead(given, values) ? writeRead : writeTyped
    return write(valueOf(given, values), type, { place, refused })
  }, place)
}

interface WriteContext {
  readonly place: SlotPlace
  readonly refused: RefusedHere[]
}

/** Writes a value of an earlier operation: the text of its JSON if that is one value. */
function writeRead (value: Json, type: Type, context: WriteContext): string | null {
  const base = baseOf(type)
  const { kind } = base
  if ('fields' in base) {
    // Read without the fields, 5 is another value: only `interval minute` reads it as five minutes.
    const written = write(value, type)
    if (!isIssue(written)) return written
  }
  const isText = !isNested(value) && kind !== 'composite' &&
    (kind !== 'array' || value === null || typeof value === 'string') &&
    !isJson(base)
  return isText ? textOf(value) : writeTyped(markElements(value, type), type, context)
}

/** Marks the elements of arrays of JSON: one that is an array is no dimension. */
function markElements (value: Json, type: Type): Json {
  const base = baseOf(type)
  if (base.kind === 'array' && Array.isArray(value)) {
    return isJson(base.element)
      ? copyElements(value)
      : (value as readonly Json[]).map(item => markElements(item, base.element))
  }
  if (base.kind !== 'composite' || !isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => {
    const attribute = base.attributes.get(name)
    return [name, attribute === undefined ? item : markElements(item, attribute)]
  }))
}

/** A part of a list: a list, of which the values are elements, or a single value. */
interface ListPart {
  readonly given: Given
  readonly isList: boolean
  /** Its elements are JSON, and not texts of the type. */
  readonly isJson: boolean
}

/**
 * A parameter with a list of values that are only compared, as an array of texts; see operandSlot.
 */
export function operandListSlot (
  parts: readonly ListPart[],
  type: Type | undefined,
  { delimiter, ...place }: SlotPlace & { readonly delimiter: string }
): Fragment {
  return written((values, refused) => {
    const texts: Array<string | null> = []
    for (const { given, isList, isJson } of parts) {
      const value = valueOf(given, values)
      // A list that is not known yet is NULL.
      for (const item of isList ? value as readonly Json[] | null ?? [] : [value]) {
        texts.push(isJson && item !== null
          ? writeJson(item)
          : writeOperand(item, type, { place, refused }))
      }
    }
    return arrayText(texts, delimiter)
  }, place)
}

/** A parameter with a list of composites or arrays as JSON, which PostgreSQL reads in the type. */
export function listJsonSlot (given: Given, type: Type, place: SlotPlace): Fragment {
  return written((values, refused) => {
    const list = valueOf(given, values)
    // A list that is not known yet is NULL.
    for (const item of [list].flat() as readonly Json[]) {
      if (isNested(item)) writeTyped(item, type, { place, refused })
    }
    return writeJson(list)
  })
}

/** A parameter with the values of a column in many rows, as an array. `positions`: see rowsSlot. */
export function arraySlot (
  given: Given,
  type: Type,
  { column, positions, delimiter }: {
    readonly column: string
    readonly positions: readonly number[]
    readonly delimiter: string
  }
): Fragment {
  return written((values, refused) => {
    const rows = valueOf(given, values) as readonly JsonObject[]
    const texts = rows.map((row, i) =>
      writeTyped(row[column] as Json, type, { place: { column, row: positions[i] ?? i }, refused }))
    return arrayText(texts, delimiter)
  }, { column, isArray: true })
}

function writeTyped (value: Json, type: Type, context: WriteContext): string | null {
  const text = write(value, type)
  return isIssue(text) ? refuse(text, context) : text
}

function refuse (issue: WriteIssue, { place, refused }: WriteContext): null {
  refused.push({ ...place, issue })
  return null
}

/**
 * A parameter with an operand of a condition. A single value is only compared, so it is sent as it
 * is, or as the integer that it is, and PostgreSQL may refuse it. `type`: undefined if it is not
 * known.
 */
export function operandSlot (given: Given, type: Type | undefined, place: SlotPlace): Fragment {
  return written((values, refused) =>
    writeOperand(valueOf(given, values), type, { place, refused }), place)
}

function writeOperand (
  value: Json,
  type: Type | undefined,
  context: WriteContext
): string | null {
  if (type === undefined) return textOf(value)
  if (isNested(value)) return writeTyped(value, type, context)
  const base = baseOf(type)
  // A string is the text of the value itself.
  if (value === null || typeof value === 'string') return value
  if (base.kind === 'array' || base.kind === 'composite') return writeTyped(value, type, context)
  const text = base.kind === 'base' && base.form === 'integer' ? write(value, type) : null
  return text === null || isIssue(text) ? scalarText(value, base) : text
}

/** A parameter with a value as it is: its text or its JSON. A value of the plan needs no slot. */
export function plainSlot (given: Given, as: 'text' | 'json', place?: SlotPlace): Fragment {
  const write: (value: Json) => string | null = as === 'text' ? textOf : writeJson
  return place === undefined && given.position === undefined &&
    (given.references ?? []).length === 0
    ? parameter(write(given.value))
    : written(values => write(valueOf(given, values)), place)
}

/** A slot of a text. */
export function textSlot (position: number): Slot {
  const written: ValueSlot = { write: values => textOf(valueAt(values, position)) }
  return written
}

/** A parameter with a value inside of JSON, as JSON that PostgreSQL reads in the type. */
export function memberSlot (
  given: Parameter,
  type: Type,
  { path, ...place }: SlotPlace & { readonly path?: WriteIssue['path'] }
): Fragment {
  return written((values, refused) => {
    const report = (issue: WriteIssue): unknown => refused.push({ ...place, issue })
    return writeJson(writeMixed(valueOf(given, values), type, {
      // A list may be a dimension of an array, so its elements are written one by one.
      refers: part => given.isList && Array.isArray(part),
      meet: () => undefined,
      meetRange: (bounds, type) => writeMember(bounds, type, report),
      report
    }, path))
  })
}

/** Rows of the request or of a parameter. */
export interface RowsSlot extends ValueSlot {
  readonly position: number | undefined
  readonly members: RowMembers
}

/**
 * A parameter with rows as JSON. Those of an upload were written while they arrived; the statement
 * fails with `serialization_failure` if that was in other types. `positions`: those of the rows in
 * `values`, by default in their order.
 */
export function rowsSlot (
  given: Given,
  members: RowMembers,
  positions: readonly number[] = []
): Fragment {
  const written: RowsSlot = {
    position: given.position,
    members,
    write (values, refused) {
      if (given.position === undefined && given.references !== undefined &&
        given.references.length > 0) {
        return writeJson(writeReferring(given, members, { values, refused, positions }))
      }
      const list = valueOf(given, values) as readonly JsonObject[]
      const texts = writtenRows(list)
      if (texts !== undefined) return findText(texts, members)
      return writeJson(list.map((row, i) => writeRow(row, members, ({ column, member }, issue) =>
        refused.push({ column, member, row: positions[i] ?? i, issue }))))
    }
  }
  return parameter(written)
}

interface RowsContext extends Pick<WriteContext, 'refused'> {
  readonly values: Values
  readonly positions: readonly number[]
}

/** Writes rows with references, each value as `slot` writes it where it stands alone. */
function writeReferring (
  { value, references = [] }: Exclude<Given, { readonly position: number }>,
  members: RowMembers,
  { values, refused, positions }: RowsContext
): readonly JsonObject[] {
  const byName = new Map(members.map(member => [member.name, member]))
  const rows = readCells({ kind: 'document', value, references, inBulk: false }) as Cells
  return rows.map((cells, i) => Object.fromEntries([...cells].map(([name, cell]) => {
    const given = cell as Given
    const json = valueOf(given, values)
    const known = byName.get(name)
    if (known === undefined) return [name, json]
    const { type, column, member } = known
    const context = { place: { column, member, row: positions[i] }, refused }
    return [name, isRead(given, values) && !isJson(type)
      ? writeRead(json, type, context)
      : writeMember(json, type, issue => refuse(issue, context))]
  })))
}

function findText (written: readonly WrittenRows[], members: RowMembers): readonly Buffer[] {
  const text = findWritten(written, members)
  if (text === undefined) throw columnsChanged()
  return text
}

/** The failure of an upload whose rows were written or refused by outdated types. */
export function columnsChanged (): Failure {
  const message = 'The columns of the batch were changed while its rows arrived.'
  return fromDatabase({ code: SqlState.serialization_failure, message }, { op: null, index: null })
}

/** Whether a parameter takes rows. */
export function isRowsSlot (parameter: unknown): parameter is RowsSlot {
  return isSlot(parameter) && 'members' in parameter
}

/** Whether a parameter is a value that is still to be written. */
export function isSlot (parameter: unknown): parameter is Slot {
  return typeof parameter === 'object' && parameter !== null && 'write' in parameter
}

/** The place of the value of a parameter; undefined: it has none, or those of several columns. */
export function placeOf (parameter: unknown): SlotPlace | undefined {
  return isSlot(parameter) ? (parameter as ValueSlot).place : undefined
}

/** Writes a value. Adds it to `refused` if its type refuses it. */
export function writeSlot (slot: Slot, values: Values, refused: RefusedHere[]): ParameterText {
  return (slot as ValueSlot).write(values, refused)
}
