/**
 * Tests invalid filters. All issues are reported at once before the transaction, with code and
 * path. Above all, no invalid filter widens a query.
 */
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { operators } from '../../schemas/operator.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'

const schema = `
  create table things (id int, n int, txt text, jb jsonb, ints int[], tsv tsvector, flag bool);
  insert into things (id) values (1), (2);
  grant all on things to oneflight_user;
`
/** An empty filter: `operand_invalid` in a select, `where_empty` if the operation changes rows. */
const EMPTY = 'empty'

type Path = ReadonlyArray<string | number>
/** Paths are relative to `where`. */
type IssueRow = readonly [
  where: unknown,
  ...issues: ReadonlyArray<readonly [code: string, path: Path]>
]

const invalid = (...path: Path): readonly [string, Path] => ['operand_invalid', path]
const nothing = (...path: Path): readonly [string, Path] => [EMPTY, path]
const member = (...path: Path): readonly [string, Path] => ['member_invalid', path]
const unknown = (...path: Path): readonly [string, Path] => ['operator_unknown', path]

/** The number of filters that fit into a batch of 100 operations. */
const perBatch = 33

/** Uses each filter in a select, an update and a delete and asserts exactly the issues of each. */
async function assertRefused (
  t: Test,
  service: ServiceUnderTest,
  rows: readonly IssueRow[]
): Promise<void> {
  for (let start = 0; start < rows.length; start += perBatch) {
    const some = rows.slice(start, start + perBatch)
    const { status, body } = await service.post([
      { id: 'src', op: 'select', table: 'things' },
      ...some.flatMap(([where], i) => [
        { id: `s${i}`, op: 'select', table: 'things', where },
        { id: `u${i}`, op: 'update', table: 'things', set: { n: 1 }, where },
        { id: `d${i}`, op: 'delete', table: 'things', where }
      ])
    ])
    t.match({ status, error: body.error }, {
      status: 422,
      error: { code: 'validation_failed', committed: false }
    })
    const issues: ReadonlyArray<{ op: string, code: string, path: Path }> = body.error?.errors ?? []
    for (const [i, [where, ...expected]] of some.entries()) {
      const found = (kind: string): string[] =>
        issues
          .filter(({ op }) => op === `${kind}${i}`)
          .map(({ code, path }) => JSON.stringify([code, path]))
          .sort()
      const want = (empty: string): string[] =>
        expected
          .map(([code, path]) =>
            JSON.stringify([code === EMPTY ? empty : code, ['where', ...path]])
          )
          .sort()
      t.strictSame([found('s'), found('u'), found('d')], [
        want('operand_invalid'),
        want('where_empty'),
        want('where_empty')
      ], encodeURI(JSON.stringify(where).slice(0, 200)))
    }
  }
  t.same(await service.database.sql`select id, n from things order by id`, [{ id: 1, n: null }, {
    id: 2,
    n: null
  }], 'nothing was changed')
}

t.test('empty filters are rejected', async t => {
  const service = await useService(t, { schema })
  await assertRefused(t, service, [
    [{ id: {} }, nothing('id')],
    [{ id: {}, n: { eq: 1 } }, nothing('id')],
    [{ id: { not: {} } }, nothing('id', 'not')],
    [{ id: { not: { not: {} } } }, nothing('id', 'not', 'not')],
    [{ id: { eq: 1, not: {} } }, nothing('id', 'not')],
    [{ and: [] }, nothing('and')],
    [{ or: [] }, nothing('or')],
    [{ not: {} }, nothing('not')],
    [{ id: { eq: 1 }, and: [], or: [], not: {} }, nothing('and'), nothing('or'), nothing('not')],
    [{ and: [{}] }, nothing('and', 0)],
    [{ or: [{ id: { eq: 1 } }, {}] }, nothing('or', 1)],
    [{ or: [{}, { id: { eq: 1 } }, {}] }, nothing('or', 0), nothing('or', 2)],
    [{ not: { and: [] } }, nothing('not', 'and')],
    [{ not: { not: {} } }, nothing('not', 'not')],
    [{ and: [{ id: {} }] }, nothing('and', 0, 'id')],
    [
      { or: [{ and: [] }, { or: [{}] }, { not: { id: {} } }, { n: { not: {} } }] },
      nothing('or', 0, 'and'),
      nothing('or', 1, 'or', 0),
      nothing('or', 2, 'not', 'id'),
      nothing('or', 3, 'n', 'not')
    ],
    [{ 'jb->a': {} }, nothing('jb->a')]
  ])
})

