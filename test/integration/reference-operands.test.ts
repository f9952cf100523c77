/**
 * Tests that references and parameters have the effect of a literal where their type is not simply
 * that of the column: elements of JSON arrays, patterns, and operands of arithmetic and intervals.
 */
import t from 'tap'
import { differsOneByOne } from '../support/environment.ts'
import * as op from '../support/operations.ts'
import { useService, type Answer } from '../support/service.ts'

const long = 'x'.repeat(63)
const schema = `
  create domain doc as jsonb check (value <> '13');
  create type box_of as (l jsonb[]);
  create type owned as (b text[], n int);
  create table z (id int primary key, v jsonb, tx text, n numeric, span text);
  create table arrays (id int primary key, l jsonb[], jl json[], dl doc[], c box_of, n int[]);
  create table flags (id int primary key, b bool[], at timestamptz[], ch varchar(2)[],
    words text[], own owned);
  create table texts (id int primary key, nm name, ch char(4), b "char", tx text, raw bytea);
  create table counted (id int primary key, im interval minute, iv interval, price money,
    n numeric(8, 2), days daterange, dates date[]);
  create domain relation as regclass;
  create table objects (id int primary key, c regclass, t regtype, r regrole, d relation);
  insert into objects values (1, 'texts', 'int', 'postgres', 'texts'), (2, null, null, null, null);
  create type textrange as range (subtype = text, collation = "C");
  create type docrange as range (subtype = jsonb);
  create type span_of as (r textrange);
  create table spans (id int primary key, r textrange, d docrange, c span_of, cs span_of[]);
  insert into texts values
    (1, '${long}', 'ab', 'a', 'ab', 'ab'), (2, 'b', 'ab c', 'a', 'ab ', '\\x00');
  insert into counted values
    (1, '5 minutes', '2 hours', 3, 1.5, '[2026-01-01,2026-01-05)', '{2026-01-01}'),
    (2, '5 hours', '5 seconds', 4, 2.5, '[2026-02-01,2026-02-05)', '{2026-02-01}');
  create function count_of(l jsonb[]) returns text language sql as 'select l::text';`
const param = { type: 'object', properties: { v: true }, required: ['v'] }
const listParam = { type: 'object', properties: { v: { type: 'array' } }, required: ['v'] }
const named = (params: object, ...operations: object[]): object => ({ params, operations })
const where = { id: { eq: 1 } }
const service = await useService(t, {
  schema,
  env: { EXPLAIN: 'on' },
  batches: {
    element: named(param, op.insert('w', 'arrays', [{ id: 9, l: ['$params.v'] }]), readArray('l')),
    spans: named(listParam, op.insert('z', 'z', [{ id: 1, v: 5, tx: 'a' }]),
      op.insert('w', 'spans', [{
        id: 9,
        c: { r: '$params.v' },
        d: ['$z.v', 6],
        cs: [{ r: '$params.v' }, { r: ['$z.tx', 'z'] }]
      }])),
    dates: named(param,
      op.insert('z', 'z', [{ id: 1, tx: '2026-03-05' }]),
      op.update('s', 'counted', { set: { dates: ['$params.v', '$z.tx'] }, where })),
    beside: named(listParam, op.insert('z', 'z', [{ id: 1, v: 5 }]),
      op.insert('w', 'arrays', [{ id: 9, l: ['$z.v', '$params.v'] }]), readArray('l')),
    elements: named(listParam, op.insert('w', 'arrays', [{ id: 9, l: ['$params.v'] }]),
      readArray('l')),
    ...Object.fromEntries([
      ['like', { nm: { like: '$params.v' } }],
      ['like_char', { ch: { like: '$params.v' } }],
      ['like_any', { nm: { like: { any: ['$params.v'] } } }],
      ['match', { nm: { match: '$params.v' } }]
    ].map(([name, where]) => [name, named(param, op.select('s', 'texts', { where }))])),
    ...Object.fromEntries([
      ['im_eq', { im: { eq: '$params.v' } }],
      ['iv_eq', { iv: { eq: '$params.v' } }],
      ['im_in', { im: { in: ['$params.v'] } }],
      ['im_any', { im: { eq: { any: ['$params.v'] } } }]
    ].map(([name, where]) => [name, named(param, op.select('s', 'counted', { where }))])),
    object: named(param, op.select('s', 'objects', { where: { c: { eq: '$params.v' } } })),
    objects: named(listParam, op.select('s', 'objects', { where: { c: { in: '$params.v' } } })),
    days_cs: named(
      { type: 'object', properties: { v: { minItems: 1 } }, required: ['v'] },
      op.select('s', 'counted', { where: { days: { cs: '$params.v' } } })
    ),
    im_list: named(listParam, op.select('s', 'counted', { where: { im: { in: '$params.v' } } })),
    ...Object.fromEntries(['im', 'iv', 'price', 'n'].flatMap(column => ['$inc', '$mul'].map(of =>
      [`${column}_${of.slice(1)}`, named(param,
        op.update('s', 'counted', { set: { [column]: { [of]: '$params.v' } }, where }))])))
  }
})

