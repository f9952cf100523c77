/**
 * References in SQL. An operation that is referred to publishes its rows as JSON in a setting of
 * the transaction; a reader takes them from there, so that depth of references adds no round trip.
 * Whether row and column exist is checked by the publisher (compile.ts): a subselect in the reader
 * is not evaluated when no row needs it.
 */
import type { Doubt, JsonDocument, Reference, StoredJson } from '../plan/nodes.ts'
import {
  arrayText,
  constant,
  empty,
  identifier,
  join,
  parameter,
  sql,
  type Fragment
} from './fragment.ts'
import { inspected } from './value-checks.ts'
import { nullRow, nullsName, type CteBuilder } from './cte-builder.ts'

/** An expression of type json: the value, the whole row or the list that a reference means. */
export function referenceJson ({ source, row, column }: Reference, scope: CteBuilder): Fragment {
  if (row === '*') {
    return sql`(select coalesce(json_agg(element -> ${
      parameter(column as string)
    }::text), '[]') from ${scope.published(source)} as s, unnest(s.rows) as element)`
  }
  const value = column === undefined ? empty : sql` -> ${parameter(column)}::text`
  const rows = scope.short(source)
  if (rows !== undefined) return sql`(${rows} -> ${parameter(String(row))}::int${value})`
  return sql`(select s.rows[${parameter(String(row + 1))}::int]${value} from ${
    scope.published(source)
  } as s)`
}

/** The same as text: strings without quotes. */
export function referenceText (reference: Reference, scope: CteBuilder): Fragment {
  return sql`(select json_build_array(${referenceJson(reference, scope)}) ->> 0)`
}

/** Whether the value that a reference means is the JSON null; see `publishing` of compile.ts. */
export function isJsonNull ({ source, row, column }: Reference): Fragment {
  const nulls = sql`current_setting(${parameter(nullsName(source))})::jsonb`
  return sql`(${nulls} -> ${parameter(String(row))}::int) ? ${parameter(column as string)}::text`
}

/**
 * Of a column in a document, as an array: the rows, from 1, in which a reference means the JSON
 * null.
 */
export function jsonNullRows (places: Doubt['places']): Fragment {
  const list = (items: ReadonlyArray<string | number | null>): Fragment =>
    parameter(arrayText(items))
  const references = places.map(({ reference }) => reference)
  return sql`array(select p.row + 1
    from unnest(${list(places.map(({ row }) => row))}::int[],
      ${list(references.map(({ source }) => source))}::int[],
      ${list(references.map(({ row }) => row))}::int[],
      ${list(references.map(({ column }) => column as string))}::text[])
      as p (row, source, at, key)
    where (current_setting(${constant(nullsName(''))} || p.source)::jsonb -> p.at) ? p.key)`
}

// In a document, in the place of a row number.
const everyRow = -1

/** An expression of type json: a document, its references filled in by the server. */
export function documentJson ({ pieces, references }: JsonDocument, scope: CteBuilder): Fragment {
  const [reference] = references
  if (reference === undefined) return sql`${parameter(pieces[0] as string)}::json`
  if (pieces.every(piece => piece === '')) return referenceJson(reference, scope)
  if (references.length <= fewReferences) return concatenation(pieces, references, scope)
  const sources = [...new Set(references.map(({ source }) => source))]
  // Joined and not looked up once a reference: 1000 references then cost like literals.
  const rows = join(
    sources.map(source =>
      sql`select ${parameter(String(source))}::int as source, position - 1 as row, element
    from ${
        scope.published(source)
      } as s, unnest(s.rows) with ordinality as elements (element, position)`
    ),
    sql` union all `
  )
  const lists = references.filter(({ row }) => row === '*')
  return sql`(with published as (${rows})${
    lists.length === 0 ? empty : sql`, lists as (${listValues(lists)})`
  }
    select string_agg(cut.piece || coalesce(${
    lists.length === 0 ? empty : sql`lists.value, `
  }(case when cut.key is null then found.element else found.element -> cut.key end)::text, ''), ''
    order by cut.position)
    from unnest(${parameter(arrayText(pieces))}::text[], ${
    parameter(arrayText(references.map(({ source }) => source)))
  }::int[],
      ${parameter(arrayText(references.map(({ row }) => row === '*' ? everyRow : row)))}::int[], ${
    parameter(arrayText(references.map(({ column }) => column ?? null)))
  }::text[]
    ) with ordinality as cut (piece, source, row, key, position)
    left join published as found on found.source = cut.source and found.row = cut.row${
    lists.length === 0
      ? empty
      : sql` left join lists on lists.source = cut.source and lists.key = cut.key and cut.row = ${
        parameter(String(everyRow))
      }::int`
  })::json`
}

/** The same, followed into the types of the columns; `positions` are those of its rows. */
export function inspectedDocument (
  { document, doubts }: StoredJson,
  scope: CteBuilder,
  positions?: readonly number[]
): Fragment {
  const members = doubts.map(({ column }) => ({
    member: column,
    example: sql`n.${identifier(column)}`,
    label: column
  }))
  const source = sql`, json_populate_record(${nullRow(scope.table)}, '{}') as n`
  return inspected(documentJson(document, scope), members, { positions, source })
}

/**
 * Up to this many references are looked up one by one, which costs a third of putting them together
 * by a join (0.01 ms in the place of 0.03 for one).
 */
const fewReferences = 8

function concatenation (
  pieces: readonly string[],
  references: readonly Reference[],
  scope: CteBuilder
): Fragment {
  const parts = pieces.flatMap((piece, i) => {
    const reference = references[i]
    const text = sql`${parameter(piece)}::text`
    return reference === undefined ? [text] : [text, sql`${referenceJson(reference, scope)}::text`]
  })
  return sql`concat(${join(parts, sql`, `)})::json`
}

/** Every list that is referred to, as JSON text: once, however often it is. */
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
