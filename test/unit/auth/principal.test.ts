/**
 * Whose an idempotency key is: the same from one token of a user to the next, and never that of two
 * users.
 */
import t from 'tap'
import { principalOf } from '../../../src/auth/principal.ts'

const of = (claims: string, role = 'user', anonymous = false): string =>
  principalOf({ role, claims, anonymous })

t.test('one and the same', async t => {
  const rows: ReadonlyArray<readonly [name: string, one: string, other: string]> = [
    [
      'another token',
      '{"sub":"a","exp":1,"iat":1,"jti":"x"}',
      '{"sub":"a","exp":2,"iat":2,"nbf":2,"jti":"y"}'
    ],
    [
      'other claims beside a subject',
      '{"sub":"a","iss":"i","session":1}',
      '{"session":2,"iss":"i","sub":"a"}'
    ],
    [
      'without a subject: another token, in another order',
      '{"user":1.10,"exp":1,"org":{"b":1,"a":2}}',
      '{"exp":2,"org":{"b":1,"a":2},"user":1.10}'
    ]
  ]
  for (const [name, one, other] of rows) t.equal(of(one), of(other), name)
})

t.test('never one and the same', async t => {
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
    ...claims.map(text => of(text)),
    ...claims.map(text => of(text, 'other')),
    of('{"role":"user"}', 'user', true),
    of('{"role":"other"}', 'other', true)
  ]
  t.equal(new Set(all).size, all.length)
})
