/**
 * Reads the types of a relation's columns from the catalogue, and everything that they contain.
 */
import { identifier, integer, sql, type Fragment } from '../fragment/fragment.ts'
import { builtInOids, builtInType, FIRST_CREATED_OID } from './built-in.ts'
import type { BaseType, Form, Type } from './type.ts'

/** Types of a relation beyond these are unknown, and composites with more attributes. */
const MAX_TYPES = 200
const MAX_ATTRIBUTES = 200

/** A type as typesIn returns it. */
export type TypeRow = readonly [
  oid: number,
  /** pg_type.typtype */
  kind: string,
  schema: string,
  name: string,
  /** pg_type.typcategory */
  category: string,
  /** The OID of the base of a domain, the element of an array or the subtype of a range; or 0. */
  part: number,
  /** The type modifier of the base of a domain; -1: none. */
  modifier: number,
  delimiter: string,
  /** The attributes of a composite; null: it has none. */
  attributes: readonly AttributeRow[] | null,
  /** The OID of the relation of a composite; or 0. */
  relation: number
]

type AttributeRow = readonly [name: string, oid: number, modifier: number]

/**
 * Builds an expression that returns a JSON array of types, except those that are known without the
 * catalogue, and of those that they contain; see TypeRow. `roots`: a query of their OIDs. Types
 * that PostgreSQL determines by the value (anyelement) are left out, and built-in ones that have
 * no arrays, which only catalogues have (pg_node_tree).
 */
export function typesIn (roots: Fragment, maxTypes = MAX_TYPES): Fragment {
  return sql`(with recursive reached (oid) as (
      select root.oid from (${roots}) as root (oid) where ${isRead(sql`root.oid`)}
      union
      select part.oid from reached as r
      join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) r.oid
      cross join lateral (
        select ${PART} as oid
        union all select a.atttypid from pg_catalog.pg_attribute as a
        where y.typtype operator(pg_catalog.=) 'c' and ${attributesOf(sql`y.typrelid`)}
      ) as part where ${isRead(sql`part.oid`)}
    )
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(y.oid::pg_catalog.int8,
        y.typtype, s.nspname, y.typname, y.typcategory, ${PART}::pg_catalog.int8, y.typtypmod,
        y.typdelim, ${ATTRIBUTES}, y.typrelid::pg_catalog.int8)
        order by y.oid), '[]')
      from (select r.oid from reached as r limit ${integer(maxTypes)}) as r
      join pg_catalog.pg_type as y on y.oid operator(pg_catalog.=) r.oid
      join pg_catalog.pg_namespace as s on s.oid operator(pg_catalog.=) y.typnamespace
      where y.typtype operator(pg_catalog.<>) 'p' and (y.typcategory operator(pg_catalog.=) 'A'
        or y.typarray operator(pg_catalog.<>) 0
        or y.oid operator(pg_catalog.>=) ${integer(FIRST_CREATED_OID)}::pg_catalog.oid))`
}

/** A condition on `a`, a row of pg_attribute: it is a column of the relation with this OID. */
export function attributesOf (relation: Fragment): Fragment {
  return sql`a.attrelid operator(pg_catalog.=) ${relation}
    and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped`
}

/** 0 is no type. */
function isRead (oid: Fragment): Fragment {
  return sql`${oid} operator(pg_catalog.<>) all (array[0, ${builtInOids}]::pg_catalog.oid[])`
}

/** The type that a type `y` contains, or 0. */
const PART = sql`case when y.typtype operator(pg_catalog.=) 'd' then y.typbasetype
    when y.typcategory operator(pg_catalog.=) 'A' then y.typelem
    when y.typcategory operator(pg_catalog.=) 'R' then (
      select g.rngsubtype from pg_catalog.pg_range as g
      where g.rngtypid operator(pg_catalog.=) y.oid or g.rngmultitypid operator(pg_catalog.=) y.oid)
    else 0 end`

