/**
 * Tests that tables, columns, aliases and keys of JSON can have any name: each is quoted where it
 * becomes SQL, and a constant of `index_where` is quoted in every setting.
 */
import t, { type Test } from 'tap'
import { useDatabase } from '../support/database/database.ts'
import * as op from '../support/operations.ts'
import { quoteName, strangeNames as names } from '../support/operations.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'

const json = (value: unknown): string => JSON.stringify(value)
/** An object whose members have an order, also those with the names of integers. */
const object = (entries: ReadonlyArray<readonly [string, unknown]>): string =>
  `{${entries.map(([key, value]) => `${json(key)}:${json(value)}`).join()}}`
/** A dot separates the parts of references and of table names. */
const undotted = names.filter(name => !name.includes('.'))
const reference = (row: string, name: string, value: number): string | number =>
  name.includes('.') ? value : `${row}.${name}`

t.test('columns can have any name', async t => {
  const service = await useService(t, {
    schema: `create table many (key_ int primary key,
      ${names.map(name => `${quoteName(name)} int`).join()});`
  })
  const list = json(['key_', ...names])
  const numbers = names.map((name, i) => [name, i] as const)
  const references = names.map((name, i) => [name, reference('$a.0', name, i)] as const)
  const equal = names.map((name, i) => [name, { eq: i, gte: reference('$a.0', name, i) }] as const)
  const { text } = await service.post(`[
    {"id":"a","op":"insert","table":"many","values":[${object([['key_', 1], ...numbers])}]},
    {"id":"b","op":"insert","table":"many","values":[{"key_":2},
      ${object([['key_', 3], ...references])}],"returning":${list}},
    {"id":"c","op":"update","table":"many","set":${object(numbers)},"where":{"key_":{"eq":2}},
      "returning":${list}},
    {"id":"d","op":"select","table":"many","columns":${list},"where":${object(equal)},
      "order":[{"key_":"asc"}]}]`)
  const row = (key: number): string => object([['key_', key], ...numbers])
  const nulls = object([['key_', 2], ...names.map(name => [name, null] as const)])
  t.equal(text.replaceAll(/, \n /g, ','), `{"error":null,"data":{"a":[${row(1)}],"b":[${nulls},${
    row(3)}],"c":[${row(2)}],"d":[${row(1)},${row(2)},${row(3)}]}}`)
  for (const [i, name] of names.entries()) {
    const { body } = await service.post([
      op.update('u', 'many', {
        set: { [name]: { $inc: 0 } },
        where: { [name]: { eq: i }, key_: { eq: 1 } },
        returning: [name]
      }),
      op.select('s', 'many', { columns: [name], order: [{ [name]: 'desc' }], limit: 1 }),
      op.select('g', 'many', {
        columns: [name, { fn: 'max', column: name, as: 'the max' }],
        group_by: [name],
        order: [{ 'the max': 'asc' }]
      })
    ])
    const found = { [name]: i }
    t.same(Object.values(body.data ?? {}), [[found], [found], [{ ...found, 'the max': i }]],
      encodeURI(name))
  }
})

t.test('columns named like those that statements add are not taken for these', async t => {
  const added = ['n0', 'n1', 'n2', 'n3']
  const { post } = await useService(t, {
    schema: `create schema elsewhere; create type elsewhere.size as (x int);
      create table sizes (id int primary key, size elsewhere.size, word text default 'none',
        ${added.map(name => `${name} elsewhere.size default '(0)'`).join()});
      create table counts (id int primary key, word text default 'none',
        ${added.map(name => `${name} int generated always as (-id) stored`).join()})`
  })
  const ids = Array.from({ length: 20 }, (_, i) => 7 * (i + 1) % 20)
  const all = { returning: ['*', { column: 'id', as: 'key' }] }
  const { body, text } = await post([
    op.insert('i', 'counts', ids.map((id, i) => i % 3 === 0 ? { id } : { id, word: 'x' }), all),
    op.update('u', 'counts', { key: ['id'], values: ids.map(id => ({ id, word: 'y' })), ...all }),
    op.insert('stored', 'sizes', ids.map(id => ({ id, size: { x: id } })), all),
    op.update('set', 'sizes', {
      key: ['id'], values: ids.map(id => ({ id, size: { x: -id } })), ...all
    })
  ])
  for (const id of ['i', 'u', 'stored', 'set']) {
    t.same(body.data?.[id].map(({ key }: { key: number }) => key), ids, `${id} ${text}`)
  }
  const numbers = (id: string) => body.data?.[id].map(({ size: { x } }: any) => x)
  t.same([numbers('stored'), numbers('set')], [ids, ids.map(id => -id)])
})