t.test('unknown combinators and operators are rejected', async t => {
  const service = await useService(t, { schema })
  await assertRefused(t, service, [
    [{ and: { eq: 1 } }, invalid('and')],
    [{ or: { id: { eq: 1 } } }, invalid('or')],
    [{ and: 1 }, invalid('and')],
    [{ or: null }, invalid('or')],
    [{ or: 'x' }, invalid('or')],
    [{ not: [] }, invalid('not')],
    [{ not: [{ id: { eq: 1 } }] }, invalid('not')],
    [{ not: null }, invalid('not')],
    [{ not: 1 }, invalid('not')],
    [{ not: { eq: 1 } }, invalid('not', 'eq')],
    [
      { and: [1, null, 'x', [], [{ id: { eq: 1 } }]] },
      invalid('and', 0),
      invalid('and', 1),
      invalid('and', 2),
      invalid('and', 3),
      invalid('and', 4)
    ],
    [{ or: [{ id: 1 }] }, invalid('or', 0, 'id')],
    [{ not: { id: null } }, invalid('not', 'id')],
    [{ id: [] }, invalid('id')],
    [{ id: [{ eq: 1 }] }, invalid('id')],
    [{ id: '$src.id' }, invalid('id')],
    [{ id: true }, invalid('id')],
    [{ AND: [{ id: { eq: 1 } }] }, invalid('AND')],
    [{ $and: [{ id: { eq: 1 } }] }, invalid('$and')],
    [{ Or: [{ id: { eq: 1 } }] }, invalid('Or')],
    [{ nor: [{ id: { eq: 1 } }] }, invalid('nor')],
    [{ Not: { id: { eq: 1 } } }, unknown('Not', 'id')],
    [{ id: { or: [{ eq: 1 }, { eq: 2 }] } }, unknown('id', 'or')],
    [{ id: { and: [{ eq: 1 }] } }, unknown('id', 'and')],
    [{ id: { not: 1 } }, invalid('id', 'not')],
    [{ id: { not: null } }, invalid('id', 'not')],
    [{ id: { not: 'null' } }, invalid('id', 'not')],
    [{ id: { not: [{ eq: 1 }] } }, invalid('id', 'not')],
    [{ id: { not: { nope: 1 } } }, unknown('id', 'not', 'nope')],
    [{ id: { not: { eq: null } } }, invalid('id', 'not', 'eq')],
    ...[
      'EQ',
      '=',
      '',
      ' eq',
      'eq ',
      '$eq',
      '$in',
      'Not',
      'nott',
      'ne',
      'notin',
      'not_in',
      'isnull',
      'is_null',
      'is_distinct',
      'isDistinct',
      'contains',
      'haskey',
      'hasKey',
      'any',
      'all',
      '$col',
      '$value',
      '$excluded',
      'constructor',
      'toString',
      'hasOwnProperty',
      'exists',
      'fts(english)',
      'eq(any)',
      'not.eq'
    ]
      .map((name): IssueRow => [{ id: { [name]: 1, lt: 5 } }, unknown('id', name)]),
    [JSON.parse('{"id":{"__proto__":1}}'), unknown('id', '__proto__')],
    [
      { id: { eq: 1, nope: 2 }, n: { nin: [] }, or: [{ txt: { Eq: 'x' } }, {}] },
      unknown('id', 'nope'),
      invalid('n', 'nin'),
      unknown('or', 0, 'txt', 'Eq'),
      nothing('or', 1)
    ]
  ])
})

