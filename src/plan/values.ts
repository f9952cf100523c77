/**
 * Rows and values of insert and update: JSON → one JSON text cut at its references. Types of columns are PostgreSQL's business.
 */
import { randomUUID } from 'node:crypto'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { checkColumn } from './name.ts'
import type { Findings, InsertMixed, InsertRows, JsonDocument, Path, PlanLimits, Reference } from './nodes.ts'

// Stands for reference number n while JSON.stringify writes the document; not guessable, so no data can look like one.
const placeholder = `reference-${randomUUID()}-`
const placeholders = new RegExp(`"${placeholder}\\d+"`)

/** `values` of an insert; undefined when a fault was found. */
export function planValues (values: Json, findings: Findings, limits: PlanLimits): InsertRows | InsertMixed | undefined {
  if (!Array.isArray(values)) return findings.fault('member_invalid', ['values'], 'values must be an array of row objects.')
  const rows = values as readonly Json[]
  if (rows.length === 0) return findings.fault('values_empty', ['values'], 'values must hold at least one row.')
  if (rows.length > limits.maxRows) return findings.fault('rows_limit', ['values'], `values holds ${rows.length} rows, at most ${limits.maxRows} are allowed.`)
  if (!checkRows(rows, findings)) {
    for (const [i, row] of rows.entries()) if (isObject(row)) planDocument(row, ['values', i], findings)
    return undefined
  }
  const columns = Object.keys(rows[0])
  if (columns.length > 0 && rows.every(row => sameKeys(row, columns))) {
    const document = planDocument(rows, ['values'], findings)
    return { kind: 'rows', columns, rows: document }
  }
  return { kind: 'mixed', rows: rows.map((row, i) => ({ columns: Object.keys(row), row: planDocument(row, ['values', i], findings) })) }
}

/** `set` of an update; undefined when a fault was found. */
export function planSet (set: Json, findings: Findings): { columns: readonly string[], set: JsonDocument } | undefined {
  if (!isObject(set)) return findings.fault('member_invalid', ['set'], 'set must be an object of column → new value.')
  const columns = Object.keys(set)
  if (columns.length === 0) return findings.fault('set_empty', ['set'], 'set must name at least one column.')
  for (const column of columns) checkColumn(column, ['set', column], findings)
  return { columns, set: planDocument(set, ['set'], findings) }
}

/** Writes `value` as JSON text. Numbers keep their source text, references become cuts. */
function planDocument (value: Json, path: Path, findings: Findings): JsonDocument {
  const text = JSON.stringify(value)
  if (!text.includes('"$')) return { kind: 'document', pieces: [text], references: [] }
  const references: Reference[] = []
  const cut = JSON.stringify(replaceStrings(value, path, findings, references))
  return { kind: 'document', pieces: cut.split(placeholders), references }
}

/** A copy of `value` with placeholders for references and `$$` unescaped. */
function replaceStrings (value: Json, path: Path, findings: Findings, references: Reference[]): Json {
  if (typeof value === 'string') {
    const meaning = findings.string(value, path)
    return typeof meaning === 'string' ? meaning : `${placeholder}${references.push(meaning) - 1}`
  }
  if (Array.isArray(value)) return value.map((item: Json, i) => replaceStrings(item, [...path, i], findings, references))
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replaceStrings(item, [...path, key], findings, references)]))
}

function checkRows (rows: readonly Json[], findings: Findings): rows is readonly [JsonObject, ...JsonObject[]] {
  let good = true
  const seen = new Set<string>()
  for (const [i, row] of rows.entries()) {
    if (!isObject(row)) {
      findings.fault('member_invalid', ['values', i], 'A row must be an object of column → value.')
      good = false
    } else {
      for (const column of Object.keys(row)) {
        if (seen.has(column)) continue
        seen.add(column)
        good = checkColumn(column, ['values', i, column], findings) && good
      }
    }
  }
  return good
}

function sameKeys (row: JsonObject, columns: readonly string[]): boolean {
  return Object.keys(row).length === columns.length && columns.every(column => has(row, column))
}
