/**
 * Converts JSON to the types of a table's columns, without naming these types.
 */
import {
  constant,
  empty,
  identifier,
  join,
  parameter,
  sql,
  whereAll,
  type Fragment
} from '../../fragment/fragment.ts'
import { toPath } from '../../plan/name.ts'
import type { ColumnPath, TableName, UncertainColumn } from '../../plan/nodes.ts'
import type { JsonShape } from '../../plan/shape.ts'
import { fieldName } from '../../plan/stored-values.ts'
import { tableName, unusedName } from '../statement/table.ts'
import { SYSTEM_COLUMNS } from './column.ts'
import { buildValueCheck, verifyDocument, type CheckedValue } from './value-checks.ts'

/**
 * The type in which JSON is read: that of the column, or that of the difference of two of its
 * values (a number of days for a date).
 */
export type TypedAs = 'value' | 'difference'

/** A column path, or an expression that has a type of its own. */
export interface TypedPath extends ColumnPath {
  /** The expression. It is never computed. */
  readonly example?: Fragment
}

export interface TypedList {
  readonly json: Fragment
  /** A NULL of the type; see typeExample. */
  readonly example: Fragment
}

export interface TypedValue extends TypedList {
  readonly shape: JsonShape
  /** The column, for error messages. */
  readonly label: string
}

/**
 * Builds the query that converts values, each as one field of its row. Only json_populate_record
 * converts JSON to a type that is not named, and it takes the type from an example: a row of NULLs.
 * The branch that never runs tells the parser the types of the fields. The examples refer to `n`, a
 * row of the table in which every column is NULL, and not to `(null::"table")."column"`: PostgreSQL
 * copies the description of the row for each of these (measured: 750 MB for 1500 columns).
 */
export function buildTypedValues (
  values: readonly TypedValue[],
  nulls: Fragment,
  checkValues: boolean
): Fragment {
  const members = values.map(({ json }, i) => sql`${constant(fieldName(i))}, ${json}`)
  const object = sql`json_build_object(${join(members, sql`, `)})`
  const checked = values.flatMap(({ shape, example, label }, i) =>
    shape === 'scalar' ? [] : [{ shape, example, label, member: fieldName(i) }]
  )
  const results = checked.map(({ shape, member }): CheckedValue => ({
    value: sql`(x.value).${identifier(member)}`,
    shape: shape as CheckedValue['shape']
  }))
  const json = checkValues ? verifyDocument(object, checked) : object
  const where = checkValues || results.length === 0
    ? empty
    : sql` where ${buildValueCheck(results)}`
  return sql`select (x.value).* from ${exampleRow(values, nulls)}
    cross join lateral (select example.value where false union all
      select json_populate_record(example.value, ${json})) as x${where}`
}

/**
 * Builds the query that converts a JSON array, one element at a time. Converted as a whole, a
 * nested array would become another dimension, and an empty one would be lost. Measured: 10 000
 * numbers take 31 ms instead of 13.
 */
export function buildTypedList (
  { json, example }: TypedList,
  nulls: Fragment
): Fragment {
  return sql`select coalesce(array_agg((x.value).f1), '{}') as f1
    from ${exampleRow([{ example }], nulls)}
    cross join lateral (select example.value where false union all
      select json_populate_record(example.value, json_build_object('f1', e.value))
      from json_array_elements(${json}) as e) as x`
}

/**
 * Builds the query that converts a JSON array of objects, whose members have the names of fields of
 * ROW(…), to rows of the types of `examples`.
 */
export function buildTypedRows (
  json: Fragment,
  examples: readonly Fragment[],
  nulls: Fragment
): Fragment {
  return sql`select (x.value).* from ${exampleRow(examples.map(example => ({ example })), nulls)}
    cross join lateral (select example.value where false union all
      select json_populate_recordset(example.value, ${json})) as x`
}

/**
 * Builds the same query for objects whose members have the names of columns of the table. The rows
 * have the types of the columns without domains, see typeExample.
 */
