/**
 * Checks that JSON fits the type it is converted to. PostgreSQL drops members that a composite type
 * does not have, and stores an array or an object in a text column as JSON text. Both are refused.
 *
 * The first attempt only checks, by the number of the type, whether that can happen
 * (`buildValueCheck`). Each function in an expression costs a backend 0.6 us before it is called,
 * so these checks use few functions. If a check fails, the batch runs again with `checkValues`:
 * `verifyDocument` compares the JSON with the type by the catalogue, and reports the first value
 * that does not fit.
 */
import {
  constant,
  empty,
  fixed,
  identifier,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { JsonShape } from '../../plan/shape.ts'
import { arrayText } from '../../plan/value-text.ts'
import { raise, raiseText } from '../statement/raised-error.ts'

const oids = (...types: readonly number[]): Fragment =>
  fixed(sql`${constant(arrayText(types))}::pg_catalog.oid[]`)

/** jsonb and json (numbers of pg_type.dat), which store any JSON. */
const JSON_OIDS = [3802, 114]
const JSON_TYPES = oids(...JSON_OIDS)

/**
 * Types that store an array of scalars unchanged: json, and arrays of int4, int8, uuid, numeric,
 * text and varchar. Other types need the second attempt. For more than eight types PostgreSQL would
 * first build a hash table.
 */
const LIST_TYPES = oids(...JSON_OIDS, 1007, 1016, 2951, 1231, 1009, 1015)

/** A nested value in the text form of an array, `{…}`, and a JSON object. */
const ELEMENT = String.raw`\{(.*[{,])?"?([[{(']|\\\\x[57]b)`
const OBJECT = String.raw`\{\s*"([^"\\]|\\.)*"\s*:`

/**
 * Regular expressions for the text of values that may differ from the JSON:
 * - `json`: in json and jsonb only NULL, which may have been the JSON null.
 * - `textArray`: in text[] an element that starts like an array or an object. For an array also
 *   one without elements, which may have been a list of empty lists.
 * - `reference`: in other types the JSON text of an array or an object, also as the digits of
 *   bytea, a composite `(…)`, a tsvector or tsquery `'…'`, or as an element of an array.
 * - `array`: in other types, if the JSON was an array, also any text that is not a PostgreSQL
 *   array. For example, `[1,2,3]` is also a date.
 */
const PATTERNS = {
  json: constant('^NULL$'),
  textArray: constant('[{,]"?[[{]'),
  emptyTextArray: constant(String.raw`[{,]"?[[{]|^\{\}$`),
  reference: constant(
    String.raw`^(\[(.*\])?$|\{(\s*\})?$|\(.*\)$|'|\\x[57]b|${OBJECT}|${ELEMENT})`
  ),
  array: constant(String.raw`^([^{]|\{\}$|${OBJECT}|${ELEMENT})`)
}

/**
 * The `oid` of an expression's type, or of a domain's base type. The expression is not computed.
 */
function typeOf (value: Fragment): Fragment {
  return sql`pg_catalog.pg_typeof(case when false then ${value} end)::pg_catalog.oid`
}

/** Whether the type of an expression is json or jsonb. */
export function isJson (value: Fragment): Fragment {
  return sql`${typeOf(value)} operator(pg_catalog.=) any (${JSON_TYPES})`
}

/** A column of the row `x`, whose value was converted from JSON of this shape. */
export interface CheckedColumn {
  readonly column: string
  readonly shape: Exclude<JsonShape, 'scalar'>
  /** Its value does not show what the JSON was; see KnownColumns.isTime. */
  readonly isHidden?: boolean
}

/**
 * Builds a condition that is true, or raises `inspect` if a value may differ from
 * the JSON. PostgreSQL has no regular expressions for nondeterministic collations, so the condition
 * names another one.
 */
export function buildValueCheck (columns: readonly CheckedColumn[]): Fragment {
  const conditions = columns.map(({ column, shape, isHidden }) => {
    if (isHidden === true) return sql`false`
    const value = sql`x.${identifier(column)}`
    if (shape === 'object') return isJson(value)
    if (shape === 'list') return sql`${typeOf(value)} operator(pg_catalog.=) any (${LIST_TYPES})`
    return sql`coalesce(${value}::pg_catalog.text, 'NULL') collate pg_catalog."C"
      operator(pg_catalog.!~) case ${typeOf(value)}
      when 3802 then ${PATTERNS.json} when 114 then ${PATTERNS.json}
      when 1009 then ${
        shape === 'array' ? PATTERNS.emptyTextArray : PATTERNS.textArray
      } else ${PATTERNS[shape]} end`
  })
  return sql`case when ${join(conditions, sql` and `)} then true
    else ${raise('inspect')} is null end`
}

/** A member of a JSON object, a NULL of its type, and its name for error messages. */
export interface CheckedMember {
  readonly member: string
  readonly example: Fragment
  readonly label: string
}

interface VerifyOptions {
  /** For an array of objects: their positions in the request; empty: their own. */
  readonly positions?: readonly number[] | undefined
  /** Relations that the examples refer to, each after a comma. */
  readonly from?: Fragment
}

/**
 * Builds an expression that returns `document`, of type json, or raises `value` if a
 * value in it does not fit its type. The document is an object, or with `positions` an array of
 * objects.
 */
export function verifyDocument (
  document: Fragment,
  members: readonly CheckedMember[],
  { positions, from = empty }: VerifyOptions = {}
): Fragment {
  if (members.length === 0) return document
  const items = positions === undefined
    ? sql`lateral (values (d.document, 1))`
    : sql`pg_catalog.json_array_elements(d.document) with ordinality`
  const row = positions === undefined
    ? sql`''`
    : positions.length === 0
      ? sql`(i.position operator(pg_catalog.-) 1)::pg_catalog.text`
      : sql`(${parameter(arrayText(positions))}::pg_catalog.int4[])[i.position]::pg_catalog.text`
  const texts = (list: readonly string[]): Fragment =>
    sql`${parameter(arrayText(list))}::pg_catalog.text[]`
  const types = join(members.map(({ example }) => typeOf(example)), sql`, `)
  return sql`(with recursive d as materialized (select ${document} as document),
    w (value, type, owner, path, nested) as (
      select i.value -> m.member, m.type, m.type, array[${row}, m.label], false
      from d${from}, ${items} as i (value, position),
        unnest(${texts(members.map(({ member }) => member))},
          ${texts(members.map(({ label }) => label))}, array[${types}]) as m (member, label, type)
      where json_typeof(i.value -> m.member) in ('array', 'object')
      union all
      select n.value, n.type, t.oid, w.path || n.step, n.nested
      from w join pg_catalog.pg_type as t on t.oid = w.type
      cross join lateral (
        select w.value, t.typbasetype as type, '{}'::text[] as step, false as nested
        where t.typtype = 'd'
        union all
        select e.value, a.atttypid, array[e.key], false
        from json_each(case when t.typtype = 'c' and json_typeof(w.value) = 'object'
          then w.value else '{}' end) as e
        left join pg_catalog.pg_attribute as a on a.attrelid = t.typrelid
          and a.attname = e.key and a.attnum > 0 and not a.attisdropped
        where a.atttypid is null or json_typeof(e.value) in ('array', 'object')
        union all
        select e.value, case when e.nested then w.type else t.typelem end,
          array[(e.position - 1)::text], e.nested
        from (
          select e.value, e.position, bool_and(json_typeof(e.value) = 'array') over () as nested
          from json_array_elements(case when t.typtype = 'b' and t.typcategory = 'A'
            and json_typeof(w.value) = 'array' then w.value else '[]' end)
            with ordinality as e (value, position)
        ) as e
        where json_typeof(e.value) in ('array', 'object')
      ) as n
    ), f as (
      select json_build_object('problem', case when w.type is null then 'member'
          when w.nested and t.typcategory = 'A' then 'empty' else 'list' end,
        'path', w.path, 'type', pg_catalog.format_type(coalesce(w.type, w.owner), null)) as issue
      from w left join pg_catalog.pg_type as t on t.oid = w.type
      where w.type is null or t.typtype <> 'd' and
        (t.typcategory in (${SCALAR_CATEGORIES}) or t.oid = any (${SCALAR_TYPES})
          or t.typname = 'hstore'
          or w.nested and case json_typeof(w.value) when 'array'
            then json_array_length(w.value) = 0 end) limit 1
    )
    select case when f.issue is null then d.document
      else ${raiseText('value', sql`f.issue::text`)}::json end from d left join f on true)`
}

/** Type categories of scalar types (docs: "pg_type", typcategory): a list would become text. */
const SCALAR_CATEGORIES = join([...'SNBDTIEVZ'].map(letter => constant(letter)), sql`, `)

/** Scalar types of other categories: bytea, char, xml, refcursor, uuid, tsvector, tsquery. */
const SCALAR_TYPES = oids(17, 18, 142, 1790, 2950, 3614, 3615)
