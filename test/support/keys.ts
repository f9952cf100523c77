/**
 * Creates keys and tokens of every kind, including invalid ones, with node:crypto and
 * without the code under test. Each key pair is created once per process.
 */
import {
  constants,
  createHmac,
  generateKeyPairSync,
  sign,
  type JsonWebKey,
  type KeyObject
} from 'node:crypto'

interface KeyPair {
  readonly publicKey: KeyObject
  readonly privateKey: KeyObject
}
export type KeyKind = keyof typeof kinds
export type Algorithm = `${'HS' | 'RS' | 'PS' | 'ES'}${256 | 384 | 512}` | 'EdDSA'

const kinds = {
  rsa: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  weakRsa: () => generateKeyPairSync('rsa', { modulusLength: 1024 }),
  /** An RSA key whose algorithm identifier restricts it to PSS. */
  pss: () => generateKeyPairSync('rsa-pss', { modulusLength: 2048 }),
  p256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  p384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  p521: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }),
  secp256k1: () => generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
  ed25519: () => generateKeyPairSync('ed25519'),
  ed448: () => generateKeyPairSync('ed448'),
  x25519: () => generateKeyPairSync('x25519')
} as const

export const kindOf: Readonly<Record<Exclude<Algorithm, `HS${string}`>, KeyKind>> = {
  RS256: 'rsa',
  RS384: 'rsa',
  RS512: 'rsa',
  PS256: 'rsa',
  PS384: 'rsa',
  PS512: 'rsa',
  ES256: 'p256',
  ES384: 'p384',
  ES512: 'p521',
  EdDSA: 'ed25519'
}

const pairs = new Map<string, KeyPair>()

/** Returns the key pair of a kind. Each `owner` has a different pair. */
export function keyPair (kind: KeyKind, owner = 'issuer'): KeyPair {
  const name = `${owner} ${kind}`
  const pair = pairs.get(name) ?? kinds[kind]()
  pairs.set(name, pair)
  return pair
}

/**
 * Exports as `-----BEGIN PUBLIC KEY-----`, or with `pkcs1` as `-----BEGIN RSA PUBLIC KEY-----`,
 * with a final line end.
 */
export function publicPem ({ publicKey }: KeyPair, type: 'spki' | 'pkcs1' = 'spki'): string {
  return publicKey.export({ type, format: 'pem' }) as string
}

export function privatePem ({ privateKey }: KeyPair): string {
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
}

/** Exports the public key as JWK, followed by the members of `more` (`kid`, `use`, `alg` …). */
export function publicJwk ({ publicKey }: KeyPair, more: object = {}): JsonWebKey {
  return { ...publicKey.export({ format: 'jwk' }), ...more }
}

export function privateJwk ({ privateKey }: KeyPair, more: object = {}): JsonWebKey {
  return { ...privateKey.export({ format: 'jwk' }), ...more }
}

/** Returns a JWK set as JSON text (RFC 7517 §5). */
export function jwks (...keys: readonly unknown[]): string {
  return JSON.stringify({ keys })
}

/** The key of a token: a key pair, or the secret of an HMAC. */
export type SigningKey = KeyPair | string | Buffer

/**
 * Signs `text` as RFC 7518 §3 specifies: ES is r and s concatenated, PS has a salt as long as the
 * digest.
 */
function signature (alg: Algorithm, key: SigningKey, text: string): Buffer {
  const hash = `sha${alg.slice(2)}`
  const bytes = Buffer.from(text)
  if (typeof key === 'string' || Buffer.isBuffer(key)) {
    return createHmac(hash, key).update(bytes).digest()
  }
  switch (alg.slice(0, 2)) {
    case 'RS':
      return sign(hash, bytes, key.privateKey)
    case 'PS':
      return sign(hash, bytes, {
        key: key.privateKey,
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: constants.RSA_PSS_SALTLEN_DIGEST
      })
    case 'ES':
      return sign(hash, bytes, { key: key.privateKey, dsaEncoding: 'ieee-p1363' })
    default:
      return sign(null, bytes, key.privateKey)
  }
}

/** Encodes one part of a token: strings and bytes as they are, other values as JSON. */
export function encode (part: unknown): string {
  return (Buffer.isBuffer(part)
    ? part
    : Buffer.from(typeof part === 'string' ? part : JSON.stringify(part))).toString('base64url')
}

/** Appends a signature to `text`, the encoded header and payload, which may be invalid. */
export function signText (text: string, alg: Algorithm, key: SigningKey): string {
  return `${text}.${signature(alg, key, text).toString('base64url')}`
}

interface TokenParts {
  readonly alg: Algorithm
  readonly key: SigningKey
  readonly payload: unknown
  /** The header, by default `{"alg": …}`. It may name another algorithm than `alg`. */
  readonly header?: unknown
}

/** Creates a token with exactly this header and payload. */
export function makeToken ({ alg, key, payload, header = { alg } }: TokenParts): string {
  return signText(`${encode(header)}.${encode(payload)}`, alg, key)
}
