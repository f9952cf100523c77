/**
 * Update → SQL. The new values are computed once, before any row is touched.
 */
import type { UpdateNode } from '../plan/nodes.ts'
import { identifier, join, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { documentText, nullRow, tableName } from './reference.ts'

/**
 * The update alone; `returning` is added by the caller. Not `set (a, b, …) = (select …)`: PostgreSQL plans that in memory that grows
 * with the square of the columns (measured: 2500 columns 1.4 GB, 12 000 columns the whole machine, and no timeout ends it).
 */
export function updateStatement ({ table, columns, set, where }: UpdateNode): Fragment {
  const assignments = join(columns.map(column => sql`${identifier(column)} = x.${identifier(column)}`), sql`, `)
  return sql`update ${tableName(table)} as t set ${assignments} from json_populate_record(${nullRow(table)}, ${documentText(set)}::json) as x${whereClause(where, table)}`
}
