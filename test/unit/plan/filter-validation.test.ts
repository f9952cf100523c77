/**
 * Tests invalid filters. All issues are reported at once before the transaction, with code and
 * path. Above all, no invalid filter widens a query. references.test.ts tests invalid references.
 */
import t, { type Test } from 'tap'
import { operators, type Operator } from '../../../schemas/operator.ts'
import type { Environment } from '../../../src/config/config.ts'
import { describePath } from '../../../src/errors/envelope.ts'
import { findPathProblem } from '../../../src/plan/name.ts'
import { findFailure, issuesOf, toTexts } from '../../support/issues.ts'

/**
 * A filter and its issues. The code `empty` is that of an empty filter: `operand_invalid` in a
 * select, `where_empty` if the operation changes rows.
 */
type IssueRow = readonly [where: unknown, ...issues: string[]]

/** Uses each filter in a select, an update and a delete and asserts exactly the issues of each. */
function assertRefused (t: Test, rows: readonly IssueRow[], settings?: Environment): void {
  for (const [where, ...issues] of rows) {
    for (const op of ['select', 'update', 'delete']) {
      const failure = findFailure([
        { id: 'src', op: 'select', table: 'things' },
        { id: 'o', op, table: 'things', where, ...op === 'update' ? { set: { n: 1 } } : {} }
      ], settings)
      const { errors } = failure?.details ?? {}
      const empty = op === 'select' ? 'operand_invalid' : 'where_empty'
      t.strictSame(
        toTexts(errors), issues.map(text => text.replace(/^empty/, empty)).sort(),
        encodeURI(`${op} ${JSON.stringify(where).slice(0, 200)}`)
      )
      t.ok(errors?.every(({ op }) => op === 'o'))
    }
  }
}

/** Filters with the same issue. */
const each = (issue: string, filters: readonly unknown[]): IssueRow[] =>
  filters.map(where => [where, issue])

/** Operands of an operator of `column` with the same issue. */
const operands = (issue: string, name: string, list: readonly unknown[], column = 'id') =>
  each(issue, list.map(operand => ({ [column]: { [name]: operand } })))

/** The names of the operators that take this kind of operand. */
const operatorsWith = (kind: Operator['takes']): string[] =>
  Object.entries(operators).filter(([, { takes }]) => takes === kind).map(([name]) => name)

/** The issues of the elements of a list. */
const elements = (issue: string, indexes: readonly number[]): string[] =>
  indexes.map(index => `${issue}[${index}]`)

const long = 'x'.repeat(64)

t.test('empty filters are rejected', async t => {
  assertRefused(t, [
    [{ id: {}, n: { eq: 1 } }, 'empty where.id'],
    [{ id: { eq: 1, not: {} } }, 'empty where.id.not'],
    [{ id: { not: { not: {} } } }, 'empty where.id.not.not'],
    [{ and: [] }, 'empty where.and'],
    [{ not: {} }, 'empty where.not'],
    [{ and: [{}] }, 'empty where.and[0]'],
    [{ or: [{ and: [] }, { or: [{}] }, { not: { id: {} } }, { n: { not: {} } }] },
      'empty where.or[0].and', 'empty where.or[1].or[0]', 'empty where.or[2].not.id',
      'empty where.or[3].n.not'],
    [{ 'jb->a': {} }, 'empty where["jb->a"]']
  ])
})

t.test('conditions on other tables that are empty or would match every row', async t => {
  const [table, on] = ['others', { id: 'id' }]
  const none = { id: { in: [] } }
  const deep = (levels: number): object =>
    levels === 0 ? {} : { exists: { table, on, where: deep(levels - 1) } }
  assertRefused(t, [
    [{ exists: { table } }, 'member_missing where.exists.on'],
    [{ exists: { table, on: {} } }, 'operand_invalid where.exists.on'],
    [{ exists: { table, on, where: { and: [] } } }, 'empty where.exists.where.and'],
    [{ exists: { table: 'sales.visits', on } }, 'schema_forbidden where.exists.table'],
    [deep(11), `depth_exceeded where${'.exists.where'.repeat(10)}.exists`],
    [{ id: { not: { nin: [] } } }, 'operand_invalid where.id.not.nin'],
    [{ not_exists: { table, on, where: none } }, 'operand_invalid where.not_exists.where.id.in'],
    [{ not: { exists: { table, on, where: none } } },
      'operand_invalid where.not.exists.where.id.in']
  ])
})

