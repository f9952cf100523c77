/**
 * Tests that every valid kind of token is accepted and every known forgery is rejected: algorithms,
 * signatures, encoding, header, keys of a set, claims. auth.test.ts tests the meaning of claims,
 * jwt-keys.test.ts the configured keys, jwks.test.ts the keys of a URL.
 */
import { sign } from 'node:crypto'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/server/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { useDatabase } from '../support/database/database.ts'
import {
  encode,
  jwks,
  keyPair,
  kindOf,
  makeToken,
  publicJwk,
  publicPem,
  signText,
  type Algorithm,
  type KeyKind,
  type SigningKey
} from '../support/keys.ts'
import { set, useJwksServer } from '../support/network/jwks-server.ts'
import { SECRET, useService, type ServiceUnderTest } from '../support/service.ts'
import { nowhere, on } from '../support/shorthand.ts'

const role = 'oneflight_user'
const now = (): number => Math.floor(Date.now() / 1000)
const payload = `{"role":"${role}","exp":${now() + 3600}}`
const batch = '[{"id":"me","op":"select","table":"me"}]'
const rsa = keyPair('rsa')
const p256 = keyPair('p256')
const p384 = keyPair('p384')
const ed25519 = keyPair('ed25519')
const attacker = keyPair('rsa', 'mallory')

type Row = readonly [what: string, token: string, verdict?: string]
type Env = Readonly<Record<string, string>>

const gates = new Map<string, Promise<ServiceUnderTest>>()

/**
 * Starts a service with an anonymous role and an unreachable database, once for each `env`. An
 * accepted token leads to a 503. A 401 or 403 therefore proves that the token was rejected without
 * a connection, and that the request did not run as the anonymous role.
 */
async function useGate (env: Env): Promise<ServiceUnderTest> {
  const name = JSON.stringify(env)
  const gate = gates.get(name) ?? useService(t, {
    ...nowhere,
    env: { JWT_SECRET: '', ANON_ROLE: 'oneflight_anon', ...env }
  })
  gates.set(name, gate)
  return gate
}

/** `passes` if the token is accepted, the error code if it is refused as specified. */
async function verdictOn ({ post }: ServiceUnderTest, token: string): Promise<string> {
  const authorization = `Bearer ${token}`
  const { status, body, headers } = await post(batch, { headers: { authorization } })
  const { type, code } = body.error
  const response = `${status} ${type} ${headers.get('www-authenticate')}`
  if (response === '503 service_error null' && code === 'database_unavailable') return 'passes'
  const isRefusal = response === '401 request_error Bearer error="invalid_token"' ||
    (response === '403 session_error null' && code === 'role_denied')
  return isRefusal ? code : `${response} ${code}`
}

/** Checks the verdict on each token; the default is `token_invalid`. */
async function check (t: Test, env: Env, rows: readonly Row[]): Promise<void> {
  const gate = await useGate(env)
  const found = []
  for (const [what, token] of rows) found.push([what, await verdictOn(gate, token)])
  t.strictSame(found, rows.map(([what, , verdict = 'token_invalid']) => [what, verdict]))
}

/**
 * Makes a token with a valid payload. `header` adds members to the header and may override `alg`.
 */
function make (alg: Algorithm, key: SigningKey, header: object = {}): string {
  return makeToken({ alg, key, payload, header: { alg, ...header } })
}

/** Makes a token with these claims. Strings and buffers are used unchanged. */
function claim (claims: unknown): string {
  return makeToken({ alg: 'HS256', key: SECRET, payload: claims })
}

/** What a token signs: its header and payload. */
function signedText (token: string): string {
  return token.slice(0, token.lastIndexOf('.'))
}

function resign (token: string, bytes: Buffer): string {
  return `${signedText(token)}.${bytes.toString('base64url')}`
}

