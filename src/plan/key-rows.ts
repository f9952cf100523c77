/**
 * Plans `key` and `values` of an update: JSON → groups of rows that change the same columns in
 * the same way. Each group is a separate UPDATE within the statement.
 */
import { modifiers, type Modifier, type ModifierName } from '../../schemas/modifier.ts'
import { referenceAttempt } from '../../schemas/operand.ts'
import { has, isNumber, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { Place, PlanContext } from './context.ts'
import { documentOf, mayRefer, readDollarMember, referToValue } from './document.ts'
import type { Assignment, BulkUpdateGroup, JsonDocument, Single, StoredJson } from './nodes.ts'
import { planNewValue } from './set.ts'
import { MAX_CELL_ROWS, storeData, storeObjects, storeWhole } from './stored-values.ts'
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
  const read = (row: Json, i: number): readonly Row[] =>
    isObject(row) ? [readRow(row, i, { keys, context })] : []
  const alike = planAlikeRows(key, list, context)
  const first = list.slice(0, 1).flatMap(read)
  // The first of rows that are alike stands for all, unless each has an issue.
  const rows = alike !== undefined && context.batch.issues.isEmpty
    ? first
    : [...first, ...list.slice(1).flatMap((row, i) => read(row, i + 1))]
  checkDuplicates(rows, keys, context)
  const groups = [...Map.groupBy(rows, ({ cells }) =>
    cells.map(({ column, sign }) => `${column}\0${sign}`).join('\0')
  ).values()]
  const repeated = groups.reduce((sum, [row]) =>
    sum + (row as Row).cells.filter(({ sign }) => sign !== '').length + parts, 0)
  if (groups.length > maxGroups || (groups.length > 1 && repeated > maxRepetition)) {
    return context.addIssue('rows_limit', ['values'], describeLimit(groups.length, repeated))
  }
  const named = groups.reduce((sum, [row]) =>
    sum + 1 + keys.length + (row as Row).cells.length, 0)
  context.count(named + repeated, ['values'])
  return groups.map(group => planGroup(group, keys, { alike, context }))
}

