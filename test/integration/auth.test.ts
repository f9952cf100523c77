/**
 * Tests authentication: the Authorization header, aud and iss, the anonymous role, refused roles,
 * the role and claims that PostgreSQL receives, the reasons in the log, and `oneflight token`.
 * tokens.test.ts tests the tokens themselves.
 */
import t, { type Test } from 'tap'
import { catalogue, type FailureCode } from '../../src/errors/catalogue.ts'
import { ensureRoles, LOGIN_ROLE, useDatabase } from '../support/database/database.ts'
import { makeToken, jwks, keyPair, publicJwk } from '../support/keys.ts'
import { exchange, request } from '../support/network/wire.ts'
import { ask, SECRET, useService, type Answer, type ServiceUnderTest } from '../support/service.ts'
import { bearer, failed, headersOfBatch, on, shopSchema, nowhere } from '../support/shorthand.ts'
import { until } from '../support/until.ts'
import { runInside } from '../support/process/cli.ts'

const schema = `${shopSchema}
  create view me as select current_user::text as role, session_user::text as login,
    current_setting('request.jwt.claims') as claims, current_setting('request.id') as id;
  grant select on me to public; grant usage on schema public to public;`
const me = '[{"id":"me","op":"select","table":"me"}]'
const role = 'oneflight_user'
const now = (): number => Math.floor(Date.now() / 1000)

const database = await useDatabase(t, { schema })

const as = ({ post }: ServiceUnderTest, authorization: string, batch = me): Promise<Answer> =>
  post(batch, { headers: { authorization } })

t.test('a valid token sets the role and passes its claims unchanged', async t => {
  const service = await useService(t, on(database))
  const exp = now() + 60
  const payload = `{"exp":${exp}.5,"role":"${role}","nbf":0,"iat":0,"aud":"any","iss":1,"sub":null}`
  const token = makeToken({ alg: 'HS256', key: SECRET, payload })
  for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer ']) {
    const { body, headers } = await as(service, `${scheme} ${token}`)
    const id = headers.get('x-request-id')
    t.same(body.data.me, [{ role, login: LOGIN_ROLE, claims: payload, id }], scheme)
  }
})

t.test('an invalid header returns 401 and never falls back to the anonymous role', async t => {
  const environments = [
    {},
    { ANON_ROLE: 'oneflight_anon' },
    { JWT_SECRET: '', ANON_ROLE: 'oneflight_anon' }
  ] as const
  for (const env of environments) {
    const service = await useService(t, { ...on(database), env })
    const good = bearer().slice('Bearer '.length)
    const invalid = [
      '', 'Bearer ', 'Basic dXNlcjpwYXNz', good, `Bearer ${good}, Bearer ${good}`,
      `Bearer\t${good}`, `Bearer "${good}"`, `Bearer ${good.slice(0, -8)}AAAAAAAA`
    ]
    for (const authorization of invalid) {
      const answer = await as(service, authorization)
      const expected = failed(401, 'token_invalid', { type: 'request_error', committed: false })
      t.match(answer, expected, authorization.slice(0, 60))
      t.equal(answer.headers.get('www-authenticate'), 'Bearer error="invalid_token"')
    }
    // Two Authorization headers are rejected whatever their values are.
    for (const second of [`Bearer ${good}`, '', 'Basic eA==']) {
      const headers = headersOfBatch({
        authorization: `Bearer ${good}\r\nAuthorization: ${second}`
      })
      const answer = await exchange(service.url, request('POST', '/', headers, me))
      t.match(answer, failed(401, 'token_invalid'))
      const id = answer.headers['x-request-id']
      const logged = await until(() => service.log.find(line => line['request_id'] === id))
      t.match(logged, { reason: 'several Authorization headers were sent' })
    }
    const anonymous = await service.post(me, { role: null })
    if ('ANON_ROLE' in env) {
      const claims = '{"role":"oneflight_anon"}'
      t.match(anonymous.body.data.me, [{ role: 'oneflight_anon', login: LOGIN_ROLE, claims }])
    } else {
      t.match(anonymous, failed(401, 'auth_required'))
      t.equal(
        anonymous.headers.get('www-authenticate'),
        'Bearer',
        'RFC 6750: without a token the challenge names no error'
      )
    }
    const health = await ask(`${service.url}/health`, { headers: { authorization: 'nonsense' } })
    t.equal(health.status, 200)
  }
})

