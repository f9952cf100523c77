/**
 * Finds the first table or column of a plan that the database does not have.
 */
import { tableKey } from '../plan/name.ts'
import type { TableName } from '../plan/nodes.ts'
import type { NamedPart, Plan } from '../plan/plan.ts'
import type { ColumnTypes, TableColumns } from './values/column-types.ts'
import { SYSTEM_COLUMNS } from './values/column.ts'

/** What is known of the tables of a plan. `absent`: keys of tables that do not exist. */
export interface KnownTables {
  readonly columnTypes: ColumnTypes
  readonly absent: ReadonlySet<string>
}

/** Returns the first unknown name, in the order of the operations, if there is one. */
export function findUnknownName (
  { names }: Pick<Plan, 'names'>,
  { columnTypes, absent }: KnownTables
): NamedPart | undefined {
  // To look up a table for each of its columns would take most of the time.
  let table: TableName | undefined
  let columns: TableColumns | undefined
  return names.find(part => {
    if (part.table !== table) {
      table = part.table
      columns = columnTypes.lookup(table)
    }
    return columns === undefined
      ? part.column === undefined && absent.has(tableKey(part.table))
      : !mayHave(columns, part)
  })
}

/** Whether a table has a column, or is itself named. */
function mayHave (columns: TableColumns, { column, isStored }: NamedPart): boolean {
  if (column === undefined || columns.has(column) || SYSTEM_COLUMNS.has(column)) return true
  return !isStored && columns.functions?.has(column) === true
}
