/**
 * What a statement computes once, before any row is looked at, and then reads wherever it is needed: the rows that earlier operations
 * published (`s0`, `s1`, … by order of use, so that the text is the same wherever in a batch its operation stands) and JSON in the types of
 * columns (`v0`, `v1`, …). To read from there costs no more than a parameter does, and lets an index be used.
 */
import { randomUUID } from 'node:crypto'
import type { ColumnPath, Plan, TableName } from '../plan/nodes.ts'
import { constant, empty, identifier, join, parameter, sharedParameter, sql, type Fragment } from './fragment.ts'

/** The scope of the statement of one operation. It collects: `queries` is asked when the statement is written. */
export interface Scope {
  readonly table: TableName
  /** Name of the query whose one row has the published rows of operation `source` as `rows`, of type json[]. */
  published (source: number): Fragment
  /** The published rows of operation `source` as one JSON array, where that is short and was not asked for often; else undefined. */
  short (source: number): Fragment | undefined
  /** JSON in the type of a column or of a place in its jsonb, or (`list`) a JSON array in the array type of that. */
  typed (json: Fragment, path: ColumnPath, list?: boolean): Fragment
  /** `s0 as (…), v0 as (…), …`. */
  queries (): readonly Fragment[]
}

interface TypedValue { readonly json: Fragment, readonly example: Fragment }

/** A function takes no more than 100 arguments, and a value needs two. */
const valuesPerQuery = 50

/** A look into the JSON text costs less than to take all rows apart (10 us an operation, measured in a backend), but each one reads it from its beginning. */
const fewRows = 4
const fewLooks = 4

export function createScope (table: TableName, readings: Plan['readings']): Scope {
  const sources = new Map<number, string>()
  const settings = new Map<number, Fragment>()
  let looks = 0
  const values: TypedValue[] = []
  return {
    table,
    published (source) {
      const name = sources.get(source) ?? `s${sources.size}`
      sources.set(source, name)
      return identifier(name)
    },
    short (source) {
      if (looks++ >= fewLooks || readings.get(source)?.some(({ reference, rows }) => reference.row === '*' || rows > fewRows) !== false) return undefined
      const setting = settings.get(source) ?? sharedParameter(settingName(source))
      settings.set(source, setting)
      return sql`current_setting(${setting})::json`
    },
    typed (json, path, list = false) {
      const position = values.push({ json, example: exampleOf(path, list) }) - 1
      const query = identifier(`v${Math.floor(position / valuesPerQuery)}`)
      return sql`(select ${query}.${identifier(fieldName(position % valuesPerQuery))} from ${query})`
    },
    queries () {
      if (sources.size + values.length === 0) return []
      const chunks = Array.from({ length: Math.ceil(values.length / valuesPerQuery) }, (_, i) => values.slice(i * valuesPerQuery, (i + 1) * valuesPerQuery))
      return [
        ...[...sources].map(([source, name]) => sql`${identifier(name)} as materialized (${publishedRows(source)})`),
        ...chunks.map((chunk, i) => sql`${identifier(`v${i}`)} as materialized (${typedValues(chunk, table)})`)
      ]
    }
  }
}

/** Name of the setting that holds the rows of operation `index`. The index, for setting names ignore case and operation ids do not. */
export function settingName (index: number): string {
  return `oneflight.r${index}`
}

/** Name of the setting in which the answer of operation `index` waits to be stored with the key of its batch. Its name cannot be guessed. */
export function answerSetting (index: number): string {
  return `${answers}_${index}`
}

const answers = `oneflight.answer_${randomUUID().replaceAll('-', '')}`

/** `"schema"."name"`. */
export function tableName (table: TableName): Fragment {
  return sql`${identifier(table.schema)}.${identifier(table.name)}`
}

/**
 * A row of `table` in which every column is NULL. `null::"schema"."name"` is no such row: json_populate_record then checks NULL against
 * the domain of every column that the JSON does not name, so that no row of a table with a NOT NULL domain could leave it to its default.
 */
export function nullRow (table: TableName): Fragment {
  const type = tableName(table)
  return sql`(select x.*::${type} from (select (null::${type}).*) as x)`
}

/** Taken apart once: each look into the JSON text would read it from its beginning (measured: 1000 references to 10 000 rows 44 s, so 1.6 s). */
function publishedRows (source: number): Fragment {
  return sql`select array(select element from json_array_elements(current_setting(${parameter(settingName(source))})::json) as elements (element)) as rows`
}

/**
 * A NULL of the type that JSON is to take. It must compare as a literal would, so it has the type of the column without its length,
 * precision or domain: as numeric(4,2), 1.234 would become 1.23 and then equal what it does not equal. `coalesce` takes away the domain and
 * the window function the rest (the planner would see through `coalesce` alone).
 */
function exampleOf ({ column, gives }: ColumnPath, list: boolean): Fragment {
  if (gives !== 'column') return sql`null::${gives === 'json' ? sql`jsonb` : sql`text`}${list ? sql`[]` : empty}`
  const one = sql`coalesce(null, n.${identifier(column)})`
  return sql`first_value(${list ? sql`array[${one}]` : one}) over ()`
}

/**
 * Only json_populate_record turns JSON into a type that is not named, and only by example: a row of NULLs of those types. The branch that is
 * never run tells the parser what its fields are. Their types come from `n`, a row of the table in which every column is NULL, and not from
 * `(null::"table")."column"`, for which PostgreSQL copies the description of the row each time (measured: 750 MB for 1500 columns).
 */
function typedValues (values: readonly TypedValue[], table: TableName): Fragment {
  const object = sql`json_build_object(${join(values.map(({ json }, i) => sql`${constant(fieldName(i))}, ${json}`), sql`, `)})`
  return sql`select (x.value).* from json_populate_record(${nullRow(table)}, '{}') as n
    cross join lateral (select row(${join(values.map(({ example }) => example), sql`, `)}) as value) as example
    cross join lateral (select example.value where false union all select json_populate_record(example.value, ${object})) as x`
}

/** PostgreSQL's own name of a field of ROW(…). */
function fieldName (position: number): string {
  return `f${position + 1}`
}