t.test('invalid operands of comparisons and patterns are rejected', async t => {
  const service = await useService(t, { schema })
  const comparisons =
    ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'like', 'ilike', 'match', 'imatch']
  await assertRefused(t, service, [
    ...comparisons.flatMap((name): IssueRow[] => [
      [{ id: { [name]: null } }, invalid('id', name)],
      [{ id: { [name]: [] } }, invalid('id', name)],
      [{ id: { [name]: [1, 2] } }, invalid('id', name)],
      [{ id: { [name]: {} } }, invalid('id', name)],
      [{ id: { [name]: { x: 1 } } }, invalid('id', name)],
      [{ id: { [name]: { $nope: 1 } } }, invalid('id', name)],
      [{ id: { [name]: { col: 'n' } } }, invalid('id', name)],
      [{ id: { [name]: { $COL: 'n' } } }, invalid('id', name)],
      [{ id: { [name]: { $excluded: 'n' } } }, invalid('id', name)],
      [{ id: { [name]: { any: [1], all: [1] } } }, invalid('id', name)],
      [{ id: { [name]: { any: [1], x: 1 } } }, invalid('id', name)],
      [{ id: { [name]: { $col: 'n', $value: 1 } } }, invalid('id', name)],
      [{ id: { [name]: '$src.*.n' } }, invalid('id', name)],
      [{ id: { [name]: { any: [] } } }, invalid('id', name, 'any')],
      [{ id: { [name]: { all: [] } } }, invalid('id', name, 'all')],
      [{ id: { [name]: { all: null } } }, invalid('id', name, 'all')],
      [{ id: { [name]: { any: 'x' } } }, invalid('id', name, 'any')],
      [{ id: { [name]: { any: {} } } }, invalid('id', name, 'any')],
      [{ id: { [name]: { all: '$src.0.n' } } }, invalid('id', name, 'all')],
      [{ id: { [name]: { any: '$$src.*.n' } } }, invalid('id', name, 'any')],
      [
        { id: { [name]: { any: [1, null, [2], {}, { $col: 'n' }] } } },
        ...[1, 2, 3, 4].map(i => invalid('id', name, 'any', i))
      ],
      [{ id: { [name]: { all: [1, '$src.*.n', '$src.n'] } } }, invalid('id', name, 'all', 1)]
    ]),
    [{ id: { isdistinct: [] } }, invalid('id', 'isdistinct')],
    [{ id: { isdistinct: {} } }, invalid('id', 'isdistinct')],
    [{ id: { isdistinct: { any: [1] } } }, invalid('id', 'isdistinct')],
    [{ id: { isdistinct: { all: [1] } } }, invalid('id', 'isdistinct')],
    [{ id: { isdistinct: '$src.*.n' } }, invalid('id', 'isdistinct')],
    [{ id: { isdistinct: { x: 1 } } }, invalid('id', 'isdistinct')],
    ...[
      'null',
      'NULL',
      'notnull',
      'not null',
      'NOT_NULL',
      'true',
      'Unknown',
      '',
      0,
      1,
      [],
      {},
      [null],
      '$src.flag',
      '$$src.flag'
    ].map((operand): IssueRow => [{ flag: { is: operand } }, invalid('flag', 'is')]),
    [{ flag: { is: { $col: 'n' } } }, invalid('flag', 'is')]
  ])
})

t.test('invalid columns and values as operands are rejected', async t => {
  const service = await useService(t, { schema })
  const long = 'x'.repeat(64)
  const columns = [1, null, true, [], ['n'], {}, '', long, 'jb->', '->a', 'jb->>a->b']
  await assertRefused(t, service, [
    ...columns.map((column): IssueRow =>
      [{ id: { eq: { $col: column } } }, invalid('id', 'eq', '$col')]
    ),
    [{ 'jb->>a': { eq: { $value: null } } }, invalid('jb->>a', 'eq', '$value')],
    [{ 'jb->>a': { isdistinct: { $value: null } } }, invalid('jb->>a', 'isdistinct', '$value')]
  ])
})

