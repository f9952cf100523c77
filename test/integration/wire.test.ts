/**
 * Tests the service on raw sockets: invalid, late and endless input, pipelined requests,
 * disconnects and shutdown. They also check the connection after each response, because the body of
 * a rejected request must never be parsed as the next request.
 */
import type { Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/server/app.ts'
import { readConfig } from '../../src/config/config.ts'
import {
  ask, postUnread, refusing, SECRET, useService, type ServiceUnderTest
} from '../support/service.ts'
import * as op from '../support/operations.ts'
import { headersOfBatch, shopSchema } from '../support/shorthand.ts'
import { until } from '../support/until.ts'
import { holdRow, type HeldRow } from '../support/database/hold.ts'
import { resetSocket } from '../support/network/reset.ts'
import { chunk, dial, request, speak, type Line, type WireAnswer } from '../support/network/wire.ts'

const schema = `${shopSchema}
  create view big as select repeat('x', 4000) as x from generate_series(1, 10000);
  grant select on big to oneflight_user;`
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const json = { 'content-type': 'application/json' }
const stock = '[{"id":"s","op":"select","table":"stock"}]'
const add = (sku: string): string =>
  `[{"id":"a","op":"insert","table":"stock","values":[{"sku":"${sku}","qty":1}]}]`

const headers = headersOfBatch
const batch = (body: string, more: Readonly<Record<string, string>> = {}): string =>
  request('POST', '/', headers(more), body)

function expectError (
  t: Test,
  response: WireAnswer | undefined,
  status: number,
  code: string,
  id: string | RegExp = uuid
): void {
  t.match(response, {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', 'x-request-id': id },
    body: { error: { type: 'request_error', code, committed: false, request_id: id }, data: null }
  }, code)
  t.equal(response?.body.error.request_id, response?.headers['x-request-id'])
}

/**
 * Runs `work` while a transaction holds the lock of a row. `bytes` is a request whose batch updates
 * that row and therefore waits until `work` has finished.
 */
async function whileBatchRuns (
  work: (bytes: string, row: HeldRow) => Promise<void>
): Promise<void> {
  const row = await holdRow(database, "select from stock where sku = 'apple'")
  const operation = op.update('u', 'stock', { set: { qty: 7 }, where: { sku: { eq: 'apple' } } })
  await work(batch(JSON.stringify([operation])), row)
  await row.free()
}

const service = await useService(t, { schema, env: { MAX_BODY_BYTES: '1000' } })
const { useAnother, database, database: { sql } } = service

t.beforeEach(() => sql`update stock set qty = 10 where sku = 'apple'`)

t.test('input that is not HTTP gets one 400 and a closed connection', async t => {
  const chunked =
    request('POST', '/', headers({ 'transfer-encoding': 'chunked', 'x-request-id': 'mine' }))
  const rows: ReadonlyArray<readonly [bytes: string | Buffer, id?: string]> = [
    ['nonsense\r\n\r\n'],
    [Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])], // TLS
    ['POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n[]'],
    ...['zz\r\n[]\r\n0\r\n\r\n', `1;${'x'.repeat(20_000)}\r\n[\r\n`]
      .map(chunks => [chunked + chunks, 'mine'] as const)
  ]
  for (const [bytes, id] of rows) {
    const responses = await speak(service.url, bytes)
    t.equal(responses.length, 1, String(bytes))
    expectError(t, responses[0], 400, 'http_malformed', id)
    t.equal(responses[0]?.headers['connection'], 'close')
  }
  const logged = (): number => service.log.filter(({ code }) => code === 'http_malformed').length
  await until(() => logged() === rows.length)
  const lines = service.log.filter(({ request_id: id }) => id === 'mine')
  t.same(lines.map(({ status, path }) => [status, path]), Array(2).fill([400, '/']))
})

