/**
 * Tests that `call` returns the rows of `select * from f(…)`, that JSON and references take the
 * types of the parameters, also after these have changed, and that mistakes are refused.
 */
import t from 'tap'
import { assertIssues } from '../support/issues.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'

const fails = "language plpgsql immutable as $$ begin raise 'it has run'; end $$"
const schema = `
  create type pair as (x int, y text);
  create type mood as enum ('sad', 'happy');
  create domain even as int check (value % 2 = 0);
  create table log (id int generated always as identity, note text);
  create table items (id int primary key);
  insert into items values (1), (2), (3);
  create function add(a int, b int default 10) returns int language sql as 'select a + b';
  create function many(n int) returns setof int language sql as 'select generate_series(1, n)';
  create function pairs(ps pair[]) returns setof pair language sql as 'select * from unnest(ps)';
  create function one_pair(p pair) returns pair language sql as 'select p';
  create function sum_of(v int[]) returns bigint language sql as 'select sum(x) from unnest(v) x';
  create function all_of(variadic v int[]) returns text language sql as 'select v::text';
  create function after_first(first int, variadic v text[]) returns text
    language sql as $$ select first || ':' || array_to_string(v, ',') $$;
  create function js(j jsonb) returns jsonb language sql as 'select j';
  create function text_of(t text) returns text language sql as 'select t';
  create function typed(d date, m mood, e even, n numeric) returns text
    language sql as $$ select concat_ws('|', d, m, e, n) $$;
  create function note(text text) returns void
    language sql as 'insert into log (note) values (text)';
  create function either(a int) returns text language sql as $$ select 'int' $$;
  create function either(a jsonb) returns text language sql as $$ select 'jsonb' $$;
  create function any_type(a anyelement) returns text language sql as 'select a::text';
  create function no_pair() returns pair language sql as 'select null::pair';
  create function outs(a int, out b int, out c text)
    language sql as $$ select a * 2, 'c' || a $$;
  create function rows_of(max int) returns table (id int, name text)
    language sql as $$ select i, 'r' || i from generate_series(1, max) as i $$;
  create function t(n int) returns int language sql as 'select n';
  create function "Odd Name"("a ""b" int) returns int language sql as 'select $1';
  create function private() returns int language sql as 'select 1';
  revoke execute on function private() from public;
  create procedure proc(a int) language sql as 'select 1';
  create function record_of() returns setof record language sql as 'select 1, 2';
  create function unread(v int[]) returns int language sql as 'select v[1]';
  create function target(v int[]) returns int language sql as 'select v[1]';
  create function replace_it(note text, again text) returns void
    language plpgsql security definer as $$ begin
    insert into log (note) values (note);
    execute again; end $$;
  create function fails(a int, b text default 'x') returns int ${fails};
  create function fails_all(variadic a int[]) returns int ${fails};
`

const service = await useService(t, { schema, env: { POOL_SIZE: '1', MAX_ROWS: '100' } })
const { sql } = service.database
t.beforeEach(() => sql`truncate log`)
const notes = async (): Promise<number> => (await sql`select from log`).length

/** Calls a function, twice: later calls know the types of the parameters. */
async function call (name: string, args?: object, members: object = {}): Promise<unknown> {
  const batch = [{ id: 'c', op: 'call', function: name, ...args && { args }, ...members }]
  const answers = [await service.post(batch), await service.post(batch)]
  const [first, second] = answers.map(({ body }) => body.error ?? body.data['c'])
  t.same(withoutId(first), withoutId(second), `${name}: the second call gives the same`)
  return first
}

function withoutId (answer: unknown): unknown {
  return { ...answer as object, request_id: undefined }
}

t.test('a call returns the rows of select * from f(…)', async t => {
  const rows: ReadonlyArray<readonly [name: string, args: object | undefined, query: string]> = [
    ['add', { b: 7, a: '5' }, 'add(5, 7)'],
    ['add', { a: 5, b: null }, 'add(5, null)'],
    ['many', { n: 3 }, 'many(3)'],
    ['pairs', { ps: [{ x: 1, y: 'a' }, null, { y: null }] }, "pairs('{\"(1,a)\",null,\"(,)\"}')"],
    ['one_pair', { p: { x: 2, y: '"q"' } }, "one_pair(row(2, '\"q\"'))"],
    ['no_pair', undefined, 'no_pair()'],
    ['all_of', { v: [1, 2] }, 'all_of(1, 2)'],
    ['after_first', { v: ['a', 'b'], first: 1 }, "after_first(1, 'a', 'b')"],
    ['js', { j: { a: [1, { $x: 'y' }], b: null } }, 'js(\'{"a": [1, {"$x": "y"}], "b": null}\')'],
    ['js', { j: '{"a": 1}' }, 'js(\'{"a": 1}\')'],
    ['text_of', { t: '$$order.0.id' }, "text_of('$order.0.id')"],
    ['outs', { a: 4 }, 'outs(4)'],
    ['public.t', { n: 1 }, 't(1)'],
    ['Odd Name', { 'a "b': 1 }, '"Odd Name"(1)']
  ]
  for (const [name, args, query] of rows) {
    const expected = await op.renderRows(sql, `select * from ${query}`)
    t.same(await call(name, args), JSON.parse(expected), encodeURI(query))
  }
  t.match(await call('either', { a: '5' }), { code: 'ambiguous_function' }, 'either of two')
})

