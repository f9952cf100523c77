/**
 * Insert → SQL. Rows travel as one JSON parameter whatever their number; PostgreSQL turns it into the columns' own types.
 */
import type { ConflictNode, InsertNode, RowGroup, TableName } from '../plan/nodes.ts'
import { assignment } from './assignment.ts'
import { nullRow, tableName } from './column.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { indexPredicate, whereClause } from './filter.ts'
import { documentJson } from './reference.ts'

/** The insert of one group of rows alone; `returning` is added by the caller. */
export function insertStatement ({ table, conflict }: InsertNode, group: RowGroup): Fragment {
  return sql`insert into ${tableName(table)} as t${groupRows(table, group)}${conflict === undefined ? empty : onConflict(conflict, table)}`
}

function groupRows (table: TableName, { columns, positions, rows }: RowGroup): Fragment {
  // No column is named: a query without columns leaves every one of them to its default.
  if (columns.length === 0) return sql` select from generate_series(1, ${parameter(String(positions.length))}::int)`
  const names = join(columns.map(identifier), sql`, `)
  return sql` (${names}) select ${names} from json_populate_recordset(${nullRow(table)}, ${documentJson(rows)}) as x`
}

function onConflict ({ target, update }: ConflictNode, table: TableName): Fragment {
  const at = 'constraint' in target
    ? sql` on constraint ${identifier(target.constraint)}`
    : sql` (${join(target.columns.map(identifier), sql`, `)})${indexPredicate(target.where, table)}`
  if (update === undefined) return sql` on conflict${at} do nothing`
  const set = join(update.set.map(value => assignment(value, table)), sql`, `)
  return sql` on conflict${at} do update set ${set}${whereClause(update.where, table)}`
}
