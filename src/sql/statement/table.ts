/**
 * SQL for the name of a table, a row of NULLs of its type, and names that are free.
 */
import { identifier, requestConstant, sql, type Fragment } from '../../fragment/fragment.ts'
import type { TableName } from '../../plan/nodes.ts'
import { arrayText } from '../../plan/value-text.ts'

/** `"schema"."name"`. */
export function tableName (table: TableName): Fragment {
  return sql`${identifier(table.schema)}.${identifier(table.name)}`
}

/** The names as rows of `q`: constants, because a query without parameters takes one round trip. */
export function namesAsRows (names: readonly TableName[]): Fragment {
  const list = (values: readonly string[]): Fragment =>
    sql`${requestConstant(arrayText(values))}::pg_catalog.name[]`
  return sql`unnest(${list(names.map(({ schema }) => schema))}, ${
    list(names.map(({ name }) => name))
  }) as q (schema, name)`
}

/**
 * A row of `table` in which every column is NULL. `null::"schema"."name"` does not work here:
 * json_populate_record then checks NULL against the domain of every column that the JSON does not
 * name. A column with a NOT NULL domain could never take its default.
 */
export function nullRow (table: TableName): Fragment {
  const type = tableName(table)
  return sql`(select x.*::${type} from (select (null::${type}).*) as x)`
}

/** Returns a short name that is not in `names`. */
export function unusedName (names: readonly string[]): string {
  return unusedNames(names, 1)[0] as string
}

/** Returns short names that are not in `names`. */
export function unusedNames (names: readonly string[], count: number): readonly string[] {
  const taken = new Set(names)
  const free: string[] = []
  for (let i = 0; free.length < count; i++) if (!taken.has(`n${i}`)) free.push(`n${i}`)
  return free
}