t.test('every algorithm is accepted with every kind of key', async t => {
  const schema = 'create view me as select current_user::text as role, ' +
    "current_setting('request.jwt.claims') as claims; grant select on me to public;"
  const ed448 = keyPair('ed448')
  const all = Object.entries(kindOf).map(([alg, kind]) => [alg, kind] as [Algorithm, KeyKind])
  const ofRsa = all.filter(([, kind]) => kind === 'rsa').map(([alg]) => [alg, rsa] as const)
  const kinds: readonly KeyKind[] = ['rsa', 'p256', 'p384', 'p521', 'ed25519']
  type Signed = readonly [alg: Algorithm, key: SigningKey, header?: object]
  const rows: ReadonlyArray<readonly [env: Env, tokens: readonly Signed[]]> = [
    [{ JWT_SECRET: SECRET }, [
      ['HS256', SECRET],
      ['HS384', SECRET],
      ['HS512', SECRET, { typ: 'JWT', kid: 'unused' }]
    ]],
    [{ JWT_SECRET: ` ${SECRET}\n` }, [['HS256', ` ${SECRET}\n`]]],
    [{ JWT_PUBLIC_KEY: publicPem(rsa) }, [...ofRsa, ['RS256', rsa, { kid: 'unused' }]]],
    [{ JWT_PUBLIC_KEY: publicPem(p256) }, [['ES256', p256]]],
    [{ JWT_PUBLIC_KEY: publicPem(ed448) }, [['EdDSA', ed448]]],
    [
      {
        JWT_JWKS: jwks(
          ...kinds.map(kid => publicJwk(keyPair(kid), { kid, use: 'sig', key_ops: ['verify'] }))
        )
      },
      all.flatMap(([alg, kid]) => [[alg, keyPair(kid)], [alg, keyPair(kid), { kid }]] as const)
    ]
  ]
  const database = await useDatabase(t, { schema })
  for (const [env, tokens] of rows) {
    const service = await useService(t, { ...on(database), env: { JWT_SECRET: '', ...env } })
    for (const [alg, key, header] of tokens) {
      // The database must receive numbers, spaces, order and escapes as they were signed.
      const claims = ` { "alg":"${alg}", "exp": ${
        now() + 60}.50,\t"n":9007199254740993, "e":1e2, "u":"\\u00e9é\\/", "role" :"${role}"\n}`
      const bearer = makeToken({ alg, key, payload: claims, header: { alg, ...header } })
      const headers = { authorization: `Bearer ${bearer}` }
      const { body, text } = await service.post(batch, { headers })
      const name = `${Object.keys(env)[0]}: ${alg} ${JSON.stringify(header)}`
      t.strictSame(body.data?.me, [{ role, claims }], body.error === null ? name : name + text)
    }
  }
})

t.test('a public key is rejected as an HMAC secret', async t => {
  const pem = publicPem(rsa)
  const jwk = publicJwk(rsa, { kid: 'k' })
  const forms = [
    pem, pem.trim(), rsa.publicKey.export({ type: 'spki', format: 'der' }), JSON.stringify(jwk),
    jwks(jwk), '', 'undefined'
  ]
  for (const env of [{ JWT_PUBLIC_KEY: pem }, { JWT_JWKS: jwks(jwk) }]) {
    await check(t, env, [
      ['RS256', make('RS256', rsa, { kid: 'k' }), 'passes'],
      ...forms.map((secret): Row =>
        [`HS256 with ${String(secret).slice(0, 40)}`, make('HS256', secret, { kid: 'k' })])
    ])
  }
})

