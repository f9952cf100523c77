/**
 * Whether JSON fits the type it is read in. PostgreSQL drops members that a composite type does not
 * have, and stores an array or an object in a text column as its JSON text. Both are refused here.
 *
 * A first attempt only asks whether that can happen at all (`undoubted`), by the number of the
 * type. Each function in an expression costs a backend 0.6 us before it is ever called, so there
 * are as few of them as possible. Where it can, the batch runs again, carefully: `inspected`
 * follows the JSON into the type by the catalogue, and names the first place that does not fit.
 */
import type { JsonShape } from '../plan/nodes.ts'
import {
  arrayText,
  constant,
  empty,
  fixed,
  join,
  parameter,
  sql,
  type Fragment
} from './fragment.ts'
import { raiseInspection, raiseText } from './marker.ts'

const oids = (...types: readonly number[]): Fragment =>
  fixed(sql`${constant(arrayText(types))}::pg_catalog.oid[]`)

/** jsonb and json (numbers of pg_type.dat): they hold JSON as it is. */
const json = [3802, 114]

const jsonTypes = oids(...json)

/**
 * Types in which an array of plain values is what it was: json, and arrays of int4, int8, uuid,
 * numeric, text and varchar. Whatever else there is goes the careful way. No more than eight: of a
 * longer list PostgreSQL makes a hash table first.
 */
const listTypes = oids(...json, 1007, 1016, 2951, 1231, 1009, 1015)

/** An element of an array, `{…}`, and a JSON object. An array has no `:` after its first string. */
const element = String.raw`\{(.*[{,])?"?([[{(']|\\\\x[57]b)`
const object = String.raw`\{\s*"([^"\\]|\\.)*"\s*:`

/**
 * How values look, as text, that may not be what a reference meant.
 * - In json and jsonb only NULL, which may have been the JSON null.
 * - In text[] an element that begins like an array or an object.
 * - Elsewhere JSON text of an array or an object, also in the digits of bytea, a composite `(…)`,
 *   a tsvector or tsquery `'…'`; and the same in an element of an array.
 * - Elsewhere, where it was an array: also whatever is no array of PostgreSQL. `[1,2,3]` is a date,
 *   too.
 */
const patterns = {
  json: constant('^NULL$'),
  textArray: constant('[{,]"?[[{]'),
  reference: constant(
    String.raw`^(\[(.*\])?$|\{(\s*\})?$|\(.*\)$|'|\\x[57]b|${object}|${element})`
  ),
  array: constant(`^([^{]|${object}|${element})`)
}

/**
 * `oid` of the type of an expression; for a domain, of its base type. The expression is not
 * computed.
 */
function typeOf (value: Fragment): Fragment {
  return sql`pg_catalog.pg_typeof(case when false then ${value} end)::pg_catalog.oid`
}

/** Whether the type of an expression is json or jsonb. */
export function isJson (value: Fragment): Fragment {
  return sql`${typeOf(value)} operator(pg_catalog.=) any (${jsonTypes})`
}

/** A value that was read from JSON of this shape. */
export interface CheckedColumn {
  readonly value: Fragment
  readonly shape: Exclude<JsonShape, 'scalar'>
}

/**
 * A condition that is true, or fails with the marker `inspect`: one of the values may not be what
 * the JSON was.
 */
export function undoubted (values: readonly CheckedColumn[]): Fragment {
  const conditions = values.map(({ value, shape }) => {
    if (shape === 'object') return isJson(value)
    if (shape === 'list') return sql`${typeOf(value)} operator(pg_catalog.=) any (${listTypes})`
    return sql`coalesce(${value}::pg_catalog.text, 'NULL') operator(pg_catalog.!~)
      case ${typeOf(value)}
      when 3802 then ${patterns.json} when 114 then ${patterns.json}
      when 1009 then ${patterns.textArray} else ${patterns[shape]} end`
  })
  return sql`case when ${join(conditions, sql` and `)} then true
    else ${raiseInspection} is null end`
}

/** A member of an object to inspect, the type that it takes, and its name for error messages. */
export interface Inspected {
  readonly member: string
  readonly example: Fragment
  readonly label: string
}

/**
 * `document`, of type json, when all that it holds fits; else it fails with the marker `value`. It
 * is one object, or an array of them with their `positions` in the request. `source` are further
 * relations that examples refer to.
 */
export function inspected (
  document: Fragment,
  members: readonly Inspected[],
  { positions, source = empty }: {
    readonly positions?: readonly number[] | undefined,
    readonly source?: Fragment
  } = {}
): Fragment {
  if (members.length === 0) return document
  const items = positions === undefined
    ? sql`lateral (values (d.document, 1))`
    : sql`pg_catalog.json_array_elements(d.document) with ordinality`
  const row = positions === undefined
    ? sql`''`
    : sql`(${parameter(arrayText(positions))}::pg_catalog.int4[])[i.position]::pg_catalog.text`
  const texts = (list: readonly string[]): Fragment =>
    sql`${parameter(arrayText(list))}::pg_catalog.text[]`
  const types = join(members.map(({ example }) => typeOf(example)), sql`, `)
  return sql`(with recursive d as materialized (select ${document} as document),
    w (value, type, owner, path) as (
      select i.value -> m.member, m.type, m.type, array[${row}, m.label]
      from d${source}, ${items} as i (value, position),
        unnest(${texts(members.map(({ member }) => member))},
          ${texts(members.map(({ label }) => label))}, array[${types}]) as m (member, label, type)
      where json_typeof(i.value -> m.member) in ('array', 'object')
      union all
      select n.value, n.type, t.oid, w.path || n.step
      from w join pg_catalog.pg_type as t on t.oid = w.type
      cross join lateral (
        select w.value, t.typbasetype as type, '{}'::text[] as step where t.typtype = 'd'
        union all
        select e.value, a.atttypid, array[e.key]
        from json_each(case when t.typtype = 'c' and json_typeof(w.value) = 'object'
          then w.value else '{}' end) as e
        left join pg_catalog.pg_attribute as a on a.attrelid = t.typrelid
          and a.attname = e.key and a.attnum > 0 and not a.attisdropped
        where a.atttypid is null or json_typeof(e.value) in ('array', 'object')
        union all
        select e.value, case when e.nested then w.type else t.typelem end,
          array[(e.position - 1)::text]
        from (
          select e.value, e.position, bool_and(json_typeof(e.value) = 'array') over () as nested
          from json_array_elements(case when t.typtype = 'b' and t.typcategory = 'A'
            and json_typeof(w.value) = 'array' then w.value else '[]' end)
            with ordinality as e (value, position)
        ) as e
        where json_typeof(e.value) in ('array', 'object')
      ) as n
    ), f as (
      select json_build_object('problem', case when w.type is null then 'member' else 'list' end,
        'path', w.path, 'type', pg_catalog.format_type(coalesce(w.type, w.owner), null)) as fault
      from w left join pg_catalog.pg_type as t on t.oid = w.type
      where w.type is null or t.typtype <> 'd' and
        (t.typcategory in (${scalarCategories}) or t.oid = any (${scalarTypes})) limit 1
    )
    select case when f.fault is null then d.document
      else ${raiseText('value', sql`f.fault::text`)}::json end from d left join f on true)`
}

/**
 * Categories of types that take one value (docs: "pg_type", typcategory): a list would become
 * text.
 */
const scalarCategories = join([...'SNBDTIEVZ'].map(letter => constant(letter)), sql`, `)

/** bytea, char, xml, refcursor, uuid, tsvector, tsquery: the same outside of these categories. */
const scalarTypes = oids(17, 18, 142, 1790, 2950, 3614, 3615)
