/**
 * Tests which configured keys are accepted and which are rejected, and that no part of a key is
 * shown.
 */
import { createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import {
  printableConfig,
  readConfig,
  type ConfigError,
  type Environment
} from '../../../src/config/config.ts'
import {
  encode,
  jwks,
  keyPair,
  privateJwk,
  privatePem,
  publicJwk,
  publicPem,
  type KeyKind
} from '../../support/keys.ts'

const base = { DATABASE_URL: 'postgres://app@db/shop' }
const rsa = keyPair('rsa')
const p256 = keyPair('p256')
const weak = keyPair('weakRsa')
const rsaAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const
const sharedAlgorithms = ['HS256', 'HS384', 'HS512'] as const
const certificate = readFileSync(
  new URL('../../support/network/certs/server.crt', import.meta.url),
  'utf8'
)
const secret = 'x9Kq2mV7tLw4zB8nR3yP6sD1fG5hJ0aC-_'

/**
 * Returns the substrings that look like key material, without the BEGIN and END lines of PEM.
 */
function piecesOf (env: Environment): readonly string[] {
  return Object.values(env).flatMap(text =>
    text?.replaceAll(/-----[A-Z0-9 ]+-----|\\n/g, ' ').match(/[A-Za-z0-9+/_=-]{12}/g) ?? []
  )
}

function problemsOf (env: Environment): readonly string[] {
  try {
    readConfig({ ...base, ...env })
    return []
  } catch (error) {
    const { name, message, stack = '', problems } = error as ConfigError
    t.equal(name, 'ConfigError')
    t.same(
      piecesOf(env).filter(piece => `${message}${stack}${JSON.stringify(error)}`.includes(piece)),
      [],
      'no part of a key is shown'
    )
    return problems
  }
}

t.test('valid keys are accepted', async t => {
  const rows: ReadonlyArray<readonly [env: Environment, algorithms: readonly string[]]> = [
    [{ JWT_SECRET: secret }, sharedAlgorithms],
    [{ JWT_SECRET: secret, JWT_ALGORITHMS: ' HS512 , HS256' }, ['HS512', 'HS256']],
    // Any 32 bytes are a secret, even if they begin like JSON.
    [{ JWT_SECRET: `{${secret}` }, sharedAlgorithms],
    [{ JWT_PUBLIC_KEY: publicPem(rsa, 'pkcs1') }, rsaAlgorithms],
    [{ JWT_PUBLIC_KEY: certificate }, ['ES256']],
    ...['\\n', ' ', '', '\r\n'].map(end =>
      [{ JWT_PUBLIC_KEY: publicPem(rsa).replaceAll('\n', end) }, rsaAlgorithms] as const
    ),
    [{ JWT_PUBLIC_KEY: ` ${publicPem(rsa)}\n`, JWT_ALGORITHMS: 'PS384' }, ['PS384']],
    [{ JWT_PUBLIC_KEY: publicPem(keyPair('ed448')) }, ['EdDSA']],
    [{ JWT_JWKS: ` ${jwks(publicJwk(p256), publicJwk(keyPair('ed448')), publicJwk(rsa))}\n` },
      [...rsaAlgorithms, 'ES256', 'EdDSA']],
    [
      {
        JWT_JWKS: jwks(publicJwk(rsa, { alg: 'PS256' }), publicJwk(p256)),
        JWT_ALGORITHMS: 'PS256'
      },
      ['PS256']
    ],
    [
      {
        JWT_JWKS: jwks(
          publicJwk(rsa, { use: 'enc' }),
          { kty: 'oct', k: encode(secret) },
          publicJwk(rsa, { key_ops: ['encrypt'] }),
          publicJwk(p256, { alg: 'ECDH-ES' }),
          publicJwk(weak, { use: 'enc' }),
          publicJwk(p256, { x5t: 'x', unknown: {} })
        )
      },
      ['ES256']
    ],
    [{ JWT_JWKS_URL: 'https://id.example/keys?key=x' },
      [...rsaAlgorithms, 'ES256', 'ES384', 'ES512', 'EdDSA']],
    [{ ANON_ROLE: 'anon' }, []]
  ]
  for (const [env, algorithms] of rows) {
    const what = JSON.stringify(env).slice(0, 80)
    const found = problemsOf(env)
    t.same(found, [], what)
    if (found.length > 0) continue
    const { config, keys } = readConfig({ ...base, ...env })
    t.same(config.JWT_ALGORITHMS, algorithms, what)
    t.same(keys?.algorithms ?? [], algorithms, what)
    const shown = printableConfig(config)
    t.same(shown['JWT_ALGORITHMS'], algorithms, 'the enabled algorithms are shown')
    for (const name of ['JWT_SECRET', 'JWT_PUBLIC_KEY', 'JWT_JWKS']) {
      t.equal(shown[name], name in env ? '[redacted]' : null, name)
    }
    t.same(
      piecesOf({ ...env, JWT_JWKS_URL: '' }).filter(piece => JSON.stringify(shown).includes(piece)),
      []
    )
  }
})

t.test('invalid keys are rejected', async t => {
  const pem = publicPem(rsa)
  const body = pem.replaceAll(/-----.*-----|\n/g, '')
  const block = (label: string, text = body, end = label): string =>
    `-----BEGIN ${label}-----\n${text}\n-----END ${end}-----\n`
  const kinds = (...names: readonly KeyKind[]) => names.map(name => keyPair(name))
  /** Sets of one key, each with other members. */
  const ecSets = (...members: readonly object[]) =>
    members.map(more => jwks(publicJwk(p256, more)))
  const rows: ReadonlyArray<readonly [name: string, problem: string, texts: readonly string[]]> = [
    ['JWT_SECRET', 'expected at least 32 bytes (the value is not shown)', [secret.slice(0, 31)]],
    ['JWT_SECRET',
      'expected a secret, got a key or a key set; use JWT_PUBLIC_KEY or JWT_JWKS instead',
      [`key: ${pem.replaceAll('\n', '\\n')}`, privatePem(rsa), ` \n${jwks(publicJwk(rsa))}`]],
    ['JWT_PUBLIC_KEY', 'is a private key; expected a public key', [
      privatePem(rsa), `${pem}${privatePem(rsa)}`, block('OPENSSH PRIVATE KEY')
    ]],
    ['JWT_PUBLIC_KEY', 'expected one PEM block: PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE', [
      body, `${pem}${publicPem(p256)}`, `a key\n${pem}`, `${pem}and more`, pem.slice(0, 300),
      block('PUBLIC KEY', body, 'CERTIFICATE'), block('EC PUBLIC KEY')
    ]],
    ['JWT_PUBLIC_KEY', 'cannot be read', [block('PUBLIC KEY', body.slice(0, 100))]],
    ['JWT_PUBLIC_KEY', 'is an RSA key of fewer than 2048 bits', [publicPem(weak)]],
    ['JWT_PUBLIC_KEY', 'has a type that no algorithm supports',
      kinds('secp256k1', 'pss').map(pair => publicPem(pair))],
    ['JWT_JWKS', 'expected a JSON Web Key Set, {"keys": [{…}]} (the value is not shown)', [
      pem, '[]', '{"keys":{}}', '{"keys":[', JSON.stringify(publicJwk(rsa)),
      jwks(publicJwk(rsa), 'x'), jwks(publicJwk(rsa)).replace('[{', '[{"kty":"RSA",'),
      jwks(...Array(1001).fill({}))
    ]],
    ['JWT_JWKS', 'contains no key that can verify tokens', [
      jwks(), jwks({ kty: 'oct', k: encode(secret) }),
      ...ecSets({ use: 'enc' }, { key_ops: ['sign'] }, { alg: 'es256' })
    ]],
    ['JWT_JWKS', 'key 1 is malformed', [
      jwks(...Array(1000).fill({})), `{"keys":[{"__proto__":${JSON.stringify(publicJwk(p256))}}]}`,
      ...ecSets({ kty: 1 }, { kid: null }, { alg: ['ES256'] }, { use: 1 }, { key_ops: 'verify' }),
      jwks(publicJwk(rsa, { e: 'A'.repeat(700_000) })),
      jwks(publicJwk(rsa, { n: 'A'.repeat(900_000) }))
    ]],
    // A private key is rejected even if it would not be used.
    ['JWT_JWKS', 'key 2 is a private key', [privateJwk(p256), privateJwk(rsa, { use: 'enc' })]
      .map(key => jwks(publicJwk(rsa), key))],
    ['JWT_JWKS', 'key 1 is an RSA key of fewer than 2048 bits',
      [jwks({ ...publicJwk(weak), n: `${'AAAA'.repeat(61)}${publicJwk(weak).n}` })]],
    ['JWT_JWKS', 'key 1 is an RSA key of more than 16384 bits',
      [jwks(publicJwk(rsa, { n: Buffer.alloc(2049, 255).toString('base64url') }))]],
    ['JWT_JWKS', 'key 1 has a type that no algorithm supports',
      kinds('x25519').map(pair => jwks(publicJwk(pair)))],
    ['JWT_JWKS', 'key 1 cannot be read',
      [...ecSets({ y: publicJwk(p256).x }, { x: 1 }), jwks({ kty: 'XYZ' })]],
    ['JWT_JWKS', 'key 1 has an alg that does not match its type', ecSets({ alg: 'RS256' })],
    ['JWT_JWKS_URL', 'expected an http:// or https:// URL without user, password or fragment ' +
      '(the value is not shown)',
    [
      'id.example', 'file:///etc/keys.json', 'https://u@id.example/', 'https://:p@id.example/',
      'https://id.example/#x', pem
    ]]
  ]
  for (const [name, problem, texts] of rows) {
    for (const text of texts) {
      const expected = [`${name}: ${problem}`]
      t.strictSame(problemsOf({ [name]: text }), expected, `${name} ${text.slice(0, 100)}`)
    }
  }
  // With exponent 1 a signature equals the padded digest, so anyone could sign.
  for (const e of ['AQ', 'Ag']) {
    const jwk = { ...publicJwk(rsa), e }
    t.match(problemsOf({ JWT_JWKS: jwks(jwk) }), [/^JWT_JWKS: key 1 /], `exponent ${e}`)
    t.match(
      problemsOf({
        JWT_PUBLIC_KEY: createPublicKey({ key: jwk, format: 'jwk' }).export({
          type: 'spki',
          format: 'pem'
        }) as string
      }),
      [/^JWT_PUBLIC_KEY: /],
      `exponent ${e}`
    )
  }
})

t.test('incompatible keys and algorithms are rejected', async t => {
  const pem = publicPem(rsa)
  const set = jwks(publicJwk(p256), publicJwk(rsa, { alg: 'PS256' }))
  const known =
    'HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA'
  const url = 'https://id.example/'
  /** The last algorithm of each text is not one that the key supports. */
  const unfit = (key: Environment, fits: readonly string[], ...texts: readonly string[]) =>
    texts.map(text => [
      { ...key, JWT_ALGORITHMS: text },
      `JWT_ALGORITHMS: ${text.split(',').at(-1)} is not supported by ${Object.keys(key)[0]} ` +
      `(expected ${fits.join(', ')})`
    ] as const)
  const rows: ReadonlyArray<readonly [env: Environment, ...problems: readonly string[]]> = [
    [{}, 'JWT_SECRET, JWT_PUBLIC_KEY, JWT_JWKS_URL, JWT_JWKS, ANON_ROLE: at least one must be ' +
      'set, or no request can be authorized'],
    ...[
      { JWT_SECRET: secret, JWT_PUBLIC_KEY: pem },
      { JWT_SECRET: secret, JWT_PUBLIC_KEY: pem, JWT_JWKS_URL: url, JWT_JWKS: set }
    ].map(keys => [
      { ...keys, ANON_ROLE: 'anon' },
      `${Object.keys(keys).join(', ')}: mutually exclusive, set only one`
    ] as const),
    [{ JWT_ALGORITHMS: 'HS256', ANON_ROLE: 'anon' }, 'JWT_ALGORITHMS: requires a key'],
    ...['none', 'hs256', 'HS256 HS384', '__proto__', 'HS256,'].map(text => [
      { JWT_SECRET: secret, JWT_ALGORITHMS: text },
      `JWT_ALGORITHMS: expected a comma-separated list of any of ${known}, got "${text}"`
    ] as const),
    ...unfit({ JWT_SECRET: secret }, sharedAlgorithms, 'RS256'),
    ...unfit({ JWT_PUBLIC_KEY: pem }, rsaAlgorithms, 'HS256', 'RS256,HS256'),
    ...unfit({ JWT_PUBLIC_KEY: publicPem(p256) }, ['ES256'], 'ES384'),
    ...unfit({ JWT_JWKS: set }, ['PS256', 'ES256'], 'RS256'),
    ...unfit(
      { JWT_JWKS_URL: url }, [...rsaAlgorithms, 'ES256', 'ES384', 'ES512', 'EdDSA'], 'RS256,HS256'
    ),
    // All problems are reported at once.
    [{ JWT_PUBLIC_KEY: publicPem(weak), JWT_ALGORITHMS: 'x', JWT_REQUIRE_EXP: 'yes' },
      `JWT_ALGORITHMS: expected a comma-separated list of any of ${known}, got "x"`,
      'JWT_REQUIRE_EXP: expected true or false, got "yes"',
      'JWT_PUBLIC_KEY: is an RSA key of fewer than 2048 bits'],
    [{ JWT_SECRET: 'short', JWT_ALGORITHMS: 'RS256' },
      'JWT_SECRET: expected at least 32 bytes (the value is not shown)']
  ]
  for (const [env, ...problems] of rows) {
    t.strictSame(problemsOf(env), problems, JSON.stringify(env).slice(0, 80))
  }
  // A key in a misspelt variable is not shown either.
  t.match(problemsOf({ ANON_ROLE: 'anon', JWT_PUBLICKEY: privatePem(rsa) }), [
    /^JWT_PUBLICKEY: unknown variable; did you mean JWT_/
  ])
})
