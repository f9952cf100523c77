/**
 * Builds references to the results of earlier operations. A referenced operation publishes its rows
 * as JSON in a setting of the transaction (see publication.ts), and the reader takes them from
 * there. Chains of references therefore need no additional round trip.
 */
import type {
  UncertainColumn,
  JsonDocument,
  Reference,
  StoredJson,
  TableName
} from '../plan/nodes.ts'
import {
  arrayText,
  constant,
  empty,
  identifier,
  integer,
  join,
  parameter,
  sql,
  type Fragment
} from './fragment.ts'
import { buildFirst } from './gate.ts'
import { jsonNullsSetting } from './settings.ts'
import { jsonOfParameter } from '../plan/parameter.ts'
import { nullRow } from './table.ts'
import { verifyDocument } from './value-checks.ts'

/**
 * Up to this many references are looked up one by one, which costs a third of a join (0.01 ms
 * instead of 0.03 for one reference).
 */
const MAX_CONCATENATED = 8

/** Reads the rows that earlier operations published. */
export interface PublicationReader {
  readonly table: TableName
  readPublished(source: number): Fragment
  readPublishedDirectly(source: number): Fragment | undefined
}

/** The row number of a reference to a list. */
const EVERY_ROW = -1

/** Stands for an operation whose rows are the values of `$first` and of parameters. */
const OTHERS = -1

/** The value, the row or the list of a reference, as json. */
export function referenceJson (reference: Reference, ctes: PublicationReader): Fragment {
  return buildFirst(reference, one => publishedJson(one, ctes))
}

function publishedJson (
  { source, row, column, parameter: of }: Reference,
  ctes: PublicationReader
): Fragment {
  if (of !== undefined) return sql`${parameter(jsonOfParameter(of))}::json`
  if (row === '*') {
    return sql`(select coalesce(json_agg(element -> ${
      parameter(column as string)
    }::text), '[]') from ${ctes.readPublished(source)} as s, unnest(s.rows) as element)`
  }
  const value = column === undefined ? empty : sql` -> ${parameter(column)}::text`
  const rows = ctes.readPublishedDirectly(source)
  if (rows !== undefined) return sql`(${rows} -> ${parameter(String(row))}::int${value})`
  return sql`(select s.rows[${parameter(String(row + 1))}::int]${value} from ${
    ctes.readPublished(source)
  } as s)`
}

/** The value of a reference as text; strings are without quotes. */
export function referenceText (reference: Reference, ctes: PublicationReader): Fragment {
  return sql`(select json_build_array(${referenceJson(reference, ctes)}) ->> 0)`
}

/** A condition: the value of a reference is the JSON null. See publishJsonNulls. */
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
    nulls.filter(({ reference }) => isFirst(reference)),
    ({ reference }) => reference
  )
  const rows = jsonNullRowsOf(nulls.filter(({ reference }) => isPublished(reference)))
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

function isFirst ({ otherwise }: Reference): boolean {
  return otherwise !== undefined
}

