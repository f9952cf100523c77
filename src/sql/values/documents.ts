/** Builds JSON that contains references to the results of earlier operations. */
import {
  integer,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { cutJson } from '../../plan/document.ts'
import type { JsonDocument, Reference } from '../../plan/nodes.ts'
import { arrayText } from '../../plan/value-text.ts'
import { keyIn, type SharedResult } from '../statement/shared-results.ts'
import type { DocumentWriter } from './document-writer.ts'
import type { References } from './references.ts'

/**
 * Up to this many references are looked up one by one, which costs a third of a join (0.01 ms
 * instead of 0.03 for one reference).
 */
const MAX_CONCATENATED = 8

/**
 * Instead of the number of a shared result: for values that are not an element of one as it is,
 * such as lists and the values of `$first`.
 */
const OTHERS = -1

/** A reference in a document, and its number. */
type Used = readonly [reference: Reference, number: number]

/**
 * Builds JSON, in which PostgreSQL replaces the references with their values. `writer`: what wrote
 * the document.
 */
export function buildDocument (
  { value, references: all }: JsonDocument,
  references: References,
  writer: DocumentWriter
): Fragment {
  const { pieces, numbers } = cutJson(value)
  const used = numbers.map((number): Used => [all[number] as Reference, number])
  const build = ([reference, number]: Used): Fragment =>
    writer.build(reference, number) ?? references.jsonOf(reference)
  const [first] = used
  if (first !== undefined && pieces.every(piece => piece === '')) return build(first)
  return used.length <= MAX_CONCATENATED
    ? concatenate(pieces, used.map(build))
    : joinPieces(pieces, used, { references, build, writer })
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
  return sql`pg_catalog.concat(${join(parts)})::pg_catalog.json`
}

interface Builder {
  readonly references: References
  readonly writer: DocumentWriter
  readonly build: (used: Used) => Fragment
}

/**
 * Puts a document together by a join. A lookup per reference would be slower: this way 1000
 * references cost as much as literals.
 */
function joinPieces (
  pieces: readonly string[],
  all: readonly Used[],
  { references, writer, build }: Builder
): Fragment {
  const results = new Map<SharedResult, number>()
  // Lists of one setting are read once.
  const others = new Map<Reference | string, readonly [position: number, value: Fragment]>()
  const places = all.map((used): readonly [number, number, string | null] => {
    const [reference, number] = used
    const form = isElement(reference) ? writer.formOf(reference, number) : undefined
    if (form !== undefined) {
      const result = references.useShared(reference, form)
      const position = results.get(result) ?? results.size
      results.set(result, position)
      return [position, Number(reference.row), keyIn(result, reference) ?? null]
    }
    const { source, row, column = '' } = reference
    const key = row === '*' ? `${source} ${column} ${writer.keyOf(number)}` : `${number}`
    const other = others.get(key) ?? [others.size, build(used)]
    others.set(key, other)
    return [OTHERS, other[0], null]
  })
  const list = (position: 0 | 1 | 2): Fragment =>
    parameter(arrayText(places.map(place => place[position])))
  const values = [...others.values()].map(([, value]) => value)
  return sql`(with shared as (${allElements([...results.keys()], values, references)})
    select string_agg(cut.piece || coalesce(
      (case when cut.key is null then found.element else found.element -> cut.key end)::text, ''),
      '' order by cut.position)
    from unnest(${parameter(arrayText(pieces))}::text[], ${list(0)}::int[], ${list(1)}::int[],
      ${list(2)}::text[]) with ordinality as cut (piece, result, row, key, position)
    left join shared as found on found.result = cut.result and found.row = cut.row)::json`
}

/** Whether a reference reads one element of what an operation shares. */
function isElement ({ otherwise, row, parameter }: Reference): boolean {
  return otherwise === undefined && row !== '*' && parameter === undefined
}

/** All elements of shared results, and the values of the other references. */
function allElements (
  results: readonly SharedResult[],
  others: readonly Fragment[],
  references: References
): Fragment {
  const elements = results.map((result, i) =>
    sql`select ${integer(i)} as result, position - 1 as row, element
    from ${
      references.readElements(result)
    } as s, unnest(s.rows) with ordinality as elements (element, position)`
  )
  const values = others.map((value, i) =>
    sql`select ${integer(OTHERS)} as result, ${integer(i)} as row, ${value} as element`
  )
  return join([...elements, ...values], sql` union all `)
}
