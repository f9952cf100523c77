/** Builds JSON that contains references to the results of earlier operations. */
import {
  constant,
  integer,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { JsonDocument, Reference, UncertainColumn } from '../../plan/nodes.ts'
import { arrayText } from '../../plan/value-text.ts'
import { jsonNullsSetting } from '../statement/settings.ts'
import { keyIn, type SharedResult } from '../statement/shared-results.ts'
import { buildFirst } from '../statement/when.ts'
import type { References } from './references.ts'

/**
 * Up to this many references are looked up one by one, which costs a third of a join (0.01 ms
 * instead of 0.03 for one reference).
 */
const MAX_CONCATENATED = 8

/**
 * Instead of the number of a shared result: its elements are the lists and the values of `$first`.
 */
const OTHERS = -1

/** Builds JSON, in which PostgreSQL replaces the references with their values. */
export function buildDocument (
  { pieces, references: used }: JsonDocument,
  references: References
): Fragment {
  if (used.length === 0) return sql`${parameter(pieces[0] as string)}::pg_catalog.json`
  if (pieces.every(piece => piece === '')) return references.jsonOf(used[0] as Reference)
  return used.length <= MAX_CONCATENATED
    ? concatenate(pieces, used.map(reference => references.jsonOf(reference)))
    : joinPieces(pieces, used, references)
}

/** A condition: the value of a reference is the JSON null. See shareNulls. */
export function isJsonNull (reference: Reference): Fragment {
  return buildFirst(reference, ({ source, row, column, parameter: of }) => {
    // NULL of a parameter is not stored as the JSON null.
    if (of !== undefined) return sql`false`
    const nulls = sql`current_setting(${parameter(jsonNullsSetting(source))})::jsonb`
    return sql`(${nulls} -> ${parameter(String(row))}::int) ? ${parameter(column as string)}::text`
  })
}

/**
 * The numbers, from 1, of the rows in which the reference for a column is the JSON null, as an
 * array.
 */
export function jsonNullRows (nulls: UncertainColumn['references']): Fragment {
  const firsts = Map.groupBy(
    nulls.filter(({ reference }) => reference.otherwise !== undefined),
    ({ reference }) => reference
  )
  const rows = jsonNullRowsOf(nulls.filter(({ reference }) => isShared(reference)))
  if (firsts.size === 0) return rows
  const more = [...firsts].map(([reference, uses]) =>
    sql`case when ${isJsonNull(reference)} then ${
      parameter(arrayText(uses.map(({ row }) => row + 1)))
    }::int[] end`
  )
  // A subquery in a function runs once, and not for each row.
  return sql`coalesce((select pg_catalog.array_agg(n) from unnest(${
    join([rows, ...more], sql` operator(pg_catalog.||) `)
  }) as n))`
}

/** Whether a reference reads what one operation shares. */
function isShared ({ otherwise, parameter }: Reference): boolean {
  return otherwise === undefined && parameter === undefined
}

function jsonNullRowsOf (nulls: UncertainColumn['references']): Fragment {
  const list = (items: ReadonlyArray<string | number | null>): Fragment =>
    parameter(arrayText(items))
  const references = nulls.map(({ reference }) => reference)
  return sql`array(select p.row + 1
    from unnest(${list(nulls.map(({ row }) => row))}::int[],
      ${list(references.map(({ source }) => source))}::int[],
      ${list(references.map(({ row }) => row))}::int[],
      ${list(references.map(({ column }) => column as string))}::text[])
      as p (row, source, at, key)
    where (current_setting(${constant(jsonNullsSetting(''))} || p.source)::jsonb -> p.at) ? p.key)`
}

/** Concatenates the pieces of a document and the values of its references, which are json. */
function concatenate (pieces: readonly string[], values: readonly Fragment[]): Fragment {
  const parts = pieces.flatMap((piece, i) => {
    const value = values[i]
    const text = sql`${parameter(piece)}::pg_catalog.text`
    if (value === undefined) return [text]
    // PostgreSQL may plan the statement before the row exists.
    return [text, sql`coalesce(${value}::pg_catalog.text, 'null')`]
  })
  return sql`pg_catalog.concat(${join(parts, sql`, `)})::pg_catalog.json`
}

/**
 * Puts a document together by a join. A lookup per reference would be slower: this way 1000
 * references cost as much as literals.
 */
function joinPieces (
  pieces: readonly string[],
  used: readonly Reference[],
  references: References
): Fragment {
  for (const reference of used) {
    for (const one of [reference, ...reference.otherwise ?? []]) references.addUnchecked(one)
  }
  const results = new Map<SharedResult, number>()
  // Lists of one setting are read once.
  const others = new Map<Reference | string, readonly [number, Reference]>()
  const places = used.map((reference): readonly [number, number, string | null] => {
    if (isElement(reference) && !references.isConverted(reference)) {
      const result = references.sharedOf(reference)
      const number = results.get(result) ?? results.size
      results.set(result, number)
      return [number, Number(reference.row), keyIn(result, reference) ?? null]
    }
    const { source, row, column = '' } = reference
    const key = row === '*' ? `${source} ${column}` : reference
    const [number] = others.get(key) ?? [others.size]
    others.set(key, [number, reference])
    return [OTHERS, number, null]
  })
  const list = (position: 0 | 1 | 2): Fragment =>
    parameter(arrayText(places.map(place => place[position])))
  const values = [...others.values()].map(([, reference]) => reference)
  return sql`(with shared as (${allElements([...results.keys()], values, references)})
    select string_agg(cut.piece || coalesce(
      (case when cut.key is null then found.element else found.element -> cut.key end)::text, ''),
      '' order by cut.position)
    from unnest(${parameter(arrayText(pieces))}::text[], ${list(0)}::int[], ${list(1)}::int[],
      ${list(2)}::text[]) with ordinality as cut (piece, result, row, key, position)
    left join shared as found on found.result = cut.result and found.row = cut.row)::json`
}

/** Whether a reference reads one element of what an operation shares. */
function isElement (reference: Reference): boolean {
  return isShared(reference) && reference.row !== '*'
}

/** All elements of shared results, and the values of the other references. */
function allElements (
  results: readonly SharedResult[],
  others: readonly Reference[],
  references: References
): Fragment {
  const elements = results.map((result, i) =>
    sql`select ${integer(i)} as result, position - 1 as row, element
    from ${
      references.readElements(result)
    } as s, unnest(s.rows) with ordinality as elements (element, position)`
  )
  const values = others.map((reference, i) =>
    sql`select ${integer(OTHERS)} as result, ${integer(i)} as row, ${
      references.jsonOf(reference)
    } as element`
  )
  return join([...elements, ...values], sql` union all `)
}
