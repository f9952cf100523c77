/**
 * Plans values that an operation stores: the rows of an insert, or the new values of an update.
 * References and issues are found at once; a statement writes the values one by one or together.
 */
import { isNested, type Json, type JsonObject } from '../json/parse.ts'
import type { PlanContext } from './context.ts'
import {
  documentOf,
  hasReference,
  mayRefer,
  placeholderOf,
  planDocument,
  readNumber,
  replaceNumbers
} from './document.ts'
import type { Cell, JsonDocument, Reference, RowGroup, StoredJson } from './nodes.ts'
import { isValue } from './reference.ts'

/** Maximum number of rows whose values are written one by one. */
export const MAX_CELL_ROWS = 16

/** The name of a field of a row, which PostgreSQL gives to a field of ROW(…) too. */
export function fieldName (position: number): string {
  return `f${position + 1}`
}

/** Stores objects of values. */
export function storeObjects (
  objects: ReadonlyArray<ReadonlyArray<readonly [name: string, value: JsonDocument]>>
): StoredJson {
  const references: Reference[] = []
  const join = ({ value, references: own }: JsonDocument): Json => {
    if (own.length === 0) return value
    const { length } = references
    for (const reference of own) references.push(reference)
    return length === 0
      ? value
      : replaceNumbers(value, number => placeholderOf(length + number))
  }
  const value = objects.map(members =>
    Object.fromEntries(members.map(([name, member]) => [name, join(member)])))
  return { kind: 'document', value, references, inBulk: objects.length > MAX_CELL_ROWS }
}

/** Stores rows that are a value of the batch, or a parameter: the plan does not contain them. */
export function storeWhole (reference: Reference): StoredJson {
  return { ...documentOf(reference), inBulk: true }
}

/** Stores rows in which every string is data. */
export function storeData (objects: readonly JsonObject[]): StoredJson {
  const inBulk = objects.length > MAX_CELL_ROWS
  return { kind: 'document', value: objects, references: [], inBulk }
}

/** Plans rows of `values`, at these `positions`. */
export function planRows (
  objects: readonly JsonObject[],
  positions: RowGroup['positions'],
  context: PlanContext
): StoredJson {
  const inBulk = objects.length > MAX_CELL_ROWS
  // Only all of many rows together have a slot; see readRows.
  if (inBulk && !mayRefer(objects)) return storeData(objects)
  return storeObjects(objects.map((object, i) => Object.entries(object).map(([column, value]) => {
    const path = ['values', positions[i] as number, column]
    return [column, planDocument(value, { context, path })]
  })))
}

/** The values of each row by column; undefined: a statement takes the rows together. */
export type Cells = ReadonlyArray<ReadonlyMap<string, Cell>>

export function readCells ({ value, references, inBulk }: StoredJson): Cells | undefined {
  const objects = value as readonly JsonObject[]
  return inBulk
    ? undefined
    : objects.map(object => new Map(Object.entries(object).map(([column, cell]) =>
      [column, readCell(cell, references)])))
}

/** The value of a column, in which strings stand for these references. */
function readCell (value: Json, references: readonly Reference[]): Cell {
  const number = readNumber(value)
  if (number === undefined) {
    if (!isNested(value) || !hasReference(value)) return { kind: 'literal', value }
    const own: Reference[] = []
    const copied = replaceNumbers(value, used =>
      placeholderOf(own.push(references[used] as Reference) - 1))
    return { kind: 'document', value: copied, references: own }
  }
  return cellOf(references[number] as Reference)
}

/** A value that is a reference as a whole. That of a parameter is a value of the batch. */
export function cellOf (reference: Reference): Cell {
  const { parameter } = reference
  return parameter === undefined ? reference : { kind: 'literal', position: parameter.position }
}

/**
 * Returns the references that values of a column are as a whole. Undefined: its values are only
 * scalars, which every type can store.
 */
export function findReferences (
  { value, references }: JsonDocument,
  column: string
): readonly Reference[] | undefined {
  const objects = value as readonly JsonObject[]
  let found: Reference[] | undefined
  // By index: an iterator would create an object for each of many thousand values.
  for (let i = 0; i < objects.length; i++) {
    const value = objects[i]?.[column] as Json
    const number = readNumber(value)
    const reference = number === undefined ? undefined : references[number]
    const isSlot = reference?.parameter?.isNested
    if (reference === undefined ? !isNested(value) : isSlot === false) continue
    found ??= []
    if (reference !== undefined && isSlot === undefined && isValue(reference)) found.push(reference)
  }
  return found
}
