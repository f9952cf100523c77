/**
 * JWT_JWKS_URL: keys are found, replaced and removed as the endpoint serves them. An invalid or
 * missing response never changes the cached set, and the service runs without the endpoint.
 */
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import t, { type Test } from 'tap'
import { algorithms, type Algorithm } from '../../schemas/token.ts'
import { RemoteJwks, type RemoteJwksOptions } from '../../src/auth/jwks.ts'
import type { Failure } from '../../src/errors/catalogue.ts'
import { useDatabase } from '../support/database/database.ts'
import {
  jwks,
  keyPair,
  makeToken,
  publicJwk,
  type KeyKind
} from '../support/keys.ts'
import {
  body,
  bytes,
  hold,
  set,
  silence,
  trickle,
  useJwksServer,
  zipped,
  type Behaviour,
  type JwksServer
} from '../support/network/jwks-server.ts'
import { certs } from '../support/network/tls-server.ts'
import {
  ask,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { until } from '../support/until.ts'
import { failed, nowhere, on, shopSchema } from '../support/shorthand.ts'

/** Longer than any test: a timer with this delay never fires. */
const NEVER_MS = 3_600_000
const MIB = 1_048_576

/** The public key with this `kid` as JWK. */
const key = (kid: string, kind: KeyKind = 'ed25519', more: object = {}): object =>
  publicJwk(keyPair(kind, kid), { kid, ...more })

interface RemoteUnderTest {
  readonly changes: ReadonlyArray<{ readonly failed?: string, readonly keys?: number }>
  /** The `kid` of the key found for a token header, `none`, or the code of the failure. */
  look(kid?: string, alg?: Algorithm): Promise<string>
  close(): void
}

function useRemote (
  t: Test,
  { url }: Pick<JwksServer, 'url'>,
  options: Partial<RemoteJwksOptions> = {}
): RemoteUnderTest {
  const changes: Array<{ readonly failed?: string, readonly keys?: number }> = []
  const remote = new RemoteJwks({
    url: new URL(`${url}?key=canary`),
    algorithms,
    timeoutMs: NEVER_MS,
    refreshMs: NEVER_MS,
    cooldownMs: NEVER_MS,
    retryMs: NEVER_MS,
    onChange: change => changes.push(change),
    ...options
  })
  t.teardown(() => remote.close())
  return {
    changes,
    look: async (kid, alg = 'EdDSA') =>
      remote.find({ alg, ...kid !== undefined && { kid } }).then(
        key => key === undefined ? 'none' : key.kid ?? 'unnamed',
        (error: Failure) => error.code
      ),
    close: () => remote.close()
  }
}

t.test('a new key is found with one fetch, a removed key is rejected after the next', async t => {
  const server = await useJwksServer(t, set(key('old')))
  const { look, changes } = useRemote(t, server, { cooldownMs: 0 })
  t.equal(await look('old'), 'old')
  server.behave = set(key('old'), key('new'))
  t.equal(await look('old'), 'old')
  t.equal(server.asked.length, 1, 'a known key causes no fetch')
  t.equal(await look('new'), 'new')
  t.equal(server.asked.length, 2)
  server.behave = set(key('new'))
  t.equal(await look('other'), 'none')
  t.equal(await look('old'), 'none')
  t.equal(await look('new'), 'new')
  t.same(changes, [{ keys: 1 }], 'an unchanged number of keys is reported once')
})

t.test('lookups share a failed fetch, too, until the cooldown ends', async t => {
  const server = await useJwksServer(t, set(key('old')))
  const { look } = useRemote(t, server)
  t.equal(await look('old'), 'old')
  server.behave = body('', { status: 500 })
  for (let i = 0; i < 200; i++) t.equal(await look('new'), 'none')
  t.equal(server.asked.length, 2)
})

t.test('the set is refreshed periodically', async t => {
  const server = await useJwksServer(t, set(key('old')))
  const { look, changes } = useRemote(t, server, { refreshMs: 5, cooldownMs: NEVER_MS })
  t.equal(await look('old'), 'old')
  server.behave = set(key('new'))
  const before = server.asked.length
  // When the second fetch has begun, the first one has ended.
  await until(() => server.asked.length > before + 1)
  t.equal(await look('new'), 'new')
  t.equal(await look('old'), 'none')
  await until(() => server.asked.length > before + 5)
  t.same(changes, [{ keys: 1 }])
})

t.test('a failed fetch is repeated after the cooldown', async t => {
  const server = await useJwksServer(t, set(key('old')))
  const { look, changes } = useRemote(t, server, { cooldownMs: 5 })
  t.equal(await look('old'), 'old')
  server.behave = body('', { status: 503 })
  t.equal(await look('new'), 'none')
  await until(() => server.asked.length > 5)
  server.behave = set(key('old'), key('new'))
  await until(() => changes.length > 2)
  t.same(changes, [{ keys: 1 }, { failed: 'status 503' }, { keys: 2 }])
})

t.test('without a set, the fetch is repeated, and lookups wait for the running one', async t => {
  const server = await useJwksServer(t)
  await server.leave()
  const { look, changes } = useRemote(t, server, { retryMs: 5 })
  t.equal(await look('new'), 'keys_unavailable')
  const { behave, release } = hold(set(key('new')))
  server.behave = behave
  await server.comeBack()
  await until(() => server.asked.length === 1)
  const looks = [look('new'), look(), look('old')]
  t.same(changes, [{ failed: 'ECONNREFUSED' }])
  release()
  t.same(await Promise.all(looks), ['new', 'new', 'none'])
  t.same(changes, [{ failed: 'ECONNREFUSED' }, { keys: 1 }])
})

/** A valid set, which only arrives in invalid responses. */
const evil = jwks(key('evil'))

const failures: ReadonlyArray<readonly [name: string, behave: Behaviour, reason: RegExp]> = [
  ['status 201', body(evil, { status: 201 }), /^status 201$/],
  ['a redirect', body(evil, { status: 302, headers: { location: '/' } }), /^status 302$/],
  ['no set', body('{"keys":["x"]}'), /^the response is not a JSON Web Key Set$/],
  ['too long', zipped(evil.padEnd(MIB + 1)), /^the response is larger than 1048576 byte/],
  ['not HTTP', bytes(`${evil}\r\n\r\n`), /^the request failed$/]
]

t.test('invalid responses leave the last valid set in place', async t => {
  const server = await useJwksServer(t, set(key('good')))
  const { look, changes } = useRemote(t, server, { cooldownMs: 0 })
  t.equal(await look('good'), 'good')
  for (const [name, behave, reason] of failures) {
    const before = changes.length
    server.behave = behave
    t.equal(await look('evil'), 'none', name)
    t.equal(await look('good'), 'good', name)
    server.behave = set(key('good'))
    // A lookup may first wait for a fetch that began earlier.
    await until(async () => {
      await look('evil')
      return changes.at(-1)?.keys === 1
    })
    t.match(changes.slice(before), [{ failed: reason }, { keys: 1 }], name)
    t.equal(changes.length, before + 2, name)
  }
  t.notMatch(JSON.stringify(changes), /canary|127\.0\.0\.1/)
})

t.test('a response that is missing or does not end fails at the timeout', async t => {
  const server = await useJwksServer(t, set(key('good')))
  const { look, changes } = useRemote(t, server, { cooldownMs: 0, retryMs: 0, timeoutMs: 100 })
  await until(async () => await look('good') === 'good')
  for (const behave of [silence, trickle]) {
    const before = changes.length
    let request: IncomingMessage | undefined
    server.behave = (response, ...more) => {
      request ??= more[0]
      behave(response, ...more)
    }
    t.equal(await look('evil'), 'none')
    t.equal(await look('good'), 'good')
    t.same(changes.slice(before), [{ failed: 'no response in time' }])
    await until(() => request?.socket.destroyed)
    server.behave = set(key('good'))
    await until(async () => {
      await look('evil')
      return changes.at(-1)?.keys === 1
    })
  }
})

t.test('unusable keys and those of other algorithms are ignored one by one', async t => {
  // jwt-keys.test.ts has all kinds of keys that are invalid or for another purpose.
  const keys = [{}, key('weak', 'weakRsa'), key('other', 'p256'), key('good')]
  const server = await useJwksServer(t, set(...keys))
  const { look, changes } = useRemote(t, server, { cooldownMs: 0, algorithms: ['EdDSA'] })
  t.equal(await look('good'), 'good')
  t.equal(await look(), 'good', 'the only key that fits needs no kid')
  t.equal(await look('other', 'ES256'), 'none')
  server.behave = set({}, key('other', 'p256'))
  t.equal(await look('other', 'ES256'), 'none')
  t.equal(await look('good'), 'none', 'a set without a usable key replaces the previous set')
  t.same(changes, [{ keys: 1 }, { keys: 0 }])
})

t.test('a compressed response of 1 MiB is accepted', async t => {
  const { look } = useRemote(t, await useJwksServer(t, zipped(jwks(key('large')).padEnd(MIB))))
  t.equal(await look('large'), 'large')
})

t.test('an untrusted certificate is a failure', async t => {
  const server = await useJwksServer(t, body(evil), { tls: true })
  const { look, changes } = useRemote(t, server, { retryMs: 0 })
  t.equal(await look('evil'), 'keys_unavailable')
  t.match(changes, [{ failed: /CERT|SIGNATURE/ }])
  t.same(server.asked, [])
  const authorities = getCACertificates('default')
  t.teardown(() => setDefaultCACertificates(authorities))
  setDefaultCACertificates([...authorities, readFileSync(`${certs}/ca.crt`, 'utf8')])
  await until(async () => await look('evil') === 'evil')
})

t.test('a URL without https causes a warning, except on the local host', async t => {
  const insecure = 'http://127.0.0.1.keys.invalid/?hush'
  for (const url of [insecure, 'https://keys.invalid/', 'http://localhost:1/', 'http://[::1]:1/']) {
    const { log } = await useService(t, { ...nowhere, env: { JWT_SECRET: '', JWT_JWKS_URL: url } })
    const warnings = log.filter(({ msg }) =>
      String(msg).startsWith('JWT_JWKS_URL does not use https'))
    t.equal(warnings.length, url === insecure ? 1 : 0, url)
    t.notMatch(JSON.stringify(log), /hush/)
  }
})

t.test('closing ends a running fetch', async t => {
  const server = await useJwksServer(t, silence)
  const first = useRemote(t, server)
  await until(() => server.asked.length === 1)
  const look = first.look('new')
  first.close()
  t.equal(await look, 'keys_unavailable')
  await until(() => server.connections.size === 0)
  server.behave = set(key('old'))
  const later = useRemote(t, server, { cooldownMs: 0 })
  t.equal(await later.look('old'), 'old')
  later.close()
  t.equal(await later.look('new'), 'shutting_down')
  t.equal(await later.look('old'), 'old')
  t.same(
    [server.asked.length, ...first.changes, ...later.changes],
    [2, { keys: 1 }],
    'no further fetch, and closing is not reported as a failure'
  )
})

const schema = `${shopSchema}
  create view me as select current_user::text as role;
  grant select on me to public; grant usage on schema public to public;`
const database = await useDatabase(t, { schema })
const me = '[{"id":"me","op":"select","table":"me"}]'

/** A token with this `kid`, signed with the key `owner`; `claims` and `header` override. */
const tokenOf = (
  kid: string,
  { claims = {}, header = {}, owner = kid }: Partial<Record<'claims' | 'header', object>> & {
    readonly owner?: string
  } = {}
): string =>
  makeToken({
    alg: 'EdDSA',
    key: keyPair('ed25519', owner),
    header: { alg: 'EdDSA', kid, ...header },
    payload: {
      role: 'oneflight_user', exp: Math.floor(Date.now() / 1000) + 3600, hush: 'hush', ...claims
    }
  })
const envOf = ({ url }: JwksServer, more: Readonly<Record<string, string>> = {}) =>
  ({ JWT_SECRET: '', JWT_JWKS_URL: `${url}?key=canary`, ...more })
const post = (service: ServiceUnderTest, token: string, batch = me): Promise<Answer> =>
  service.post(batch, {
    headers: { authorization: `Bearer ${token}`, cookie: 'hush=1', 'x-request-id': 'hush' }
  })
const brief = (
  { status, body }: Answer
): unknown => [status, body.error?.code ?? body.data.me[0].role]
const linesOf = ({ log }: ServiceUnderTest): unknown[] =>
  log.filter(({ request_id: id, msg }) =>
    id === undefined && !/main server|admin server|connected to the database/.test(String(msg))
  )

t.test('the service starts without keys and accepts tokens once they arrive', async t => {
  const server = await useJwksServer(t)
  await server.leave()
  const service = await useService(t, {
    ...on(database),
    env: envOf(server, { ANON_ROLE: 'oneflight_anon', LOG_LEVEL: 'trace' })
  })
  const signed = [tokenOf('new'), tokenOf('new', { claims: { exp: 0 } })]
  for (const token of signed) {
    const answer = await post(service, token, 'no JSON')
    t.match(answer, failed(503, 'keys_unavailable', {
      type: 'service_error', committed: false, request_id: 'hush'
    }))
    t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/)
    t.equal(answer.headers.get('www-authenticate'), null)
  }
  const refused = [
    tokenOf('new', { header: { alg: 'none' } }), tokenOf('new', { header: { kid: 1 } }), 'a.b.c'
  ]
  for (const token of refused) {
    const answer = await post(service, token)
    t.same(brief(answer), [401, 'token_invalid'])
    t.equal(answer.headers.get('www-authenticate'), 'Bearer error="invalid_token"')
  }
  t.same(brief(await service.post(me, { role: null })), [200, 'oneflight_anon'])
  for (const path of ['ready', 'metrics']) {
    t.equal((await ask(`${service.adminUrl}/${path}`)).status, 200)
  }

  server.behave = set(key('new'))
  await server.comeBack()
  await until(async () => (await post(service, tokenOf('new'))).status === 200)
  const forged = tokenOf('new', { owner: 'evil' })
  t.same(brief(await post(service, forged)), [401, 'token_invalid'])

  t.match(linesOf(service), [{ level: 40, reason: 'ECONNREFUSED' }, { level: 30, keys: 1 }])
  t.equal(linesOf(service).length, 2, 'one line for the failure, one for the first set')
  for (const request of server.asked) {
    t.match(request, { method: 'GET', path: '/keys?key=canary' })
    t.notMatch(JSON.stringify(request.headers), /hush|eyJ|cookie|authorization/)
  }
})

t.test('a silent endpoint delays a request by at most half of its timeout', async t => {
  const server = await useJwksServer(t, silence)
  const service = await useService(t, {
    ...on(database),
    env: envOf(server, { REQUEST_TIMEOUT_MS: '2000', ANON_ROLE: 'oneflight_anon' })
  })
  const waiting = Array.from({ length: 20 }, () => post(service, tokenOf('new')))
  t.same(brief(await service.post(me, { role: null })), [200, 'oneflight_anon'])
  for (const answer of await Promise.all(waiting)) t.same(brief(answer), [503, 'keys_unavailable'])
  server.behave = set(key('old'))
  await until(async () => (await post(service, tokenOf('old'))).status === 200)
  server.behave = trickle
  t.same(brief(await post(service, tokenOf('new'))), [401, 'token_invalid'])
  t.same(brief(await post(service, tokenOf('old'))), [200, 'oneflight_user'])
})

t.test('stopping does not wait for keys', async t => {
  const server = await useJwksServer(t, silence)
  const idle = await useService(t, { ...on(database), env: envOf(server) })
  await until(() => server.asked.length === 1)
  await idle.stop()
  await until(() => server.connections.size === 0)
  t.same(linesOf(idle), [], 'the ended fetch is not logged as a failure')
})
