/**
 * `values` of an insert: JSON → groups of rows that name the same columns.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { planRows } from './document.ts'
import { columnFault } from './name.ts'
import type { Findings, PlanLimits, RowGroup } from './nodes.ts'

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
        const fault = columnFault(column)
        if (fault === undefined) continue
        findings.fault('member_invalid', ['values', i, column], fault)
        good = false
      }
    }
  }
  if (seen.size <= maxColumns) return good
  findings.fault('member_invalid', ['values'], `At most ${maxColumns} columns can be named.`)
  return false
}
