/**
 * Columns and what takes their type. The statement calls its table `t`.
 *
 * `t."name"` also finds a function of that name that takes a row of the table, PostgreSQL's computed column, and system columns like
 * `ctid`. Both are let through: a function needs EXECUTE and a row that the role may read in full. A name like `text` does not cast the
 * row: PostgreSQL excludes that from this notation.
 */
import type { ColumnPath, JsonDocument, Reference, TableName } from '../plan/nodes.ts'
import { empty, identifier, join, sharedParameter, sql, type Fragment } from './fragment.ts'
import { documentJson, referenceJson } from './reference.ts'

/** `"schema"."name"`. */
export function tableName (table: TableName): Fragment {
  return sql`${identifier(table.schema)}.${identifier(table.name)}`
}

/**
 * The rows of `t` as values of the table's own row type, called `row`: unlike `t.*` that is one column whatever the columns are
 * called, and also when there are none.
 */
export function wholeRow (table: TableName): Fragment {
  return sql`t.*::${tableName(table)} as row`
}

/**
 * A row of `table` in which every column is NULL. `null::"schema"."name"` is no such row: json_populate_record then checks NULL against
 * the domain of every column that the JSON does not name, so that no row of a table with a NOT NULL domain could leave it to its default.
 */
export function nullRow (table: TableName): Fragment {
  const type = tableName(table)
  return sql`(select x.*::${type} from (select (null::${type}).*) as x)`
}

/** A column, or a place in its jsonb, of the row that `row` names. */
export function columnValue ({ column, keys, gives }: ColumnPath, row: Fragment): Fragment {
  const steps = keys.map((key, i) => sql`${gives === 'text' && i === keys.length - 1 ? sql` ->> ` : sql` -> `}${typeof key === 'number' ? position(key) : sql`${sharedParameter(key)}::text`}`)
  return sql`${row}.${identifier(column)}${join(steps, empty)}`
}

// The cast through text, for a parameter has one type: the key "0" of one path may be the position 0 of another.
function position (key: number): Fragment {
  return sql`${sharedParameter(String(key))}::text::int`
}

/** The same where it is compared: json has no comparison, jsonb does. */
export function comparableValue (path: ColumnPath, row: Fragment): Fragment {
  const value = columnValue(path, row)
  if (path.gives === 'column') return value
  return path.gives === 'json' ? sql`(${value})::jsonb` : sql`(${value})`
}

/** What a value is compared with or assigned to: a column of a table, or a place in its jsonb. */
export interface Target { readonly table: TableName, readonly path: ColumnPath }

/**
 * JSON in the type of what it meets, or (`list`) a JSON array in the array type of that; computed once for the statement and not for
 * every row.
 *
 * It must compare as a literal would, so it takes the type of the column without its length, precision or domain: as numeric(4,2),
 * 1.234 would become 1.23 and then equal what it does not equal. Only json_populate_record turns JSON into a type that is not named,
 * and only by example: a row of one NULL of that type. `coalesce` takes away the domain and the window function the rest (the planner
 * would see through `coalesce` alone). The branch that is never run tells the parser what `f1` is.
 */
function typedJson (json: Fragment, { table, path: { column, gives } }: Target, list: boolean): Fragment {
  const object = sql`json_build_object('f1', ${json})`
  if (gives !== 'column') return sql`(select x.f1 from json_to_record(${object}) as x (f1 ${gives === 'json' ? sql`jsonb` : sql`text`}${list ? sql`[]` : empty}))`
  const one = sql`coalesce(null, (null::${tableName(table)}).${identifier(column)})`
  const example = sql`row(first_value(${list ? sql`array[${one}]` : one}) over ())`
  return sql`(select (x.value).f1 from (select ${example} as value where false
    union all select json_populate_record(${example}, ${object})) as x)`
}

/** A reference in the type of what it meets. */
export function typedReference (reference: Reference, target: Target): Fragment {
  return typedJson(referenceJson(reference), target, false)
}

/** A document in the type of what it meets. */
export function typedDocument (document: JsonDocument, target: Target): Fragment {
  return typedJson(documentJson(document), target, false)
}

/** A document that is a JSON array, as array of the type of what it meets. Without `coalesce` it would be a query after `any`. */
export function typedList (document: JsonDocument, target: Target): Fragment {
  return sql`coalesce(${typedJson(documentJson(document), target, true)})`
}
