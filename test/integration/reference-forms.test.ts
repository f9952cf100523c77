/**
 * Every form of reference in every position: as a value, inside JSON and as an operand, it equals
 * the literal. A missing row or column, or an empty list that would match every row, is an error.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { differsOneByOne } from '../support/environment.ts'
import { ids, thingsSchema } from '../support/database/same-rows.ts'
import { useService } from '../support/service.ts'

const sourceSchema = `
  create table src (
    id int primary key, n int, big bigint, num numeric, txt text, pat text, day date,
      ts timestamptz, uid uuid, mood text, raw bytea, flag bool, ints int[], texts text[], jb jsonb,
      doc json, span int4range, word text, nil text, js jsonb,
    "with space" text, "We""ird" text, "*" text, "1" text);
  insert into src values
    (1, 2, 9007199254740993, 1.104, 'apple', '%pp%', '2024-01-02', '2024-01-01T00:00:00.000001Z',
      'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', '\\x00ff', true, '{1,3}', '{red,"a,b"}',
      '{"a": 1}', '{"z": 1.10,  "a": [1, null]}', '[4,6)', 'foxes', null, '"x"', 's', 'w', 'star',
      'one'),
    (2, 8, 42, 1.10, 'a "quoted" \\ 😀', '_anana', '2024-01-01', '2024-06-01T12:00:00Z',
      'c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'happy', '\\x', false, '{}', '{red}',
      '[1, {"$col": "n"}]', '2.50', '[1,5)', 'apple', null, '5', 't', 'v', 'moon', 'two'),
    (3, null, 7, 12345678901234567890.1234567890, '$s.0.id', null, null, null, null, null, null,
      null, null, null, null, null, null, null, null, null, null, null, null, null);
  create table many (n int);
  insert into many select generate_series(1, 1000);
  create table dst (id int generated always as identity primary key, n int, big bigint, num numeric,
    nums numeric[], txt text, ts timestamptz, local timestamp, day date, raw bytea, flag bool,
    ints int[], texts text[], jb jsonb, doc json, span int4range, rec src, other text);
  create function label(src) returns text language sql immutable as 'select $1.txt';
`
const service = await useService(t, { schema: `${thingsSchema} ${sourceSchema}` })
/** `s` returns 3 rows, `none` no row, `one` one row and `many` 1000 rows. */
const sources = [
  op.select('s', 'src'), op.select('none', 'many', { where: { n: { eq: -1 } } }),
  op.select('one', 'many', { where: { n: { eq: 7 } } }), op.select('many', 'many')
]

