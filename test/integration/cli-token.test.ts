/**
 * `oneflight token`: the service accepts the token, and invalid options are refused.
 */
import t from 'tap'
import { runInside } from '../support/process/cli.ts'
import { SECRET, useService } from '../support/service.ts'

const secret = { JWT_SECRET: SECRET }

function claimsOf (token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] as string, 'base64url').toString())
}

t.test('a token is accepted by a service with the same variables', async t => {
  const env = {
    ...secret,
    JWT_ROLE_CLAIM: 'app_metadata.role',
    JWT_ISS: 'https://issuer.example.com',
    JWT_AUD: 'orders,stock',
    JWT_ALGORITHMS: 'HS256'
  }
  const service = await useService(t, {
    schema: 'create table things (id int); grant select on things to oneflight_user',
    env
  })
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
  const { status } = await service.post(
    [{ id: 'a', op: 'select', table: 'things' }],
    { role: null, headers: { authorization: `Bearer ${out.trim()}` } }
  )
  t.equal(status, 200)
})

t.test('claims can contain the role, and a time has a unit', async t => {
  for (const [time, seconds] of [['90s', 90], ['15m', 900], ['2h', 7200], ['30d', 2_592_000]]) {
    const { out } = await runInside(
      ['token', '--claims', '{"role": "r"}', '--expires-in', String(time)],
      { env: secret }
    )
    const { role, exp } = claimsOf(out)
    t.equal(role, 'r')
    t.ok(Math.abs(Number(exp) - Date.now() / 1000 - Number(seconds)) < 60, String(time))
  }
})

t.test('invalid options and environments', async t => {
  const role = ['--role', 'r']
  const rows: ReadonlyArray<
    readonly [args: readonly string[], message: string, env?: Record<string, string>]
  > = [
    [role, 'JWT_SECRET: required to sign a token', {}],
    [role, 'JWT_SECRET: required to sign a token', { JWT_SECRET: '' }],
    [role, 'JWT_SECRET: expected at least 32 bytes', { JWT_SECRET: 'short' }],
    [role, 'JWT_ALGORITHMS: does not contain HS256', { ...secret, JWT_ALGORITHMS: 'HS512' }],
    [[], '--role is required: the database role of the token'],
    [[...role, 'x'], 'token takes only options'],
    [
      [...role, '--expires-in', '1y'],
      'invalid --expires-in "1y" (expected a time such as 90s, 15m or 30d)'
    ],
    [[...role, '--expires-in', '900000000000d'], '--expires-in is too far in the future'],
    ...['7', '[]', 'null', '{'].map(text =>
      [
        [...role, '--claims', text],
        '--claims must be a JSON object, for example \'{"org": 7}\''
      ] as const
    ),
    [
      [...role, '--claims', '{"role": "s"}'],
      '--claims must not contain "role", which another option sets'
    ],
    [
      [...role, '--claims', '{"exp": 1}'],
      '--claims must not contain "exp", which another option sets'
    ],
    [
      [...role, '--claims', '{"id": 9007199254740993}'],
      '--claims: 9007199254740993 has too many digits; write it as a string'
    ]
  ]
  for (const [args, message, env = secret] of rows) {
    const { code, out, err } = await runInside(['token', ...args], { env })
    t.same([code, out], [2, ''], message)
    t.match(err, message)
  }
})