t.test('invalid lists and bounds are rejected', async t => {
  const service = await useService(t, { schema })
  await assertRefused(t, service, [
    [{ id: { nin: [] } }, invalid('id', 'nin')],
    ...['in', 'nin'].flatMap((name): IssueRow[] => [
      ...[
        null,
        1,
        true,
        'x',
        '1,2',
        '(1,2)',
        '{1,2}',
        {},
        { any: [1] },
        { $col: 'ints' },
        { $value: [1] },
        '$src.0.n',
        '$src.n',
        '$src',
        '$$src.*.n',
        '$5'
      ].map((operand): IssueRow => [{ id: { [name]: operand } }, invalid('id', name)]),
      [{ id: { [name]: [null] } }, invalid('id', name, 0)],
      [
        { id: { [name]: [1, null, [2], {}, { $col: 'n' }, { $value: 1 }, '$src.0.n'] } },
        ...[1, 2, 3, 4, 5].map(i => invalid('id', name, i))
      ],
      [
        { id: { [name]: ['$src.*.n', 1, '$src.*.n'] } },
        invalid('id', name, 0),
        invalid('id', name, 2)
      ]
    ]),
    ...[
      [],
      [1],
      [1, 2, 3],
      null,
      1,
      '1,2',
      {},
      { low: 1, high: 2 },
      { $col: 'n' },
      '$src.*.n',
      '$src.n'
    ].map((operand): IssueRow => [{ id: { between: operand } }, invalid('id', 'between')]),
    [{ id: { between: [null, 1] } }, invalid('id', 'between', 0)],
    [{ id: { between: [1, null] } }, invalid('id', 'between', 1)],
    [{ id: { between: [[1], {}] } }, invalid('id', 'between', 0), invalid('id', 'between', 1)],
    [
      { id: { between: [{ any: [1] }, { $value: 1 }] } },
      invalid('id', 'between', 0),
      invalid('id', 'between', 1)
    ],
    [
      { id: { between: ['$src.*.n', { $excluded: 'n' }] } },
      invalid('id', 'between', 0),
      invalid('id', 'between', 1)
    ],
    [{ id: { between: [{ $col: 'n', x: 1 }, 1] } }, invalid('id', 'between', 0)],
    [
      { id: { between: [{ $col: '' }, { $col: 5 }] } },
      invalid('id', 'between', 0, '$col'),
      invalid('id', 'between', 1, '$col')
    ]
  ])
})

