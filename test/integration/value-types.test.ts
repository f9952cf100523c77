/**
 * Tests that JSON values fit the type of their column or are rejected. The error names the
 * operation, the column and the member, and nothing is changed.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { useService, type Answer } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'

const seeds = `
  insert into t (id, kind, tags, ints, data, plain, document, day, price, docs) values
    (1, 'x', '{a}', '{1,2}', '{"a": 1, "n": null}', '{"a":1}', '{}', '2024-02-28', '(5,EUR)', null),
    (2, '[draft]', null, null, '[1]', null, null, null, null, null),
    (3, 'z', '{}', '{}', 'null', 'null', 'null', null, null, '{"{\\"a\\":1}",2}')`
const schema = `
  create type money_amount as (amount numeric, curr char(3));
  create type entry as (sku text, price money_amount, tags text[]);
  create domain document as jsonb;
  create domain paid as money_amount;
  create table t (
    id int primary key, price money_amount, paid paid, entries entry[], kind text, name varchar(50),
    n int, day date, tags text[], ints int[], docs json[], data jsonb, plain json,
    document document, span int4range, prices money_amount[], datas jsonb[], route path
  );
  ${seeds};
  create extension hstore;
  create table bags (id int primary key, bag hstore, doc jsonb);
  insert into bags values (1, 'k=>1', '{"k": "1"}'), (2, 'k=>2', null);
  create table boxes (id int, box box);
  insert into boxes values (1, '(1,1),(0,0)'), (2, '(2,2),(0,0)'), (3, '(3,3),(0,0)');`

const source = op.select('src', 't', { where: { id: { lte: 3 } }, order: [{ id: 'asc' }] })
/** Two of its rows, and columns that are computed in another type. */
const pair = op.select('pair', 't', {
  where: { id: { lte: 2 } },
  order: [{ id: 'asc' }],
  columns: ['id', 'data', { column: 'ints', cast: 'text', as: 'text' }, 'data->a']
})
const service = await useService(t, { schema })
const { post, database: { sql } } = service
const stored = async (): Promise<unknown> => sql`select t::text from t order by id`
const reset = (): Promise<unknown> => sql.unsafe(`truncate t; ${seeds}`)
t.beforeEach(reset)
let id = 100

/** Operations that write `value`: inserts, an update and an insert with on_conflict. */
function * writesOf (
  column: string,
  value: unknown
): Generator<{ readonly op: object, readonly way: string, readonly path: readonly unknown[] }> {
  yield {
    way: 'insert', path: ['values', 0], op: op.insert('w', 't', [{ id: ++id, [column]: value }])
  }
  yield {
    way: 'rows',
    path: ['values', 1],
    op: op.insert('w', 't', [{ id: ++id }, { id: ++id, [column]: value }])
  }
  yield {
    way: 'set',
    path: ['set'],
    op: op.update('w', 't', { set: { [column]: value }, where: { id: { eq: 1 } } })
  }
  yield {
    way: 'on_conflict',
    path: ['on_conflict', 'set'],
    op: op.insert('w', 't', [{ id: 1 }], {
      on_conflict: { columns: ['id'], do: 'update', set: { [column]: value } }
    })
  }
}

function expectRejection (t: Test, response: Answer, message: RegExp, what: string): void {
  t.match(response, failed(422, 'value_invalid', {
    type: 'execution_error',
    committed: false,
    retryable: false,
    op: 'w',
    message
  }), `${what} ${response.text}`)
  const { path, errors } = response.body.error
  t.match(errors, [{ op: 'w', code: 'value_invalid', path: [], message }])
  t.strictSame(errors[0].path, path)
}

