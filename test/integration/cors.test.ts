/** Tests `CORS_ORIGINS`: the CORS headers of all responses, and their absence by default. */
import t, { type Test } from 'tap'
import { readConfig, type ConfigError } from '../../src/config/config.ts'
import { ask, SECRET, useService, type Answer, type ServiceUnderTest } from '../support/service.ts'
import { dial } from '../support/network/wire.ts'
import { shopSchema as schema } from '../support/shorthand.ts'

const app = 'https://app.example.com'
const select = [{ id: 's', op: 'select', table: 'stock' }]
const allowed = [
  'authorization',
  'content-type',
  'prefer',
  'idempotency-key',
  'oneflight-position',
  'x-request-id',
  'traceparent',
  'tracestate'
]
const exposed = [
  'x-request-id',
  'preference-applied',
  'idempotent-replayed',
  'oneflight-txid',
  'oneflight-xid',
  'oneflight-position',
  'server-timing',
  'retry-after',
  'www-authenticate',
  'traceparent'
]

const headersOf = ({ headers }: Pick<Answer, 'headers'>): readonly string[] =>
  [...headers.keys()].filter(name => name.startsWith('access-control-') || name === 'vary')
const preflight = (
  { url }: Pick<ServiceUnderTest, 'url'>,
  path = '/',
  origin = app,
  more = {}
): Promise<Answer> =>
  ask(url + path, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type',
      ...more
    }
  })

function assertRefused (
  t: Test,
  { status, headers, body }: Answer,
  expected: number,
  code: string
): void {
  t.equal(status, expected, code)
  t.match(body.error, { code, request_id: headers.get('x-request-id') })
}

t.test('without CORS_ORIGINS there are no CORS headers', async t => {
  const service = await useService(t, { schema })
  const responses = [
    await service.post(select, { headers: { origin: app } }),
    await service.post([], { headers: { origin: app } }),
    await preflight(service)
  ]
  for (const response of responses) t.same(headersOf(response), [])
  assertRefused(t, await preflight(service), 405, 'method_not_allowed')
})

t.test('a preflight is granted to the configured origins only', async t => {
  // A preflight needs no database.
  const service = await useService(t, {
    databaseUrl: url => url.replace(/@[^/]+/, '@127.0.0.1:1'),
    env: { CORS_ORIGINS: `${app}, http://localhost:5173` }
  })
  const granted = [
    [app, '/'],
    ['http://localhost:5173', '/'],
    [app, '/health']
  ] as const
  for (const [origin, path] of granted) {
    const response = await preflight(service, path, origin, { 'x-request-id': 'mine' })
    t.same([response.status, response.text], [204, ''], `${origin} ${path}`)
    t.equal(response.headers.get('access-control-allow-origin'), origin)
    t.same(response.headers.get('access-control-allow-headers')?.split(', '), allowed)
    t.equal(response.headers.get('access-control-allow-methods'), 'GET, HEAD, POST')
    t.match(response.headers.get('access-control-max-age'), /^[1-9]\d+$/)
    t.equal(response.headers.get('access-control-allow-credentials'), null)
    t.equal(response.headers.get('vary'), 'Origin')
    t.equal(response.headers.get('x-request-id'), 'mine')
  }
  t.equal(
    service.log.filter(({ method, status }) => method === 'OPTIONS' && status === 204).length,
    3,
    'one log line each'
  )

  const otherOrigins = [
    'https://app.example.com.evil.example',
    'http://app.example.com',
    'null'
  ]
  for (const origin of otherOrigins) {
    const response = await preflight(service, '/', origin)
    t.same(
      [
        response.status,
        response.headers.get('access-control-allow-origin'),
        response.headers.get('vary')
      ],
      [204, null, 'Origin'],
      origin
    )
  }
})

