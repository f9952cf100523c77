/**
 * Tests that every valid kind of token is accepted and every known forgery is rejected: algorithms,
 * signatures, encoding, header, keys of a set, claims. auth.test.ts tests the meaning of claims,
 * jwt-keys.test.ts the configured keys, jwks.test.ts the keys of a URL.
 */
import {
  constants,
  createHash,
  createPrivateKey,
  createPublicKey,
  privateEncrypt,
  sign
} from 'node:crypto'
import { readFileSync } from 'node:fs'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/server/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { useDatabase } from '../support/database/database.ts'
import {
  certificate,
  encode,
  jwks,
  keyPair,
  kindOf,
  makeToken,
  publicJwk,
  publicPem,
  signText,
  signature,
  type Algorithm,
  type KeyKind,
  type KeyPair,
  type SigningKey
} from '../support/keys.ts'
import { set, useJwksServer } from '../support/network/jwks-server.ts'
import { request, speak } from '../support/network/wire.ts'
import { SECRET, useService, type ServiceUnderTest } from '../support/service.ts'
import { headersOfBatch, nowhere, on } from '../support/shorthand.ts'

const role = 'oneflight_user'
const now = (): number => Math.floor(Date.now() / 1000)
const payload = `{"role":"${role}","exp":${now() + 3600}}`
const batch = '[{"id":"me","op":"select","table":"me"}]'
const rsa = keyPair('rsa')
const p256 = keyPair('p256')
const p384 = keyPair('p384')
const p521 = keyPair('p521')
const ed25519 = keyPair('ed25519')
const mallory = 'mallory'

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

/** JSON objects that begin with `start`, in bytes that are not UTF-8. */
function notUtf8 (start: string): ReadonlyArray<readonly [what: string, bytes: Buffer]> {
  const around = (...bytes: readonly number[]): Buffer =>
    Buffer.concat([Buffer.from(`${start},"x":"`), Buffer.of(...bytes), Buffer.from('"}')])
  return [
    ['not UTF-8', Buffer.from(`${start},"x":"é"}`, 'latin1')],
    ['not UTF-8 in a key', Buffer.from(`${start},"é":1}`, 'latin1')],
    ['overlong UTF-8', around(0xc1, 0xa1)],
    ['overlong UTF-8 of a slash', around(0xc0, 0xaf)],
    ['a surrogate in UTF-8', around(0xed, 0xa0, 0x80)],
    ['UTF-16', Buffer.from(`${start}}`, 'utf16le')]
  ]
}

/** Replaces the signature of a token. */
function resign (token: string, bytes: Buffer): string {
  return `${signedText(token)}.${bytes.toString('base64url')}`
}

function bytesIn (part: string): Buffer {
  return Buffer.from(part, 'base64url')
}

function signatureOf (token: string): Buffer {
  return bytesIn(token.slice(token.lastIndexOf('.') + 1))
}

/** The token with damaged forms of its signature. */
function damaged (token: string, what: string): readonly Row[] {
  const good = signatureOf(token)
  const half = good.length / 2
  const zero = Buffer.of(0)
  return Object.entries({
    'no signature': Buffer.alloc(0),
    zeros: Buffer.alloc(good.length),
    ones: Buffer.alloc(good.length, 255),
    'a byte short': good.subarray(0, -1),
    'without its first byte': good.subarray(1),
    'a byte long': Buffer.concat([good, zero]),
    'a zero byte prepended': Buffer.concat([zero, good]),
    repeated: Buffer.concat([good, good]),
    'only the first half': good.subarray(0, half),
    'halves swapped': Buffer.concat([good.subarray(half), good.subarray(0, half)])
  }).map(([damage, bytes]) => [`${what}: ${damage}`, resign(token, bytes)])
}

/** Encodes `value` in `length` bytes, big-endian. */
function bytesOf (value: bigint, length: number): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex')
}

function numberOf (bytes: Buffer): bigint {
  return BigInt(`0x${bytes.toString('hex')}`)
}

t.test('every algorithm is accepted with every kind of key', async t => {
  const schema = 'create view me as select current_user::text as role, ' +
    "current_setting('request.jwt.claims') as claims; grant select on me to public;"
  const fixture = (name: string): string =>
    readFileSync(new URL(`../support/network/certs/${name}`, import.meta.url), 'utf8')
  const server: KeyPair = {
    privateKey: createPrivateKey(fixture('server.key')),
    publicKey: createPublicKey(fixture('server.crt'))
  }
  const ed448 = keyPair('ed448')
  const all = Object.entries(kindOf).map(([alg, kind]) => [alg, kind] as [Algorithm, KeyKind])
  const ofRsa = all.filter(([, kind]) => kind === 'rsa').map(([alg]) => [alg, rsa] as const)
  const kinds: readonly KeyKind[] = ['rsa', 'p256', 'p384', 'p521', 'ed25519']
  type Signed = readonly [alg: Algorithm, key: SigningKey, header?: object]
  const rows: ReadonlyArray<readonly [what: string, env: Env, tokens: readonly Signed[]]> = [
    ['JWT_SECRET', { JWT_SECRET: SECRET }, [
      ['HS256', SECRET],
      ['HS384', SECRET],
      ['HS512', SECRET, { typ: 'JWT', kid: 'unused' }]
    ]],
    ['the length of a secret is counted in bytes', { JWT_SECRET: 'é'.repeat(16) }, [
      ['HS256', Buffer.from('é'.repeat(16))]
    ]],
    ['a secret with brackets', { JWT_SECRET: `{${SECRET}]` }, [['HS256', `{${SECRET}]`]]],
    ['PUBLIC KEY', { JWT_PUBLIC_KEY: publicPem(rsa) }, [
      ...ofRsa,
      ['RS256', rsa, { kid: 'unused' }]
    ]],
    ['RSA PUBLIC KEY', { JWT_PUBLIC_KEY: publicPem(rsa, 'pkcs1') }, ofRsa],
    ['CERTIFICATE of RSA', { JWT_PUBLIC_KEY: certificate(rsa) }, [['RS256', rsa], ['PS512', rsa]]],
    ['CERTIFICATE of P-256', { JWT_PUBLIC_KEY: fixture('server.crt') }, [['ES256', server]]],
    ['escaped line ends', { JWT_PUBLIC_KEY: publicPem(p256).replaceAll('\n', '\\n') }, [
      ['ES256', p256]
    ]],
    ['CRLF line ends', { JWT_PUBLIC_KEY: publicPem(p384).replaceAll('\n', '\r\n') }, [
      ['ES384', p384]
    ]],
    ['no final line end', { JWT_PUBLIC_KEY: publicPem(p521).trim() }, [['ES512', p521]]],
    ['Ed25519', { JWT_PUBLIC_KEY: publicPem(ed25519) }, [['EdDSA', ed25519]]],
    ['Ed448', { JWT_PUBLIC_KEY: publicPem(ed448) }, [['EdDSA', ed448]]],
    ['Ed448 in a set', { JWT_JWKS: jwks(publicJwk(ed448)) }, [['EdDSA', ed448]]],
    ['a set of one key without kid', { JWT_JWKS: jwks(publicJwk(rsa)) }, ofRsa],
    [
      'a set of all kinds',
      {
        JWT_JWKS: jwks(
          ...kinds.map(kid => publicJwk(keyPair(kid), { kid, use: 'sig', key_ops: ['verify'] }))
        )
      },
      all.flatMap(([alg, kid]) => [[alg, keyPair(kid)], [alg, keyPair(kid), { kid }]] as const)
    ]
  ]
  const database = await useDatabase(t, { schema })
  for (const [what, env, tokens] of rows) {
    const service = await useService(t, { ...on(database), env: { JWT_SECRET: '', ...env } })
    for (const [alg, key, header] of tokens) {
      // The database must receive numbers, spaces, order and escapes as they were signed.
      const claims = ` { "alg":"${alg}", "exp": ${
        now() + 60}.50,\t"n":9007199254740993, "e":1e2, "u":"\\u00e9é\\/", "role" :"${role}"\n}`
      const bearer = makeToken({ alg, key, payload: claims, header: { alg, ...header } })
      const headers = { authorization: `Bearer ${bearer}` }
      const { body, text } = await service.post(batch, { headers })
      const name = `${what}: ${alg} ${JSON.stringify(header)}`
      t.strictSame(body.data?.me, [{ role, claims }], body.error === null ? name : name + text)
    }
  }
})

