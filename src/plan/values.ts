/**
 * `values` of an insert: JSON → groups of rows that name the same columns.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { planRows } from './document.ts'
import { columnFault } from './name.ts'
import type { ConflictNode, Findings, InsertNode, PlanOptions, Predicate, RowGroup } from './nodes.ts'

/**
 * A group is an insert of its own within the statement: measured, 0.4 ms and 240 kB of the backend's memory each, and 10 ms and 6 MB in
 * a table of 1500 columns.
 */
export const maxGroups = 200

/**
 * `values` of an insert; undefined when a fault was found. `suppressed`: rows may turn out not to be inserted. Then rows of many shapes are
 * refused and not put together by shape, for it is not known which of them the answer leaves out.
 */
export function planValues (values: Json, suppressed: boolean, { findings, limits }: PlanOptions): readonly RowGroup[] | undefined {
  if (!Array.isArray(values)) return findings.fault('member_invalid', ['values'], 'values must be an array of row objects.')
  const rows = values as readonly Json[]
  if (rows.length === 0) return findings.fault('values_empty', ['values'], 'values must hold at least one row.')
  if (rows.length > limits.maxRows) return findings.fault('rows_limit', ['values'], `values holds ${rows.length} rows, at most ${limits.maxRows} are allowed.`)
  if (!checkRows(rows, findings)) {
    for (const [i, row] of rows.entries()) if (isObject(row)) planRows([row], [i], findings)
    return undefined
  }
  const runs = groupRuns(rows)
  const groups = runs.length <= maxGroups || suppressed ? runs : mergeGroups(runs)
  if (groups.length > maxGroups) {
    const limit = `at most ${maxGroups} are allowed. Rows one after the other that name the same columns are one group.`
    return findings.fault('rows_limit', ['values'], `The rows name different columns, in ${groups.length} groups; ${limit}`)
  }
  // All rows together are the array as it was sent, which need not be written again.
  const rowsAt = (positions: readonly number[]): readonly JsonObject[] => groups.length === 1 ? rows : positions.map(i => rows[i] as JsonObject)
  return groups.map(({ columns, positions }) => ({ columns, positions, rows: planRows(rowsAt(positions), positions, findings) }))
}

/**
 * Every group repeats what an insert has beside its rows. Measured: 500 groups with 1600 computed values each, a body of 39 kB, were more
 * than a process could write; 50 with 100 each 1.3 s and 570 MB of the backend in a table of 1500 columns.
 */
export const maxRepetition = 5000

/** Refuses rows of many shapes beside a long `on_conflict` or `returning`. */
export function checkRepetition (groups: readonly RowGroup[] | undefined, conflict: ConflictNode | undefined, output: InsertNode['output'], findings: Findings): void {
  if (groups === undefined || groups.length === 1) return
  const parts = (output?.length ?? 0) + (conflict?.update === undefined ? 0 : conflict.update.set.length + countConditions(conflict.update.where))
  if (groups.length * parts <= maxRepetition) return
  const limit = `that times the ${parts} parts of on_conflict and returning is more than ${maxRepetition}.`
  findings.fault('rows_limit', ['values'], `The rows name different columns, in ${groups.length} groups; ${limit}`)
}

function countConditions (predicates: readonly Predicate[]): number {
  return predicates.reduce((sum, predicate) => sum + (predicate.kind === 'condition' ? 1 : countConditions(predicate.kind === 'not' ? [predicate.of] : predicate.of)), 0)
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