t.test('an unknown member of a composite type is rejected', async t => {
  const before = await stored()
  const cases: ReadonlyArray<readonly [column: string, value: unknown, message: RegExp]> = [
    ['price', { amount: 5, cur: 'EUR' },
      /column "price": the type money_amount has no member "cur"\.$/i],
    ['entries', [{ sku: 'a' }, { sku: 'b', price: { amount: 1, 'it\'s "x"': 1 } }],
      /column "entries", at 1\.price: the type money_amount has no member "it's "x""\.$/i],
    ['price', '$src.0', /column "price": the type money_amount takes no value of the type of this/i],
    ['price', '$src.0.data', /column "price": the type money_amount takes no JSON/i],
    ['price', '$src.*.price', /column "price": the type money_amount takes no value of the type/i],
    ['prices', '$src.0.entries', /column "prices": the type money_amount\[\] takes no value of/i],
    ['ints', '$src.*.ints', /column "ints": the type integer takes one value, not an array/i],
    ['ints', '$pair.0.a', /column "ints": the type integer\[\] takes an array\.$/i]
  ]
  for (const [column, value, message] of cases) {
    for (const { way, op } of writesOf(column, value)) {
      expectRejection(t, await post([source, pair, op]), message, `${way} ${column}`)
    }
  }
  const response = await post([source, [...writesOf('price', { cur: 1 })][1]?.op])
  t.match(response.body.error.message, /^Row 1 of values, column "price": /)
  const many = Array.from({ length: 17 }, (_, i) => ({ id: 100 + i, price: '$src.0.entries' }))
  const rows = await post([source, op.insert('w', 't', many)])
  expectRejection(t, rows, /^Row 0 of values, column "price": /, 'the same in all rows')
  t.strictSame(rows.body.error.path, ['values', 0, 'price'])
  const member = await post([source, op.insert('w', 't', [
    { id: ++id, entries: [{ sku: 'a' }, { sku: '$src.0.data' }] }
  ])])
  const message = /column "entries", at 1\.sku: the type text takes one value/i
  expectRejection(t, member, message, 'member')
  t.strictSame(member.body.error.path, ['values', 0, 'entries', 1, 'sku'])
  const where = { price: { eq: { $value: { amount: 5, currency: 'EUR' } } } }
  expectRejection(
    t, await post([op.delete('w', 't', { where })]),
    /^Column "price": the type money_amount has no member "currency"\.$/, 'a filter'
  )
  t.same(await stored(), before)
})

t.test('an array or an object is rejected for a scalar column', async t => {
  const before = await stored()
  const values = [[1, [2]], '$src.*.id', '$src.0', '$src.0.ints', '$src.0.data']
  for (const [column, type] of [['kind', 'text'], ['name', 'character varying(50)']] as const) {
    const message = new RegExp(RegExp.escape(
      `olumn "${column}": the type ${type} takes one value, not an array`
    ))
    for (const value of values) {
      for (const { way, op, path } of writesOf(column, value)) {
        const answer = await post([source, op])
        expectRejection(t, answer, message, `${way} ${JSON.stringify(value)}`)
        t.strictSame(answer.body.error.path, [...path, column])
      }
    }
  }
  const compared: ReadonlyArray<readonly [operation: object, ...path: unknown[]]> = [
    [op.delete('w', 't', { where: { day: { eq: '$src.0.data' } } }), 'where', 'day', 'eq'],
    [op.delete('w', 't', { where: { datas: { cs: ['$src.1.data'] } } }), 'where', 'datas', 'cs', 0],
    [op.update('w', 't', { key: ['day'], values: [{ day: '$src.0.data', kind: 'x' }] }),
      'values', 0, 'day']
  ]
  for (const [operation, ...path] of compared) {
    const answer = await post([source, operation])
    expectRejection(t, answer, /olumn "(day|datas)"/, JSON.stringify(operation))
    t.strictSame(answer.body.error.path, path)
  }
  for (const value of [['a', { b: 1 }], '$src.*.data', ['x', '$src.0.data']]) {
    for (const { way, op } of writesOf('tags', value)) {
      expectRejection(
        t, await post([source, op]), /column "tags", at [01]: the type text takes one value/i,
        `${way} ${JSON.stringify(value)}`
      )
    }
  }
  const append = op.update('w', 't', {
    set: { tags: { $append: [{ a: 1 }] } }, where: { id: { eq: 1 } }
  })
  expectRejection(t, await post([append]), /^Column "tags", at 0: /, '$append')
  const filter = op.delete('w', 't', { where: { kind: { neq: '$src.0' } } })
  expectRejection(t, await post([source, filter]), /^Column "kind": /, 'a filter')
  t.same(await stored(), before)
})