const dryRun = { headers: { prefer: 'tx=rollback' } }
const post = (operations: readonly object[]): Promise<Answer> => service.post(operations, dryRun)
const run = (name: string, v: unknown): Promise<Answer> => service.run(name, { v }, dryRun)

function readArray (column: string): object {
  const columns = [{ column, cast: 'text', as: 'text' }]
  return op.select('r', 'arrays', { columns, where: { id: { eq: 9 } } })
}

const elementOf = ({ body }: Answer): unknown => body.error?.code ?? body.data.r[0].text

t.test('bounds of ranges and dimensions of arrays can be references', async t => {
  const z = op.insert('z', 'z', [{ id: 3, tx: '2026-03-05' }, { id: 4 }])
  const days = ['$z.0.tx', '2026-03-09']
  const rows = [
    [op.update('u', 'counted', { set: { days }, where, returning: ['days'] }),
      [{ days: '[2026-03-05,2026-03-10)' }]],
    [op.select('u', 'counted', { columns: ['id'], where: { days: { ov: days } } }), []],
    [op.insert('u', 'arrays', [{ id: 9, n: [[1, 2], '$z.*.id'] }], { returning: ['n'] }),
      [{ n: [[1, 2], [3, 4]] }]],
    [op.insert('u', 'arrays', [{ id: 9, n: ['$z.*.id', [1, 2]] }], { returning: ['n'] }),
      [{ n: [[3, 4], [1, 2]] }]]
  ] as const
  for (const [operation, expected] of rows) {
    const { text, body } = await post([z, operation])
    t.same(body.data?.['u'], expected, text)
  }
})

