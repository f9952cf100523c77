/**
 * Tests authentication: the Authorization header, aud and iss, the anonymous role, refused roles,
 * and the role and claims that PostgreSQL receives. tokens.test.ts tests the tokens themselves.
 */
import t from 'tap'
import { ensureRoles, LOGIN_ROLE, useDatabase } from '../support/database/database.ts'
import { makeToken } from '../support/keys.ts'
import { dial, request } from '../support/network/wire.ts'
import { ask, SECRET, useService, type Answer, type ServiceUnderTest } from '../support/service.ts'
import { bearer, failed, on, shopSchema } from '../support/shorthand.ts'

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
      '', 'Bearer', 'Bearer ', 'Basic dXNlcjpwYXNz', good, `Bearer ${good} x`,
      `Bearer ${good}, Bearer ${good}`, `Bearer ${good},${good}`, `Bearer ${good} ${good}`,
      `Token ${good}`, `Bearer: ${good}`, `Bearer\t${good}`, `Bearer "${good}"`,
      `Bearer ${good.slice(0, -8)}AAAAAAAA`, `Bearer ${'x'.repeat(15_000)}.y.z`
    ]
    for (const authorization of invalid) {
      const answer = await as(service, authorization)
      const expected = failed(401, 'token_invalid', { type: 'request_error', committed: false })
      t.match(answer, expected, authorization.slice(0, 60))
      t.equal(answer.headers.get('www-authenticate'), 'Bearer error="invalid_token"')
    }
    // Two Authorization headers are rejected whatever their values are.
    for (const second of [`Bearer ${good}`, '', 'Basic eA==']) {
      const line = await dial(service.url)
      const authorization = `Bearer ${good}\r\nAuthorization: ${second}`
      line.send(request('POST', '/', { authorization, 'content-type': 'application/json' }, me))
      t.match(await line.answers(1), [failed(401, 'token_invalid')])
      line.socket.destroy()
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

t.test('claims are validated', async t => {
  const parties = { aud: 'shop', iss: 'https://id.example' }
  const service = await useService(t, {
    ...on(database),
    env: { JWT_AUD: 'shop,till', JWT_ISS: parties.iss }
  })
  const exact = await useService(t, { ...on(database), env: { JWT_LEEWAY_S: '0' } })
  // The leeway is 30 s by default.
  const cases: ReadonlyArray<readonly [code: string | undefined, claims: readonly object[]]> = [
    [undefined, [
      { exp: now() + 1 }, { exp: now() - 20 }, { nbf: now() + 20 }, { iat: now() + 20 },
      { aud: 'till' }, { aud: ['x', 'till'] }
    ]],
    ['token_expired', [{ exp: now() - 31 }]],
    ['token_not_active', [{ nbf: now() + 60 }, { iat: now() + 60 }]],
    ['role_missing', [{ role: undefined }]],
    ['token_claims_invalid', [
      ...['x', undefined, [], [1, null], 'shop,till', [['shop']], 'SHOP'].map(aud => ({ aud })),
      ...[undefined, 'https://id.example/', ['https://id.example']].map(iss => ({ iss })),
      ...[null, '', 1, [role], { role }].map(role => ({ role })),
      { exp: undefined }
    ]]
  ]
  for (const [code, list] of cases) {
    for (const claims of list) {
      const { status, body, headers } = await as(service, bearer({ ...parties, ...claims }))
      const challenge = headers.get('www-authenticate')
      t.same(
        [status, body.error?.code, challenge],
        code === undefined ? [200, undefined, null] : [401, code, 'Bearer error="invalid_token"'],
        JSON.stringify(claims)
      )
    }
  }
  t.match(await as(exact, bearer({ exp: now() - 1 })), failed(401, 'token_expired'))
})

t.test('unknown, reserved and privileged roles are refused with the same response', async t => {
  // On the way to the database a lone surrogate becomes U+FFFD.
  await ensureRoles(['oneflight_Größe x', 'oneflight_\ufffd'])
  const env = { JWT_ROLE_CLAIM: 'app.roles.0', ANON_ROLE: 'oneflight_anon' }
  const service = await useService(t, { ...on(database), env })
  const withRole = (name: string): string => bearer({ app: { roles: [name] } })
  const refused = [
    'nobody_has_this_name', 'postgres', 'none', 'NONE', 'None', ' none', 'none ', 'default',
    'public', 'current_user', 'session_user', 'pg_monitor', 'pg_', 'pg_unknown', 'PG_MONITOR',
    LOGIN_ROLE, 'pg_read_all_data', ' ', LOGIN_ROLE.toUpperCase(), `${LOGIN_ROLE} `, `${role}\0`,
    `\0${role}`, `${role}\0x`, `${role} `, ` ${role}`, `"${role}"`, `'${role}'`, role.toUpperCase(),
    `${role}; reset role`, `${role}' --`, 'ｏneflight_user', 'oneflight_usеr', 'é'.repeat(32),
    'x'.repeat(63), 'x'.repeat(64), 'x'.repeat(4000), `${role}${' '.repeat(63)}`, '\ud800',
    'oneflight_\ud800', 'oneflight_\udc00', '\ufeff', '\u200b', '😀', '*', '0', '-1', '10', '%',
    '__proto__', 'constructor', 'null', 'undefined', 'true', '{"role":"x"}', '\n', '\\', '$user',
    '@'
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