t.test('ranges, arrays, composite types and JSON accept fitting references', async t => {
  const cases: ReadonlyArray<readonly [column: string, value: unknown, text: string | null]> = [
    ['span', '$src.0.ints', '[1,3)'],
    ['route', '$src.0.ints', '[(1,2)]'],
    ['route', '$pair.*.id', '[(1,2)]'],
    ['ints', ['$pair.*.id', [3, '$src.0.id']], '{{1,2},{3,1}}'],
    ['ints', '$pair.0.text', '{1,2}'],
    ['kind', '$pair.0.text', '{1,2}'],
    ['docs', [{ a: 1 }, [1]], '{"{\\"a\\":1}",[1]}'],
    ['docs', '$src.2.docs', '{"{\\"a\\":1}",2}'],
    ['datas', '$src.2.docs', '{"{\\"a\\": 1}",2}'],
    ['datas', '$pair.*.data', '{"{\\"a\\": 1, \\"n\\": null}",[1]}'],
    ['paid', { curr: 'EUR' }, '(,EUR)']
  ]
  for (const [column, value, text] of cases) {
    for (const { way, op } of writesOf(column, value)) {
      const { body, text: answer } = await post([source, pair, { ...op, returning: ['id'] }])
      t.equal(body.error, null, answer)
      const written = body.data?.w.at(-1).id as number
      t.same(
        await sql.unsafe(`select "${column}"::text as text from t where id = ${written}`),
        [{ text }], `${way} ${column} ${JSON.stringify(value)}`
      )
    }
    await reset()
  }
})

t.test('a list of references compares with each referenced value', async t => {
  await sql.unsafe(`
    create table lists (id int primary key, data jsonb, ints int[], n int);
    insert into lists values (1, '[]', '{}', 1), (2, '[1, 2]', '{1,2}', 2), (3, '1', null, 3),
      (4, '{"a": [1]}', null, null), (5, '{"a": 1}', null, 5), (6, null, null, 6)`)
  const read = (...ids: readonly number[]): object => op.select('src', 'lists', {
    where: { id: { in: ids } }, order: [{ id: 'asc' }], columns: ['data', 'ints', 'n', 'data->a']
  })
  const idsOf = async (ids: readonly number[], where: object): Promise<unknown> =>
    (await post(
      [read(...ids), op.select('s', 'lists', { where, columns: ['id'], order: [{ id: 'asc' }] })]
    )).body.data?.s.map(({ id }: { id: number }) => id)
  t.same(await idsOf([1], { data: { in: '$src.*.data' } }), [1])
  t.same(await idsOf([2], { data: { in: ['$src.0.data'] } }), [2])
  t.same(await idsOf([1, 2, 3, 6], { data: { in: '$src.*.data' } }), [1, 2, 3])
  t.same(await idsOf([4, 5], { data: { eq: { any: '$src.*.data' } } }), [4, 5])
  t.same(await idsOf([4, 6], { 'data->a': { nin: '$src.*.a' } }), [], 'the list contains NULL')
  t.same(await idsOf([2, 4], { 'data->>a': { in: '$src.*.a' } }), [4], 'as text')
  t.same(
    (await post(
      [read(1), op.select('s', 't', { where: { kind: { in: '$src.*.ints' } } })]
    )).body.data?.s,
    [],
    'an array does not equal a text'
  )
})

t.test('JSON null and NULL are different values', async t => {
  const row = async (id: number): Promise<unknown> =>
    (await sql.unsafe(
      `select data::text, plain::text, document::text, kind, n from t where id = ${id}`
    ))[0]
  const change = (set: object): object => op.update('u', 't', { set, where: { id: { eq: 2 } } })
  t.equal(
    (await post([change({
      data: { $value: null },
      plain: { $value: null },
      document: { $value: null },
      kind: { $value: null },
      n: { $value: null }
    })])).status,
    200
  )
  t.same(await row(2), { data: 'null', plain: 'null', document: 'null', kind: null, n: null })
  t.equal((await post([change({ data: null, plain: null, document: null })])).status, 200)
  t.same(await row(2), { data: null, plain: null, document: null, kind: null, n: null })

  const copies = {
    data: '$src.2.data',
    plain: '$src.2.data',
    document: '$src.2.document',
    kind: '$src.2.data',
    n: '$src.2.data'
  }
  t.equal((await post([source, change(copies)])).status, 200)
  t.same(await row(2), { data: 'null', plain: 'null', document: 'null', kind: null, n: null })
  const idsOf = async (where: object): Promise<unknown> =>
    (await post(
      [source, op.select('s', 't', { where, columns: ['id'], order: [{ id: 'asc' }] })]
    )).body.data?.s.map(({ id }: { id: number }) => id)
  await sql`update t set data = null where id = 2`
  t.same(
    (await post([source, op.select('s', 't', { where: { data: { eq: '$src.2.data' } } })])).body
      .data?.s,
    [],
    'a reference to JSON null counts as NULL'
  )
  t.same(await idsOf({ 'data->n': { eq: { $value: null } } }), [1])
  t.same(await idsOf({ data: { eq: { $value: null } } }), [3])
  t.same(await idsOf({ document: { neq: { $value: null } } }), [1])
  t.same(await idsOf({ data: { isdistinct: { $value: null } } }), [1, 2])
  t.same(await idsOf({ data: { cs: { $value: null } } }), [3])
  const eq = (where: object): object => op.delete('w', 't', { where })
  expectRejection(
    t, await post([eq({ kind: { neq: { $value: null } } })]),
    /^Column "kind": only json and jsonb can hold the JSON null/, 'text'
  )

  t.match(await post([eq({ 'data->>n': { eq: { $value: null } } })]), {
    status: 422,
    body: {
      error: { errors: [{ code: 'operand_invalid', path: ['where', 'data->>n', 'eq', '$value'] }] }
    }
  })
})

