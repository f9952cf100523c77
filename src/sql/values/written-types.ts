/**
 * Checks what the service has read of a type besides its OID, when it wrote values in that type:
 * the attributes of composites, and lengths, precisions and scales. DDL can change them without
 * changing the type of a column, and PostgreSQL would then store a value in another attribute, or
 * round it.
 */
import { limitedType } from '../../catalogue/built-in.ts'
import type { BaseType, CompositeType, Type } from '../../catalogue/type.ts'
import {
  AND,
  constant,
  empty,
  identifier,
  integer,
  join,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { tableName } from '../statement/table.ts'
import { MAX_COPIES, type Column } from './column-types.ts'

/** A part of a column, as an expression that is NULL, and its type. */
interface Part<PartType> {
  readonly value: Fragment
  readonly type: PartType
}

/** The parts of columns that DDL can change without changing the types of the columns. */
interface Parts {
  /** Those whose length or precision can drop something. */
  readonly limited: Array<Part<BaseType>>
  readonly composites: Array<Part<CompositeType>>
}

interface WrittenChecks {
  /** Conditions that PostgreSQL checks while it parses the statement. */
  readonly parsed: readonly Fragment[]
  /** Conditions that are evaluated. */
  readonly evaluated: readonly Fragment[]
}

/**
 * Conditions that values can be written as before. `written`: with each column, whether values are
 * stored in it, and not only compared.
 */
export function compareWritten (written: ReadonlyMap<Column, boolean>): WrittenChecks {
  const tables = [...Map.groupBy(written, ([{ table }]) => table)]
  const compared = tables.map(([table, columns]) => compareColumns(tableName(table), columns))
  return {
    parsed: compared.flatMap(({ parsed }) => parsed),
    evaluated: compared.flatMap(({ evaluated }) => evaluated)
  }
}

/** Conditions that values can be written in a type as before. */
export function compareWrittenType (type: Type, name: Fragment): readonly Fragment[] {
  const parts: Parts = { limited: [], composites: [] }
  addParts({ value: sql`(null::${name})`, type }, parts, false)
  if (parts.composites.length === 0) return []
  const from = sql`(select) as n`
  return [...compareLimits(parts.limited, from), ...compareAttributes(parts.composites, from)]
}

function compareColumns (
  table: Fragment,
  columns: ReadonlyArray<readonly [Column, boolean]>
): WrittenChecks {
  const parts: Parts = { limited: [], composites: [] }
  const nulls = sql`(null::${table})`
  const isMany = columns.length > MAX_COPIES
  const row = isMany ? sql`n` : nulls
  for (const [{ name, type }, stored] of columns) {
    addParts({ value: sql`${row}.${name}`, type }, parts, stored)
  }
  const from = isMany ? sql`(select ${nulls}.*) as n` : sql`(select) as n`
  return {
    parsed: compareLimits(parts.limited, from),
    evaluated: compareAttributes(parts.composites, from)
  }
}

/** Whether addParts can find a part of a type. Most columns have none. */
export function hasParts (type: Type, stored: boolean): boolean {
  switch (type.kind) {
    case 'base':
      return stored && LIMITED.has(type.form)
    case 'enum':
    case 'unknown':
      return false
    default:
      return true
  }
}

/** `stored`: as in compareWritten. A value must fit in a composite that is only compared, too. */
function addParts ({ value, type }: Part<Type>, parts: Parts, stored: boolean): void {
  switch (type.kind) {
    case 'base':
      if (hasParts(type, stored)) parts.limited.push({ value, type })
      break
    case 'domain':
      // The length or precision of a domain cannot change.
      addParts({ value, type: type.base }, parts, stored && type.base.kind !== 'base')
      break
    case 'array':
      addParts({ value: sql`(${value})[1]`, type: type.element }, parts, stored)
      break
    case 'range':
    case 'multirange':
      addParts({ value: sql`pg_catalog.lower(${value})`, type: type.subtype }, parts, false)
      break
    case 'composite':
      addComposite({ value, type }, parts)
  }
}

/** The forms of types whose length or precision can drop something. */
const LIMITED: ReadonlySet<BaseType['form']> = new Set([
  'numeric', 'characters', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval'
])

function addComposite ({ value, type }: Part<CompositeType>, parts: Parts): void {
  // A type can contain itself.
  if (parts.composites.some(known => known.type.oid === type.oid)) return
  parts.composites.push({ value, type })
  for (const [name, attribute] of type.attributes) {
    addParts({ value: sql`(${value}).${identifier(name)}`, type: attribute }, parts, true)
  }
}

/** A query has at most 1664 columns, and a function 100 arguments. */
const MAX_COLUMNS = 1000
const MAX_ARGUMENTS = 100

function inGroups<Item> (items: readonly Item[], max: number): ReadonlyArray<readonly Item[]> {
  return [...Map.groupBy(items.keys(), i => Math.floor(i / max)).values()]
    .map(group => group.map(i => items[i] as Item))
}

/**
 * Conditions that no length or precision has become smaller since it was read. PostgreSQL requires
 * that the first part of a recursive query has the types of the whole, with their modifiers;
 * otherwise it refuses the statement (42804 from analyzeCTE). The condition is true, so PostgreSQL
 * neither plans nor runs the query. Measured: with 1 or 5 columns an execution takes 1 to 2 µs
 * more, of about 25.
 */
function compareLimits (limited: ReadonlyArray<Part<BaseType>>, from: Fragment): Fragment[] {
  const pairs = limited.flatMap(({ value, type }): ReadonlyArray<readonly [Fragment, Fragment]> => {
    const known = sql`null::${limitedType(type)}`
    // In `interval minute`, 5 is five minutes; without these fields it is another value.
    return [[value, known], ...type.form === 'interval' ? [[known, value] as const] : []]
  })
  return inGroups(pairs, MAX_COLUMNS).map(group => {
    const current = group.map(([value]) => value)
    const known = group.map(([, value]) => value)
    return sql`(true or (with recursive m as (select ${join(current)} from ${from}
        union all select ${join(known)} from m cross join ${from}) select true))`
  })
}

/**
 * Conditions that composites have the attributes that were read, in their order. A change of a
 * composite does not make the plan of a statement outdated; its OID as a constant of type regclass
 * does. PostgreSQL then parses the statement again. Measured: 1 composite takes 4 to 6 µs of an
 * execution, 5 take 8 to 11; a query of pg_attribute takes 11 and 17.
 */
function compareAttributes (
  composites: ReadonlyArray<Part<CompositeType>>,
  from: Fragment
): Fragment[] {
  return inGroups(composites, MAX_ARGUMENTS).map(group => {
    const rows = group.map((_, i) => sql`r${integer(i)}`)
    const sources = group.map(({ value }, i) =>
      sql` cross join lateral (select (${value}).*) as ${rows[i] as Fragment}`)
    const depending = group.map(({ type: { relation } }) =>
      sql`${constant(String(relation))}::pg_catalog.regclass is not null`)
    const whole = rows.map(row => sql`${row}.*`)
    const types = group.flatMap(({ type: { attributes } }, i) => [...attributes.keys()].map(name =>
      sql`pg_catalog.pg_typeof(${rows[i] as Fragment}.${identifier(name)})`))
    const known = group.flatMap(({ type: { attributes } }) =>
      [...attributes.values()].map(({ oid }) => integer(oid)))
    return sql`(select ${join(depending, AND)}
        and pg_catalog.json_build_array(${join(whole)})::pg_catalog.text
          operator(pg_catalog.=) ${constant(namesOf(group))}
        and array[${join(types)}]::pg_catalog.oid[] operator(pg_catalog.=)
          array[${join(known)}]::pg_catalog.oid[]
      from ${from}${join(sources, empty)})`
  })
}

/** The JSON of composites without values, as PostgreSQL writes it. */
function namesOf (composites: ReadonlyArray<Part<CompositeType>>): string {
  const rows = composites.map(({ type: { attributes } }) =>
    `{${[...attributes.keys()].map(name => `${JSON.stringify(name)}:null`).join(',')}}`)
  return `[${rows.join(', ')}]`
}
