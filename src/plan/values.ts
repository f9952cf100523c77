/**
 * Plans `values` of an insert: JSON → groups of rows that name the same columns.
 */
import { isJoining } from '../../schemas/modifier.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import type { PlanContext } from './context.ts'
import { referToValue } from './document.ts'
import { flattenConditions } from './filter.ts'
import { findColumnProblem } from './name.ts'
import type { ConflictNode, OutputColumn, Reference, RowGroup, StoredJson } from './nodes.ts'
import {
  findInsertedParameter,
  isBracketedParameter,
  namesParameter,
  parameterName
} from './parameter-rows.ts'
import { referTo } from './reference.ts'
import { planRows, storeData, storeWhole } from './stored-values.ts'

/**
 * Maximum number of groups. A group is a separate INSERT within the statement. Measured: each
 * costs 0.4 ms and 240 kB of memory of the backend; 10 ms and 6 MB in a table of 1500 columns.
 */
export const maxGroups = 200

/**
 * Maximum number of groups times the parts that every group repeats. Measured with a body of 39 kB:
 * a process could not write 500 groups with 1600 computed values each. 50 groups with 100 each took
 * 1.3 s and 570 MB of the backend in a table of 1500 columns.
 */
export const maxRepetition = 5000

/** Rows next to each other that name the same columns. */
type Run = Pick<RowGroup, 'columns' | 'positions'>

/** Valid rows of `values`. `store` plans those of a group. */
interface InsertRows {
  readonly rows: readonly JsonObject[]
  readonly runs: readonly Run[]
  readonly store: (rows: readonly JsonObject[], positions: Run['positions']) => StoredJson
}

/** Reads `values` of an insert; returns undefined after an issue. */
export function readRows (values: Json, context: PlanContext): InsertRows | undefined {
  if (typeof values === 'string' && namesParameter(values, context)) {
    const name = parameterName(values)
    const parameter = findInsertedParameter(name, context)
    if (parameter === undefined) return undefined
    const { columns, data } = parameter.rows
    if (data !== undefined) return { rows: data, runs: findRuns(data), store: storeData }
    return wholeRows([], columns, referTo(name, parameter))
  }
  const rows = readRowList(values, context)
  if (rows === undefined) return undefined
  if (checkRows(rows, context)) {
    const position = context.findSlot(['values'])
    if (position !== undefined) {
      return wholeRows(rows, Object.keys(rows[0]).toSorted(), referToValue(position, true))
    }
    const store: InsertRows['store'] = (own, positions) => planRows(own, positions, context)
    return { rows, runs: findRuns(rows), store }
  }
  // Also reports the invalid references in all rows.
  for (const [i, row] of rows.entries()) {
    if (isObject(row)) planRows([row], [i], context)
  }
  return undefined
}

/** Rows that the plan does not contain, which name the same columns. */
function wholeRows (
  rows: readonly JsonObject[],
  columns: readonly string[],
  reference: Reference
): InsertRows {
  return { rows, runs: [{ columns, positions: [] }], store: () => storeWhole(reference) }
}

/** Reads `values` as a list that is not empty and has at most MAX_ROWS elements. */
export function readRowList (values: Json, context: PlanContext): readonly Json[] | undefined {
  const path = ['values']
  const { maxRows } = context.batch.limits
  if (!Array.isArray(values)) {
    if (isBracketedParameter(values, { context, path })) return undefined
    return context.addIssue(
      'member_invalid',
      path,
      typeof values === 'string' && namesParameter(values, context)
        ? 'Beside "key", "values" must be an array. To use rows of a parameter, replace both ' +
          'with "set" and "from": {"param": …, "on": …}.'
        : '"values" must be an array of rows, for example [{"sku": "apple"}].'
    )
  }
  const rows = values as readonly Json[]
  if (rows.length === 0) {
    return context.addIssue('values_empty', path, '"values" must have at least one row.')
  }
  if (rows.length > maxRows) {
    return context.addIssue(
      'rows_limit',
      path,
      `"values" has ${rows.length} rows; at most ${maxRows} are allowed (MAX_ROWS).`
    )
  }
  return rows
}