t.test('an algorithm that is disabled or does not fit the key is rejected', async t => {
  const groups: ReadonlyArray<readonly [env: Env, rows: readonly Row[]]> = [
    [{ JWT_SECRET: SECRET, JWT_ALGORITHMS: 'HS512' }, [
      ['HS512', make('HS512', SECRET), 'passes'],
      ['HS256', make('HS256', SECRET)],
      ['HS256 signature, alg says HS512', make('HS256', SECRET, { alg: 'HS512' })],
      ['RS256', make('RS256', rsa)],
      ['another secret', make('HS512', `${SECRET}.`)]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(rsa), JWT_ALGORITHMS: 'RS256,PS256' }, [
      ['RS256', make('RS256', rsa), 'passes'],
      ['PS256', make('PS256', rsa), 'passes'],
      ['RS512', make('RS512', rsa)],
      ['RS256 signature, alg says PS256', make('RS256', rsa, { alg: 'PS256' })],
      ['RS512 signature, alg says RS256', make('RS512', rsa, { alg: 'RS256' })],
      ['another key', make('PS256', attacker)],
      ['ES256 with another kind of key', make('ES256', p256)]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(p384) }, [
      ['ES384', make('ES384', p384), 'passes'],
      ['ES384 signature, alg says ES256', make('ES384', p384, { alg: 'ES256' })],
      ['ES256 on the curve of ES384', make('ES256', p384, { alg: 'ES384' })],
      ['ES384 on the curve of ES256', make('ES384', p256)]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(ed25519) }, [
      ['EdDSA', make('EdDSA', ed25519), 'passes'],
      ['Ed25519, the newer name', make('EdDSA', ed25519, { alg: 'Ed25519' })],
      ['EdDSA of Ed448', make('EdDSA', keyPair('ed448'))],
      ['EdDSA signature, alg says ES256', make('EdDSA', ed25519, { alg: 'ES256' })]
    ]],
    [
      {
        JWT_JWKS: jwks(
          publicJwk(rsa, { kid: 'a', alg: 'PS256' }),
          publicJwk(p256, { kid: 'b', alg: 'ES256' }),
          publicJwk(attacker, { kid: 'c', use: 'enc' }),
          { kty: 'oct', k: encode(SECRET), kid: 'd', alg: 'HS256' }
        )
      },
      [
        ['the algorithm of the key', make('PS256', rsa, { kid: 'a' }), 'passes'],
        ['an algorithm that the key does not allow', make('RS256', rsa, { kid: 'a' })],
        ['a key for encryption', make('RS256', attacker, { kid: 'c' })],
        ['a secret in a set', make('HS256', SECRET, { kid: 'd' })]
      ]
    ]
  ]
  for (const [env, rows] of groups) {
    const name = JSON.stringify(env).slice(0, 40)
    await check(t, env, rows.map(([what, ...rest]) => [`${name} ${what}`, ...rest] as const))
  }
})

t.test('alg "none" and unknown algorithms are rejected', async t => {
  const words: readonly unknown[] = [
    'none', 'None', '', 'hs256', '__proto__', undefined, null, ['HS256']
  ]
  const keys = [
    [{ JWT_SECRET: SECRET }, 'HS256', SECRET],
    [{ JWT_JWKS: jwks(publicJwk(ed25519, { kid: 'k' })) }, 'EdDSA', ed25519]
  ] as const
  for (const [env, alg, key] of keys) {
    await check(t, env, [
      ...words.flatMap((word): Row[] => {
        const token = make(alg, key, { alg: word, kid: 'k' })
        const name = JSON.stringify(word)
        return [[`${name}, signed`, token], [`${name}, not signed`, resign(token, Buffer.alloc(0))]]
      }),
      ['none, two parts', signedText(make(alg, key, { alg: 'none', kid: 'k' }))]
    ])
  }
})

t.test('a token that was changed after it was signed is rejected', async t => {
  const keys = [
    [{ JWT_SECRET: SECRET }, 'HS256', SECRET],
    [{ JWT_PUBLIC_KEY: publicPem(p256) }, 'ES256', p256]
  ] as const
  const zero = Buffer.of(0)
  for (const [env, alg, key] of keys) {
    const token = make(alg, key, { typ: 'JWT' })
    const parts = token.split('.').map(part => Buffer.from(part, 'base64url'))
    const [, , good = zero] = parts
    const signatures = Object.entries({
      none: Buffer.alloc(0),
      zeros: Buffer.alloc(good.length),
      'a byte short': good.subarray(0, -1),
      'a byte long': Buffer.concat([good, zero]),
      'a zero byte prepended': Buffer.concat([zero, good])
    })
    await check(t, env, [
      [alg, token, 'passes'],
      ...signatures.map(([what, bytes]): Row => [`${alg}: ${what}`, resign(token, bytes)]),
      ...parts.flatMap((bytes, part) => [0, bytes.length >> 1, bytes.length - 1].map((at): Row => {
        const flipped = bytes.with(at, bytes[at] as number ^ 32)
        const changed = token.split('.').with(part, Buffer.from(flipped).toString('base64url'))
        return [`${alg}: a bit of part ${part}, byte ${at}`, changed.join('.')]
      })),
      [`${alg}: the signature of another text`, resign(make(alg, key), good)]
    ])
  }
  const token = make('ES256', p256)
  await check(t, { JWT_PUBLIC_KEY: publicPem(p256) }, [
    ['DER', resign(token, sign('sha256', Buffer.from(signedText(token)), p256.privateKey))]
  ])
})