t.test('unknown combinators and operators are rejected', async t => {
  const names = [
    'EQ', '', ' eq', '$eq', 'Not', 'any', '$col', '$value', 'constructor', 'exists', 'not.eq', 'or'
  ]
  assertRefused(t, [
    ...each('operand_invalid where.and', [{ and: { eq: 1 } }, { and: 1 }]),
    [{ or: null }, 'operand_invalid where.or'],
    ...each('operand_invalid where.not', [{ not: [] }, { not: 1 }]),
    [{ not: { eq: 1 } }, 'operand_invalid where.not.eq'],
    [{ and: [1, null, 'x', []] }, ...elements('operand_invalid where.and', [0, 1, 2, 3])],
    ...each('operand_invalid where.id', [{ id: [] }, { id: '$src.id' }]),
    [{ $and: [{ id: { eq: 1 } }] }, 'operand_invalid where.$and'],
    [{ Not: { id: { eq: 1 } } }, 'operator_unknown where.Not.id'],
    ...operands('operand_invalid where.id.not', 'not', [null, [{ eq: 1 }]]),
    [{ id: { not: { nope: 1 } } }, 'operator_unknown where.id.not.nope'],
    [{ id: { not: { eq: null } } }, 'operand_invalid where.id.not.eq'],
    ...names.map((name): IssueRow => [
      { id: { [name]: 1, lt: 5 } },
      `operator_unknown ${describePath(['where', 'id', name])}`
    ]),
    [JSON.parse('{"id":{"__proto__":1}}'), 'operator_unknown where.id.__proto__']
  ])
})

t.test('invalid operands are rejected', async t => {
  const [comparands, documents, searches] =
    (['comparand', 'json', 'search'] as const).map(operatorsWith) as [string[], string[], string[]]
  const [lists, keys] = [['in', 'nin'], ['has_keys_any', 'has_keys_all']] as const
  const second = (...values: readonly unknown[]): readonly unknown[] =>
    values.map(value => ['a', value])
  /** Operators of a column, the path below them, and operands with an issue there. */
  const rows: ReadonlyArray<
    readonly [names: readonly string[], column: string, path: string, operands: readonly unknown[]]
  > = [
    [comparands, 'id', '', [
      null, [], { x: 1 }, { $excluded: 'n' }, { any: [1], all: [1] }, { $col: 'n', $value: 1 },
      '$src.*.n'
    ]],
    [['eq'], 'id', '.any', [{ any: [] }, { any: 'x' }, { any: '$$src.*.n' }]],
    [['eq'], 'id', '.any[1]', second(null, [2], { $col: 'n' }).map(any => ({ any }))],
    [['eq'], 'id', '.all', [{ all: [] }, { all: null }, { all: '$src.0.n' }]],
    [['eq'], 'id', '.all[1]', [{ all: [1, '$src.*.n', '$src.n'] }]],
    [['eq'], 'id', '.$col', [1, null, '', long, 'jb->', 'jb->>a->b'].map($col => ({ $col }))],
    [['isdistinct'], 'id', '', [[], { any: [1] }, '$src.*.n', { x: 1 }]],
    [['is'], 'flag', '', ['null', 'NOT_NULL', 0, [], '$src.flag', { $col: 'n' }]],
    [['nin'], 'id', '', [[]]],
    [lists, 'id', '', [null, 1, '{1,2}', { any: [1] }, { $value: [1] }, '$src.0.n', '$$src.*.n']],
    [lists, 'id', '[1]', second(null, [2], { $col: 'n' }, { $value: 1 }, '$src.*.n')],
    [['between'], 'id', '', [[1], [1, 2, 3], null, { low: 1, high: 2 }, '$src.*.n']],
    [['between'], 'id', '[1]', second(null, [1], { any: [1] }, '$src.*.n')],
    [['between'], 'id', '[1].$col', second({ $col: '' }, { $col: 5 })],
    [documents, 'jb', '', [null, { $nope: 1 }, { $excluded: 'n' }]],
    [['has_key'], 'jb', '', [1, ['a'], { $col: 'txt' }, '$src.*.txt']],
    [keys, 'jb', '', [[], 'a', { $value: ['a'] }, '$src.0.txt']],
    [keys, 'jb', '[1]', second(1, ['b'], '$src.*.txt')],
    [searches, 'tsv', '', [
      null, ['a'], { config: 'english' }, { $col: 'txt' }, '$src.*.txt'
    ]],
    [searches, 'tsv', '.query', [null, [], '$src.*.txt'].map(query => ({ query }))],
    [searches, 'tsv', '.config', [null, []].map(config => ({ query: 'a', config }))]
  ]
  assertRefused(t, [
    ...rows.flatMap(([names, column, path, list]) => names.flatMap(name =>
      operands(`operand_invalid where.${column}.${name}${path}`, name, list, column))),
    ...['eq', 'isdistinct'].map((name): IssueRow => [
      { 'jb->>a': { [name]: { $value: null } } }, `operand_invalid where["jb->>a"].${name}.$value`
    ]),
    ...operands('member_unknown where.tsv.fts.lang', 'fts', [{ query: 'a', lang: 'x' }], 'tsv'),
    ...documents.flatMap((name): IssueRow[] => [
      [{ jb: { [name]: { a: [{ b: '$nope.x' }] } } }, `reference_unknown where.jb.${name}.a[0].b`],
      [{ jb: { [name]: { $value: { $x: '$src.*' } } } },
        `reference_malformed where.jb.${name}.$value.$x`]
    ])
  ])
})

