/**
 * Tests admission: while the queue is full, the service refuses a batch after reading its headers
 * and before its body. The bytes that requests and responses hold are limited and released.
 * test/experiments/overload measures how fast refusals are, pool.test.ts tests the pool itself.
 */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import t, { type Test } from 'tap'
import { hold, set, useJwksServer } from '../support/network/jwks-server.ts'
import { keyPair, makeToken, publicJwk } from '../support/keys.ts'
import { holdRow } from '../support/database/hold.ts'
import {
  answering,
  ask,
  gauge,
  postUnread,
  useService,
  type ServiceUnderTest
} from '../support/service.ts'
import { insert, select, update } from '../support/operations.ts'
import { failed, headersOfBatch } from '../support/shorthand.ts'
import { moodySchema } from '../support/database/triggers.ts'
import { until } from '../support/until.ts'
import { resetSocket } from '../support/network/reset.ts'
import { chunk, dial, exchange, request, speak, type Line } from '../support/network/wire.ts'

const schema = `
  create table slots (id int primary key, n int not null default 0);
  insert into slots values (0), (1);
  create table entries (id int generated always as identity primary key, note text);
  ${moodySchema}
  create trigger moody before insert on moody for each row execute function moody();
  create view big as select repeat('x', 4000) as x from generate_series(1, 10000);`

const headers = headersOfBatch
/** The headers of a batch, without the body. */
const announce = (more: Readonly<Record<string, string>>): string =>
  request('POST', '/', headers(more))
/** A batch on a connection that the service closes afterwards. */
const closing = (body: string, more: Readonly<Record<string, string>> = {}): string =>
  request('POST', '/', headers({ connection: 'close', ...more }), body)
const touch = [update('t', 'slots', { set: { n: { $inc: 1 } }, where: { id: { eq: 0 } } })]
const add = [insert('a', 'entries', [{}])]
const text = JSON.stringify(add)

const waiting = async (service: ServiceUnderTest, batches: number): Promise<unknown> =>
  until(async () => await gauge(service, 'service_pool_waiting') === batches)

const overloaded = {
  status: 503,
  headers: { 'retry-after': '1' },
  body: { error: { type: 'service_error', code: 'overloaded', committed: false }, data: null }
}

t.test('with one connection and a queue of one, both taken', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { POOL_SIZE: '1', QUEUE_SIZE: '1', QUEUE_TIMEOUT_MS: '60000', MAX_BODY_BYTES: '1000' }
  })
  const slot = await holdRow(service.database)
  const first = service.post(touch)
  await slot.awaited()
  const admitted = [first, service.post(touch)]
  await waiting(service, 1)

  await t.test('a batch is refused before its body is read', async t => {
    const line = await dial(service.url)
    line.send(announce({ 'content-length': '100', 'x-request-id': 'mine' }))
    t.match(await line.answers(1), [{
      ...overloaded,
      headers: { 'retry-after': '1', 'x-request-id': 'mine' },
      body: { error: { request_id: 'mine' } }
    }], 'refused although no byte of the body was sent')
    line.send('x'.repeat(100) + request('GET', '/health'))
    t.match(
      await line.answers(2),
      [overloaded, { status: 200 }],
      'the connection stays usable after the body'
    )
    line.socket.destroy()

    const requests = [
      closing('[{'),
      announce({ 'transfer-encoding': 'chunked', connection: 'close' }) + chunk('['),
      closing(text, { 'idempotency-key': 'k', prefer: 'tx=rollback' }),
      announce({ 'content-length': '100', expect: '100-continue', connection: 'close' })
    ]
    for (const bytes of requests) t.match(await exchange(service.url, bytes), overloaded, bytes)
    const invalid = closing(text, { prefer: 'tx=now' })
    t.match(await exchange(service.url, invalid), failed(400, 'prefer_invalid'))
    await until(() =>
      service.log.filter(({ code }) => code === 'overloaded').length === requests.length + 1
    )
    t.match(service.log.filter(({ request_id: id }) => id === 'mine'), [
      { status: 503, code: 'overloaded', path: '/' }
    ])
  })

  await t.test('health, liveness, readiness and metrics respond at once', async t => {
    const paths = [
      `${service.url}/health`,
      ...['live', 'ready', 'metrics', 'config'].map(path => `${service.adminUrl}/${path}`)
    ]
    t.same(await Promise.all(paths.map(async path => (await ask(path)).status)), Array(5).fill(200))
    const gauges = ['service_pool_connections_busy', 'service_pool_waiting']
    const full = await Promise.all(gauges.map(name => gauge(service, name)))
    t.same(full, [1, 1], 'still full')
  })

  await slot.free()
  t.match(await Promise.all(admitted), [{ status: 200 }, { status: 200 }], 'they succeed')
  t.same(await service.database.sql`select from entries`, [], 'refused batches have no effect')
  t.equal((await service.post(add)).status, 200)
})

