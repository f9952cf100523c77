/**
 * Plans values that an operation stores: the rows of an insert, or the new values of an update.
 * References and issues are found at once; a statement writes the values one by one or together.
 */
import { isNested, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { Path, PlanContext } from './context.ts'
import {
  hasReference,
  placeholderOf,
  readNumber,
  referToValue,
  replaceNumbers,
  replaceStrings
} from './document.ts'
import type { Cell, JsonDocument, Reference, RowGroup, StoredJson } from './nodes.ts'
import { isValue } from './reference.ts'

/** Maximum number of rows whose values are written one by one. */
export const MAX_CELL_ROWS = 16

export interface DocumentMember {
  readonly value: Json
  readonly path: Path
}

/** The name of a field of `planFields`, which PostgreSQL gives to a field of ROW(…) too. */
export function fieldName (position: number): string {
  return `f${position + 1}`
}

/** Plans objects, whose fields have values with their own paths in the request. */
export function planFields (
  rows: ReadonlyArray<readonly DocumentMember[]>,
  context: PlanContext
): StoredJson {
  const objects = rows.map(members =>
    Object.fromEntries(members.map(({ value }, i) => [fieldName(i), value])))
  return planObjects(objects, context, (i, _, member) => rows[i]?.[member]?.path as Path)
}

/** Plans rows of `values`, at these `positions`. */
export function planRows (
  objects: readonly JsonObject[],
  positions: RowGroup['positions'],
  context: PlanContext
): StoredJson {
  return planObjects(objects, context, (i, column) => ['values', positions[i] as number, column])
}

/** Stores rows in which every string is data. */
export function storeData (objects: readonly JsonObject[]): StoredJson {
  const inBulk = objects.length > MAX_CELL_ROWS
  return { kind: 'document', value: objects, references: [], inBulk }
}

/** `pathOf`: returns the path of a value in the request. */
function planObjects (
  objects: readonly JsonObject[],
  context: PlanContext,
  pathOf: (row: number, column: string, member: number) => Path
): StoredJson {
  const references: Reference[] = []
  const replaceValue = (value: Json, path: Path): Json => {
    const position = context.findSlot(path)
    return position === undefined
      ? replaceStrings(value, path, { context, references })
      : placeholderOf(references.push(referToValue(position, isNested(value))) - 1)
  }
  const inBulk = objects.length > MAX_CELL_ROWS
  // Only all of many rows together have a slot; see readRows.
  if (inBulk && !writeJson(objects).includes('"$')) return storeData(objects)
  const value = objects.map((object, i) =>
    Object.fromEntries(Object.entries(object).map(([column, value], member) =>
      [column, replaceValue(value, pathOf(i, column, member))])))
  return { kind: 'document', value, references, inBulk }
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