t.test('only the canonical encoding of a token is accepted', async t => {
  const token = make('HS256', SECRET)
  const parts = token.split('.') as [string, string, string]
  const [head, body, signed] = parts
  /** Changes the encoding of one part and signs the changed text. */
  const loose = (part: 0 | 1 | 2, change: (text: string) => string): string => {
    if (part === 2) return `${head}.${body}.${change(signed)}`
    return signText(parts.with(part, change(parts[part])).slice(0, 2).join('.'), 'HS256', SECRET)
  }
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const lastPlus = (by: number) => (text: string): string =>
    text.slice(0, -1) + String(alphabet[alphabet.indexOf(text.slice(-1)) + by])
  // {"alg":"HS256"} has 15 bytes, which base64 encodes without unused bits; 16 bytes leave some.
  const unfilled = lastPlus(1)(encode('{"alg":"HS256"} '))
  const longer = encode(payload.padEnd(Math.ceil(payload.length / 3) * 3 + 1))
  const sealed = (text: string): string => signText(text, 'HS256', SECRET)
  const changes: ReadonlyArray<readonly [what: string, change: (text: string) => string]> = [
    ['padding', text => `${text}${'='.repeat((4 - text.length % 4) % 4 || 4)}`],
    ['a space in it', text => `${text.slice(0, 4)} ${text.slice(4)}`],
    ['"+" in it', text => `${text.slice(0, 4)}+${text.slice(5)}`],
    ['empty', () => '']
  ]
  await check(t, { JWT_SECRET: SECRET }, [
    ['valid', token, 'passes'],
    ['valid, with spaces in its JSON', sealed(`${head}.${longer}`), 'passes'],
    ['unused bits set in the header', sealed(`${unfilled}.${body}`)],
    ['unused bits set in the payload', sealed(`${head}.${lastPlus(1)(longer)}`)],
    ['unused bits set in the signature', loose(2, lastPlus(1))],
    ...([0, 1, 2] as const).flatMap(part =>
      changes.map(([what, change]): Row => [`${what}, part ${part}`, loose(part, change)])),
    ['one part', head],
    ['two parts and a dot', `${head}.${body}.`],
    ['a dot before', `.${token}`],
    ['four parts', `${token}.${signed}`],
    ['header twice', sealed(`${head}.${head}`), 'token_claims_invalid'],
    ['JSON serialisation', JSON.stringify({ payload: body, protected: head, signature: signed })]
  ])
})

t.test('unsupported and malformed headers are rejected, unknown members are ignored', async t => {
  const under = (header: unknown): string =>
    makeToken({ alg: 'HS256', key: SECRET, payload, header })
  const rows = (verdict: string, members: Readonly<Record<string, readonly unknown[]>>): Row[] =>
    Object.entries(members).flatMap(([name, values]) =>
      values.map((value): Row =>
        [`${name}: ${JSON.stringify(value)}`, make('HS256', SECRET, { [name]: value }), verdict])
    )
  await check(t, { JWT_SECRET: SECRET }, [
    ...rows('token_invalid', {
      crit: [['exp'], null],
      b64: [true],
      enc: ['A128GCM'],
      cty: ['JWT', ' application/jwt; a=b'],
      typ: ['JOSE+JSON', 'logout+jwt', ' application/dpop+jwt ;a', 'xat+jwt', 'at+jwt+jwt', null],
      kid: [null, ['a']]
    }),
    ...rows('passes', {
      typ: ['JWT', 'JOSE', 'at+jwt; a=b', ' application/AT+JWT', '', 'jwt+x'],
      cty: ['', 'jwt+json', 'JWT2'],
      zip: ['DEF']
    }),
    [
      'unknown members',
      under('{"alg":"HS256","x5t":"x","__proto__":{"crit":["x"]},"constructor":{},"":0}'),
      'passes'
    ],
    ...['', '[]', 'null', '{"alg":"HS256"', '{"Alg":"HS256"}', '{"__proto__":{"alg":"HS256"}}']
      .map((text): Row => [`header ${text}`, under(text)]),
    ['a duplicate member', under('{"alg":"none","alg":"HS256"}')]
  ])
})

