/**
 * Converts JSON to the types of a table's columns.
 */
import {
  constant,
  empty,
  fixed,
  identifier,
  join,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { ColumnPath, Meeting, TableName } from '../../plan/nodes.ts'
import { fieldName } from '../../plan/stored-values.ts'
import { tableName, unusedName } from '../statement/table.ts'
import { SYSTEM_COLUMNS } from './column.ts'

/**
 * The type in which JSON is read: that of the column, that of the difference of two of its values
 * (a number of days for a date), or that by which its values are multiplied (a number for money).
 */
export type TypedAs = Meeting['as']

/** A column path, or an expression that has a type of its own. */
export interface TypedPath extends ColumnPath {
  /** The expression. It is never computed. */
  readonly example?: Fragment
}

export class JsonConverter {
  readonly #table: TableName
  readonly #nulls: () => Fragment

  /** `nulls` builds a row of the table in which every column is NULL. */
  constructor (table: TableName, nulls: () => Fragment) {
    this.#table = table
    this.#nulls = nulls
  }

  /**
   * Converts JSON to the type of a column path, which is not named: PostgreSQL takes it from the
   * column.
   */
  convert (json: Fragment, path: TypedPath, as: TypedAs): Fragment {
    const example = typeExample(path, this.#table, as)
    const object = sql`json_build_object(${constant(fieldName(0))}, ${json})`
    const record = sql`json_populate_record(example.value, ${object})`
    return sql`(select x.f1 from (${this.#buildRecords(record, [example])}) as x)`
  }

  /**
   * Converts a JSON array, one element at a time. Converted as a whole, a nested array would become
   * another dimension, and an empty one would be lost. Measured: 10 000 numbers take 31 ms instead
   * of 13.
   */
  convertList (json: Fragment, path: TypedPath): Fragment {
    const records = sql`json_populate_record(example.value, json_build_object('f1', e.value))
      from json_array_elements(${json}) as e`
    const query = this.#buildRecords(records, [typeExample(path, this.#table)])
    return sql`(select coalesce(array_agg(l.f1), '{}') from (${query}) as l)`
  }

  /**
   * Builds a query of the objects of a JSON array. `fields`: their members, each with a NULL of its
   * type; see typeExample. `number`: the name of a column with their numbers, from 1.
   */
  buildFieldRows (
    json: Fragment,
    fields: ReadonlyArray<readonly [name: string, example: Fragment]>,
    number?: Fragment
  ): Fragment {
    const row = identifier(unusedName(fields.map(([name]) => name)))
    const examples = fields.map(([name, example]) => sql`${example} as ${identifier(name)}`)
    const example = sql`select ${row} as value from (
      select ${join(examples)} from ${this.#nulls()} as n) as ${row}`
    if (number === undefined) {
      return this.#populate(sql`json_populate_recordset(example.value, ${json})`, example)
    }
    const records = sql`json_populate_record(example.value, e.value), e.number
      from pg_catalog.json_array_elements(${json}) with ordinality as e (value, number)`
    return this.#populate(records, example, number)
  }

  #buildRecords (records: Fragment, examples: readonly Fragment[]): Fragment {
    const example = sql`select row(${join(examples)}) as value from ${this.#nulls()} as n`
    return this.#populate(records, example)
  }

  /**
   * Builds the query of records of the same type as an example, whose fields are NULL. Only
   * json_populate_record converts JSON to a type that is not named. The branch that never runs
   * tells the parser the types of the fields. The example refers to `n`, a row of NULLs, and not to
   * `(null::"table")."column"`: PostgreSQL copies the description of the row for each of these
   * (measured: 750 MB for 1500 columns). `number`: the name of a second column of the records.
   */
  #populate (records: Fragment, example: Fragment, number?: Fragment): Fragment {
    const [named, first] = number === undefined
      ? [empty, empty]
      : [sql`, x.number as ${number}`, sql`, 0::pg_catalog.int8 as number`]
    return sql`select (x.value).*${named} from (${example}) as example
      cross join lateral (
        select example.value${first} where false union all select ${records}
      ) as x`
  }
}

/**
 * A NULL of the type to which JSON is converted. It must compare like a literal, so it has the type
 * of the column without length, precision or domain: as numeric(4,2), 1.234 would become 1.23 and
 * match the wrong rows. CASE removes these modifiers. A branch that cannot be chosen is not
 * computed, so a computed column is not called for its type.
 */
export function typeExample (
  { column, resultType, example }: TypedPath,
  table: TableName,
  as: TypedAs = 'value'
): Fragment {
  if (example !== undefined) return sql`case when false then ${example} end`
  // JSON for a path with a result of json or jsonb is a parameter of that type.
  if (resultType !== 'column') return sql`null::pg_catalog.text`
  const name = identifier(column)
  // Only rows of a table have system columns.
  const value = SYSTEM_COLUMNS.has(column)
    ? sql`(select t.${name} from ${tableName(table)} as t)`
    : sql`n.${name}`
  return sql`case when false
    then ${as === 'difference' ? sql`${value} - ${value}` : value} end`
}

/**
 * Follows a query of rows from JSON that are matched with those of a table. PostgreSQL expects 100
 * rows from JSON, and reads the whole table rather than use its index 100 times. Of a LIMIT that it
 * does not know while it plans, it expects a tenth. For many rows the index costs little more.
 */
export const expectFewRows: Fragment = sql` limit (select 2147483647)`

/** Rows of JSON, `x`, with typed columns. */
export function buildRecordset (
  json: Fragment,
  columns: ReadonlyArray<readonly [name: Fragment, type: Fragment]>,
  number?: Fragment
): Fragment {
  const records = sql`pg_catalog.json_to_recordset(${json}::pg_catalog.json)`
  const typed = join(columns.map(([name, type]) => sql`${name} ${type}`))
  const names = columns.map(([name]) => name)
  return number === undefined
    ? sql`${records} as x (${typed})`
    : sql`rows from (${records} as (${typed})) with ordinality as x (${
      join([...names, number])
    })`
}

/** Converts a value to a type that is named, as PostgreSQL converts the members of a record. */
export function convertJson (value: Fragment, type: Fragment): Fragment {
  const object = sql`pg_catalog.json_build_object('v', ${value})`
  return sql`(select x.v from pg_catalog.json_to_record(${object}) as x (v ${type}))`
}

/** The name of a column path in error messages. */
export function pathLabel ({ column, keys }: ColumnPath): string {
  return [column, ...keys].join('->')
}

/** jsonb and json (numbers of pg_type.dat). */
const JSON_TYPES = fixed(sql`${constant('{3802,114}')}::pg_catalog.oid[]`)

/** Whether the type of an expression is json or jsonb. The expression is not computed. */
export function isJson (value: Fragment): Fragment {
  return sql`pg_catalog.pg_typeof(case when false then ${value} end)::pg_catalog.oid
    operator(pg_catalog.=) any (${JSON_TYPES})`
}