const whiteSpace = differsOneByOne('JSON of an earlier row has another white space')
t.test('references as values equal the values of the earlier row', whiteSpace, async t => {
  const of = (row: number, expression: string): string =>
    `(select ${expression} from src where id = ${row + 1})`
  const rows: ReadonlyArray<readonly [column: string, sent: unknown, want: string]> = [
    // a value
    ...['num', 'raw', 'texts', 'doc', 'span']
      .flatMap(column =>
        [0, 1, 2].map(row => [column, `$s.${row}.${column}`, of(row, column)] as const)
      ),
    ...['big', 'num', 'ts', 'raw', 'flag', 'nil'].map(column =>
      ['txt', `$s.${column}`, of(0, `to_jsonb(src)->>'${column}'`)] as const
    ),
    ['local', '$s.ts', of(0, "ts at time zone 'UTC'")],
    ['day', '$s.ts', of(0, "(ts at time zone 'UTC')::date")],
    ['doc', '$s.2.num', `to_json(${of(2, 'num')})`],
    // a row
    ...['$s', '$s.0'].flatMap(sent => [
      ['jb', sent, of(0, 'to_jsonb(src)')] as const,
      ['doc', sent, of(0, 'to_json(src)')] as const,
      ['rec', sent, of(0, 'src')] as const
    ]),
    // a list
    ['nums', '$s.*.num', '(select array_agg(num order by id) from src)'],
    ['texts', '$s.*.We"ird', "'{w,v,NULL}'"],
    ['ints', '$none.*.n', "'{}'"],
    ['ints', '$many.*.n', '(select array_agg(n) from many)'],
    // inside
    ['ints', ['$s.*.n', '$s.*.n'], "'{{2,8,NULL},{2,8,NULL}}'"],
    ['texts', ['$s.txt', '$$s.txt', '$5', '$s.1.txt'],
      `array[${of(0, 'txt')}, '$s.txt', '$5', ${of(1, 'txt')}]`],
    [
      'jb',
      {
        a: ['$s.1', { b: '$s.*.num' }],
        c: '$$s',
        d: '$$s.*.n',
        e: '$s.2.num',
        $f: '$none.*.n',
        g: '$s.nil'
      },
      `jsonb_build_object('a', jsonb_build_array(${
        of(1, 'to_jsonb(src)')
      }, jsonb_build_object('b', (select jsonb_agg(num order by id) from src))), 'c', '$s', 'd',
        '$s.*.n', 'e', ${of(2, 'num')}, '$f', '[]'::jsonb, 'g', null)`
    ],
    ['doc', ['$s.num', '$s.2.num', '$s.txt', '$s.nil'],
      '\'[1.104,12345678901234567890.1234567890,"apple",null]\''],
    [
      'rec',
      { n: '$s.n', txt: '$s.1.txt', ints: '$s.*.n' },
      `row(null, 2, null, null, ${
        of(1, 'txt')
      }, null, null, null, null, null, null, null, array[2, 8, null], null, null, null, null,
        null, null, null, null, null, null, null)`
    ]
  ]
  for (const [column, sent, want] of rows) {
    const insert = { op: 'insert', table: 'dst' }
    const { body, text } = await service.post([
      ...sources,
      { id: 'a', ...insert, values: [{ [column]: sent }] },
      {
        id: 'b',
        ...insert,
        values: [{ other: 'x' }, { [column]: sent, other: '$s.txt' }, { [column]: sent }]
      },
      { id: 'c', ...insert, values: [{ other: 'y' }] },
      op.update('d', 'dst', { set: { [column]: sent }, where: { id: { eq: '$c.id' } } })
    ])
    const name = encodeURI(`${column} ${JSON.stringify(sent)}`)
    t.equal(body.error, null, `${name} ${encodeURI(text)}`)
    if (body.error !== null) continue
    const { a, b, d } = body.data
    const written = [a[0], b[1], b[2], d[0]].map(({ id }) => id as number)
    const found = await service.database.sql.unsafe(
      `select ${column}::text as got, (${want})::text as want from dst
        where id in (${written.join()})`
    )
    t.strictSame(
      found.map(({ got }) => got as unknown), found.map(({ want }) => want as unknown), name
    )
  }
})

