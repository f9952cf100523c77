/**
 * Insert → SQL. Rows travel as one JSON parameter whatever their number; PostgreSQL turns it into the columns' own types.
 */
import type { InsertNode, MixedRow } from '../plan/nodes.ts'
import { identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { documentText, tableName } from './reference.ts'

/** The insert alone; `returning` is added by the caller. */
export function insertStatement ({ table, values }: InsertNode): Fragment {
  const target = tableName(table)
  if (values.kind === 'rows') {
    const columns = columnList(values.columns)
    return sql`insert into ${target} as t (${columns}) select ${columns} from json_populate_recordset(null::${target}, ${documentText(values.rows)}::json)`
  }
  const columns = [...new Set(values.rows.flatMap(row => row.columns))]
  // No row names a column: a query without columns leaves every one of them to its default.
  if (columns.length === 0) return sql`insert into ${target} as t select from generate_series(1, ${parameter(String(values.rows.length))}::int)`
  return sql`insert into ${target} as t (${columnList(columns)}) values ${join(values.rows.map(row => mixedRow(row, columns, target)), sql`, `)}`
}

/** `default` is allowed in a VALUES list only, so rows that differ in their columns are written out one by one. */
function mixedRow ({ columns, row }: MixedRow, all: readonly string[], target: Fragment): Fragment {
  const named = new Set(columns)
  const record = sql`json_populate_record(null::${target}, ${documentText(row)}::json)`
  return sql`(${join(all.map(column => named.has(column) ? sql`(${record}).${identifier(column)}` : sql`default`), sql`, `)})`
}

function columnList (columns: readonly string[]): Fragment {
  return join(columns.map(identifier), sql`, `)
}
