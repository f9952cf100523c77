/**
 * Tests requests that any HTTP client can send: routes, media types, the order of the checks,
 * request ids and the error envelope.
 */
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/server/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { answering, ask, useService, type Answer } from '../support/service.ts'
import { dial, exchange, request, speak } from '../support/network/wire.ts'
import { bearer, shopSchema } from '../support/shorthand.ts'

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const json = { 'content-type': 'application/json' }
const stock = '[{"id":"s","op":"select","table":"stock"}]'
const service = await useService(t, { schema: shopSchema, env: { COMPRESSION: 'on' } })
const { useAnother } = service
await answering(`${service.url}/health`)

/** Asserts an error response: exactly the envelope, with the request id of the header. */
function refused (
  t: Test,
  response: Pick<Answer, 'status' | 'body'> & {
    readonly headers: Headers | Readonly<Record<string, string>>
  },
  status: number,
  code: string,
  type = 'request_error'
): void {
  const header = (name: string): string | null =>
    response.headers instanceof Headers
      ? response.headers.get(name)
      : (response.headers[name] ?? null)
  t.equal(response.status, status, code)
  t.same(Object.keys(response.body), ['error', 'data'])
  t.equal(response.body.data, null)
  t.match(response.body.error, {
    type,
    code,
    message: /./,
    committed: false,
    request_id: header('x-request-id')
  })
  t.equal(header('content-type'), 'application/json; charset=utf-8')
  t.equal(header('www-authenticate') !== null, status === 401)
  t.equal(header('retry-after') !== null, status === 503)
  t.equal(header('allow') !== null, status === 405)
  t.equal(header('preference-applied'), null, 'preferences are reported only on success')
}

const common = ['type', 'code', 'message', 'committed', 'request_id']

t.test('unknown methods and paths are rejected', async t => {
  const health = await ask(`${service.url}/health`)
  t.same([health.status, health.text, health.headers.get('content-type')], [
    200,
    '{"ok":true}',
    'application/json; charset=utf-8'
  ])
  t.match(health.headers.get('x-request-id'), uuid)

  const methods = [
    ['GET', '/?q=1', 'POST'],
    ['OPTIONS', '/', 'POST'],
    ['DELETE', '/health', 'GET, HEAD']
  ] as const
  for (const [method, path, allow] of methods) {
    const response = await ask(service.url + path, { method })
    refused(t, response, 405, 'method_not_allowed')
    t.same(Object.keys(response.body.error), common)
    t.equal(response.headers.get('allow'), allow, `${method} ${path}`)
  }
  for (const path of ['/nothing', '/health/', '//', '/metrics']) {
    refused(t, await ask(`${service.url}${path}`), 404, 'not_found')
  }
  const lost = request('POST', '/%', { ...json, 'x-request-id': 'mine' }, stock)
  const response = await exchange(service.url, lost)
  refused(t, response, 400, 'http_malformed')
  t.equal(response.headers['x-request-id'], 'mine')
})

t.test('unusual targets and methods are handled', async t => {
  const targets = [
    ['GET', 'http://example.org/health', 200, undefined],
    ['GET', 'HTTP://user:secret@example.org:80/health?x', 200, undefined],
    ['OPTIONS', '*', 404, 'not_found'],
    ['GET', 'x', 400, 'http_malformed'],
    ['QUERY', '/', 405, 'method_not_allowed'],
    ['CONNECT', 'example.org:443', 405, 'method_not_allowed'],
    ['BREW', '/', 400, 'http_malformed']
  ] as const
  for (const [method, target, status, code] of targets) {
    const [response] = await speak(
      service.url,
      request(method, target, { 'x-request-id': 'mine', connection: 'close' })
    )
    t.equal(response?.status, status, `${method} ${target}`)
    if (code !== undefined) refused(t, response!, status, code)
  }
  t.notMatch(JSON.stringify(service.log), 'secret')

  for (const [target, status] of [['/health', 200], ['/', 405], ['/nothing', 404]] as const) {
    const response = await exchange(service.url, request('HEAD', target), { head: true })
    t.equal(response.status, status)
    t.ok(Number(response.headers['content-length']) > 0)
  }
  const upgrade = request('POST', '/', {
    authorization: bearer(),
    ...json,
    connection: 'close, Upgrade',
    upgrade: 'websocket'
  }, stock)
  t.match(await speak(service.url, upgrade), [{ status: 200, headers: { 'x-request-id': uuid } }])
})

