/**
 * Tests columns of types that lack what most types have: types without a binary form (those of the
 * extension isn, and one made here), types and operators outside the search path, in a schema that
 * the role may not use, and domains, arrays, composites, ranges and multiranges of and beside them.
 * Every word of the language has the effect of plain SQL, or is refused with a clear error.
 */
import t, { type Test } from 'tap'
import * as op from '../support/operations.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'

/** A type `code` without functions for its binary form, which otherwise is like int. */
function createCode (schema: string): string {
  const comparisons = { '<': 'lt', '<=': 'le', '=': 'eq', '>=': 'ge', '>': 'gt', '<>': 'ne' }
  const type = `${schema}.code`
  const functions = Object.entries(comparisons).map(([operator, name]) => `
    create function ${type}_${name} (${type}, ${type}) returns boolean
      language internal immutable strict as 'int4${name}';
    create operator ${schema}.${operator}
      (function = ${type}_${name}, leftarg = ${type}, rightarg = ${type});`)
  return `
    create type ${type};
    create function ${type}_in (cstring) returns ${type}
      language internal immutable strict as 'int4in';
    create function ${type}_out (${type}) returns cstring
      language internal immutable strict as 'int4out';
    create type ${type} (input = ${type}_in, output = ${type}_out, like = int4);
    create function ${type}_cmp (${type}, ${type}) returns int
      language internal immutable strict as 'btint4cmp';
    ${functions.join('')}
    create operator class ${type}_ops default for type ${type} using btree as
      operator 1 ${schema}.<, operator 2 ${schema}.<=, operator 3 ${schema}.=,
      operator 4 ${schema}.>=, operator 5 ${schema}.>, function 1 ${type}_cmp(${type}, ${type});`
}

/** The role of the batches may not use the schema `ext`. */
const types = `
  create schema ext;
  create extension isn;
  create extension hstore;
  create extension citext schema ext;
  ${createCode('public')}
  ${createCode('ext')}
  create type ext.mood as enum ('sad', 'happy', 'great');
  create type ext.pair as (x int, y ext.code);
  create type ext.floats as range (subtype = float8, multirange_type_name = ext.manyfloats);
  create type book as (isbn ean13, codes ext.code[]);
  create domain printed as book check (value is null or (value).isbn is not null);
  create domain ids as int[] check (cardinality(value) < 9);
  create domain numbered as ean13;
  create domain article as numbered check (value > '978-0-00-000000-2');
  create domain ext.coded as ext.code;
  create type shelf as (article article, n int);
  create table docs (doc json);`

type Value = readonly [json: unknown, text: string]

interface Kind {
  readonly type: string
  readonly values: readonly [Value, Value, Value]
  /** The search path lacks its operators. Ordering and grouping do not need them. */
  readonly operators?: false
  /** Its values are no operands of a list: they are arrays, or composites. */
  readonly lists?: false
  /** It has no operator `>`. */
  readonly after?: false
  /** PostgreSQL compares a composite with a literal only if that has a type. */
  readonly composite?: true
}

const texts = (a: string, b: string, c: string): Kind['values'] => [[a, a], [b, b], [c, c]]
const numbers: Kind['values'] = [[1, '1'], [5, '5'], [10, '10']]
const lists: Kind['values'] = [[[1, 2], '{1,2}'], [[3, null], '{3,NULL}'], [[], '{}']]
const [one, two, three] = ['978-0-11-000222-4', '978-0-393-04002-9', '978-0-901690-54-8'] as const

const kinds: readonly Kind[] = [
  { type: 'ean13', values: texts(one, two, three) },
  { type: 'article', values: texts(one, two, three) },
  { type: 'code', values: numbers },
  { type: 'ext.code', values: numbers, operators: false },
  { type: 'ext.coded', values: numbers, operators: false },
  // A cast makes it an object of JSON.
  {
    type: 'hstore', values: texts('"k"=>"1", "\\"\\\\,=>"=>NULL', '"k"=>"2"', ''), after: false
  },
  // Without its operators it compares as text.
  { type: 'ext.citext', values: texts('A', 'b', 'C') },
  { type: 'ext.mood', values: texts('happy', 'sad', 'great') },
  { type: 'ext.floats', values: texts('[1,5)', '[2,7)', '[9,)') },
  { type: 'ext.code[]', values: lists, lists: false },
  {
    type: 'printed',
    values: [
      [{ isbn: one, codes: [1, 2] }, `(${one},"{1,2}")`],
      [{ isbn: two }, `(${two},)`],
      [{ isbn: three, codes: [] }, `(${three},{})`]
    ],
    lists: false,
    composite: true
  }
]

