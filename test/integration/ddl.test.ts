/**
 * Tests schema changes while batches run. Every batch returns 200, is applied once and finds rows
 * of the old or the new shape. Retries because of a change are counted as `stale_plan`.
 */
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import type { Sql } from 'postgres'
import * as op from '../support/operations.ts'
import { propertyRuns } from '../support/runs.ts'
import { retriesOf, useService, type Answer } from '../support/service.ts'
import { until } from '../support/until.ts'

const CLIENTS = 8
/** How often the statements of a change run. */
const ROUNDS = propertyRuns(1, 4)

/** `first` and `last` record each batch. All other tables are changed while batches run. */
const schema = `
  create table first (id int);
  create table last (id int);
  create table wide (id int primary key, name text, n int not null default 0);
  insert into wide select i, 'row ' || i, 0 from generate_series(1, 20) as i;
  create table typed (id int primary key, code int, amount numeric, day date);
  insert into typed select i, i, i, '2026-11-01' from generate_series(1, 20) as i;
  create table swapped (id int primary key, name text);
  insert into swapped select i, 'row ' || i from generate_series(1, 20) as i;
  create table forget (id int);
  create function forget() returns trigger language plpgsql as $$ begin deallocate all; return new;
    end $$;
  create trigger forget before insert on forget for each row execute function forget();`

/** A kind of change and its statements, which run repeatedly. */
const changes: ReadonlyArray<readonly [name: string, work: readonly string[]]> = [
  ['columns are added and dropped', [
    "alter table wide add column more text default 'x'",
    'alter table wide drop column more',
    'alter table last add column more int',
    'alter table last drop column more'
  ]],
  ['columns change their type', [
    'alter table typed alter column amount type text',
    'alter table typed alter column amount type numeric using amount::numeric',
    'alter table typed alter column code type bigint',
    'alter table typed alter column code type int',
    'alter table typed alter column code type text',
    'alter table typed alter column code type int using code::int',
    'alter table typed alter column day type timestamptz',
    'alter table typed alter column day type date'
  ]],
  // Statements that are sent together are one transaction.
  ['a table is dropped and created again', [`
    drop table swapped;
    create table swapped (id bigint primary key, name varchar(20));
    insert into swapped select i, 'row ' || i from generate_series(1, 20) as i`]]
]

const batch = (id: number): object[] => {
  const row = 1 + id % 20
  return [
    op.insert('first', 'first', [{ id }]),
    op.select('wide', 'wide', { columns: ['id', 'name'], where: { id: { eq: row } } }),
    op.select('all', 'wide', { where: { id: { eq: row } } }),
    op.update('update', 'wide', { set: { name: `row ${row}` }, where: { id: { eq: row } } }),
    op.select('typed', 'typed', {
      columns: ['id'],
      where: { code: { eq: String(row) }, amount: { eq: String(row) }, day: { gte: '2026-10-31' } }
    }),
    op.update('set', 'typed', {
      set: { code: String(row), amount: String(row) },
      where: { id: { eq: row } },
      returning: ['id']
    }),
    op.select('swapped', 'swapped', { where: { id: { eq: '$wide.0.id' } } }),
    op.insert('last', 'last', [{ id: '$first.0.id' }], { returning: ['id'] })
  ]
}

/** True if the rows fit one of the shapes of the tables. */
function fits (id: number, { data }: Answer['body']): boolean {
  const row = { id: 1 + id % 20, name: `row ${1 + id % 20}` }
  const {
    all: [{ n, more, ...all }],
    update: [{ n: _n, more: _more, ...updated }],
    ...rest
  } = data
  return n === 0 && (more === undefined || more === 'x') && isDeepStrictEqual(all, row) &&
    isDeepStrictEqual(updated, row) && isDeepStrictEqual(rest, {
    first: [{ id }],
    wide: [row],
    typed: [{ id: row.id }],
    set: [{ id: row.id }],
    swapped: [row],
    last: [{ id }]
  })
}

async function assertRecorded (t: Test, sql: Sql, ids: readonly number[]): Promise<void> {
  for (const table of ['first', 'last']) {
    const rows = await sql.unsafe(`select id from ${table} order by id`)
    t.same(
      rows.map(({ id }) => id as number),
      ids.toSorted((a, b) => a - b),
      `${table}: every acknowledged batch is recorded once, and no other`
    )
  }
}

t.test('batches succeed while the schema changes', async t => {
  const service = await useService(t, { schema, env: { LOG_LEVEL: 'error' } })
  const { database: { sql } } = service
  const acknowledged: number[] = []
  let next = 0
  for (const [name, work] of changes) {
    const wrong: unknown[] = []
    const end = new AbortController()
    const clients = Promise.all(Array.from({ length: CLIENTS }, async () => {
      while (!end.signal.aborted) {
        const id = next++
        const { status, body, text } = await service.post(batch(id))
        if (status === 200) acknowledged.push(id)
        if (status !== 200 || !fits(id, body)) wrong.push({ id, status, text })
      }
    }))
    for (let i = 0; i < ROUNDS; i++) {
      for (const text of work) {
        const before = acknowledged.length + wrong.length
        await until(() => acknowledged.length + wrong.length >= before + CLIENTS)
        await sql.unsafe(text)
      }
    }
    end.abort()
    await clients
    t.same(wrong.slice(0, 2), [], `${name}: ${wrong.length} batches returned unexpected rows`)
    await assertRecorded(t, sql, acknowledged)
  }
  const retries = await retriesOf(service)
  // A type that is dropped between its lookup and its use looks like a changed search_path.
  t.same(Object.keys(retries).filter(reason => !['stale_plan', 'session'].includes(reason)), [])
})

