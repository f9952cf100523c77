/**
 * Generates filters.
 */
import fc, { type Arbitrary } from 'fast-check'
import {
  cellRows,
  columnsOf,
  entries,
  literals,
  referenceTo,
  smallDoc,
  value,
  wholeRows
} from './arbitrary-value.ts'
import { modelTables, type Kind, type Table } from './tables.ts'

const comparing = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte']
export const numeric: readonly Kind[] = ['int', 'big', 'num', 'float']
export const comparable: readonly Kind[] = [...numeric, 'text', 'bool', 'day', 'at']
export const single = (name: Arbitrary<string>, operand: Arbitrary<unknown>): Arbitrary<object> =>
  fc.tuple(name, operand).map(([name, operand]) => ({ [name]: operand }))

function comparison (kind: Kind, table: Table, source: Table['columns']): Arbitrary<object> {
  const plain = literals[kind]
  const one = fc.oneof({ arbitrary: plain, weight: 4 }, {
    arbitrary: referenceTo(kind, cellRows, plain), weight: 2
  })
  const members = fc.array(one, { minLength: 1, maxLength: 3 })
  const list = fc.oneof(members, referenceTo(kind, ['*'], members))
  const other = fc.constantFrom<object[]>(
    ...columnsOf(table, [kind]).map($col => ({ $col })),
    ...columnsOf({ ...table, columns: source }, [kind]).map($from => ({ $from }))
  )
  return fc.oneof(
    single(
      fc.constantFrom(...comparing),
      fc.oneof({ arbitrary: one, weight: 6 }, { arbitrary: other, weight: 1 }, {
        arbitrary: single(fc.constantFrom('any', 'all'), list), weight: 1
      })
    ),
    single(fc.constantFrom('in', 'nin', 'in'), list),
    ...(kind === 'int' || kind === 'text' ? [fc.constant({ in: [] })] : []),
    single(fc.constant('between'), fc.tuple(one, one)),
    single(fc.constant('isdistinct'), fc.oneof(one, fc.constant(null), other)),
    single(
      fc.constant('is'),
      fc.constantFrom<unknown>(
        null, 'not_null', ...(kind === 'bool' ? [true, false, 'unknown'] : [])
      )
    ),
    ...(kind === 'text'
      ? [single(
          fc.constantFrom('like', 'ilike', 'match', 'imatch'),
          fc.constantFrom(
            '%a%', '_', 'A', '^[a-e]$', '%', { any: ['a%', 'B'] }, { all: ['%', 'a'] }
          )
        )]
      : [])
  )
}

const docTests: readonly Arbitrary<object>[] = [
  single(
    fc.constant('doc'),
    single(
      fc.constantFrom('cs', 'cd'),
      fc.oneof(smallDoc, referenceTo('doc', [...cellRows, ...wholeRows], smallDoc))
    )
  ),
  single(
    fc.constant('doc'),
    single(fc.constantFrom('eq', 'neq', 'isdistinct'), smallDoc.map($value => ({ $value })))
  ),
  single(
    fc.constant('doc'),
    single(
      fc.constantFrom('has_key'),
      fc.oneof(
        fc.constantFrom('a', 'b', '$$o0.id'), referenceTo('text', cellRows, fc.constant('a'))
      )
    )
  ),
  single(
    fc.constant('doc'),
    single(
      fc.constantFrom('has_keys_any', 'has_keys_all'),
      fc.subarray(['a', 'b', 'c'], { minLength: 1 })
    )
  ),
  single(
    fc.constantFrom('doc->a', 'doc->b->c', 'doc->0', 'doc->-1'),
    single(
      fc.constantFrom(...comparing),
      fc.oneof(literals.num, fc.constantFrom('x', true), referenceTo('doc', cellRows, literals.num))
    )
  ),
  single(
    fc.constantFrom('doc->>a', 'doc->b->>c', 'doc->>0'),
    single(
      fc.constantFrom(...comparing, 'like'),
      fc.oneof(literals.text, referenceTo('text', cellRows, literals.text))
    )
  ),
  single(fc.constantFrom('doc->a', 'doc->>b'), fc.constantFrom({ is: null }, { is: 'not_null' }))
]

