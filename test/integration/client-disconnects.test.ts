/**
 * Tests clients that disconnect at every stage of a batch. A batch that was not sent to PostgreSQL
 * is cancelled, a batch that was sent completes. The log states which, and nothing stays held.
 * admission.test.ts counts the bytes of such requests, test/e2e/stop.test.ts stops the service.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { clientClosed } from '../../plugins/routes/respond.ts'
import { LOGIN_ROLE, type Database } from '../support/database/database.ts'
import { countSessions, holdRow } from '../support/database/hold.ts'
import { moodySchema } from '../support/database/triggers.ts'
import { useListener } from '../support/network/listen.ts'
import { untilQuiet, useProxy, type Proxy } from '../support/network/proxy.ts'
import { ask, gauge, postUnread, useService, type ServiceUnderTest } from '../support/service.ts'
import { insert, select, update } from '../support/operations.ts'
import { failed, headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'
import { resetSocket } from '../support/network/reset.ts'
import { dial, request } from '../support/network/wire.ts'

const schema = `
  create table slots (id int primary key, n int not null default 0);
  insert into slots values (0);
  create table entries (id int generated always as identity primary key, note text);
  ${moodySchema}
  create trigger moody before insert on moody for each row execute function moody();
  create view here as select pg_backend_pid()::text as pid;
  create view big as select repeat('x', 4000) as x from generate_series(1, 10000);`

const headers = headersOfBatch
const add = (note = 'disconnected'): object[] => [insert('a', 'entries', [{ note }])]
const touch = (note = 'disconnected'): object[] =>
  [...add(note), update('t', 'slots', { set: { n: { $inc: 1 } }, where: { id: { eq: 0 } } })]

/** A client that has sent its batch. `leave` resets the connection, or ends it with a FIN. */
interface Client {
  leave(how?: 'reset' | 'end'): void
}

async function send (
  service: ServiceUnderTest,
  batch: unknown,
  id: string,
  more: Readonly<Record<string, string>> = {}
): Promise<Client> {
  const { socket, ...line } = await dial(service.url)
  line.send(request('POST', '/', headers({ 'x-request-id': id, ...more }), JSON.stringify(batch)))
  return {
    leave: how => {
      how === 'end' ? socket.end() : resetSocket(socket)
    }
  }
}

const logged = ({ log }: ServiceUnderTest, id: string): ServiceUnderTest['log'] =>
  log.filter(({ request_id: logged }) => logged === id)

async function assertLogLine (
  t: Test,
  service: ServiceUnderTest,
  id: string,
  expected: object
): Promise<void> {
  await until(() => logged(service, id).length > 0)
  t.match(logged(service, id), [expected], id)
  t.equal(logged(service, id).length, 1, `${id}: one line`)
}

/**
 * Waits until the service is idle: no running or queued batch, no open transaction and no lock. Its
 * answer to a new connection shows that it has accepted those before it.
 */
async function waitUntilIdle (t: Test, service: ServiceUnderTest): Promise<void> {
  const { sql, name } = service.database
  await ask(`${service.url}/health`)
  await until(async () =>
    await gauge(service, 'service_pool_connections_busy') === 0 &&
    await gauge(service, 'service_pool_waiting') === 0 &&
    await countSessions(service.database, "state <> 'idle'") === 0 &&
    (await sql`select from pg_locks as l join pg_stat_activity as a using (pid)
      where a.datname = ${name} and a.usename = ${LOGIN_ROLE}
      and locktype in ('transactionid', 'tuple', 'advisory')`).length === 0
  )
  t.pass('no transaction is open and no lock is held')
}

const notes = async ({ sql }: Database): Promise<readonly string[]> =>
  (await sql`select note from entries order by id`).map(({ note }) => note as string)

/**
 * Waits until the service has processed the earlier events of its other connections. It processes
 * events in order.
 */
async function waitForEvents ({ url }: ServiceUnderTest): Promise<void> {
  for (let i = 0; i < 3; i++) await ask(`${url}/nothing`)
}

/** Delivers everything that the proxy held back to the service. */
function release (proxy: Proxy): void {
  proxy.deliver = ({ held }) => held.length
  for (const link of proxy.links) {
    const { held } = link
    Object.assign(link, { held: Buffer.alloc(0), sent: Buffer.alloc(0) })
    link.client.write(held)
  }
}

const cancelled = { status: 499, code: 'client_closed_request', level: 30 }

