/**
 * What no HTTP client sends: bytes that are no HTTP, come late or never end, several requests in
 * one burst. The connection afterwards matters as much as the answer: the body of a refused request
 * must never be read as the next request.
 */
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import { Agent, get, request as httpRequest, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/server/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { useDatabase } from '../support/database/database.ts'
import {
  ask,
  refusing,
  SECRET,
  token,
  useService,
  type ServiceUnderTest
} from '../support/service.ts'
import { until } from '../support/until.ts'
import { dial, request, speak, type Line, type WireAnswer } from '../support/network/wire.ts'

const schema = `${readFileSync(new URL('../support/database/shop.sql', import.meta.url), 'utf8')}
  create view big as select repeat('x', 4000) as x from generate_series(1, 10000);
  grant select on big to oneflight_user;`
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const json = { 'content-type': 'application/json' }
const stock = '[{"id":"s","op":"select","table":"stock"}]'
const add = (sku: string): string =>
  `[{"id":"a","op":"insert","table":"stock","values":[{"sku":"${sku}","qty":1}]}]`

const headers = (more: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  authorization: `Bearer ${token({ role: 'oneflight_user' })}`,
  ...json,
  ...more
})
const batch = (body: string, more: Readonly<Record<string, string>> = {}): string =>
  request('POST', '/', headers(more), body)
const chunk = (data: string): string => `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`

function refused (
  t: Test,
  answer: WireAnswer | undefined,
  status: number,
  code: string,
  id: string | RegExp = uuid
): void {
  t.match(answer, {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', 'x-request-id': id },
    body: { error: { type: 'request_error', code, committed: false, request_id: id }, data: null }
  }, code)
  t.equal(answer?.body.error.request_id, answer?.headers['x-request-id'])
}

/**
 * Asks for an answer of 40 MB, far more than sockets buffer, and reads no more of it than its
 * headers.
 */
async function askBig (url: string, agent: Agent): Promise<IncomingMessage> {
  const asked = httpRequest(url, { method: 'POST', agent, headers: headers() })
  asked.end('[{"id":"b","op":"select","table":"big"}]')
  const [answer] = await once(asked, 'response') as [IncomingMessage]
  return answer
}

function useAgent (t: Test): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  return agent
}

/**
 * Runs `work` while a batch waits for a row that somebody else has locked; what it answers is
 * `answers` of the line.
 */
async function whileBatchRuns (
  service: Pick<ServiceUnderTest, 'database'>,
  work: (bytes: string) => Promise<void>
): Promise<void> {
  const { sql } = service.database
  await sql.begin(async sql => {
    await sql`update stock set qty = qty where sku = 'apple'`
    await work(
      batch(
        '[{"id":"u","op":"update","table":"stock","set":{"qty":7},"where":{"sku":{"eq":"apple"}}}]',
        { 'x-request-id': 'slow' }
      )
    )
  })
}

async function waiting (
  { database }: Pick<ServiceUnderTest, 'database'>,
  batches = 1
): Promise<void> {
  await until(async () =>
    (await database
      .sql`select from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock'`)
      .length >= batches
  )
}