t.test('a public key is rejected as an HMAC secret', async t => {
  const hmacs = ['HS256', 'HS384', 'HS512'] as const
  for (const [kind, alg] of [['rsa', 'RS256'], ['p256', 'ES256'], ['ed25519', 'EdDSA']] as const) {
    const pair = keyPair(kind)
    const pem = publicPem(pair)
    const jwk = publicJwk(pair, { kid: 'k' })
    const set = jwks(jwk)
    const der = pair.publicKey.export({ type: 'spki', format: 'der' })
    const forms: ReadonlyArray<readonly [what: string, secret: string | Buffer]> = [
      ['PEM', pem],
      ['PEM without its last line end', pem.trim()],
      ['PEM with a second line end', `${pem}\n`],
      ['PEM with CRLF line ends', pem.replaceAll('\n', '\r\n')],
      ['PEM with escaped line ends', pem.replaceAll('\n', '\\n')],
      ['PEM on one line', pem.replaceAll('\n', '')],
      ['base64 of PEM', pem.replaceAll(/-----.*-----|\n/g, '')],
      ['DER', der],
      ['JWK', JSON.stringify(jwk)],
      ['JWK without kid', JSON.stringify(publicJwk(pair))],
      ['set', set],
      ['x', jwk.x ?? jwk.n as string],
      ['bytes of x', Buffer.from(jwk.x ?? jwk.n as string, 'base64url')],
      ['an empty secret', ''],
      ['kid', 'k'],
      ['undefined', 'undefined'],
      ['null', 'null'],
      ['[object Object]', '[object Object]'],
      ...kind === 'rsa'
        ? [
            ['PKCS 1', publicPem(pair, 'pkcs1')],
            ['PKCS 1 trimmed', publicPem(pair, 'pkcs1').trim()],
            ['DER of PKCS 1', pair.publicKey.export({ type: 'pkcs1', format: 'der' })]
          ] as const
        : []
    ]
    for (const env of [{ JWT_PUBLIC_KEY: pem }, { JWT_JWKS: set }]) {
      await check(t, env, [
        [`${kind} by ${Object.keys(env)[0]}`, make(alg, pair, { kid: 'k' }), 'passes'],
        ...forms.map(([what, secret], i): Row => {
          const alg = hmacs[i % 3] as Algorithm
          return [`${alg} with ${what}`, make(alg, secret, { kid: 'k' })]
        }),
        ...hmacs.map((alg): Row => [alg, make(alg, pem, { kid: 'k' })])
      ])
    }
  }
})