/** The attributes of a type `y`: one more than the maximum if it has more. */
const ATTRIBUTES = sql`case when y.typtype operator(pg_catalog.=) 'c' then (
    select pg_catalog.json_agg(pg_catalog.json_build_array(a.attname,
      a.atttypid::pg_catalog.int8, a.atttypmod) order by a.attnum) from (
      select a.attname, a.atttypid, a.atttypmod, a.attnum from pg_catalog.pg_attribute as a
      where ${attributesOf(sql`y.typrelid`)}
      order by a.attnum limit ${integer(MAX_ATTRIBUTES + 1)}) as a) end`

/** Returns a type by its OID and its type modifier. */
export type FindType = (oid: number, modifier: number) => Type

/** `rows`: what typesIn returned. `schema`: that of the table or function. */
export function readTypes (rows: readonly TypeRow[], schema: string): FindType {
  const rowsByOid = new Map(rows.map(row => [row[0], row]))
  const known = new Map<string, Type>()
  const find: FindType = (oid, modifier) => {
    const key = `${oid} ${modifier}`
    const type = known.get(key) ?? builtInType(oid, modifier)
    if (type !== undefined) return type
    const row = rowsByOid.get(oid)
    const named = { oid, name: nameOfRow(row, schema), sql: sqlOfRow(row, schema) }
    const parts = row?.[8] ?? []
    if (row?.[1] === 'c' && parts.length <= MAX_ATTRIBUTES) {
      const attributes = new Map<string, Type>()
      const composite: Type = { ...named, kind: 'composite', relation: row[9], attributes }
      // Before its attributes are read, because a type can contain itself.
      known.set(key, composite)
      for (const [name, part, partModifier] of parts) {
        attributes.set(name, find(part, partModifier))
      }
      return composite
    }
    const found = row === undefined
      ? { ...named, kind: 'unknown' } as const
      : readType(row, { named, modifier, find })
    known.set(key, found)
    return found
  }
  return find
}

interface ReadContext {
  readonly named: Pick<BaseType, 'oid' | 'name' | 'sql'>
  readonly modifier: number
  readonly find: FindType
}

function readType (row: TypeRow, { named, modifier, find }: ReadContext): Type {
  const [, kind, , , category, part, partModifier, delimiter] = row
  switch (kind) {
    case 'd':
      return { ...named, kind: 'domain', base: find(part, partModifier) }
    case 'e':
      return { ...named, kind: 'enum' }
    case 'r':
    case 'm':
      return { ...named, kind: kind === 'r' ? 'range' : 'multirange', subtype: find(part, -1) }
    case 'b':
      return category === 'A'
        ? readArray(named, { element: find(part, modifier), delimiter })
        : { ...named, kind: 'base', form: formOf(row), modifier, delimiter }
    default:
      return { ...named, kind: 'unknown' }
  }
}

function readArray (
  { oid }: ReadContext['named'],
  { element, delimiter }: { readonly element: Type, readonly delimiter: string }
): Type {
  const name = `${element.name}[]`
  return { kind: 'array', oid, name, sql: element.sql && sql`${element.sql}[]`, element, delimiter }
}

/** The letters of categories of scalar types (docs: "pg_type", typcategory). */
const SCALAR_CATEGORIES = 'SNBDTIEVZ'

/** The letter of types that the catalogue does not divide further. */
const USER_CATEGORY = 'U'

/**
 * An array or an object is the text of a value only for the types of other categories: geometry,
 * and what extensions define, except for hstore.
 */
function formOf ([oid, , , name, category]: TypeRow): Form {
  const scalars = oid < FIRST_CREATED_OID ? SCALAR_CATEGORIES + USER_CATEGORY : SCALAR_CATEGORIES
  return name === 'hstore' || scalars.includes(category) ? 'plain' : 'list'
}

/** The name of a type, with its schema if that is another one than that of the table. */
function nameOfRow (row: TypeRow | undefined, schema: string): string {
  if (row === undefined) return 'of the column'
  return [schema, 'pg_catalog'].includes(row[2]) ? row[3] : `${row[2]}.${row[3]}`
}

function sqlOfRow (row: TypeRow | undefined, schema: string): Fragment | undefined {
  if (row === undefined) return undefined
  const [, , typeSchema, name] = row
  return typeSchema === 'pg_catalog' || typeSchema === schema
    ? sql`${identifier(typeSchema)}.${identifier(name)}`
    : undefined
}
