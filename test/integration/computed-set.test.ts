/**
 * Tests computed values in `set` of an update and of on_conflict, for types and operands that the
 * random batches of the model do not have.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { differsOneByOne } from '../support/environment.ts'
import { useService } from '../support/service.ts'

/** Types that support neither `$append` nor `$merge`, with and without an operator ||. */
const unsupported = [
  'int', 'numeric', 'date', 'interval', 'timestamptz', 'bool', 'uuid', 'xml', 'inet', 'money',
  'box', 'point', 'json', 'int4range', 'int4multirange', 'kind', 'pair', 'whole', 'regclass',
  '"char"', 'text', 'varchar(5)', 'char(3)', 'name', 'bytea', 'bit(3)', 'varbit', 'tsvector',
  'tsquery'
]

/** Values that $merge takes, or not. */
const merged = [null, '{"a": 1}', '[1]', '"text"', 'null']
  .map(value => value === null ? 'null' : `'${value}'`)

const schema = `
  create table src (id int primary key, num numeric, word text, nothing int);
  insert into src values (5, 12345678901234567890.1234567890, 'word', null);
  create table n (k int primary key, tz timestamptz default now(), ts timestamp, d date,
    other timestamptz);
  create function public.now() returns timestamptz language sql as $$
    select '1999-01-01Z'::timestamptz $$;
  insert into n values (1, '2000-01-01'), (2, '2000-01-01');
  create table kept (k int primary key, j jsonb);
  create table given (k int primary key, j jsonb);
  insert into kept select k, (array[${merged.join()}]::jsonb[])[k + 1] from generate_series(0, 4) k;
  insert into given select k, jsonb_set(j, '{a}', '2', false) from kept where k < 2
    union all select k, j from kept where k > 1;
  create type kind as enum ('a'); create type pair as (a int, b text); create domain whole as int;
  create table wide (
    "a 𝄞""b" int, ${unsupported.map((type, i) => `c${i} ${type}`).join()}, list int[]);
  insert into wide default values;
  create domain ids as int[] check (array_length(value, 1) < 4);
  create domain money2 as numeric(6, 2) check (value < 1000);
  create domain note as jsonb check (value <> '{}');
  create type mood as enum ('happy', 'sad');
  create table d (k int primary key, gone int, ids ids, m money2, note note, moods mood[],
    v varchar(3), vs varchar(3)[], c char(3), n numeric(4, 2)[], p pair, ps pair[], i2 int2,
    i4 int default 42, i8 int8, num numeric, f8 float8, txt text, j jsonb, js json, grid int[],
    tarr text[], empty int[], gen int generated always as (k * 2) stored);
  alter table d drop column gone;
  insert into d values (1, '{1}', 10.00, '{"a": 1}', '{sad}', 'abc', '{abc}', 'abc', '{1.00}',
    '(1,x)', '{"(1,x)"}', 10, 20, 30, 1.50, 1e300, 'one',
    '{"name": "n", "inner": {"q": [1, 2]}, "word": 0}', '{"a":{"c" : 1,"b":2,"b":3}}', '{{1,2}}',
    '{a}');
  grant all on all tables in schema public to oneflight_user;
  create table p (k int primary key, n int default 9, secret int); insert into p values (1, 1, 1);
  grant update, select (n) on p to oneflight_user;
`
/** The first operation of every batch, so that `set` can refer to it. */
const source = op.select('src', 'src')

const service = await useService(t, { schema })
const { sql } = service.database
t.test('$now is the start time of the transaction in every operation', async t => {
  const { body, text } = await service.post([
    op.insert('i', 'n', [{ k: 3 }]),
    op.update('u', 'n', {
      set: { tz: { $now: true }, ts: { $now: true }, d: { $now: true }, other: { $col: 'tz' } },
      where: { k: { eq: 1 } }
    }),
    op.insert('c', 'n', [{ k: 2 }], {
      on_conflict: { columns: ['k'], do: 'update', set: { tz: { $now: true } } }
    })
  ])
  const now = body.data?.i?.[0]?.tz as string
  t.match(now, /^20.*\+00:00$/, text)
  t.same(body.data.u, [{
    k: 1,
    tz: now,
    ts: now.replace('+00:00', ''),
    d: now.slice(0, 10),
    other: '2000-01-01T00:00:00+00:00'
  }])
  t.equal(body.data.c[0].tz, now)
})