/** The tables of a kind: rows, rows by value, and an empty one. */
function createTables ({ type, values: [[, a], [, b]] }: Kind, n: number): string {
  return `
    create table t${n} (id int primary key, v ${type});
    create table k${n} (v ${type} primary key, n int);
    create table c${n} (id int, v ${type});
    insert into t${n} values (1, '${a}'), (2, '${b}'), (3, null);
    insert into k${n} values ('${a}', 2), ('${b}', 1);
    create function f${n} (x ${type}) returns ${type} language sql as 'select x';
    create function g${n} () returns setof t${n} language sql
      as 'select * from t${n} where id < 3 order by id';`
}

const schema = `${types}
  set search_path = public, ext;
  ${kinds.map(createTables).join('')}
  reset search_path;`

/** An operation, and SQL with the same effect and the same rows. The alias of a change is `t`. */
type Step = readonly [operation: object, sql: string]

interface Scene {
  /** The tables; see createTables. */
  readonly t: string
  readonly k: string
  readonly c: string
  /** The values as JSON of `values`, as operands, and as SQL for both. */
  readonly json: readonly [unknown, unknown, unknown]
  readonly operand: readonly [unknown, unknown, unknown]
  readonly stored: readonly [string, string, string]
  readonly compared: readonly [string, string, string]
}

function createScene ({ values, composite }: Kind, n: number): Scene {
  const each = <T>(map: (value: Value) => T): [T, T, T] => values.map(map) as [T, T, T]
  return {
    t: `t${n}`,
    k: `k${n}`,
    c: `c${n}`,
    json: each(([json]) => json),
    operand: each(([json]) => typeof json === 'object' ? { $value: json } : json),
    stored: each(([, text]) => `'${text}'`),
    compared: each(([, text]) => composite === true ? `(select f${n}('${text}'))` : `'${text}'`)
  }
}

const byId = { order: [{ id: 'asc' }] }
const byN = { order: [{ n: 'asc' }] }

/** What others refer to: the first two values. */
const source = ({ t }: Scene): Step => [
  op.select('src', t, { where: { id: { lt: 3 } }, ...byId }),
  `select * from ${t} where id < 3 order by id`
]

/** What is stored then, also as text. */
function readStored ({ t, k, c }: Scene): readonly Step[] {
  const text = { column: 'v', cast: 'text', as: 'text' }
  return [[t, 'id', byId], [k, 'n', byN], [c, 'id', byId]].map(([table, key, order]) => [
    { op: 'select', table, columns: [key, 'v', text], ...order as object },
    `select ${key}, v, v::text as text from ${table} order by ${key}`
  ])
}

function readRows (scene: Scene): readonly Step[] {
  const { t, k } = scene
  const select = { op: 'select', table: t }
  const groups = { columns: ['v', { fn: 'count' }], group_by: ['v'], order: [{ v: 'asc' }] }
  const kids = { table: k, on: { n: 'id' }, one: true }
  return [
    [{ ...select, ...byId }, `select * from ${t} order by id`],
    [{ ...select, order: [{ v: 'desc' }] }, `select * from ${t} order by v desc`],
    [{ ...select, ...groups }, `select v, count(*) from ${t} group by v order by v`],
    [{ ...select, ...byId, with: { kids } },
      `select *, (select to_json(k) from ${k} as k where n = id) as kids from ${t} order by id`],
    source(scene),
    [
      {
        op: 'insert',
        table: 'docs',
        values: [{ doc: { is: '$src.0.v', all: '$src.*.v', row: '$src.1' } }]
      },
      `insert into docs as t select json_build_object(
        'is', (select v from ${t} where id = 1),
        'all', (select json_agg(v order by id) from ${t} where id < 3),
        'row', (select to_json(r) from ${t} as r where id = 2))`
    ]
  ]
}