t.test('references as operands equal literals in every position of a filter', async t => {
  const columns: ReadonlyArray<readonly [column: string, reference: string, literal: string]> = [
    ['txt', '$s.2.txt', '"$$s.0.id"'],
    ['vc', '$s.txt', '"apple"'],
    ['ch', '$s.with space', '"s"'],
    ['uid', '$s.uid', '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'],
    ['mood', '$s.mood', '"ok"'],
    ['pos', '$s.n', '2'],
    ['raw', '$s.raw', '"\\\\x00ff"'],
    ['ints', '$s.ints', '{"$value":[1,3]}'],
    ['texts', '$s.1.texts', '{"$value":["red"]}'],
    ['jb', '$s.js', '{"$value":"x"}'],
    ['span', '$s.span', '"[4,6)"'],
    ['jb->k', '$s.js', '{"$value":"x"}'],
    ['jb', '$one', '{"$value":{"n":7}}']
  ]
  const pairs: ReadonlyArray<readonly [reference: string, literal: string]> = [
    // The column decides the type, so each has the equality and one of the other comparisons.
    ...columns.flatMap(([column, reference, literal], i) =>
      ['eq', ['neq', 'gt', 'gte', 'lt', 'lte', 'isdistinct'][i % 6]].map(name => [
        `{${JSON.stringify(column)}:{"${name}":${JSON.stringify(reference)}}}`,
        `{${JSON.stringify(column)}:{"${name}":${literal}}}`
      ] as const)),
    ...[
      [{ txt: { like: '$s.pat' } }, { txt: { like: '%pp%' } }],
      [{ txt: { like: { any: ['$s.pat', 'b%'] } } }, { txt: { like: { any: ['%pp%', 'b%'] } } }],
      [{ 'jb->>k': { like: '$s.js' } }, { 'jb->>k': { like: 'x' } }],
      [{ mood: { in: '$s.*.mood' } }, { mood: { in: ['ok', 'happy'] } }],
      [{ raw: { in: '$s.*.raw' } }, { id: { in: [1, 3] } }],
      [{ jb: { in: '$s.*.js' } }, { id: { in: [7, 9] } }],
      [{ span: { in: '$s.*.span' } }, { span: { in: ['[4,6)', '[1,5)'] } }],
      [{ txt: { like: { any: '$s.*.pat' } } }, { txt: { like: { any: ['%pp%', '_anana'] } } }],
      [{ m: { between: ['$s.n', { $col: 'n' }] } }, { m: { between: [2, { $col: 'n' }] } }],
      [{ ints: { cd: '$many.*.n' } }, { ints: { cd: [1, 2, 3, 4, 7, 10] } }],
      [{ texts: { cs: ['$s.nil'] } }, { n: { eq: -99 } }],
      [{ ints: { cd: '$none.*.n' } }, { ints: { eq: { $value: [] } } }],
      [{ jb: { cd: ['$s.js', '$s.1.js', '$s.nil', 1, '$s.jb'] } }, {
        jb: { cd: ['x', 5, null, 1, { a: 1 }] }
      }],
      [{ jb: { eq: { $value: [1, '$s.js', '$s.nil', '$s.jb'] } } }, { id: { eq: 6 } }],
      [{ ints: { eq: { $value: ['$s.id', 2, '$s.2.id'] } } }, { id: { eq: 1 } }],
      [{ ints: { eq: { $value: '$one.*.n' } } }, { ints: { eq: { $value: [7] } } }],
      [{ span: { adj: '$s.span' } }, { span: { adj: '[4,6)' } }],
      [{ 'jb->tags': { cs: '$s.1.texts' } }, { id: { eq: 8 } }],
      [{ jb: { has_keys_all: ['$s.js', 'x'] } }, { jb: { has_key: 'x' } }],
      [{ jb: { has_keys_any: '$s.*.js' } }, { jb: { has_keys_any: ['x', '5'] } }],
      [{ jb: { has_keys_any: '$none.*.n' } }, { id: { eq: -1 } }],
      [{ tsv: { fts: '$s.word' } }, { tsv: { fts: 'foxes' } }],
      [{ txt: { plfts: { query: '$s.1.word', config: 'english' } } }, {
        txt: { plfts: { query: 'apple', config: 'english' } }
      }],
      [{ not: { n: { nin: '$s.*.id' } } }, { n: { in: [1, 2, 3] } }],
      ...['eq', 'neq', 'gt', 'lte', 'like', 'match', 'fts'].map(name =>
        [{ txt: { [name]: '$s.nil' } }, { id: { eq: -1 } }] as const
      ),
      [{ txt: { isdistinct: '$s.nil' } }, { txt: { is: 'not_null' } }],
      [{ ints: { ov: '$s.nil' } }, { id: { eq: -1 } }],
      [{ jb: { has_keys_any: ['$s.nil', 'a'] } }, { jb: { has_key: 'a' } }]
    ].map(([reference, literal]) =>
      [
        JSON.stringify(reference),
        typeof literal === 'string' ? literal : JSON.stringify(literal)
      ] as const
    )
  ]
  // 96 operations of 16 pairs, and the sources
  for (let start = 0; start < pairs.length; start += 16) {
    const part = pairs.slice(start, start + 16)
    const operations = [
      ...sources.map(source => JSON.stringify(source)),
      ...part.flat().flatMap((where, i) => [
        `{"id":"s${i}","op":"select","table":"things","where":${where}}`,
        `{"id":"u${i}","op":"update","table":"things","set":{"mark":1},"where":${where}}`,
        `{"id":"d${i}","op":"delete","table":"doomed","where":${where}}`
      ])
    ]
    const { body, text } = await service.post(`[${operations.join()}]`)
    t.equal(body.error, null, text)
    const found = (i: number): unknown =>
      ['s', 'u', 'd'].map(kind => ids(body.data?.[`${kind}${i}`] ?? []))
    for (const [i, [reference]] of part.entries()) {
      t.strictSame(found(2 * i), found(2 * i + 1), encodeURI(reference))
    }
  }
})

/** Filters with a reference, by the name of its position. */
const filterPositions: Readonly<Record<string, (reference: string) => object>> = {
  eq: x => ({ txt: { eq: x } }),
  isdistinct: x => ({ txt: { isdistinct: x } }),
  any: x => ({ txt: { eq: { any: ['a', x] } } }),
  all: x => ({ txt: { like: { all: [x] } } }),
  in: x => ({ txt: { in: [x, 'a'] } }),
  nin: x => ({ txt: { nin: ['a', x] } }),
  low: x => ({ txt: { between: [x, 'b'] } }),
  high: x => ({ txt: { between: ['a', x] } }),
  cs: x => ({ jb: { cs: x } }),
  'inside cs': x => ({ jb: { cs: { a: [x] } } }),
  $value: x => ({ jb: { eq: { $value: { a: x } } } }),
  ov: x => ({ texts: { ov: [x] } }),
  has_key: x => ({ jb: { has_key: x } }),
  has_keys_all: x => ({ jb: { has_keys_all: ['a', x] } }),
  fts: x => ({ txt: { fts: x } }),
  'query of fts': x => ({ txt: { wfts: { query: x, config: 'simple' } } }),
  not: x => ({ txt: { not: { eq: x } } }),
  or: x => ({ or: [{ id: { eq: -1 } }, { not: { txt: { eq: x } } }] })
}

