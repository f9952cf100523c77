/**
 * Builds the SELECT of a select operation.
 */
import { empty, identifier, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { ColumnPath, OutputColumn, Query, SelectNode, SortKey } from '../../plan/nodes.ts'
import { isAllColumns, isUnchanged } from '../../plan/output.ts'
import { plainSlot } from '../statement/slot.ts'
import { unusedNames } from '../statement/table.ts'
import { columnValue, comparableValue, type RowColumns } from '../values/column.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { buildAfter, buildWhere } from './filter.ts'
import { buildNameClash, columnsOfOutput, outputValue } from './output.ts'

const DISTINCT = sql`distinct `
const NO_COLUMN = sql`true as ${identifier('-')}`
const DIRECTIONS = { asc: sql` asc`, desc: sql` desc` }
const NULLS = { first: sql` nulls first`, last: sql` nulls last` }
const LOCK_MODES = {
  update: sql`update`,
  no_key_update: sql`no key update`,
  share: sql`share`,
  key_share: sql`key share`
}
const LOCK_WAITS = { nowait: sql` nowait`, skip_locked: sql` skip locked` }

/** What is read, and how. */
export type Read = Query & Pick<SelectNode, 'output' | 'after' | 'lock'>

interface RowSource {
  readonly source: Fragment
  /** The value `row` of a row, if the operation returns whole rows. */
  readonly row: Fragment
  /** Further columns, which nested reads need. */
  readonly more?: Fragment
  /** Further conditions. */
  readonly also?: readonly Fragment[]
  /**
   * Joins after the table, instead of the guard, if the operation returns whole rows. The output
   * columns are those of `p`.
   */
  readonly joins?: Fragment
}

/** Builds a query whose rows are the output columns, or one value `row`. */
export function buildRows (
  node: Read,
  values: TypedValues,
  { source, row, more = empty, also = [], joins }: RowSource
): Fragment {
  const { output, distinct, groupBy, having } = node
  const from = sql`from ${source} as ${values.row}`
  if (output === undefined) {
    if (distinct) return buildDistinctRows(node, values, { source, row })
    const order = buildOrder(node.order, path => comparableValue(path, values), sql`p.`)
    return sql`select ${row}${more} ${from}${joins ?? buildGuard(node, values)}${
      buildConditions(node, values, also)
    }${order}${buildLimits(node)}`
  }
  const once = orderedColumns(node, values)
  const rowOf = ({ column }: ColumnPath): Fragment => once.has(column) ? sql`c` : values.row
  const comparable: WritePath = path => comparableValue(path, values, rowOf(path))
  const plain: WritePath = path => columnValue(path, values, rowOf(path))
  // With groups and `distinct`, equal values count as one value.
  const isCompared = groupBy.length > 0 || distinct
  // Citus cannot store an intermediate result of rows without columns.
  const selected = output.length === 0
    ? NO_COLUMN
    : join(output.map(column => {
      if (isAllColumns(column)) return sql`${values.row}.*`
      return outputColumn(column, isCompared || column.distinct === true ? comparable : plain)
    }))
  const groups = groupBy.length > 0
    ? sql` group by ${join(groupBy.map(comparable))}`
    : empty
  const order = buildOrder(node.order, comparable)
  const outer = having.length === 0 ? undefined : orderOutside(node, output, comparable)
  const conditions = buildConditions(node, values, also)
  const rows = sql`select ${distinct ? DISTINCT : empty}${selected}${more}${
    outer?.keys ?? empty
  } ${from}${buildGuard(node, values, once)}${conditions}${groups}${
    outer === undefined ? order : empty
  }`
  if (having.length === 0) return sql`${rows}${buildLimits(node)}`
  // PostgreSQL moves the conditions into the subquery where it can.
  return sql`select ${outer?.selected ?? sql`o.*`} from (${rows}) as o${
    buildWhere(having, values, { columns: columnsOfOutput(output, values), ordered: true })
  }${outer?.order ?? empty}${buildLimits(node)}`
}

/** Writes a column path. The same path gives the same expression. */
type WritePath = (path: ColumnPath) => Fragment

interface OuterOrder {
  /** More columns of the subquery, which only the order reads. */
  readonly keys: Fragment
  /** The output columns, without these. */
  readonly selected: Fragment
  readonly order: Fragment
}

/**
 * Orders a select with `having` outside of the subquery that `having` reads, because Citus drops
 * the order of a subquery that reads several shards. Undefined where nothing is ordered, where the
 * names of the output columns are not known, and where distinct rows are ordered by another column.
 * There the subquery is ordered: PostgreSQL keeps its order, or refuses it in the last case.
 */
function orderOutside (
  { order, distinct }: Read,
  output: readonly OutputColumn[],
  comparable: WritePath
): OuterOrder | undefined {
  if (order.length === 0 || output.some(isAllColumns)) return undefined
  const names = output.map(({ name }) => name)
  const free = unusedNames(names, order.length)
  // A further column would change which rows are distinct.
  const keys = order.map(({ by }, i) =>
    typeof by === 'string' ? by : distinct ? ownColumn(by, output) : free[i])
  if (keys.includes(undefined)) return undefined
  const more = order.map(({ by }, i) => distinct || typeof by === 'string'
    ? empty
    : sql`, ${comparable(by)} as ${identifier(free[i] as string)}`)
  const outer = order.map((key, i) => ({ ...key, by: keys[i] as string }))
  return {
    keys: join(more, empty),
    selected: join(names.map(name => sql`o.${identifier(name)}`)),
    order: buildOrder(outer, comparable, sql`o.`)
  }
}

/** The name of the output column that is a column path. */
export function ownColumn (path: ColumnPath, output: readonly OutputColumn[]): string | undefined {
  return output.find(column =>
    isUnchanged(column) && JSON.stringify(column.path) === JSON.stringify(path))?.name
}

function buildConditions (
  { where, after }: Read,
  values: TypedValues,
  also: readonly Fragment[] = []
): Fragment {
  const page = after === undefined ? [] : [buildAfter(after, values)]
  return buildWhere(where, values, { also: [...page, ...also] })
}

/**
 * The whole rows of a table, each once. They are ordered outside: PostgreSQL orders distinct rows
 * only by what it returns, which is one value.
 */
function buildDistinctRows (
  node: Read,
  values: TypedValues,
  { source, row }: RowSource
): Fragment {
  const order = buildOrder(node.order, path => comparableValue(path, values, sql`(d.row)`))
  const from = sql`${source} as ${values.row}${buildGuard(node, values)}`
  return sql`select d.* from (select distinct ${row} from ${from}${
    buildConditions(node, values)
  }) as d${order}${buildLimits(node)}`
}

/** An output column of a select, other than `"*"`. */
export function outputColumn (column: OutputColumn, write: WritePath): Fragment {
  const { name, path } = column
  return sql`${outputValue(column, path === undefined ? sql`*` : write(path))} as ${
    identifier(name)
  }`
}

/**
 * Returns the computed columns by whose JSON a select is ordered. Groups and `distinct` need no
 * subquery, because they return the value that is compared. Locks allow none: if another
 * transaction has changed a row, PostgreSQL reads the row again, but not the joined subquery.
 */
function orderedColumns (
  { distinct, groupBy, order, lock }: Read,
  values: RowColumns
): ReadonlySet<string> {
  if (distinct || groupBy.length > 0 || lock !== undefined) return new Set()
  return new Set(order.flatMap(({ by }) =>
    typeof by === 'string' || by.resultType !== 'json' || values.typeOf(by.column) !== undefined
      ? []
      : [by.column]))
}

/**
 * Builds the joins after the table.
 *
 * A json path is two expressions, because it is returned as json and compared as jsonb. The columns
 * `once` are therefore computed in a joined subquery, so that their functions are called once.
 *
 * If the table has no column "count", `t."count"` is count(t), which would turn the select into an
 * aggregate. The guard names every column again in a subquery, in which PostgreSQL refuses
 * aggregates. It joins on false, so PostgreSQL never evaluates it: a computed column that is
 * volatile or returns a set is called once, and an index can still provide the order. Output
 * columns must have different names there, too.
 */
function buildGuard (
  { output = [], groupBy, order }: Read,
  { row }: RowColumns,
  once: ReadonlySet<string> = new Set()
): Fragment {
  const ordered = order.flatMap(({ by }) => typeof by === 'string' ? [] : [by])
  const paths = [...output.flatMap(({ path = [] }) => path), ...groupBy, ...ordered]
  const ofTable = (name: string): Fragment => sql`${row}.${identifier(name)}`
  const named = [...new Set(paths.map(({ column }) => column))].map(ofTable)
  const clash = buildNameClash(output, named, row)
  if (clash === undefined && named.length === 0) return empty
  const columns = named.map((column, i) => sql`${column} as ${identifier(String(i))}`)
  const subquery = once.size === 0
    ? empty
    : sql` cross join lateral (select ${join([...once].map(ofTable))}) as c`
  return sql`${subquery} left join lateral (select ${
    clash ?? join(columns)
  }) as g on false`
}

/** Builds everything after ORDER BY: the limits and the lock. */
function buildLimits ({ limit, offset, lock }: Read): Fragment {
  const parts = [
    limit === undefined ? empty : sql` limit ${plainSlot(limit, 'text')}`,
    offset === undefined ? empty : sql` offset ${plainSlot(offset, 'text')}`,
    lock === undefined ? empty : buildLock(lock)
  ]
  return join(parts, empty)
}

/** `output`: precedes the name of an output column. */
function buildOrder (
  order: readonly SortKey[],
  column: (path: ColumnPath) => Fragment,
  output = empty
): Fragment {
  if (order.length === 0) return empty
  return sql` order by ${join(order.map(key =>
    sql`${typeof key.by === 'string' ? sql`${output}${identifier(key.by)}` : column(key.by)}${
      buildDirection(key)
    }`
  ))}`
}

function buildDirection ({ direction, nulls }: Omit<SortKey, 'by'>): Fragment {
  return sql`${direction === undefined ? empty : DIRECTIONS[direction]}${
    nulls === undefined ? empty : NULLS[nulls]
  }`
}

function buildLock ({ mode, wait }: NonNullable<SelectNode['lock']>): Fragment {
  return sql` for ${LOCK_MODES[mode]} of t${wait === undefined ? empty : LOCK_WAITS[wait]}`
}