function insertRows (scene: Scene): readonly Step[] {
  const { t, k, c, json, stored } = scene
  const insert = (rows: ReadonlyArray<readonly [json: unknown, sql: string]>, from: number): Step =>
    [
      op.insert(`i${from}`, t, rows.map(([v], i) =>
        ({ id: from + i, ...v === undefined ? {} : { v } })
      )),
      `insert into ${t} as t values ${rows.map(([, v], i) => `(${from + i}, ${v})`).join()}`
    ]
  const literal = (i: number): readonly [unknown, string] => [json[i % 3], stored[i % 3] as string]
  const reference = (i: number): readonly [string, string] =>
    [`$src.${i % 2}.v`, stored[i % 2] as string]
  const rows = (
    count: number,
    row: (i: number) => readonly [unknown, string]
  ): ReadonlyArray<readonly [unknown, string]> => Array.from({ length: count }, (_, i) => row(i))
  const from = { table: t, where: { id: { lt: 4 } }, ...byId }
  const query = (columns: object, v: string): Step => [
    { op: 'insert', table: c, from, columns: { id: { $col: 'id' }, ...columns } },
    `insert into ${c} as t select id, ${v} from ${t} where id < 4 order by id`
  ]
  return [
    source(scene),
    insert([literal(0)], 10),
    insert([literal(2), reference(0), [null, 'null'], [undefined, 'default'], literal(1)], 50),
    insert(rows(17, reference), 200),
    insert(rows(130, literal), 400),
    query({ v: { $col: 'v' } }, 'v'),
    query({ v: '$src.0.v' }, stored[0]),
    [
      {
        op: 'insert',
        table: k,
        values: [{ v: json[2], n: 7 }, { v: '$src.1.v', n: 8 }],
        on_conflict: { columns: ['v'], do: 'update' }
      },
      `insert into ${k} as t values (${stored[2]}, 7), (${stored[1]}, 8)
        on conflict (v) do update set n = excluded.n`
    ],
    [
      {
        op: 'insert',
        table: t,
        values: [{ id: 1, v: json[1] }],
        on_conflict: { columns: ['id'], do: 'update', set: { v: { $excluded: 'v' } } }
      },
      `insert into ${t} as t values (1, ${stored[1]}) on conflict (id) do update set v = excluded.v`
    ],
    ...readStored(scene)
  ]
}

function updateRows (scene: Scene): readonly Step[] {
  const { t, k, json, stored: [a, b, c] } = scene
  const set = (value: unknown, v: string): Step => [
    { op: 'update', table: t, set: { v: value }, where: { id: { eq: 3 } } },
    `update ${t} as t set v = ${v} where id = 3`
  ]
  const keyed = (values: readonly object[], [v1, v2]: readonly [string, string]): Step => [
    { op: 'update', table: t, key: ['id'], values },
    `update ${t} as t set v = x.v from (values (0, (null::${t}).v), (1, ${v1}), (2, ${v2}))
      as x (id, v) where t.id = x.id`
  ]
  const many = Array.from({ length: 140 }, (_, i) => ({ id: i === 2 ? 2 : i + 10, v: json[1] }))
  return [
    source(scene),
    set(json[0], a),
    set({ $value: json[1] }, b),
    set('$src.0.v', a),
    keyed([{ id: 1, v: json[2] }, { id: 2, v: json[0] }], [c, a]),
    keyed([{ id: 1, v: json[0] }, ...many], [a, b]),
    [{
      op: 'update',
      table: t,
      from: { table: k, on: { id: 'n' }, where: { n: { eq: 2 } } },
      set: { v: { $from: 'v' } }
    }, `update ${t} as t set v = x.v from ${k} as x where t.id = x.n and x.n = 2`],
    ...readStored(scene)
  ]
}

function compareRows (scene: Scene, { lists, after }: Kind): readonly Step[] {
  const { t, k, operand: [a, b], compared: [x, y], stored } = scene
  const text = stored[0].slice(1, -1)
  const select = { op: 'select', table: t, ...byId }
  const where = (condition: unknown, sql: string): Step =>
    [{ ...select, where: { v: condition } }, `select * from ${t} where v ${sql} order by id`]
  const counts = { columns: ['v', { fn: 'count' }], group_by: ['v'] }
  const having = (operand: unknown): Step => [
    { op: 'select', table: t, ...counts, having: { v: { eq: operand } } },
    `select * from (select v, count(*) from ${t} group by v) as o where v = ${x}`
  ]
  const other = { table: k, on: { v: 'v' } }
  return [
    source(scene),
    ...[a, '$src.0.v'].flatMap(operand => [
      where({ eq: operand }, `= ${x}`),
      where({ neq: operand }, `<> ${x}`),
      where({ isdistinct: operand }, `is distinct from ${x}`),
      having(operand)
    ]),
    ...lists === false
      ? []
      : [
          where({ in: [text, '$src.1.v'] }, `in (${x}, ${y})`),
          where({ nin: ['$src.1.v'] }, `not in (${y})`),
          where({ in: '$src.*.v' }, `in (${x}, ${y})`)
        ],
    ...after === false
      ? []
      : [[{ ...select, order: [{ v: 'asc' }], after: ['$src.0.v'] },
          `select * from ${t} where v > ${x} or v is null order by v`] as const],
    [{ op: 'update', table: t, set: { id: 10 }, where: { v: { eq: a } } },
      `update ${t} as t set id = 10 where v = ${x}`],
    [{
      op: 'update',
      table: t,
      key: ['v'],
      values: [{ v: operandToKey(a), id: 21 }, { v: operandToKey(b), id: 22 }]
    }, `update ${t} as t set id = case when v = ${x} then 21 else 22 end where id in (2, 10)`],
    [{
      op: 'update',
      table: t,
      from: { ...other, where: { n: { eq: 2 } } },
      set: { id: { $from: 'n' } }
    }, `update ${t} as t set id = k.n from ${k} as k where k.v = t.v and k.n = 2`],
    [{ op: 'delete', table: t, where: { v: { eq: '$src.1.v' } } },
      `delete from ${t} as t where v = ${y}`],
    ...readStored(scene)
  ]
}