t.test('unknown, reserved and privileged roles are refused with the same response', async t => {
  // On the way to the database a lone surrogate becomes U+FFFD.
  await ensureRoles(['oneflight_Größe x', 'oneflight_\ufffd'])
  const env = { JWT_ROLE_CLAIM: 'app.roles.0', ANON_ROLE: 'oneflight_anon' }
  const service = await useService(t, { ...on(database), env })
  const withRole = (name: string): string => bearer({ app: { roles: [name] } })
  const refused = [
    'nobody_has_this_name', 'postgres', 'none', 'NONE', 'none ', 'public', 'current_user',
    'pg_monitor', 'pg_unknown', 'PG_MONITOR', LOGIN_ROLE, `${LOGIN_ROLE} `, `${role}\0`,
    `"${role}"`, role.toUpperCase(), `${role}; reset role`, `${role}' --`, 'oneflight_usеr',
    'é'.repeat(32), 'x'.repeat(63), 'x'.repeat(64), `${role}${' '.repeat(63)}`,
    'oneflight_\ud800', '\ufeff', '*', '0', '__proto__', '\n', '\\', '$user'
  ]
  const responses = new Set<string>()
  for (const name of refused) {
    const batch = '[{"id":"a","op":"delete","table":"stock","all":true}]'
    const { status, text, headers } = await as(service, withRole(name), batch)
    t.equal(status, 403, JSON.stringify(name))
    const id = headers.get('x-request-id') as string
    // Connection headers may differ because some requests are rejected before the body arrives.
    const fields = [...headers].filter(([field]) =>
      !['date', 'connection', 'keep-alive'].includes(field)
    ).map(field => field.join(': ')).join('\n')
    responses.add(`${fields}\n${text}`.replaceAll(id, ''))
  }
  t.equal(responses.size, 1, [...responses].join('\n\n'))
  t.match([...responses][0], `\n${JSON.stringify({
    error: {
      type: 'session_error',
      code: 'role_denied',
      message: 'The role of the token is not allowed. The log states the reason.',
      committed: false,
      request_id: ''
    },
    data: null
  })}`)
  t.match(await database.sql`select count(*)::int as n from stock`, [{ n: 2 }])
  const { body } = await as(service, withRole('oneflight_Größe x'))
  t.match(body.data.me, [{ role: 'oneflight_Größe x' }])
})

t.test('PostgreSQL decides what a role may do', async t => {
  const env = { ANON_ROLE: 'oneflight_anon', DB_SCHEMAS: 'public,private' }
  const service = await useService(t, { ...on(database), env })
  const secrets = '[{"id":"s","op":"select","table":"private.secrets"}]'
  const message = 'permission denied for table secrets'
  const error = { type: 'execution_error', op: 's', index: 0, sqlstate: '42501', committed: false }
  const withRole = await service.post(secrets)
  t.match(withRole, failed(403, 'insufficient_privilege', { ...error, message }))
  t.equal(withRole.headers.get('www-authenticate'), null)
  const anonymous = await service.post(secrets, { role: null })
  t.match(anonymous, failed(401, 'insufficient_privilege', {
    ...error,
    message: `${message} (no token was sent)`
  }))
  t.equal(anonymous.headers.get('www-authenticate'), 'Bearer')
  t.match(await service.post('[{"id":"s","op":"select","table":"stock"}]', { role: null }), {
    status: 200
  })
})

const start = now()
const good = { role, exp: start + 3600, iss: 'https://id.example', aud: 'shop' }
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

