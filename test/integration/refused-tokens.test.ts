/**
 * Tests that the log states why a token was refused, and that the response does not.
 */
import t, { type Test } from 'tap'
import { catalogue, type FailureCode } from '../../src/errors/catalogue.ts'
import { LOGIN_ROLE } from '../support/database/database.ts'
import { jwks, keyPair, makeToken, publicJwk } from '../support/keys.ts'
import { request, speak } from '../support/network/wire.ts'
import { SECRET, useService, type ServiceUnderTest } from '../support/service.ts'
import { nowhere } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const role = 'oneflight_user'
const now = Math.floor(Date.now() / 1000)
const good = { role, exp: now + 3600, iss: 'https://id.example', aud: 'shop' }
const batch = '[{"id":"a","op":"select","table":"pg_class"}]'
const rsa = keyPair('rsa')

type Row = readonly [authorization: string, reason: string | RegExp]

/** Sends each Authorization header and compares the response and the line of the log. */
async function check (
  t: Test,
  service: ServiceUnderTest,
  rows: readonly Row[],
  code: FailureCode = 'token_invalid'
): Promise<void> {
  for (const [authorization, reason] of rows) {
    const { status, body, headers } = await service.post(batch, { headers: { authorization } })
    const { type, status: expected, meaning } = catalogue[code]
    const id = headers.get('x-request-id')
    t.equal(status, expected, String(reason))
    t.same(
      body.error,
      { type, code, message: meaning, committed: false, request_id: id },
      'the response has nothing but the code and its meaning'
    )
    await until(() => service.log.some(line => line['request_id'] === id))
    t.match(service.log.filter(line => line['request_id'] === id), [{ level: 30, code, reason }])
  }
  const log = JSON.stringify(service.log)
  t.notOk(log.includes(SECRET))
  for (const [authorization] of rows) {
    for (const part of authorization.split(/[ .]/).filter(part => part.length > 16)) {
      t.notOk(log.includes(part), 'no part of a token')
    }
  }
}

const sign = (claims: unknown, header: object | string = { alg: 'HS256' }): string =>
  makeToken({ alg: 'HS256', key: SECRET, payload: claims, header })

t.test('the form, the key and the signature', async t => {
  const service = await useService(t, { ...nowhere, env: { JWT_ALGORITHMS: 'HS256,HS384' } })
  const [header, payload, signature] = sign(good).split('.') as [string, string, string]
  const notThreeParts = 'the token is not three parts of base64url, separated by dots'
  await check(t, service, [
    ['', 'the Authorization header has another scheme than Bearer'],
    ['Bearer ', 'the Authorization header has no token after "Bearer"'],
    ['Basic dXNlcjpwYXNz', /another scheme than Bearer/],
    [sign(good), /another scheme than Bearer/],
    ['Bearer undefined', notThreeParts],
    [`Bearer "${sign(good)}"`, notThreeParts],
    [`Bearer ${header}.${payload}.${signature}=`, notThreeParts],
    [`Bearer ${header}.${payload}.A`, 'the signature is not canonical base64url'],
    [`Bearer a.${payload}.${signature}`, 'the header is not canonical base64url'],
    [`Bearer ${header}.a.${signature}`, 'the payload is not canonical base64url'],
    [`Bearer ${sign('[]')}`, 'the payload is not a JSON object in UTF-8'],
    [
      `Bearer ${sign(Buffer.from('{"role":"é"}', 'latin1'))}`,
      'the payload is not a JSON object in UTF-8'
    ],
    [`Bearer ${sign('{"a":1,"a":2}')}`, 'the payload has a duplicate member'],
    [`Bearer ${sign(good, '{"alg":"x","alg":"HS256"}')}`, 'the header has a duplicate member'],
    [`Bearer ${sign(good, {})}`, 'the header member alg is missing or not supported'],
    [
      `Bearer ${sign(good, { alg: 'HS256', crit: ['hush'] })}`,
      'the header member crit is missing or not supported'
    ],
    [`Bearer ${sign(good, { alg: 'HS512' })}`, 'alg "HS512" is not one of HS256, HS384'],
    [
      `Bearer ${makeToken({ alg: 'HS256', key: `other ${SECRET}`, payload: good })}`,
      'the signature does not match the key'
    ]
  ])
  const [answer] = await speak(
    service.url,
    request('POST', '/', {
      authorization: 'Bearer x\r\nAuthorization: Bearer y',
      'content-type': 'application/json',
      connection: 'close'
    }, batch)
  )
  const id = answer?.headers['x-request-id']
  const line = await until(() => service.log.find(line => line['request_id'] === id))
  t.match(line, { reason: 'several Authorization headers were sent' })
})