t.test('the size of the headers is limited, their number is not', async t => {
  const fields = [
    `X-Big: ${'x'.repeat(2_000_000)}`,
    `Cookie: ${'x'.repeat(20_000)}\r\nX-Request-Id: mine`
  ]
  for (const field of fields) {
    const [response, ...more] = await speak(service.url, `POST / HTTP/1.1\r\n${field}\r\n\r\n`)
    expectError(t, response, 431, 'headers_too_large')
    t.same(more, [])
  }
  t.equal((await speak(service.url, `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`))[0]?.status, 431)

  // Node drops fields above its default limit of 1000; here the last one still counts.
  const many = 'a:\r\n'.repeat(1500)
  const line = await dial(service.url)
  line.send(
    `POST / HTTP/1.1\r\nHost: x\r\n${many}Content-Length: 2\r\nContent-Type: ` +
      'application/json\r\nX-Request-Id: last\r\nAuthorization: Basic eA==\r\n\r\n[]'
  )
  expectError(t, (await line.answers(1))[0], 401, 'token_invalid', 'last')
  line.send(
    `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${many}` +
      'Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n[]'
  )
  expectError(t, (await line.answers(2))[1], 415, 'content_type_unsupported')
  line.socket.destroy()
})

t.test('Expect: 100-continue is supported, other expectations are rejected', async t => {
  const announced = { 'content-length': String(stock.length) }
  for (const expect of ['something', '']) {
    const [response] = await speak(
      service.url,
      batch(stock, { expect, 'x-request-id': 'mine', connection: 'close' })
    )
    expectError(t, response, 417, 'expectation_unsupported', 'mine')
  }
  const line = await dial(service.url, batch(stock, { expect: 'something' }) + batch(stock))
  t.match(await line.answers(2), [{ status: 417 }, { status: 200 }])
  line.send(request('POST', '/', headers({ expect: '100-Continue', ...announced })))
  t.equal((await line.answers(3)).at(-1)?.status, 100)
  line.send(stock)
  t.equal((await line.answers(4)).at(-1)?.status, 200)
  line.socket.destroy()
  // A request that is rejected by its headers gets no 100 Continue.
  const rejected = [
    [{ authorization: 'Bearer x' }, 401],
    [{ prefer: 'handling=strict, tx=now' }, 400],
    [{ 'content-length': '1001' }, 413]
  ] as const
  for (const [more, status] of rejected) {
    const line = await dial(service.url)
    line.send(request('POST', '/', headers({ expect: '100-continue', ...announced, ...more })))
    const [response] = await line.answers(1)
    t.match(response, { status, headers: { connection: 'close' } })
    line.socket.end()
    t.equal((await line.end()).length, 1)
  }
})

t.test('a faulty Host or path, and chunks in HTTP/1.0, end the connection', async t => {
  const old = (bytes: string): string => bytes.replace('HTTP/1.1', 'HTTP/1.0')
  const chunked = { 'transfer-encoding': 'chunked' }
  const body = chunk(stock) + chunk('')
  const withHost = (host: string | undefined, more = {}): string =>
    request('POST', '/', { ...headers({ 'x-request-id': 'mine', ...more }), host }, stock)
  const invalid = ['x/y', 'a b', 'x@y', '[::1', 'x:y', '%zz', 'ü', '[]']
  const refused: ReadonlyArray<readonly [bytes: string, id?: RegExp]> = [
    [withHost(undefined)],
    [withHost('x', { Host: 'x' })],
    [old(withHost('x', { Host: 'y' }))],
    ...invalid.map(host => [withHost(host)] as const),
    [old(withHost('x/y'))],
    [old(request('POST', '/', headers({ 'x-request-id': 'mine', ...chunked })) + body)],
    [old(request('POST', '/', headers({ 'x-request-id': 'mine', 'transfer-encoding': 'gzip' })))],
    // Refused by Node's parser, which may not have read the id.
    [withHost('x', chunked), uuid]
  ]
  for (const [bytes, id] of refused) {
    // The following request must not run.
    const answers = await speak(service.url, bytes + batch(add('smuggled')))
    t.equal(answers.length, 1, bytes)
    t.match(answers[0]?.headers, { connection: 'close' })
    expectError(t, answers[0], 400, 'http_malformed', id ?? 'mine')
  }
  for (const target of ['/health', '/nothing']) {
    const answers = await speak(service.url, request('GET', target, { host: undefined }))
    t.equal(answers.length, 1)
    expectError(t, answers[0], 400, 'http_malformed')
  }
  const expecting = headers({ expect: '100-continue', 'content-length': '9' })
  const answers = await speak(service.url, request('POST', '/', { ...expecting, host: undefined }))
  t.equal(answers.length, 1, 'no 100 Continue')
  expectError(t, answers[0], 400, 'http_malformed')
  // After a request that is running, the parser reads a whole packet before any hook.
  for (const [path, host] of [['/health', undefined], ['/%', 'x'], ['/%', undefined]] as const) {
    const bytes = request('POST', path, { host }, '')
    const answers = await speak(service.url, batch(stock) + bytes + batch(add('smuggled')))
    t.match(answers, [{ status: 200 }, { status: 400, headers: { connection: 'close' } }], bytes)
    t.equal(answers.length, 2)
  }
  t.same(await database.sql`select from stock where sku = 'smuggled'`, [])

  const close = { connection: 'close' }
  const accepted = [
    ...['', 'X.example:80', '[::1]:80', "a!$&'()*+,;=b%41_-~"].map(host => withHost(host, close)),
    old(withHost(undefined)),
    old(withHost('x'))
  ]
  for (const bytes of accepted) {
    t.match(await speak(service.url, bytes), [{ status: 200 }], bytes)
  }
})