t.test('tables can have any name', async t => {
  const service = await useService(t, {
    schema: undotted.map((name, i) => `
      create table ${quoteName(name)} (key_ int, ${quoteName(name)} int primary key);
      insert into ${quoteName(name)} values (1, ${i});`).join('')
  })
  for (const [i, name] of undotted.entries()) {
    const values = [{ key_: 3, [name]: i }]
    const upsert = (id: string, conflict: object): object =>
      op.insert(id, name, values, { on_conflict: { columns: [name], ...conflict } })
    const { body, text } = await service.post([
      op.select('s', name, { where: { key_: { eq: 1 } } }),
      op.insert('i', name, [{ key_: `$s.0.${name}`, [name]: -1 }]),
      upsert('nothing', { do: 'nothing' }),
      upsert('update', { do: 'update' }),
      upsert('set', {
        do: 'update',
        set: { [name]: { $inc: 400 }, key_: { $excluded: name } },
        where: { [name]: { eq: { $excluded: name } }, key_: { eq: { $col: 'key_' } } }
      }),
      op.delete('d', name, { where: { [name]: { in: [`$i.0.${name}`, `$set.0.${name}`] } } })
    ])
    const [inserted, changed] = [{ key_: i, [name]: -1 }, { key_: i, [name]: i + 400 }]
    t.same(body.data, {
      s: [{ key_: 1, [name]: i }],
      i: [inserted],
      nothing: [],
      update: [{ key_: 3, [name]: i }],
      set: [changed],
      d: [inserted, changed]
    }, encodeURI(`${name} ${text}`))
  }
})

t.test('a schema can have any name', async t => {
  const name = 'Other Schema.Weird "Name" ; --'
  const service = await useService(t, {
    schema: `create schema "Other Schema"; grant usage on schema "Other Schema" to oneflight_user;
      create table "Other Schema"."Weird ""Name"" ; --" (n int);
      grant all on "Other Schema"."Weird ""Name"" ; --" to oneflight_user`,
    env: { DB_SCHEMAS: 'public,Other Schema' }
  })
  const { body } = await service.post([op.insert('i', name, [{ n: 1 }]), op.select('s', name)])
  t.same(body.data, { i: [{ n: 1 }], s: [{ n: 1 }] })
})

t.test('aliases can have any name, also in order and references', async t => {
  const service = await useService(t, {
    schema: `create table v (id int, o int); insert into v values (1, 10), (2, 20), (3, null);
      create table w (n int);`
  })
  for (const name of [...names, 'tableoid', 'ctid', 'xmin', 'a->b', 'a->>b', 'v', 'w']) {
    // A path would be read in "order".
    const isPath = name.includes('->')
    const renamed = (column: string): object => ({ column, as: name })
    const { body, text } = await service.post([
      op.select('a', 'v', { columns: ['o', { column: 'id', as: name === 'o' ? 'O' : name }] }),
      op.select('s', 'v', {
        columns: [renamed('o')],
        ...isPath ? {} : { order: [{ [name]: { direction: 'desc', nulls: 'last' } }] }
      }),
      op.select('c', 'v', { columns: [{ fn: 'max', ...renamed('o') }] }),
      op.insert('w', 'w', [{ n: reference('$s.0', name, 20) }], { returning: [renamed('n')] }),
      op.delete('d', 'w', { where: { n: { gt: 0 } }, returning: [renamed('n')] })
    ])
    const [ten, twenty, none] = [10, 20, null].map(n => ({ [name]: n }))
    const { a: _, ...data } = body.data ?? {}
    t.same(data, isPath
      ? { s: [ten, twenty, none], c: [twenty], w: [ten], d: [ten] }
      : { s: [twenty, ten, none], c: [twenty], w: [twenty], d: [twenty] },
    encodeURI(`${name} ${text}`))
  }
})

const hard = 'it$$s "so" \\ \\$$ $1 \\n e\\\\ $$ ä😀'
const quoted = `'${hard.replaceAll("'", "''")}'`
/** [predicate of a partial index, the same as index_where, a row that matches] */
const predicates: ReadonlyArray<
  readonly [predicate: string, indexWhere: Record<string, unknown>, row: Record<string, unknown>]
