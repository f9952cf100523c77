/**
 * Finds where an operation stores a value. If PostgreSQL cannot convert a value, it does not name
 * the column, but quotes the value. Values of conditions are not searched: PostgreSQL reports the
 * number of their parameter. And with thousands of guesses in a condition, a caller could find out
 * a value of another row that a view cannot convert.
 */
import { modifiers } from '../../schemas/modifier.ts'
import { isObject, parseJson, type Json, type JsonObject } from '../json/parse.ts'
import { readDollarMember } from './document.ts'
import type { Assignment, JsonDocument, NewValues, PlanNode, StoredJson } from './nodes.ts'

export interface ValuePlace {
  readonly column: string
  /** The position of the row in `values`. */
  readonly row?: number | undefined
}

/**
 * Returns the place of the first stored value with this trimmed text, or undefined if there is none
 * or if several columns have it. Values of references are not part of the operation.
 */
export function findValue (node: PlanNode, text: string): ValuePlace | undefined {
  const places = [
    ...findStored(node, text),
    ...assignmentsOf(node)
      .filter(({ operand }) =>
        operand?.kind === 'document' && hasValue(parseDocument(operand), text)
      )
      .map(({ column }) => ({ column }))
  ]
  const [first] = places
  return places.every(({ column }) => column === first?.column) ? first : undefined
}

/** Whether `values`, `set` or `columns` has a value for a column. */
export function storesColumn (node: PlanNode, column: string): boolean {
  const values = newValuesOf(node)
  if (values !== undefined) return values.columns.includes(column)
  return node.kind === 'insert' && node.groups.some(({ columns }) => columns.includes(column))
}

/** The modifier that `values` has in a column, as data: `$inc` of `{"$inc": 1}`. */
export function findModifier (node: PlanNode, { column, row }: ValuePlace): string | undefined {
  const groups = node.kind === 'insert' ? node.groups : []
  const values = groups.flatMap(({ positions, rows }) =>
    parseRows(rows).filter((_, i) => row === undefined || positions[i] === row)
  ).map(values => values[column])
  return values
    .map(value => value === undefined ? undefined : readDollarMember(value)?.[0])
    .find(name => name !== undefined && Object.hasOwn(modifiers, name))
}

/** All computed values of an operation. */
export function assignmentsOf (node: PlanNode): readonly Assignment[] {
  const computed = newValuesOf(node)?.computed ?? []
  return node.kind === 'insert' ? [...computed, ...node.conflict?.update?.set ?? []] : computed
}

/** The new values that are the same for all rows. */
function newValuesOf (node: PlanNode): NewValues | undefined {
  if (node.kind === 'update') return node
  return node.kind === 'insert' ? node.query : undefined
}

function findStored (node: PlanNode, text: string): readonly ValuePlace[] {
  const values = newValuesOf(node)
  if (values !== undefined) {
    return columnsWith(parseDocument(values.set.document) as JsonObject, text)
  }
  if (node.kind !== 'insert') return []
  return node.groups.flatMap(({ positions, rows }) =>
    parseRows(rows).flatMap((row, i) => columnsWith(row, text, positions[i]))
  )
}

function parseRows ({ document }: StoredJson): readonly JsonObject[] {
  return parseDocument(document) as readonly JsonObject[]
}

function columnsWith (object: JsonObject, text: string, row?: number): readonly ValuePlace[] {
  return Object.entries(object)
    .filter(([, value]) => hasValue(value, text))
    .map(([column]) => ({ column, row }))
}

/** The JSON of a document, in which references are null. */
function parseDocument ({ pieces }: JsonDocument): Json {
  return parseJson(Buffer.from(pieces.join('null')))
}

function hasValue (value: Json, text: string): boolean {
  if (Array.isArray(value)) return (value as readonly Json[]).some(item => hasValue(item, text))
  if (isObject(value)) return Object.values(value).some(item => hasValue(item, text))
  return (typeof value === 'string' ? value.trim() : JSON.stringify(value)) === text
}