t.test('the bounds of a range are stored as they are', async t => {
  const texts = ['', ' a ', 'null', 'a]b,(c', String.raw`\n"\\u0041"`, 'a\n\t\u0001\u001fb', '5']
  const many = Array.from({ length: 9 }, (_, id) => ({ id: 20 + id, r: [' ', '$z.0.tx'] }))
  const cs = many.map((_, i) => ({ r: i % 2 === 0 ? ['$z.0.tx', 'z\n'] : '$z.0.v' }))
  for (const text of texts) {
    const v = [text, 'z\n']
    const z = op.insert('z', 'z', [{ id: 1, v, tx: text }])
    const { body } = await post([
      op.insert('w', 'spans', [{ id: 1, r: v }, { id: 2, r: [' ', text === '' ? ' ' : text] }]),
      z,
      op.insert('a', 'spans', [
        { id: 3, r: ['$z.0.tx', 'z\n'] }, { id: 4, r: '$z.0.v' }, { id: 5, c: { r: '$z.0.v' } },
        { id: 6, c: { r: ['$z.0.tx', 'z\n'] } }
      ]),
      ...text === '' ? [] : [op.insert('m', 'spans', many)],
      op.insert('l', 'spans', [{ id: 50, cs }])
    ])
    const [expected, second] = body.data.w
    t.same(body.data.a.map(({ r, c }: { r: string | null, c: { r: string } | null }) => r ?? c?.r),
      Array.from({ length: 4 }, () => expected.r), text)
    t.ok(body.data.m?.every(({ r }: { r: string }) => r === second.r) ?? true, text)
    t.ok(body.data.l[0].cs.every(({ r }: { r: string }) => r === expected.r), text)
    const { body: given } = await run('spans', v)
    t.same(given.data.w, [{
      id: 9, r: null, d: '[5,6]', c: { r: expected.r }, cs: [{ r: expected.r }, { r: '[a,z]' }]
    }], text)
  }
  for (const v of [null, { a: 1 }, [1]]) {
    for (const r of [['$z.0.v', 'z'], ['$z.0.v', '$z.0.v'], [['$z.0.v'], 'z']]) {
      const z = op.insert('z', 'z', [{ id: 1, v }])
      const { status, text } = await post([z, op.insert('w', 'spans', [{ id: 1, r }])])
      t.match(status, v === null ? /400|422/ : /422/, text)
    }
    const z = op.insert('z', 'z', [{ id: 1, v: [v, 'z'] }])
    const { status, text } = await post([z, op.insert('w', 'spans', [{ id: 1, r: '$z.0.v' }])])
    t.match(status, /400|422/, text)
  }
  const z = op.insert('z', 'z', [{ id: 1, v: 'a' }])
  const { body } = await post([z, op.insert('w', 'spans', [{ id: 1, d: ['$z.0.v', { b: 1 }] }])])
  t.equal(body.data.w[0].d, '["""a""","{""b"": 1}"]')
  t.equal((await run('spans', [null, 'z'])).status, 422)
})

const filled = differsOneByOne('bounds are filled in before they are written')
t.test('a reference inside of a bound is refused', filled, async t => {
  const z = op.insert('z', 'z', [{ id: 1, v: 5 }])
  for (const d of [['$z.0.v', { b: '$z.0.v' }], [{ b: '$z.0.v' }, 6], [1, ['$z.0.v']]]) {
    const { body, text } = await post([z, op.insert('w', 'spans', [{ id: 1, d }])])
    t.match(body.error, { code: 'value_invalid', path: ['values', 0, 'd'] }, text)
  }
})

t.test('a number is no operand of an array', async t => {
  const { body } = await post([op.select('s', 'counted', { where: { dates: { eq: 5 } } })])
  t.match(body.error, { code: 'value_invalid', path: ['where', 'dates', 'eq'] })
})

