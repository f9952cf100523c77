/**
 * Tests three instances behind haproxy with the shipped configuration. Under load one instance is
 * killed and one stopped; every batch must be applied exactly once, and a graceful stop must cause
 * no error. Errors of haproxy must have the format of the service.
 */
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { Value } from '@sinclair/typebox/value'
import t, { type Test } from 'tap'
import { ErrorEnvelope } from '../../schemas/error.ts'
import { configItems } from '../../schemas/config.ts'
import { useDatabase } from '../support/database/database.ts'
import { untilSessions } from '../support/database/hold.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { haproxy, startBalancer, startInstance, type Balancer } from '../support/network/haproxy.ts'
import {
  auditKeyed,
  ledgerSchema,
  move,
  startKeyedLoad,
  type KeyedLoad
} from '../support/ledger.ts'
import { needs } from '../support/process/programs.ts'
import { ask, type Answer } from '../support/service.ts'
import { bearer, headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const schema = `${ledgerSchema}
  create view nap as select pg_sleep(60)::text as slept;`

const authorization = bearer({ sub: 'client' })

/**
 * Posts a batch. Undefined: the connection closed before the response, so the outcome is unknown.
 */
async function post (
  url: string,
  batch: readonly object[],
  headers: Readonly<Record<string, string>> = {}
): Promise<Answer | undefined> {
  return await ask(url, {
    method: 'POST',
    headers: headersOfBatch({ authorization, ...headers }),
    body: JSON.stringify(batch)
  }).catch(() => undefined)
}

/** Starts clients with kept connections, whose keys begin with `name`. */
function startClients ({ url }: Balancer, clients: number, name?: string): KeyedLoad {
  return startKeyedLoad(
    clients,
    (batch, headers) => post(url, batch, { connection: 'keep-alive', ...headers }),
    name
  )
}

/** Starts one instance, which haproxy takes for three. */
async function useOne (t: Test, change?: (config: string) => string) {
  const database = await useDatabase(t, { schema })
  const instance = await startInstance(t, database.loginUrl)
  return { database, instance, balancer: await startBalancer(t, Array(3).fill(instance), change) }
}

t.test(...needs('a stopped and a killed instance lose no batch', { haproxy }), async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const instances = await Promise.all(
    Array.from({ length: 3 }, () => startInstance(t, database.loginUrl, { LOG_LEVEL: 'info' }))
  )
  const [killed, stopped] = instances
  const balancer = await startBalancer(t, instances)
  const load = startClients(balancer, 12)
  await load.more(600)

  t.equal(await stopped?.end('SIGTERM'), 0)
  const afterStop = { ...load.codes }
  await until(async () => (await balancer.states())['oneflight-2'] === 'DOWN')
  await load.more(300)
  await killed?.end('SIGKILL')
  await until(async () => (await balancer.states())['oneflight-1'] === 'DOWN')
  await load.more(300)
  t.same(Object.keys(afterStop), ['ok'], 'the graceful stop causes no error')
  await auditKeyed(t, database.sql, load)
  const served = instances.map(({ output }) =>
    output().split('\n').filter(line => line.includes('"request completed"')).length
  )
  t.ok(served.every(n => n > 100), `every instance serves requests: ${served.join(', ')}`)
})

t.test(...needs('a rolling restart causes no error', { haproxy }), async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const [first, second] = await Promise.all([
    startInstance(t, database.loginUrl),
    startInstance(t, database.loginUrl)
  ])
  // One balancer keeps connections to instances, the other opens one for each request. The second
  // tests connections that the kernel accepted for an instance that is about to stop.
  const balancers = [
    await startBalancer(t, [first, second, first]),
    await startBalancer(
      t,
      [first, second, first],
      config => config.replace(/^ +mode http$/m, '$&\n  option http-server-close')
    )
  ]
  const loads = balancers.map((balancer, i) => startClients(balancer, 6, `client-${i}`))
  const state = (name: string): Promise<unknown> =>
    Promise.all(
      balancers.map(balancer => until(async () =>
        (await balancer.states())['oneflight-2'] === name)
      )
    )
  const waitForAll = (n: number): Promise<unknown> =>
    Promise.all(loads.map(load => load.more(n)))
  await waitForAll(200)
  // The instance restarts at its old address.
  const { port } = new URL(second.url)
  const adminPort = new URL(second.adminUrl).port
  await second.end('SIGTERM')
  await state('DOWN')
  await startInstance(t, database.loginUrl, { HTTP_PORT: port, ADMIN_HTTP_PORT: adminPort })
  await state('UP')
  await waitForAll(200)
  for (const load of loads) t.same({ ok: await load.stop() }, load.codes)
})