> = [
  [`s = ${quoted}`, { s: { eq: hard } }, { s: hard }],
  ["s = ''", { s: { eq: '' } }, { s: '' }],
  ["s = '$src.0.id'", { s: { eq: '$$src.0.id' } }, { s: '$$src.0.id' }],
  ["s in ('a', 'b''')", { s: { in: ['a', "b'"] } }, { s: "b'" }],
  ['s is null', { s: { is: null } }, { s: null }],
  ['n > -5', { n: { gt: -5 } }, { n: 5 }],
  ['big = 9007199254740993', { big: { eq: '9007199254740993' } }, { big: '9007199254740993' }],
  ['num = 1.10', { num: { eq: 1.1 } }, { num: 1.1 }],
  ['b', { b: { eq: true } }, { b: true }],
  ['b is not true', { not: { b: { is: true } } }, { b: false }],
  ["m = 'happy'", { m: { eq: 'happy' } }, { m: 'happy' }],
  ["s = 'x' or n is null", { or: [{ s: { eq: 'x' } }, { n: { is: null } }] }, { s: 'x' }],
  ['"we""ird" is null', { 'we"ird': { is: null } }, { 'we"ird': null }]
]

/** Starts a service on whose connections backslashes in constants may be escapes. */
async function useStandard (t: Test, standard: string): Promise<ServiceUnderTest> {
  const database = await useDatabase(t)
  const { sql, name, loginUrl } = database
  await sql.unsafe(`alter database ${name} set standard_conforming_strings = ${standard};
    alter database ${name} set escape_string_warning = off;
    set standard_conforming_strings = on;
    create type mood as enum ('happy', 'sad');
    create table d (data jsonb);
    create view shown as select current_setting('standard_conforming_strings') as s`)
  // The settings apply only to new connections.
  const service = await useService(t, { databaseUrl: () => loginUrl })
  const { body } = await service.post([op.select('s', 'shown')])
  t.same(body.data?.s, [{ s: standard }], 'the setting is in effect')
  return { ...service, database }
}

for (const standard of ['on', 'off']) {
  t.test(`keys in a path can have any name, standard_conforming_strings ${standard}`, async t => {
    const keys = [
      ...undotted.filter(name => !/^\d+$/.test(name)),
      "\\'", "\\' || (select 1) --", "'", 'x\\', '\\n'
    ]
    const data = object(keys.map((name, i) => [name, { v: i, [name]: String(i) }]))
    const { post } = await useStandard(t, standard)
    await post(`[{"id":"i","op":"insert","table":"d","values":[{"data":${data}}]}]`)
    for (const [i, name] of keys.entries()) {
      const path = { column: `data->${name}->v`, as: 'v' }
      const { text } = await post([
        op.select('s', 'd', { columns: [path, `data->${name}->>${name}`] }),
        op.select('g', 'd', {
          columns: [path, { fn: 'count' }],
          group_by: [path.column],
          order: [{ [path.column]: 'asc' }]
        })
      ])
      const rows = `"s":[{"v":${i},${json(name)}:"${i}"}],"g":[{"v":${i},"count":1}]`
      t.equal(text, `{"error":null,"data":{${rows}}}`)
    }
  })

  t.test(`constants of index_where, standard_conforming_strings ${standard}`, async t => {
    const { post, database: { sql } } = await useStandard(t, standard)
    for (const [i, [predicate, indexWhere, row]] of predicates.entries()) {
      await sql.begin(sql =>
        sql.unsafe(`set local standard_conforming_strings = on;
          create table p${i} (k int, s text, n int, big bigint, num numeric, b bool, d date,
            v varchar(9), m mood, "we""ird" int, times int default 1);
          create unique index on p${i} (k) where ${predicate}`)
      )
      const upsert = (id: string, conflict: object): object => op.insert(id, `p${i}`, [
        { ...row, k: 1 }
      ], { on_conflict: { columns: ['k'], index_where: indexWhere, ...conflict } })
      const counted = { do: 'update', set: { times: { $inc: 1 } } }
      const { body, text } = await post([
        op.select('src', `p${i}`),
        upsert('first', counted),
        upsert('second', counted),
        upsert('none', { do: 'nothing' }),
        op.select('all', `p${i}`)
      ])
      const { first, second, none, all } = body.data ?? {}
      t.same([first?.[0].times, second?.[0].times, none, all?.length], [1, 2, [], 1],
        encodeURI(`${predicate} ${text}`))
    }
    // An index with another predicate is not used, and text in the constant does not become SQL.
    const { status, body } = await post([op.insert('o', 'p0', [{ k: 1 }], {
      on_conflict: {
        columns: ['k'],
        index_where: { s: { eq: "\\' or true) do nothing --" } },
        do: 'nothing'
      }
    })])
    t.match({ status, ...body.error }, { status: 400, code: 'invalid_column_reference', op: 'o' })
  })
}
