/**
 * One key: from what an operator or an identity provider gives to what the library verifies with,
 * and which algorithms it is fit for. Reads by the platform's crypto; no error ever holds a piece
 * of a key.
 */
import { createPublicKey, type AsymmetricKeyDetails, type KeyObject } from 'node:crypto'
import { sharedAlgorithms, type Algorithm } from '../../schemas/token.ts'
import { tryParse } from '../json/try-parse.ts'

/** A key that can verify. */
export interface VerificationKey {
  /** What a token may call it (RFC 7517 §4.5); undefined when it has no name. */
  readonly kid: string | undefined
  /** The algorithms it may be used with; at least one. */
  readonly algorithms: readonly Algorithm[]
  /** The secret itself, or the public key as PEM. */
  readonly material: string
}

/** RFC 7518 §3.3, and what OpenSSL is willing to verify with. */
const MIN_RSA_BITS = 2048
const MAX_RSA_BITS = 16_384
const CURVES: Readonly<Record<string, Algorithm>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512'
}

/**
 * A shared secret; its length was checked with the other variables. Throws an Error with one safe
 * line for a public key: whoever knows that could sign with it.
 */
export function readSecret (text: string): VerificationKey {
  if (text.includes('-----BEGIN ') || isJwk(text)) {
    throw new Error(
      'looks like a key or a set of keys and not like a secret; those belong into ' +
        'JWT_PUBLIC_KEY or JWT_JWKS'
    )
  }
  return { kid: undefined, algorithms: sharedAlgorithms, material: text }
}

/** Whether a text is the JSON of a key or of a set of keys. */
function isJwk (text: string): boolean {
  const value = tryParse(text.trim())
  return typeof value === 'object' && value !== null
}

/**
 * A public key or certificate as one PEM block; line ends may be spaces or `\n` spelled out. Throws
 * an Error with one safe line.
 */
export function readPublicKey (text: string): VerificationKey {
  if (text.includes('PRIVATE KEY-----')) {
    throw new Error('is a private key; the service needs the public one alone')
  }
  const [, label, base64 = ''] =
    /^\s*-----BEGIN (PUBLIC KEY|RSA PUBLIC KEY|CERTIFICATE)-----([^-]+)-----END \1-----\s*$/.exec(
      text.replaceAll('\\n', '\n')
    ) ?? []
  if (label === undefined) {
    throw new Error('expected one PEM block: PUBLIC KEY, RSA PUBLIC KEY or CERTIFICATE')
  }
  // Environments make spaces of line ends, or lose them.
  const lines = base64.replace(/\s+/g, '').replace(/.{64}(?!$)/g, '$&\n')
  return toVerificationKey(
    read(() => createPublicKey(`-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----`)),
    undefined
  )
}

/** A public key of a set. Throws an Error with one safe line. */
export function readJwk (
  jwk: Readonly<Record<string, unknown>>,
  kid: string | undefined
): VerificationKey {
  return toVerificationKey(read(() => createPublicKey({ key: jwk, format: 'jwk' })), kid)
}

function read (create: () => KeyObject): KeyObject {
  try {
    return create()
  } catch {
    throw new Error('cannot be read')
  }
}

function toVerificationKey (key: KeyObject, kid: string | undefined): VerificationKey {
  const { modulusLength = MIN_RSA_BITS, publicExponent = 65_537n, namedCurve = '' } = key
    .asymmetricKeyDetails as AsymmetricKeyDetails
  if (modulusLength < MIN_RSA_BITS) {
    throw new Error(`is an RSA key of fewer than ${MIN_RSA_BITS} bits`)
  }
  if (modulusLength > MAX_RSA_BITS) {
    throw new Error(`is an RSA key of more than ${MAX_RSA_BITS} bits`)
  }
  if (publicExponent < 3n) throw new Error('is an RSA key that anybody can sign for')
  const algorithms = algorithmsOf(key.asymmetricKeyType, namedCurve)
  if (algorithms.length === 0) throw new Error('is of a kind that no algorithm fits')
  // In one form, whatever form it came in: the library tells the kind of a key by this text.
  return { kid, algorithms, material: key.export({ type: 'spki', format: 'pem' }) as string }
}

function algorithmsOf (type: string | undefined, curve: string): readonly Algorithm[] {
  switch (type) {
    case 'rsa':
      return ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
    case 'ec':
      return CURVES[curve] === undefined ? [] : [CURVES[curve]]
    case 'ed25519':
    case 'ed448':
      return ['EdDSA']
    default:
      return []
  }
}