t.test('bytes that are no HTTP', async t => {
  const service = await useService(t, { schema })
  const rows: ReadonlyArray<readonly [bytes: string | Buffer, id?: string]> = [
    ['nonsense\r\n\r\n'],
    [Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])], // TLS
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['GET /health HTTP/9.9\r\n\r\n'],
    ['GET /he alth HTTP/1.1\r\n\r\n'],
    ['GET /health HTTP/1.1\r\nno colon\r\n\r\n'],
    ['GET /health HTTP/1.1\r\nX-Request-Id: mine\r\nname : value\r\n\r\n'],
    ['GET /health HTTP/1.1\r\na: b\r\n folded: c\r\n\r\n'],
    ['GET /health HTTP/1.1\r\na: \u0001\r\n\r\n'],
    ['POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n'],
    ['POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n'],
    ['POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n[]'],
    [request('POST', '/', headers({ 'transfer-encoding': 'chunked' }), stock)],
    [request('POST', '/', headers({ 'transfer-encoding': 'chunked, gzip' }))],
    [
      request('POST', '/', headers({ 'transfer-encoding': 'chunked', 'x-request-id': 'mine' })) +
      'zz\r\n[]\r\n0\r\n\r\n',
      'mine'
    ],
    [
      request('POST', '/', headers({ 'transfer-encoding': 'chunked', 'x-request-id': 'mine' })) +
      '2\r\n[]]]\r\n0\r\n\r\n',
      'mine'
    ],
    [
      request('POST', '/', headers({ 'transfer-encoding': 'chunked', 'x-request-id': 'mine' })) +
      `1;${'x'.repeat(20_000)}\r\n[\r\n`,
      'mine'
    ]
  ]
  for (const [bytes, id] of rows) {
    const answers = await speak(service.url, bytes)
    t.equal(answers.length, 1, String(bytes))
    refused(t, answers[0], 400, 'http_malformed', id)
    t.equal(answers[0]?.headers['connection'], 'close')
  }
  const logged = (): number => service.log.filter(({ code }) => code === 'http_malformed').length
  await until(() => logged() === rows.length)
  t.same(
    service.log.filter(({ request_id: id }) => id === 'mine').map((
      { status, path }
    ) => [status, path]),
    Array(3).fill([400, '/'])
  )
})

t.test('headers: their size is bounded, their number is not', async t => {
  const service = await useService(t, { schema })
  for (
    const field of [
      `X-Big: ${'x'.repeat(20_000)}`,
      `X-Big: ${'x'.repeat(2_000_000)}`,
      `Authorization: Bearer ${'e'.repeat(17_000)}`,
      `Cookie: ${'x'.repeat(20_000)}\r\nX-Request-Id: mine`
    ]
  ) {
    const [answer, ...more] = await speak(service.url, `POST / HTTP/1.1\r\n${field}\r\n\r\n`)
    refused(t, answer, 431, 'headers_too_large')
    t.same(more, [])
  }
  const clean = await ask(`${service.url}/health`, { headers: { 'x-big': 'x'.repeat(100_000) } })
  t.equal(clean.status, 431)
  t.equal((await speak(service.url, `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`))[0]?.status, 431)

  // Fields past Node's usual limit of 1000 would be dropped; here the last one still counts.
  const many = 'a:\r\n'.repeat(1500)
  const line = await dial(service.url)
  line.send(
    `POST / HTTP/1.1\r\n${many}Content-Length: 2\r\nContent-Type: ` +
      'application/json\r\nX-Request-Id: last\r\nAuthorization: Basic eA==\r\n\r\n[]'
  )
  refused(t, (await line.answers(1))[0], 401, 'token_invalid', 'last')
  line.send(
    `POST / HTTP/1.1\r\nContent-Type: application/json\r\n${many}Content-Type: ` +
      'text/plain\r\nContent-Length: 2\r\n\r\n[]'
  )
  refused(t, (await line.answers(2))[1], 415, 'content_type_unsupported')
  line.socket.destroy()
})

t.test('Expect', async t => {
  const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '1000' } })
  const announced = { 'content-length': String(stock.length) }
  for (const expect of ['something', '200-ok', '']) {
    const [answer] = await speak(
      service.url,
      batch(stock, { expect, 'x-request-id': 'mine', connection: 'close' })
    )
    refused(t, answer, 417, 'expectation_unsupported', 'mine')
  }
  const line = await dial(service.url)
  line.send(batch(stock, { expect: 'something' }) + batch(stock))
  t.match(await line.answers(2), [{ status: 417 }, { status: 200 }])
  for (const expect of ['100-continue', '100-Continue']) {
    line.send(request('POST', '/', headers({ expect, ...announced })))
    const before = (await line.answers(expect === '100-continue' ? 3 : 5)).at(-1)
    t.equal(before?.status, 100)
    line.send(stock)
    t.equal((await line.answers(expect === '100-continue' ? 4 : 6)).at(-1)?.status, 200)
  }
  line.socket.destroy()
  // Nobody is asked for a body that would not be looked at.
  for (
    const [more, status] of [
      [{ authorization: 'Bearer x' }, 401],
      [{ 'content-type': 'text/plain' }, 415],
      [{ prefer: 'handling=strict, tx=now' }, 400],
      [{ 'content-length': '1001' }, 413]
    ] as const
  ) {
    const line = await dial(service.url)
    line.send(request('POST', '/', headers({ expect: '100-continue', ...announced, ...more })))
    const [answer] = await line.answers(1)
    t.match(answer, { status, headers: { connection: 'close' } })
    line.socket.end()
    t.equal((await line.end()).length, 1)
  }
})

