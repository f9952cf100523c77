/**
 * Runs batches on a Citus cluster, on the shop of deploy/citus, and compares their answers with
 * those of PostgreSQL on the same tables. Needs CITUS_URL, the URL of a superuser on a coordinator
 * with workers.
 */
import postgres from 'postgres'
import t from 'tap'
import { needsCitus } from '../support/database/citus.ts'
import { acme, compareShops, useShop } from '../support/distributed-shop.ts'
import * as op from '../support/operations.ts'
import { retriesOf, type Answer } from '../support/service.ts'
import { headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

// Each test creates a database on three servers.
t.setTimeout(180_000)

t.test('batches have the answers of PostgreSQL', needsCitus, async t => {
  await compareShops(t, await useShop(t, 'citus'), await useShop(t, 'postgresql'))
})

t.test('a policy never opens', needsCitus, async t => {
  const { as, database: { sql } } = await useShop(t, 'citus')
  const event = (tenant: string, id: number): object => ({ tenant, id, note: 'kept' })
  const values = ['a', 'b', 'c', 'd', 'e'].map((tenant, id) => event(tenant, id))
  t.equal((await as({ tier: 'gold' }, [insert(values)])).status, 200)
  const guest = { tier: 'guest' }
  const ofOne = { tenant: { eq: 'a' } }
  const ofAll = { id: { gte: 0 } }
  const set = { note: 'stolen' }
  const batches = [
    [select({})],
    [select(ofOne)],
    [select(ofAll)],
    [{ ...select({}), columns: [{ fn: 'max', column: 'note' }], group_by: ['tenant'] }],
    // PostgreSQL reads a view as its owner.
    [{ ...select({}), table: 'all_events' }],
    [{ ...select(ofOne), table: 'all_events' }],
    [{ id: 'e', op: 'update', table: 'events', set, where: ofOne }],
    [{ id: 'e', op: 'update', table: 'events', set, where: ofAll }],
    [{ id: 'e', op: 'delete', table: 'events', where: ofOne }],
    [{ id: 'e', op: 'delete', table: 'events', where: ofAll }],
    [op.update('e', 'events', {
      key: ['tenant', 'id'],
      values: [{ tenant: 'a', id: 0, note: 'stolen' }, { tenant: 'b', id: 1, note: 'stolen' }]
    })],
    // The claims change within the batch.
    [{ id: 'f', op: 'call', function: 'become_gold' }, select({})],
    [{ id: 'f', op: 'call', function: 'become_gold' }, select(ofOne)],
    [{ id: 'f', op: 'call', function: 'read_outside' }, select({})],
    [{ id: 'f', op: 'call', function: 'read_outside' }, select(ofOne)]
  ]
  for (const round of [1, 2, 3]) {
    for (const batch of batches) {
      const { body, text } = await as(guest, batch)
      t.same(body.data?.e, [], `${JSON.stringify(batch)}, round ${round}: ${text}`)
    }
    const refused = await as(guest, [insert([event('f', 9)])])
    t.equal(refused.body.error?.code, 'insufficient_privilege')
    const stored = await sql`select distinct note, count(*)::int as n from events group by note`
    t.same([...stored], [{ note: 'kept', n: 5 }])
  }
})

function insert (values: readonly object[]): object {
  return { id: 'e', op: 'insert', table: 'events', values }
}

function select (where: object): object {
  return { id: 'e', op: 'select', table: 'events', where }
}

t.test('a batch with a key is stored once, in two phases', needsCitus, async t => {
  const { as, database: { sql } } = await useShop(t, 'citus')
  await sql`insert into stock values ('acme', 'apple', 1, 0)`
  const where = { tenant: { eq: 'acme' } }
  const batch = [{ id: 'u', op: 'update', table: 'stock', set: { qty: { $inc: 1 } }, where }]
  const commits = async (): Promise<ReadonlySet<unknown>> =>
    new Set((await sql`select gid from pg_dist_transaction`).map(({ gid }) => gid))
  const prepares = async (headers: Readonly<Record<string, string>>): Promise<boolean> => {
    const before = await commits()
    const first = await as(acme, batch, headers)
    t.equal(first.status, 200, first.text)
    const after = await commits()
    if (headers['idempotency-key'] !== undefined) {
      t.equal((await as(acme, batch, headers)).text, first.text)
    }
    return !after.isSubsetOf(before)
  }
  t.equal(await prepares({}), false, 'one worker commits in one phase')
  t.equal(await prepares({ 'idempotency-key': 'once' }), true, 'with the coordinator in two')
  t.same([...await sql`select qty from stock`], [{ qty: 2 }])
})

t.test('many rows are returned in their order', needsCitus, async t => {
  const { as } = await useShop(t, 'citus')
  const rows = (tenants: number): object[] =>
    Array.from({ length: 1000 }, (_, i) => ({ tenant: `t${i % tenants}`, id: 5000 - i, note: '' }))
  const clear = { id: 'd', op: 'delete', table: 'events', all: true, returning: [] }
  for (const round of [1, 2, 3]) {
    const { body, text } = await as({}, [insert(rows(1)), clear])
    t.match(body.data?.e, rows(1), `${text.slice(0, 300)}, round ${round}`)
    t.match((await as({}, [insert(rows(7)), clear])).body.data?.e, rows(7))
    t.match((await as({}, [{ ...insert(rows(7)), returning: [] }])).body.data, { e: [] })
    t.equal((await as({}, [clear])).status, 200)
  }
  const notes = Array.from({ length: 30 }, (_, i) => ({ id: 30 - i, note: `n${i}` }))
  const inserted = await as({}, [{ id: 'n', op: 'insert', table: 'notes', values: notes }])
  t.same(inserted.body.data?.n, notes, 'a table of the coordinator')
})

t.test('rows are streamed from one worker and from all', needsCitus, async t => {
  const { url, database: { sql } } = await useShop(t, 'citus', { MAX_STREAM_ROWS: '5000' })
  await sql`insert into events select 't' || i % 7, i, 'note' from generate_series(1, 3000) i`
  const ofOne = { tenant: { eq: 't1' } }
  const order = [{ id: 'asc' }]
  const notes = {
    table: 'events',
    on: { tenant: 'tenant', id: 'id' },
    columns: ['note'],
    one: true
  }
  for (const members of [
    {}, { order }, { where: ofOne }, { where: ofOne, order }, { columns: ['id'], order },
    { columns: ['tenant', { fn: 'count' }], group_by: ['tenant'], order: [{ tenant: 'asc' }] },
    { columns: ['id'], where: ofOne, order, with: { notes } }, { table: 'all_events', order }
  ]) {
    const ask = async (accept: string): Promise<string> => {
      const response = await fetch(url, {
        method: 'POST',
        headers: headersOfBatch({ accept, connection: 'close' }),
        body: JSON.stringify([{ ...select({}), limit: 5000, ...members }])
      })
      return await response.text()
    }
    const rows = JSON.parse(await ask('application/json')).data.e as readonly object[]
    const lines = (await ask('application/x-ndjson')).trimEnd().split('\n')
    const name = JSON.stringify(members)
    t.equal(lines.pop(), `{"error":null,"data":{"e":${rows.length}}}`, name)
    const read = lines.map(line => JSON.parse(line))
    const sorted = (all: readonly object[]) => all.map(row => JSON.stringify(row)).sort()
    t.same('order' in members ? read : sorted(read), 'order' in members ? rows : sorted(rows), name)
  }
})

t.test('a commit is in doubt if its worker commits and does not answer', needsCitus, async t => {
  const { as, database: { sql, url } } = await useShop(t, 'citus')
  await sql`insert into events values ('a', 1, 'before')`
  const [placement] = await sql`select nodeport from pg_dist_shard_placement
    where shardid = get_shard_id_for_distribution_column('events', 'a')`
  const worker = postgres(Object.assign(new URL(url), { port: placement?.['nodeport'] }).href)
  t.teardown(() => worker.end())
  // COMMIT then waits, after the transaction is durable.
  const waitFor = async (standbys: string): Promise<void> => {
    await worker.unsafe(`alter system set synchronous_standby_names = '${standbys}'`)
    await worker`select pg_reload_conf()`
  }
  await waitFor('missing')
  t.teardown(() => waitFor(''))
  const where = { tenant: { eq: 'a' } }
  const answer = as({}, [{ id: 'e', op: 'update', table: 'events', set: { note: 'after' }, where }])
  await until(async () => (await worker`select pg_terminate_backend(pid) from pg_stat_activity
    where wait_event = 'SyncRep' and datname = current_database()`).length > 0)
  t.match((await answer).body.error, { code: 'commit_unknown', committed: 'unknown' })
  t.same([...await sql`select note from events`], [{ note: 'after' }], 'it is committed')
})

t.test('timeouts and the time zone reach the workers', needsCitus, async t => {
  const { as, database: { sql, name } } = await useShop(t, 'citus', { LOCK_TIMEOUT_MS: '100' })
  const zone = `alter database ${name} set timezone to 'Asia/Tokyo'`
  await sql`select run_command_on_workers(${zone})`
  const at = '2026-01-02T03:04:05Z'
  const ofA = { tenant: { eq: 'a' } }
  t.equal((await as({}, [insert([{ tenant: 'a', id: 1, at }])])).status, 200)
  t.match(await as({}, [{ ...select(ofA), columns: [{ column: 'at', cast: 'text' }] }]), {
    body: { data: { e: [{ at: '2026-01-02 03:04:05+00' }] } }
  })
  await sql.begin(async sql => {
    await sql`update events set note = 'locked' where tenant = 'a'`
    const set = { note: 'late' }
    t.match(await as({}, [{ id: 'e', op: 'update', table: 'events', set, where: ofA }]), {
      body: { error: { code: 'lock_not_available', committed: false } }
    })
  })
})

t.test('a deadlock over several workers is retried', needsCitus, async t => {
  const { as, adminUrl, database: { sql } } = await useShop(t, 'citus')
  const values = ['a', 'b', 'c', 'd'].map((tenant, id) => ({ tenant, id, note: '' }))
  t.equal((await as({}, [insert(values)])).status, 200)
  const change = (tenant: string): object => op.update(tenant, 'events', {
    set: { note: 'batch' }, where: { tenant: { eq: tenant } }
  })
  let answer: Promise<Answer> | undefined
  await sql.begin(async sql => {
    await sql`update events set note = 'first' where tenant = 'a'`
    answer = as({}, [change('b'), change('a')])
    await until(async () => (await sql`select from citus_lock_waits`).length > 0)
    // Citus cancels the younger of the two transactions.
    await sql`update events set note = 'first' where tenant = 'b'`
  })
  t.equal((await answer)?.status, 200)
  t.same([...await sql`select distinct note from events where note <> ''`], [{ note: 'batch' }])
  t.match(await retriesOf({ adminUrl }), { deadlock_detected: 1 })
})