const none = { id: { eq: -1 } }
const dst = { table: 'dst' }

const filtering: ReadonlyArray<readonly [name: string, of: (filter: object) => object]> = [
  ['select', filter => ({ ...dst, op: 'select', where: { ...none, ...filter } })],
  ['update', filter => ({ ...dst, op: 'update', set: { n: 1 }, where: { ...filter, ...none } })],
  ['delete', filter => ({ ...dst, op: 'delete', where: { and: [none, filter] } })]
]

/**
 * Operations with a reference, by the name of its position. A filter is the same in all kinds of
 * operations: equality is in each of them, and every other one in one.
 */
const positions: Readonly<Record<string, (reference: string) => object>> = {
  value: x => ({ ...dst, op: 'insert', values: [{ jb: x }] }),
  'inside a value': x => ({ ...dst, op: 'insert', values: [{}, { jb: { a: [x] } }] }),
  set: x => ({ ...dst, op: 'update', set: { jb: x }, where: none }),
  'inside set': x => ({ ...dst, op: 'update', set: { jb: { a: [x] } }, where: none }),
  ...Object.fromEntries(Object.entries(filterPositions).flatMap(([name, filter], i) =>
    filtering.filter((_, j) => name === 'eq' || i % filtering.length === j).map(([kind, of]) =>
      [`${name} of ${kind}`, (x: string) => of(filter(x))])))
}

/** Positions in which a reference meets JSON or a text of any form. */
const takesRow = /cs|\$value|key|fts/

/**
 * What is wrong with a reference to a missing row. A text equals no row, whether it exists or not.
 */
function codeOfRow (position: string, text: string): string {
  const isCompared = position.includes(' of ') && /^\$\w+(?:\.\d+)?$/.test(text)
  return isCompared && !takesRow.test(position) ? 'value_invalid' : 'reference_row_missing'
}

async function assertFails (
  t: Test,
  reader: object,
  code: string,
  name: string
): Promise<void> {
  const { status, body } = await service.post([
    ...sources.slice(0, 3), op.insert('before', 'dst', [{ txt: 'x' }]), { id: 'reader', ...reader }
  ])
  t.match({ status, error: body.error }, {
    status: 422,
    error: {
      type: 'execution_error',
      code,
      committed: false,
      op: 'reader',
      index: 4,
      ...code === 'value_invalid' ? {} : { message: /^"\w+" returned / }
    }
  }, encodeURI(name.slice(0, 100)))
}

const countRows = async (): Promise<unknown> =>
  await service.database.sql`select count(*) from dst union all select count(*) from src`

const otherError = differsOneByOne('a missing row is found before a wrong value')
/** References to missing rows and columns: two places have every form, the others one or two. */
const missing = {
  rows: [
    '$s.3.txt', '$none', '$none.n', '$none.0.n', '$none.nope', '$s.3', '$s.2147483647.txt',
    '$s.2147483648.txt', '$s.4294967296', '$s.99999999999999999999999999.txt'
  ],
  columns: [
    '$s.2.nope', '$one.*x', '$s.nope', '$s.TXT', '$s.ctid', '$s.label', '$s.row', '$s.count',
    `$s.${'x'.repeat(200)}`, "$s.' || 1 --"
  ]
}

t.test('a missing row or column fails the batch in every position', otherError, async t => {
  const before = await countRows()
  for (const [name, reader] of Object.entries(positions)) {
    const isFull = ['value', 'eq of update'].includes(name)
    for (const text of isFull ? missing.rows : missing.rows.slice(0, 2)) {
      await assertFails(t, reader(text), codeOfRow(name, text), `${name} ${text}`)
    }
    for (const text of isFull ? missing.columns : missing.columns.slice(0, 1)) {
      await assertFails(t, reader(text), 'reference_column_missing', `${name} ${text}`)
    }
  }
  for (const reader of [
    ...[{ txt: { nin: '$one.*.txt' } }, { ints: { ov: '$s.*.nope' } }]
      .map(filter => ({ ...dst, op: 'select', where: { ...none, ...filter } })),
    { ...dst, op: 'insert', values: [{ jb: { a: ['$one.*.txt'] } }] }
  ]) await assertFails(t, reader, 'reference_column_missing', JSON.stringify(reader))
  t.same(await countRows(), before)
})

