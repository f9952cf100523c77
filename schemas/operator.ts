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

export const operators = {
  eq: {
    takes: 'comparand',
    sql: '<column> = <operand>',
    meaning: 'equal',
    emptyMatches: false,
    constant: true
  },
  neq: {
    takes: 'comparand',
    sql: '<column> <> <operand>',
    meaning: 'not equal',
    emptyMatches: true,
    constant: true
  },
  gt: {
    takes: 'comparand',
    sql: '<column> > <operand>',
    meaning: 'greater',
    emptyMatches: true,
    constant: true
  },
  gte: {
    takes: 'comparand',
    sql: '<column> >= <operand>',
    meaning: 'greater or equal',
    emptyMatches: true,
    constant: true
  },
  lt: {
    takes: 'comparand',
    sql: '<column> < <operand>',
    meaning: 'less',
    emptyMatches: false,
    constant: true
  },
  lte: {
    takes: 'comparand',
    sql: '<column> <= <operand>',
    meaning: 'less or equal',
    emptyMatches: false,
    constant: true
  },
  like: {
    takes: 'comparand',
    sql: '<column> like <operand>',
    meaning: 'matches the SQL pattern, case-sensitive',
    emptyMatches: false,
    pattern: true
  },
  ilike: {
    takes: 'comparand',
    sql: '<column> ilike <operand>',
    meaning: 'matches the SQL pattern, case-insensitive',
    emptyMatches: false,
    pattern: true
  },
  match: {
    takes: 'comparand',
    sql: '<column> ~ <operand>',
    meaning: 'matches the POSIX regular expression, case-sensitive',
    emptyMatches: false,
    pattern: true
  },
  imatch: {
    takes: 'comparand',
    sql: '<column> ~* <operand>',
    meaning: 'matches the POSIX regular expression, case-insensitive',
    emptyMatches: false,
    pattern: true
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
  fts: {
    takes: 'search',
    sql: '<document> @@ to_tsquery(<operand>)',
    meaning: 'full-text search, query with operators'
  },
  plfts: {
    takes: 'search',
    sql: '<document> @@ plainto_tsquery(<operand>)',
    meaning: 'full-text search, all words'
  },
  phfts: {
    takes: 'search',
    sql: '<document> @@ phraseto_tsquery(<operand>)',
    meaning: 'full-text search, the words as a phrase'
  },
  wfts: {
    takes: 'search',
    sql: '<document> @@ websearch_to_tsquery(<operand>)',
    meaning: 'full-text search, web search syntax'
  },
  cs: {
    takes: 'json',
    sql: '<column> @> <operand>',
    meaning: 'contains (arrays, jsonb, ranges)',
    emptyMatches: true
  },
  cd: {
    takes: 'json',
    sql: '<column> <@ <operand>',
    meaning: 'is contained in (arrays, jsonb, ranges)',
    emptyMatches: false
  },
  ov: {
    takes: 'json',
    sql: '<column> && <operand>',
    meaning: 'overlaps (arrays, ranges)',
    emptyMatches: false
  },
  sl: {
    takes: 'json',
    sql: '<column> << <operand>',
    meaning: 'range strictly left of',
    emptyMatches: false
  },
  sr: {
    takes: 'json',
    sql: '<column> >> <operand>',
    meaning: 'range strictly right of',
    emptyMatches: false
  },
  nxr: {
    takes: 'json',
    sql: '<column> &< <operand>',
    meaning: 'range does not extend to the right of',
    emptyMatches: false
  },
  nxl: {
    takes: 'json',
    sql: '<column> &> <operand>',
    meaning: 'range does not extend to the left of',
    emptyMatches: false
  },
  adj: {
    takes: 'json',
    sql: '<column> -|- <operand>',
    meaning: 'range is adjacent to',
    emptyMatches: false
  },
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
