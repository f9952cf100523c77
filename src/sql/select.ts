/**
 * Select → SQL.
 */
import type { SelectNode, SortKey } from '../plan/nodes.ts'
import { comparableValue } from './column.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { outputList, pathList, wholeRow } from './output.ts'
import { tableName, type Scope } from './scope.ts'

/** The query alone; how many rows are read of it is the caller's business. */
export function selectStatement ({ table, output, where, groupBy, order, limit, offset, lock }: SelectNode, scope: Scope): Fragment {
  const columns = output === undefined ? wholeRow(table) : outputList(output, groupBy.length > 0)
  return sql`select ${columns} from ${tableName(table)} as t${whereClause(where, scope)}${groupBy.length === 0 ? empty : sql` group by ${pathList(groupBy)}`}${orderClause(order)}${
    limit === undefined ? empty : sql` limit ${parameter(String(limit))}`}${offset === undefined ? empty : sql` offset ${parameter(String(offset))}`}${lock === undefined ? empty : lockClause(lock)}`
}

function orderClause (order: readonly SortKey[]): Fragment {
  if (order.length === 0) return empty
  return sql` order by ${join(order.map(({ by, direction, nulls }) => {
    const key = typeof by === 'string' ? identifier(by) : comparableValue(by, sql`t`)
    return sql`${key}${direction === undefined ? empty : directions[direction]}${nulls === undefined ? empty : nullsAt[nulls]}`
  }), sql`, `)}`
}

const directions = { asc: sql` asc`, desc: sql` desc` }
const nullsAt = { first: sql` nulls first`, last: sql` nulls last` }

function lockClause ({ mode, wait }: NonNullable<SelectNode['lock']>): Fragment {
  return sql` for ${modes[mode]}${wait === undefined ? empty : waits[wait]}`
}

const modes = { update: sql`update`, no_key_update: sql`no key update`, share: sql`share`, key_share: sql`key share` }
const waits = { nowait: sql` nowait`, skip_locked: sql` skip locked` }