/** Whether all rows are objects of columns; adds an issue for each problem. */
export function checkRows (
  rows: readonly Json[],
  context: PlanContext
): rows is readonly [JsonObject, ...JsonObject[]] {
  let valid = true
  const seen = new Set<string>()
  for (const [i, row] of rows.entries()) {
    if (!isObject(row)) {
      context.addIssue(
        'member_invalid',
        ['values', i],
        'A row must be an object, for example {"sku": "apple"}.'
      )
      valid = false
    } else {
      for (const column of Object.keys(row)) {
        if (seen.has(column)) continue
        seen.add(column)
        const problem = findColumnProblem(column)
        if (problem === undefined) continue
        context.addIssue('member_invalid', ['values', i, column], problem)
        valid = false
      }
    }
  }
  if (seen.size <= maxColumns) return valid
  context.addIssue(
    'member_invalid',
    ['values'],
    `"values" names ${seen.size} columns; at most ${maxColumns} are allowed.`
  )
  return false
}

/** Divides rows where the columns that they name change. */
export function findRuns (rows: readonly JsonObject[]): readonly Run[] {
  const runs: Array<{ readonly columns: readonly string[], readonly positions: number[] }> = []
  let last: readonly string[] = []
  for (const [position, row] of rows.entries()) {
    const names = Object.keys(row)
    const run = runs.at(-1)
    // Most rows name their columns in the order of the previous row, so nothing is sorted.
    if (
      run !== undefined && (equalLists(names, last) || equalLists(names.toSorted(), run.columns))
    ) run.positions.push(position)
    else runs.push({ columns: names.toSorted(), positions: [position] })
    last = names
  }
  return runs
}

function equalLists (a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i])
}

/**
 * Divides rows into the groups that are inserted; returns undefined if there are too many.
 * `parts` is the number of parts that every group repeats, see countRepeatedParts.
 *
 * Each run is a group, so rows are inserted in the order of `values`. If there are too many runs,
 * all rows that name the same columns become one group. Then sequences do not follow the order of
 * `values`. Of two rows with the same key and `"do": "nothing"`, the one in the earlier group is
 * inserted.
 */
export function planRowGroups (
  { rows, runs, store }: InsertRows,
  parts: number,
  context: PlanContext
): readonly RowGroup[] | undefined {
  const max = Math.max(1, Math.min(maxGroups, Math.floor(maxRepetition / parts)))
  const groups = runs.length <= max ? runs : mergeRuns(runs)
  if (groups.length > max) {
    return context.addIssue('rows_limit', ['values'], describeLimit(groups.length, max, parts))
  }
  const named = groups.reduce((sum, { columns }) => sum + 1 + columns.length, 0)
  context.count(named + parts * groups.length, ['values'])
  return groups.map(({ columns, positions }) => {
    // Rows of a parameter are not in `values`.
    const [position = rows.length === 0 ? undefined : 0] = positions
    for (const column of columns) {
      const path = position === undefined ? ['values'] : ['values', position, column]
      context.nameStored(column, path)
    }
    const own = positions.map(i => rows[i] as JsonObject)
    return { columns, positions, rows: store(own, positions) }
  })
}

/** Merges all runs that name the same columns, in the order of their first rows. */
function mergeRuns (runs: readonly Run[]): readonly Run[] {
  const byColumns = Map.groupBy(runs, ({ columns }) => JSON.stringify(columns))
  return [...byColumns.values()].map(runs => ({
    columns: (runs[0] as Run).columns,
    positions: runs.flatMap(({ positions }) => positions)
  }))
}

function describeLimit (groups: number, max: number, parts: number): string {
  const reason = max < maxGroups
    ? ` with ${parts} values, conditions and columns in "on_conflict" and "returning"` +
      ' ("$append" and "$merge" count three times)'
    : ''
  return `The rows name ${groups} different sets of columns; ` +
    `at most ${max} are allowed${reason}. ` +
    'Name the same columns in more rows, or divide the rows among several operations.'
}

/** How many parts `$append` and `$merge` count as: their SQL also checks the types. */
const JOIN_PARTS = 3

/**
 * Counts the parts that every group repeats: new values and conditions of `on_conflict`, and
 * returned columns.
 */
export function countRepeatedParts (
  conflict: ConflictNode | undefined,
  output: readonly OutputColumn[] = []
): number {
  const update = conflict?.update
  if (update === undefined) return output.length
  const joins = update.set.filter(({ modifier }) => isJoining(modifier))
  return output.length + update.set.length + (JOIN_PARTS - 1) * joins.length +
    flattenConditions(update.where).length
}
