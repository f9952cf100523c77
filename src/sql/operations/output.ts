/**
 * SQL for the output of an operation, also for whether a row is inserted or updated.
 */
import {
  constant,
  empty,
  identifier,
  join,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { isNested } from '../../plan/nested.ts'
import type {
  ColumnPath,
  OutputColumn,
  PlanNode,
  Predicate,
  SelectNode
} from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import { answersOnlyCount, isAllColumns, isUnchanged } from '../../plan/output.ts'
import type { Check } from '../statement/checks.ts'
import { raise } from '../statement/raised-error.ts'
import { tableName, unusedName } from '../statement/table.ts'
import {
  columnValue,
  comparableValue,
  typeOfOutput,
  type RowColumns
} from '../values/column.ts'
import type { TableColumns } from '../values/column-types.ts'
import type { CompileOptions } from '../values/context.ts'
import type { ComparedColumns } from '../values/operand.ts'
import { typeOfCast } from '../values/sources.ts'
import type { TypedValues } from '../values/typed-values.ts'

/** Columns 1 and 2 of each operation: when it began, and when its rows were ready. */
export const operationTimes: Fragment =
  sql`, pg_catalog.statement_timestamp(), pg_catalog.clock_timestamp()`

/**
 * The row of a table as a value of its row type, by default with the name `row`. Unlike `t.*` this
 * is one column for every table, even for a table without columns.
 */
export function wholeRow ({ table, row }: TypedValues, name = 'row'): Fragment {
  return sql`${row}.*::${tableName(table)} as ${identifier(name)}`
}

/** The JSON of a row of a table as `json`, and if it is read by others the row as `row`. */
export function jsonRow (values: TypedValues, isRead: boolean): Fragment {
  const json = sql`pg_catalog.to_json(${values.row}.*::${tableName(values.table)}) as json`
  return isRead ? sql`${wholeRow(values)}, ${json}` : json
}

const AGGREGATES = { count: sql`count`, sum: sql`sum`, avg: sql`avg`, min: sql`min`, max: sql`max` }

/** What an output column computes from the value of its path; `*` without a path. */
export function outputValue (
  { aggregate, cast, distinct }: OutputColumn,
  value: Fragment
): Fragment {
  const converted = cast === undefined ? value : sql`(${value})::${typeOfCast(cast).sql}`
  if (aggregate === undefined) return converted
  return sql`${AGGREGATES[aggregate]}(${distinct === true ? sql`distinct ` : empty}${converted})`
}

/** The output columns of a select, as `having` compares them. The row `o` has these columns. */
export function columnsOfOutput (
  output: readonly OutputColumn[],
  values: TypedValues
): ComparedColumns {
  const find = (name: string): OutputColumn | undefined =>
    output.find(column => column.name === name)
  return {
    row: sql`o`,
    typeOf: column => typeOfOutput(output, column, name => values.typeOf(name)),
    addParameterType (column) {
      const found = find(column)
      // No output column has this name, so it is a column of the table (`*`).
      const name = found === undefined ? column : found.path?.column
      if (name !== undefined) values.addParameterType(name)
    },
    // The type is that of the column that an output column returns, or of its expression.
    typed (path) {
      const column = path.resultType === 'column' ? find(path.column) : undefined
      if (column === undefined) return path
      if (isUnchanged(column)) return column.path
      const value = column.path === undefined
        ? sql`*`
        : comparableValue(column.path, values, sql`t`)
      const expression = outputValue(column, value)
      return { ...path, example: sql`(select ${expression} from ${tableName(values.table)} as t)` }
    }
  }
}

// Tells whether a row of an insert with `on_conflict` is new. PostgreSQL shows it only in part.
// Version 18 has `old`. Before that, `xmax` of a new row is 0, but not in a view and not everywhere
// in a partitioned table, and the role may be unable to read it.
//
// INSERT reads one row of its query at a time. The query first marks the row as inserted, in a
// setting. Then PostgreSQL inserts the row, or it finds and locks an existing one, evaluates the
// condition of the update, which marks the row as updated, and updates it. Last it evaluates
// `returning`, and then reads the next row. Measured on PostgreSQL 14 and 18: 1.5 us per row.

const SETTING = constant('oneflight.inserted')

/** A condition that is true, and marks the row. PostgreSQL evaluates it for each row. */
export function markRow (inserted: boolean): Fragment {
  return sql`pg_catalog.set_config(${SETTING}, ${constant(String(inserted))}, true) is not null`
}

function hasMark (inserted: boolean): Fragment {
  return sql`pg_catalog.current_setting(${SETTING}, true) operator(pg_catalog.=) ${
    constant(String(inserted))
  }`
}

/** In `returning`: whether the row is new. Fails if a trigger of the row reset the settings. */
const isInserted: Fragment = sql`case when ${hasMark(true)} then true
  when ${hasMark(false)} then false else ${raise('order')} is null end`

/** `expression as "name", …` for RETURNING, which has no aggregates. `all`: what `*` returns. */
export function returningList (
  output: readonly OutputColumn[],
  columns: RowColumns,
  all = sql`t.*`
): Fragment {
  const clash = buildNameClash(output)
  return join(output.map(column => {
    if (isAllColumns(column)) return all
    const value = returnedValue(column, columns)
    const checked = clash === undefined
      ? value
      : sql`case when (case when false then (select ${clash}) end) is null then ${value} end`
    return sql`${checked} as ${identifier(column.name)}`
  }))
}

function returnedValue (column: OutputColumn, columns: RowColumns): Fragment {
  const { path, inserted } = column
  if (inserted !== undefined) return inserted === 'always' ? sql`true` : isInserted
  return outputValue(column, columnValue(path as ColumnPath, columns))
}

/**
 * Columns of a subquery, and its FROM, in which PostgreSQL refuses a name that is both a column of
 * the table and that of another output column: JSON would keep only one of them. Undefined if there
 * can be no such name. `row`: the name of the row.
 */
export function buildNameClash (
  output: readonly OutputColumn[],
  more: readonly Fragment[] = [],
  row = sql`t`
): Fragment | undefined {
  const names = output.filter(column => !isAllColumns(column)).map(({ name }) => identifier(name))
  if (names.length === 0 || names.length === output.length) return undefined
  const columns = [...more, ...names.map(name => sql`o.${name}`)]
  const nulls = names.map(name => sql`, null as ${name}`)
  return sql`row(${join(columns)}) as "0" from (select ${row}.*${join(nulls, empty)}) as o`
}

/**
 * The part of the rows that the statement reads: whole rows, the output columns, or nothing. To
 * read nothing needs no SELECT privilege.
 */
export type RowPart = 'whole' | 'columns' | 'nothing'

/** The part `nothing` of a row: an object without members. */
export const NOTHING = sql`'{}'::pg_catalog.json`

/** Returns the part of an operation. `unread`: nothing reads its rows. */
export function rowPartOf (node: PlanNode, unread: boolean): RowPart {
  if (unread || node.output?.length === 0) return 'nothing'
  return node.output === undefined || isNested(node) ? 'whole' : 'columns'
}

/** What each of several statements returns whose rows are put together as `r`. */
export interface ReturnedColumns {
  /** The list after `returning`. */
  readonly returned: Fragment
  /** The names of its columns. */
  readonly names: readonly string[]
  /** The columns of `r`. */
  readonly selected: Fragment
}

/**
 * Returns the output columns. `*` is first one column, the row: the names of its columns are not
 * known, so the number of a row could not be named beside them.
 */
export function returnedColumns (
  { output = [] }: PlanNode,
  values: TypedValues
): ReturnedColumns {
  const all = unusedName(output.map(({ name }) => name))
  return {
    returned: returningList(output, values, wholeRow(values, all)),
    names: output.map(column => isAllColumns(column) ? all : column.name),
    selected: join(output.map(column =>
      isAllColumns(column) ? sql`(${identifier(all)}).*` : identifier(column.name)))
  }
}

export interface BuiltOperation {
  readonly ctes: readonly Fragment[]
  /** What follows FROM. */
  readonly rows: Fragment
  readonly checks?: readonly Check[]
}

// Which operations return each row as soon as it is there, without an aggregate.
// Nothing counts their rows, so an operation that reads one of them must check that it exists.

type Options = Pick<CompileOptions, 'minimal' | 'keep' | 'findColumns'>

/** Finds the operations that return separate rows. */
export function findSeparate (plan: Plan, options: Options): ReadonlySet<number> {
  const sources = Map.groupBy([...plan.referenceUses].flatMap(([source, uses]) =>
    uses.map(({ reader }) => ({ source, reader }))
  ), ({ reader }) => reader)
  const found = new Set<number>()
  for (const node of plan.operations) {
    const read = sources.get(node.index) ?? []
    const readsSeparate = read.some(({ source }) => found.has(source))
    if (returnsSeparateRows(node, plan, { ...options, readsSeparate })) found.add(node.index)
  }
  return found
}

/**
 * Whether an operation returns separate rows. It must return as many rows as the request has, or
 * one at most, and no check may follow it. These rows are few. For 1000 rows, an aggregate is
 * better: it took PostgreSQL a tenth less time, and the service half the time.
 */
function returnsSeparateRows (
  node: PlanNode,
  { counted, referenceUses, requirements }: Plan,
  { findColumns, readsSeparate, ...options }: Options & { readonly readsSeparate: boolean }
): boolean {
  const { index } = node
  if (counted.has(index) || node.when.length > 0) return false
  if (node.expect !== undefined || node.output?.length === 0) return false
  if (answersOnlyCount(node, options.minimal) || options.keep === true) return false
  const uses = referenceUses.get(index) ?? []
  if (node.kind === 'call' || node.kind === 'bulk_update') return false
  const columns = findColumns(node.table)
  if (columns?.standsAlone !== true) return false
  if (node.kind === 'insert') {
    const { groups: [group], groups: { length }, query, conflict } = node
    if (query !== undefined || length > 1 || group?.rows.inBulk !== false) return false
    return group.positions.length === 1
      ? uses.every(({ rows }) => rows === 1)
      : conflict === undefined && uses.length === 0
  }
  if (uses.length > 0) return false
  if (node.kind !== 'select') return node.join === undefined && namesKey(node, columns)
  // PostgreSQL may not evaluate the checks of rows that a select reads.
  if (readsSeparate || requirements.has(index)) return false
  return namesKey(node, columns) && returnsEachRow(node, columns)
}

/**
 * Whether conditions name a value for each column of a unique constraint, so that one row at most
 * meets them. Should the constraint have been dropped since it was read, all rows are returned, but
 * not counted.
 */
function namesKey (
  { where }: Pick<SelectNode, 'where'>,
  { uniqueKeys = new Map() }: TableColumns
): boolean {
  const fixed = new Set(where.flatMap(fixedColumn))
  return [...uniqueKeys.values()].some(({ columns: key }) =>
    key.every(column => fixed.has(column))
  )
}

/** The column of which a condition allows one value. */
function fixedColumn (predicate: Predicate): readonly string[] {
  if (predicate.kind !== 'condition' || predicate.operator !== 'eq') return []
  const { column, operand } = predicate
  const isValue = operand.kind === 'literal' || operand.kind === 'reference'
  return isValue && column.resultType === 'column' ? [column.column] : []
}

/**
 * Whether a select returns one row for each that it reads. A column that the table does not have
 * may be a function that returns several rows.
 */
function returnsEachRow (node: SelectNode, columns: TableColumns): boolean {
  const { output = [], order, groupBy, having } = node
  if (isNested(node) || order.length + groupBy.length + having.length > 0) return false
  return output.every(column =>
    isAllColumns(column) || (column.path !== undefined && columns.has(column.path.column))
  )
}