t.test('a disconnect in the queue cancels the batch', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { POOL_SIZE: '1', QUEUE_SIZE: '10', QUEUE_TIMEOUT_MS: '60000' }
  })
  const slot = await holdRow(service.database)
  const running = service.post(touch('stays'))
  await slot.awaited()
  const all = ['reset', 'end', 'reset'] as const
  const clients = await Promise.all(
    all.map((_, i) => send(service, add(), `q${i}`, i === 2 ? { 'idempotency-key': 'k' } : {}))
  )
  await until(async () => await gauge(service, 'service_pool_waiting') === 3)
  for (const [i, client] of clients.entries()) client.leave(all[i])
  for (const i of all.keys()) await assertLogLine(t, service, `q${i}`, cancelled)
  await until(async () => await gauge(service, 'service_pool_waiting') === 0)
  t.comment('the running batch still runs: the queue was not emptied by a free connection')
  t.equal(await gauge(service, 'service_pool_connections_busy'), 1)
  await slot.free()
  t.equal((await running).status, 200)
  await waitUntilIdle(t, service)
  t.same(await notes(service.database), ['stays'])
  t.equal(
    (await service.post(add('next'), { headers: { 'idempotency-key': 'k' } })).status,
    200,
    'its idempotency key is free'
  )
})

t.test('a disconnect in the pause before a retry cancels the batch', async t => {
  const service = await useService(t, { schema, keys: true })
  const { sql } = service.database
  // Use the longest retry pauses, one second in total.
  t.intercept(Math, 'random', { value: () => 0.99 })
  for (const [id, more] of [['pause', {}], ['pause-key', { 'idempotency-key': 'k' }]] as const) {
    await sql`select setval('tries', 1, false)`
    const client = await send(
      service,
      [...add(), insert('m', 'moody', [{ times: 99 }])],
      id,
      more
    )
    await until(async () => (await sql`select from tries where last_value >= 5`).length === 1)
    client.leave()
    await assertLogLine(t, service, id, cancelled)
    await waitUntilIdle(t, service)
    const [tries] = await sql`select last_value::int as n from tries`
    t.ok((tries?.['n'] as number) < 10, `${tries?.['n']} attempts of ten`)
  }
  t.same(await notes(service.database), [])
})

t.test('a disconnect at BEGIN cancels the batch and keeps the connection', async t => {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  const service = await useService(t, {
    schema, env: { POOL_SIZE: '1' }, databaseUrl: proxy.through
  })
  const backendPid = async (note: string): Promise<unknown> =>
    (await service.post([...add(note), select('here', 'here')])).body.data.here
  const before = await backendPid('before')
  await waitUntilIdle(t, service)
  // BEGIN is then sent first.
  await untilQuiet(proxy)
  proxy.deliver = ({ sent, held }) => sent.includes('begin isolation') ? 0 : held.length
  const client = await send(service, add(), 'begin')
  await until(() =>
    [...proxy.links].some(({ sent, held }) => sent.includes('begin isolation') && held.length > 0)
  )
  client.leave()
  await waitForEvents(service)
  t.same(logged(service, 'begin'), [], 'the connection is not free yet')
  release(proxy)
  await assertLogLine(t, service, 'begin', cancelled)
  await waitUntilIdle(t, service)
  t.same(await notes(service.database), ['before'])
  t.same(await backendPid('after'), before, 'the same connection')
})

t.test('a batch that waits for a lock completes, and its key replays the response', async t => {
  const service = await useService(t, { schema, keys: true })
  const slot = await holdRow(service.database)
  const key = { 'idempotency-key': 'k' }
  const client = await send(service, touch('sent'), 'lock', key)
  await slot.awaited()
  client.leave()
  const still = await service.post(touch('sent'), { headers: key })
  t.match(still, failed(409, 'idempotency_key_in_progress'), 'it still runs')
  await slot.free()
  await assertLogLine(t, service, 'lock', { status: 200, operations: 2 })
  const again = await service.post(touch('sent'), { headers: key })
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  t.match([again.status, again.body.data?.t], [200, [{ id: 0, n: 1 }]])
  await waitUntilIdle(t, service)
  t.same(await notes(service.database), ['sent'])
})

t.test('a disconnect during a large response leaves the batch committed', async t => {
  const service = await useService(t, { schema })
  const batch = JSON.stringify([...add('large'), select('b', 'big')])
  const response = await postUnread(service.url, headers({ 'x-request-id': 'large' }), batch)
  await once(response, 'readable')
  t.ok(response.read(1000))
  await waitUntilIdle(t, service)
  t.comment('the database connection is free although the client has not read the response')
  response.destroy()
  await assertLogLine(t, service, 'large', { status: 200, operations: 2 })
  t.same(await notes(service.database), ['large'])
})

t.test('a client may have left while its batch was planned', async t => {
  const server = createServer()
  const port = await useListener(t, server)
  const { socket } = await dial(`http://127.0.0.1:${port}`, request('GET', '/'))
  const [, raw] = await once(server, 'request')
  const noticed = clientClosed({ raw })
  t.equal(noticed.aborted, false)
  socket.destroy()
  await once(raw, 'close')
  t.equal(noticed.aborted, true)
  t.equal(clientClosed({ raw }).aborted, true, 'it had left before')
})
