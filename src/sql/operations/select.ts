/**
 * Builds the SELECT of a select operation.
 */
import { empty, identifier, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { ColumnPath, OutputColumn, Query, SelectNode, SortKey } from '../../plan/nodes.ts'
import { isAllColumns, isUnchanged } from '../../plan/output.ts'
import { plainSlot } from '../statement/slot.ts'
import { unusedName } from '../statement/table.ts'
import { columnValue, comparableValue, type RowColumns } from '../values/column.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { buildAfter, buildWhere } from './filter.ts'
import { buildNameClash, OutputColumns, outputValue } from './output.ts'

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

export interface RowSource {
  readonly source: Fragment
  /** The value `row` of a row, and other columns, if the operation returns whole rows. */
  readonly row: Fragment
  /** Further columns beside the row or the output columns. */
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
    const columns = collectColumns(values)
    const order = buildOrder(node.order, columns.comparable, sql`p.`)
    return sql`select ${row}${more} ${from}${joins ?? columns.guard()}${
      buildConditions(node, values, also)
    }${order}${buildLimits(node)}`
  }
  const columns = collectColumns(values, values.row, orderedColumns(node, values))
  // Citus cannot store an intermediate result of rows without columns.
  const selected = output.length === 0
    ? NO_COLUMN
    : join(
      output.map(column => outputColumn(column, columns, groupBy.length > 0 || distinct)),
      sql`, `
    )
  const groups = groupBy.length > 0
    ? sql` group by ${join(groupBy.map(columns.comparable), sql`, `)}`
    : empty
  const order = buildOrder(node.order, columns.comparable)
  const outer = having.length === 0 ? undefined : orderOutside(node, output, columns)
  const conditions = buildConditions(node, values, also)
  const rows = sql`select ${distinct ? DISTINCT : empty}${selected}${more}${
    outer?.keys ?? empty
  } ${from}${columns.guard(output)}${conditions}${groups}${outer === undefined ? order : empty}`
  if (having.length === 0) return sql`${rows}${buildLimits(node)}`
  // PostgreSQL moves the conditions into the subquery where it can.
  return sql`select ${outer?.selected ?? sql`o.*`} from (${rows}) as o${
    buildWhere(having, values, { columns: new OutputColumns(values, output), ordered: true })
  }${outer?.order ?? empty}${buildLimits(node)}`
}

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
  columns: Columns
): OuterOrder | undefined {
  if (order.length === 0 || output.some(isAllColumns)) return undefined
  const names = output.map(({ name }) => name)
  const keys: Fragment[] = []
  const addKey = (path: ColumnPath): string => {
    const name = unusedName(names)
    names.push(name)
    keys.push(sql`, ${columns.comparable(path)} as ${identifier(name)}`)
    return name
  }
  const outer = order.map(({ by, ...direction }) => ({
    ...direction,
    by: typeof by === 'string' ? by : distinct ? ownColumn(by, output) : addKey(by)
  }))
  // A further column would change which rows are distinct.
  if (!outer.every(key => key.by !== undefined)) return undefined
  const written = (by: string): Fragment => sql`o.${identifier(by)}`
  return {
    keys: join(keys, empty),
    selected: join(output.map(({ name }) => written(name)), sql`, `),
    order: sql` order by ${
      join(outer.map(key => sql`${written(key.by as string)}${buildDirection(key)}`), sql`, `)
    }`
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
  const columns = collectColumns(values, sql`(d.row)`)
  const order = buildOrder(node.order, columns.comparable)
  const from = sql`${source} as ${values.row}${columns.guard()}`
  return sql`select d.* from (select distinct ${row} from ${from}${
    buildConditions(node, values)
  }) as d${order}${buildLimits(node)}`
}

/** An output column of a select without groups, other than `"*"`. */
export function buildOutput (column: OutputColumn, values: RowColumns): Fragment {
  const value = columnValue(column.path as ColumnPath, values)
  return sql`${outputValue(column, value)} as ${identifier(column.name)}`
}

/** `compared`: whether equal values count as one value, as with groups and `distinct`. */
function outputColumn (column: OutputColumn, columns: Columns, compared: boolean): Fragment {
  if (isAllColumns(column)) return columns.all
  const { name, path, distinct } = column
  const value = path === undefined
    ? sql`*`
    : compared || distinct === true
      ? columns.comparable(path)
      : columns.plain(path)
  return sql`${outputValue(column, value)} as ${identifier(name)}`
}

/** Writes the columns that a select reads. */
interface Columns {
  /** All columns of the table. */
  readonly all: Fragment
  /** The value of a column path as it is returned. */
  plain(path: ColumnPath): Fragment
  /** The value of a column path as it is compared. */
  comparable(path: ColumnPath): Fragment
  /**
   * The joins after the table. All columns must have been written before. `output`: its names must
   * be different.
   */
  guard(output?: readonly OutputColumn[]): Fragment
}

/**
 * Returns the computed columns by whose JSON a select is ordered. With groups or `distinct`, there
 * are none, because they return the value that is compared. With locks, there are none either: if
 * another transaction has changed a row, PostgreSQL reads the row again, but not the joined
 * subquery.
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
 * Writes the same path always as the same fragment, so its keys are the same parameters. GROUP BY,
 * ORDER BY and the output are then one expression, which PostgreSQL computes once per row.
 *
 * A json path is two expressions, because it is returned as json and compared as jsonb. The columns
 * `once` are therefore computed in a joined subquery, so that their functions are called once.
 *
 * If the table has no column "count", `t."count"` is count(t), which would turn the select into an
 * aggregate. The guard names every column again in a subquery, in which PostgreSQL refuses
 * aggregates. It joins on false, so PostgreSQL never evaluates it: a computed column that is
 * volatile or returns a set is called once, and an index can still provide the order.
 */
function collectColumns (
  values: RowColumns,
  row = values.row,
  once: ReadonlySet<string> = new Set()
): Columns {
  const written = new Map<string, Fragment>()
  const names = new Set<string>()
  const write = (key: string, path: ColumnPath, create: typeof columnValue): Fragment => {
    names.add(path.column)
    const value = written.get(key) ?? create(path, values, once.has(path.column) ? sql`c` : row)
    written.set(key, value)
    return value
  }
  const ofTable = (name: string): Fragment => sql`${values.row}.${identifier(name)}`
  return {
    all: sql`${values.row}.*`,
    plain: path => write(JSON.stringify(path), path, columnValue),
    comparable: path => write(`comparable ${JSON.stringify(path)}`, path, comparableValue),
    guard (output = []) {
      const named = [...names].map(ofTable)
      const clash = buildNameClash(output, named, values.row)
      if (clash === undefined && named.length === 0) return empty
      const columns = named.map((column, i) => sql`${column} as ${identifier(String(i))}`)
      const subquery = once.size === 0
        ? empty
        : sql` cross join lateral (select ${join([...once].map(ofTable), sql`, `)}) as c`
      return sql`${subquery} left join lateral (select ${
        clash ?? join(columns, sql`, `)
      }) as g on false`
    }
  }
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
  return sql` order by ${
    join(
      order.map(key =>
        sql`${typeof key.by === 'string' ? sql`${output}${identifier(key.by)}` : column(key.by)}${
          buildDirection(key)
        }`
      ),
      sql`, `
    )
  }`
}

function buildDirection ({ direction, nulls }: Omit<SortKey, 'by'>): Fragment {
  return sql`${direction === undefined ? empty : DIRECTIONS[direction]}${
    nulls === undefined ? empty : NULLS[nulls]
  }`
}

function buildLock ({ mode, wait }: NonNullable<SelectNode['lock']>): Fragment {
  return sql` for ${LOCK_MODES[mode]} of t${wait === undefined ? empty : LOCK_WAITS[wait]}`
}