t.test('invalid operands of containment, key and full-text operators are rejected', async t => {
  const service = await useService(t, { schema })
  const keyOperands = [null, 1, true, [], ['a'], {}, { $col: 'txt' }, { $value: 'a' }, '$src.*.txt']
  await assertRefused(t, service, [
    ...['cs', 'cd', 'ov', 'sl', 'sr', 'nxr', 'nxl', 'adj'].flatMap((name): IssueRow[] => [
      [{ jb: { [name]: null } }, invalid('jb', name)],
      [{ jb: { [name]: { $nope: 1 } } }, invalid('jb', name)],
      [{ jb: { [name]: { $excluded: 'n' } } }, invalid('jb', name)],
      [{ jb: { [name]: { $inc: 1 } } }, invalid('jb', name)],
      [{ jb: { [name]: { a: [{ b: '$nope.x' }] } } }, ['reference_unknown', [
        'jb',
        name,
        'a',
        0,
        'b'
      ]]],
      [{ jb: { [name]: ['$src.'] } }, ['reference_malformed', ['jb', name, 0]]],
      [{ jb: { [name]: { $value: { $x: '$src.*' } } } }, ['reference_malformed', [
        'jb',
        name,
        '$value',
        '$x'
      ]]]
    ]),
    ...keyOperands.map((operand): IssueRow =>
      [{ jb: { has_key: operand } }, invalid('jb', 'has_key')]
    ),
    ...['has_keys_any', 'has_keys_all'].flatMap((name): IssueRow[] => [
      ...[
        null,
        1,
        true,
        [],
        {},
        'a',
        'a,b',
        { $value: ['a'] },
        { $col: 'txt' },
        '$src.0.txt',
        '$$src.*.txt'
      ].map((operand): IssueRow => [{ jb: { [name]: operand } }, invalid('jb', name)]),
      [
        { jb: { [name]: ['a', 1, null, true, ['b'], {}] } },
        ...[1, 2, 3, 4, 5].map(i => invalid('jb', name, i))
      ],
      [{ jb: { [name]: ['a', '$src.*.txt'] } }, invalid('jb', name, 1)]
    ]),
    ...['fts', 'plfts', 'phfts', 'wfts'].flatMap((name): IssueRow[] => [
      ...[
        null,
        1,
        true,
        [],
        ['a'],
        {},
        { config: 'english' },
        { query: 'a', config: 'english', x: 1 },
        { query: 'a', lang: 'english' },
        { $col: 'txt' },
        { $value: 'a' },
        { any: ['a'] },
        '$src.*.txt'
      ].map((operand): IssueRow => [{ tsv: { [name]: operand } }, invalid('tsv', name)]),
      ...[null, 1, [], {}, '$src.*.txt'].map((query): IssueRow =>
        [{ tsv: { [name]: { query } } }, invalid('tsv', name, 'query')]
      ),
      ...[null, 1, [], {}].map((config): IssueRow =>
        [{ tsv: { [name]: { query: 'a', config } } }, invalid('tsv', name, 'config')]
      ),
      [{ tsv: { [name]: { query: '$nope.x' } } }, ['reference_unknown', ['tsv', name, 'query']]]
    ])
  ])
})

t.test('issues of the schema and of references are reported together', async t => {
  const service = await useService(t, { schema })
  const deep = JSON.parse('{"not":'.repeat(11) + '{"n":{"eq":1}}' + '}'.repeat(11)) as object
  await assertRefused(t, service, [
    [
      {
        id: { in: [1, null, '$src.*.n'], eq: { $excluded: 'n' }, nope: 1 },
        n: { gt: '$nope.x', lt: '$src.' },
        jb: { eq: { $value: 1, more: 1 } },
        or: [{}, deep]
      },
      invalid('id', 'in', 1),
      invalid('id', 'in', 2),
      invalid('id', 'eq'),
      unknown('id', 'nope'),
      ['reference_unknown', ['n', 'gt']],
      ['reference_malformed', ['n', 'lt']],
      invalid('jb', 'eq'),
      nothing('or', 0),
      ['depth_exceeded', ['or', 1, ...Array(10).fill('not')]]
    ]
  ])
})

t.test('invalid names and paths are rejected', async t => {
  const service = await useService(t, { schema })
  const long = 'x'.repeat(64)
  await assertRefused(
    t,
    service,
    [
      '',
      long,
      'jb->',
      'jb->>',
      '->a',
      '->>a',
      '->',
      '->>',
      'jb->a->',
      'jb->a->>',
      'jb->>a->b',
      'jb->>a->>b',
      'jb->->a',
      'jb->a->->b',
      'jb->->>a',
      `${long}->a`,
      `${'ä'.repeat(32)}->>a`
    ].map((name): IssueRow => [{ [name]: { eq: 1 } }, member(name)])
  )
  await assertRefused(t, service, [[
    { or: [{ id: { eq: 1 } }, { 'jb->': { eq: 1 } }], not: { '': { eq: 1 } } },
    member('or', 1, 'jb->'),
    member('not', '')
  ]])
})