t.test(...needs('the limits of the page on security hold per address', { haproxy }), async t => {
  const page = readFileSync(new URL('../../docs/operations/security.md', import.meta.url), 'utf8')
  const limits = /^```\n( +stick-table [^]*?)```$/m.exec(page)?.[1] as string
  const { balancer } = await useOne(t, config =>
    config.replace('\nbackend instances', `${limits}$&`))
  const { hostname, port } = new URL(balancer.url)
  const open = (): Socket => connect(Number(port), hostname).on('error', () => {})
  const sockets = Array.from({ length: 30 }, open)
  const closed = new Set<Socket>()
  for (const socket of sockets) socket.on('close', () => closed.add(socket)).resume()
  await until(() => closed.size >= 10)
  t.equal(closed.size, 10, 'connections within the limit stay open')
  for (const socket of sockets) socket.destroy()
  await until(async () => await post(balancer.url, []) !== undefined)

  // One after the other on one connection, so that they take less than ten seconds.
  const sender = open()
  let received = ''
  sender.on('data', (bytes: Buffer) => {
    received += bytes.toString()
  })
  sender.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n[]'.repeat(1010))
  const count = (status: number): number => received.split(`HTTP/1.1 ${status} `).length - 1
  await until(() => count(415) + count(503) === 1010)
  sender.destroy()
  t.ok(count(503) > 0 && count(415) >= 900, `${count(415)} requests within the limit are passed on`)
  const refused = await post(balancer.url, [])
  t.same([refused?.headers.get('retry-after'), refused?.body.error.code], ['1', 'overloaded'])
  t.ok(Value.Check(ErrorEnvelope, refused?.body))
})

t.test(...needs('errors of haproxy have the format of the service', { haproxy }), async t => {
  const { database, instance, balancer } = await useOne(t)
  const nap = [
    { id: 'm', op: 'insert', table: 'moves', values: [{ id: 1 }] },
    { id: 'p', op: 'select', table: 'nap' }
  ]

  await t.test('a valid request id is passed on, an invalid one replaced', async t => {
    const given = await post(balancer.url, move(0), { 'x-request-id': 'order-17' })
    t.match([given?.status, given?.headers.get('x-request-id')], [200, 'order-17'])
    const unsafe = await post(balancer.url, move(0), { 'x-request-id': 'order "17"' })
    const id = unsafe?.headers.get('x-request-id')
    t.match(id, /^[0-9a-f-]{36}$/)
    await until(() => balancer.output().includes(`"request_id":"${id}"`))
    // Both logs contain the id.
    await until(() => instance.output().includes(`"request_id":"${id}"`))
    const refused = await post(balancer.url, [])
    t.match(refused?.body.error, {
      code: 'body_empty',
      request_id: refused?.headers.get('x-request-id')
    })
  })

  await t.test('responses of the service are not changed', async t => {
    await database.sql.unsafe(`
      create function choose() returns trigger language plpgsql as $$
        begin raise exception sqlstate 'PT502' using message = 'chosen'; end $$;
      create table chosen (id int);
      create trigger choose before insert on chosen for each row execute function choose()`)
    t.match(
      await post(balancer.url, [{ id: 'c', op: 'insert', table: 'chosen', values: [{ id: 1 }] }]),
      { status: 502, body: { error: { message: 'chosen', committed: false } } }
    )
  })

  await t.test('an instance that is killed during a batch yields commit_unknown', async t => {
    const answer = post(balancer.url, nap, { 'x-request-id': 'lost' })
    await untilSessions(database, 1, "wait_event = 'PgSleep'")
    await instance.end('SIGKILL')
    const response = await answer
    t.match(response, {
      status: 500,
      body: {
        error: { code: 'commit_unknown', committed: 'unknown', request_id: 'lost' },
        data: null
      }
    })
    t.equal(response?.headers.get('x-request-id'), 'lost')
    t.ok(Value.Check(ErrorEnvelope, response?.body))
  })

  await t.test('no available instance yields database_unavailable', async t => {
    await until(async () => Object.values(await balancer.states()).every(state => state === 'DOWN'))
    const response = await post(balancer.url, move(1), { 'x-request-id': 'nobody' })
    t.match(response, {
      status: 503,
      body: {
        error: {
          code: 'database_unavailable',
          committed: false,
          retryable: true,
          request_id: 'nobody'
        },
        data: null
      }
    })
    t.equal(response?.headers.get('retry-after'), '1')
    t.ok(Value.Check(ErrorEnvelope, response?.body))
  })

  await t.test('haproxy exports metrics for Prometheus', async t => {
    t.match(
      (await ask(`${balancer.statsUrl}/metrics`)).text,
      /^haproxy_backend_active_servers\{proxy="instances"\} 0$/m
    )
  })
})

t.test(...needs('a response timeout yields commit_unknown', { haproxy }), async t => {
  const { instance, balancer } = await useOne(t, config =>
    config.replace('timeout server 35s', 'timeout server 300ms'))
  const response = await post(balancer.url, [{ id: 'p', op: 'select', table: 'nap' }], {
    'x-request-id': 'late'
  })
  t.match(response, {
    status: 500,
    body: { error: { code: 'commit_unknown', committed: 'unknown', request_id: 'late' } }
  })
  const served = instance.output().split('\n').filter(line =>
    line.includes('"request_id":"late"')
  ).length
  t.ok(served <= 1, 'the batch is sent once')
})

t.test('the timeouts of haproxy exceed the defaults of the service', async t => {
  const text = readFileSync(new URL('../../deploy/haproxy/haproxy.cfg', import.meta.url), 'utf8')
  const seconds = (name: string): number =>
    Number(new RegExp(`^ +${name} (\\d+)s$`, 'm').exec(text)?.[1])
  const request = Number(configItems.find(([name]) => name === 'REQUEST_TIMEOUT_MS')?.[1].default) /
    1000
  for (const name of ['timeout server', 'timeout client', 'hard-stop-after']) {
    t.ok(seconds(name) > request, `${name}: ${seconds(name)} s`)
  }
  t.ok(seconds('timeout http-keep-alive') < 72)
  t.match(text, /^ +retry-on conn-failure$/m, 'only failed connection attempts are retried')
  t.match(text, /^ +option redispatch 1$/m)
})