t.test('a batch is refused if the queue fills while its body arrives', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '1', QUEUE_SIZE: '0' } })
  const line = await dial(service.url)
  line.send(announce({ 'content-length': String(text.length), expect: '100-continue' }))
  t.match(await line.answers(1), [{ status: 100 }], 'admitted')
  const slot = await holdRow(service.database)
  const first = service.post(touch)
  await slot.awaited()
  line.send(text)
  t.match(await line.answers(2), [{ status: 100 }, overloaded])
  line.socket.destroy()
  await slot.free()
  t.equal((await first).status, 200)
  t.same(await service.database.sql`select from entries`, [])
})

t.test('a batch that is retried is not refused by a full queue', async t => {
  const service = await useService(t, {
    schema,
    env: { POOL_SIZE: '1', QUEUE_SIZE: '0', QUEUE_TIMEOUT_MS: '60000' }
  })
  // Use the longest retry pauses, one second in total. During a pause another batch takes the
  // connection.
  t.intercept(Math, 'random', { value: () => 0.99 })
  const slot = await holdRow(service.database)
  const retried = service.post([insert('m', 'moody', [{ times: 9 }])])
  await until(async () =>
    (await service.database.sql`select from tries where is_called`).length === 1
  )
  let occupying: Promise<unknown> | undefined
  while (occupying === undefined) {
    const attempt = service.post(touch)
    const outcome = attempt.then(({ status }) => status)
    const first = await Promise.race([outcome, slot.awaited().then(() => 'runs')])
    if (first === 'runs') occupying = outcome
  }
  await waiting(service, 1)
  t.comment('the retried batch waits although QUEUE_SIZE is 0')
  t.match(await service.post(add), failed(503, 'overloaded'), 'a new batch is refused')
  await slot.free()
  t.equal(await occupying, 200)
  t.equal((await retried).status, 200)
  t.same(await service.database.sql`select last_value::int as n from tries`, [{ n: 10 }])
})

const MOST = 1000
const bytesEnv = {
  MAX_BODY_BYTES: String(MOST),
  MAX_BYTES_IN_FLIGHT: String(MOST),
  REQUEST_TIMEOUT_MS: '20000'
}

/**
 * Announces a body of `bytes` bytes and leaves the connection open. `taken` is true if the service
 * responds with 100 Continue.
 */
async function offer (
  service: ServiceUnderTest,
  bytes: number | 'unknown',
  more: Readonly<Record<string, string>> = {}
): Promise<{ readonly line: Line, readonly taken: boolean }> {
  const line = await dial(service.url)
  line.send(
    announce({
      ...(bytes === 'unknown'
        ? { 'transfer-encoding': 'chunked' }
        : { 'content-length': String(bytes) }),
      expect: '100-continue',
      ...more
    })
  )
  const [response] = await line.answers(1)
  if (response?.status !== 100 && response?.body.error.code !== 'overloaded') {
    throw new Error(`neither 100 Continue nor a refusal: ${response?.text}`)
  }
  return { line, taken: response.status === 100 }
}

/** Returns whether a body of this length is accepted, and sends such a body. */
async function fits (service: ServiceUnderTest, bytes: number): Promise<boolean> {
  const { line, taken } = await offer(service, bytes, { connection: 'close' })
  if (taken) {
    line.send('[]'.padEnd(bytes))
    await line.answers(2)
  }
  line.socket.destroy()
  return taken
}

