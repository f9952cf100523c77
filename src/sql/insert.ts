/**
 * Insert → SQL. Rows travel as one JSON parameter whatever their number; PostgreSQL turns it into the columns' own types.
 */
import type { RowGroup, TableName } from '../plan/nodes.ts'
import { identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { documentText, nullRow, tableName } from './reference.ts'

/** The insert of one group of rows alone; `returning` is added by the caller. */
export function insertStatement (table: TableName, { columns, positions, rows }: RowGroup): Fragment {
  const target = tableName(table)
  // No column is named: a query without columns leaves every one of them to its default.
  if (columns.length === 0) return sql`insert into ${target} as t select from generate_series(1, ${parameter(String(positions.length))}::int)`
  const names = join(columns.map(identifier), sql`, `)
  return sql`insert into ${target} as t (${names}) select ${names} from json_populate_recordset(${nullRow(table)}, ${documentText(rows)}::json) as x`
}