t.test('late requests', async t => {
  const service = await useService(t, { schema, env: { REQUEST_TIMEOUT_MS: '1000' } })
  const announced = headers({ 'content-length': '100', 'x-request-id': 'mine' })
  const chunked = headers({ 'transfer-encoding': 'chunked', 'x-request-id': 'mine' })
  await Promise.all([
    ['', uuid],
    ['GET /health HTTP/1.1\r\nX-Request-Id: unread\r\n', uuid],
    [`${request('POST', '/', announced)}[`, 'mine'],
    [request('POST', '/', chunked) + chunk('['), 'mine']
  ].map(async ([bytes, id]) => {
    const answers = await speak(service.url, bytes as string)
    t.equal(answers.length, 1)
    refused(t, answers[0], 408, 'request_timeout', id)
  }))
  const logged = (): ServiceUnderTest['log'] =>
    service.log.filter(({ request_id: id }) => id === 'mine')
  await until(() => logged().length === 2)
  t.match(logged(), Array(2).fill({ status: 408, code: 'request_timeout' }))
  // An answered request whose body never comes is no reason for a second answer.
  const answers = await speak(
    service.url,
    `${request('POST', '/', { ...json, 'content-length': '100' })}[`
  )
  t.match(answers.map(({ status }) => status), [401])
})

t.test('a second answer is never given for a body that is late or broken', async t => {
  const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '1000' } })
  const chunked = { 'transfer-encoding': 'chunked', 'x-request-id': 'mine' }
  const line = await dial(service.url)
  line.send(request('POST', '/', { ...json, ...chunked }))
  t.match(await line.answers(1), [{ status: 401 }])
  line.send('zz\r\n')
  t.equal((await line.end()).length, 1)
  t.equal(service.log.filter(({ request_id: id }) => id === 'mine').length, 1)
})

t.test('an unread body is never the next request', async t => {
  const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '2000' } })
  const smuggled = batch(add('smuggled'))
  for (
    const [more, status] of [
      [{ 'content-type': 'text/plain' }, 415],
      [{ authorization: 'Bearer x' }, 401],
      [{ prefer: 'handling=strict, tx=now' }, 400],
      [{ expect: 'x' }, 417]
    ] as const
  ) {
    const whole = request('POST', '/', headers(more), smuggled)
    const line = await dial(service.url)
    line.send(whole + batch(stock))
    t.match((await line.answers(2)).map(answer => answer.status), [status, 200])
    // Again, in pieces: the answer is there before the body is.
    line.send(whole.slice(0, -smuggled.length))
    t.equal((await line.answers(3)).at(-1)?.status, status)
    line.send(smuggled + batch(stock))
    t.match((await line.answers(4)).map(answer => answer.status), [status, 200, status, 200])
    line.socket.destroy()
    // Nobody knows how long this one is, so nothing comes after it.
    const chunked = await dial(service.url)
    chunked.send(request('POST', '/', headers({ ...more, 'transfer-encoding': 'chunked' })))
    t.match(await chunked.answers(1), [{ status, headers: { connection: 'close' } }])
    chunked.send(chunk(smuggled) + chunk('') + smuggled + batch(stock))
    t.equal((await chunked.end()).length, 1)
  }
  t.same(await service.database.sql`select from stock where sku = 'smuggled'`, [])
})