/** Asserts that no bytes are held: `MOST` bytes fit, and beside them not even two more. */
async function nothingHeld (t: Test, service: ServiceUnderTest, name: string): Promise<void> {
  await until(() => fits(service, MOST))
  // The bytes of the request above are released before the next request is announced.
  let full: Line | undefined
  await until(async () => {
    const { line, taken } = await offer(service, MOST)
    if (taken) full = line
    else line.socket.destroy()
    return taken
  })
  t.notOk(await fits(service, 2), `${name}: no bytes are released twice`)
  full?.socket.destroy()
  await until(() => fits(service, MOST))
}

t.test('announced bodies are counted exactly', async t => {
  const service = await useService(t, { schema, env: { ...bytesEnv, MAX_BYTES_IN_FLIGHT: '2500' } })
  const [one, two] = [await offer(service, 1000), await offer(service, 1000)]
  t.same([one.taken, two.taken], [true, true])
  t.notOk(await fits(service, 501))
  t.ok(await fits(service, 500))
  await until(() => fits(service, 500))
  t.notOk(await fits(service, 501), 'exactly the bytes of the finished request were released')
  const refused = await offer(service, 'unknown')
  t.notOk(refused.taken, 'a body of unknown length counts as MAX_BODY_BYTES')
  refused.line.socket.destroy()
  t.match(await speak(service.url, closing(`[${' '.repeat(500)}]`)), [overloaded])
  const health = await ask(`${service.url}/health`)
  t.equal(health.status, 200, 'requests without a body are not limited')
  one.line.socket.destroy()
  await until(() => fits(service, 1000))
  const unknown = await offer(service, 'unknown')
  t.ok(unknown.taken)
  t.notOk(await fits(service, 501))
  unknown.line.send(chunk('[]') + chunk(''))
  t.match(await unknown.line.answers(2), [{ status: 100 }, failed(400, 'body_empty')])
  await until(() => fits(service, 1000))
  unknown.line.socket.destroy()
  two.line.socket.destroy()
})

t.test('the bytes of a request are released exactly once, however it ends', async t => {
  const service = await useService(t, { schema, env: bytesEnv })
  const sent = (bytes: string) => () => speak(service.url, bytes)
  const post = (body: string, more: Readonly<Record<string, string>> = {}) =>
    sent(closing(body, more))
  const chunked = (...chunks: readonly string[]) =>
    sent(announce({ 'transfer-encoding': 'chunked', connection: 'close' }) + chunks.join(''))
  const cut = (bytes: string) => async (): Promise<void> => {
    const line = await dial(service.url, bytes)
    await until(async () => !await fits(service, MOST))
    resetSocket(line.socket)
  }
  const ends: ReadonlyArray<
    readonly [name: string, end: () => Promise<unknown>, statuses: readonly number[] | undefined]
  > = [
    ['a batch', post(text), [200]],
    ['chunked', chunked(chunk(text), chunk('')), [200]],
    [
      'a response longer than the limit', async () => [await service.post([select('b', 'big')])],
      [200]
    ],
    [
      'a body over the limit', sent(announce({ 'content-length': '1001', connection: 'close' })),
      [413]
    ],
    ['chunks over the limit', chunked(chunk('x'.repeat(600)), chunk('x'.repeat(600))), [413]],
    ['malformed chunks', chunked(chunk('['), 'zz\r\n'), [400]],
    [
      'two requests on one connection', sent(request('POST', '/', headers(), text) + closing(text)),
      undefined
    ],
    [
      'a reset in the middle of chunks',
      cut(announce({ 'transfer-encoding': 'chunked' }) + chunk('[')), undefined
    ],
    ['a reset before the body', cut(announce({ 'content-length': '1000' })), undefined],
    ['an end in the middle of a body', async () => {
      const line = await dial(service.url, `${announce({ 'content-length': '1000' })}[`)
      line.socket.end()
      return await line.end()
    }, [400]],
    ['a client that disconnects while its batch runs', async () => {
      const slot = await holdRow(service.database)
      const line = await dial(service.url)
      line.send(request('POST', '/', headers(), JSON.stringify(touch).padEnd(MOST)))
      await slot.awaited()
      t.notOk(await fits(service, 2), 'held while it runs')
      resetSocket(line.socket)
      await slot.free()
    }, undefined],
    ['a response that is not read', async () => {
      const response = await askUnread(service)
      t.notOk(await fits(service, 2), 'held until the client has read it')
      response.destroy()
    }, undefined]
  ]
  for (const [name, end, statuses] of ends) {
    const answers = await end()
    if (statuses !== undefined) {
      t.same(
        (answers as ReadonlyArray<{ status: number }>).map(({ status }) => status),
        statuses,
        name
      )
    }
    await nothingHeld(t, service, name)
  }
})

