/** Tests `CORS_ORIGINS`: the CORS headers of all responses, and their absence by default. */
import t from 'tap'
import { ask, useService, type Answer } from '../support/service.ts'
import { exchange, request } from '../support/network/wire.ts'
import { failed, nowhere, shopSchema as schema } from '../support/shorthand.ts'

const app = 'https://app.example.com'
const select = [{ id: 's', op: 'select', table: 'stock' }]
const headersOf = ({ headers }: Pick<Answer, 'headers'>): readonly string[] =>
  [...headers.keys()].filter(name => name.startsWith('access-control-') || name === 'vary')
const preflight = (url: string, origin = app, more = {}): Promise<Answer> =>
  ask(url, {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', ...more }
  })

const service = await useService(t, { schema, env: { CORS_ORIGINS: app } })

t.test('without CORS_ORIGINS there are no CORS headers', async t => {
  const { post, url } = await service.useAnother(t)
  const refused = await preflight(url)
  t.match(refused, failed(405, 'method_not_allowed'))
  for (const response of [await post(select, { headers: { origin: app } }), refused]) {
    t.same(headersOf(response), [])
  }
})

t.test('a preflight is granted to the configured origins only', async t => {
  // A preflight needs no database.
  const service = await useService(t, {
    ...nowhere, env: { CORS_ORIGINS: `${app}, http://localhost:5173,http://[::1]:8080` }
  })
  const granted = [[app, '/'], ['http://localhost:5173', '/health']] as const
  for (const [origin, path] of granted) {
    const { status, text, headers } =
      await preflight(service.url + path, origin, { 'x-request-id': 'mine' })
    t.same([status, text], [204, ''], origin)
    t.equal(headers.get('access-control-allow-origin'), origin)
    t.match(headers.get('access-control-allow-headers'), /^authorization, content-type, prefer, /)
    t.equal(headers.get('access-control-allow-methods'), 'GET, HEAD, POST')
    t.match(headers.get('access-control-max-age'), /^[1-9]\d+$/)
    t.equal(headers.get('access-control-allow-credentials'), null)
    t.equal(headers.get('vary'), 'Origin')
    t.equal(headers.get('x-request-id'), 'mine')
  }
  t.equal(service.log.filter(({ method }) => method === 'OPTIONS').length, 2, 'a log line each')
  for (const origin of [`${app}.evil.example`, 'http://app.example.com', 'null']) {
    const { status, headers } = await preflight(service.url, origin)
    t.equal(status, 204)
    t.equal(headers.get('access-control-allow-origin'), null, origin)
    t.equal(headers.get('vary'), 'Origin')
  }
})

t.test('an OPTIONS request that is not a preflight is rejected', async t => {
  const response = await ask(service.url, { method: 'OPTIONS', headers: { origin: app } })
  t.match(response, failed(405, 'method_not_allowed'))
  t.equal(response.headers.get('allow'), 'POST')
})

t.test('successful and refused responses have the CORS headers', async t => {
  const headers = { origin: app }
  const rows: ReadonlyArray<readonly [status: number, response: Answer]> = [
    [200, await service.post(select, { headers })],
    [401, await service.post(select, { headers, role: null })],
    [404, await ask(`${service.url}/nowhere`, { headers })]
  ]
  for (const [status, response] of rows) {
    t.equal(response.status, status)
    t.equal(response.headers.get('access-control-allow-origin'), app, String(status))
    t.match(response.headers.get('access-control-expose-headers'), /^x-request-id, /)
    t.equal(response.headers.get('vary'), 'Origin')
  }
  const none = await service.post(select)
  t.equal(none.headers.get('vary'), 'Origin', 'a cache must not mix origins')

  // A request that is refused before its body is read has the same headers.
  const type = { 'content-type': 'application/json', 'content-length': '5' }
  const early = await exchange(service.url, request('POST', '/', { ...headers, ...type }))
  t.same([early.status, early.headers['access-control-allow-origin']], [401, app])
})

t.test('* allows every origin', async t => {
  const { url } = await useService(t, { ...nowhere, env: { CORS_ORIGINS: '*' } })
  const { headers } = await preflight(url, 'https://anybody.example')
  t.equal(headers.get('access-control-allow-origin'), '*')
})
