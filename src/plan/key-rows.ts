/**
 * Plans `key` and `values` of an update: JSON → groups of rows that change the same columns in
 * the same way. Each group is a separate UPDATE within the statement.
 */
import { referenceAttempt } from '../../schemas/operand.ts'
import { has, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { Place, PlanContext } from './context.ts'
import { documentOf, readDollarMember, referToValue } from './document.ts'
import type { Assignment, BulkUpdateGroup, JsonDocument, RowField, Single } from './nodes.ts'
import { planNewValue } from './set.ts'
import { fieldName, storeObjects } from './stored-values.ts'
import { checkRows, maxGroups, maxRepetition, readRowList } from './values.ts'

/** An element of `key`. */
type KeyColumn = string | { readonly column: string, readonly as: string }

interface Key {
  readonly column: string
  /** The member of the rows that holds it. */
  readonly name: string
}

/** The new value of a column in a row. */
interface Cell extends Assignment {
  /** The operand as a value of the row; undefined: rows cannot have different ones. */
  readonly document: JsonDocument | undefined
  /** What all rows of a group have in common: the modifier, and an operand that is the same. */
  readonly sign: string
}

interface Row {
  readonly position: number
  readonly keys: readonly JsonDocument[]
  /** Sorted by column. */
  readonly cells: readonly Cell[]
}

/**
 * Plans the rows; returns undefined after an issue. `parts` is the number of parts that every group
 * repeats: conditions and returned columns.
 */
export function planKeyRows (
  key: readonly KeyColumn[],
  values: Json,
  { parts, context }: { readonly parts: number, readonly context: PlanContext }
): readonly BulkUpdateGroup[] | undefined {
  const keys = readKeys(key, context)
  const list = readRowList(values, context)
  if (list === undefined) return undefined
  checkRows(list, context)
  const rows = list.flatMap((row, i) => isObject(row) ? [readRow(row, i, { keys, context })] : [])
  checkDuplicates(rows, keys, context)
  const groups = [...Map.groupBy(rows, ({ cells }) =>
    cells.map(({ column, sign }) => `${column}\0${sign}`).join('\0')
  ).values()]
  const repeated = groups.reduce((sum, [row]) =>
    sum + (row as Row).cells.filter(({ sign }) => sign !== '').length + parts, 0)
  if (groups.length > maxGroups || (groups.length > 1 && repeated > maxRepetition)) {
    return context.addIssue('rows_limit', ['values'], describeLimit(groups.length, repeated))
  }
  const named = groups.reduce((sum, [row]) => sum + keys.length + (row as Row).cells.length, 0)
  context.count(named + repeated, ['values'])
  return groups.map(group => planGroup(group, keys, context))
}

function readKeys (key: readonly KeyColumn[], context: PlanContext): readonly Key[] {
  const keys: Key[] = []
  for (const [i, element] of key.entries()) {
    const { column, as: name } = typeof element === 'string'
      ? { column: element, as: element }
      : element
    const known = keys.find(other => other.column === column || other.name === name)
    if (known !== undefined) {
      const message = known.column === column
        ? `"key" names the column "${column}" twice.`
        : `Two columns of "key" have the name "${name}"; rename one of them with "as".`
      context.addIssue('member_invalid', ['key', i], message)
    }
    keys.push({ column, name })
    context.nameColumn(context.table, column, ['key', i])
  }
  return keys
}

function readRow (
  row: JsonObject,
  position: number,
  { keys, context }: { readonly keys: readonly Key[], readonly context: PlanContext }
): Row {
  const path = ['values', position]
  const names = new Set(keys.map(({ name }) => name))
  const columns = Object.keys(row).filter(name => !names.has(name))
  if (columns.length === 0) {
    const message = 'A row must name at least one column to change, beside the columns of "key".'
    context.addIssue('set_empty', path, message)
  }
  const place = (name: string) => ({ context, path: [...path, name] })
  return {
    position,
    keys: keys.flatMap(({ name }) => readKey(row, name, place(name)) ?? []),
    cells: columns.toSorted()
      .flatMap(column => readCell(column, row[column] as Json, place(column)) ?? [])
  }
}

/** Reads the key of a row; returns undefined after an issue. */
function readKey (
  row: JsonObject,
  name: string,
  { context, path }: Place
): JsonDocument | undefined {
  if (!has(row, name)) {
    const message = `"${name}" is required: each row must name the columns of "key".`
    return context.addIssue('member_missing', path, message)
  }
  const value = row[name] as Json
  const cell = readCell(name, value, { context, path })
  if (cell === undefined) return undefined
  const modifier = readDollarMember(value)?.[0]
  const at = modifier === undefined ? path : [...path, modifier]
  if (cell.modifier !== '$value') {
    const message = `"${cell.modifier}" computes a new value, but a key finds the row. To change ` +
      'a column of "key", let the rows name the key differently: {"column": …, "as": …}.'
    return context.addIssue('member_invalid', at, message)
  }
  const { document } = cell
  return document === undefined || document.value === null
    ? context.addIssue('member_invalid', at, 'A key must not be null.')
    : document
}

/** Reads a new value; returns undefined after an issue. */
function readCell (column: string, value: Json, place: Place): Cell | undefined {
  const [planned] = planNewValue([column, value], place)
  if (planned === undefined) return undefined
  const { operand } = planned
  // It has an issue: rows by key have no `from`.
  if (operand?.kind === 'column' && operand.of === 'source') return undefined
  const modifier = planned.modifier === '$first' ? '$value' : planned.modifier
  const document = documentOfField(operand)
  const sign = document === undefined
    ? JSON.stringify([modifier, operand])
    : modifier === '$value' ? '' : modifier
  return { column, modifier, operand, document, sign }
}

/**
 * The operand of a new value as a value of the row. Undefined if a row cannot hold it: there is no
 * operand, it is a column, or it is the JSON null, which a row would store as NULL.
 */
function documentOfField (operand: Single | undefined): JsonDocument | undefined {
  switch (operand?.kind) {
    case 'document':
      return operand.value === null ? undefined : operand
    case 'null':
      return { kind: 'document', value: null, references: [] }
    case 'reference':
      return documentOf(operand)
    case 'literal':
      return operand.position === undefined
        ? { kind: 'document', value: operand.value, references: [] }
        : documentOf(referToValue(operand.position, false))
    default:
      return undefined
  }
}

/** Adds an issue for each row whose key, as text, equals that of an earlier row. */
function checkDuplicates (
  rows: readonly Row[],
  { length }: readonly Key[],
  context: PlanContext
): void {
  const known = new Map<string, number>()
  for (const { position, keys } of rows) {
    // A row without a complete key already has an issue.
    if (length === 0 || keys.length < length) continue
    if (!keys.every(isLiteral)) continue
    const text = keys.map(({ value }) => writeJson(value)).join()
    const first = known.get(text)
    if (first === undefined) known.set(text, position)
    else {
      const message = `Row ${position} has the same key as row ${first}.`
      context.addIssue('key_duplicate', ['values', position], message)
    }
  }
}

/** Whether a value has no references, also no invalid one, which is kept as a text. */
function isLiteral ({ value, references }: JsonDocument): boolean {
  return references.length === 0 && !(typeof value === 'string' && referenceAttempt.test(value))
}

function describeLimit (groups: number, repeated: number): string {
  const limit = groups > maxGroups
    ? `at most ${maxGroups} are allowed`
    : `their modifiers, conditions and returned columns are ${repeated}, and at most ` +
      `${maxRepetition} are allowed`
  return `The rows change ${groups} different sets of columns, or with different modifiers; ` +
    `${limit}. Divide the rows among several operations.`
}

/** Plans rows whose cells have the same columns and signs. */
function planGroup (
  rows: readonly Row[],
  keys: readonly Key[],
  context: PlanContext
): BulkUpdateGroup {
  const { cells, position } = rows[0] as Row
  for (const { column } of cells) context.nameStored(column, ['values', position, column])
  const own = cells.map(cell => isField(cell, rows.length))
  const fields: RowField[] = [
    ...keys.map(({ column, name }) => ({ column, modifier: undefined, member: name })),
    ...cells.filter((_, i) => own[i]).map(({ column, modifier }) => ({ column, modifier }))
  ].map((field, i) => ({ name: fieldName(i + 1), ...field }))
  const objects = rows.map(({ position, keys, cells }) => [
    { kind: 'document' as const, value: position, references: [] },
    ...keys,
    ...cells.flatMap(({ document }, i) => own[i] === true ? document as JsonDocument : [])
  ].map((value, i) => [fieldName(i), value] as const))
  return {
    fields,
    computed: cells.filter((_, i) => !own[i])
      .map(({ column, modifier, operand }) => ({ column, modifier, operand })),
    positions: rows.map(({ position }) => position),
    rows: storeObjects(objects)
  }
}

/**
 * Whether the operand of a cell is a field of its row. A single row computes its values as `set`
 * does.
 */
function isField ({ sign, modifier }: Cell, rows: number): boolean {
  return sign === '' || (sign === modifier && rows > 1)
}

/**
 * Whether rows of an unchecked operation may have the same key. The operation may then have an
 * issue that depends on its values.
 */
export function hasEqualKeys ({ key, values }: JsonObject): boolean {
  if (!Array.isArray(key) || !Array.isArray(values)) return true
  const names = (key as readonly Json[]).map(item => isObject(item) ? item['as'] : item)
  if (!names.every(name => typeof name === 'string')) return true
  const texts = (values as readonly Json[]).map(row =>
    isObject(row) ? writeJson(names.map(name => unwrap(row[name]))) : undefined
  )
  return new Set(texts).size < texts.length
}

/** The value of a key as `checkDuplicates` compares it. */
function unwrap (value: Json = null): Json {
  const [name, operand] = readDollarMember(value) ?? []
  return name === '$value' && operand !== undefined ? operand : value
}