t.test('keys and key URLs in the header of a token are ignored', async t => {
  const server = await useJwksServer(t, set(publicJwk(attacker, { kid: 'k' })))
  const { url } = server
  const members: readonly object[] = [
    { jku: url, x5u: url },
    { jwk: publicJwk(attacker, { kid: 'k' }) },
    { jwk: { kty: 'oct', k: encode('x'.repeat(32)) } },
    { x5c: [publicPem(attacker)] }
  ]
  const environments = [
    { JWT_PUBLIC_KEY: publicPem(rsa) },
    { JWT_JWKS: jwks(publicJwk(rsa, { kid: 'k' })) }
  ]
  for (const env of environments) {
    for (const member of members) {
      const what = JSON.stringify(member).slice(0, 50)
      const header = { kid: 'k', ...member }
      await check(t, env, [
        [what, make('RS256', attacker, header)],
        [`${what}, HS256 with it`, make('HS256', 'x'.repeat(32), header)],
        [`${what}, without kid`, make('RS256', attacker, member)],
        [`${what}, the right key`, make('RS256', rsa, header), 'passes']
      ])
    }
  }
  t.same([...server.asked, ...server.connections], [], 'the URL is never requested')
})

t.test('kid selects the key', async t => {
  const other = keyPair('rsa', 'another key of the issuer')
  const named = keyPair('p256', 'the owner of the kid __proto__')
  const twin = keyPair('p521', 'second')
  const env = {
    JWT_JWKS: jwks(
      publicJwk(rsa, { kid: 'a' }),
      publicJwk(other, { kid: 'b', alg: 'RS512' }),
      publicJwk(named, { kid: '__proto__' }),
      publicJwk(p384, { kid: 'shared' }),
      publicJwk(ed25519, { kid: 'shared' }),
      publicJwk(keyPair('p521'), { kid: 'twin' }),
      publicJwk(twin, { kid: 'twin' })
    )
  }
  await check(t, env, [
    ['the kid of the key', make('RS256', rsa, { kid: 'a' }), 'passes'],
    ['the kid of another key', make('RS512', rsa, { kid: 'b' })],
    ['the other key with its kid', make('RS512', other, { kid: 'b' }), 'passes'],
    ['no kid, one key fits', make('RS256', rsa), 'passes'],
    ['no kid, two keys fit', make('RS512', rsa)],
    ['no kid, one key fits, signed with another', make('RS256', other)],
    ['the kid of a key for another algorithm', make('ES256', named, { kid: 'a' })],
    ['a kid that every object has', make('ES256', named, { kid: '__proto__' }), 'passes'],
    ['one kid, two keys, first algorithm', make('ES384', p384, { kid: 'shared' }), 'passes'],
    ['one kid, two keys, second algorithm', make('EdDSA', ed25519, { kid: 'shared' }), 'passes'],
    ['one kid and algorithm, two keys', make('ES512', twin, { kid: 'twin' })],
    ['no kid, two keys of the algorithm', make('ES512', twin)],
    ...['', 'A', 'constructor'].map((kid): Row => [`kid ${kid}`, make('RS256', rsa, { kid })])
  ])
  const several = jwks(publicJwk(rsa), publicJwk(p384), publicJwk(other, { kid: 'b' }))
  await check(t, { JWT_JWKS: several }, [
    ['a key without kid, another one fits', make('RS256', rsa, { kid: 'a' })],
    ['a key without kid, no other one fits', make('ES384', p384, { kid: 'a' }), 'passes'],
    ['a key without kid, a token without kid', make('ES384', p384), 'passes']
  ])
  const twice = [{ kid: 'a' }, { kid: 'a', alg: 'RS256' }, { kid: 'b', alg: 'RS384' }]
  await check(t, { JWT_JWKS: jwks(...twice.map(members => publicJwk(rsa, members))) }, [
    ['the same key several times, its kid', make('RS256', rsa, { kid: 'a' }), 'passes'],
    ['the same key several times, no kid', make('RS256', rsa), 'passes'],
    ['the same key several times, an alg that this kid does not allow',
      make('RS512', rsa, { kid: 'b' })],
    ['the same key several times, another kid', make('RS256', rsa, { kid: 'c' })]
  ])
  await check(t, { JWT_JWKS: jwks(publicJwk(rsa, { kid: 'a' }), publicJwk(rsa)) }, [
    ['the same key with and without kid', make('RS256', rsa, { kid: 'c' }), 'passes']
  ])
})