t.test('a request that does not arrive in time gets a 408', async t => {
  const service = await useAnother(t, { env: { REQUEST_TIMEOUT_MS: '1000' } })
  const announced = headers({ 'content-length': '100', 'x-request-id': 'mine' })
  const chunked = headers({ 'transfer-encoding': 'chunked', 'x-request-id': 'mine' })
  await Promise.all([
    ['', uuid],
    ['GET /health HTTP/1.1\r\nX-Request-Id: unread\r\n', uuid],
    [`${request('POST', '/', announced)}[`, 'mine'],
    [request('POST', '/', chunked) + chunk('['), 'mine']
  ].map(async ([bytes, id]) => {
    const responses = await speak(service.url, bytes as string)
    t.equal(responses.length, 1)
    expectError(t, responses[0], 408, 'request_timeout', id)
  }))
  const logged = (): ServiceUnderTest['log'] =>
    service.log.filter(({ request_id: id }) => id === 'mine')
  await until(() => logged().length === 2)
  t.match(logged(), Array(2).fill({ status: 408, code: 'request_timeout' }))
  // If the response was sent before the body arrived, there is no second response.
  const responses = await speak(
    service.url,
    `${request('POST', '/', { ...json, 'content-length': '100' })}[`
  )
  t.match(responses.map(({ status }) => status), [401])
})

t.test('a malformed body after the response gets no second response', async t => {
  const chunked = { 'transfer-encoding': 'chunked', 'x-request-id': 'once' }
  const line = await dial(service.url, request('POST', '/', { ...json, ...chunked }))
  t.match(await line.answers(1), [{ status: 401 }])
  line.send('zz\r\n')
  t.equal((await line.end()).length, 1)
  t.equal(service.log.filter(({ request_id: id }) => id === 'once').length, 1)
})

t.test('an unread body is never parsed as the next request', async t => {
  const smuggled = batch(add('smuggled'))
  const rejected = [
    [{ 'content-type': 'text/plain' }, 415],
    [{ authorization: 'Bearer x' }, 401],
    [{ prefer: 'handling=strict, tx=now' }, 400],
    [{ expect: 'x' }, 417]
  ] as const
  for (const [more, status] of rejected) {
    const complete = request('POST', '/', headers(more), smuggled)
    const line = await dial(service.url, complete + batch(stock))
    t.match((await line.answers(2)).map(({ status }) => status), [status, 200])
    // Again in two parts: the response is sent before the body arrives.
    line.send(complete.slice(0, -smuggled.length))
    t.equal((await line.answers(3)).at(-1)?.status, status)
    line.send(smuggled + batch(stock))
    t.match((await line.answers(4)).map(({ status }) => status), [status, 200, status, 200])
    line.socket.destroy()
    // The length of a chunked body is unknown, so the connection is closed after the response.
    const chunked = await dial(service.url)
    chunked.send(request('POST', '/', headers({ ...more, 'transfer-encoding': 'chunked' })))
    t.match(await chunked.answers(1), [{ status, headers: { connection: 'close' } }])
    chunked.send(chunk(smuggled) + chunk('') + smuggled + batch(stock))
    t.equal((await chunked.end()).length, 1)
  }
  t.same(await sql`select from stock where sku = 'smuggled'`, [])
})

