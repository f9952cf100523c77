/**
 * Tests authentication: tokens and claims, the anonymous role, refused roles, and the role and
 * claims that PostgreSQL receives.
 */
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { signToken } from '../../src/auth/token.ts'
import { ensureRoles, LOGIN_ROLE } from '../support/database/database.ts'
import { dial, request } from '../support/network/wire.ts'
import {
  ask,
  SECRET,
  token,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'

const schema = `${readFileSync(new URL('../support/database/shop.sql', import.meta.url), 'utf8')}
  create view me as select current_user::text as role, session_user::text as login,
    current_setting('request.jwt.claims') as claims, current_setting('request.id') as id;
  grant select on me to public; grant usage on schema public to public;`
const me = '[{"id":"me","op":"select","table":"me"}]'
const role = 'oneflight_user'
const now = (): number => Math.floor(Date.now() / 1000)

/** Signs a token with exactly this header and payload text. */
function signed (
  payload: string | Buffer,
  { header = '{"alg":"HS256"}', hash = 'sha256', secret = SECRET } = {}
): string {
  const text = `${Buffer.from(header).toString('base64url')}.${
    Buffer.from(payload as string).toString('base64url')
  }`
  return `${text}.${createHmac(hash, secret).update(text).digest('base64url')}`
}

async function as (service: ServiceUnderTest, authorization: string, batch = me): Promise<Answer> {
  return service.post(batch, { headers: { authorization } })
}

t.test('a valid token sets the role and passes its claims unchanged', async t => {
  const service = await useService(t, { schema })
  const exp = now() + 60
  for (const bearer of ['Bearer', 'bearer', 'BEARER', 'Bearer  ']) {
    const { status, body, headers } = await as(
      service,
      `${bearer} ${signed(`{"role":"${role}","exp":${exp}}`)}`
    )
    t.equal(status, 200)
    t.match(body.data.me, [{ role, login: LOGIN_ROLE, id: headers.get('x-request-id') }])
  }
  const algorithms = [['HS256', 'sha256'], ['HS384', 'sha384'], ['HS512', 'sha512']] as const
  for (const [alg, hash] of algorithms) {
    t.equal(
      (await as(
        service,
        `Bearer ${
          signed(`{"role":"${role}","exp":${exp}}`, {
            hash,
            header: JSON.stringify({ alg, typ: 'JWT', kid: 'x' })
          })
        }`
      )).status,
      200,
      alg
    )
  }
  // The claims keep the numbers, spaces, order and escapes of the signed payload.
  const payloads = [
    `{ "role" : "${role}",\n"exp":${exp}, "big": 9007199254740993, "n": 1.10, "e": 1e3, ` +
    '"u": "\\u00e9é", "q": "it\'s \\"x\\"", "role2":{"a":[1, 2]} }',
    `{"exp":${exp}.5,"role":"${role}","nbf":0,"iat":0,"aud":"anyone","iss":1,"sub":null}`
  ]
  for (const payload of payloads) {
    const { body } = await as(service, `Bearer ${signed(payload)}`)
    t.equal(body.data.me[0].claims, payload)
  }
})

t.test('an invalid token returns 401 and never falls back to the anonymous role', async t => {
  const environments = [
    {},
    { ANON_ROLE: 'oneflight_anon' },
    { JWT_SECRET: '', ANON_ROLE: 'oneflight_anon' }
  ] as const
  for (const env of environments) {
    const service = await useService(t, { schema, env })
    const good = token({ role })
    const [head, payload, signature] = good.split('.') as [string, string, string]
    const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`
    const invalid = [
      '',
      'Bearer',
      'Bearer ',
      'Basic dXNlcjpwYXNz',
      good,
      `Bearer ${good} x`,
      `Bearer ${good}, Bearer ${good}`,
      `Bearer ${good},${good}`,
      `Bearer ${good} ${good}`,
      `Token ${good}`,
      `Bearer: ${good}`,
      `Bearer\t${good}`,
      `Bearer ${good}=`,
      `Bearer ${good}.x.y`,
      `Bearer ${head}.${payload}`,
      'Bearer a.b.c',
      'Bearer ..',
      `Bearer "${good}"`,
      `Bearer ${none}`,
      `Bearer ${none}${signature}`,
      `Bearer ${head}.${payload}.${signature.slice(1)}x`,
      `Bearer ${head}.${
        Buffer.from('{"role":"oneflight_other"}').toString('base64url')
      }.${signature}`,
      `Bearer ${token({ role }, 'another secret, which is as long as the first')}`,
      `Bearer ${signed(`{"role":"${role}"}`, { header: '{"alg":"HS512"}' })}`,
      `Bearer ${signed(`{"role":"${role}"}`, { header: '{"alg":"RS256"}' })}`,
      `Bearer ${signed(`{"role":"${role}"}`, { header: '{"alg":"none"}' })}`,
      `Bearer ${signed(`{"role":"${role}"}`, { header: '{}' })}`,
      `Bearer ${signed(`{"role":"${role}"}`, { header: '{"alg":["HS256"]}' })}`,
      `Bearer ${signed('{"role"')}`,
      `Bearer ${signed(Buffer.from(`{"role":"${role}","exp":9999999999,"x":"é"}`, 'latin1'))}`,
      `Bearer ${signed('')}`,
      `Bearer ${'x'.repeat(15_000)}.y.z`
    ]
    for (const authorization of invalid) {
      const { status, body, headers } = await as(service, authorization)
      t.equal(status, 401, authorization.slice(0, 60))
      t.match(body, {
        data: null,
        error: { type: 'request_error', code: 'token_invalid', committed: false }
      })
      t.equal(headers.get('www-authenticate'), 'Bearer error="invalid_token"')
    }
    // Two Authorization headers are rejected whatever their values are.
    for (const second of [`Bearer ${good}`, '', 'Basic eA==']) {
      const line = await dial(service.url)
      line.send(
        request('POST', '/', {
          authorization: `Bearer ${good}\r\nAuthorization: ${second}`,
          'content-type': 'application/json'
        }, me)
      )
      t.match(await line.answers(1), [{ status: 401, body: { error: { code: 'token_invalid' } } }])
      line.socket.destroy()
    }
    const anonymous = await service.post(me, { role: null })
    if ('ANON_ROLE' in env) {
      t.match(anonymous.body.data.me, [{
        role: 'oneflight_anon',
        login: LOGIN_ROLE,
        claims: '{"role":"oneflight_anon"}'
      }])
    } else {
      t.match(anonymous, { status: 401, body: { error: { code: 'auth_required' } } })
      t.equal(
        anonymous.headers.get('www-authenticate'),
        'Bearer',
        'RFC 6750: without a token the challenge names no error'
      )
    }
    t.equal(
      (await ask(`${service.url}/health`, { headers: { authorization: 'nonsense' } })).status,
      200
    )
  }
})

t.test('claims are validated', async t => {
  const service = await useService(t, {
    schema,
    env: { JWT_AUD: 'shop,till', JWT_ISS: 'https://id.example' }
  })
  const parties = { aud: 'shop', iss: 'https://id.example' }
  const check = async (claims: object, code: string | undefined): Promise<void> => {
    const { status, body, headers } = await as(
      service,
      `Bearer ${token({ role, ...parties, ...claims })}`
    )
    t.match(
      { status, code: body.error?.code },
      code === undefined ? { status: 200 } : { status: 401, code },
      JSON.stringify(claims)
    )
    t.equal(
      headers.get('www-authenticate'),
      code === undefined ? null : 'Bearer error="invalid_token"'
    )
  }
  const cases = [
    [{ exp: now() + 1 }],
    [{ exp: now() - 20 }],
    [{ exp: now() - 31 }, 'token_expired'],
    [{ exp: 0 }, 'token_expired'],
    [{ exp: -1 }, 'token_expired'],
    [{ exp: 1e300 }],
    [{ exp: undefined }, 'token_claims_invalid'],
    [{ exp: null }, 'token_claims_invalid'],
    [{ exp: String(now() + 60) }, 'token_claims_invalid'],
    [{ exp: true }, 'token_claims_invalid'],
    [{ exp: [] }, 'token_claims_invalid'],
    [{ nbf: now() + 20 }],
    [{ nbf: now() + 60 }, 'token_not_active'],
    [{ nbf: '0' }, 'token_claims_invalid'],
    [{ nbf: null }, 'token_claims_invalid'],
    [{ iat: now() + 20 }],
    [{ iat: now() + 60 }, 'token_not_active'],
    [{ iat: 0 }],
    [{ iat: {} }, 'token_claims_invalid'],
    [{ aud: 'till' }],
    [{ aud: ['x', 'till'] }],
    [{ aud: 'x' }, 'token_claims_invalid'],
    [{ aud: undefined }, 'token_claims_invalid'],
    [{ aud: [] }, 'token_claims_invalid'],
    [{ aud: [1, null] }, 'token_claims_invalid'],
    [{ aud: 'shop,till' }, 'token_claims_invalid'],
    [{ aud: [['shop']] }, 'token_claims_invalid'],
    [{ aud: 'SHOP' }, 'token_claims_invalid'],
    [{ iss: undefined }, 'token_claims_invalid'],
    [{ iss: 'https://id.example/' }, 'token_claims_invalid'],
    [{ iss: ['https://id.example'] }, 'token_claims_invalid'],
    [{ role: undefined }, 'role_missing'],
    [{ role: null }, 'token_claims_invalid'],
    [{ role: '' }, 'token_claims_invalid'],
    [{ role: 1 }, 'token_claims_invalid'],
    [{ role: [role] }, 'token_claims_invalid'],
    [{ role: { role } }, 'token_claims_invalid']
  ] as const
  for (const [claims, code] of cases) await check(claims, code)
  const payloads = [
    '[]',
    '"x"',
    'null',
    '1',
    `{"role":"${role}","exp":1e999}`,
    `{"role":"${role}","exp":-1e999}`,
    `{"role":"${role}","exp":9999999999,"nbf":-1e999}`
  ]
  for (const payload of payloads) {
    const { status, body } = await as(service, `Bearer ${signed(payload)}`)
    t.match({ status, code: body.error.code }, {
      status: 401,
      code: /token_invalid|token_claims_invalid/
    }, payload)
  }
})

t.test('exp, leeway and the role claim are configurable', async t => {
  const bare = await useService(t, {
    schema,
    env: { JWT_REQUIRE_EXP: 'false', JWT_LEEWAY_S: '0', JWT_ROLE_CLAIM: 'app.roles.0' }
  })
  const code = async (claims: Record<string, unknown>): Promise<unknown> => {
    const { body } = await as(bare, `Bearer ${signToken(claims, SECRET)}`)
    return body.error?.code
  }
  const app = { roles: [role] }
  t.equal(await code({ app }), undefined)
  t.equal(await code({ app, exp: now() - 1 }), 'token_expired')
  t.equal(await code({ app, exp: 'x' }), 'token_claims_invalid')
  t.equal(await code({ app, nbf: now() + 3600 }), 'token_not_active')
  const withoutRole = [
    {},
    { role },
    { app: null },
    { app: 'roles' },
    { app: { roles: [] } },
    { 'app.roles.0': role }
  ]
  for (const claims of withoutRole) {
    t.equal(await code(claims), 'role_missing', JSON.stringify(claims))
  }
  const odd = await useService(t, { schema, env: { JWT_ROLE_CLAIM: 'constructor.name' } })
  t.match((await as(odd, `Bearer ${token({ role })}`)).body.error.code, 'role_missing')
})

t.test('unknown, reserved and privileged roles are refused with the same response', async t => {
  await ensureRoles(['oneflight_Größe x'])
  const service = await useService(t, { schema })
  const errors: unknown[] = []
  const refused = [
    'nobody_has_this_name',
    'postgres',
    'none',
    'pg_read_all_data',
    'pg_',
    LOGIN_ROLE,
    'x'.repeat(63),
    'x'.repeat(64),
    'é'.repeat(32),
    `${role}\0`,
    '\ud800',
    ' ',
    `"${role}"`,
    role.toUpperCase(),
    'NONE',
    'default',
    '__proto__',
    'constructor'
  ]
  for (const name of refused) {
    const { status, body, headers } = await as(
      service,
      `Bearer ${token({ role: name })}`,
      '[{"id":"a","op":"delete","table":"stock","all":true}]'
    )
    t.equal(status, 403, name)
    t.match(body.error.request_id, headers.get('x-request-id'))
    errors.push({ ...body.error, request_id: '' })
  }
  t.same(
    errors,
    Array(errors.length).fill({
      type: 'session_error',
      code: 'role_denied',
      message: 'The role of the token is not allowed. The log states the reason.',
      committed: false,
      request_id: ''
    }),
    'the same error for all of them'
  )
  t.match(await service.database.sql`select count(*)::int as n from stock`, [{ n: 2 }])
  t.match((await as(service, `Bearer ${token({ role: 'oneflight_Größe x' })}`)).body.data.me, [{
    role: 'oneflight_Größe x'
  }])
})

t.test('PostgreSQL decides what a role may do', async t => {
  const service = await useService(t, {
    schema,
    env: { ANON_ROLE: 'oneflight_anon', DB_SCHEMAS: 'public,private' }
  })
  const secrets = '[{"id":"s","op":"select","table":"private.secrets"}]'
  const withRole = await service.post(secrets)
  t.match(withRole, {
    status: 403,
    body: {
      error: {
        type: 'execution_error',
        code: 'insufficient_privilege',
        op: 's',
        index: 0,
        sqlstate: '42501',
        committed: false
      }
    }
  })
  t.equal(withRole.headers.get('www-authenticate'), null)
  const anonymous = await service.post(secrets, { role: null })
  t.match(anonymous, {
    status: 401,
    body: { error: { type: 'execution_error', code: 'insufficient_privilege', sqlstate: '42501' } }
  })
  t.equal(anonymous.headers.get('www-authenticate'), 'Bearer')
  t.equal(
    (await service.post('[{"id":"s","op":"select","table":"stock"}]', { role: null })).status,
    200
  )
})
