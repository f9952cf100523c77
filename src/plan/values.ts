/**
 * Rows and values of insert and update: JSON → one JSON text cut at its references. Types of columns are PostgreSQL's business.
 */
import { randomUUID } from 'node:crypto'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { checkColumn } from './name.ts'
import type { Findings, JsonDocument, Path, PlanLimits, Reference, RowGroup } from './nodes.ts'

// Stands for reference number n while JSON.stringify writes the document; not guessable, so no data can look like one.
const placeholder = `reference-${randomUUID()}-`
const placeholders = new RegExp(`"${placeholder}\\d+"`)

const tooManyColumns = `At most ${maxColumns} columns can be named.`

/** A group is an insert of its own within the statement: measured, 240 kB of the backend's memory and 0.4 ms each. */
const maxGroups = 500

/** `values` of an insert; undefined when a fault was found. */
export function planValues (values: Json, findings: Findings, limits: PlanLimits): readonly RowGroup[] | undefined {
  if (!Array.isArray(values)) return findings.fault('member_invalid', ['values'], 'values must be an array of row objects.')
  const rows = values as readonly Json[]
  if (rows.length === 0) return findings.fault('values_empty', ['values'], 'values must hold at least one row.')
  if (rows.length > limits.maxRows) return findings.fault('rows_limit', ['values'], `values holds ${rows.length} rows, at most ${limits.maxRows} are allowed.`)
  if (!checkRows(rows, findings)) {
    for (const [i, row] of rows.entries()) if (isObject(row)) planRows([row], [i], findings)
    return undefined
  }
  const runs = groupRuns(rows)
  const groups = runs.length <= maxGroups ? runs : mergeGroups(runs)
  if (groups.length > maxGroups) return findings.fault('rows_limit', ['values'], `The rows name columns in ${groups.length} combinations, at most ${maxGroups} are allowed.`)
  return groups.map(({ columns, positions }) => ({ columns, positions, rows: planRows(positions.map(i => rows[i] as JsonObject), positions, findings) }))
}

interface Group { readonly columns: readonly string[], readonly positions: number[] }

/** Rows one after the other that name the same columns. */
function groupRuns (rows: readonly JsonObject[]): Group[] {
  const groups: Group[] = []
  let group: Group | undefined
  let last: readonly string[] = []
  for (const [position, row] of rows.entries()) {
    const names = Object.keys(row)
    // Most rows name their columns in the order of the row before: then nothing is sorted.
    if (group !== undefined && (sameList(names, last) || sameList(names.toSorted(), group.columns))) group.positions.push(position)
    else groups.push(group = { columns: names.toSorted(), positions: [position] })
    last = names
  }
  return groups
}

function sameList (a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i])
}

/** All rows that name the same columns. They are inserted together, so what a sequence gives them no longer follows their order. */
function mergeGroups (groups: readonly Group[]): Group[] {
  const merged = new Map<string, Group>()
  for (const group of groups) {
    const shape = JSON.stringify(group.columns)
    const known = merged.get(shape)
    if (known === undefined) merged.set(shape, group)
    else for (const position of group.positions) known.positions.push(position)
  }
  return [...merged.values()]
}

/** `set` of an update; undefined when a fault was found. */
export function planSet (set: Json, findings: Findings): { columns: readonly string[], set: JsonDocument } | undefined {
  if (!isObject(set)) return findings.fault('member_invalid', ['set'], 'set must be an object of column → new value.')
  const columns = Object.keys(set)
  if (columns.length === 0) return findings.fault('set_empty', ['set'], 'set must name at least one column.')
  if (columns.length > maxColumns) return findings.fault('member_invalid', ['set'], tooManyColumns)
  for (const column of columns) {
    checkColumn(column, ['set', column], findings)
    refuseModifier(set[column] as Json, ['set', column], findings)
  }
  return { columns, set: planDocument(set, references => replaceStrings(set, ['set'], findings, references)) }
}

function planRows (rows: readonly JsonObject[], positions: readonly number[], findings: Findings): JsonDocument {
  return planDocument(rows, references => rows.map((row, i) => replaceStrings(row, ['values', positions[i] as number], findings, references)))
}

/** An object with one key that begins with `$` computes a new value; none is known yet, and as data it would change its meaning later. */
function refuseModifier (value: Json, path: Path, findings: Findings): void {
  if (!isObject(value)) return
  const [key, ...more] = Object.keys(value)
  if (key?.startsWith('$') === true && more.length === 0) findings.fault('member_invalid', [...path, key], `There is no modifier "${key}".`)
}

/** Writes `value` as JSON text. Numbers keep their source text, references become cuts; `replace` is asked only when there may be some. */
function planDocument (value: Json, replace: (references: Reference[]) => Json): JsonDocument {
  const text = JSON.stringify(value)
  if (!text.includes('"$')) return { kind: 'document', pieces: [text], references: [] }
  const references: Reference[] = []
  const cut = JSON.stringify(replace(references))
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
  if (seen.size <= maxColumns) return good
  findings.fault('member_invalid', ['values'], tooManyColumns)
  return false
}
