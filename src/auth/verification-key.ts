/**
 * Reads secrets, PEM keys and JSON Web Keys, and determines the algorithms of a key. Errors never
 * contain a part of a key.
 */
import { createPublicKey, type AsymmetricKeyDetails, type KeyObject } from 'node:crypto'
import { sharedAlgorithms, type Algorithm, type Jwk } from '../../schemas/token.ts'
import { tryParse } from '../json/try-parse.ts'

/** A key that can verify tokens. */
export interface VerificationKey {
  /** Key id (RFC 7517 §4.5). */
  readonly kid: string | undefined
  /** Algorithms of this key; at least one. */
  readonly algorithms: readonly Algorithm[]
  /** The secret, or the public key as PEM. */
  readonly material: string
}

/** Minimum of RFC 7518 §3.3, maximum of OpenSSL. */
const MIN_RSA_BITS = 2048
const MAX_RSA_BITS = 16_384

/** By the curve of a key, or by its type if it has none. */
const ALGORITHMS: Readonly<Record<string, readonly Algorithm[]>> = {
  rsa: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  prime256v1: ['ES256'],
  secp384r1: ['ES384'],
  secp521r1: ['ES512'],
  ed25519: ['EdDSA'],
  ed448: ['EdDSA']
}

/**
 * Reads a shared secret; config.ts checks its length. Throws an Error for a public key, because
 * anyone who knows it could sign tokens. The message is one line without secrets.
 */
export function readSecret (text: string): VerificationKey {
  if (text.includes('-----BEGIN ') || isJwk(text)) {
    throw new Error(
      'expected a secret, got a key or a key set; use JWT_PUBLIC_KEY or JWT_JWKS instead'
    )
  }
  return { kid: undefined, algorithms: sharedAlgorithms, material: text }
}

/** True for the JSON text of a key or a key set. */
function isJwk (text: string): boolean {
  const value = tryParse(text.trim())
  return typeof value === 'object' && value !== null
}

/**
 * Reads a public key or certificate: one PEM block, whose line ends may be spaces or the characters
 * `\n`. Throws an Error whose message is one line without secrets.
 */
export function readPublicKey (text: string): VerificationKey {
  if (text.includes('PRIVATE KEY-----')) {
    throw new Error('is a private key; expected a public key')
  }
  const [, label, base64 = ''] =
    /^\s*-----BEGIN (PUBLIC KEY|RSA PUBLIC KEY|CERTIFICATE)-----([^-]+)-----END \1-----\s*$/.exec(
      text.replaceAll('\\n', '\n')
    ) ?? []
  if (label === undefined) {
    throw new Error('expected one PEM block: PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE')
  }
  // Environment files may replace line ends by spaces, or drop them.
  const lines = base64.replace(/\s+/g, '').replace(/.{64}(?!$)/g, '$&\n')
  return toVerificationKey(
    read(() => createPublicKey(`-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----`))
  )
}

/** Reads a public key of a set. Throws an Error whose message is one line without secrets. */
export function readJwk (jwk: Jwk): VerificationKey {
  return toVerificationKey(read(() => createPublicKey({ key: jwk, format: 'jwk' })), jwk.kid)
}

function read (create: () => KeyObject): KeyObject {
  try {
    return create()
  } catch {
    throw new Error('cannot be read')
  }
}

function toVerificationKey (key: KeyObject, kid?: string): VerificationKey {
  const { modulusLength = MIN_RSA_BITS, publicExponent = 65_537n, namedCurve } = key
    .asymmetricKeyDetails as AsymmetricKeyDetails
  if (modulusLength < MIN_RSA_BITS) {
    throw new Error(`is an RSA key of fewer than ${MIN_RSA_BITS} bits`)
  }
  if (modulusLength > MAX_RSA_BITS) {
    throw new Error(`is an RSA key of more than ${MAX_RSA_BITS} bits`)
  }
  if (publicExponent < 3n) throw new Error('is an RSA key with an insecure exponent')
  const algorithms = ALGORITHMS[namedCurve ?? key.asymmetricKeyType as string]
  if (algorithms === undefined) throw new Error('has a type that no algorithm supports')
  // Always the same encoding: fast-jwt detects the type of a key from this text.
  return { kid, algorithms, material: key.export({ type: 'spki', format: 'pem' }) as string }
}
