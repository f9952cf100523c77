/**
 * Select → SQL.
 */
import type { ColumnPath, OutputColumn, SelectNode, SortKey } from '../plan/nodes.ts'
import { columnValue, comparableValue } from './column.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { wholeRow } from './output.ts'
import { tableName, type CteBuilder } from './cte-builder.ts'

/**
 * The query alone, whose rows are one value `row` each; how many of them are read is the caller's
 * business.
 */
export function selectStatement (node: SelectNode, scope: CteBuilder): Fragment {
  const { output, where } = node
  const from = sql`from ${tableName(scope.table)} as t`
  const columns = collectColumns(orderedPlaces(node))
  if (output === undefined) {
    const end = ending(node, columns.comparable)
    return sql`select ${wholeRow(scope.table)} ${from}${columns.guard()}${
      whereClause(where, scope)
    }${end}`
  }
  const grouped = node.groupBy.length > 0
  const answered = join(output.map(column => outputColumn(column, columns, grouped)), sql`, `)
  const groups = grouped
    ? sql` group by ${join(node.groupBy.map(columns.comparable), sql`, `)}`
    : empty
  const end = ending(node, columns.comparable)
  return sql`select p.*::record as row${scope.exposed(sql`p`)}
    from (select ${answered} ${from}${columns.guard()}${
    whereClause(where, scope)
  }${groups}${end}) as p`
}

const row = sql`t`

function outputColumn (
  { name, path, aggregate }: OutputColumn,
  columns: Columns,
  grouped: boolean
): Fragment {
  const value = path === undefined
    ? sql`*`
    : grouped
      ? columns.comparable(path)
      : columns.plain(path)
  return sql`${aggregate === undefined ? value : sql`${aggregates[aggregate]}(${value})`} as ${
    identifier(name)
  }`
}

const aggregates = { count: sql`count`, sum: sql`sum`, avg: sql`avg`, min: sql`min`, max: sql`max` }

/** The columns that a select reads: how each is written, and what keeps aggregates out. */
interface Columns {
  plain(path: ColumnPath): Fragment
  comparable(path: ColumnPath): Fragment
  guard(): Fragment
}

/**
 * Places in json or jsonb that a select both answers and orders by. None where groups are made,
 * which answer what is compared. None where rows are locked: when another transaction changed a row
 * meanwhile, PostgreSQL reads the row again, but not a query beside the table.
 */
function orderedPlaces ({ output = [], groupBy, order, lock }: SelectNode): readonly ColumnPath[] {
  if (groupBy.length > 0 || lock !== undefined) return []
  const ordered = new Set(order.map(({ by }) => JSON.stringify(by)))
  const places = new Map<string, ColumnPath>()
  for (const { path, aggregate } of output) {
    const key = JSON.stringify(path)
    if (path?.gives === 'json' && aggregate === undefined && ordered.has(key)) places.set(key, path)
  }
  return [...places.values()]
}

/**
 * The same place in a column is always the same fragment, so its keys are the same parameters and
 * GROUP BY, ORDER BY and the answer mean one expression: PostgreSQL computes it once for each row.
 * In json they mean two, because json is answered as it is and compared as jsonb. Places that are
 * `shared` are therefore computed in a query beside the table. Unless the place is volatile,
 * PostgreSQL merges that query into the one around it, so an index can still give the order.
 *
 * `t."count"` means count(t) where the table has no such column, which would turn the select into
 * an aggregate. The guard names every column once more in a query of its own, where PostgreSQL
 * refuses aggregates. It joins on false, so nothing in it is ever evaluated: a computed column that
 * is volatile or returns a set is called once, and an index can still give the order.
 */
function collectColumns (shared: readonly ColumnPath[]): Columns {
  const values = new Map<string, Fragment>()
  const names = new Set<string>()
  const places = shared.map((path, i) => {
    const name = identifier(String(i))
    values.set(JSON.stringify(path), sql`c.${name}`)
    values.set(`comparable ${JSON.stringify(path)}`, sql`(c.${name})::jsonb`)
    return sql`${columnValue(path, row)} as ${name}`
  })
  const computed = places.length === 0
    ? empty
    : sql` cross join lateral (select ${join(places, sql`, `)}) as c`
  const remember = (key: string, path: ColumnPath, make: typeof columnValue): Fragment => {
    names.add(path.column)
    const value = values.get(key) ?? make(path, row)
    values.set(key, value)
    return value
  }
  return {
    plain: path => remember(JSON.stringify(path), path, columnValue),
    comparable: path => remember(`comparable ${JSON.stringify(path)}`, path, comparableValue),
    guard () {
      const named = [...names].map((name, i) =>
        sql`t.${identifier(name)} as ${identifier(String(i))}`
      )
      if (named.length === 0) return empty
      return sql`${computed} left join lateral (select ${join(named, sql`, `)}) as g on false`
    }
  }
}

function ending (
  { order, limit, offset, lock }: SelectNode,
  column: (path: ColumnPath) => Fragment
): Fragment {
  return sql`${orderClause(order, column)}${
    limit === undefined ? empty : sql` limit ${parameter(String(limit))}`
  }${offset === undefined ? empty : sql` offset ${parameter(String(offset))}`}${
    lock === undefined ? empty : lockClause(lock)
  }`
}

function orderClause (order: readonly SortKey[], column: (path: ColumnPath) => Fragment): Fragment {
  if (order.length === 0) return empty
  return sql` order by ${
    join(
      order.map(({ by, direction, nulls }) =>
        sql`${typeof by === 'string' ? identifier(by) : column(by)}${
          direction === undefined ? empty : directions[direction]
        }${nulls === undefined ? empty : nullsAt[nulls]}`
      ),
      sql`, `
    )
  }`
}

const directions = { asc: sql` asc`, desc: sql` desc` }
const nullsAt = { first: sql` nulls first`, last: sql` nulls last` }

function lockClause ({ mode, wait }: NonNullable<SelectNode['lock']>): Fragment {
  return sql` for ${modes[mode]} of t${wait === undefined ? empty : waits[wait]}`
}

const modes = {
  update: sql`update`,
  no_key_update: sql`no key update`,
  share: sql`share`,
  key_share: sql`key share`
}
const waits = { nowait: sql` nowait`, skip_locked: sql` skip locked` }