t.test('bodies over the limit', async t => {
  const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '1000' } })
  const line = await dial(service.url)
  line.send(request('POST', '/', headers({ 'content-length': '1001' })))
  refused(t, (await line.answers(1))[0], 413, 'body_too_large')
  line.send(' '.repeat(1001))
  t.equal((await line.end()).length, 1)
  // Without a length: refused as soon as there is too much of it.
  const stream = await dial(service.url)
  stream.send(
    request('POST', '/', headers({ 'transfer-encoding': 'chunked' })) + chunk(' '.repeat(900)) +
      chunk(' '.repeat(200))
  )
  refused(t, (await stream.answers(1))[0], 413, 'body_too_large')
  stream.send('0\r\n\r\n')
  t.equal((await stream.end()).length, 1)
  // Clients that write all before they read get the answer, and not a reset connection.
  for (const size of [1001, 10_000, 100_000, 1_000_000, 20_000_000]) {
    for (const more of [{}, { authorization: 'Bearer x' }, { 'content-type': 'text/plain' }]) {
      const answer = await service.post(' '.repeat(size), { headers: more })
      t.match(
        answer.status,
        'authorization' in more ? 401 : 'content-type' in more ? 415 : 413,
        `${size} bytes`
      )
      t.equal(answer.body.error.request_id, answer.headers.get('x-request-id'))
    }
  }
  const closing = await speak(
    service.url,
    request(
      'POST',
      '/',
      headers({ connection: 'close', authorization: 'Bearer x' }),
      ' '.repeat(500_000)
    )
  )
  t.match(closing, [{ status: 401, headers: { connection: 'close' } }])
})

t.test('an endless body is not read for ever', async t => {
  const service = await useService(t, {
    schema,
    env: { MAX_BODY_BYTES: '1000', REQUEST_TIMEOUT_MS: '2000' }
  })
  await Promise.all(([
    [request('POST', '/', { ...json, 'transfer-encoding': 'chunked' }), 401],
    [request('POST', '/', headers({ 'transfer-encoding': 'chunked' })), 413],
    [request('GET', '/health', { 'transfer-encoding': 'chunked' }), 200],
    ['nonsense\r\n\r\n', 400]
  ] as const).map(async ([head, status]) => {
    const line = await dial(service.url)
    line.send(head)
    const piece = chunk('x'.repeat(16_000))
    let sent = 0
    const flood = (): void => {
      while (!line.socket.destroyed && line.socket.write(piece)) sent += piece.length
    }
    line.socket.on('drain', flood)
    flood()
    t.match(await line.answers(1), [{ status }])
    await until(() => line.socket.destroyed)
    t.equal((await line.end()).length, 1)
    t.ok(sent > 0)
  }))
})

t.test('pipelined requests are answered in order', async t => {
  const service = await useService(t, { schema })
  const line = await dial(service.url)
  await whileBatchRuns(service, async bytes => {
    line.send(
      bytes + request('GET', '/health', { 'x-request-id': 'b' }) +
        request('GET', '/nothing', { 'x-request-id': 'c' })
    )
    await waiting(service)
  })
  t.match((await line.answers(3)).map(({ status, headers }) => [status, headers['x-request-id']]), [
    [200, 'slow'],
    [200, 'b'],
    [404, 'c']
  ])
  line.socket.destroy()
})

t.test('garbage after a running batch does not deny it', async t => {
  const service = await useService(t, { schema })
  for (
    const [garbage, statuses] of [
      ['nonsense\r\n\r\n', [200]],
      ['\u0000'.repeat(200_000), [200]],
      [request('GET', '/health') + 'nonsense\r\n\r\n', [200, 200]],
      [`GET / HTTP/1.1\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`, [200]],
      ['CONNECT a:1 HTTP/1.1\r\n\r\n', [200]],
      [request('POST', '/', headers({ 'transfer-encoding': 'chunked' })) + 'zz\r\n', [200]],
      [request('POST', '/', { ...json, 'transfer-encoding': 'chunked' }) + 'zz\r\n', [200, 401]]
    ] as const
  ) {
    const line = await dial(service.url)
    await whileBatchRuns(service, async bytes => {
      line.send(bytes + garbage)
      await waiting(service)
      for (let i = 0; i < 20; i++) line.send(garbage)
    })
    t.same((await line.end()).map(({ status }) => status), statuses, garbage.slice(0, 20))
  }
  t.same(await service.database.sql`select qty from stock where sku = 'apple'`, [{ qty: 7 }])
  // Between requests nothing is owed: there it is answered.
  const line = await dial(service.url)
  line.send(request('GET', '/health'))
  await line.answers(1)
  line.send('nonsense\r\n\r\n')
  t.same((await line.end()).map(({ status }) => status), [200, 400])
})