t.test('rows of a call are read as those of a select', async t => {
  const read = { where: { id: { between: [3, 5] } }, columns: ['name'], limit: 1, offset: 1 }
  t.same(await call('rows_of', { max: 9 }, { ...read, order: [{ id: 'desc' }] }), [{ name: 'r4' }])
  const count = { columns: [{ fn: 'count' }] }
  t.same(await call('rows_of', { max: 9 }, count), [{ count: 9 }])
  const exists = { where: { exists: { table: 'items', on: { id: 'id' } }, id: { gt: 2 } } }
  t.same(await call('rows_of', { max: 9 }, exists), [{ id: 3, name: 'r3' }])
  t.match(await call('rows_of', { max: 3 }, { expect: 2 }), { code: 'expectation_failed' })
  t.same(
    await call('js', { j: { k: [5] } }, {
      columns: [{ column: 'js->k->0', as: 'k' }],
      where: { 'js->k': { eq: { $value: [5] } }, js: { eq: { $value: { k: [5] } } } }
    }),
    [{ k: 5 }]
  )
  const jsonNull = { where: { js: { eq: { $value: null } } } }
  t.same(await call('js', { j: 'null' }, jsonNull), [{ js: null }])
  t.same(await call('js', { j: '1' }, jsonNull), [])
  t.same(
    await call('text_of', { t: 'null' }, { where: { text_of: { eq: { $value: null } } } }),
    [], 'a text is not the JSON null'
  )
})

t.test('a function that returns nothing gives no row, and runs once', async t => {
  t.same(await call('note', { text: 'x' }, { expect: 0 }), [])
  t.same(await call('note', { text: 'y' }, { where: { note: { is: null } } }), [])
  const rows = await sql`select note from log order by id`
  t.same(rows.map(({ note }) => note as string), ['x', 'x', 'y', 'y'])
})

/** The random batches of the model refer to values, rows and JSON. */
t.test('lists of references have the type of the parameter', async t => {
  const batch = [
    op.select('i', 'items', { order: [{ id: 'asc' }] }),
    op.call('value', 'add', { a: '$i.1.id' }),
    op.call('list', 'sum_of', { v: '$i.*.id' }),
    op.call('inside', 'sum_of', { v: [40, '$value.0.add'] }),
    op.call('where', 'many', { n: 20 }, {
      where: { many: { in: '$i.*.id', gt: '$i.0.id', lt: { $value: '$value.0.add' } } }
    })
  ]
  const { body } = await service.post(batch)
  const { i: _, ...data } = body.data ?? {}
  t.same(data, {
    value: [{ add: 12 }],
    list: [{ sum_of: 6 }],
    inside: [{ sum_of: 52 }],
    where: [{ many: 2 }, { many: 3 }]
  })
})

t.test('a reference to NULL is NULL, and one to the JSON null is the JSON null', async t => {
  await sql.unsafe(`
    create table nulls (id int primary key, n int, s text, j json, b jsonb);
    insert into nulls values (1, null, null, null, null), (2, 2, 's', 'null', 'null');
    create function is_null(v json) returns text language sql as $$
      select case when v is null then 'NULL' else v::text end $$;
    create function is_null_b(v jsonb) returns text language sql as $$
      select case when v is null then 'NULL' else v::text end $$;
    create function strict_b(v jsonb) returns text language sql strict as 'select v::text';
    create function pass(v jsonb) returns jsonb language sql as 'select v'`)
  const source = op.select('s', 'nulls', { order: [{ id: 'asc' }] })
  const first = (reference: string): object => ({ $first: ['$s.7.n', reference] })
  for (const [row, column, expected] of [
    [0, 'n', 'NULL'], [0, 's', 'NULL'], [0, 'j', 'NULL'], [0, 'b', 'NULL'],
    [1, 'n', '2'], [1, 's', '"s"'], [1, 'j', 'null'], [1, 'b', 'null']
  ] as const) {
    const reference = `$s.${row}.${column}`
    for (const v of [reference, first(reference)]) {
      const { body, text } = await service.post([
        source,
        op.call('a', 'is_null', { v }),
        op.call('b', 'is_null_b', { v }),
        op.call('c', 'strict_b', { v }),
        op.call('p', 'pass', { v }),
        op.call('d', 'is_null_b', { v: '$p.0.pass' })
      ])
      const { a, b, c, d } = body.data ?? {}
      t.same([a, b, c, d], [
        [{ is_null: expected }],
        [{ is_null_b: expected }],
        [{ strict_b: expected === 'NULL' ? null : expected }],
        [{ is_null_b: expected }]
      ], `${JSON.stringify(v)} ${text}`)
    }
  }
})