t.test('an algorithm that is disabled or does not fit the key is rejected', async t => {
  const other = keyPair('rsa', mallory)
  const groups: ReadonlyArray<readonly [env: Env, rows: readonly Row[]]> = [
    [{ JWT_SECRET: SECRET, JWT_ALGORITHMS: 'HS512' }, [
      ['HS512', make('HS512', SECRET), 'passes'],
      ['HS256', make('HS256', SECRET)],
      ['HS384', make('HS384', SECRET)],
      ['HS256 signature, alg says HS512', make('HS256', SECRET, { alg: 'HS512' })],
      ['HS512 signature, alg says HS256', make('HS512', SECRET, { alg: 'HS256' })]
    ]],
    [{ JWT_SECRET: SECRET }, [
      ['HS256 signature, alg says HS512', make('HS256', SECRET, { alg: 'HS512' })],
      ['HS384 signature, alg says HS256', make('HS384', SECRET, { alg: 'HS256' })],
      ['RS256', make('RS256', rsa)],
      ['ES256', make('ES256', p256)],
      ['EdDSA', make('EdDSA', ed25519)],
      ['HS256 signature, alg says RS256', make('HS256', SECRET, { alg: 'RS256' })],
      ['another secret', make('HS256', `${SECRET}.`)],
      ['the secret with a line end', make('HS256', `${SECRET}\n`)],
      ['an empty secret', make('HS256', '')]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(rsa), JWT_ALGORITHMS: 'PS256,PS384,PS512' }, [
      ['PS256', make('PS256', rsa), 'passes'],
      ['PS512', make('PS512', rsa), 'passes'],
      ['RS256', make('RS256', rsa)],
      ['RS512', make('RS512', rsa)],
      ['RS256 signature, alg says PS256', make('RS256', rsa, { alg: 'PS256' })],
      ['PS384 signature, alg says PS256', make('PS384', rsa, { alg: 'PS256' })],
      ['another key', make('PS256', other)]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(rsa), JWT_ALGORITHMS: 'RS256, RS384' }, [
      ['RS256', make('RS256', rsa), 'passes'],
      ['RS384', make('RS384', rsa), 'passes'],
      ['RS512', make('RS512', rsa)],
      ['PS256', make('PS256', rsa)],
      ['PS384', make('PS384', rsa)],
      ['PS256 signature, alg says RS256', make('PS256', rsa, { alg: 'RS256' })],
      ['RS512 signature, alg says RS256', make('RS512', rsa, { alg: 'RS256' })],
      ['another key', make('RS256', other)],
      ['ES256 with another kind of key', make('ES256', p256)],
      ['EdDSA with another kind of key', make('EdDSA', ed25519)]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(p384) }, [
      ['ES384', make('ES384', p384), 'passes'],
      ['ES384 signature, alg says ES256', make('ES384', p384, { alg: 'ES256' })],
      ['ES256 on the curve of ES384', make('ES256', p384)],
      ['ES512 on the curve of ES384', make('ES512', p384)],
      ['ES384 on the curve of ES256', make('ES384', p256)],
      ['ES256 with a P-256 key', make('ES256', p256)],
      ['EdDSA', make('EdDSA', ed25519)],
      ['another key', make('ES384', keyPair('p384', mallory))]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(p256) }, [
      ['ES256', make('ES256', p256), 'passes'],
      ['ES256 on secp256k1', make('ES256', keyPair('secp256k1'))],
      ['ES256K', make('ES256', keyPair('secp256k1'), { alg: 'ES256K' })],
      ['ES256 signature, alg says ES256K', make('ES256', p256, { alg: 'ES256K' })],
      ['ES256 signature, alg says EdDSA', make('ES256', p256, { alg: 'EdDSA' })],
      ['a signature with SHA-384, alg says ES256', make('ES384', p256, { alg: 'ES256' })]
    ]],
    [{ JWT_PUBLIC_KEY: publicPem(ed25519) }, [
      ['EdDSA', make('EdDSA', ed25519), 'passes'],
      ['Ed25519, the newer name', make('EdDSA', ed25519, { alg: 'Ed25519' })],
      ['EdDSA of Ed448', make('EdDSA', keyPair('ed448'))],
      ['ES256', make('ES256', p256)],
      ['EdDSA signature, alg says ES256', make('EdDSA', ed25519, { alg: 'ES256' })],
      ['ES256 signature, alg says EdDSA', make('ES256', p256, { alg: 'EdDSA' })],
      ['alg in capitals', make('EdDSA', ed25519, { alg: 'EDDSA' })],
      ['another key', make('EdDSA', keyPair('ed25519', mallory))]
    ]],
    [
      {
        JWT_JWKS: jwks(
          publicJwk(rsa, { kid: 'a', alg: 'PS256' }),
          publicJwk(p256, { kid: 'b', alg: 'ES256' }),
          publicJwk(other, { kid: 'c', use: 'enc' }),
          { kty: 'oct', k: encode(SECRET), kid: 'd', alg: 'HS256' }
        )
      },
      [
        ['the algorithm of the key', make('PS256', rsa, { kid: 'a' }), 'passes'],
        ['an algorithm that the key does not allow', make('RS256', rsa, { kid: 'a' })],
        ['another algorithm of the same family', make('PS384', rsa, { kid: 'a' })],
        ['an algorithm that no key allows, no kid', make('RS256', rsa)],
        ['a key for encryption', make('RS256', other, { kid: 'c' })],
        ['a key for encryption, no kid', make('PS256', other)],
        ['a secret in a set', make('HS256', SECRET, { kid: 'd' })],
        ['a secret in a set, no kid', make('HS256', SECRET)]
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
    'none', 'None', 'NONE', 'nOnE', '', ' none', 'none ', 'none\0', 'HS256 ', ' HS256', 'hs256',
    'Hs256', 'HS256\0', 'HS256\n', 'HS-256', 'HS2', 'HS1', 'HS224', 'HS2560', 'SHA256', 'ＨS256',
    'rs256', 'RS1', 'dir', 'A128KW', 'PBES2-HS256+A128KW', 'RSA-OAEP', 'ES256K', 'Ed25519',
    'HS256,RS256', '__proto__', 'constructor', 'toString', 'null', 'undefined', undefined, null,
    true, 256, 0, [], ['HS256'], ['RS256', 'HS256'], {}, { alg: 'HS256' }
  ]
  const keys = [
    [{ JWT_SECRET: SECRET }, 'HS256', SECRET],
    [{ JWT_PUBLIC_KEY: publicPem(rsa) }, 'RS256', rsa],
    [{ JWT_JWKS: jwks(publicJwk(ed25519, { kid: 'k' })) }, 'EdDSA', ed25519]
  ] as const
  for (const [env, alg, key] of keys) {
    const valid = make(alg, key, { kid: 'k' })
    const none = make(alg, key, { alg: 'none', kid: 'k' })
    await check(t, env, [
      ['valid', valid, 'passes'],
      ...words.flatMap((word): Row[] => {
        const token = make(alg, key, { alg: word, kid: 'k' })
        const name = JSON.stringify(word)
        return [[`${name}, signed`, token], [`${name}, not signed`, resign(token, Buffer.alloc(0))]]
      }),
      ['none, a signature of one byte', resign(none, Buffer.of(0))],
      ['none, two parts', signedText(none)],
      ['a valid header, not signed', resign(valid, Buffer.alloc(0))]
    ])
  }
})

t.test('malformed RSA signatures are rejected', async t => {
  const token = make('RS256', rsa)
  const text = Buffer.from(signedText(token))
  const good = signatureOf(token)
  const n = numberOf(Buffer.from(publicJwk(rsa).n as string, 'base64url'))
  const digest = createHash('sha256').update(text).digest()
  const { privateKey } = rsa
  const encrypted = (padding: number, bytes: Buffer): Buffer =>
    privateEncrypt({ key: privateKey, padding }, bytes)
  const pss = (text: Buffer, saltLength: number): Buffer =>
    sign('sha256', text, { key: privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength })
  const asPs = make('PS256', rsa)
  const salted = (saltLength: number): string =>
    resign(asPs, pss(Buffer.from(signedText(asPs)), saltLength))
  await check(t, { JWT_PUBLIC_KEY: publicPem(rsa) }, [
    ['valid', token, 'passes'],
    ...damaged(token, 'RS256'),
    ...damaged(asPs, 'PS256'),
    ...[0n, 1n, 2n, n - 1n, n, numberOf(good) + n].map((value): Row => [
      `the number ${value.toString().slice(0, 20)}…`,
      resign(token, bytesOf(value, value >= 1n << 2048n ? 257 : 256))
    ]),
    ['1 in one byte', resign(token, Buffer.of(1))],
    ['SHA-1', resign(token, sign('sha1', text, privateKey))],
    ['SHA-512', resign(token, sign('sha512', text, privateKey))],
    ['the bare digest', resign(token, encrypted(constants.RSA_PKCS1_PADDING, digest))],
    [
      'no padding',
      resign(token, encrypted(constants.RSA_NO_PADDING, Buffer.concat([Buffer.alloc(224), digest])))
    ],
    ['the signed text', resign(token, text)],
    ['PSS signature, alg says RS256', resign(token, pss(text, 32))],
    ['PS256, valid', salted(32), 'passes'],
    ['PS256 without salt', salted(0)],
    ['PS256 with a salt of 20 bytes', salted(20)],
    ['PS256 with the longest possible salt', salted(222)],
    ['the signature of another text', resign(make('RS256', rsa, { kid: 'x' }), good)]
  ])
})

t.test('malformed ECDSA signatures are rejected', async t => {
  // The orders of P-256, P-384 and P-521.
  const rows = [
    ['ES256', p256, 32, 'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551'],
    ['ES384', p384, 48, `${'f'.repeat(48)}c7634d81f4372ddf581a0db248b0a77aecec196accc52973`],
    [
      'ES512',
      p521,
      66,
      `1${'f'.repeat(64)}fa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409`
    ]
  ] as const
  for (const [alg, key, length, order] of rows) {
    const token = make(alg, key)
    const good = signatureOf(token)
    const n = BigInt(`0x${order}`)
    const halves = [good.subarray(0, length), good.subarray(length)] as const
    const [r, s] = [numberOf(halves[0]), numberOf(halves[1])]
    const pairs: ReadonlyArray<readonly [bigint, bigint]> = [
      [0n, 0n], [0n, s], [r, 0n], [0n, 1n], [1n, 0n], [1n, 1n], [n, n], [0n, n], [n, 0n], [n, s],
      [r, n], [1n, n - 1n], [n - 1n, n - 1n], [s, r], [r, (s + 1n) % n]
    ]
    const sizes = [1, 2, 8, length, 2 * length - 1, 2 * length + 1, 4 * length]
    const zero = Buffer.of(0)
    const changes: ReadonlyArray<readonly [what: string, token: string]> = [
      ...pairs.map((numbers, index) => [
        `r and s, pair ${index}`,
        resign(token, Buffer.concat(numbers.map(number => bytesOf(number, length))))
      ] as const),
      ...sizes.map(size => [`${size} zeros`, resign(token, Buffer.alloc(size))] as const),
      [
        'DER',
        resign(token, sign(`sha${alg.slice(2)}`, Buffer.from(signedText(token)), key.privateKey))
      ],
      ['DER of two zeros', resign(token, Buffer.from('3006020100020100', 'hex'))],
      [
        'a zero byte before each half',
        resign(token, Buffer.concat([zero, halves[0], zero, halves[1]]))
      ],
      ['the signature of another text', resign(make(alg, key, { kid: 'x' }), good)]
    ]
    await check(t, { JWT_PUBLIC_KEY: publicPem(key) }, [
      ['valid', token, 'passes'],
      ...damaged(token, alg),
      ...changes.map(([what, token]): Row => [`${alg}: ${what}`, token])
    ])
  }
})

t.test('malformed EdDSA signatures are rejected', async t => {
  const token = make('EdDSA', ed25519)
  const good = signatureOf(token)
  const [r, s] = [good.subarray(0, 32), Buffer.from(good.subarray(32))]
  const order = 2n ** 252n + 27742317777372353535851937790883648493n
  // RFC 8032 §5.1.7: S must be below the order of the group. Otherwise one signature would have
  // several valid encodings.
  const sAndOrder = bytesOf(numberOf(s.reverse()) + order, 32).reverse()
  const identity = Buffer.concat([Buffer.of(1), Buffer.alloc(31)])
  const digest = createHash('sha512').update(signedText(token)).digest()
  await check(t, { JWT_PUBLIC_KEY: publicPem(ed25519) }, [
    ['valid', token, 'passes'],
    ...damaged(token, 'EdDSA'),
    ['R is the identity, S is 0', resign(token, Buffer.concat([identity, Buffer.alloc(32)]))],
    ['S is 0', resign(token, Buffer.concat([r, Buffer.alloc(32)]))],
    ['S plus the order', resign(token, Buffer.concat([r, sAndOrder]))],
    ['an Ed448 signature', resign(token, signatureOf(make('EdDSA', keyPair('ed448'))))],
    ['a signature of the digest', resign(token, sign(null, digest, ed25519.privateKey))]
  ])
})

t.test('malformed HMAC signatures are rejected', async t => {
  const token = make('HS256', SECRET)
  const good = signatureOf(token)
  const text = signedText(token)
  const [head = '', body = ''] = text.split('.')
  const decoded = [head, body].map(bytesIn).join('.')
  const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
  const others = Object.entries({
    'as hexadecimal': Buffer.from(good.toString('hex')),
    'HS512, truncated': signature('HS512', SECRET, text).subarray(0, 32),
    'a digest without a key': sha256(text),
    'a digest with the key before it': sha256(SECRET + text),
    'of the header only': signature('HS256', SECRET, head),
    'of the payload only': signature('HS256', SECRET, body),
    'of header and payload with a final dot': signature('HS256', SECRET, `${text}.`),
    'of the decoded parts': signature('HS256', SECRET, decoded)
  })
  await check(t, { JWT_SECRET: SECRET }, [
    ['valid', token, 'passes'],
    ...damaged(token, 'HS256'),
    ...[1, 4, 10].map((size): Row =>
      [`only the first ${size} bytes`, resign(token, good.subarray(0, size))]),
    ...others.map(([what, bytes]): Row => [what, resign(token, bytes)])
  ])
})

t.test('a token with one flipped bit is rejected', async t => {
  const keys = [
    [{ JWT_SECRET: SECRET }, 'HS256', SECRET],
    [{ JWT_PUBLIC_KEY: publicPem(rsa) }, 'PS256', rsa],
    [{ JWT_PUBLIC_KEY: publicPem(p256) }, 'ES256', p256],
    [{ JWT_PUBLIC_KEY: publicPem(ed25519) }, 'EdDSA', ed25519]
  ] as const
  for (const [env, alg, key] of keys) {
    const token = make(alg, key, { typ: 'JWT' })
    const flips: Row[] = [['valid', token, 'passes']]
    for (const part of [0, 1, 2]) {
      const bytes = bytesIn(token.split('.')[part] as string)
      for (const index of [0, 1, bytes.length >> 1, bytes.length - 2, bytes.length - 1]) {
        for (const bit of [1, 32, 128]) {
          const flipped = Buffer.from(bytes)
          flipped[index] = (flipped[index] as number) ^ bit
          const changed = token.split('.').with(part, flipped.toString('base64url')).join('.')
          flips.push([`${alg}: part ${part}, byte ${index}, bit ${bit}`, changed])
        }
      }
    }
    await check(t, env, flips)
  }
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
  const flattened = { payload: body, protected: head, signature: signed }
  const general = { payload: body, signatures: [{ protected: head, signature: signed }] }
  await check(t, { JWT_SECRET: SECRET }, [
    ['valid', token, 'passes'],
    ['valid, with spaces in its JSON', sealed(`${head}.${longer}`), 'passes'],
    ['unused bits set in the header', sealed(`${unfilled}.${body}`)],
    ['unused bits set in the payload', sealed(`${head}.${lastPlus(1)(longer)}`)],
    ...[1, 2, 3].map((by): Row => [`unused bits in the signature: ${by}`, loose(2, lastPlus(by))]),
    ...([0, 1, 2] as const).flatMap(part =>
      ([
        ['padding', text => `${text}${'='.repeat((4 - text.length % 4) % 4 || 4)}`],
        ['one "=" appended', text => `${text}=`],
        ['one letter appended', text => `${text}A`],
        ['five letters appended', text => `${text}AAAAA`],
        ['an encoded NUL appended', text => encode(Buffer.concat([bytesIn(text), Buffer.of(0)]))],
        ['a space before it', text => ` ${text}`],
        ['a space in it', text => `${text.slice(0, 4)} ${text.slice(4)}`],
        ['a tab in it', text => `${text.slice(0, 4)}\t${text.slice(4)}`],
        ['"+" in it', text => `${text.slice(0, 4)}+${text.slice(5)}`],
        ['"/" in it', text => `${text.slice(0, 4)}/${text.slice(5)}`],
        ['"%2E" in it', text => `${text.slice(0, 4)}%2E${text.slice(4)}`],
        ['"~" in it', text => `${text.slice(0, 4)}~${text.slice(4)}`],
        ['"é" in it', text => `${text.slice(0, 4)}é${text.slice(4)}`],
        ['empty', () => '']
      ] as ReadonlyArray<readonly [string, (text: string) => string]>).filter(([what]) =>
        part === 2 || !what.includes('NUL')
      ).map(([what, change]): Row => [`${what}, part ${part}`, loose(part, change)])
    ),
    ['one part', head],
    ['two parts', `${head}.${body}`],
    ['two parts and a dot', `${head}.${body}.`],
    ['a dot before', `.${token}`],
    ['a dot after', `${token}.`],
    ['four parts', `${token}.${signed}`],
    ['five parts', `${head}..${body}.${body}.${signed}`],
    ['five parts, none empty', `${head}.${body}.${body}.${body}.${signed}`],
    ['only dots', '..'],
    ['two tokens', `${token} ${token}`],
    ['quoted', `"${token}"`],
    ['in brackets', `<${token}>`],
    ['token=', `token=${token}`],
    ['token="…"', `token="${token}"`],
    ['parts in another order', `${body}.${head}.${signed}`],
    ['header twice', sealed(`${head}.${head}`), 'token_claims_invalid'],
    ['payload twice', sealed(`${body}.${body}`)],
    ['hexadecimal', sealed(`${Buffer.from('{"alg":"HS256"}').toString('hex')}.${body}`)],
    ['JSON serialisation, flattened', JSON.stringify(flattened)],
    ['JSON serialisation, general', JSON.stringify(general)],
    ['JSON serialisation, encoded', encode(general)],
    ['JSON serialisation in every part', [1, 2, 3].map(() => encode(flattened)).join('.')],
    ['detached payload', token.replace(body, '')]
  ])
})

t.test('unsupported and malformed headers are rejected, unknown members are ignored', async t => {
  const under = (header: unknown): string =>
    makeToken({ alg: 'HS256', key: SECRET, payload, header })
  const refused = (members: Readonly<Record<string, readonly unknown[]>>): readonly Row[] =>
    Object.entries(members).flatMap(([name, values]) =>
      values.map((value): Row => [
        `${name}: ${JSON.stringify(value)?.slice(0, 60)}`,
        make('HS256', SECRET, { [name]: value })
      ])
    )
  await check(
    t,
    { JWT_SECRET: SECRET },
    refused({
      crit: [
        [], ['exp'], ['b64'], ['kid'], ['alg'], [1], [null], [['exp']], 'exp', '', null, true,
        false, 0, {}
      ],
      b64: [true, false, null, 'false', 0, []],
      enc: ['A128GCM', '', null, 0],
      cty: [
        'JWT', 'jwt', 'Jwt', 'application/jwt', 'APPLICATION/JWT', 'JWT; a=b', ' JWT', null, 1,
        ['JWT']
      ],
      typ: [
        'JOSE+JSON', 'jose+json', 'application/jose+json', 'logout+jwt', 'dpop+jwt', 'DPoP+JWT',
        'secevent+jwt', 'application/secevent+jwt', 'token-introspection+jwt',
        'oauth-authz-req+jwt', 'kb+jwt', 'dpop+jwt; a=b', 'dpop+jwt ;a', 'logout+jwt ',
        ' application/dpop+jwt', '+jwt', 'xat+jwt', 'at+jwt+jwt', null, 1, true, [], ['JWT'], {}
      ],
      kid: [null, 0, 1, true, [], ['a'], {}, { kid: 'a' }]
    })
  )
  await check(t, { JWT_SECRET: SECRET }, [
    [
      'crit with the member that it names',
      make('HS256', SECRET, { crit: ['http://example.com/x'], 'http://example.com/x': true })
    ],
    ['crit and exp in the header', make('HS256', SECRET, { crit: ['exp'], exp: now() + 60 })],
    ['crit and b64', make('HS256', SECRET, { crit: ['b64'], b64: false })],
    [
      'a payload that is not encoded',
      signText(`${encode({ alg: 'HS256', crit: ['b64'], b64: false })}.${payload}`, 'HS256', SECRET)
    ],
    ...[
      'JWT', 'jwt', 'JOSE', 'at+jwt', 'at+jwt; a=b', ' at+jwt', 'AT+JWT', 'application/at+jwt',
      'application/jwt', '', 'x', 'jwt+x'
    ].map((typ): Row => [`typ: ${typ}`, make('HS256', SECRET, { typ }), 'passes']),
    ...['', 'json', 'application/json', 'jwt+json', 'JWT2'].map((cty): Row =>
      [`cty: ${cty}`, make('HS256', SECRET, { cty }), 'passes']),
    [
      'unknown members',
      under(
        '{"alg":"HS256","zip":"DEF","x5t":"x","epk":{},"p2c":1,"__proto__":{"crit":["x"]},' +
          '"constructor":{},"toString":1,"hasOwnProperty":1,"":0,"nested":{"crit":[]}}'
      ),
      'passes'
    ],
    ['spaces', under(' {\n"alg" :\t"HS256" }\r\n'), 'passes'],
    ['escapes', under('{"\\u0061lg":"\\u0048S256"}'), 'passes'],
    ...[
      '', ' ', '[]', '["HS256"]', '"HS256"', 'null', 'true', '256', '{}', '{"alg"',
      '{"alg":"HS256"', '{"alg":"HS256",}', "{'alg':'HS256'}", '{alg:"HS256"}', '{"alg":"HS256"}{}',
      '{"alg":"HS256"}\0', '\ufeff{"alg":"HS256"}', '{"alg":"HS256"}//', '{"Alg":"HS256"}',
      '{"alg ":"HS256"}', '[{"alg":"HS256"}]', '{"__proto__":{"alg":"HS256"}}',
      '{"header":{"alg":"HS256"}}'
    ].map((text): Row => [`header ${text}`, under(text)]),
    ...notUtf8('{"alg":"HS256"').map(([what, bytes]): Row => [what, under(bytes)]),
    ...[
      '{"alg":"HS256","alg":"HS256"}', '{"alg":"none","alg":"HS256"}',
      '{"alg":"HS256","alg":"none"}', '{"alg":"HS256","\\u0061lg":"none"}',
      '{"alg":"HS256","kid":"a","kid":"b"}', '{"alg":"HS256","typ":"JWT","typ":"JWT"}',
      '{"alg":"HS256","x":{"y":1,"y":1}}', '{"alg":"HS256","x":[{"y":1,"\\u0079":2}]}',
      '{"alg":"HS256","__proto__":1,"__proto__":2}', '{"alg":"HS256","":1,"":2}'
    ].map((text): Row => [`duplicate member: ${text}`, under(text)])
  ])
})

t.test('keys and key URLs in the header of a token are ignored', async t => {
  const attacker = keyPair('rsa', mallory)
  const server = await useJwksServer(t)
  server.behave = set(publicJwk(attacker, { kid: 'k' }))
  const { url } = server
  const der = certificate(attacker).replaceAll(/-----.*-----|\n/g, '')
  const members: readonly object[] = [
    { jku: url },
    { x5u: url },
    { jwk: publicJwk(attacker) },
    { jwk: publicJwk(attacker, { kid: 'k' }), jku: url, x5u: url },
    { x5c: [der] },
    { x5c: [der], 'x5t#S256': createHash('sha256').update(der, 'base64').digest('base64url') },
    { jwk: { kty: 'oct', k: encode('x'.repeat(32)) } },
    { key: publicPem(attacker) },
    { pem: publicPem(attacker) },
    { iss: url },
    { kid: url }
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
        [`${what}, without kid`, make('RS256', attacker, { ...member, kid: undefined })],
        // The member is ignored, so a token signed with the right key is accepted.
        [
          `${what}, the right key`,
          make('RS256', rsa, header),
          header.kid === 'k' || 'JWT_PUBLIC_KEY' in env ? 'passes' : 'token_invalid'
        ]
      ])
    }
  }
  t.same([...server.asked, ...server.connections], [], 'the URL is never requested')
})