t.test('an empty list never makes a condition match more rows', async t => {
  const inside = { table: 'things', on: { id: 'id' }, where: { n: { in: '$none.*.n' } } }
  const widening: readonly object[] = [
    { not_exists: inside },
    { n: { nin: '$none.*.n' } },
    { n: { eq: { all: '$none.*.n' } } },
    { txt: { like: { all: '$none.*.n' } } },
    { ints: { cs: '$none.*.n' } },
    { jb: { has_keys_all: '$none.*.n' } },
    { n: { not: { in: '$none.*.n' } } },
    { ints: { not: { ov: '$none.*.n' } } },
    { not: { n: { in: '$none.*.n' } } },
    { not: { or: [{ m: { gt: 5 } }, { n: { in: '$none.*.n' } }] } },
    { not: { not: { n: { not: { in: '$none.*.n' } } } } },
    { or: [{ n: { eq: 1 } }, { n: { nin: '$none.*.n' } }] },
    { id: { eq: -1 }, not: { and: [{ n: { in: '$none.*.n' } }] } },
    { ints: { cs: { $value: '$none.*.n' } } },
    { ints: { neq: { $value: '$none.*.n' } } },
    { ints: { isdistinct: { $value: '$none.*.n' } } },
    { ints: { not: { eq: { $value: '$none.*.n' } } } },
    { ints: { cs: ['$none.*.n'] } },
    { ints: { not: { ov: { $value: '$none.*.n' } } } }
  ]
  const changes = [
    { op: 'delete', table: 'doomed' }, { op: 'update', table: 'things', set: { mark: 1 } }
  ]
  for (const [i, where] of widening.entries()) {
    for (const reader of [{ op: 'select', table: 'things', where }, { ...changes[i % 2], where }]) {
      await assertFails(t, reader, 'reference_row_missing', JSON.stringify(reader))
    }
  }
  const narrowing: readonly object[] = [
    { exists: inside },
    { n: { in: '$none.*.n' } },
    { n: { eq: { any: '$none.*.n' } } },
    { ints: { ov: '$none.*.n' } },
    { jb: { has_keys_any: '$none.*.n' } },
    { n: { not: { not: { in: '$none.*.n' } } } },
    { not: { n: { not: { in: '$none.*.n' } } } },
    { not: { not: { ints: { ov: '$none.*.n' } } } },
    // A literal list, of types that the model does not have.
    ...['mood', 'pos', 'jb', 'jb->>k'].map(column => ({ [column]: { in: [] } })),
    { not_exists: { ...inside, where: { not: { id: { in: [] } } } } }
  ]
  const { body, text } = await service.post([
    ...sources,
    ...narrowing.flatMap((where, i) => [
      op.select(`found${i}`, 'things', { where }),
      op.delete(`deleted${i}`, 'doomed', { where })
    ])
  ])
  t.equal(body.error, null, text)
  for (const [i, where] of narrowing.entries()) {
    const { [`found${i}`]: found, [`deleted${i}`]: deleted } = body.data
    t.same([found, deleted], [[], []], JSON.stringify(where))
  }
})

t.test('a row of an operation that returns no columns is an empty object', async t => {
  for (const more of [{}, { answer: 'count' }]) {
    const none = op.insert('z', 'dst', [{ n: 1 }], { returning: [], ...more })
    const values = [{ jb: '$z.0', doc: ['$z'] }]
    const { body, text } = await service.post(
      [none, op.insert('o', 'dst', values, { returning: ['jb', 'doc'] })],
      { headers: { prefer: 'tx=rollback' } }
    )
    t.same(body.data?.o, [{ jb: {}, doc: [{}] }], text)
    const read = await service.post([none, op.insert('o', 'dst', [{ n: '$z.0.n' }])])
    t.equal(read.body.error?.code, 'reference_column_missing')
  }
})

t.test('the number of references to a list is limited by its length', async t => {
  const service = await useService(t, {
    schema: `
      create table few (n int);
      insert into few select generate_series(1, 9);
      create table t (j jsonb);
      insert into t values (null);`,
    env: { MAX_ROWS: '10' }
  })
  const batch = (lists: number) => service.post([
    op.select('s', 'few'),
    op.select('between', 't'),
    op.update('u', 't', {
      set: { j: Array.from({ length: lists }, () => '$s.*.n') }, all: true, returning: []
    })
  ])
  for (const lists of [100, 111]) t.equal((await batch(lists)).status, 200)
  const { status, body } = await batch(112)
  t.match({ status, error: body.error }, {
    status: 422,
    error: {
      code: 'rows_limit',
      op: 'u',
      index: 2,
      committed: false,
      message: '"s" returned 9 rows; 112 references to lists of them are too many.'
    }
  })
})