t.test('the key id', async t => {
  const twins = ['one', 'other'].map(owner => publicJwk(keyPair('p256', owner), { kid: 'twin' }))
  const JWT_JWKS = jwks(publicJwk(rsa, { kid: 'a', alg: 'RS256' }), ...twins)
  const service = await useService(t, { ...nowhere, env: { JWT_SECRET: '', JWT_JWKS } })
  const sign = (header: object): string =>
    `Bearer ${makeToken({ alg: 'RS256', key: rsa, payload: good, header })}`
  await check(t, service, [
    [sign({ alg: 'RS256', kid: 'b' }), 'there is no key with kid "b" for RS256, or several'],
    [sign({ alg: 'ES256', kid: 'twin' }), 'there is no key with kid "twin" for ES256, or several'],
    [sign({ alg: 'ES256' }), 'there is no kid, and no key for ES256, or several'],
    // Text of a token that nobody has signed cannot change a terminal or fill the log.
    [
      sign({ alg: 'RS256', kid: '\u001b[31m\u009b\n"é' }),
      'there is no key with kid "\\u001b[31m\\u009b\\n\\"\\u00e9" for RS256, or several'
    ],
    [
      sign({ alg: 'RS256', kid: 'k'.repeat(5000) }),
      `there is no key with kid "${'k'.repeat(127)}... for RS256, or several`
    ]
  ])
})

t.test('the claims', async t => {
  const service = await useService(t, {
    ...nowhere,
    env: { JWT_ISS: good.iss, JWT_AUD: 'shop,till', JWT_LEEWAY_S: '10', JWT_ROLE_CLAIM: 'app.role' }
  })
  const claim = (claims: object): string =>
    `Bearer ${sign({ ...good, app: { role }, ...claims })}`
  await check(t, service, [
    [claim({ exp: '1' }), 'exp, nbf and iat must be finite numbers'],
    [claim({ exp: undefined }), 'there is no exp, and JWT_REQUIRE_EXP is true'],
    [
      claim({ iss: 'https://id.example/' }),
      'iss is "https://id.example/", JWT_ISS is "https://id.example"'
    ],
    [claim({ iss: undefined }), 'iss is missing, JWT_ISS is "https://id.example"'],
    [claim({ aud: ['a', 1] }), 'aud is ["a",1], JWT_AUD is "shop,till"'],
    [claim({ app: { role: 1 } }), 'app.role (JWT_ROLE_CLAIM) must be a non-empty string']
  ], 'token_claims_invalid')
  await check(t, service, [
    [claim({ exp: now - 60 }), new RegExp(`^exp ${now - 60} was 6\\d s ago, JWT_LEEWAY_S is 10$`)]
  ], 'token_expired')
  await check(t, service, [
    [
      claim({ nbf: now + 60 }),
      new RegExp(`^nbf ${now + 60} is in [56]\\d s, JWT_LEEWAY_S is 10$`)
    ],
    [claim({ nbf: now, iat: now + 60 }), /^iat \d+ is in [56]\d s/]
  ], 'token_not_active')
  await check(t, service, [
    [claim({ app: {} }), 'there is no app.role (JWT_ROLE_CLAIM)']
  ], 'role_missing')
})

t.test('the role', async t => {
  const service = await useService(t)
  const claim = (role: string): string => `Bearer ${sign({ ...good, role })}`
  await check(t, service, [
    [claim('pg_monitor'), 'role "pg_monitor" is reserved'],
    [claim(LOGIN_ROLE), `role "${LOGIN_ROLE}" is the login role of the service`],
    [claim('a\0'), 'role "a\\u0000" is not a possible name of a role'],
    [claim('nobody_has_this_name'), 'the role does not exist'],
    [
      claim('postgres'),
      'the role is not granted to the login role. If tokens may have it, and it is no superuser, ' +
      'run GRANT "postgres" TO <login role>'
    ]
  ], 'role_denied')
  t.match(
    service.log.filter(line => line['code'] === 'role_denied').map(line => line['role']),
    [undefined, undefined, undefined, 'nobody_has_this_name', 'postgres']
  )
})

t.test('a service without a key', async t => {
  const env = { JWT_SECRET: '', ANON_ROLE: 'oneflight_anon' }
  const service = await useService(t, { ...nowhere, env })
  await check(t, service, [[`Bearer ${sign(good)}`, 'no key for tokens is configured']])
})
