/**
 * Update → SQL. The new values are computed once, before any row is touched.
 */
import type { UpdateNode } from '../plan/nodes.ts'
import { identifier, join, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { documentText, nullRow, tableName } from './reference.ts'

/** The update alone; `returning` is added by the caller. */
export function updateStatement ({ table, columns, set, where }: UpdateNode): Fragment {
  const target = tableName(table)
  const names = join(columns.map(identifier), sql`, `)
  return sql`update ${target} as t set (${names}) = (select ${names} from json_populate_record(${nullRow(table)}, ${documentText(set)}::json) as x)${whereClause(where, table)}`
}