t.test('an OPTIONS request that is not a preflight is rejected', async t => {
  const service = await useService(t, { schema, env: { CORS_ORIGINS: app } })
  for (const headers of [{ origin: app }, { 'access-control-request-method': 'POST' }]) {
    const response = await ask(service.url, { method: 'OPTIONS', headers })
    assertRefused(t, response, 405, 'method_not_allowed')
    t.equal(response.headers.get('allow'), 'POST')
    assertRefused(
      t,
      await ask(`${service.url}/nowhere`, { method: 'OPTIONS', headers }),
      404,
      'not_found'
    )
    const line = await dial(service.url)
    line.send(
      `OPTIONS / HTTP/1.1\r\nHost: x\r\nExpect: more\r\n${
        Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')
      }\r\n`
    )
    const [unexpected] = await line.answers(1)
    t.match(unexpected, { status: 417, body: { error: { code: 'expectation_unsupported' } } })
    line.socket.destroy()
  }
})

t.test('successful and refused responses have the CORS headers', async t => {
  const service = await useService(t, {
    schema,
    env: { CORS_ORIGINS: app }
  })
  const unavailable = await useService(t, {
    env: { CORS_ORIGINS: app },
    databaseUrl: url => url.replace(/@[^/]+/, '@127.0.0.1:1')
  })
  const origin = { origin: app }
  const json = { 'content-type': 'application/json' }
  const rows: ReadonlyArray<readonly [status: number, response: Answer]> = [
    [200, await service.post(select, { headers: origin })],
    [401, await service.post(select, { headers: origin, role: null })],
    [404, await ask(`${service.url}/nowhere`, { headers: origin })],
    [503, await unavailable.post(select, { headers: origin })],
    [200, await ask(`${service.url}/openapi.json`, { headers: origin })]
  ]
  for (const [status, response] of rows) {
    t.equal(response.status, status)
    t.equal(response.headers.get('access-control-allow-origin'), app, String(status))
    t.same(response.headers.get('access-control-expose-headers')?.split(', '), exposed)
    t.equal(response.headers.get('vary'), 'Origin')
    t.equal(response.headers.get('access-control-allow-credentials'), null)
  }
  t.equal(
    (await service.post(select, { headers: { origin: 'https://evil.example' } })).headers.get(
      'access-control-allow-origin'
    ),
    null
  )
  t.equal(
    (await service.post(select)).headers.get('vary'),
    'Origin',
    'a cache must not return the response of one origin to another'
  )

  // A request that is refused before its body is read has the same headers.
  const line = await dial(service.url)
  line.send(
    `POST / HTTP/1.1\r\nHost: x\r\nOrigin: ${app}\r\nContent-Type: ${
      json['content-type']
    }\r\nContent-Length: 5\r\n\r\n`
  )
  const [early] = await line.answers(1)
  t.same([early?.status, early?.headers['access-control-allow-origin']], [401, app])
  line.socket.destroy()
})

t.test('* allows every origin', async t => {
  const service = await useService(t, { schema, env: { CORS_ORIGINS: '*' } })
  const answers = [
    await preflight(service, '/', 'https://anybody.example'),
    await service.post(select, { headers: { origin: 'null' } })
  ]
  for (const { headers } of answers) t.equal(headers.get('access-control-allow-origin'), '*')
})

t.test('an invalid origin is rejected at start', async t => {
  const problem = (origins: string): string | undefined => {
    try {
      readConfig({
        DATABASE_URL: 'postgres://app@db/shop',
        JWT_SECRET: SECRET,
        CORS_ORIGINS: origins
      })
      return undefined
    } catch (error) {
      return (error as ConfigError).message
    }
  }
  for (const origins of ['*', app, `${app},http://localhost:5173,http://[::1]:8080`]) {
    t.equal(problem(origins), undefined, origins)
  }
  const expected = 'CORS_ORIGINS: expected origins such as https://app.example.com or *, got'
  const cases = [
    ['app.example.com', `${expected} "app.example.com"`],
    [`${app}/`, `${expected} "https://app.example.com/" (its origin is https://app.example.com)`],
    [`${app},*`, 'CORS_ORIGINS: * cannot be combined with origins'],
    ['a,', 'CORS_ORIGINS: expected a comma-separated list without empty elements, got "a,"']
  ] as const
  for (const [origins, message] of cases) t.equal(problem(origins), message, origins)
})