/** Rows that the plan does not read one by one. Undefined: they have to be. */
function planAlikeRows (
  key: readonly KeyColumn[],
  list: readonly Json[],
  context: PlanContext
): StoredJson | undefined {
  if (list.length <= MAX_CELL_ROWS) return undefined
  const slot = context.findSlot(['values'])
  if (slot !== undefined) return storeWhole(referToValue(slot, true))
  const alike = readAlikeRows(key, list)
  return alike && storeData(alike.rows)
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

/**
 * Plans rows whose cells have the same columns and signs. `alike`: the rows for which a first one
 * stands.
 */
function planGroup (
  rows: readonly Row[],
  keys: readonly Key[],
  { alike, context }: { readonly alike: StoredJson | undefined, readonly context: PlanContext }
): BulkUpdateGroup {
  const { cells, position } = rows[0] as Row
  for (const { column } of cells) context.nameStored(column, ['values', position, column])
  // A single row computes its values as `set` does.
  const isSingle = rows.length === 1 && alike === undefined
  const own = cells.map(({ sign, modifier }) => sign === '' || (sign === modifier && !isSingle))
  return {
    fields: [
      ...keys.map(({ column, name }) => ({ name, column, modifier: undefined })),
      ...cells.filter((_, i) => own[i])
        .map(({ column, modifier }) => ({ name: column, column, modifier }))
    ],
    computed: cells.filter((_, i) => !own[i])
      .map(({ column, modifier, operand }) => ({ column, modifier, operand })),
    positions: alike === undefined ? rows.map(({ position }) => position) : [],
    rows: alike ?? storeObjects(rows.map(row => listMembers(row, keys, own)))
  }
}

/** The members of a row: its keys, and the cells that are its `own`. */
function listMembers (
  { keys, cells }: Row,
  named: readonly Key[],
  own: readonly boolean[]
): ReadonlyArray<readonly [name: string, value: JsonDocument]> {
  return [
    ...keys.map((value, i) => [(named[i] as Key).name, value] as const),
    ...cells.flatMap(({ column, document }, i) =>
      own[i] === true ? [[column, document as JsonDocument] as const] : [])
  ]
}

/**
 * Whether rows of an unchecked operation may have the same key. The operation may then have an
 * issue that depends on its values.
 */
export function hasEqualKeys (key: Json, rows: Json): boolean {
  const names = nameKeys(key)
  if (names === undefined || !Array.isArray(rows)) return true
  const texts = (rows as readonly Json[]).map(row =>
    isObject(row) ? writeJson(names.map(name => unwrap(row[name]))) : undefined
  )
  return new Set(texts).size < texts.length
}

/** The members that hold an unchecked key; undefined if it is invalid. */
function nameKeys (key: Json): readonly string[] | undefined {
  if (!Array.isArray(key)) return undefined
  const names = (key as readonly Json[]).map(item => isObject(item) ? item['as'] : item)
  return names.every(name => typeof name === 'string') ? names : undefined
}

/** The value of a key as `checkDuplicates` compares it. */
function unwrap (value: Json = null): Json {
  const [name, operand] = readDollarMember(value) ?? []
  return name === '$value' && operand !== undefined ? operand : value
}

/** Rows as one value of a batch. Its plan does not depend on their values. */
export interface AlikeRows {
  /** What the plan depends on. */
  readonly shape: string
  /** The operands of modifiers are the values of their members. */
  readonly rows: readonly JsonObject[]
}

/**
 * Reads unchecked rows that change the same columns in the same way, and have no references.
 * Undefined for others, and if a row has an issue that depends on its values.
 */
export function readAlikeRows (key: Json, rows: readonly Json[]): AlikeRows | undefined {
  const names = nameKeys(key)
  const members = Object.entries(rows[0] ?? {})
    .map(([name, value]) => [name, readKind(value as Json)] as const)
  if (names === undefined || members.some(([, kind]) => kind === undefined)) return undefined
  const own: JsonObject[] = []
  for (const row of rows) {
    const operands = isObject(row) ? readOperands(row, members) : undefined
    if (operands === undefined || names.some(name => operands[name] === null)) return undefined
    own.push(operands)
  }
  if (mayRefer(own) || hasEqualKeys(key, own)) return undefined
  return { shape: JSON.stringify(members.toSorted(([a], [b]) => a < b ? -1 : 1)), rows: own }
}

/** Returns a row with the operands of its modifiers, or undefined if it has other members. */
function readOperands (
  row: JsonObject,
  members: ReadonlyArray<readonly [name: string, kind: string | undefined]>
): JsonObject | undefined {
  if (Object.keys(row).length !== members.length) return undefined
  let changed: Record<string, Json> | undefined
  for (const [name, kind] of members) {
    if (!has(row, name)) return undefined
    const value = row[name] as Json
    if (readKind(value) !== kind) return undefined
    if (kind !== '') (changed ??= { ...row })[name] = readDollarMember(value)?.[1] as Json
  }
  return changed ?? row
}

/**
 * What the plan of a value in a row depends on: its modifier, and the kind of the operand.
 * Undefined: on the operand itself.
 */
function readKind (value: Json): string | undefined {
  const word = readDollarMember(value)
  if (word === undefined) return ''
  const [name, operand] = word
  const { reads }: Partial<Modifier> =
    Object.hasOwn(modifiers, name) ? modifiers[name as ModifierName] : {}
  const isWhole = reads === undefined || reads === 'column' || reads === 'first' ||
    (reads === 'nothing' && operand !== true)
  if (isWhole || operand === null) return undefined
  if (name === '$value') return name
  if (Array.isArray(operand)) return `${name} array`
  return `${name} ${isNumber(operand) ? 'number' : typeof operand}`
}