t.test('kid selects the key', async t => {
  const named = keyPair('p256', 'the owner of the kid __proto__')
  const twins = ['first', 'second'].map(owner => keyPair('p521', owner)) as [KeyPair, KeyPair]
  const other = keyPair('rsa', 'another key of the issuer')
  const attacker = keyPair('rsa', mallory)
  const env = {
    JWT_JWKS: jwks(
      publicJwk(rsa, { kid: 'a' }),
      publicJwk(other, { kid: 'b', alg: 'RS512' }),
      publicJwk(named, { kid: '__proto__' }),
      publicJwk(p384, { kid: 'shared' }),
      publicJwk(ed25519, { kid: 'shared' }),
      ...twins.map(key => publicJwk(key, { kid: 'twin' }))
    )
  }
  const unknown = [
    '', ' ', 'A', 'a ', ' a', 'a\0', 'a\0b', '\0', 'á', '../../dev/null', '/dev/null',
    '../../../../proc/sys/kernel/randomize_va_space', "' or 1=1 --", "' union select 'x",
    "a' or 'a'='a", 'a|b', 'a,b', '$(id)', '; id', '%s', '*', '.*', 'constructor', 'toString',
    'hasOwnProperty', 'length', '0', '-1', 'null', 'undefined', 'x'.repeat(8000), 'keys',
    'http://127.0.0.1:1/', '\ud800', '{"kid":"a"}'
  ]
  await check(t, env, [
    ['the kid of the key', make('RS256', rsa, { kid: 'a' }), 'passes'],
    [
      'the kid of the key, escaped',
      makeToken({ alg: 'RS256', key: rsa, payload, header: '{"alg":"RS256","kid":"\\u0061"}' }),
      'passes'
    ],
    ['the kid of another key', make('RS512', rsa, { kid: 'b' })],
    ['the other key with its kid', make('RS512', other, { kid: 'b' }), 'passes'],
    ['an algorithm that the key does not allow', make('RS256', other, { kid: 'b' })],
    ['no kid, one key fits', make('RS256', rsa), 'passes'],
    ['no kid, two keys fit', make('RS512', rsa)],
    ['no kid, two keys fit, signed with the second', make('RS512', other)],
    ['no kid, one key fits, signed with another', make('RS256', other)],
    ['the kid of a key for another algorithm', make('ES256', named, { kid: 'a' })],
    ['a kid that every object has', make('ES256', named, { kid: '__proto__' }), 'passes'],
    ['that kid, another key', make('RS256', rsa, { kid: '__proto__' })],
    ['one kid, two keys, first algorithm', make('ES384', p384, { kid: 'shared' }), 'passes'],
    ['one kid, two keys, second algorithm', make('EdDSA', ed25519, { kid: 'shared' }), 'passes'],
    ['one kid, two keys, third algorithm', make('RS256', rsa, { kid: 'shared' })],
    ...twins.flatMap((key, index): Row[] => [
      [`one kid and algorithm, two keys: ${index}`, make('ES512', key, { kid: 'twin' })],
      [`no kid, two keys of the algorithm: ${index}`, make('ES512', key)]
    ]),
    ...unknown.flatMap((kid): Row[] => [
      [`kid ${kid.slice(0, 40)}`, make('RS256', rsa, { kid })],
      [`kid ${kid.slice(0, 40)}, HS256 with an empty secret`, make('HS256', '', { kid })]
    ]),
    ...[null, 0, 1, true, [], ['a'], {}, { toString: 'a' }].map((kid): Row =>
      [`kid ${JSON.stringify(kid)}`, make('RS256', rsa, { kid })]),
    ['the kid of a key, the signature of another', make('RS256', attacker, { kid: 'a' })],
    ['alg "none" with a known kid', make('RS256', rsa, { alg: 'none', kid: 'a' })]
  ])
  await check(t, { JWT_JWKS: jwks(publicJwk(rsa)) }, [
    ['a key without kid, a token without kid', make('RS256', rsa), 'passes'],
    ['a key without kid, a token with kid', make('RS256', rsa, { kid: 'a' }), 'passes'],
    ['a key without kid, a token with an empty kid', make('RS256', rsa, { kid: '' }), 'passes'],
    ['a key without kid, the signature of another', make('RS256', attacker, { kid: 'a' })]
  ])
  const several = jwks(publicJwk(rsa), publicJwk(p384), publicJwk(other, { kid: 'b' }))
  await check(t, { JWT_JWKS: several }, [
    ['a key without kid, another one fits', make('RS256', rsa, { kid: 'a' })],
    ['a key without kid, another one has the kid', make('RS256', rsa, { kid: 'b' })],
    ['a key without kid, no other one fits', make('ES384', p384, { kid: 'a' }), 'passes']
  ])
  const twice = [{ kid: 'a' }, { kid: 'a', alg: 'RS256' }, { kid: 'b', alg: 'RS384' }]
  await check(t, { JWT_JWKS: jwks(...twice.map(members => publicJwk(rsa, members))) }, [
    ['the same key several times, its kid', make('RS256', rsa, { kid: 'a' }), 'passes'],
    ['the same key several times, no kid', make('RS256', rsa), 'passes'],
    ['the same key several times, no kid, another alg', make('RS384', rsa), 'passes'],
    ['the same key several times, the kid of one', make('RS384', rsa, { kid: 'b' }), 'passes'],
    ['the same key several times, an alg that this kid does not allow',
      make('RS512', rsa, { kid: 'b' })],
    ['the same key several times, another kid', make('RS256', rsa, { kid: 'c' })],
    ['the same key several times, the signature of another', make('RS256', other)]
  ])
  await check(t, { JWT_JWKS: jwks(publicJwk(rsa, { kid: 'a' }), publicJwk(rsa)) }, [
    ['the same key with and without kid', make('RS256', rsa, { kid: 'c' }), 'passes']
  ])
  await check(t, { JWT_JWKS: jwks(publicJwk(rsa, { kid: '' })) }, [
    ['an empty kid', make('RS256', rsa, { kid: '' }), 'passes'],
    ['a key with an empty kid, a token without kid', make('RS256', rsa), 'passes'],
    ['a key with an empty kid, another kid', make('RS256', rsa, { kid: ' ' })]
  ])
  await check(t, { JWT_PUBLIC_KEY: publicPem(rsa) }, unknown.map((kid): Row =>
    [`a single key, kid is ignored: ${kid.slice(0, 40)}`, make('RS256', rsa, { kid }), 'passes']))
})