export function buildColumnRows (
  json: Fragment,
  columns: readonly string[],
  { table, nulls }: { readonly table: TableName, readonly nulls: Fragment }
): Fragment {
  const row = identifier(unusedName(columns))
  const examples = columns.map(column =>
    sql`${typeExample(toPath(column), table, 'value')} as ${identifier(column)}`
  )
  return sql`select (x.value).* from ${nulls} as n
    cross join lateral (
      select ${row} as value from (select ${join(examples, sql`, `)}) as ${row}
    ) as example
    cross join lateral (select example.value where false union all
      select json_populate_recordset(example.value, ${json})) as x`
}

/** `example`: a row of the types to which JSON is converted. */
function exampleRow (
  values: ReadonlyArray<Pick<TypedList, 'example'>>,
  nulls: Fragment
): Fragment {
  return sql`${nulls} as n
    cross join lateral (
      select row(${join(values.map(({ example }) => example), sql`, `)}) as value
    ) as example`
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
  as: TypedAs
): Fragment {
  if (example !== undefined) return sql`case when false then ${example} end`
  if (resultType !== 'column') {
    return sql`null::${resultType === 'json' ? sql`jsonb` : sql`text`}`
  }
  const name = identifier(column)
  // Only rows of a table have system columns.
  const value = SYSTEM_COLUMNS.has(column)
    ? sql`(select t.${name} from ${tableName(table)} as t)`
    : sql`n.${name}`
  return sql`case when false
    then ${as === 'difference' ? sql`${value} - ${value}` : value} end`
}

/** Rows of JSON with typed columns. */
export function buildRecordset (json: Fragment, columns: readonly Fragment[]): Fragment {
  return sql`pg_catalog.json_to_recordset(${json}::pg_catalog.json) as x (${
    join(columns, sql`, `)
  })`
}

/** Converts a value to a type that is named, as PostgreSQL converts the members of a record. */
export function convertJson (value: Fragment, type: Fragment): Fragment {
  return convertRecord(sql`pg_catalog.json_build_object('v', ${value})`, type)
}

/** Whether values are checked, and how rows `x` of a first attempt are. */
interface ValueChecker {
  readonly checkValues: boolean
  checkStoredRows(columns: readonly UncertainColumn[]): readonly Fragment[]
}

interface CheckedValueOptions {
  readonly values: ValueChecker
  readonly shape: JsonShape
  /** Its name in error messages. */
  readonly label: string
  /** The name of the member that a hint of PostgreSQL names, with value checks. */
  readonly member?: string
}

/** The same with the checks that JSON of this shape needs. */
export function convertChecked (
  value: Fragment,
  type: Fragment,
  { values, shape, label, member = 'v' }: CheckedValueOptions
): Fragment {
  if (values.checkValues) {
    const key = sql`${parameter(member)}::pg_catalog.text`
    const object = sql`pg_catalog.json_build_object(${key}, ${value})`
    const checked = { member, example: sql`null::${type}`, label }
    const record = shape === 'scalar' ? object : verifyDocument(object, [checked])
    return convertRecord(record, type, { member: identifier(member) })
  }
  const checks = shape === 'scalar'
    ? []
    : values.checkStoredRows([{ column: 'v', shape, references: [] }])
  return convertRecord(sql`pg_catalog.json_build_object('v', ${value})`, type, { checks })
}

/** Converts a member of an object. `checks` are conditions on the row `x`. */
function convertRecord (
  object: Fragment,
  type: Fragment,
  { checks = [], member = sql`v` }: {
    readonly checks?: readonly Fragment[],
    readonly member?: Fragment
  } = {}
): Fragment {
  const record = sql`pg_catalog.json_to_record(${object}) as x (${member} ${type})`
  return sql`(select x.${member} from ${record}${whereAll(checks)})`
}

/** A JSON array as jsonb[] or text[]. */
export function jsonElements (json: Fragment, resultType: 'json' | 'text'): Fragment {
  const value = resultType === 'text'
    ? sql`e.value #>> '{}'`
    : sql`case json_typeof(e.value) when 'null' then null else e.value::jsonb end`
  return sql`(select coalesce(array_agg(${value}), '{}') from json_array_elements(${json}) as e)`
}

/** The name of a column path in error messages. */
export function pathLabel ({ column, keys }: ColumnPath): string {
  return [column, ...keys].join('->')
}