/** Whether a reference reads the published rows of one operation. */
function isPublished ({ otherwise, parameter }: Reference): boolean {
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

/** Builds a document as json, in which PostgreSQL replaces the references with their values. */
export function buildDocument (
  { pieces, references }: JsonDocument,
  ctes: PublicationReader
): Fragment {
  const [reference] = references
  if (reference === undefined) return sql`${parameter(pieces[0] as string)}::json`
  if (pieces.every(piece => piece === '')) return referenceJson(reference, ctes)
  if (references.length <= MAX_CONCATENATED) return concatenation(pieces, references, ctes)
  return joinPieces(pieces, references, ctes)
}

/**
 * Builds a document of rows or of new values, and checks its values against the types of their
 * columns. `positions` are the positions of the rows in the request.
 */
export function buildVerifiedDocument (
  { document, uncertainColumns }: StoredJson,
  ctes: PublicationReader,
  positions?: readonly number[]
): Fragment {
  const members = uncertainColumns.map(({ column }) => ({
    member: column,
    example: sql`n.${identifier(column)}`,
    label: column
  }))
  const from = sql`, json_populate_record(${nullRow(ctes.table)}, '{}') as n`
  return verifyDocument(buildDocument(document, ctes), members, { positions, from })
}

/** Concatenates the pieces of a document and its references. */
function concatenation (
  pieces: readonly string[],
  references: readonly Reference[],
  ctes: PublicationReader
): Fragment {
  const parts = pieces.flatMap((piece, i) => {
    const reference = references[i]
    const text = sql`${parameter(piece)}::text`
    return reference === undefined ? [text] : [text, sql`${referenceJson(reference, ctes)}::text`]
  })
  return sql`concat(${join(parts, sql`, `)})::json`
}

/**
 * Puts a document together by a join. A lookup per reference would be slower: this way 1000
 * references cost as much as literals.
 */
function joinPieces (
  pieces: readonly string[],
  references: readonly Reference[],
  ctes: PublicationReader
): Fragment {
  const others = [...new Set(references.filter(reference => !isPublished(reference)))]
  const rows = publishedRows(references, others, ctes)
  const lists = references.filter(({ row }) => row === '*')
  const hasLists = lists.length > 0
  const places = references.map((reference): readonly [number, number, string | null] => {
    const { source, row, column = null } = reference
    if (!isPublished(reference)) return [OTHERS, others.indexOf(reference), null]
    return [source, row === '*' ? EVERY_ROW : row, column]
  })
  const sources = parameter(arrayText(places.map(([source]) => source)))
  const numbers = places.map(([, row]) => row)
  const keys = parameter(arrayText(places.map(([, , key]) => key)))
  return sql`(with published as (${rows})${
    hasLists ? sql`, lists as (${listValues(lists)})` : empty
  }
    select string_agg(cut.piece || coalesce(${
    hasLists ? sql`lists.value, ` : empty
  }(case when cut.key is null then found.element else found.element -> cut.key end)::text, ''), ''
    order by cut.position)
    from unnest(${parameter(arrayText(pieces))}::text[], ${sources}::int[],
      ${parameter(arrayText(numbers))}::int[], ${keys}::text[]
    ) with ordinality as cut (piece, source, row, key, position)
    left join published as found on found.source = cut.source and found.row = cut.row${
    hasLists ? joinLists() : empty
  })::json`
}

function joinLists (): Fragment {
  const everyRow = sql`${parameter(String(EVERY_ROW))}::int`
  return sql` left join lists on lists.source = cut.source and lists.key = cut.key
      and cut.row = ${everyRow}`
}

/** All rows of the operations that the references read, and the values of the others. */
function publishedRows (
  references: readonly Reference[],
  others: readonly Reference[],
  ctes: PublicationReader
): Fragment {
  const rows = references.filter(isPublished)
  const sources = [...new Set(rows.map(({ source }) => source))]
  const queries = sources.map(source =>
    sql`select ${parameter(String(source))}::int as source, position - 1 as row, element
    from ${
      ctes.readPublished(source)
    } as s, unnest(s.rows) with ordinality as elements (element, position)`
  )
  const values = others.map((reference, i) =>
    sql`select ${integer(OTHERS)} as source, ${integer(i)} as row, ${
      referenceJson(reference, ctes)
    } as element`
  )
  return join([...queries, ...values], sql` union all `)
}

/** The distinct lists of the references, each as JSON text. */
function listValues (lists: readonly Reference[]): Fragment {
  const distinct = [
    ...new Map(lists.map(list => [JSON.stringify([list.source, list.column]), list])).values()
  ]
  return sql`select list.source, list.key, coalesce(json_agg(published.element -> list.key
    order by published.row) filter (where published.source is not null), '[]')::text as value
    from unnest(${parameter(arrayText(distinct.map(({ source }) => source)))}::int[], ${
    parameter(arrayText(distinct.map(({ column }) => column as string)))
  }::text[]) as list (source, key)
    left join published on published.source = list.source group by list.source, list.key`
}
