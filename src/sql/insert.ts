/**
 * Insert → SQL. Rows travel as one JSON parameter whatever their number; PostgreSQL turns it into the columns' own types.
 */
import type { ConflictNode, RowGroup } from '../plan/nodes.ts'
import { assignment } from './assignment.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { documentJson } from './reference.ts'
import { nullRow, tableName, type Scope } from './scope.ts'

/** The insert of one group of rows alone; `conflict` is its end, `returning` is added by the caller. */
export function insertStatement ({ columns, positions, rows }: RowGroup, conflict: Fragment, scope: Scope): Fragment {
  const insert = sql`insert into ${tableName(scope.table)} as t`
  // No column is named: a query without columns leaves every one of them to its default.
  if (columns.length === 0) return sql`${insert} select from generate_series(1, ${parameter(String(positions.length))}::int)${conflict}`
  const names = join(columns.map(identifier), sql`, `)
  return sql`${insert} (${names}) select ${names} from json_populate_recordset(${nullRow(scope.table)}, ${documentJson(rows, scope)}) as x${conflict}`
}

/** ` on conflict …`, the same for every group of rows; empty when a row that is there already is a failure. */
export function conflictClause (conflict: ConflictNode | undefined, scope: Scope): Fragment {
  if (conflict === undefined) return empty
  const { target, update } = conflict
  const at = 'constraint' in target
    ? sql` on constraint ${identifier(target.constraint)}`
    : sql` (${join(target.columns.map(identifier), sql`, `)})${whereClause(target.where, scope, true)}`
  if (update === undefined) return sql` on conflict${at} do nothing`
  const set = join(update.set.map(value => assignment(value, scope)), sql`, `)
  return sql` on conflict${at} do update set ${set}${whereClause(update.where, scope)}`
}