const jsonNull = differsOneByOne('the JSON null of an earlier row is NULL')
t.test('$merge takes objects and treats NULL as an empty object', jsonNull, async t => {
  const given = op.select('given', 'given', { order: [{ k: 'asc' }] })
  const operands = [...[0, 1, 2, 3, 4].map(row => `$given.${row}.j`), '$given.1', { b: 1 }]
  for (const k of [0, 1, 2, 3, 4]) {
    for (const [row, operand] of operands.entries()) {
      const { status, body, text } = await service.post(
        [given, op.update('o', 'kept', {
          set: { j: { $merge: operand } }, where: { k: { eq: k } }, returning: ['j']
        })],
        { headers: { prefer: 'tx=rollback' } }
      )
      const name = encodeURI(`${k} ${JSON.stringify(operand)} ${text}`)
      if (k > 1 || (row > 1 && row < 5)) {
        const error = { code: 'value_invalid', op: 'o', message: /^Column "j": \$merge needs/ }
        t.match({ status, ...body.error }, { status: 422, ...error }, name)
        continue
      }
      const members = [{}, { a: 2 }, {}, {}, {}, { k: 1, j: { a: 2 } }, { b: 1 }][row]
      t.same(body.data?.o, [{ j: { ...k === 1 ? { a: 1 } : {}, ...members } }], name)
    }
  }
})

t.test('$merge and $append reject unsupported types and name the column', async t => {
  const given = op.select('given', 'given', { order: [{ k: 'asc' }] })
  const scalars = ['a 𝄞"b', ...unsupported.map((_, i) => `c${i}`)]
  const cases = [
    ['$merge', [...scalars, 'list'], [{ a: 1 }, '$given.0.j', '$given.1.j']],
    ['$append', scalars, [[1], '$given.0.j', '$given.2.j']]
  ] as const
  for (const [modifier, columns, operands] of cases) {
    for (const [i, column] of columns.entries()) {
      for (const operand of operands) {
        const set = { [column]: { [modifier]: operand } }
        const { status, body } = await service.post(
          [given, op.update('o', 'wide', { set, all: true })]
        )
        t.match({ status, ...body.error }, {
          status: 422, code: 'value_invalid', message: `Column "${column}": ${modifier} needs`
        }, encodeURI(`${modifier} ${unsupported[i - 1]} ${JSON.stringify(operand)}`))
      }
    }
  }
})

t.test('a role needs SELECT only on the columns that are read', async t => {
  const rows: ReadonlyArray<readonly [set: unknown, status: number]> = [
    [{ n: { $inc: 1 } }, 200],
    [{ secret: { $col: 'n' } }, 200],
    [{ secret: 5, n: { $default: true } }, 200],
    [{ secret: { $inc: 1 } }, 403],
    [{ n: { $col: 'secret' } }, 403]
  ]
  for (const [set, status] of rows) {
    const response = await service.post([op.update('o', 'p', { set, all: true, returning: [] })])
    t.equal(response.status, status, encodeURI(`${JSON.stringify(set)} ${response.text}`))
  }
  t.same(await sql`select * from p`, [{ k: 1, n: 9, secret: 5 }])
})

