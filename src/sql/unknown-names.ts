/**
 * Finds the first table or column of a plan that the database does not have.
 */
import { tableKey } from '../plan/name.ts'
import type { NamedPart, Plan } from '../plan/plan.ts'
import type { ColumnTypes } from './values/column-types.ts'
import { SYSTEM_COLUMNS } from './values/column.ts'

/** What is known of the tables of a plan. `absent`: keys of tables that do not exist. */
export interface KnownTables {
  readonly columnTypes: ColumnTypes
  readonly absent: ReadonlySet<string>
}

interface Kept {
  /** What was known of the tables and of the functions of their rows. Others are other objects. */
  readonly known: readonly unknown[]
  readonly found: NamedPart | undefined
}

/** Keeps what was found for the plans that recur, until more is known of their tables. */
export class UnknownNames {
  readonly #kept = new WeakMap<Plan, Kept>()

  /** Returns the first unknown name, in the order of the operations, if there is one. */
  find (plan: Plan, tables: KnownTables): NamedPart | undefined {
    const { columnTypes, absent } = tables
    // A table may be created at any time, and no object shows it.
    if (absent.size > 0) return findFirst(plan, tables)
    const known = plan.tables.flatMap(table => {
      const columns = columnTypes.lookup(table)
      return [columns, columns?.functions]
    })
    const kept = this.#kept.get(plan)
    if (kept?.known.every((value, i) => value === known[i]) === true) return kept.found
    const found = findFirst(plan, tables)
    this.#kept.set(plan, { known, found })
    return found
  }
}

function findFirst ({ names }: Plan, tables: KnownTables): NamedPart | undefined {
  return names.find(part => !mayExist(part, tables))
}

/** A table of which nothing is known may have every column. */
function mayExist (
  { table, column, isStored }: NamedPart,
  { columnTypes, absent }: KnownTables
): boolean {
  const columns = columnTypes.lookup(table)
  if (column === undefined) return columns !== undefined || !absent.has(tableKey(table))
  if (columns === undefined || columns.has(column) || SYSTEM_COLUMNS.has(column)) return true
  return !isStored && columns.functions?.has(column) === true
}