t.test('clients that go away', async t => {
  const service = await useService(t, { schema })
  const logged = (id: string) => service.log.filter(line => line['request_id'] === id)
  const gone = (bytes: string): Promise<void> =>
    new Promise(resolve => {
      const { hostname, port } = new URL(service.url)
      const socket = connect(Number(port), hostname, () =>
        socket.write(bytes, () => {
          socket.resetAndDestroy()
          resolve()
        }))
      socket.on('error', () => {})
    })
  // In the middle of the body.
  await gone(
    request('POST', '/', headers({ 'content-length': '100', 'x-request-id': 'half' })) + '['
  )
  await until(() => logged('half').length > 0)
  t.match(logged('half'), [{ status: 499, code: 'client_closed_request', level: 30 }])
  const half = await dial(service.url)
  half.send(request('POST', '/', headers({ 'content-length': '100', 'x-request-id': 'fin' })) + '[')
  half.socket.end()
  refused(t, (await half.end())[0], 400, 'http_malformed', 'fin')
  // While the batch runs: it commits, and the log says so.
  const line = await dial(service.url)
  await whileBatchRuns(service, async bytes => {
    line.send(bytes)
    await waiting(service)
    line.socket.resetAndDestroy()
  })
  await until(() => logged('slow').length > 0)
  t.match(logged('slow'), [{ status: 200, operations: 1 }])
  // After a CONNECT.
  await gone('CONNECT a:1 HTTP/1.1\r\n\r\n')
  await gone('nonsense\r\n\r\n')
  t.equal((await ask(`${service.url}/openapi.json`)).status, 200)
  t.equal(service.log.filter(({ level }) => Number(level) > 30).length, 0)
})

t.test('stopping: what was accepted is answered, what was not does not delay it', async t => {
  const service = await useService(t, { schema })
  const silent = await dial(service.url)
  const idle = await dial(service.url)
  idle.send(request('GET', '/health'))
  await idle.answers(1)
  const running = await dial(service.url)
  const pipelined = await dial(service.url)
  let stopped: Promise<void> | undefined
  await whileBatchRuns(service, async bytes => {
    running.send(bytes)
    pipelined.send(request('GET', '/health'))
    await pipelined.answers(1)
    pipelined.send(bytes)
    await waiting(service, 2)
    stopped = service.stop()
    await refusing(service)
    // Served, but only one more: its answer says that it is the last.
    pipelined.send(bytes + batch(add('unanswered')))
    await waiting(service, 3)
  })
  t.equal((await silent.end()).length, 0)
  t.equal((await idle.end()).length, 1)
  t.match(await running.end(), [{ status: 200, headers: { connection: 'close' } }])
  t.match(await pipelined.end(), [{ status: 200 }, {
    status: 200,
    headers: { connection: 'keep-alive' }
  }, { status: 200, headers: { connection: 'close' } }])
  t.same(await service.database.sql`select from stock where sku = 'unanswered'`, [])
  await stopped
})