t.test('a JSON array is no dimension of an array of JSON', async t => {
  const z = (v: unknown): object => op.insert('z', 'z', [{ id: 1, v }, { id: 2, v: 5 }])
  const write = (column: string, value: unknown): readonly object[] =>
    [op.insert('w', 'arrays', [{ id: 9, [column]: value }]), readArray(column)]
  const many = Array.from({ length: 17 }, (_, i) => ({ id: 20 + i, l: ['$z.v'] }))
  const writes: ReadonlyArray<readonly object[]> = [
    ...['l', 'jl', 'dl'].map(column => write(column, ['$z.v'])),
    write('l', '$z.*.v'),
    write('l', ['$z.*.v']),
    write('l', [{ $first: ['$z.4.v', '$z.0.v'] }]),
    write('c', { l: ['$z.v'] }),
    [op.insert('w', 'arrays', [{ id: 9, l: [1] }, ...many]), readArray('l')],
    [
      op.insert('e', 'arrays', [{ id: 9, l: [1] }]),
      op.update('w', 'arrays', { set: { l: { $append: ['$z.v'] } }, where: { id: { eq: 9 } } }),
      readArray('l')
    ],
    [op.call('w', 'count_of', { l: ['$z.v'] })]
  ]
  for (const v of [[], [[]], ['a'], [1, 2]]) {
    for (const operations of writes) {
      const { status, body, text } = await post([z(v), ...operations])
      t.match([status, body.error?.code], [422, 'value_invalid'], `${JSON.stringify(operations)} ` +
        `${JSON.stringify(v)} ${text}`)
    }
    t.equal(elementOf(await run('element', v)), 'value_invalid')
  }
  t.equal(elementOf(await run('elements', [])), 'value_invalid')
  t.equal(elementOf(await run('elements', [[1]])), 'value_invalid')
  t.equal(elementOf(await run('elements', [1, 2])), '{{1,2}}')
  t.equal(elementOf(await run('element', { a: 1 })), String.raw`{"{\"a\": 1}"}`)
  // Behind another element it is one itself.
  for (const [v, element] of [[[], '[]'], [[[1]], '[[1]]']] as const) {
    t.equal(elementOf(await post([z(v), ...write('l', [1, '$z.v'])])), `{1,${element}}`)
    t.equal(elementOf(await post([z(v), ...write('l', ['$z.1.v', '$z.v'])])), `{5,${element}}`)
  }
  t.equal(elementOf(await post([z({ a: [] }), ...write('l', ['$z.v', []])])),
    String.raw`{"{\"a\": []}",[]}`)
  t.equal(elementOf(await post([z(3), ...write('l', '$z.*.v')])), '{3,5}')
  t.equal(elementOf(await post([z([{ a: 1 }, [2]]), ...write('l', '$z.v')])),
    String.raw`{"{\"a\": 1}",[2]}`)
  t.equal(elementOf(await post([z([[1], 2]), ...write('l', '$z.v')])), 'value_invalid')
  for (const returning of [['l'], ['l', 'id']]) {
    const from = op.insert('a', 'arrays', [{ id: 8, l: '{[1],2}' }], { returning })
    t.equal(elementOf(await post([from, ...write('c', '$a')])), 'value_invalid')
  }
  t.equal(elementOf(await post([z(3), ...write('l', ['$z.*.v'])])), '{{3,5}}')
})

t.test('an array is read into an array of another type like its elements', async t => {
  const flags = op.insert('f', 'flags', [
    { id: 1, b: [true, null, false], at: ['2026-01-01 10:00Z'], ch: '{ab,NULL, null }' }
  ])
  for (const [column, words] of [
    ['b', ['true', null, 'false']],
    ['at', ['2026-01-01T10:00:00+00:00']],
    ['ch', ['ab', null, null]]
  ] as const) {
    const insert = op.insert('w', 'flags', [{ id: 2, words: `$f.${column}` }])
    const { body, text } = await post([flags, insert])
    t.same(body.data?.w[0].words, words, text)
  }
  const of = op.insert('f', 'flags', [{ id: 1, b: [true, null] }], { returning: ['b'] })
  const { body, text } = await post([of, op.insert('w', 'flags', [{ id: 2, own: '$f' }])])
  t.same(body.data?.w[0].own, { b: ['true', null], n: null }, text)
})

const idsOf = ({ body }: Answer): unknown =>
  body.error?.code ?? body.data.s.map(({ id }: { readonly id: number }) => id)

t.test('a row is an element of an array of JSON, and a plan needs none', async t => {
  const insert = op.insert('w', 'arrays', [{ id: 9, l: ['$z'] }])
  const z = op.insert('z', 'z', [{ id: 1 }], { returning: ['id'] })
  t.equal(elementOf(await post([z, insert, readArray('l')])), '{"{\\"id\\": 1}"}')
  const list = op.insert('w', 'arrays', [{ id: 9, l: ['$z.v'] }])
  const plan = await service.post([op.select('z', 'z'), list], { headers: { prefer: 'explain' } })
  t.same(plan.body.error, null)
})

t.test('a list behind another element is one of JSON', async t => {
  t.equal(elementOf(await run('beside', [1, 2])), '{5,"[1, 2]"}')
  const rows = Array.from({ length: 17 }, (_, i) => ({ id: 9 + i, l: [5, '$z.*.n'] }))
  const z = op.insert('z', 'z', [{ id: 1, n: 1 }, { id: 2, n: 2 }])
  t.equal(elementOf(await post([z, op.insert('w', 'arrays', rows), readArray('l')])),
    '{5,"[1, 2]"}')
})