t.test('unknown and malformed references are rejected in every position', async t => {
  const service = await useService(t, { schema })
  const positions: ReadonlyArray<readonly [where: (reference: string) => unknown, path: Path]> = [
    [x => ({ id: { gt: x } }), ['id', 'gt']],
    [x => ({ id: { isdistinct: x } }), ['id', 'isdistinct']],
    [x => ({ id: { in: [1, x] } }), ['id', 'in', 1]],
    [x => ({ id: { nin: [x] } }), ['id', 'nin', 0]],
    [x => ({ id: { eq: { any: [x] } } }), ['id', 'eq', 'any', 0]],
    [x => ({ txt: { like: { all: ['a', x] } } }), ['txt', 'like', 'all', 1]],
    [x => ({ id: { between: [x, 1] } }), ['id', 'between', 0]],
    [x => ({ id: { between: [1, x] } }), ['id', 'between', 1]],
    [x => ({ tsv: { fts: x } }), ['tsv', 'fts']],
    [x => ({ tsv: { wfts: { query: x, config: 'simple' } } }), ['tsv', 'wfts', 'query']],
    [x => ({ jb: { has_key: x } }), ['jb', 'has_key']],
    [x => ({ jb: { has_keys_any: ['a', x] } }), ['jb', 'has_keys_any', 1]],
    [x => ({ jb: { cs: x } }), ['jb', 'cs']],
    [x => ({ jb: { cs: { a: [x] } } }), ['jb', 'cs', 'a', 0]],
    [x => ({ jb: { eq: { $value: { a: x } } } }), ['jb', 'eq', '$value', 'a']],
    [x => ({ id: { not: { eq: x } } }), ['id', 'not', 'eq']],
    [x => ({ or: [{ n: { eq: 1 } }, { not: { id: { eq: x } } }] }), ['or', 1, 'not', 'id', 'eq']],
    [x => ({ 'jb->>a': { eq: x } }), ['jb->>a', 'eq']]
  ]
  const unknownReferences =
    ['$nope.id', '$nope.*.id', '$later.0.id', '$nope', '$nope.*', '$SRC.0.id']
  await assertRefused(
    t,
    service,
    positions.flatMap(([where, path]): IssueRow[] => [
      ...unknownReferences.map((text): IssueRow => [where(text), ['reference_unknown', path]]),
      ...[
        '$src.',
        '$src.*',
        '$src.*.',
        '$src.0.',
        '$src.00',
        '$src.01.id',
        '$src..id',
        '$src.0.a.b',
        '$src.*.a.b',
        '$src.a.b',
        '$src.-1.id',
        '$src.*.*.id'
      ].map((text): IssueRow => [where(text), ['reference_malformed', path]])
    ])
  )
  await assertRefused(
    t,
    service,
    ['in', 'nin', 'has_keys_all'].flatMap((name): IssueRow[] => [
      [{ id: { [name]: '$nope.*.id' } }, ['reference_unknown', ['id', name]]],
      [{ id: { [name]: '$src.*.' } }, ['reference_malformed', ['id', name]]]
    ])
  )
})

