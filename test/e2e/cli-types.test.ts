/**
 * Tests `oneflight types`: what it prints, that the client accepts it as types, and its exit codes.
 */
import { join } from 'node:path'
import t from 'tap'
import { compile } from '../support/compile.ts'
import { useDatabase } from '../support/database/database.ts'
import { useShopDatabase } from '../support/database/shop.ts'
import { oneflight, runInside } from '../support/process/cli.ts'

const file = JSON.stringify({
  params: {
    type: 'object',
    properties: {
      id: { type: 'integer' },
      note: { type: ['string', 'null'] },
      items: { type: 'array', items: { $ref: '#/$defs/item' } }
    },
    required: ['id'],
    $defs: {
      item: { type: 'object', properties: { sku: { type: 'string' } }, required: ['sku'] }
    }
  },
  operations: [
    { id: 'one', op: 'select', table: 't', expect: 1 },
    { id: 'n', op: 'select', table: 't', answer: 'count', when: { one: 1 } }
  ]
})

/** Returns the errors of a program that uses the client. */
function findErrors (text: string): ReadonlyMap<number, string> {
  const program = `import { createClient, type AnyDatabase } from './src/index.ts'
${text.replace('oneflight-client', './src/index.ts')}`
  const options = { noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true }
  return compile(program, options).messages
}

t.test('the client accepts the types of a folder', async t => {
  const folder = t.testdir({ batches: { 'take-job.json': file } })
  const { code, out, err } = await oneflight(['types', join(folder, 'batches')])
  t.same([code, err], [0, ''])
  t.same(findErrors(`${out}
const client = createClient<AnyDatabase, 'public', Batches>({ url: '' })
export const { data } = await client.run('take-job', { id: 7n, items: [{ sku: 'a' }], note: null })
export const first: unknown = data.one[0].name
export const n: number | null = data.n
const minimal = await client.run('take-job', { id: 1 }, { return: 'minimal', retry: false })
export const count: number = minimal.data.one
export const counts: number | null = minimal.data.n
const plans = await client.run('take-job', { id: 1 }, { explain: true })
export const plan = plans.data.one[0]?.Plan
// @ts-expect-error -- an unknown name
await client.run('take', { id: 1 })
// @ts-expect-error -- a missing parameter
await client.run('take-job', {})
// @ts-expect-error -- an unknown parameter
await client.run('take-job', { id: 1, x: 1 })
// @ts-expect-error -- another type
await client.run('take-job', { id: '1' })
// @ts-expect-error -- no member of the item
await client.run('take-job', { id: 1, items: [{ sku: 'a', qty: 1 }] })
// @ts-expect-error -- no operation
export const none = data.two
const open = createClient({ url: '' })
export const anything: unknown = (await open.run('any', { x: [1] })).data['rows']
`), new Map())
})

t.test('issues are printed to standard error', async t => {
  const folder = t.testdir({ 'a.json': '{"operations": []}', 'b.json': file })
  t.match(await runInside(['types', folder]), {
    code: 1,
    out: '',
    err: /^oneflight: [^\n]*a\.json:1:2: [^\n]*\n$/
  })
  t.match(await runInside(['types', folder], { env: { MAX_OPS: 'x' } }), {
    code: 2,
    err: /^oneflight: MAX_OPS: /
  })
})

const attributes = Array.from({ length: 201 }, (_, i) => `c${i} int`).join(', ')
const schema = `
  create type nothing as enum ();
  create type wide as (${attributes});
  create table odd (none nothing, wide wide, places int2vector, types oidvector);
  create type mood as enum ('good', 'it''s "bad"');
  create type size as (width int, "unit" text);
  create domain age as int not null check (value > 0);
  create table people (
    id bigint generated always as identity primary key,
    name text not null,
    mood mood not null default 'good',
    born date,
    age age,
    height numeric(5, 2),
    sizes size[] not null default '{}',
    data jsonb not null default '{}',
    tags text[],
    upper_name text generated always as (upper(name)) stored
  );
  comment on table people is 'Who uses it. */';
  comment on column people.born is 'Not known of all';
  create view adults as select id, name, age > 17 as adult from people;
  create materialized view names as select name from people;
  create table parts (id int, at date) partition by range (at);
  create table parts_2026 partition of parts for values from ('2026-01-01') to ('2027-01-01');
  create table "a.b" (id int);
  create schema billing;
  create table billing.invoices (id int not null, "paid at" timestamptz);
  grant usage on schema billing to oneflight_user;
  grant select (id, name), insert (name), update (mood) on people to oneflight_user;
  grant all on billing.invoices to oneflight_user;`