function operandToKey (operand: unknown): unknown {
  return typeof operand === 'object' ? (operand as { readonly $value: unknown }).$value : operand
}

function createBatches (kind: Kind, n: number): Readonly<Record<string, readonly Step[]>> {
  const scene = createScene(kind, n)
  return {
    read: readRows(scene),
    insert: insertRows(scene),
    update: updateRows(scene),
    ...kind.operators === false ? {} : { compare: compareRows(scene, kind) }
  }
}

function operationsOf (steps: readonly Step[]): readonly object[] {
  return steps.map(([operation], i) => ({ id: `o${i}`, ...operation }))
}

const ROLLBACK = new Error('roll back')

/** Runs the SQL of a batch with the role and the search path of the service, and rolls it back. */
async function runSql (
  { database: { sql } }: Pick<ServiceUnderTest, 'database'>,
  steps: readonly Step[]
): Promise<readonly unknown[]> {
  const statements = steps.map(([, text]) => {
    if (text.startsWith('select')) return `select coalesce(json_agg(r), '[]') from (${text}) as r`
    // The rows of an update by key are those of `values`, in ascending order here.
    const order = text.startsWith('update') ? 'order by id' : ''
    return `with r as (${text} returning t.*) select coalesce(json_agg(r ${order}), '[]') from r`
  })
  let rows: readonly unknown[] = []
  await sql.begin(async sql => {
    await sql.unsafe('set local role oneflight_user; set local search_path = public, pg_temp')
    const results = await sql.unsafe(statements.join('; '))
    rows = (results as unknown as ReadonlyArray<readonly [{ readonly coalesce: unknown }]>)
      .map(([{ coalesce }]) => coalesce)
    throw ROLLBACK
  }).catch((error: unknown) => {
    if (error !== ROLLBACK) throw error
  })
  return rows
}

t.test('each word has the effect of SQL', {
  timeout: 120_000
}, async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1' } })
  for (const [n, kind] of kinds.entries()) {
    for (const [name, steps] of Object.entries(createBatches(kind, n))) {
      const expected = await runSql(service, steps)
      const operations = operationsOf(steps)
      const { body, text } = await service.post(operations, { headers: { prefer: 'tx=rollback' } })
      const rows = body.error === null ? Object.values(body.data) : text
      t.strictSame(rows, expected, `${kind.type}: ${name}`)
    }
  }
})

/** Checks that an operation is refused, after a select of which `$src` are the rows. */
async function expectRefusal (
  t: Test,
  { post }: ServiceUnderTest,
  operation: object,
  error: object
): Promise<void> {
  const { status, text, body } = await post(
    [op.select('src', 'shelves', { order: [{ id: 'asc' }] }), { id: 'o', ...operation }]
  )
  const name = JSON.stringify(operation)
  t.match({ status, ...body.error }, { committed: false, op: 'o', ...error }, `${name} ${text}`)
}