/** Statements that replace functions; those of one text are one transaction. */
const replacements = [
  `create or replace function tax(amount numeric, at jsonb) returns numeric language sql stable
    as 'select amount * 2'`,
  `create or replace function tax(amount numeric, at jsonb) returns numeric language sql stable
    as 'select amount + amount'`,
  `drop function tax(numeric, jsonb); create function tax(amount bigint, at json) returns numeric
    language plpgsql as 'begin return amount * 2; end'`,
  `drop function tax(bigint, json); create function tax(amount numeric, at jsonb) returns numeric
    language sql stable as 'select amount * 2'`,
  `create function tax(amount numeric, at jsonb, more text) returns numeric language sql
    as 'select 0'`,
  'drop function tax(numeric, jsonb, text)'
]

/** Batches of one operation each that meets what is replaced, and their rows. */
const alone = [
  [op.call('c', 'tax', { amount: 3, at: { k: [1] } }), [{ tax: 6 }]],
  [op.call('c', 'tax', { amount: '$s.0.id', at: '$s.0.id' }), [{ tax: 2 }]],
  [op.update('c', 'typed', {
    set: { code: '1', amount: '1' },
    where: { id: { eq: 1 } },
    returning: ['id']
  }), [{ id: 1 }]],
  [op.update('c', 'typed', {
    key: ['id'], values: [{ id: 2, code: '2', day: '2026-11-01' }], returning: ['id']
  }), [{ id: 2 }]]
] as const

t.test('functions and types are replaced while they are in use', async t => {
  const service = await useService(t, {
    schema: `${schema} ${replacements[0]}`,
    env: { LOG_LEVEL: 'error' }
  })
  const { database: { sql } } = service
  const [, types = []] = changes[1] ?? []
  const end = new AbortController()
  const wrong: string[] = []
  let right = 0
  const clients = Promise.all(Array.from({ length: CLIENTS }, async (_, i) => {
    while (!end.signal.aborted) {
      const [operation, rows] = alone[i % alone.length] as typeof alone[number]
      const source = op.select('s', 'typed', { where: { id: { eq: 1 } }, columns: ['id'] })
      const { status, body, text } = await service.post([source, operation])
      if (status === 200 && isDeepStrictEqual(body.data.c, rows)) right++
      else wrong.push(`${status} ${text}`)
    }
  }))
  const replace = async (texts: readonly string[]): Promise<void> => {
    for (let i = 0; i < propertyRuns(40, 300); i++) {
      const before = right + wrong.length
      await until(() => right + wrong.length > before)
      await sql.unsafe(texts[i % texts.length] as string)
    }
  }
  await Promise.all([replace(replacements), replace(types)])
  const before = right + wrong.length
  await until(() => right + wrong.length >= before + 2 * CLIENTS)
  end.abort()
  await clients
  t.same(wrong.slice(0, 3), [], `${wrong.length} of ${right + wrong.length} batches failed`)
})

t.test('a function that is replaced during each attempt is a conflict', async t => {
  const { database: { sql }, post } = await useService(t, {
    schema: `${replacements[0]};
      create view nap as select pg_sleep(0.05)::text as slept;`
  })
  const answer = post([op.select('n', 'nap'), op.call('c', 'tax', { amount: 3, at: { k: 1 } })])
  const ended = answer.then(() => true)
  let replaced = 0
  const pause = async (): Promise<boolean> => {
    await sql.unsafe(replacements[2 + replaced++ % 2] as string)
    return false
  }
  while (!await Promise.race([ended, pause()]));
  const error = { code: 'serialization_failure', committed: false, retryable: true, op: 'c' }
  t.match(await answer, { status: 409, body: { error } })
})

t.test('after DEALLOCATE ALL, the next batch is retried once', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1', LOG_LEVEL: 'error' } })
  for (const [i, retries] of [{}, {}, {}, { stale_plan: 1 }].entries()) {
    if (i === 3) t.equal((await service.post([op.insert('f', 'forget', [{ id: i }])])).status, 200)
    t.equal((await service.post(batch(i))).status, 200)
    t.same(await retriesOf(service), retries)
  }
  await assertRecorded(t, service.database.sql, [0, 1, 2, 3])
})

t.test('a batch that deallocates its own statements is retried once', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '4', LOG_LEVEL: 'error' } })
  const post = (table: string, id: number): Promise<Answer> =>
    service.post([op.insert('i', table, [{ id }]), op.select('s', 'wide', { limit: 1 })])
  // All connections prepare the select.
  for (let round = 0; round < 4; round++) {
    await Promise.all(Array.from({ length: 16 }, (_, i) => post('last', 16 * round + i)))
  }
  const before = await retriesOf(service)
  t.equal((await post('forget', 1)).status, 200)
  t.same(await retriesOf(service), { ...before, stale_plan: (before['stale_plan'] ?? 0) + 1 })
})