t.test('the log states why a token was refused: the form, the key and the signature', async t => {
  const service = await useService(t, { ...nowhere, env: { JWT_ALGORITHMS: 'HS256,HS384' } })
  const [header, payload, signature] = sign(good).split('.') as [string, string, string]
  const notThreeParts = 'the token is not three parts of base64url, separated by dots'
  await check(t, service, [
    ['Bearer ', 'the Authorization header has no token after "Bearer"'],
    [sign(good), /another scheme than Bearer/],
    ['Bearer undefined', notThreeParts],
    [`Bearer ${header}.${payload}.A`, 'the signature is not canonical base64url'],
    [`Bearer a.${payload}.${signature}`, 'the header is not canonical base64url'],
    [`Bearer ${header}.a.${signature}`, 'the payload is not canonical base64url'],
    [`Bearer ${sign('[]')}`, 'the payload is not a JSON object in UTF-8'],
    [`Bearer ${sign('{"a":1,"a":2}')}`, 'the payload has a duplicate member'],
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
})

t.test('the log states why a token was refused: the key id', async t => {
  const twins = ['one', 'other'].map(owner => publicJwk(keyPair('p256', owner), { kid: 'twin' }))
  const JWT_JWKS = jwks(publicJwk(rsa, { kid: 'a', alg: 'RS256' }), ...twins)
  const service = await useService(t, { ...nowhere, env: { JWT_SECRET: '', JWT_JWKS } })
  const sign = (header: object): string =>
    `Bearer ${makeToken({ alg: 'RS256', key: rsa, payload: good, header })}`
  await check(t, service, [
    [sign({ alg: 'ES256' }), 'there is no kid, and no key for ES256, or several'],
    // The text of an unsigned token cannot change a terminal or fill the log.
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

t.test('the log states why a token was refused: the claims', async t => {
  const service = await useService(t, {
    ...nowhere,
    env: { JWT_ISS: good.iss, JWT_AUD: 'shop,till', JWT_ROLE_CLAIM: 'app.role' }
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
    [claim({ iss: [good.iss] }), /^iss is \["/],
    [claim({ aud: ['a', 1] }), 'aud is ["a",1], JWT_AUD is "shop,till"'],
    ...[undefined, [], 'shop,till', [['shop']]].map((aud): Row => [claim({ aud }), /^aud is /]),
    [claim({ app: { role: 1 } }), 'app.role (JWT_ROLE_CLAIM) must be a non-empty string']
  ], 'token_claims_invalid')
  await check(t, service, [
    [
      claim({ exp: start - 60 }),
      new RegExp(`^exp ${start - 60} was \\d+ s ago; 30 s are tolerated$`)
    ]
  ], 'token_expired')
  await check(t, service, [
    [
      claim({ nbf: start + 60 }),
      new RegExp(`^nbf ${start + 60} is in \\d+ s; 30 s are tolerated$`)
    ],
    [claim({ nbf: start, iat: start + 60 }), /^iat \d+ is in \d+ s/]
  ], 'token_not_active')
  await check(t, service, [
    [claim({ app: {} }), 'there is no app.role (JWT_ROLE_CLAIM)']
  ], 'role_missing')
  for (const claims of [{ exp: now() - 20 }, { nbf: now() + 20 }, { aud: ['x', 'till'] }]) {
    const answer = await as(service, claim(claims))
    t.match(answer, failed(503, 'database_unavailable'), 'the token is valid')
  }
})

t.test('the log states why a token was refused: the role', async t => {
  const service = await useService(t, on(database))
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

t.test('claims that settings name and the first token does not have are logged once', async t => {
  const service = await useService(t, {
    ...on(database),
    env: {
      JWT_ROLE_CLAIM: 'https://example.com/role',
      IDEMPOTENCY_SCOPE: 'https://example.com/tenant,org.id',
      IDEMPOTENCY_IGNORED_CLAIMS: 'session,nonse'
    }
  })
  const exp = now() + 60
  const send = (claims: object): Promise<Answer> =>
    as(service, `Bearer ${sign({ 'https://example.com/role': role, exp, ...claims })}`)
  t.equal((await service.post(me, { role: null })).status, 401)
  t.equal((await as(service, `Bearer ${sign({ exp: 1 })}`)).status, 401, 'an expired token')
  for (let i = 0; i < 3; i++) {
    t.equal((await send({ 'https://example.com/tenant': 'x', session: 1 })).status, 200)
  }
  t.equal((await send({})).status, 200)
  t.match(service.log.filter(({ setting }) => setting !== undefined), [
    { level: 40, setting: 'IDEMPOTENCY_SCOPE', claim: 'org.id' },
    { level: 40, setting: 'IDEMPOTENCY_IGNORED_CLAIMS', claim: 'nonse' }
  ])
  const { code, out } = await runInside(['token', '--role', role], {
    env: { ...secret, JWT_ROLE_CLAIM: 'https://example.com/role' }
  })
  t.equal(code, 0)
  t.equal(claimsOf(out)['https://example.com/role'], role)
})

t.test('the log states why a token was refused: a service without a key', async t => {
  const env = { JWT_SECRET: '', ANON_ROLE: 'oneflight_anon' }
  const service = await useService(t, { ...nowhere, env })
  await check(t, service, [[`Bearer ${sign(good)}`, 'no key for tokens is configured']])
})

const secret = { JWT_SECRET: SECRET }

function claimsOf (token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString())
}

t.test('oneflight token: a token is accepted by a service with the same variables', async t => {
  const env = {
    ...secret,
    JWT_ROLE_CLAIM: 'app_metadata.role',
    JWT_ISS: 'https://issuer.example.com',
    JWT_AUD: 'orders,stock',
    JWT_ALGORITHMS: 'HS256'
  }
  const service = await useService(t, { ...on(database), env })
  const { code, out, err } = await runInside(
    ['token', '--role', 'oneflight_user', '--sub', 'alice', '--claims', '{"org": 7}'],
    { env }
  )
  t.equal(code, 0)
  const { exp, ...claims } = claimsOf(out)
  t.same(claims, {
    iss: 'https://issuer.example.com',
    aud: 'orders',
    app_metadata: { role: 'oneflight_user' },
    sub: 'alice',
    org: 7
  })
  const left = Number(exp) - Date.now() / 1000
  t.ok(left > 3500 && left <= 3600, `expires in an hour, not in ${left} s`)
  t.match(err, /^oneflight: signed \{"iss":.*\}, expires 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$/)
  t.notMatch(err, SECRET)
  t.equal((await as(service, `Bearer ${out.trim()}`)).status, 200)
})

t.test('oneflight token: claims can contain the role, and a time has a unit', async t => {
  for (const [time, seconds] of [['15m', 900], ['30d', 2_592_000]]) {
    const { out } = await runInside(
      ['token', '--claims', '{"role": "r", "id": 9007199254740993}', '--expires-in', String(time)],
      { env: secret }
    )
    t.match(Buffer.from(out.split('.')[1] ?? '', 'base64url').toString(), '"id":9007199254740993}')
    const { role, exp } = claimsOf(out)
    t.equal(role, 'r')
    t.ok(Math.abs(Number(exp) - Date.now() / 1000 - Number(seconds)) < 60, String(time))
  }
})

t.test('oneflight token: invalid options and environments', async t => {
  const role = ['--role', 'r']
  const rows: ReadonlyArray<
    readonly [args: readonly string[], message: string, env?: Record<string, string>]
  > = [
    [role, 'JWT_SECRET: required to sign a token', { JWT_SECRET: '' }],
    [role, 'JWT_SECRET: expected at least 32 bytes', { JWT_SECRET: 'short' }],
    [role, 'JWT_ALGORITHMS: does not contain HS256', { ...secret, JWT_ALGORITHMS: 'HS512' }],
    [[], '--role is required: the database role of the token'],
    [
      [...role, '--expires-in', '1y'],
      'invalid --expires-in "1y" (expected a time such as 90s, 15m or 30d)'
    ],
    [[...role, '--expires-in', '900000000000d'], '--expires-in is too far in the future'],
    [[...role, 'x'], 'token takes only options'],
    [[...role, '--claims', '{'],
      '--claims is not valid JSON: unexpected end at line 1, column 2.'],
    [[...role, '--claims', '[]'],
      '--claims must be a JSON object, for example \'{"org": 7}\''],
    [
      [...role, '--claims', '{"role": "s"}'],
      '--claims must not contain "role", which another option sets'
    ]
  ]
  for (const [args, message, env = secret] of rows) {
    const { code, out, err } = await runInside(['token', ...args], { env })
    t.same([code, out], [2, ''], message)
    t.match(err, message)
  }
})