t.test('operators outside the search path are refused, as by SQL', async t => {
  const service = await useService(t, { schema: `${schema} create table shelves (id int)` })
  const n = kinds.findIndex(({ type }) => type === 'ext.code')
  const [table, other] = [`t${n}`, `k${n}`]
  const refused: ReadonlyArray<readonly [operation: object, message: RegExp, path?: string[]]> = [
    [{ op: 'select', where: { v: { eq: 1 } } }, /^"eq" does not work with column "v": /,
      ['where', 'v', 'eq']],
    [{ op: 'delete', where: { v: { gt: 1 } } }, /^"gt" does not work with column "v": /,
      ['where', 'v', 'gt']],
    [{ op: 'select', where: { exists: { table: other, on: { v: 'v' } } } },
      /^Column "v": operator does not exist: ext\.code = ext\.code$/],
    [{ op: 'update', from: { table: other, on: { v: 'v' } }, set: { id: 5 } },
      /operator does not exist: ext\.code = ext\.code$/]
  ]
  for (const [operation, message, path] of refused) {
    await expectRefusal(t, service, { table, ...operation }, {
      status: 400, code: 'undefined_function', message, path
    })
  }
  // To convert a value to the type of a parameter, the service names the type.
  await expectRefusal(
    t, service, { op: 'call', function: `f${n}`, args: { x: [1] } },
    { status: 403, code: 'insufficient_privilege', message: /schema ext/ }
  )
  const { body } = await service.post([
    op.call('literal', `f${n}`, { x: 1 }),
    { id: 'rows', op: 'call', function: `g${n}`, columns: ['v'] },
    op.insert('used', table, [{ id: 9, v: '$rows.1.v' }])
  ])
  t.strictSame(body.data, {
    literal: [{ [`f${n}`]: '1' }], rows: [{ v: '1' }, { v: '5' }], used: [{ id: 9, v: '5' }]
  })
})

t.test('what PostgreSQL cannot convert from JSON is refused, and can be a string', async t => {
  const service = await useService(t, {
    schema: `${schema}
      create table shelves (id int primary key, a article, v shelf, list article[], ids ids);
      insert into shelves values (1, '${one}', '(${one},1)', '{${one}}', '{1,2}');
      create function of_article (x article) returns text language sql as 'select x::text';
      create domain mood as ext.mood;
      create domain pair as ext.pair;
      create function of_mood (x mood) returns text language sql as 'select x::text';
      create function of_pair (x pair) returns text language sql as 'select x::text';`
  })
  const shelves = { table: 'shelves' }
  const insert = (row: object): object => ({ op: 'insert', ...shelves, values: [row] })
  // PostgreSQL has no type of arrays of arrays.
  const refused = [[['{1,2}'], 'undefined_object'], ['$src.*.ids', 'undefined_function']]
  for (const [list, code] of refused) {
    const operation = { op: 'select', ...shelves, where: { ids: { in: list } } }
    await expectRefusal(t, service, operation, { status: 400, code })
  }
  const mixed = insert({ id: 4, v: { article: '$src.0.a', n: 1 } })
  await expectRefusal(t, service, mixed, {
    status: 400,
    code: 'undefined_function',
    message: /^no binary input function .* Write the value as a string in the form of PostgreSQL/
  })
  // The service writes the text of a value.
  const row = { id: 2, a: one, v: { article: two, n: 2 }, list: [two], ids: null }
  const { body, text } = await service.post([
    { id: 'src', op: 'select', ...shelves },
    {
      id: 'copy',
      ...insert({ id: 3, a: '$src.0.a', v: '$src.0.v', list: '$src.0.list', ids: '$src.0.ids' })
    },
    { id: 'i', ...insert({ id: 2, a: '$src.0.a', v: `(${two},2)`, list: `{${two}}` }) },
    { id: 'd', op: 'delete', ...shelves, where: { v: { eq: { $value: row.v } } } },
    { id: 'j', ...insert({ ...row, v: null }) },
    { id: 'u', op: 'update', ...shelves, set: { v: row.v }, where: { id: { eq: 2 } } },
    op.call('c', 'of_article', { x: three }),
    op.call('r', 'of_article', { x: '$src.0.a' }),
    // The role cannot name the types of these domains.
    op.call('m', 'of_mood', { x: 'happy' }),
    op.call('n', 'of_mood', { x: '$m.0.of_mood' }),
    op.call('p', 'of_pair', { x: { x: '$src.0.id', y: 7 } })
  ])
  const { src, copy, i, d, u } = body.data ?? {}
  t.strictSame([i, d, u], [[row], [row], [row]], text)
  t.strictSame(copy, [{ ...src?.[0], id: 3 }])
  t.same(body.data?.r, [{ of_article: one }])
  t.same(body.data?.c, [{ of_article: three }])
  t.same([body.data?.n, body.data?.p], [[{ of_mood: 'happy' }], [{ of_pair: '(1,7)' }]])
})