/** Its expression is built from parts. The linter checks those of the other headers. */
t.test('no Prefer header takes longer than another header of its length', async t => {
  const size = 14_000
  /** The shortest of seven times, or the first that is short enough. */
  const fastest = async (name: string, value: string, enough = 0): Promise<number> => {
    let shortest = Infinity
    for (let i = 0; i < 7 && shortest >= enough; i++) {
      const start = performance.now()
      await service.post(stock, { headers: { [name]: value } })
      shortest = Math.min(shortest, performance.now() - start)
    }
    return shortest
  }
  const usual = await fastest('x-other', 'x'.repeat(size))
  for (const start of ['', 'a=', 'a; b', 'a="']) {
    for (const part of [' ', '\t', 'a', ';', ' ;', ',', '"', '\\', '=', ' = ', 'a"']) {
      const value = `${start}${part.repeat(size / part.length)}!`
      const time = await fastest('prefer', value, 10 * usual)
      t.ok(time < 10 * usual, `${start} ${part}: ${time / usual}`)
    }
  }
})

t.test('only JSON without a content encoding is accepted', async t => {
  for (const type of ['Application/JSON', 'application/json ; Charset="Utf-8"']) {
    t.equal((await service.post(stock, { headers: { 'content-type': type } })).status, 200, type)
  }
  const rejected = [
    'text/plain', 'application/json; version=1', 'application/json,application/json', ''
  ]
  for (const type of rejected) {
    const response = await service.post(stock, { headers: { 'content-type': type } })
    refused(t, response, 415, 'content_type_unsupported')
  }
  const rejectedHeaders = [
    { ...json, 'content-encoding': 'identity' },
    {},
    { 'content-type': 'application/json\r\nContent-Type: application/json' }
  ]
  for (const headers of rejectedHeaders) {
    const bytes = request('POST', '/', { authorization: bearer(), ...headers }, stock)
    refused(t, await exchange(service.url, bytes), 415, 'content_type_unsupported')
  }
})

/** Each row has the errors of all rows below it, too. Only its first error is reported. */
t.test('checks run in the order of the contract', async t => {
  const service = await useAnother(t, { env: { MAX_BODY_BYTES: '300', MAX_OPS: '3' } })
  const big = JSON.stringify(
    [...Array(4)].map(() => ({ id: 1, op: 'drop', table: 'x'.repeat(100) }))
  )
  const bad = {
    authorization: 'Bearer nonsense',
    prefer: 'handling=strict, tx=now',
    'idempotency-key': 'k'
  }
  const many = '[{"id":"a"},{},{"id":"a"},{"id":"a"}]'
  const plain = { ...bad, 'content-type': 'text/plain' }
  const good = { ...json, authorization: bearer() }
  const dry = { ...good, prefer: 'tx=rollback, access=read-only' }
  const rows = [
    [404, 'not_found', 'POST /x', plain, '{"broken'],
    [405, 'method_not_allowed', 'PUT /', plain, big],
    [415, 'content_type_unsupported', 'POST /', plain, big],
    [401, 'token_invalid', 'POST /', { ...bad, ...json }, big],
    [401, 'auth_required', 'POST /', { ...json, prefer: 'handling=strict, tx=now' }, '{"broken'],
    [400, 'prefer_invalid', 'POST /', { ...bad, ...good }, big],
    [400, 'idempotency_key_invalid', 'POST /', { ...good, 'idempotency-key': '' }, big],
    [413, 'body_too_large', 'POST /', { ...good, prefer: 'handling=strict' }, big],
    [413, 'too_many_ops', 'POST /', dry, many],
    [400, 'id_missing', 'POST /', good, '[{"id":"a"},{"id":"a"},{"id":1}]'],
    [400, 'id_duplicate', 'POST /', good, '[{"id":"a","op":"drop"},{"id":"a"}]']
  ] as const
  for (const [status, code, line, headers, body] of rows) {
    const [method = '', path] = line.split(' ')
    refused(t, await ask(`${service.url}${path}`, { method, headers, body }), status, code)
  }
  const invalid = await service.post([
    { id: 'a', op: 'drop', table: 'stock' },
    { id: 'b', op: 'select', table: 'nothing' }
  ])
  refused(t, invalid, 422, 'validation_failed', 'validation_error')
  t.same(Object.keys(invalid.body.error), [...common, 'errors'])
  t.notOk(service.log.some(({ operations }) => operations === 4))
})