t.test('a parameter beside a reference in an array is written in its type', async t => {
  t.match((await run('dates', '2026-03-04')).body, {
    data: { s: [{ dates: ['2026-03-04', '2026-03-05'] }] }
  })
  t.match((await run('dates', '2026-03-04T10:00')).body.error, { code: 'value_invalid', op: 's' })
})

t.test('a pattern is text, whatever the type of the column', async t => {
  const like = ['like', 'ilike']
  const patterns: ReadonlyArray<
    readonly [column: string, pattern: string, ids: number[], operators?: readonly string[]]
  > = [
    ['nm', `${long}y`, [], [...like, 'match', 'imatch']],
    ['nm', 'x%', [1]],
    ['ch', 'ab  ', [1]],
    ['ch', 'ab%', [1, 2]],
    ['b', 'ab', []],
    ['tx', 'ab ', [2]],
    ['raw', 'a_', [1], ['like']]
  ]
  for (const [column, pattern, ids, operators = like] of patterns) {
    const operands = [
      pattern, '$z.tx', { $first: ['$z.3.tx', '$z.tx'] }, { any: ['$z.tx'] }, { any: [pattern] },
      { any: '$z.*.tx' }, { any: ['$z.tx', pattern] }, { all: '$z.*.tx' }
    ]
    for (const operator of operators) {
      for (const operand of operands) {
        const answer = await post([
          op.insert('z', 'z', [{ id: 1, tx: pattern }]),
          op.select('s', 'texts', { where: { [column]: { [operator]: operand } } })
        ])
        t.same(idsOf(answer), ids, `${column} ${operator} ${JSON.stringify(operand)}`)
      }
    }
  }
  for (const name of ['like', 'like_any', 'match']) t.same(idsOf(await run(name, `${long}y`)), [])
  t.same(idsOf(await run('like', 'x%')), [1])
  t.same(idsOf(await run('like_any', 'x%')), [1])
  t.same(idsOf(await run('like_char', 'ab  ')), [1])
  // Like a literal of SQL, a name is cut.
  for (const operand of [`${long}y`, '$z.tx']) {
    const answer = await post([
      op.insert('z', 'z', [{ id: 1, tx: `${long}y` }]),
      op.select('s', 'texts', { where: { nm: { eq: operand } } })
    ])
    t.same(idsOf(answer), [1])
  }
})

const newValue = ({ body, text }: Answer, column: string): unknown =>
  body.error === null ? body.data.s[0][column] : text

t.test('operands of arithmetic are numbers, and those of intervals have its fields', async t => {
  const cases: ReadonlyArray<readonly [column: string, modifier: string, result: unknown]> = [
    ['im', '$inc', '00:10:00'],
    ['im', '$dec', '00:00:00'],
    ['iv', '$inc', '02:00:05'],
    ['im', '$mul', '00:25:00'],
    ['iv', '$mul', '10:00:00'],
    ['price', '$mul', '$15.00'],
    ['price', '$inc', '$8.00'],
    ['n', '$mul', 7.5]
  ]
  for (const [column, modifier, result] of cases) {
    for (const source of ['n', 'v', 'tx']) {
      const z = op.insert('z', 'z', [{ id: 1, n: 5, v: 5, tx: '5' }])
      const reference = `$z.${source}`
      for (const operand of [5, reference, { $first: [`$z.3.${source}`, reference] }]) {
        const value = { [column]: { [modifier]: operand } }
        const set = await post([z, op.update('s', 'counted', { set: value, where })])
        t.equal(newValue(set, column), result, JSON.stringify(value))
        const keyed = (values: readonly object[]): Promise<Answer> =>
          post([z, op.update('s', 'counted', { key: ['id'], values })])
        const one = await keyed([{ id: 1, ...value }])
        t.equal(newValue(one, column), result, `with a key: ${JSON.stringify(value)}`)
        const ids = Array.from({ length: 20 }, (_, i) => i + 1)
        const many = await keyed(ids.map(id => ({ id, ...value })))
        t.equal(newValue(many, column), result, `with many keys: ${JSON.stringify(value)}`)
      }
    }
    if (modifier !== '$dec') {
      const name = `${column}_${modifier.slice(1)}`
      t.equal(newValue(await run(name, 5), column), result, `parameter: ${name}`)
    }
  }
})