t.test('a payload must be a JSON object without duplicate members', async t => {
  const exp = now() + 3600
  const good = `"role":"${role}","exp":${exp}`
  await check(t, { JWT_SECRET: SECRET }, [
    ...[
      '', ' ', '[]', `[{${good}}]`, '"x"', `"{${good}}"`, 'null', 'true', '1', '{', `{${good}`,
      `{${good},}`, `{${good}}}`, `{${good}}{}`, `{${good}}\0`, `\ufeff{${good}}`,
      `{${good},'x':1}`, `{${good},x:1}`, `{${good}} // x`, `/**/{${good}}`, `{${good},"x":NaN}`,
      `{${good},"x":Infinity}`, `{${good},"x":0x10}`, `{${good},"x":01}`, `{${good},"x":+1}`,
      `{${good},"x":"\t"}`, `{${good},"x":"\\x41"}`, `${good}`
    ].map((text): Row => [`payload ${text}`, claim(text)]),
    ...notUtf8(`{${good}`).map(([what, bytes]): Row => [what, claim(bytes)]),
    ['bytes', claim(Buffer.of(0, 1, 2, 255))],
    ...[
      `${good},"role":"${role}"`, `"role":"oneflight_other",${good}`, `${good},"role":"postgres"`,
      `${good},"\\u0072ole":"postgres"`, `"\\u0072ole":"postgres",${good}`, `${good},"exp":${exp}`,
      `"exp":0,${good}`, `${good},"e\\u0078p":1`, `${good},"x":{"y":1,"y":2}`,
      `${good},"x":[1,{"a":{"y":1,"z":2,"\\u0079":3}}]`, `${good},"__proto__":1,"__proto__":2`,
      `${good},"x":1,"y":2,"x":1`, `${good},"":1,"":1`, `${good},"x" :1,"x"\n: 2`,
      `${good},"\\"":1,"\\u0022":2`, `${good},"é":1,"\\u00e9":1`, `${good},"0":1,"0":2`
    ].map((text): Row => [`duplicate member: ${text.replace(good, '…')}`, claim(`{${text}}`)]),
    ...[
      `${good},"x":{"role":"postgres","exp":0}`,
      `${good},"Role":"postgres","ROLE":"postgres","role ":"x"`,
      `"\\u0072ole":"${role}","exp":${exp}`, `"r\\u006fle":"${role}","\\u0065xp":${exp}`,
      `${good},"x":["role","role"],"y":"\\"role\\":1","z":"\\"role\\":2"`,
      `${good},"a":{"y":1},"b":{"y":1}`, `${good},"__proto__":{"role":"postgres"}`,
      `${good},"constructor":null,"toString":1,"hasOwnProperty":1`,
      `${good},"x":${'['.repeat(3000)}${']'.repeat(3000)}`, `${good},"x":1e400,"y":-0,"z":1.000`,
      `${good},"x":"\\ud800 \\u0000"`
    ].map((text): Row => [`valid: ${text.slice(0, 80)}`, claim(`{${text}}`), 'passes']),
    ['compressed', make('HS256', SECRET, { zip: 'DEF' }), 'passes'],
    ['nested', makeToken({
      alg: 'HS256',
      key: SECRET,
      payload: make('HS256', SECRET),
      header: { alg: 'HS256', cty: 'JWT' }
    })],
    ['nested, without cty', claim(make('HS256', SECRET))]
  ])
})