t.test('a body over the limit gets a 413, and the client can read it', async t => {
  const line = await dial(service.url, request('POST', '/', headers({ 'content-length': '1001' })))
  expectError(t, (await line.answers(1))[0], 413, 'body_too_large')
  line.send(' '.repeat(1001))
  t.equal((await line.end()).length, 1)
  // Without Content-Length the body is rejected as soon as it exceeds the limit.
  const stream = await dial(service.url)
  stream.send(
    request('POST', '/', headers({ 'transfer-encoding': 'chunked' })) + chunk(' '.repeat(900)) +
      chunk(' '.repeat(200))
  )
  expectError(t, (await stream.answers(1))[0], 413, 'body_too_large')
  stream.send('0\r\n\r\n')
  t.equal((await stream.end()).length, 1)
  // A client that writes the entire body before it reads gets the response, not a reset connection.
  for (const size of [1001, 100_000, 20_000_000]) {
    for (const more of [{}, { authorization: 'Bearer x' }, { 'content-type': 'text/plain' }]) {
      const response = await service.post(' '.repeat(size), { headers: more })
      t.match(
        response.status,
        'authorization' in more ? 401 : 'content-type' in more ? 415 : 413,
        `${size} bytes`
      )
      t.equal(response.body.error.request_id, response.headers.get('x-request-id'))
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

t.test('the connection of an endless body is closed', async t => {
  const env = { MAX_BODY_BYTES: '1000', REQUEST_TIMEOUT_MS: '2000' }
  const service = await useAnother(t, { env })
  await Promise.all(([
    [request('POST', '/', { ...json, 'transfer-encoding': 'chunked' }), 401],
    [request('POST', '/', headers({ 'transfer-encoding': 'chunked' })), 413],
    ['nonsense\r\n\r\n', 400]
  ] as const).map(async ([head, status]) => {
    const line = await dial(service.url, head)
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

t.test('invalid input after a request does not change the response to its batch', async t => {
  const rows = [
    ['nonsense\r\n\r\n', [200]],
    ['CONNECT a:1 HTTP/1.1\r\n\r\n', [200]],
    [request('GET', '/health') + 'nonsense\r\n\r\n', [200, 200]],
    [`GET / HTTP/1.1\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`, [200]],
    [request('POST', '/', headers({ 'transfer-encoding': 'chunked' })) + 'zz\r\n', [200]]
  ] as const
  for (const [invalid, statuses] of rows) {
    const line = await dial(service.url)
    await whileBatchRuns(async (bytes, row) => {
      line.send(bytes + invalid)
      await row.awaited()
      for (let i = 0; i < 20; i++) line.send(invalid)
    })
    t.same((await line.end()).map(({ status }) => status), statuses, invalid.slice(0, 20))
  }
  t.same(await sql`select qty from stock where sku = 'apple'`, [{ qty: 7 }])
  // Without a running batch the invalid input gets a response.
  const line = await dial(service.url, request('GET', '/health'))
  await line.answers(1)
  line.send('nonsense\r\n\r\n')
  t.same((await line.end()).map(({ status }) => status), [200, 400])
})

t.test('disconnects are logged and do not disturb the service', async t => {
  const before = service.log.length
  const logged = (id: string) => service.log.slice(before).filter(line => line['request_id'] === id)
  const sendAndReset = async (bytes: string): Promise<void> => {
    const line = await dial(service.url, bytes)
    resetSocket(line.socket)
  }
  // The client disconnects in the middle of the body.
  await sendAndReset(
    request('POST', '/', headers({ 'content-length': '100', 'x-request-id': 'half' })) + '['
  )
  await until(() => logged('half').length > 0)
  t.match(logged('half'), [{ status: 499, code: 'client_closed_request', level: 30 }])
  const half = await dial(service.url)
  half.send(request('POST', '/', headers({ 'content-length': '100', 'x-request-id': 'fin' })) + '[')
  half.socket.end()
  expectError(t, (await half.end())[0], 400, 'http_malformed', 'fin')
  // The client disconnects after a CONNECT.
  await sendAndReset('CONNECT a:1 HTTP/1.1\r\n\r\n')
  await sendAndReset('nonsense\r\n\r\n')
  t.equal((await ask(`${service.url}/openapi.json`)).status, 200)
  t.same(service.log.slice(before).filter(({ level }) => Number(level) > 30), [])
})

t.test('shutdown: accepted requests get a response, idle connections are closed', async t => {
  const service = await useAnother(t)
  const silent = await dial(service.url)
  const idle = await dial(service.url, request('GET', '/health'))
  await idle.answers(1)
  const running = await dial(service.url)
  const pipelined = await dial(service.url)
  let stopped: Promise<void> | undefined
  await whileBatchRuns(async (bytes, row) => {
    running.send(bytes)
    pipelined.send(request('GET', '/health'))
    await pipelined.answers(1)
    pipelined.send(bytes)
    await row.awaited(2)
    stopped = service.stop()
    await refusing(service)
    // One more request is served. Its response closes the connection.
    pipelined.send(bytes + batch(add('unanswered')))
    await row.awaited(3)
  })
  t.equal((await silent.end()).length, 0)
  t.equal((await idle.end()).length, 1)
  t.match(await running.end(), [{ status: 200, headers: { connection: 'close' } }])
  t.match(await pipelined.end(), [
    { status: 200 },
    { status: 200, headers: { connection: 'keep-alive' } },
    { status: 200, headers: { connection: 'close' } }
  ])
  t.same(await sql`select from stock where sku = 'unanswered'`, [])
  await stopped
})

t.test('shutdown: a late body gets a 408 after the usual timeout', async t => {
  const service = await useAnother(t, { env: { REQUEST_TIMEOUT_MS: '1000' } })
  const stalled = await dial(service.url)
  stalled.send(
    request('POST', '/', headers({ 'content-length': '100', 'x-request-id': 'late' })) + '['
  )
  // This response shows that the headers of the stalled request have been read.
  t.equal((await ask(`${service.url}/openapi.json`)).status, 200)
  const stopped = service.stop()
  expectError(t, (await stalled.end())[0], 408, 'request_timeout', 'late')
  await stopped
})

t.test('an idle connection is closed unless it waits for a batch', async t => {
  const settings = readConfig({ DATABASE_URL: database.loginUrl, JWT_SECRET: SECRET })
  const app = await buildApp({ ...settings, logger: pino({ level: 'silent' }) })
  t.teardown(() => app.close())
  t.ok(app.server.timeout > app.server.keepAliveTimeout)
  t.ok(app.server.timeout > app.server.requestTimeout, 'a late request gets its 408 first')
  app.server.timeout = 500
  const quiet = new Set<Socket>()
  app.server.on('timeout', (socket: Socket) => quiet.add(socket))
  const url = await app.listen({ host: '127.0.0.1', port: 0 })

  const silent = await dial(url)
  t.equal((await silent.end()).length, 0)
  let running: Line | undefined
  await whileBatchRuns(async bytes => {
    running = await dial(url)
    quiet.clear()
    running.send(bytes)
    await until(() => quiet.size > 0)
  })
  t.match(await running?.answers(1), [{ status: 200 }])
  running?.socket.destroy()
  // 40 MB, far more than sockets buffer.
  const unread = await postUnread(url, headers(), '[{"id":"b","op":"select","table":"big"}]')
  const connections = (): Promise<number> =>
    new Promise((resolve, reject) =>
      app.server.getConnections((error, count) => error === null ? resolve(count) : reject(error))
    )
  await until(async () => await connections() === 0)
  await t.rejects(buffer(unread), { code: 'ECONNRESET' })
})
