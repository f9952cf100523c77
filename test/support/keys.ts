/**
 * Keys and tokens of every kind, also of the wrong ones, made by node:crypto alone: what is under
 * test does not vouch for itself.
 *
 * In charge of: key pairs (each made once in a process), their text forms, and signing exactly the
 * text it is given. Refuses to: check anything.
 */
import {
  constants,
  createHmac,
  generateKeyPairSync,
  sign,
  type JsonWebKey,
  type KeyObject
} from 'node:crypto'

export interface KeyPair {
  readonly publicKey: KeyObject
  readonly privateKey: KeyObject
}
export type KeyKind = keyof typeof kinds
export type Algorithm = `${'HS' | 'RS' | 'PS' | 'ES'}${256 | 384 | 512}` | 'EdDSA'

const kinds = {
  rsa: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  weakRsa: () => generateKeyPairSync('rsa', { modulusLength: 1024 }),
  /** RSA that its own algorithm identifier binds to PSS. */
  pss: () => generateKeyPairSync('rsa-pss', { modulusLength: 2048 }),
  dsa: () => generateKeyPairSync('dsa', { modulusLength: 1024, divisorLength: 160 }),
  p256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  p384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  p521: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }),
  secp256k1: () => generateKeyPairSync('ec', { namedCurve: 'secp256k1' }),
  ed25519: () => generateKeyPairSync('ed25519'),
  ed448: () => generateKeyPairSync('ed448'),
  x25519: () => generateKeyPairSync('x25519')
} as const

/** What each algorithm is signed with. */
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

/** The pair of this kind; another `owner` has another pair. */
export function keyPair (kind: KeyKind, owner = 'issuer'): KeyPair {
  const name = `${owner} ${kind}`
  const pair = pairs.get(name) ?? kinds[kind]()
  pairs.set(name, pair)
  return pair
}

/**
 * `-----BEGIN PUBLIC KEY-----`, or with `pkcs1` `-----BEGIN RSA PUBLIC KEY-----`; it ends with a
 * line end.
 */
export function publicPem ({ publicKey }: KeyPair, type: 'spki' | 'pkcs1' = 'spki'): string {
  return publicKey.export({ type, format: 'pem' }) as string
}

export function privatePem (
  { privateKey }: KeyPair,
  type: 'pkcs8' | 'pkcs1' | 'sec1' = 'pkcs8'
): string {
  return privateKey.export({ type, format: 'pem' }) as string
}

/** The public half as JWK, with further members (`kid`, `use`, `alg` …) after its own. */
export function publicJwk ({ publicKey }: KeyPair, more: object = {}): JsonWebKey {
  return { ...publicKey.export({ format: 'jwk' }), ...more }
}

export function privateJwk ({ privateKey }: KeyPair, more: object = {}): JsonWebKey {
  return { ...privateKey.export({ format: 'jwk' }), ...more }
}

/** The JSON text of a set of these keys (RFC 7517 §5). */
export function jwks (...keys: readonly unknown[]): string {
  return JSON.stringify({ keys })
}

/** A self-signed certificate of an RSA pair, as PEM: version 1, empty names, valid until 2049. */
export function certificate (pair: KeyPair): string {
  // sha256WithRSAEncryption
  const algorithm = der(0x30, Buffer.from('06092a864886f70d01010b0500', 'hex'))
  const time = (digits: string): Buffer => der(0x17, Buffer.from(`${digits}Z`))
  const spki = pair.publicKey.export({ type: 'spki', format: 'der' })
  const body = der(
    0x30,
    der(0x02, Buffer.of(1)),
    algorithm,
    der(0x30),
    der(0x30, time('260101000000'), time('491231235959')),
    der(0x30),
    spki
  )
  const whole = der(
    0x30,
    body,
    algorithm,
    der(0x03, Buffer.of(0), sign('sha256', body, pair.privateKey))
  )
  return `-----BEGIN CERTIFICATE-----\n${
    whole.toString('base64').replaceAll(/.{64}/g, '$&\n').trim()
  }\n-----END CERTIFICATE-----\n`
}

/** Tag, length and content of ASN.1's distinguished encoding; for contents under 64 KiB. */
function der (tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const size = length < 128
    ? [length]
    : length < 256
      ? [0x81, length]
      : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.of(tag, ...size), content])
}

/** What a token is signed with: a pair, or the secret of an HMAC. */
export type SigningKey = KeyPair | string | Buffer

/**
 * The signature of `text` as RFC 7518 §3 wants it: ES is r and s side by side, PS has a salt as
 * long as the digest.
 */
export function signature (alg: Algorithm, key: SigningKey, text: string): Buffer {
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

/** One part of a token: text and bytes as they are, anything else as JSON. */
export function encode (part: unknown): string {
  return (Buffer.isBuffer(part)
    ? part
    : Buffer.from(typeof part === 'string' ? part : JSON.stringify(part))).toString('base64url')
}

/** `text` (header and payload, encoded, whatever they are) with its signature. */
export function seal (text: string, alg: Algorithm, key: SigningKey): string {
  return `${text}.${signature(alg, key, text).toString('base64url')}`
}

export interface TokenParts {
  readonly alg: Algorithm
  readonly key: SigningKey
  readonly payload: unknown
  /**
   * The whole header; `{"alg": …}` unless given. What it names need not be what the token is signed
   * with.
   */
  readonly header?: unknown
}

/** A token of exactly this header and payload. */
export function makeToken ({ alg, key, payload, header = { alg } }: TokenParts): string {
  return seal(`${encode(header)}.${encode(payload)}`, alg, key)
}