t.test('an invalid body is rejected, and the connection stays open', async t => {
  const line = await dial(service.url)
  t.teardown(() => line.socket.destroy())
  const bodies = [['', 'body_invalid'], [' [ ] ', 'body_empty'], ['[1]', 'id_missing']] as const
  for (const [i, [body, code]] of bodies.entries()) {
    line.send(request('POST', '/', { authorization: bearer(), ...json }, body))
    const answer = (await line.answers(i + 1)).at(-1)
    refused(t, answer!, 400, code)
    t.not(answer?.headers['connection'], 'close', 'the complete body was read')
  }
  const large = await useAnother(t, { env: { MAX_BODY_BYTES: '3000000' } })
  t.equal((await large.post(stock + ' '.repeat(2_000_000))).status, 200)
  const exact = await useAnother(t, { env: { MAX_BODY_BYTES: String(stock.length) } })
  t.equal((await exact.post(stock)).status, 200)
  refused(t, await exact.post(`${stock} `), 413, 'body_too_large')
})

t.test('valid request ids are returned, others are replaced', async t => {
  const good = ['A-z.0_9:/+=@', 'x'.repeat(128)]
  const bad = ['', 'a b', 'a,b', 'x'.repeat(129), 'é', '<']
  for (const id of [...good, ...bad]) {
    const line = await dial(service.url)
    for (const target of ['/health', '/', '/x', '/%']) {
      line.send(Buffer.from(request('GET', target, { 'x-request-id': id }), 'latin1'))
    }
    for (const { status, headers, body } of await line.answers(4)) {
      t.match(headers['x-request-id'], good.includes(id) ? id : uuid, `${id} ${status}`)
      if (status !== 200) t.equal(body.error.request_id, headers['x-request-id'])
    }
    line.socket.destroy()
  }
  const twice = await speak(
    service.url,
    request('GET', '/health', { 'x-request-id': 'a\r\nX-Request-ID: a', connection: 'close' })
  )
  t.match(twice[0]?.headers['x-request-id'], uuid)
})

t.test('an internal error of the service is logged without secrets', async t => {
  const log: Array<Record<string, unknown>> = []
  const app = await buildApp({
    ...readConfig({ DATABASE_URL: 'postgres://app@127.0.0.1:1/db', ANON_ROLE: 'web' }),
    logger: pino({}, { write: line => log.push(JSON.parse(line) as Record<string, unknown>) })
  })
  app.get('/fault', () => {
    throw Object.assign(new TypeError('the secret of a driver'), { detail: 'secret' })
  })
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const response = await ask(`${url}/fault`, { headers: { 'x-request-id': 'mine' } })
  refused(t, response, 500, 'internal', 'service_error')
  t.notMatch(response.text, 'secret')
  const lines = log.filter(({ request_id: id }) => id === 'mine')
  t.match(lines, [
    { level: 50, msg: 'internal error', fault: 'TypeError', at: [/^at .*http\.test\.ts/] },
    { level: 50, msg: 'request completed', status: 500, code: 'internal' }
  ])
  t.notMatch(JSON.stringify(lines), 'secret')
})
