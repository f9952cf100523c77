/**
 * Finds where an operation stores a value. If PostgreSQL cannot convert a value, it does not name
 * the column, but quotes the value. Values of conditions are not searched: PostgreSQL reports the
 * number of their parameter. Also, a caller who puts thousands of guesses into a condition could
 * learn a value of another row that a view cannot convert.
 */
import { modifiers } from '../../schemas/modifier.ts'
import {
  isNested,
  isObject,
  type Json,
  type JsonObject
} from '../json/parse.ts'
import { readDollarMember, replaceNumbers } from './document.ts'
import type {
  Assignment,
  JsonDocument,
  PlanNode,
  Reference,
  RowField,
  ValuePath
} from './nodes.ts'
import { sourceOf } from './source.ts'

export interface ValuePlace {
  readonly column: string
  /** The position of the row in `values`. */
  readonly row?: number | undefined
  /** The path of the operand of a condition in its operation. */
  readonly at?: ValuePath | undefined
}

/** A stored value, or one that the operation reads in rows of a parameter. */
interface StoredValue extends ValuePlace {
  readonly value: Json
}

/** What is known about the values of a request. */
export interface KnownValues {
  /** The position in `values` of the row that fails. */
  readonly row?: number | undefined
  /** The column of the value. */
  readonly column?: string | undefined
  /** The values of the batch, by their positions. */
  readonly values?: readonly Json[] | undefined
  /** Whether its rows are those of an upload, which are not kept. */
  readonly isUpload?: boolean | undefined
  /**
   * Whether the type of a column may refuse a text. Otherwise its values would show whether they
   * are equal to a text that the role cannot read. Undefined: each may.
   */
  readonly refusesText?: ((column: string) => boolean) | undefined
  /** Reads the value of a reference to an earlier operation; undefined: it is not known. */
  readonly readReference: (reference: Reference) => Json | undefined
}

/**
 * Returns the place of the stored value with this text, or undefined if there is none or if several
 * columns have it. Several rows may have it in the same column. Then the row is named only if all
 * of them are equally wrong: the text is the whole value. Values of the rows of an upload are not
 * known. None is returned if a reference that is not stored, such as that of a condition, may have
 * the text.
 */
export function findValue (
  node: PlanNode,
  text: string,
  { row, column, refusesText = () => true, ...known }: KnownValues
): ValuePlace | undefined {
  const mayHave = (value: Json | undefined): boolean => value === undefined || hasValue(value, text)
  let isUnknown = listReferences(node).some(reference => mayHave(known.readReference(reference)))
  const read = createReader(known, () => {
    isUnknown = true
  })
  const all = storedValues(node, read).filter(({ column, value }) =>
    refusesText(column) && hasValue(value, text))
  if (isUnknown) return undefined
  const found = all.filter(value => (row === undefined || [row, undefined].includes(value.row)) &&
    (column === undefined || value.column === column))
  const [first] = found
  if (first === undefined || found.some(({ column }) => column !== first.column)) return undefined
  const isCertain = found.every(value => value.row === first.row || isWhole(value, text))
  return isCertain ? first : { column: first.column }
}

/** A row of `values`, with its values by column. */
interface StoredRow {
  readonly position: number
  readonly values: JsonObject
}

/**
 * Returns the rows of `values` as they are stored. Returns none if there are others, or if one of
 * them refers to a value that is not known. Operands of modifiers are left out.
 */
export function storedRows (
  node: PlanNode,
  known: KnownValues
): readonly StoredRow[] {
  let isUnknown = false
  const read = createReader(known, () => {
    isUnknown = true
  })
  const rows = rowsOf(node, read, isOperand)
  return isUnknown && rows.length > 1 ? [] : rows
}

function isOperand ({ modifier }: RowField): boolean {
  return modifier !== undefined && modifier !== '$value'
}

/** Reads the rows of `values`, without the fields that are left out. */
function rowsOf (
  node: PlanNode,
  read: ReadReference,
  isLeftOut: (field: RowField) => boolean = () => false
): readonly StoredRow[] {
  if (node.kind !== 'insert' && node.kind !== 'bulk_update') return []
  return node.groups.flatMap(group => readRows(group.rows, read).map((row, i) => {
    // Rows that the plan does not contain have no positions of their own.
    const position = group.positions[i] ?? i
    if (!('fields' in group)) return { position, values: row }
    const named = group.fields.filter(field => !isLeftOut(field))
      .map(({ name, column }) => [column, row[name] as Json] as const)
    return { position, values: Object.fromEntries(named) }
  }))
}