t.test('$append takes elements; $inc and $dec count days', async t => {
  const change = (set: object, id = 1): object =>
    op.update('w', 't', { set, where: { id: { eq: id } }, returning: Object.keys(set) })
  const works: ReadonlyArray<readonly [set: object, id: number, row: object]> = [
    [{ docs: { $append: [{ a: 1 }] } }, 1, { docs: [{ a: 1 }] }],
    [{ day: { $inc: 3 } }, 1, { day: '2024-03-02' }],
    [{ day: { $dec: 2 } }, 1, { day: '2024-02-29' }],
    [{ day: { $inc: '$src.0.id' } }, 1, { day: '2024-03-01' }]
  ]
  for (const [set, id, row] of works) {
    const { body } = await post([source, change(set, id)])
    t.strictSame(body.data?.w, [row], JSON.stringify(set))
  }
  expectRejection(
    t, await post([change({ day: { $inc: 1.5 } })]),
    /^Column "day": integer holds no digits after the point\.$/, 'a part of a day'
  )
})

t.test('references to system columns keep their type', async t => {
  const first = op.select('f', 't', {
    columns: ['id', 'ctid', 'xmin', 'tableoid'], order: [{ id: 'asc' }], limit: 2
  })
  const filters = [
    { ctid: { eq: '$f.1.ctid' } },
    { ctid: { in: ['$f.1.ctid'] } },
    { xmin: { eq: '$f.1.xmin' }, id: { eq: 2 } },
    { tableoid: { in: '$f.*.tableoid' }, id: { eq: 2 } }
  ]
  for (const where of filters) {
    const { body } = await post(
      [first, op.update('s', 't', { set: { n: 1 }, where, returning: ['id'] })]
    )
    t.strictSame(body.data?.s, [{ id: 2 }], JSON.stringify(where))
  }
})

t.test('an hstore takes no list and no JSON of an earlier operation', async t => {
  const bags = op.select('s', 'bags', { order: [{ id: 'asc' }] })
  const where = { id: { eq: 1 } }
  for (const bag of ['$s.0.doc', '$s.*.bag']) {
    for (const operation of [
      op.insert('w', 'bags', [{ id: 9, bag }]),
      op.insert('w', 'bags', undefined, { from: { table: 'bags' }, columns: { id: 9, bag } }),
      op.update('w', 'bags', { set: { bag }, where }),
      op.update('w', 'bags', { key: ['id'], values: [{ id: 1, bag }] })
    ]) {
      const { status, body, text } = await post([bags, operation])
      t.match({ status, ...body.error }, { status: 422, code: 'value_invalid', op: 'w' }, text)
    }
  }
  const { body } = await post([
    bags, op.update('json', 'bags', { set: { doc: '$s.1.bag' }, where, returning: ['doc'] })
  ])
  t.strictSame(body.data?.json, [{ doc: { k: '2' } }])
})

t.test('lists of boxes are separated as PostgreSQL separates them', async t => {
  const some = ['(1,1),(0,0)', '(3,3),(0,0)']
  const { body, text } = await post([
    op.select('s', 'boxes', { where: { id: { eq: 2 } } }),
    op.select('in', 'boxes', { where: { box: { in: some } }, columns: ['id'] }),
    op.select('any', 'boxes', { where: { box: { eq: { any: some } } }, columns: ['id'] }),
    op.select('both', 'boxes', { where: { box: { in: [...some, '$s.0.box'] } }, columns: ['id'] })
  ])
  const { in: listed, any, both } = body.data ?? {}
  t.same([listed, any, both], [
    [{ id: 1 }, { id: 3 }], [{ id: 1 }, { id: 3 }], [{ id: 1 }, { id: 2 }, { id: 3 }]
  ], text)
})