t.test('a payload must be a JSON object without duplicate members', async t => {
  const exp = now() + 3600
  const good = `"role":"${role}","exp":${exp}`
  await check(t, { JWT_SECRET: SECRET }, [
    ...['', `[{${good}}]`, 'null', `{${good}`, `{${good}}{}`, `\ufeff{${good}}`]
      .map((text): Row => [`payload ${text}`, claim(text)]),
    ['not UTF-8', claim(Buffer.from(`{${good},"x":"é"}`, 'latin1'))],
    ...[
      `${good},"role":"postgres"`, `"\\u0072ole":"postgres",${good}`,
      `${good},"x":[1,{"a":{"y":1,"z":2,"\\u0079":3}}]`, `${good},"__proto__":1,"__proto__":2`
    ].map((text): Row => [`duplicate member: ${text.replace(good, '…')}`, claim(`{${text}}`)]),
    ...[
      `${good},"x":{"role":"postgres","exp":0}`, `"r\\u006fle":"${role}","\\u0065xp":${exp}`,
      `${good},"x":["role","role"],"y":"\\"role\\":1","z":"\\"role\\":2"`,
      `${good},"__proto__":{"role":"postgres"}`,
      `${good},"x":${'['.repeat(3000)}${']'.repeat(3000)}`, `${good},"x":1e400,"y":"\\ud800"`
    ].map((text): Row => [`valid: ${text.slice(0, 80)}`, claim(`{${text}}`), 'passes'])
  ])
})

t.test('exp, nbf and iat must be numbers and are compared with the clock', async t => {
  const at = (text: string): string => claim(`{"role":"${role}",${text}}`)
  const later = now() + 3600
  const invalid = 'token_claims_invalid'
  const broken = ['"9999999999"', 'true', 'null', '1e999']
  const begins: Readonly<Record<string, readonly string[]>> = {
    [invalid]: broken,
    passes: ['0', '-1e308', `${now() + 15}`],
    token_not_active: [`${now() + 900}.5`, '1e10']
  }
  const verdicts: Readonly<Record<string, typeof begins>> = {
    exp: {
      [invalid]: broken,
      passes: [`${later}.999`, '1e308', `${now()}`],
      token_expired: ['0', '-1', `${now() - 900}.999`]
    },
    nbf: begins,
    iat: begins
  }
  const rows = Object.entries(verdicts).flatMap(([name, verdicts]) =>
    Object.entries(verdicts).flatMap(([verdict, values]) =>
      values.map((value): Row => {
        const exp = name === 'exp' ? '' : `"exp":${later},`
        return [`${name} ${value}`, at(`${exp}"${name}":${value}`), verdict]
      })
    )
  )
  const elsewhere = at(`"claims":{"exp":${later}},"Exp":${later},"exp ":${later}`)
  await check(t, { JWT_SECRET: SECRET, JWT_REQUIRE_EXP: 'true' }, [
    ...rows,
    ['exp elsewhere', elsewhere, invalid],
    ['expired and not active', at(`"exp":0,"nbf":${later}`), 'token_expired'],
    ['expired and broken', at('"exp":0,"nbf":"x"'), invalid]
  ])
  await check(t, { JWT_SECRET: SECRET, JWT_REQUIRE_EXP: 'false' }, [
    ['exp elsewhere', elsewhere, 'passes'],
    ['expired', at('"exp":0'), 'token_expired']
  ])
})