const tagTests: readonly Arbitrary<object>[] = [
  single(
    fc.constant('tags'),
    single(fc.constantFrom('cs', 'cd', 'ov'), value('tags', false).filter(tags => tags !== null))
  ),
  single(
    fc.constant('tags'),
    single(fc.constantFrom('eq', 'neq'), fc.subarray(['red', 'x y']).map($value => ({ $value })))
  )
]

/** Generates conditions on one column of a table, also negated ones. */
function leaf (table: Table, source: Table['columns']): Arbitrary<object> {
  const columns = columnsOf(table, comparable)
  const nulls = single(
    fc.constantFrom(...Object.keys(table.columns)),
    fc.constantFrom({ is: null }, { is: 'not_null' })
  )
  if (columns.length === 0) return nulls
  const plain = fc.constantFrom(...columns).chain(column => {
    const tests = comparison(table.columns[column] as Kind, table, source)
    const two = fc.tuple(tests, tests).map(([a, b]) => ({ ...a, ...b }))
    return single(
      fc.constant(column),
      fc.oneof({ arbitrary: tests, weight: 5 }, { arbitrary: two, weight: 1 }, {
        arbitrary: tests.map(not => ({ not })), weight: 1
      })
    )
  })
  return fc.oneof(
    { arbitrary: plain, weight: 6 }, { arbitrary: nulls, weight: 1 },
    ...('doc' in table.columns ? docTests.map(arbitrary => ({ arbitrary, weight: 1 })) : []),
    ...('tags' in table.columns ? tagTests.map(arbitrary => ({ arbitrary, weight: 1 })) : [])
  )
}

interface FilterOptions {
  /** How deep `exists` may be nested. */
  readonly levels?: number
  /** The columns of `from`. */
  readonly source?: Table['columns']
}

export function arbitraryFilter (
  table: Table,
  { levels = 2, source = {} }: FilterOptions = {}
): Arbitrary<object> {
  const exists = levels === 0 || columnsOf(table, comparable).length === 0
    ? []
    : [{ arbitrary: arbitraryExists(table, { levels: levels - 1, source }), weight: 1 }]
  return fc.letrec<{ filter: object }>(tie => ({
    filter: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      { arbitrary: leaf(table, source), weight: 6 },
      ...exists,
      {
        arbitrary: fc.tuple(leaf(table, source), leaf(table, source))
          .map(([a, b]) => ({ ...a, ...b })),
        weight: 1
      },
      {
        arbitrary: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }).map(and => ({ and })),
        weight: 1
      },
      {
        arbitrary: fc.array(tie('filter'), { minLength: 1, maxLength: 3 }).map(or => ({ or })),
        weight: 2
      },
      { arbitrary: tie('filter').map(not => ({ not })), weight: 1 }
    )
  })).filter
}

/** Generates pairs of columns of the same kind: column of the first table → of the second. */
export function arbitraryPairs (inner: Table, outer: Table): Arbitrary<object> {
  const pairs = pairsOf(inner, outer)
  const keys = pairs.filter(([column]) => inner.columns[column] === 'int')
  const one = fc.oneof(...[keys, pairs].filter(list => list.length > 0).map(list =>
    fc.constantFrom(...list)))
  return fc.oneof({ arbitrary: fc.tuple(one), weight: 6 }, {
    arbitrary: fc.tuple(one, one), weight: 1
  }).map(Object.fromEntries)
}

type Pair = readonly [string, string]

function pairsOf (inner: Table, outer: Table): readonly Pair[] {
  return entries(inner).flatMap(([column, kind]) =>
    columnsOf(outer, [kind]).map((other): Pair => [column, other]))
}

function arbitraryExists (outer: Table, options: FilterOptions): Arbitrary<object> {
  return single(
    fc.constantFrom('exists', 'not_exists', 'exists'),
    fc.oneof(...Object.entries(modelTables).flatMap(([name, table]) =>
      pairsOf(table, outer).length === 0
        ? []
        : fc.record({
          table: fc.constantFrom(name, `public.${name}`),
          on: arbitraryPairs(table, outer),
          where: fc.oneof(arbitraryFilter(table, options), fc.constant({}))
        })
    ))
  )
}
