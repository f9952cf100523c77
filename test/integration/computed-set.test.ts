/**
 * Tests computed values in `set` of an update and of on_conflict. Each is compared with the same
 * change in handwritten SQL on a second table, the twin.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { differsOneByOne } from '../support/environment.ts'
import { useService, type Answer } from '../support/service.ts'

const columns = `
  k int primary key, i2 int2, i4 int, i8 int8, num numeric, n62 numeric(6, 2), f8 float8, txt text,
  key text, j jsonb, js json, arr int[], grid int[], tarr text[], w int default 42,
  gen int generated always as (k * 2) stored`
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
  create table t (${columns});
  create table twin (${columns});
  create table src (id int, num numeric, word text, nothing int, j jsonb);
  insert into src values (5, 12345678901234567890.1234567890, 'word', null,
    '{"a": {"z": 1.10}, "new": null}');
  insert into src values (6);
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
    v varchar(3), vs varchar(3)[], c char(3), n numeric(4, 2)[], p pair, ps pair[]);
  alter table d drop column gone;
  insert into d values (1, '{1}', 10.00, '{"a": 1}', '{sad}', 'abc', '{abc}', 'abc', '{1.00}',
    '(1,x)', '{"(1,x)"}');
  grant all on all tables in schema public to oneflight_user;
  create table p (k int primary key, n int default 9, secret int); insert into p values (1, 1, 1);
  grant update, select (n) on p to oneflight_user;
`
const names = 'k, i2, i4, i8, num, n62, f8, txt, key, j, js, arr, grid, tarr, w'
const seeds = `
  truncate t, twin;
  insert into t (${names}) values
    (1, 10, 20, 30, 12345678901234567890.1234567890, 100.00, 0.1, 'one', 's',
      '{"a": 1, "name": "n", "inner": {"q": [1, 2]}, "5": 1, "word": 0}',
      '{"a":{"c" : 1,"b":2,"b":3}}', '{1,2}',
      '{{1,2}}', '{a}', 1),
    (3, -1, 0, -30, -0.50, -0.01, 1e300, '', '', '["a", "word", "5"]', '[]', '{}', '{}', '{}',
      null);
  insert into t (k) values (2);
  insert into t (k, w, j) values (4, null, 'null');
  insert into twin (${names}) select ${names} from t`

/** The first operation of every batch, so that `set` can refer to it. */
const source = '{"id":"src","op":"select","table":"src","order":[{"id":"asc"}]}'

/** [set, the same change in SQL where x is the existing row]: run as update and as on_conflict. */
const changes: ReadonlyArray<readonly [set: string, sql: string]> = [
  ['{"f8":{"$mul":1e-320}}', 'f8 = x.f8 * 1e-320::float8'],
  ['{"w":{"$default":true},"i4":{"$default":true},"gen":{"$default":true}}',
    'w = default, i4 = default, gen = default'],
  ['{"i8":{"$col":"i4"},"i4":{"$col":"i8"},"num":{"$col":"i2"},"txt":{"$col":"num"}}',
    'i8 = x.i4, i4 = x.i8, num = x.i2, txt = x.num'],
  [
    '{"txt":{"$col":"j->>name"},"j":{"$col":"j->inner->q"},"key":{"$col":"j->inner->q->>1"}}',
    "txt = x.j->>'name', j = x.j->'inner'->'q', key = x.j->'inner'->'q'->>1"],
  ['{"js":{"$col":"js->a"},"txt":{"$col":"js->a"}}', "js = x.js->'a', txt = x.js->'a'"],
  ['{"j":{"$merge":{"a":{"b":1},"n":1.10,"big":12345678901234567890.1234567890,"z":null,"":-0}}}',
    'j = coalesce(x.j, $$ {}$$) || $$ ' +
    '{"a":{"b":1},"n":1.10,"big":12345678901234567890.1234567890,"z":null,"":-0}$$'],
  [
    '{"j":{"$merge":{"ref":"$src.0.num","deep":[{"x":"$src.1.id"},"$src.0.nothing"],' +
    '"raw":"$$src.0.num","obj":"$src.0.j"}}}',
    'j = coalesce(x.j, $$ {}$$) || $$ ' +
    '{"ref":12345678901234567890.1234567890,"deep":[{"x":6},null],"raw":"$src.0.num","obj":{"a": ' +
    '{"z": 1.10}, "new": null}}$$'],
  ['{"j":{"$append":[1,{"a":1.10},[2],null,"$src.0.id","$src.0.nothing","$$src"]}}',
    'j = coalesce(x.j, $$[]$$) || $$[1,{"a":1.10},[2],null,5,null,"$src"]$$'],
  ['{"arr":{"$append":[3,null,"$src.0.id","$src.nothing","4"]}}',
    "arr = coalesce(x.arr, '{}') || '{3,null,5,null,4}'::int[]"],
  ['{"grid":{"$append":[[3,4],[5,6]]}}', "grid = coalesce(x.grid, '{}') || '{{3,4},{5,6}}'::int[]"],
  ['{"tarr":{"$append":["b,c","{}","\\"\\\\","NULL","","$src.0.word","$$src.0.word"]}}',
    "tarr = coalesce(x.tarr, $$ {}$$) || array['b,c', '{}', '\"\\', 'NULL', '', 'word', " +
    "'$src.0.word']"]
]