t.test('the tables of a database have types', async t => {
  const { loginUrl } = await useDatabase(t, { schema })
  const env = { DATABASE_URL: loginUrl, DB_SCHEMAS: 'public,billing' }
  t.same(await runInside(['types', '--database'], { env }), {
    code: 0,
    err: '',
    out: `import type { ColumnType, Generated, Json } from 'oneflight-client'

/** The tables of a database, written by \`oneflight types\`. */
export interface Database {
  adults: {
    id: bigint | null
    name: string | null
    adult: ColumnType<boolean | null, never, never>
  }
  names: {
    name: ColumnType<string | null, never, never>
  }
  odd: {
    none: unknown | null
    wide: unknown | null
    places: Array<number> | null
    types: Array<string> | null
  }
  parts: {
    id: number | null
    at: string | null
  }
  /** Who uses it. *\\/ */
  people: {
    id: ColumnType<bigint, never, never>
    name: string
    mood: Generated<"good" | "it's \\"bad\\"">
    /** Not known of all */
    born: string | null
    age: number
    height: number | null
    sizes: Generated<Array<{
      width: number | null
      unit: string | null
    }>>
    data: Generated<Json>
    tags: Array<string> | null
    upper_name: ColumnType<string | null, never, never>
  }
  "billing.invoices": {
    id: number
    "paid at": string | null
  }
}
`
  })
  const { out } = await runInside(['types', '--database', '--role', 'oneflight_user'], { env })
  t.equal(out, `import type { ColumnType } from 'oneflight-client'

/** The tables of a database, written by \`oneflight types\`. */
export interface Database {
  /** Who uses it. *\\/ */
  people: {
    id: ColumnType<bigint, never, never>
    name: ColumnType<string, string, never>
    mood: ColumnType<never, never, "good" | "it's \\"bad\\"">
  }
  "billing.invoices": {
    id: number
    "paid at": string | null
  }
}
`)
})

t.test('a database that cannot be read: exit code 2', async t => {
  const { loginUrl } = await useDatabase(t, { schema: '' })
  const env = { DATABASE_URL: loginUrl }
  for (
    const [args, given, message] of [
      [['--database', '--role', 'nobody'], env, 'cannot read the database: role "nobody" does not'],
      [['--database'], {}, 'DATABASE_URL: required'],
      [['--role', 'x', '.'], env, '--role requires --database']
    ] as const
  ) {
    const { code, out, err } = await runInside(['types', ...args], { env: given })
    t.same([code, out], [2, ''])
    t.ok(err.startsWith(`oneflight: ${message}`), err)
  }
})

t.test('the client accepts the types of a database and of its named batches', async t => {
  const { loginUrl } = await useShopDatabase(t)
  const env = { DATABASE_URL: loginUrl }
  const { code, out } = await runInside(['types', '--database', 'deploy/batches'], { env })
  t.equal(code, 0)
  t.same(findErrors(`${out}
const client = createClient<Database, 'public', Batches>({ url: '' })
export const { data: { from, transfer } } =
  await client.run('transfer', { from: 'till', to: 'bank', amount: 20 })
export const balance: number = from[0].balance
export const id: number = transfer[0].id
// @ts-expect-error -- no column of the table
export const none = from[0].size
export const orders = await client.batch(b => {
  const order = b.insert('orders', { customer_id: 1 }, { expect: 1 })
  b.insert('order_items', { order_id: order.row(0).id, sku: 'apple', qty: 1 })
  // @ts-expect-error -- another type
  b.insert('orders', { customer_id: 'one' })
  // @ts-expect-error -- a column that is always generated
  b.insert('orders', { customer_id: 1, id: 7 })
  return order
})
export const status: string = orders.data[0].status
`), new Map())
})