/** Members of a node whose references are among the stored values. */
const STORED: ReadonlySet<string> = new Set(['groups', 'set', 'computed'])

/** The references to earlier operations that are not stored: in conditions, pages and sources. */
function listReferences (part: unknown): readonly Reference[] {
  if (typeof part !== 'object' || part === null) return []
  if ('kind' in part && part.kind === 'reference') {
    return (part as Reference).parameter === undefined ? [part as Reference] : []
  }
  if ('kind' in part && part.kind === 'document') {
    return listReferences((part as JsonDocument).references)
  }
  return Object.entries(part).flatMap(([name, value]) =>
    STORED.has(name) ? [] : listReferences(value))
}

function isWhole ({ row, value }: StoredValue, text: string): boolean {
  return row !== undefined && !isNested(value) && hasValue(value, text)
}

/** Returns the modifier that an insert stores in a column as data: `$inc` of `{"$inc": 1}`. */
export function findModifier (node: PlanNode, { column, row }: ValuePlace): string | undefined {
  const rows = node.kind === 'insert' ? rowsOf(node, () => null) : []
  return rows.filter(({ position }) => row === undefined || position === row)
    .map(({ values }) => readDollarMember(values[column] ?? null)?.[0])
    .find(name => name !== undefined && Object.hasOwn(modifiers, name))
}

/** All new values of an operation, without the rows of an insert. */
export function assignmentsOf (node: PlanNode): readonly Assignment[] {
  switch (node.kind) {
    case 'bulk_update':
      return node.groups.flatMap(({ fields, computed }) => [
        ...fields.flatMap(({ column, modifier }) =>
          modifier === undefined ? [] : [{ column, modifier, operand: undefined }]),
        ...computed
      ])
    case 'update':
      return node.set
    case 'insert':
      return [...node.query?.set ?? [], ...node.conflict?.update?.set ?? []]
    default:
      return []
  }
}

type ReadReference = (reference: Reference) => Json

/** `onUnknown`: called for a value that is not known, which is null then. */
function createReader (
  { values = [], isUpload = false, readReference }: KnownValues,
  onUnknown: () => void
): ReadReference {
  return reference => {
    const { parameter } = reference
    const isUnknown = isUpload && parameter?.rows !== undefined
    const value = parameter === undefined
      ? readReference(reference)
      : isUnknown ? undefined : values[parameter.position] ?? null
    if (value === undefined) onUnknown()
    return value ?? null
  }
}

function storedValues (node: PlanNode, read: ReadReference): readonly StoredValue[] {
  const source = sourceOf(node)
  return [
    ...source?.kind === 'rows'
      ? readRows(source.document, read).flatMap((values, row) =>
        source.fields.map(({ name, path: { column } }) =>
          ({ column, value: values[name] ?? null, row })))
      : [],
    ...rowsOf(node, read).flatMap(({ position: row, values }) =>
      Object.entries(values).map(([column, value]) => ({ column, value, row }))),
    ...assignmentsOf(node).flatMap(({ column, operand }) => {
      if (operand?.kind === 'reference') return [{ column, value: read(operand) }]
      return operand?.kind === 'document' ? [{ column, value: readDocument(operand, read) }] : []
    })
  ]
}

/** Rows of an upload are not known. */
function readRows (rows: JsonDocument, read: ReadReference): readonly JsonObject[] {
  return (readDocument(rows, read) ?? []) as readonly JsonObject[]
}

/** The JSON of a document with the values of its references. */
function readDocument ({ value, references }: JsonDocument, read: ReadReference): Json {
  return replaceNumbers(value, number => read(references[number] as Reference))
}

function hasValue (value: Json, text: string): boolean {
  if (value === null) return false
  if (Array.isArray(value)) return (value as readonly Json[]).some(item => hasValue(item, text))
  if (isObject(value)) return Object.values(value).some(item => hasValue(item, text))
  return (typeof value === 'string' ? value : JSON.stringify(value)) === text
}