t.test('at most ten nested combinators are accepted', async t => {
  const service = await useService(t, { schema, env: { MAX_CONDITIONS: '5' } })
  const wrap = (inner: unknown, keys: readonly string[]): unknown =>
    keys.reduceRight((filter, key) => ({ [key]: key === 'not' ? filter : [filter] }), inner)
  const path = (keys: readonly string[]): Path =>
    keys.flatMap(key => key === 'not' ? [key] : [key, 0])
  const keys = (count: number): string[] =>
    Array.from({ length: count }, (_, i) => ['and', 'not', 'or'][i % 3] as string)
  const leaf = { id: { eq: -1 } }
  const valid = [
    wrap(leaf, keys(10)),
    wrap(leaf, Array(10).fill('not')),
    wrap({ id: { not: { eq: 5 } } }, keys(9)),
    { id: JSON.parse('{"not":'.repeat(10) + '{"eq":-1}' + '}'.repeat(10)) }
  ]
  for (const where of valid) {
    const { status, text } = await service.post([{ id: 's', op: 'select', table: 'things', where }])
    t.equal(status, 200, text.slice(0, 300))
  }
  const deep = (...path: Path): readonly [string, Path] => ['depth_exceeded', path]
  await assertRefused(t, service, [
    [wrap(leaf, keys(11)), deep(...path(keys(10)), 'not')],
    [wrap(leaf, Array(11).fill('not')), deep(...Array(11).fill('not'))],
    [wrap(leaf, Array(11).fill('and')), deep(...path(Array(10).fill('and')), 'and')],
    [wrap(leaf, keys(30)), deep(...path(keys(10)), 'not')],
    [wrap({ id: { not: { eq: 1 } } }, keys(10)), deep(...path(keys(10)), 'id', 'not')],
    [
      { id: JSON.parse('{"not":'.repeat(11) + '{"eq":1}' + '}'.repeat(11)) },
      deep('id', ...Array(11).fill('not'))
    ],
    [{ id: { eq: 1 }, or: [leaf, wrap(leaf, keys(11))] }, deep('or', 1, ...path(keys(9)), 'and')],
    [{ ...leaf, ...wrap(leaf, keys(11)) as object }, deep(...path(keys(10)), 'not')]
  ])
})

t.test('at most MAX_CONDITIONS conditions are accepted, at any depth', async t => {
  const service = await useService(t, { schema, env: { MAX_CONDITIONS: '5' } })
  const five: readonly object[] = [
    { id: { gt: 1, lt: 2, eq: 3, neq: 4, gte: 5 } },
    {
      or: [{ id: { eq: 1 } }, { id: { eq: 2 } }, { not: { id: { eq: 3 }, n: { eq: 4 } } }],
      id: { eq: -1 }
    },
    { id: { not: { gt: 1, not: { lt: 1, eq: 2 } }, eq: 1 }, n: { eq: 5 } },
    {
      and: [{ and: [{ id: { in: [1, 2, 3, 4, 5, 6, 7] } }, { id: { between: [1, 2] } }] }, {
        id: { eq: { any: [1, 2, 3, 4, 5, 6] } }
      }, { id: { eq: -1 }, n: { eq: 1 } }]
    }
  ]
  for (const where of five) {
    t.equal(
      (await service.post([{ id: 's', op: 'select', table: 'things', where }])).status,
      200,
      JSON.stringify(where)
    )
  }
  await assertRefused(
    t,
    service,
    five.flatMap((where): IssueRow[] => [
      [{ ...where, txt: { eq: 'x' } }, member()],
      [{ ...where, 'jb->>a': { not: { eq: 'x' } } }, member()],
      [{ and: [where, { txt: { is: null } }] }, member()]
    ])
  )
})

t.test('at most 1600 distinct columns are accepted', async t => {
  const service = await useService(t, {
    schema,
    env: { MAX_CONDITIONS: '10000', MAX_WORK: '1000000' }
  })
  const columns = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, { eq: 1 }]))
  const { status, body } = await service.post([{
    id: 's',
    op: 'select',
    table: 'things',
    where: columns(1600)
  }])
  t.match({ status, code: body.error.code }, { status: 400, code: 'undefined_column' })
  await assertRefused(t, service, [
    [columns(1601), member()],
    [{ or: [columns(1000), { not: columns(1601) }] }, member()]
  ])
  const repeated = await service.post([{
    id: 's',
    op: 'select',
    table: 'things',
    where: { or: Array.from({ length: 2000 }, () => ({ id: { eq: 1 } })) }
  }])
  t.equal(repeated.status, 200, 'only distinct columns are counted')
})

