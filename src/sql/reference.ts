/**
 * References in SQL. An operation that is referred to publishes its rows as JSON in a setting of the transaction; a reader takes
 * them from there, so that depth of references adds no round trip. Whether row and column exist is checked by the publisher
 * (compile.ts): a subselect in the reader is not evaluated when no row needs it.
 */
import type { JsonDocument, Reference, TableName } from '../plan/nodes.ts'
import { arrayText, identifier, join, parameter, sql, type Fragment } from './fragment.ts'

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

/** Name of the setting that holds the rows of operation `index`. The index, for setting names ignore case and operation ids do not. */
export function settingName (index: number): string {
  return `oneflight.r${index}`
}

/** JSON text of a document, its references filled in by the server. */
export function documentText (document: JsonDocument): Fragment {
  const { pieces, references } = document
  if (references.length === 0) return parameter(pieces[0] as string)
  const sources = [...new Set(references.map(reference => reference.source))]
  // The sources are taken apart once and joined, not looked into once a reference: 1000 references then cost like literals.
  const rows = join(sources.map(source => sql`select ${parameter(String(source))}::int as source, position - 1 as row, element
    from json_array_elements(${published(source)}) with ordinality as rows (element, position)`), sql` union all `)
  return sql`(select string_agg(cut.piece || coalesce((found.element -> cut.key)::text, ''), '' order by cut.position)
    from unnest(${parameter(arrayText(pieces))}::text[], ${parameter(arrayText(references.map(reference => reference.source)))}::int[],
      ${parameter(arrayText(references.map(reference => reference.row)))}::int[], ${parameter(arrayText(references.map(reference => reference.column)))}::text[]
    ) with ordinality as cut (piece, source, row, key, position)
    left join (${rows}) as found on found.source = cut.source and found.row = cut.row)`
}

/**
 * The value of a reference in the type of `column` of `table`, computed once for the statement and not for every row.
 *
 * It must compare as a literal would, so it takes the type of the column without its length, precision or domain: as numeric(4,2),
 * 1.234 would become 1.23 and then equal what it does not equal. Only json_populate_record turns JSON into a type that is not named,
 * and only by example: a row of one NULL of that type. `coalesce` takes away the domain and the window function the rest (the planner
 * would see through `coalesce` alone). The branch that is never run tells the parser what `f1` is.
 */
export function referenceOperand (reference: Reference, table: TableName, column: string): Fragment {
  const example = sql`row(first_value(coalesce(null, (null::${tableName(table)}).${identifier(column)})) over ())`
  const value = sql`${published(reference.source)} -> ${parameter(String(reference.row))}::int -> ${parameter(reference.column)}::text`
  return sql`(select (x.value).f1 from (select ${example} as value where false
    union all select json_populate_record(${example}, json_build_object('f1', ${value}))) as x)`
}

function published (source: number): Fragment {
  return sql`current_setting(${parameter(settingName(source))})::json`
}