/** Requests 40 MB, which is more than sockets buffer, and reads only the response headers. */
const askUnread = ({ url }: ServiceUnderTest): ReturnType<typeof postUnread> =>
  postUnread(url, headers(), '[{"id":"b","op":"select","table":"big"}]')

t.test('unread responses count against the limit until they are read or dropped', async t => {
  const service = await useService(t, { schema, env: { MAX_BYTES_IN_FLIGHT: String(60_000_000) } })
  const slow = await askUnread(service)
  t.equal((await service.post(add)).status, 200, '40 MB of 60 MB')
  const slower = await askUnread(service)
  t.match(await service.post(add), failed(503, 'overloaded'), '80 MB of 60 MB')
  await answering(`${service.url}/health`)
  // Read one response completely.
  let read = 0
  for await (const bytes of slow) read += (bytes as Buffer).length
  t.equal(read, Number(slow.headers['content-length']))
  await until(async () => (await service.post(add)).status === 200)
  slower.destroy()
  await until(async () => (await service.post(add)).status === 200)
})

t.test('a batch that has waited is refused if responses have taken the memory', async t => {
  const service = await useService(t, {
    schema,
    env: { POOL_SIZE: '1', QUEUE_TIMEOUT_MS: '60000', MAX_BYTES_IN_FLIGHT: String(60_000_000) }
  })
  const slot = await holdRow(service.database)
  const first = service.post(touch)
  await slot.awaited()
  const unread: Array<Promise<IncomingMessage>> = []
  for (const waits of [1, 2]) {
    unread.push(askUnread(service))
    await waiting(service, waits)
  }
  const late = service.post(add)
  await waiting(service, 3)
  await slot.free()
  t.equal((await first).status, 200)
  const { headers: _, ...refusal } = overloaded
  t.match(await late, refusal, '80 MB of 60 MB')
  t.same(await service.database.sql`select from entries`, [])
  for (const response of await Promise.all(unread)) response.destroy()
  await until(async () => (await service.post(add)).status === 200)
})

t.test('a disconnect during token verification releases the bytes of the request', async t => {
  const server = await useJwksServer(t)
  const pair = keyPair('ed25519', 'admission')
  const { behave, release } = hold(set(publicJwk(pair, { kid: 'admission' })))
  server.behave = behave
  const bearer = makeToken({
    alg: 'EdDSA',
    key: pair,
    header: { alg: 'EdDSA', kid: 'admission' },
    payload: { role: 'oneflight_user', exp: Math.floor(Date.now() / 1000) + 600 }
  })
  const authorization = `Bearer ${bearer}`
  const service = await useService(t, {
    schema,
    env: { ...bytesEnv, JWT_SECRET: '', JWT_JWKS_URL: server.url }
  })
  const client = await dial(service.url)
  client.socket.on('error', () => {})
  client.send(announce({ authorization, 'content-length': '1000' }) + text)
  await until(() => server.asked.length === 1)
  await once(resetSocket(client.socket), 'close')
  // The service has processed the disconnect before it responds to this request.
  await answering(`${service.url}/health`)
  release()
  for (const name of ['the next request', 'all bytes are available to one more']) {
    t.equal((await service.post(text, { headers: { authorization } })).status, 200, name)
  }
})