t.test('JWT_ROLE_CLAIM is the name of the claim with the role, or a path to it', async t => {
  const exp = `"exp":${now() + 3600}`
  const missing = 'role_missing'
  const invalid = 'token_claims_invalid'
  const groups = [
    ['app_metadata.role', [
      ['"app_metadata":{"role":"x"},"role":1', 'passes'], ['"app_metadata.role":"x"', 'passes'],
      ['"app_metadata.role":null,"app_metadata":{"role":"x"}', invalid], ['"role":"x"', missing],
      ['"app_metadata":null', missing], ['"app_metadata":[{"role":"x"}]', missing],
      ['"app_metadata":{"role":["x"]}', invalid], ['"app_metadata":{"role":""}', invalid],
      ['"app_metadata":{"role":"none"}', 'role_denied'],
      ['"app_metadata":{"__proto__":{"role":"x"}}', missing]
    ]],
    ['roles.0', [
      ['"roles":["x","y"]', 'passes'], ['"roles":[]', missing], ['"roles":"x"', missing]
    ]],
    ['__proto__.role', [['"role":"x"', missing], ['"__proto__":{"role":"x"}', 'passes']]],
    ['https://example.com/claims.app.role', [
      ['"https://example.com/claims.app.role":"x"', 'passes'],
      ['"https://example.com/claims":{"app":{"role":"x"}}', 'passes'],
      ['"https://example.com/claims":{"app.role":"x"}', 'passes'],
      ['"https://example.com/claims.app":{"role":"x"}', 'passes'],
      ['"https://example.com/claims":{"app":{}},"https://example.com/claims.app":{"role":"x"}',
        'passes'],
      ['"https://example.com/claims":{"app":{"role":1,"app.role":"x"}}', invalid],
      ['"https://example.com/claims":{"role":"x"}', missing]
    ]]
  ] as const
  for (const [path, rows] of groups) {
    const env = { JWT_SECRET: SECRET, JWT_ROLE_CLAIM: path }
    await check(t, env, rows.map(([claims, verdict]): Row =>
      [`${path} in ${claims}`, claim(`{${exp},${claims}}`), verdict]
    ))
  }
})

t.test('a token may have 16 384 characters', async t => {
  const max = 16_384
  const padded = (length: number): string => {
    const size = length - make('HS256', SECRET).length
    for (let more = Math.floor(size * 3 / 4) - 20; ; more++) {
      const token = claim(`${payload.slice(0, -1)},"x":"${'x'.repeat(more)}"}`)
      if (token.length >= length) return token
    }
  }
  const settings = readConfig({
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nowhere',
    JWT_SECRET: SECRET,
    ANON_ROLE: 'oneflight_anon',
    POOL_SIZE: '1'
  })
  const app = await buildApp({ ...settings, logger: pino({ level: 'silent' }) })
  t.teardown(() => app.close())
  // app.inject() avoids the limit that the HTTP parser sets for headers.
  const send = async (token: string): Promise<readonly unknown[]> => {
    const response = await app.inject({
      method: 'POST',
      url: '/',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      payload: batch
    })
    const { error } = response.json<{ error: { code: string } }>()
    return [response.statusCode, error.code]
  }
  const fits = padded(max - 16)
  t.ok(fits.length < max && fits.length > max - 20, String(fits.length))
  t.same(await send(fits), [503, 'database_unavailable'])
  for (const length of [max + 1, 1_000_000]) {
    t.same(await send(padded(length)), [401, 'token_invalid'], String(length))
  }
  const good = make('HS256', SECRET)
  for (const token of [good.replace('.', '\n.'), `${good}\n`, `${good}  `]) {
    t.same(await send(token), [401, 'token_invalid'], JSON.stringify(token.slice(-5)))
  }
  await check(t, { JWT_SECRET: SECRET }, [['through HTTP', padded(15_000), 'passes']])
})