/** Changes that do not fit every row: [set, SQL, key of the row]. */
const single: ReadonlyArray<readonly [set: string, sql: string, k: number]> = [
  ['{"j":{"$remove":"$src.0.word"}}', "j = x.j - 'word'", 3],
  ['{"grid":{"$append":[3,4]}}', "grid = x.grid || '{3,4}'::int[]", 1]
]

const service = await useService(t, { schema })
const { sql } = service.database
const contents = (table: string): Promise<string> =>
  op.renderRows(sql, `select * from ${table} order by k`)

t.test('each change equals the one written in SQL, in update and in on_conflict', async t => {
  const keys = [1, 2, 3, 4]
  // The JSON of rows 3 and 4 is not an object, that of rows 1 and 4 is not an array.
  for (const [set, query] of changes) {
    const applicable = set.includes('$merge')
      ? [1, 2]
      : set.startsWith('{"j":{"$append"') ? [2, 3] : keys
    await compare(t, { set, query, keys: applicable })
  }
  for (const [set, query, k] of single) await compare(t, { set, query, keys: [k] })
})

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

const noObject = differsOneByOne('an array does not take an object of an earlier row')
t.test('a value that does not fit is an error, and nothing is written', noObject, async t => {
  const rows: ReadonlyArray<readonly [set: string, status: number, code: string]> = [
    ['{"i4":{"$inc":2147483647}}', 400, 'numeric_value_out_of_range'],
    ['{"n62":{"$inc":0.004}}', 422, 'value_invalid'],
    ['{"i4":{"$inc":"$src.0.word"}}', 400, 'invalid_text_representation'],
    // jsonb - text would remove a key.
    ['{"j":{"$dec":1}}', 400, 'undefined_function'],
    ['{"j":{"$now":true}}', 400, 'datatype_mismatch'],
    ['{"arr":{"$append":[1.5]}}', 422, 'value_invalid'],
    ['{"arr":{"$remove":"1"}}', 400, 'undefined_function'],
    // Text has an operator || too, and jsonb || turns other values into arrays.
    ['{"js":{"$merge":{}}}', 422, 'value_invalid'],
    ['{"gen":{"$inc":1}}', 400, 'generated_always']
  ]
  await sql.unsafe(seeds)
  // A jsonb scalar, from which no key can be removed.
  await sql.unsafe('update t set j = $$"scalar"$$ where k = 1')
  const before = await contents('t')
  for (const [set, status, code] of rows) {
    const operations = [
      `"op":"update","set":${set},"where":{"k":{"eq":1}}`,
      '"op":"insert","values":[{"k":1}],"on_conflict":{"columns":["k"],"do":"update",' +
      `"set":${set}}`
    ]
    for (const operation of operations) {
      const response = await service.post(
        `[{"id":"first","op":"insert","table":"t","values":[{"k":100}]},${source},` +
          `{"id":"o","table":"t",${operation}}]`
      )
      t.match({ status: response.status, error: response.body.error }, {
        status, error: { type: 'execution_error', code, op: 'o', index: 2, committed: false }
      }, encodeURI(`${operation} ${response.text}`))
    }
  }
  t.equal(await contents('t'), before)
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

t.test('operands of types with a length, domains and enums are checked, not truncated', async t => {
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
    [{ c: { $col: 'v' }, v: { $col: 'c' } }, { c: 'abc', v: 'abc' }]
  ]
  for (const [set, result] of rows) {
    const operations = [
      { op: 'update', set, where: { k: { eq: 1 } } },
      { op: 'insert', values: [{ k: 1 }], on_conflict: { columns: ['k'], do: 'update', set } }
    ]
    for (const operation of operations) {
      const { body, text } = await service.post(
        [{ id: 'o', table: 'd', ...operation, returning: Object.keys(set) }],
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

/** Runs a change on the table and in SQL on its twin, and compares the rows and the contents. */
async function compare (
  t: Test,
  { set, query, keys }: { set: string, query: string, keys: readonly number[] }
): Promise<void> {
  const variants: ReadonlyArray<readonly [operation: string, statement: string]> = [
    [`"op":"update","set":${set},"where":{"or":[${keys.map(k => `{"k":{"eq":${k}}}`).join()}]}`,
      `update twin as x set ${query} where k in (${keys.join()}) returning x.*`],
    [
      `"op":"insert","values":[${
        keys.map(k => `{"k":${k}}`).join()
      }],"on_conflict":{"columns":["k"],"do":"update","set":${set}}`,
      `insert into twin as x (k) values ${
        keys.map(k => `(${k})`).join()
      } on conflict (k) do update set ${query} returning x.*`]
  ]
  for (const [operation, statement] of variants) {
    await sql.unsafe(seeds)
    const response = await service.post(`[${source},{"id":"o","table":"t",${operation}}]`)
    t.equal(
      response.status, 200,
      encodeURI(`${operation} ${response.status === 200 ? '' : response.text}`)
    )
    if (response.status !== 200) continue
    const changed = `with changed as (${statement})`
    const rows = await op.renderRows(sql, 'select * from changed', changed)
    t.strictSame(rowsOf(response), splitRows(rows), 'the same rows are returned')
    t.equal(await contents('t'), await contents('twin'), 'both tables are equal')
  }
}

/** The rows of operation `o`, the last of its batch, as text. Sorted: an update has no order. */
function rowsOf ({ text }: Answer): string[] {
  return splitRows(text.slice(text.lastIndexOf('"o":[') + 4, -2))
}

function splitRows (array: string): string[] {
  return array.slice(1, -1).split(/,\s*\n\s*/).sort()
}