t.test('exp, nbf and iat must be numbers and are compared with the clock', async t => {
  const at = (text: string): string => claim(`{"role":"${role}",${text}}`)
  const later = now() + 3600
  const invalid = 'token_claims_invalid'
  const broken = [
    '"x"', '""', '"9999999999"', '"1e10"', '"Infinity"', '"2100-01-01T00:00:00Z"', 'true', 'false',
    'null', '[]', '{}', `[${later}]`, `{"value":${later}}`, '1e999', '-1e999', '1'.padEnd(400, '0'),
    '-1'.padEnd(400, '0')
  ]
  const begins: Readonly<Record<string, readonly string[]>> = {
    [invalid]: broken,
    passes: [
      '0', '-0', '-1', '-1e308', '1e3', '0.5', `${now()}`, `${now()}.5`, `${now() + 15}`, '1e-400'
    ],
    token_not_active: [
      `${now() + 900}`, `${now() + 900}.5`, '1e10', '1e308', '99999999999999999999999999',
      `${later}000`
    ]
  }
  const verdicts: Readonly<Record<string, typeof begins>> = {
    exp: {
      [invalid]: broken,
      passes: [
        `${later}`, `${later}.0`, `${later}.999999999999`, `${later}e0`, '4.1e9', '1e10', '1E+10',
        '1e308', '41000000000e-1', '99999999999999999999999999', `${Number.MAX_SAFE_INTEGER}`,
        `${now()}`, `${now()}.5`, '1.7976931348623157e308', `${later}000`
      ],
      token_expired: [
        '0', '-0', '-0.0', '0e0', '1', '-1', '1e3', '1e-400', '0.1', '-1e308', `${now() - 900}`,
        `${now() - 900}.999`, '1700000000', '-99999999999999999999', '1.7e9'
      ]
    },
    nbf: begins,
    iat: begins
  }
  const rows = Object.entries(verdicts).flatMap(([name, verdicts]) =>
    Object.entries(verdicts).flatMap(([verdict, values]) =>
      values.map((value): Row => {
        const exp = name === 'exp' ? '' : `"exp":${later},`
        return [`${name} ${value.slice(0, 30)}`, at(`${exp}"${name}":${value}`), verdict]
      })
    )
  )
  for (const required of ['true', 'false']) {
    const env = { JWT_SECRET: SECRET, JWT_REQUIRE_EXP: required }
    const without = required === 'true' ? invalid : 'passes'
    await check(t, env, [
      ['no exp', at('"sub":"x"'), without],
      ['exp elsewhere', at(`"claims":{"exp":${later}},"Exp":${later},"exp ":${later}`), without],
      ...required === 'true' ? rows : rows.filter(([what]) => what.startsWith('exp')),
      ['expired and not active', at(`"exp":0,"nbf":${later}`), 'token_expired'],
      ['expired and broken', at('"exp":0,"nbf":"x"'), invalid]
    ])
  }
})

