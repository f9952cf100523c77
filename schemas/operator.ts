/**
 * The operators of filters. One row of `operators` defines an operator: its SQL, its operand and
 * its meaning.
 */
import type { OperandKind } from './operand.ts'

/**
 * An operator. `sql` has placeholders for the column, the operand and, for full-text search, the
 * `<document>` of the column. `constant` operators are allowed in `on_conflict.index_where`.
 * The operand of a `pattern` operator is a pattern, which only text can match.
 */
export interface Operator {
  readonly takes: OperandKind
  readonly sql: string
  readonly meaning: string
  readonly constant?: boolean
  readonly emptyMatches?: boolean
  readonly pattern?: boolean
}

/**
 * A row of the table. If the operand can be a list or an array, `emptyMatches` says whether all
 * rows, or nearly all, match an empty one. Then a list of an earlier operation that is empty when
 * the batch runs is refused.
 */
type OperatorRow =
  & Operator
  & (
    | { readonly takes: 'bounds' | 'keyword' | 'search' | 'key' }
    | {
      readonly takes: 'comparand' | 'distinct' | 'json' | 'list' | 'nonEmptyList' | 'keys',
      readonly emptyMatches: boolean
    }
  )

const comparison = { takes: 'comparand', emptyMatches: false, constant: true } as const
/** An empty array is smaller than every other one. */
const above = { ...comparison, emptyMatches: true } as const
const pattern = { takes: 'comparand', emptyMatches: false, pattern: true } as const
const search = (parser: string, meaning: string) =>
  ({ takes: 'search', sql: `<document> @@ ${parser}(<operand>)`, meaning }) as const
const json = { takes: 'json', emptyMatches: false } as const

export const operators = {
  eq: { ...comparison, sql: '<column> = <operand>', meaning: 'equal' },
  neq: { ...above, sql: '<column> <> <operand>', meaning: 'not equal' },
  gt: { ...above, sql: '<column> > <operand>', meaning: 'greater' },
  gte: { ...above, sql: '<column> >= <operand>', meaning: 'greater or equal' },
  lt: { ...comparison, sql: '<column> < <operand>', meaning: 'less' },
  lte: { ...comparison, sql: '<column> <= <operand>', meaning: 'less or equal' },
  like: {
    ...pattern,
    sql: '<column> like <operand>',
    meaning: 'matches the SQL pattern, case-sensitive'
  },
  ilike: {
    ...pattern,
    sql: '<column> ilike <operand>',
    meaning: 'matches the SQL pattern, case-insensitive'
  },
  match: {
    ...pattern,
    sql: '<column> ~ <operand>',
    meaning: 'matches the POSIX regular expression, case-sensitive'
  },
  imatch: {
    ...pattern,
    sql: '<column> ~* <operand>',
    meaning: 'matches the POSIX regular expression, case-insensitive'
  },
  in: {
    takes: 'list',
    sql: '<column> = any (<operand>)',
    meaning: 'equal to an element of the list',
    emptyMatches: false,
    constant: true
  },
  nin: {
    takes: 'nonEmptyList',
    sql: '<column> <> all (<operand>)',
    meaning: 'not equal to any element of the list',
    emptyMatches: true
  },
  between: {
    takes: 'bounds',
    sql: '<column> between <operand>',
    meaning: 'from low to high, inclusive'
  },
  is: {
    takes: 'keyword',
    sql: '<column> is <operand>',
    meaning: 'is null, not null, true, false or unknown',
    constant: true
  },
  isdistinct: {
    takes: 'distinct',
    sql: '<column> is distinct from <operand>',
    meaning: 'not equal; two nulls count as equal',
    emptyMatches: true
  },
  fts: search('to_tsquery', 'full-text search, query with operators'),
  plfts: search('plainto_tsquery', 'full-text search, all words'),
  phfts: search('phraseto_tsquery', 'full-text search, the words as a phrase'),
  wfts: search('websearch_to_tsquery', 'full-text search, web search syntax'),
  cs: {
    takes: 'json',
    sql: '<column> @> <operand>',
    meaning: 'contains (arrays, jsonb, ranges)',
    emptyMatches: true
  },
  cd: { ...json, sql: '<column> <@ <operand>', meaning: 'is contained in (arrays, jsonb, ranges)' },
  ov: { ...json, sql: '<column> && <operand>', meaning: 'overlaps (arrays, ranges)' },
  sl: { ...json, sql: '<column> << <operand>', meaning: 'range strictly left of' },
  sr: { ...json, sql: '<column> >> <operand>', meaning: 'range strictly right of' },
  nxr: { ...json, sql: '<column> &< <operand>', meaning: 'range does not extend to the right of' },
  nxl: { ...json, sql: '<column> &> <operand>', meaning: 'range does not extend to the left of' },
  adj: { ...json, sql: '<column> -|- <operand>', meaning: 'range is adjacent to' },
  has_key: { takes: 'key', sql: '<column> ? <operand>', meaning: 'the jsonb value has the key' },
  has_keys_any: {
    takes: 'keys',
    sql: '<column> ?| <operand>',
    meaning: 'the jsonb value has at least one of the keys',
    emptyMatches: false
  },
  has_keys_all: {
    takes: 'keys',
    sql: '<column> ?& <operand>',
    meaning: 'the jsonb value has all of the keys',
    emptyMatches: true
  }
} as const satisfies Record<string, OperatorRow>

export type OperatorName = keyof typeof operators