t.test('a batch that replaces the function that it calls', async t => {
  const replaceAndCall = (again: string): ReturnType<typeof service.post> => service.post([
    op.call('r', 'replace_it', { note: 'x', again }),
    op.call('c', 'target', { v: [1, 2] })
  ])
  const select = "returns int language sql as 'select v[2]::int'"
  const kept = await replaceAndCall(`create or replace function target(v int[]) ${select}`)
  t.same(kept.body.data, { r: [], c: [{ target: 2 }] }, 'it has the same parameters')
  await sql`truncate log`
  const { status, body } = await replaceAndCall(
    `drop function target; create function target(v bigint[]) ${select}`
  )
  t.equal(status, 500)
  t.match(body.error, { code: 'internal', op: 'c', committed: false }, 'it has others')
  t.equal(await notes(), 0)
})

t.test('mistakes are refused', async t => {
  const refused: ReadonlyArray<
    readonly [operation: object, status: number, error: Readonly<Record<string, unknown>>]
  > = [
    [{ function: 'nope', args: { a: 1 } }, 404, {
      code: 'undefined_function',
      path: ['function'],
      message: 'function public.nope(a => unknown) does not exist'
    }],
    [{ function: 'rows_off', args: { max: 1 } }, 404, {
      code: 'undefined_function',
      path: ['function'],
      message: /^function public\.rows_off\(.*does not exist\. Did you mean "rows_of"\?$/
    }],
    [{ function: 'add', args: { z: [1] } }, 404, {
      code: 'undefined_function',
      path: ['args'],
      message: /does not exist\. A function of this name has other parameters\.$/
    }],
    [{ function: 'private' }, 403, { code: 'insufficient_privilege' }],
    [{ function: 'proc', args: { a: 1 } }, 400, { code: 'wrong_object_type' }],
    [{ function: 'record_of' }, 400, { code: 'syntax_error' }],
    [{ function: 'any_type', args: { a: 1 } }, 400, { code: 'datatype_mismatch' }],
    [{ function: 'any_type', args: { a: '$i.0.id' } }, 422, {
      code: 'value_invalid',
      message: 'Argument "a": functions of this name take it with different types, or with any ' +
        'type. Send the value itself, not a reference.'
    }],
    [{ function: 'js', args: { j: 'x' } }, 400, {
      code: 'invalid_text_representation',
      message: 'Argument "j": invalid input syntax for type json. It is read as the text of ' +
        'JSON. For a string of JSON, write "\\"apple\\"".',
      path: ['args', 'j']
    }],
    [{ function: 'many', args: { n: 101 } }, 422, { code: 'rows_limit' }]
  ]
  for (const [operation, status, error] of refused) {
    const answer = await service.post([
      op.select('i', 'items'),
      op.insert('n', 'log', [{ note: 'x' }]),
      { id: 'c', op: 'call', ...operation }
    ])
    t.equal(answer.status, status, JSON.stringify(operation))
    t.match(answer.body.error, error, JSON.stringify(operation))
  }
  const base = { id: 'c', op: 'call' }
  assertIssues(t, [
    [base, 'member_missing function'],
    [{ ...base, function: 'a.b.c' }, 'table_invalid function'],
    [{ ...base, function: 'add', arg: {} }, 'member_unknown arg'],
    [{ ...base, function: 'add', table: 't' }, 'member_invalid table'],
    [{ ...base, function: 'add', lock: 'update' }, 'member_invalid lock'],
    [{ ...base, function: 'add', args: { a: '$before.x.y' } }, 'reference_malformed args.a']
  ])
  t.equal(await notes(), 0)
})

t.test('a call that is skipped does not run its function', async t => {
  const calls: ReadonlyArray<readonly [name: string, args: object]> = [
    ['fails', { a: 1 }], ['fails', { a: '1', b: null }], ['fails_all', { a: [1, 2] }]
  ]
  for (const [name, args] of calls) {
    const batch = (rows: number): unknown => [
      op.select('found', 'items', { where: { id: { eq: 1 } } }),
      op.call('c', name, args, { when: { found: rows }, columns: ['*'] }),
      op.call('d', name, args, { when: { found: rows } })
    ]
    const skipped = await service.post(batch(0))
    t.match(skipped.body, { error: null, data: { c: null, d: null } }, name)
    const { body } = await service.post(batch(1))
    t.match(body.error, { op: 'c', sqlstate: 'P0001', message: 'it has run' }, name)
  }
  const text = op.call('c', 'typed', { d: '2020-02-03', m: 'odd', e: 4, n: '1.10' })
  t.match((await service.post([text])).body.error, { op: 'c', sqlstate: '22P02' })
})

t.test('without access to the catalogue of functions nothing is called', async t => {
  await sql.unsafe('revoke select on pg_catalog.pg_proc from public')
  const { status, body } = await service.post([
    op.insert('n', 'log', [{ note: 'x' }]), op.call('c', 'unread', { v: [1] })
  ])
  t.equal(status, 503)
  t.match(body.error, { code: 'database_unavailable', committed: false })
  t.equal(await notes(), 0)
})