t.test('JWT_ROLE_CLAIM is the name of the claim with the role, or a path to it', async t => {
  const exp = `"exp":${now() + 3600}`
  const missing = 'role_missing'
  const invalid = 'token_claims_invalid'
  const groups: ReadonlyArray<
    readonly [path: string, rows: ReadonlyArray<readonly [claims: string, verdict: string]>]
  > = [
    ['app_metadata.role', [
      ['"app_metadata":{"role":"x"}', 'passes'], ['"app_metadata":{"role":"x"},"role":1', 'passes'],
      ['"app_metadata.role":"x"', 'passes'], ['"role":"x"', missing],
      ['"app_metadata.role":null,"app_metadata":{"role":"x"}', invalid],
      ['"app_metadata":"{\\"role\\":\\"x\\"}"', missing], ['"app_metadata":null', missing],
      ['"app_metadata":"role"', missing], ['"app_metadata":1', missing],
      ['"app_metadata":{}', missing], ['"app_metadata":[]', missing],
      ['"app_metadata":[{"role":"x"}]', missing], ['"app_metadata":{"Role":"x"}', missing],
      ['"App_metadata":{"role":"x"}', missing], ['"app_metadata":{"role":{"role":"x"}}', invalid],
      ['"app_metadata":{"role":["x"]}', invalid], ['"app_metadata":{"role":1}', invalid],
      ['"app_metadata":{"role":true}', invalid], ['"app_metadata":{"role":false}', invalid],
      ['"app_metadata":{"role":null}', invalid], ['"app_metadata":{"role":""}', invalid],
      ['"app_metadata":{"role":"none"}', 'role_denied'],
      ['"__proto__":{"app_metadata":{"role":"x"}}', missing],
      ['"app_metadata":{"__proto__":{"role":"x"}}', missing],
      ['"app_metadata":{"role":"x","\\u0072ole":"y"}', 'token_invalid']
    ]],
    ['roles.0', [
      ['"roles":["x","y"]', 'passes'], ['"roles":["none","y"]', 'role_denied'],
      ['"roles":{"0":"x"}', 'passes'], ['"roles":[]', missing], ['"roles":"x"', missing],
      ['"roles":[["x"]]', invalid], ['"roles":[0]', invalid], ['"roles":[null,"x"]', invalid]
    ]],
    ['roles.-1', [['"roles":["x"]', missing], ['"roles":{"-1":"x"}', 'passes']]],
    ['roles.00', [['"roles":["x"]', missing]]],
    ['roles.1e0', [['"roles":["x","y"]', missing]]],
    ['roles.length', [
      ['"roles":["x"]', invalid],
      ['"roles":"x"', missing],
      ['"roles":{"length":"x"}', 'passes']
    ]],
    ['roles.*', [['"roles":["x"]', missing]]],
    ['__proto__', [
      ['"role":"x"', missing],
      ['"__proto__":"x"', 'passes'],
      ['"__proto__":{}', invalid]
    ]],
    ['__proto__.role', [
      ['"role":"x"', missing],
      ['"__proto__":{"role":"x"}', 'passes'],
      ['"__proto__":null', missing]
    ]],
    ['constructor.name', [['"role":"x"', missing], ['"constructor":{"name":"x"}', 'passes']]],
    ['toString', [['"role":"x"', missing]]],
    ['a.constructor.prototype', [['"a":{}', missing], ['"a":[]', missing], ['"a":"x"', missing]]],
    ['https://example/role', [['"https://example/role":"x"', 'passes']]],
    ['https://example.com/role', [
      ['"https://example.com/role":"x"', 'passes'],
      ['"https://example.com/role":1,"https://example":{"com/role":"x"}', invalid],
      ['"https://example":{"com/role":"x"}', 'passes'],
      ['"https://example.com":{"role":"x"}', missing],
      ['"https://example.com/roles":"x"', missing]
    ]],
    ['https://example.com/claims.app.role', [
      ['"https://example.com/claims":{"app":{"role":"x"}}', 'passes'],
      ['"https://example.com/claims":{"app.role":"x"}', 'passes'],
      ['"https://example.com/claims.app":{"role":"x"}', 'passes'],
      ['"https://example.com/claims":{"app":{}},"https://example.com/claims.app":{"role":"x"}',
        'passes'],
      ['"https://example.com/claims":{"app":{"role":1,"app.role":"x"}}', invalid],
      ['"https://example.com/claims":{"role":"x"}', missing]
    ]],
    ['é.röle', [
      ['"é":{"röle":"x"}', 'passes'],
      ['"\\u00e9":{"r\\u00f6le":"x"}', 'passes'],
      ['"e\\u0301":{"röle":"x"}', missing]
    ]]
  ]
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
  for (const length of [max + 1, 2 * max, 1_000_000]) {
    t.same(await send(padded(length)), [401, 'token_invalid'], String(length))
  }
  const good = make('HS256', SECRET)
  for (const token of [good.replace('.', '\n.'), `${good}\n`, `${good}  `, `${good}\0`]) {
    t.same(await send(token), [401, 'token_invalid'], JSON.stringify(token.slice(-5)))
  }
  const service = await useService(t)
  const rows = [
    [padded(max + 1), 431, 'headers_too_large'],
    [padded(15_000), 404, 'undefined_table'],
    ['x'.repeat(100_000), 431, 'headers_too_large'],
    [good.replace('.', '\r\n .'), 400, 'http_malformed']
  ] as const
  for (const [token, status, code] of rows) {
    const headers = headersOfBatch({ authorization: `Bearer ${token}`, connection: 'close' })
    const body = '[{"id":"a","op":"select","table":"public.nothing"}]'
    const [response] = await speak(service.url, request('POST', '/', headers, body))
    t.same([response?.status, response?.body?.error.code], [status, code])
  }
})