t.test('each change gives these values, or is refused', async t => {
  const rows: ReadonlyArray<
    readonly [set: Record<string, unknown>, result: Record<string, unknown> | string]
  > = [
    [{
      ids: { $append: [2, 3] },
      m: { $inc: 0.5 },
      note: { $merge: { b: 2 } },
      moods: { $append: ['happy'] }
    }, { ids: [1, 2, 3], m: 10.5, note: { a: 1, b: 2 }, moods: ['sad', 'happy'] }],
    [{ ids: { $append: [2, 3, 4] } }, 'check_violation'],
    [{ m: { $mul: 100 } }, 'check_violation'],
    [{ note: { $remove: 'a' } }, 'check_violation'],
    [{ vs: { $append: ['abcd'] } }, 'value_invalid'],
    [{ v: 'abcd' }, 'value_invalid'],
    [{ n: { $append: [2.005, 3] } }, 'value_invalid'],
    [{ n: { $append: [100] } }, 'numeric_value_out_of_range'],
    [{ p: { a: 5 }, ps: { $append: [{ a: 2, b: 'y' }] } }, {
      p: { a: 5, b: null }, ps: [{ a: 1, b: 'x' }, { a: 2, b: 'y' }]
    }],
    [{ c: { $col: 'v' }, v: { $col: 'c' } }, { c: 'abc', v: 'abc' }],
    [{ f8: { $mul: 1e-320 } }, { f8: 1e300 * 1e-320 }],
    [{ i8: { $col: 'i4' }, i4: { $col: 'i8' }, num: { $col: 'i2' }, txt: { $col: 'num' } },
      { i8: 20, i4: 30, num: 10, txt: '1.50' }],
    [{ txt: { $col: 'j->>name' }, j: { $col: 'j->inner->q' }, v: { $col: 'j->inner->q->>1' } },
      { txt: 'n', j: [1, 2], v: '2' }],
    [{ js: { $col: 'js->a' }, txt: { $col: 'js->a' } },
      { js: { c: 1, b: 3 }, txt: '{"c" : 1,"b":2,"b":3}' }],
    [{ j: { $merge: { inner: {}, deep: ['$src.0.id', '$src.0.nothing'], raw: '$$src.0.id' } } },
      { j: { name: 'n', inner: {}, word: 0, deep: [5, null], raw: '$src.0.id' } }],
    [{ j: { $remove: '$src.0.word' } }, { j: { name: 'n', inner: { q: [1, 2] } } }],
    [{ empty: { $append: [3, null, '$src.0.id', '$src.nothing', '4'] } },
      { empty: [3, null, 5, null, 4] }],
    [{ grid: { $append: [[3, 4], [5, 6]] } }, { grid: [[1, 2], [3, 4], [5, 6]] }],
    [{ grid: { $append: [3, 4] } }, { grid: [[1, 2], [3, 4]] }],
    [{ tarr: { $append: ['b,c', '{}', '"\\', 'NULL', '', '$src.0.word', '$$src.0.word'] } },
      { tarr: ['a', 'b,c', '{}', '"\\', 'NULL', '', 'word', '$src.0.word'] }],
    [{ i4: { $default: true }, gen: { $default: true } }, { i4: 42, gen: 2 }],
    [{ i4: { $inc: 2147483647 } }, 'numeric_value_out_of_range'],
    [{ m: { $inc: 0.004 } }, 'value_invalid'],
    // jsonb - text would remove a key.
    [{ j: { $dec: 1 } }, 'undefined_function'],
    [{ j: { $now: true } }, 'datatype_mismatch'],
    [{ grid: { $append: [1.5] } }, 'value_invalid'],
    [{ grid: { $remove: '1' } }, 'undefined_function'],
    [{ gen: { $inc: 1 } }, 'generated_always']
  ]
  for (const [set, result] of rows) {
    const operations = [
      { op: 'update', set, where: { k: { eq: 1 } } },
      { op: 'insert', values: [{ k: 1 }], on_conflict: { columns: ['k'], do: 'update', set } }
    ]
    for (const operation of operations) {
      const { body, text } = await service.post(
        [source, { id: 'o', table: 'd', ...operation, returning: Object.keys(set) }],
        { headers: { prefer: 'tx=rollback' } }
      )
      if (typeof result === 'string') {
        t.equal(body.error?.code, result, encodeURI(`${JSON.stringify(operation)} ${text}`))
      } else {
        t.strictSame(body.data?.o, [result], encodeURI(`${JSON.stringify(operation)} ${text}`))
      }
    }
  }
})
