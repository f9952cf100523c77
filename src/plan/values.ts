/**
 * `values` of an insert: JSON → groups of rows that name the same columns.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { planRows } from './document.ts'
import { columnFault } from './name.ts'
import type {
  ConflictNode,
  PlanContext,
  OutputColumn,
  PlanOptions,
  Predicate,
  RowGroup
} from './nodes.ts'

/**
 * A group is an insert of its own within the statement. Measured: 0.4 ms and 240 kB of memory
 * of the backend each, and 10 ms and 6 MB in a table of 1500 columns.
 */
export const maxGroups = 200

/**
 * Every group repeats what an insert has beside its rows. Measured: 500 groups with 1600 computed
 * values each, a body of 39 kB, were more than a process could write; 50 with 100 each took 1.3 s
 * and 570 MB of the backend in a table of 1500 columns.
 */
export const maxRepetition = 5000

/** Checked rows of `values`. `runs` are the rows next to each other that name the same columns. */
export interface InsertRows {
  readonly rows: readonly JsonObject[]
  readonly runs: readonly Group[]
}

/** Checks `values` of an insert; undefined when a fault was found. */
export function readRows (values: Json, { findings, limits }: PlanOptions): InsertRows | undefined {
  if (!Array.isArray(values)) {
    return findings.fault('member_invalid', ['values'], 'values must be an array of row objects.')
  }
  const rows = values as readonly Json[]
  if (rows.length === 0) {
    return findings.fault('values_empty', ['values'], 'values must hold at least one row.')
  }
  if (rows.length > limits.maxRows) {
    return findings.fault(
      'rows_limit',
      ['values'],
      `values holds ${rows.length} rows, at most ${limits.maxRows} are allowed.`
    )
  }
  if (checkRows(rows, findings)) return { rows, runs: groupRuns(rows) }
  for (const [i, row] of rows.entries()) if (isObject(row)) planRows([row], [], [i], findings)
  return undefined
}

/**
 * Divides rows into the groups that are inserted; undefined when there are too many. `parts`: what
 * every group repeats, see countParts.
 *
 * Runs are inserted in the order of `values`. Where there are too many, all rows that name the same
 * columns become one group. Then sequences do not follow the order of `values`, and of two rows
 * with the same key and `"do": "nothing"` the one in the earlier group is inserted.
 */
export function planGroups (
  { rows, runs }: InsertRows,
  parts: number,
  findings: PlanContext
): readonly RowGroup[] | undefined {
  const most = Math.max(1, Math.min(maxGroups, Math.floor(maxRepetition / parts)))
  const groups = runs.length <= most ? runs : mergeGroups(runs)
  if (groups.length > most) {
    return findings.fault('rows_limit', ['values'], describeLimit(groups.length, most, parts))
  }
  // A single group is the array as it was sent, which need not be written again.
  return groups.map(({ columns, positions }) => {
    const own = groups.length === 1 ? rows : positions.map(i => rows[i] as JsonObject)
    return { columns, positions, rows: planRows(own, columns, positions, findings) }
  })
}

function describeLimit (groups: number, most: number, parts: number): string {
  const beside = `beside ${parts} values, conditions and columns of on_conflict and returning`
  return `The rows name ${groups} different sets of columns; ` +
    `at most ${most} are allowed${most < maxGroups ? ` ${beside}` : ''}. ` +
    'Name the same columns in more of the rows, or divide the rows among several operations.'
}

/** Counts what every group repeats: values and conditions of `on_conflict`, returned columns. */
export function countParts (
  conflict: ConflictNode | undefined,
  output: readonly OutputColumn[] = []
): number {
  const update = conflict?.update
  if (update === undefined) return output.length
  return output.length + update.set.length + countConditions(update.where)
}

function countConditions (predicates: readonly Predicate[]): number {
  return predicates.reduce(
    (sum, predicate) =>
      sum + (predicate.kind === 'condition'
        ? 1
        : countConditions(predicate.kind === 'not' ? [predicate.of] : predicate.of)),
    0
  )
}

interface Group {
  readonly columns: readonly string[]
  readonly positions: readonly number[]
}

function groupRuns (rows: readonly JsonObject[]): Group[] {
  const groups: Array<{ readonly columns: readonly string[], readonly positions: number[] }> = []
  let last: readonly string[] = []
  for (const [position, row] of rows.entries()) {
    const names = Object.keys(row)
    const group = groups.at(-1)
    // Most rows name their columns in the order of the row before: then nothing is sorted.
    if (
      group !== undefined && (sameList(names, last) || sameList(names.toSorted(), group.columns))
    ) group.positions.push(position)
    else groups.push({ columns: names.toSorted(), positions: [position] })
    last = names
  }
  return groups
}

function sameList (a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i])
}

/** Makes one group of all runs that name the same columns, in the order of their first rows. */
function mergeGroups (runs: readonly Group[]): readonly Group[] {
  const shapes = Map.groupBy(runs, ({ columns }) => JSON.stringify(columns))
  return [...shapes.values()].map(runs => ({
    columns: (runs[0] as Group).columns,
    positions: runs.flatMap(({ positions }) => positions)
  }))
}

function checkRows (
  rows: readonly Json[],
  findings: PlanContext
): rows is readonly [JsonObject, ...JsonObject[]] {
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