t.test('stopping, still taking connections: an answer ends its own, in whatever order', async t => {
  const service = await useService(t, { schema, env: { SHUTDOWN_DELAY_MS: '1000' } })
  const pipelined = await dial(service.url)
  let stopped: Promise<void> | undefined
  await whileBatchRuns(service, async bytes => {
    pipelined.send(bytes)
    await waiting(service)
    stopped = service.stop()
    // Ready before the batch is.
    pipelined.send(batch(add('second')) + batch(add('unanswered')))
    await until(async () =>
      (await service.database.sql`select from stock where sku = 'second'`).length === 1
    )
  })
  t.match(await pipelined.end(), [{ status: 200, headers: { connection: 'keep-alive' } }, {
    status: 200,
    headers: { connection: 'close' }
  }])
  t.same(await service.database.sql`select from stock where sku = 'unanswered'`, [])
  await stopped
})

t.test('stopping: a body that is late is waited for no longer than ever', async t => {
  const service = await useService(t, { schema, env: { REQUEST_TIMEOUT_MS: '1000' } })
  const stalled = await dial(service.url)
  stalled.send(
    request('POST', '/', headers({ 'content-length': '100', 'x-request-id': 'late' })) + '['
  )
  // Its head was read when this is answered.
  t.equal((await ask(`${service.url}/openapi.json`)).status, 200)
  const stopped = service.stop()
  refused(t, (await stalled.end())[0], 408, 'request_timeout', 'late')
  await stopped
})

t.test('stopping: an answer that is read slowly is read to its end', async t => {
  const service = await useService(t, { schema })
  const answer = await askBig(service.url, useAgent(t))
  t.match(answer, { statusCode: 200, headers: { connection: 'keep-alive' } })
  const stopped = service.stop()
  await refusing(service)
  t.equal((await buffer(answer)).length, Number(answer.headers['content-length']))
  await stopped
})

t.test('stopping: connections kept alive are answered until told which is the last', async t => {
  const service = await useService(t, { schema })
  const answered = Array<number>(20).fill(0)
  const clients = answered.map(async (_, i) => {
    const agent = useAgent(t)
    for (;;) {
      const [answer] = await once(get(`${service.url}/openapi.json`, { agent }), 'response') as [
        IncomingMessage
      ]
      await buffer(answer)
      answered[i]! += 1
      if (answer.statusCode !== 200 || answer.headers.connection === 'close') {
        return [answer.statusCode, answer.headers.connection]
      }
    }
  })
  await until(() => answered.every(count => count > 1))
  const stopped = service.stop()
  t.same(await Promise.all(clients), Array(20).fill([200, 'close']))
  await stopped
})

t.test('connections on which nothing moves are given up, batches that run on are not', async t => {
  const database = await useDatabase(t, { schema })
  const settings = readConfig({ DATABASE_URL: database.loginUrl, JWT_SECRET: SECRET })
  const app = await buildApp({ ...settings, logger: pino({ level: 'silent' }) })
  t.teardown(() => app.close())
  t.ok(app.server.timeout > app.server.keepAliveTimeout)
  t.ok(app.server.timeout > app.server.requestTimeout, 'a late request has its answer first')
  app.server.timeout = 500
  const quiet = new Set<Socket>()
  app.server.on('timeout', (socket: Socket) => quiet.add(socket))
  const url = await app.listen({ host: '127.0.0.1', port: 0 })

  const silent = await dial(url)
  t.equal((await silent.end()).length, 0)
  let running: Line | undefined
  await whileBatchRuns({ database }, async bytes => {
    running = await dial(url)
    quiet.clear()
    running.send(bytes)
    await until(() => quiet.size > 0)
  })
  t.match(await running?.answers(1), [{ status: 200 }])
  running?.socket.destroy()
  const unread = await askBig(url, useAgent(t))
  const connections = (): Promise<number> =>
    new Promise((resolve, reject) =>
      app.server.getConnections((error, count) => error === null ? resolve(count) : reject(error))
    )
  await until(async () => await connections() === 0)
  await t.rejects(buffer(unread), { code: 'ECONNRESET' })
})

t.test('the name localhost has one server, guarded like any other', async t => {
  const service = await useService(t, { schema, env: { HTTP_HOST: 'localhost' } })
  refused(t, (await speak(service.url, 'nonsense\r\n\r\n'))[0], 400, 'http_malformed')
})
