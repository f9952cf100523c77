/**
 * Select → SQL.
 */
import type { ColumnPath, OutputColumn, SelectNode, SortKey } from '../plan/nodes.ts'
import { columnValue, comparableValue } from './column.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { wholeRow } from './output.ts'
import { tableName, type Scope } from './scope.ts'

/** The query alone, whose rows are one value `row` each; how many of them are read is the caller's business. */
export function selectStatement (node: SelectNode, scope: Scope): Fragment {
  const { output, where } = node
  const from = sql`from ${tableName(scope.table)} as t`
  if (output === undefined) return sql`select ${wholeRow(scope.table)} ${from}${whereClause(where, scope)}${ending(node, by => comparableValue(by, row))}`
  const columns = collectColumns()
  const grouped = node.groupBy.length > 0
  const answered = join(output.map(column => outputColumn(column, columns, grouped)), sql`, `)
  const groups = grouped ? sql` group by ${join(node.groupBy.map(columns.comparable), sql`, `)}` : empty
  const end = ending(node, columns.comparable)
  return sql`select p.*::record as row from (select ${answered} ${from}${columns.query()}${whereClause(where, scope)}${groups}${end}) as p`
}

const row = sql`t`

function outputColumn ({ name, path, aggregate }: OutputColumn, columns: Columns, grouped: boolean): Fragment {
  const value = path === undefined ? sql`*` : grouped ? columns.comparable(path) : columns.plain(path)
  return sql`${aggregate === undefined ? value : sql`${aggregates[aggregate]}(${value})`} as ${identifier(name)}`
}

const aggregates = { count: sql`count`, sum: sql`sum`, avg: sql`avg`, min: sql`min`, max: sql`max` }

/** The columns that a select looks at, each as `c."<number>"`. */
interface Columns {
  plain (path: ColumnPath): Fragment
  comparable (path: ColumnPath): Fragment
  query (): Fragment
}

/**
 * Everything is computed once, in a query beside the table, which the planner merges with it: GROUP BY, ORDER BY and the answer then mean the
 * same expression when they name the same place in jsonb. A plain column is looked at there as well but read of the table (PostgreSQL knows
 * that a primary key determines the other columns of a group): `t."count"` is read as count(t) where there is no such column,
 * and in a query beside the table that is refused.
 */
function collectColumns (): Columns {
  const names = new Map<string, Fragment>()
  const values: Fragment[] = []
  const add = (key: string, value: Fragment): Fragment => {
    const known = names.get(key)
    if (known !== undefined) return sql`c.${known}`
    const name = identifier(String(values.length))
    names.set(key, name)
    values.push(sql`${value} as ${name}`)
    return sql`c.${name}`
  }
  const plain = (path: ColumnPath): Fragment => {
    const value = columnValue(path, row)
    const computed = add(JSON.stringify(path), value)
    return path.gives === 'column' ? value : computed
  }
  return {
    plain,
    comparable: path => path.gives === 'json' ? add(`comparable ${JSON.stringify(path)}`, comparableValue(path, row)) : plain(path),
    query: () => values.length === 0 ? empty : sql` cross join lateral (select ${join(values, sql`, `)}) as c`
  }
}

function ending ({ order, limit, offset, lock }: SelectNode, column: (path: ColumnPath) => Fragment): Fragment {
  return sql`${orderClause(order, column)}${limit === undefined ? empty : sql` limit ${parameter(String(limit))}`}${
    offset === undefined ? empty : sql` offset ${parameter(String(offset))}`}${lock === undefined ? empty : lockClause(lock)}`
}

function orderClause (order: readonly SortKey[], column: (path: ColumnPath) => Fragment): Fragment {
  if (order.length === 0) return empty
  return sql` order by ${join(order.map(({ by, direction, nulls }) =>
    sql`${typeof by === 'string' ? identifier(by) : column(by)}${direction === undefined ? empty : directions[direction]}${nulls === undefined ? empty : nullsAt[nulls]}`), sql`, `)}`
}

const directions = { asc: sql` asc`, desc: sql` desc` }
const nullsAt = { first: sql` nulls first`, last: sql` nulls last` }

function lockClause ({ mode, wait }: NonNullable<SelectNode['lock']>): Fragment {
  return sql` for ${modes[mode]} of t${wait === undefined ? empty : waits[wait]}`
}

const modes = { update: sql`update`, no_key_update: sql`no key update`, share: sql`share`, key_share: sql`key share` }
const waits = { nowait: sql` nowait`, skip_locked: sql` skip locked` }
