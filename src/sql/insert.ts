/**
 * Insert → SQL. Rows travel as one JSON parameter whatever their number; PostgreSQL turns it into the columns' own types.
 */
import { randomUUID } from 'node:crypto'
import type { ConflictNode, RowGroup } from '../plan/nodes.ts'
import { assignment } from './assignment.ts'
import { empty, identifier, join, parameter, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { documentJson, inspectedDocument, jsonNullRows } from './reference.ts'
import { nullRow, tableName, type Scope } from './scope.ts'

/** The insert of one group of rows alone; `conflict` is its end, `returning` is added by the caller. */
export function insertStatement (group: RowGroup, conflict: Fragment, scope: Scope): Fragment {
  const { columns, positions } = group
  const insert = sql`insert into ${tableName(scope.table)} as t`
  // No column is named: a query without columns leaves every one of them to its default.
  if (columns.length === 0) return sql`${insert} select from generate_series(1, ${parameter(String(positions.length))}::int)${conflict}`
  const names = join(columns.map(identifier), sql`, `)
  return sql`${insert} (${names}) select ${scope.careful ? carefulRows(group, scope) : rows(group, scope)}${conflict}`
}

function rows ({ columns, rows: { document, doubts } }: RowGroup, scope: Scope): Fragment {
  const names = join(columns.map(identifier), sql`, `)
  const [undoubted] = scope.undoubted(doubts)
  const doubted = undoubted === undefined ? empty : sql` where ${undoubted}`
  return sql`${names} from json_populate_recordset(${nullRow(scope.table)}, ${documentJson(document, scope)}) as x${doubted}`
}

/** The same with every value followed into its type, and with the JSON null where a reference means it. */
function carefulRows ({ columns, positions, rows: stored }: RowGroup, scope: Scope): Fragment {
  const values = columns.map(column => {
    const value = sql`x.${identifier(column)}`
    const places = stored.doubts.find(doubt => doubt.column === column)?.places ?? []
    if (places.length === 0) return value
    const jsonNull = scope.jsonNull({ column, keys: [], gives: 'column' })
    return sql`coalesce(${value}, case when x.${rowNumber} = any (${jsonNullRows(places)}) then ${jsonNull} end)`
  })
  return sql`${join(values, sql`, `)} from (select *, row_number() over () as ${rowNumber}
    from json_populate_recordset(${nullRow(scope.table)}, ${inspectedDocument(stored, scope, positions)})) as x`
}

/** No column has this name. */
const rowNumber = identifier(`row_${randomUUID()}`)

/** ` on conflict …`, the same for every group of rows; empty when a row that is there already is a failure. */
export function conflictClause (conflict: ConflictNode | undefined, scope: Scope): Fragment {
  if (conflict === undefined) return empty
  const { target, update } = conflict
  const at = 'constraint' in target
    ? sql` on constraint ${identifier(target.constraint)}`
    : sql` (${join(target.columns.map(identifier), sql`, `)})${whereClause(target.where, scope, { constants: true })}`
  if (update === undefined) return sql` on conflict${at} do nothing`
  const set = join(update.set.map(value => assignment(value, scope)), sql`, `)
  return sql` on conflict${at} do update set ${set}${whereClause(update.where, scope)}`
}
