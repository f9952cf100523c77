/**
 * The access log: one line for each request, with its request id, and without any text from the
 * client or the database.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { ask, SECRET, token, useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'
import { useDatabase } from '../support/database/database.ts'
import { useProxy } from '../support/network/proxy.ts'
import { request, speak } from '../support/network/wire.ts'

const schema = `${readFileSync(new URL('../support/database/shop.sql', import.meta.url), 'utf8')}
  create function fail (word text) returns text language plpgsql as $$
    begin raise exception 'hush-message' using detail = 'hush-detail', hint = 'hush-hint'; end $$;
  create view failing as select fail('x') as x;
  grant all on failing to oneflight_user;`

const linesOf = ({ log }: ServiceUnderTest, id: string): ServiceUnderTest['log'] =>
  log.filter(line => line['request_id'] === id)

t.test('each request is logged as one line without text of the client', async t => {
  const service = await useService(t, { schema })
  const authorization = `Bearer ${token({ role: 'oneflight_user' })}`
  const post = (body: string, headers: Readonly<Record<string, string>> = {}) =>
    request('POST', '/?hush=query', {
      authorization,
      'content-type': 'application/json',
      connection: 'close',
      ...headers
    }, body)
  const close = { connection: 'close' }
  const rows: ReadonlyArray<
    readonly [bytes: string, status: number, code: string | undefined, line?: object]
  > = [
    [
      post('[{"id":"s","op":"select","table":"stock"},{"id":"t","op":"select","table":"stock"}]'),
      200, undefined, { method: 'POST', path: '/', role: 'oneflight_user', operations: 2 }
    ],
    [request('GET', '/nothing?hush', close), 404, 'not_found', { path: '/nothing' }],
    [request('GET', 'http://hush@host/?hush', close), 405, 'method_not_allowed', { path: '/' }],
    [request('GET', '/%hush', close), 400, 'http_malformed'],
    ['CONNECT hush:1 HTTP/1.1\r\n\r\n', 405, 'method_not_allowed'],
    ['hush\r\n\r\n', 400, 'http_malformed'],
    [`GET / HTTP/1.1\r\nhush: ${'hush'.repeat(5000)}\r\n\r\n`, 431, 'headers_too_large'],
    [post('[]', { expect: 'hush' }), 417, 'expectation_unsupported'],
    [post('["hush', { 'content-type': 'hush/hush' }), 415, 'content_type_unsupported'],
    [post('["hush', { authorization: 'Bearer hush' }), 401, 'token_invalid'],
    [post('["hush"', { 'idempotency-key': 'hush hush' }), 400, 'idempotency_key_invalid'],
    [post('["hush"'), 400, 'body_invalid', { role: 'oneflight_user' }],
    [post('[{"hush":1,"hush":2}]'), 400, 'body_invalid'],
    [post('[{"id":"hush"},{"id":"hush"}]'), 400, 'id_duplicate', { index: 1 }],
    [post('[{"id":"hush","op":"hush","table":"hush.hush"}]'), 422, 'validation_failed'],
    [
      post('[{"id":"hush","op":"insert","table":"stock","values":[{"sku":"pear","qty":1}]}]'),
      409, 'unique_violation', { sqlstate: '23505', index: 0 }
    ],
    [
      post(
        '[{"id":"a","op":"select","table":"stock"},{"id":"hush","op":"insert",' +
          '"table":"stock","values":[{"sku":"x","qty":"hush"}]}]'
      ),
      400, 'invalid_text_representation', { index: 1 }
    ],
    [
      post('[{"id":"hush","op":"select","table":"failing"}]'),
      400, 'raise_exception', { sqlstate: 'P0001', index: 0, operations: 1 }
    ],
    [
      post('[]', { authorization: `Bearer ${token({ role: 'none', hush: 'hush' })}` }),
      403, 'role_denied'
    ]
  ]
  const before = service.log.length
  for (const [bytes, status, code, more] of rows) {
    const [answer] = await speak(service.url, bytes)
    const id = answer?.headers['x-request-id'] ?? ''
    await until(() => linesOf(service, id).length > 0)
    t.equal(answer?.status, status)
    const line = { level: 30, msg: 'request completed', status, code, ...more }
    t.match(linesOf(service, id), [line])
    t.equal(linesOf(service, id).length, 1)
  }
  const others = new Set(['connected to the database'])
  const lines = service.log.slice(before).filter(({ msg }) => !others.has(String(msg)))
  t.equal(lines.length, rows.length)
  const text = JSON.stringify(service.log)
  t.notMatch(text, /hush/)
  t.notOk(text.includes(authorization.slice(7, 40)))
  t.notOk(text.includes(SECRET))
})

t.test('the log level trace adds no text of client or database', async t => {
  const service = await useService(t, {
    schema,
    env: { LOG_LEVEL: 'trace', ERROR_VERBOSITY: 'verbose' }
  })
  const verbose = await service.post('[{"id":"hush","op":"select","table":"failing"}]')
  t.match(
    verbose.body.error,
    { message: 'hush-message', detail: 'hush-detail', hint: 'hush-hint' },
    'ERROR_VERBOSITY=verbose sends it to the client'
  )
  await until(() => linesOf(service, verbose.headers.get('x-request-id') ?? '').length > 0)
  t.notMatch(JSON.stringify(service.log), /hush/)
  const silent = await useService(t, { schema, env: { LOG_LEVEL: 'silent' } })
  await silent.post('[]')
  t.same(silent.log, [])
})

t.test('failures of the service are logged at level error', async t => {
  const service = await useService(t, {
    schema,
    databaseUrl: url => url.replace(/@[^/]+/, '@127.0.0.1:1')
  })
  const answer = await service.post('[{"id":"s","op":"select","table":"stock"}]', {
    headers: { 'x-request-id': 'mine' }
  })
  t.equal(answer.status, 503)
  await until(() => linesOf(service, 'mine').length > 0)
  t.match(linesOf(service, 'mine'), [{
    level: 50,
    status: 503,
    code: 'database_unavailable',
    operations: 1
  }])
  t.match(service.log.filter(({ level }) => level === 40), [{
    msg: 'could not connect to the database',
    reason: /ECONNREFUSED/
  }])
  t.notMatch(JSON.stringify(service.log), /:login@/)
})

t.test('health probes are logged at level debug, changes of health at warn and info', async t => {
  for (const LOG_LEVEL of ['info', 'debug']) {
    const { loginUrl } = await useDatabase(t, { schema })
    const proxy = await useProxy(t, loginUrl)
    const service = await useService(t, { schema, env: { LOG_LEVEL }, databaseUrl: proxy.through })
    const probe = async (id: string): Promise<number> =>
      (await ask(`${service.url}/health`, { headers: { 'x-request-id': id } })).status
    await until(async () => await probe('up') === 200)
    proxy.open = false
    proxy.cut()
    await until(async () => await probe('down') === 503)
    t.equal(await probe('down'), 503)
    proxy.open = true
    await until(async () => await probe('up again') === 200)
    const changes = service.log.filter(({ msg }) => String(msg).startsWith('health check'))
    t.match(changes, [
      { level: 40, msg: 'health check of the database failed', reason: String },
      { level: 30, msg: 'health check of the database succeeded again' }
    ])
    t.notMatch(JSON.stringify(changes), /:login@/)
    await service.stop()
    const lines = service.log.filter(({ path }) => path === '/health')
    if (LOG_LEVEL === 'info') t.same(lines, [])
    else {
      t.same([...new Set(lines.map(({ level }) => level))], [20])
      t.same([...new Set(lines.map(({ status }) => status))], [200, 503])
    }
  }
})