t.test('invalid names and paths are rejected', async t => {
  const names = [
    '', long, 'jb->', 'jb->>', '->a', '->', 'jb->a->>', 'jb->>a->b', 'jb->->a', 'jb->->>a',
    `${long}->a`, `${'ä'.repeat(32)}->>a`
  ]
  assertRefused(t, [
    ...names.map(
      (name): IssueRow => [{ [name]: { eq: 1 } }, `member_invalid ${describePath(['where', name])}`]
    ),
    [{ or: [{ id: { eq: 1 } }, { 'jb->': { eq: 1 } }], not: { '': { eq: 1 } } },
      'member_invalid where.or[1]["jb->"]', 'member_invalid where.not[""]']
  ])
  t.match(findPathProblem('->a'), /^A JSON path must have the form/)
})

t.test('at most ten nested combinators are accepted', async t => {
  const wrap = (inner: unknown, keys: readonly string[]): object =>
    keys.reduceRight(
      (filter, key) => ({ [key]: key === 'not' ? filter : [filter] }), inner
    ) as object
  const path = (keys: readonly string[]): string =>
    keys.map(key => key === 'not' ? '.not' : `.${key}[0]`).join('')
  const keys = (count: number): string[] =>
    Array.from({ length: count }, (_, i) => ['and', 'not', 'or'][i % 3] as string)
  const nots = (count: number): object =>
    ({ id: JSON.parse('{"not":'.repeat(count) + '{"eq":-1}' + '}'.repeat(count)) })
  const leaf = { id: { eq: -1 } }
  const negated = { id: { not: { eq: 1 } } }
  const valid = [
    wrap(leaf, keys(10)), wrap(leaf, Array(10).fill('not')), wrap(negated, keys(9)), nots(10)
  ]
  for (const where of valid) t.same(issuesOf([{ id: 's', op: 'delete', table: 't', where }]), [])
  const ten = path(keys(10))
  assertRefused(t, [
    [wrap(leaf, keys(11)), `depth_exceeded where${ten}.not`],
    [wrap(leaf, Array(11).fill('not')), `depth_exceeded where${'.not'.repeat(11)}`],
    [wrap(negated, keys(10)), `depth_exceeded where${ten}.id.not`],
    [nots(11), `depth_exceeded where.id${'.not'.repeat(11)}`],
    [{ id: { eq: 1 }, or: [leaf, wrap(leaf, keys(11))] },
      `depth_exceeded where.or[1]${path(keys(9))}.and`]
  ])
})

t.test('at most 1000 conditions are accepted, at any depth', async t => {
  const settings = { conditions: '5' }
  const five: readonly object[] = [
    { id: { gt: 1, lt: 2, eq: 3, neq: 4, gte: 5 } },
    {
      or: [{ id: { eq: 1 } }, { id: { eq: 2 } }, { not: { id: { eq: 3 }, n: { eq: 4 } } }],
      id: { eq: -1 }
    },
    { id: { not: { gt: 1, not: { lt: 1, eq: 2 } }, eq: 1 }, n: { eq: 5 } },
    { exists: { table: 'o', on: { a: 'b' }, where: { id: { gt: 1, lt: 2, eq: 3, neq: 4 } } } },
    {
      and: [
        { and: [{ id: { in: [1, 2, 3, 4, 5, 6, 7] } }, { id: { between: [1, 2] } }] },
        { id: { eq: { any: [1, 2, 3, 4, 5, 6] } } },
        { id: { eq: -1 }, n: { eq: 1 } }
      ]
    }
  ]
  for (const where of five) {
    t.same(issuesOf([{ id: 's', op: 'select', table: 't', where }], settings), [])
  }
  assertRefused(t, five.flatMap(where => each('member_invalid where', [
    { ...where, txt: { eq: 'x' } },
    { ...where, 'jb->>a': { not: { eq: 'x' } } },
    { and: [where, { txt: { is: null } }] }
  ])), settings)
})