t.test('property: no filter causes a server error', async t => {
  const service = await useService(t, { schema })
  const rarely = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
    fc.oneof({ arbitrary: usual, weight: 19 }, { arbitrary: odd, weight: 1 })
  const text = fc.constantFrom(
    '',
    'x',
    '1',
    '{1}',
    '[1,2)',
    '(',
    '%',
    'a &',
    '$src.0.id',
    '$src.n',
    '$src.1',
    '$$src',
    "'; drop table things; --",
    '😀'
  )
  const scalar = rarely(
    fc.oneof(text, fc.integer(), fc.double({ noNaN: true }), fc.boolean()),
    fc.constantFrom(null, '$nope', '$src.*.n')
  )
  const list = fc.oneof(
    fc.array(scalar, { minLength: 1, maxLength: 3 }),
    fc.constantFrom('$src.*.n', '$none.*.n')
  )
  const column = fc.constantFrom(
    'id',
    'n',
    'txt',
    'jb',
    'ints',
    'tsv',
    'flag',
    'jb->a',
    'jb->>a',
    'jb->0->>a',
    'txt->a'
  )
  const json = fc.jsonValue({ maxDepth: 2, noUnicodeString: false }).filter(value =>
    !JSON.stringify(value).includes('\\u')
  ) as fc.Arbitrary<unknown>
  const operand = rarely(
    fc.oneof(
      scalar,
      scalar,
      list,
      list,
      json,
      fc.tuple(scalar, scalar),
      fc.record({ $col: column }),
      fc.record({ $value: json }),
      fc.record({ any: list }),
      fc.record({ all: list }),
      fc.record({ query: text })
    ),
    fc.dictionary(fc.constantFrom('$col', '$excluded', 'a'), scalar, { maxKeys: 2 })
  )
  const name = rarely(
    column,
    fc.constantFrom('nope', 'ctid', 'things', '__proto__', '', 'jb->')
  ) as fc.Arbitrary<string>
  const tests = fc.dictionary(fc.constantFrom(...Object.keys(operators)), operand, {
    minKeys: 1,
    maxKeys: 1
  })
  const { filter } = fc.letrec<{ filter: object }>(tie => ({
    filter: fc.oneof(
      { maxDepth: 3 },
      fc.dictionary(name, fc.oneof(tests, fc.record({ not: tests })), { minKeys: 1, maxKeys: 1 }),
      fc.record({ and: fc.array(tie('filter'), { maxLength: 2 }) }),
      fc.record({ or: fc.array(tie('filter'), { maxLength: 2 }) }),
      fc.record({ not: tie('filter') })
    )
  }))
  const codes = new Set<string>()
  await fc.assert(
    fc.asyncProperty(filter, async where => {
      const { status, body } = await service.post([{ id: 'src', op: 'select', table: 'things' }, {
        id: 'none',
        op: 'select',
        table: 'things',
        where: { id: { eq: -1 } }
      }, { id: 's', op: 'select', table: 'things', where }])
      codes.add(body.error?.code ?? 'none')
      return status < 500
    }),
    { numRuns: 400 }
  )
  t.ok(codes.has('none') && codes.size > 5, `codes: ${[...codes].join(', ')}`)
})

t.test('a path can have as many keys as JSON can have levels', async t => {
  const service = await useService(t, {
    schema: "create table docs (j jsonb); insert into docs values ('{}'); grant all on docs to " +
      'oneflight_user'
  })
  const path = (keys: number): string => `j${'->a'.repeat(keys)}`
  const select = (column: string) =>
    service.post([{
      id: 's',
      op: 'select',
      table: 'docs',
      where: { [column]: { isdistinct: 1 } },
      columns: [{ column, as: 'a' }],
      order: [{ [column]: 'asc' }],
      group_by: [column]
    }])
  t.same((await select(path(100))).body.data.s, [{ a: null }])
  const issues: ReadonlyArray<{ code: string, path: Path }> =
    (await select(path(101))).body.error.errors
  t.same(issues.map(({ code, path }) => [code, path.slice(0, 2)]), [
    ['member_invalid', ['where', path(101)]],
    ['member_invalid', ['columns', 0]],
    ['member_invalid', ['group_by', 0]],
    ['member_invalid', ['order', 0]]
  ])
})
