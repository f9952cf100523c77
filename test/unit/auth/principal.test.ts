/**
 * Tests the owner of an idempotency key: all tokens of one user have the same owner, tokens of
 * different users never do.
 */
import t from 'tap'
import { principalOf } from '../../../src/auth/principal.ts'

const ownerOf = (claims: string, role = 'user', anonymous = false): string =>
  principalOf({ role, claims, anonymous })

t.test('tokens of one user have the same owner', async t => {
  const rows: ReadonlyArray<readonly [name: string, first: string, second: string]> = [
    [
      'another token',
      '{"sub":"a","exp":1,"iat":1,"jti":"x"}',
      '{"sub":"a","exp":2,"iat":2,"nbf":2,"jti":"y"}'
    ],
    [
      'other claims besides the subject',
      '{"sub":"a","iss":"i","session":1}',
      '{"session":2,"iss":"i","sub":"a"}'
    ],
    [
      'another token without subject, with the claims in another order',
      '{"user":1.10,"exp":1,"org":{"b":1,"a":2}}',
      '{"exp":2,"org":{"b":1,"a":2},"user":1.10}'
    ]
  ]
  for (const [name, a, b] of rows) t.equal(ownerOf(a), ownerOf(b), name)
})

t.test('different users, roles and anonymous requests have different owners', async t => {
  const claims = [
    '{}',
    '{"sub":"a"}',
    '{"sub":"b"}',
    '{"sub":"a","iss":"i"}',
    '{"sub":"a","iss":"j"}',
    '{"sub":"a","iss":null,"x":1,"sub2":"b"}'.replace('"sub"', '"sub0"'),
    '{"sub":null,"user":"a"}',
    '{"sub":null,"user":"b"}',
    '{"sub":"","user":"a"}',
    '{"sub":"","user":"b"}',
    '{"sub":{},"user":"a"}',
    '{"sub":1}',
    '{"sub":2}',
    '{"user":9007199254740993}',
    '{"user":9007199254740992}',
    '{"user":1.1}',
    '{"user":1.10}',
    '{"user":"1.1"}',
    '{"role":"user"}'
  ]
  const all = [
    ...claims.map(text => ownerOf(text)),
    ...claims.map(text => ownerOf(text, 'other')),
    ownerOf('{"role":"user"}', 'user', true),
    ownerOf('{"role":"other"}', 'other', true)
  ]
  t.equal(new Set(all).size, all.length)
})

t.test('one subject has an owner in each tenant of DATABASE_ROUTES', async t => {
  const identity = { role: 'user', claims: '{"sub":"a"}', anonymous: false }
  const owners = [undefined, 'acme', 'globex'].map(tenant => principalOf({ ...identity, tenant }))
  t.equal(new Set(owners).size, 3)
  t.equal(principalOf({ ...identity, claims: '{"sub":"a","jti":"x"}', tenant: 'acme' }), owners[1])
})