t.test('a name of an object is compared as one', async t => {
  const names = { c: 'public.texts', d: 'texts', r: 'postgres', t: 'int' }
  for (const [column, name] of Object.entries(names)) {
    const operands = [
      { eq: name }, { gte: name }, { in: [name] }, { eq: { any: [name] } },
      { between: [name, `$z.0.${column}`] }, { in: [`$z.0.${column}`, name] }
    ]
    for (const operand of operands) {
      const read = op.select('z', 'objects', { where: { id: { eq: 1 } } })
      const { body, text } =
        await post([read, op.select('s', 'objects', { where: { [column]: operand } })])
      t.same(body.data?.s.map(({ id }: { id: number }) => id), [1], `${column} ${text}`)
    }
  }
  t.same(idsOf(await run('object', 'texts')), [1])
  t.same(idsOf(await run('objects', ['texts', 'texts'])), [1])
  const { body } = await post([op.select('s', 'objects', { where: { c: { like: 'te%' } } })])
  t.equal(body.error.code, 'undefined_function')
})

t.test('a number with an exponent counts seconds or money as in values', async t => {
  const operands = ['{"eq": 7.2e3}', '{"in": [72e2]}', '{"eq": {"any": [7.2e3]}}']
  for (const operand of operands) {
    const { body, text } = await service.post(
      `[{"id": "s", "op": "select", "table": "counted", "where": {"iv": ${operand}}}]`)
    t.equal(body.data?.s[0]?.id, 1, text)
  }
  const insert = '{"id": "i", "op": "insert", "table": "counted",' +
    ' "values": [{"id": 9, "iv": 72e2, "price": 1e1}]}'
  const read = '{"id": "s", "op": "select", "table": "counted", "where": {"price": {"gte": 0.5e1}}}'
  const { body } = await service.post(`[${insert}, ${read}]`, dryRun)
  t.match(body.data.s, [{ id: 9, iv: '02:00:00', price: '$10.00' }])
  t.same(idsOf(await service.run('iv_eq', '{"v": 7.2e3}')), [1])
})

t.test('values that only compare are read without the fields of the type', async t => {
  const find = (where: object): Promise<Answer> =>
    post([
      op.insert('z', 'z', [{ id: 1, n: 5, tx: '30 sec', span: '[2026-01-01T10:00,2026-01-03)' }]),
      op.select('s', 'counted', { where })
    ])
  for (const v of [5, '30 sec']) {
    const reference = v === 5 ? '$z.n' : '$z.tx'
    for (const operand of [v, reference]) {
      t.same(idsOf(await find({ im: { eq: operand } })), [])
      t.same(idsOf(await find({ im: { in: [operand] } })), [])
      t.same(idsOf(await find({ im: { eq: { any: [operand] } } })), [])
    }
    for (const name of ['im_eq', 'im_in', 'im_any']) t.same(idsOf(await run(name, v)), [], name)
    t.same(idsOf(await run('im_list', [v])), [])
  }
  for (const name of ['im_eq', 'im_in', 'im_any']) t.same(idsOf(await run(name, '300')), [1], name)
  for (const operand of ['[2026-01-01T10:00,2026-01-03)', '$z.span']) {
    for (const operator of ['cs', 'eq', 'ov']) {
      const ids = operator === 'eq' ? [] : [1]
      t.same(idsOf(await find({ days: { [operator]: operand } })), ids, `${operator} ${operand}`)
    }
  }
  t.same(idsOf(await find({ dates: { cs: '{2026-02-01T10:00}' } })), [2])
  t.same(idsOf(await run('days_cs', '[2026-01-01T10:00,2026-01-03)')), [1])
})
