/** Tests which database the claim of a token selects. */
import t from 'tap'
import { bucketOf, findRoute } from '../../../src/auth/claims.ts'
import { parseDatabaseRoutes } from '../../../src/config/database-url.ts'

const url = (host: string): string => `postgres://app@${host}/shop`
const find = (text: string, payload: Readonly<Record<string, unknown>>, path = 'tenant'): string =>
  findRoute(payload, path, parseDatabaseRoutes(text)).route.name.replace(':5432/shop', '')

t.test('the bucket of a value never changes', async t => {
  // Rows were stored by these numbers. They must not be updated.
  const rows: ReadonlyArray<readonly [value: string, of16: number, of1000: number]> = [
    ['acme', 13, 357],
    ['globex', 13, 205],
    ['1', 3, 619],
    ['Ünïcode', 8, 840],
    ['\u{1F680}', 8, 384],
    [' acme', 6, 54],
    ['', 2, 610]
  ]
  for (const [value, of16, of1000] of rows) {
    t.same([bucketOf(value, 16), bucketOf(value, 1000)], [of16, of1000], JSON.stringify(value))
  }
})

t.test('values are spread evenly over the buckets', async t => {
  const counts = new Array<number>(16).fill(0)
  for (let i = 0; i < 16_000; i++) (counts[bucketOf(`tenant-${i}`, 16)] as number)++
  t.ok(Math.min(...counts) > 850 && Math.max(...counts) < 1150, counts.join(' '))
})

t.test('a listed value comes before the hash', async t => {
  const routes = `acme=${url('own')},hash(16)=${url('even')}|${url('odd')}`
  t.equal(find(routes, { tenant: 'acme' }), 'own')
  for (const tenant of ['globex', '1', '*', 'hash(16)', '__proto__', 'constructor', '\ud800']) {
    t.equal(find(routes, { tenant }), bucketOf(tenant, 16) % 2 === 0 ? 'even' : 'odd', tenant)
  }
})

t.test('a value without a database is refused', async t => {
  const routes = `acme=${url('a')}`
  for (const tenant of ['Acme', 'acme ', '*', '__proto__', 'constructor', 'toString']) {
    t.throws(() => find(routes, { tenant }), {
      code: 'route_unknown',
      status: 403,
      type: 'session_error',
      reason: `tenant ${JSON.stringify(tenant)} has no database in DATABASE_ROUTES`
    })
  }
  t.equal(find(`acme=${url('a')},*=${url('rest')}`, { tenant: 'other' }), 'rest')
})

t.test('only text is accepted', async t => {
  const routes = `1=${url('a')},*=${url('rest')}`
  for (const tenant of [undefined, null, '', 1, true, ['1'], { id: '1' }]) {
    t.throws(() => find(routes, { tenant }), {
      code: 'token_claims_invalid',
      status: 401,
      reason: 'tenant (DATABASE_ROUTE_CLAIM) must be a non-empty string'
    })
  }
})

t.test('the claim can be a path, or a name with dots', async t => {
  const routes = `acme=${url('a')}`
  const name = 'https://example.com/tenant'
  t.equal(find(routes, { [name]: 'acme' }, name), 'a')
  t.equal(find(routes, { 'app.tenant': 'acme', app: { tenant: 'x' } }, 'app.tenant'), 'a')
  t.equal(find(routes, { app: { tenant: 'acme' } }, 'app.tenant'), 'a')
  for (const payload of [{ app: 'acme' }, { 'app.tenants': 'acme' }, {}]) {
    t.throws(() => find(routes, payload, 'app.tenant'), { code: 'token_claims_invalid' })
  }
})
