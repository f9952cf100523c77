/**
 * Tests the owner of an idempotency key. All tokens of one user have the same principal, tokens of
 * different users never do. All tokens with the same claims have the same hash of claims, except
 * for the claims that change with every token.
 */
import { createHash } from 'node:crypto'
import t from 'tap'
import type { KeyOwner } from '../../../schemas/token.ts'
import { ownerOf } from '../../../src/auth/key-owner.ts'

type Settings = Parameters<typeof ownerOf>[1]

const owner = (claims: string, settings: Settings = {}): KeyOwner =>
  ownerOf({ role: 'user', claims, anonymous: false }, settings)

const principalOf = (claims: string, role = 'user', anonymous = false): string =>
  ownerOf({ role, claims, anonymous }, {}).principal

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
    '{"sub":null,"user":"a"}',
    '{"sub":"","user":"a"}',
    '{"sub":1}',
    '{"user":1.1}',
    '{"user":1.10}',
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

t.test('known claims of tokens, logins and sessions do not count', async t => {
  const { claims, earlierClaims, eachClaim } = owner('{"sub":"a","amr":["pwd"]}')
  t.same(Object.keys(JSON.parse(eachClaim)), ['amr', 'sub'])
  t.equal(earlierClaims, claims)
  const names = [
    'nonce', 'at_hash', 'c_hash', 's_hash', 'updated_at', 'session_state', 'session_id', 'aio',
    'rh', 'uti', 'xms_ftd', 'event_id', 'origin_jti', 'fva', 'rat'
  ]
  for (const name of names) {
    const other = owner(`{"sub":"a","amr":["pwd"],"${name}":[1]}`)
    t.equal(other.claims, claims, name)
    t.equal(other.eachClaim, eachClaim, name)
    t.not(other.earlierClaims, earlierClaims, `${name} in earlier versions`)
  }
  for (const name of ['amr', 'acr', 'aal', 'azp', 'scope', 'org_id', 'tid', 'exp ']) {
    t.not(owner(`{"sub":"a","${name}":[1]}`).claims, owner('{"sub":"a"}').claims, name)
  }
})

t.test('the hashes of single claims are bounded, and show no value', async t => {
  const each = (claims: object): object => JSON.parse(owner(JSON.stringify(claims)).eachClaim)
  const one = each({ sub: 'a', admin: true })
  t.match(one, { admin: /^[0-9a-f]{8}$/ })
  t.not((each({ sub: 'b', admin: true }) as { admin: string }).admin,
    (one as { admin: string }).admin, 'salted with the principal')
  t.same(Object.keys(each({ sub: 'a', ['x'.repeat(101)]: 1 })), ['sub'])
  const many = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`c${i}`, i]))
  t.equal(Object.keys(each(many)).length, 64)
  t.same(each({ ...many, more: 1 }), {})
})

t.test('the hash of the claims differs with any other claim, and with every digit', async t => {
  const claims = [
    '{}',
    '{"org":null}',
    '{"org":{}}',
    '{"org":{"exp":1}}',
    '{"org":{"exp":2}}',
    '{"org":{"a":1,"b":2}}',
    '{"org":{"a":2,"b":1}}',
    '{"org":["a","b"]}',
    '{"org":["b","a"]}',
    '{"org":[9007199254740992]}',
    '{"org":[9007199254740993]}',
    '{"org":1.10}',
    '{"org":1e400}',
    '{"org":"\\ud800"}',
    '{"org":"\\ud801"}',
    '{"__proto__":1}',
    '{"org":{"__proto__":1}}'
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

t.test('claims of IDEMPOTENCY_IGNORED_CLAIMS may differ', async t => {
  const settings = {
    IDEMPOTENCY_IGNORED_CLAIMS: [
      'session', 'app.token', 'app.deep.token', 'n.x', 'https://a.example/s', 'https://a.example/o.s'
    ]
  }
  const rows: ReadonlyArray<readonly [name: string, one: string, other: string, same: boolean]> = [
    ['a claim', '"session":1', '"session":2', true],
    ['a path', '"app":{"token":1,"t":1}', '"app":{"t":1,"token":2}', true],
    ['another member', '"app":{"token":1,"t":1}', '"app":{"token":1,"t":2}', false],
    ['a path that ends early', '"app":1', '"app":2', false],
    ['a path into a number', '"n":9007199254740993', '"n":9007199254740992', false],
    ['a name with a dot', '"app.token":1', '"app.token":2', true],
    ['a name with a dot before a path', '"app.token":1,"app":{"token":1}',
      '"app.token":2,"app":{"token":2}', false],
    ['a URL', '"https://a.example/s":1', '"https://a.example/s":2', true],
    ['a member of a URL', '"https://a.example/o":{"s":1}', '"https://a.example/o":{"s":2}', true],
    ['the last name of a path', '"token":1', '"token":2', false]
  ]
  for (const [name, one, other, same] of rows) {
    const first = owner(`{"sub":"a",${one}}`, settings)
    const second = owner(`{"sub":"a",${other}}`, settings)
    t.equal(first.claims === second.claims, same, name)
    t.equal(first.principal, second.principal, name)
  }
})

t.test('without a subject, they are no part of the principal either', async t => {
  const settings = { IDEMPOTENCY_IGNORED_CLAIMS: ['session', 'app.token'] }
  const one = owner('{"user":1,"session":1,"app":{"token":1}}', settings)
  t.same(owner('{"user":1,"session":2,"app":{"token":2}}', settings), one)
  t.equal(one.principal, sha256('["user","claims",[["app",{}],["user",1]]]'))
  t.not(owner('{"user":2,"session":1,"app":{"token":1}}', settings).principal, one.principal)
})

t.test('with IDEMPOTENCY_SCOPE, values of claims are part of the principal', async t => {
  const settings = { IDEMPOTENCY_SCOPE: ['app.tenant', 'shop'] }
  const principal = (claims: string): string => owner(claims, settings).principal
  const different = [
    '{"sub":"a"}',
    '{"sub":"a","app":{"tenant":"x"}}',
    '{"sub":"a","shop":"x"}',
    '{"sub":"a","app":{"tenant":"x"},"shop":"x"}',
    '{"sub":"b","app":{"tenant":"x"},"shop":"x"}',
    '{"sub":"a","shop":{"b":9007199254740993,"a":1}}'
  ]
  t.equal(new Set(different.map(principal)).size, different.length)
  const same: ReadonlyArray<readonly [one: string, other: string]> = [
    ['{"sub":"a","shop":{"b":1,"a":2}}', '{"shop":{"a":2,"b":1},"sub":"a"}'],
    ['{"sub":"a","app":{"tenant":null}}', '{"sub":"a"}'],
    ['{"sub":"a","app":"tenant"}', '{"sub":"a","app":{"shop":"x"},"exp":1}']
  ]
  for (const [one, other] of same) t.equal(principal(one), principal(other), one)
  const url = 'https://example.com/tenant'
  const tenants = ['x', 'y', null].map(tenant =>
    owner(JSON.stringify({ sub: 'a', [url]: tenant }), { IDEMPOTENCY_SCOPE: [url] }).principal
  )
  t.equal(new Set(tenants).size, 3, 'a claim whose name is a URL')
  const anonymous = [undefined, ['shop']].map(scope => ownerOf(
    { role: 'user', claims: '{"role":"user"}', anonymous: true },
    scope === undefined ? {} : { IDEMPOTENCY_SCOPE: scope }
  ).principal)
  t.equal(new Set(anonymous).size, 2, 'without a token')
})
