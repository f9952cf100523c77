/**
 * Tests the owner of an idempotency key. All tokens of one user have the same principal, tokens of
 * different users never do. All tokens with the same claims have the same hash of claims, except
 * for the claims that change with every token.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import { ownerOf, type KeyOwner } from '../../../src/auth/principal.ts'

const owner = (claims: string): KeyOwner => ownerOf({ role: 'user', claims, anonymous: false })

const principalOf = (claims: string, role = 'user', anonymous = false): string =>
  ownerOf({ role, claims, anonymous }).principal

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

t.test('principals are those of earlier versions', async t => {
  const rows: ReadonlyArray<readonly [claims: string, hashed: string]> = [
    ['{"exp":1,"sub":"a","sid":1,"role":"user"}', '["user","subject",null,"a"]'],
    ['{"iss":"i","sub":"a"}', '["user","subject","i","a"]'],
    [
      '{"sid":"s","nbf":1,"iat":1,"auth_time":9007199254740993,"exp":1,"a":{"c":1,"b":1.10}}',
      '["user","claims",[["a",{"c":1,"b":1.10}],["auth_time",9007199254740993],["sid","s"]]]'
    ]
  ]
  for (const [claims, hashed] of rows) t.equal(principalOf(claims), sha256(hashed), hashed)
  t.equal(principalOf('{"role":"user"}', 'user', true), sha256('["user","anonymous"]'))
  t.equal(
    ownerOf({ role: 'user', claims: '{"sub":"a"}', anonymous: false, tenant: 'acme' })
      .principal,
    sha256('["user","subject",null,"a","acme"]')
  )
})

t.test('tokens of one user have the same principal', async t => {
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
  for (const [name, a, b] of rows) t.equal(principalOf(a), principalOf(b), name)
})

t.test('different users, roles and anonymous requests have different principals', async t => {
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
    ...claims.map(text => principalOf(text)),
    ...claims.map(text => principalOf(text, 'other')),
    principalOf('{"role":"user"}', 'user', true),
    principalOf('{"role":"other"}', 'other', true)
  ]
  t.equal(new Set(all).size, all.length)
})

t.test('one subject has a principal in each tenant of DATABASE_ROUTES', async t => {
  const identity = { role: 'user', claims: '{"sub":"a"}', anonymous: false }
  const principals = [undefined, 'acme', 'globex'].map(tenant =>
    ownerOf({ ...identity, tenant }).principal
  )
  t.equal(new Set(principals).size, 3)
  t.equal(
    ownerOf({ ...identity, claims: '{"sub":"a","jti":"x"}', tenant: 'acme' }).principal,
    principals[1]
  )
})

t.test('the hash of the claims is that of every token with the same claims', async t => {
  const { claims: hash } = owner('{"sub":"a","org":{"b":[1,{"d":1,"c":2}],"a":1.10}}')
  const same = [
    '{"sub":"a","org":{"b":[1,{"d":1,"c":2}],"a":1.10},"exp":1,"iat":1,"nbf":1,"jti":"x",' +
    '"auth_time":1,"sid":"s"}',
    '{"sid":"t","auth_time":2.5,"jti":{},"org":{"a":1.10,"b":[1,{"c":2,"d":1}]},"sub":"a"}',
    ' {"s\\u0075b" : "a", "org": {"a": 1.10, "b": [1, {"c": 2, "d": 1}]}}'
  ]
  for (const claims of same) t.equal(owner(claims).claims, hash, claims)
})

t.test('the hash of the claims differs with any other claim, and with every digit', async t => {
  const claims = [
    '{}',
    '{"org":null}',
    '{"org":"null"}',
    '{"org":{}}',
    '{"org":[]}',
    '{"org":{"exp":1}}',
    '{"org":{"exp":2}}',
    '{"org":{"a":1,"b":2}}',
    '{"org":{"a":2,"b":1}}',
    '{"org":["a","b"]}',
    '{"org":["b","a"]}',
    '{"org":9007199254740992}',
    '{"org":9007199254740993}',
    '{"org":[9007199254740992]}',
    '{"org":[9007199254740993]}',
    '{"org":1.1}',
    '{"org":1.10}',
    '{"org":"1.1"}',
    '{"org":0}',
    '{"org":-0}',
    '{"org":1e400}',
    '{"org":1e401}',
    '{"org":"\\u0000"}',
    '{"org":"\\ud800"}',
    '{"org":"\\ud801"}',
    '{"__proto__":1}',
    '{"__proto__":2}',
    '{"org":{"__proto__":1}}',
    '{"org":{"__proto__":2}}'
  ]
  t.equal(new Set(claims.map(text => owner(text).claims)).size, claims.length)
})

t.test('claims that are nested too deep to be compared are refused', async t => {
  const nested = (levels: number): string =>
    `{"sub":"a","x":${'['.repeat(levels - 1)}1${']'.repeat(levels - 1)}}`
  t.not(owner(nested(100)).claims, owner(nested(99)).claims)
  for (const levels of [101, 6000]) {
    t.throws(() => owner(nested(levels)), {
      code: 'idempotency_key_invalid',
      message: /claims are nested at most 100 levels deep/
    })
  }
})
