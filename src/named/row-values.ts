/**
 * The values of rows of a parameter: as data that contains no references, and as the fields that
 * operations read.
 */
import { has, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import { shapeOf } from '../plan/document.ts'
import type { ColumnPath } from '../plan/nodes.ts'
import type { RowsDocument } from '../plan/plan.ts'
import { isData } from '../plan/reference.ts'
import type { JsonShape } from '../plan/shape.ts'
import { isNested } from '../plan/value-text.ts'

type Rows = readonly JsonObject[]

/** The shape of a value in which no string is a reference. */
export function shapeOfData (value: Json): JsonShape {
  return isNested(value) ? shapeOf(escape(value)) : 'scalar'
}

export function escapeRows (rows: Rows): Rows {
  return escape(rows) as Rows
}

/** Escapes strings that would be read as references. Returns the value itself if it has none. */
function escape (value: Json): Json {
  if (typeof value === 'string') return isData(value) ? value : `$${value}`
  if (Array.isArray(value)) {
    const items = value as readonly Json[]
    const escaped = items.map(escape)
    return escaped.some((item, i) => item !== items[i]) ? escaped : value
  }
  if (!isObject(value)) return value
  const escaped = Object.keys(value).flatMap(key => {
    const item = value[key] as Json
    const changed = escape(item)
    return changed === item ? [] : [[key, changed] as const]
  })
  return escaped.length === 0 ? value : { ...value, ...Object.fromEntries(escaped) }
}

/** The values of the fields of a row. A missing one is null. Names are those of `fieldName`. */
export function readFields (row: JsonObject, fields: RowsDocument['fields']): JsonObject {
  const read: Record<string, Json> = {}
  for (const { name, path } of fields) read[name] = readValue(row, path)
  return read
}

/** Whether no field of a row is an object or an array. */
export function hasOnlyScalars (fields: JsonObject): boolean {
  for (const name in fields) if (isNested(fields[name] as Json)) return false
  return true
}

/** Reads a value as PostgreSQL does with `->` and `->>`. */
function readValue (row: JsonObject, { column, keys, resultType }: ColumnPath): Json {
  let value = readStep(row, column)
  for (const key of keys) value = readStep(value, key)
  if (resultType !== 'text' || value === null || typeof value === 'string') return value
  return writeJson(value)
}

/** A number is a position in an array, from its end if it is negative. */
function readStep (value: Json, key: string | number): Json {
  if (typeof key === 'number') {
    return Array.isArray(value) ? (value as readonly Json[]).at(key) ?? null : null
  }
  return isObject(value) && has(value, key) ? value[key] as Json : null
}
