/**
 * Tokens: algorithms (RFC 7518 §3.1, RFC 8037 §3.1), header (RFC 7515 §4), claims that the service
 * reads (RFC 7519 §4.1), and JSON Web Key Sets (RFC 7517). All claims are passed to the database.
 */
import { Type, type Static } from '@sinclair/typebox'
import { oneOf } from './one-of.ts'

/** Every algorithm that can be configured. `none` is not supported. */
export const Algorithm = oneOf([
  'HS256', 'HS384', 'HS512',
  'RS256', 'RS384', 'RS512',
  'PS256', 'PS384', 'PS512',
  'ES256', 'ES384', 'ES512',
  'EdDSA'
])
export type Algorithm = Static<typeof Algorithm>
export const algorithms: readonly Algorithm[] = Algorithm.anyOf.map(word => word.const)

/** Algorithms of shared secrets. A secret that verifies tokens can also sign them. */
export const sharedAlgorithms: readonly Algorithm[] = ['HS256', 'HS384', 'HS512']

/** Maximum length of a token in bytes. */
export const maxTokenBytes = 16_384

/**
 * The header of a token. Members that contain or locate a key (`jku`, `jwk`, `x5u`, `x5c`) are
 * ignored. Rejected are critical extensions (`crit`, `b64`), encryption (`enc`), nested tokens
 * (`cty`) and token types for other purposes (`typ` such as `logout+jwt`, RFC 8725 §3.11).
 * Parameters of these media types are ignored.
 */
export const TokenHeader = Type.Object({
  alg: Type.String(),
  kid: Type.Optional(Type.String()),
  typ: Type.Optional(
    Type.RegExp(/^\s*(?:application\/)?at\+jwt\s*(?:;|$)|^(?![^]*(?:\+jwt|jose\+json)\s*(?:;|$))/i)
  ),
  cty: Type.Optional(Type.RegExp(/^(?!\s*(?:application\/)?jwt\s*(?:;|$))/i)),
  crit: Type.Optional(Type.Never()),
  b64: Type.Optional(Type.Never()),
  enc: Type.Optional(Type.Never())
})
export type TokenHeader = Static<typeof TokenHeader>

/** Times are finite numbers: seconds since 1970 (NumericDate). */
export const TimeClaims = Type.Object({
  exp: Type.Optional(Type.Number({ description: 'expiration time' })),
  nbf: Type.Optional(Type.Number({ description: 'time before which the token is not valid' })),
  iat: Type.Optional(
    Type.Number({ description: 'time of issue; must not be in the future' })
  )
})

/**
 * The identity of a request: from its verified token, or from ANON_ROLE without a token. It is one
 * object for all requests with the same token, while the token is cached.
 */
export interface Identity {
  readonly role: string
  /** JSON text for `request.jwt.claims`: the token's payload as it was sent, or `{"role": …}`. */
  readonly claims: string
  readonly anonymous: boolean
  /** The decoded token; undefined without one. */
  readonly payload?: object
}

/** Who owns an idempotency key: SHA-256 hashes in hexadecimal digits. */
export interface KeyOwner {
  /**
   * The hash of role, issuer and subject. Without a subject, any claim may identify the user: then
   * it is the hash of the role and all claims that do not change with every token. Without a token,
   * it is the hash of the role. The values of IDEMPOTENCY_SCOPE are parts of it, because one
   * subject can belong to several tenants.
   */
  readonly principal: string
  /** The hash of all claims that do not change with every token or login. */
  readonly claims: string
  /** The same, as earlier versions compute it, which know fewer of the claims that change. */
  readonly earlierClaims: string
  /** Short hashes of single claims by name, as JSON text, which tell what differs; may be `{}`. */
  readonly eachClaim: string
}

/**
 * Roles that neither a token nor ANON_ROLE may name. SET ROLE NONE selects the login role. pg_* are
 * predefined roles, with access to files and more.
 */
export function isReservedRole (role: string): boolean {
  return role === 'none' || role.startsWith('pg_')
}

/**
 * One key. `use`, `key_ops` and `alg` restrict its use. The numbers of an RSA key are limited to
 * 16 384 and 64 bits: node:crypto takes three seconds to read an exponent of 128 kB, and minutes
 * for one of 700 kB.
 */
export const Jwk = Type.Object({
  n: Type.Optional(Type.String({ maxLength: 2736 })),
  e: Type.Optional(Type.String({ maxLength: 11 })),
  kty: Type.String(),
  kid: Type.Optional(Type.String()),
  use: Type.Optional(Type.String()),
  key_ops: Type.Optional(Type.Array(Type.String())),
  alg: Type.Optional(Type.String())
})
export type Jwk = Static<typeof Jwk>

/**
 * A key set. Keys are checked one by one, because a key of an unknown type must not invalidate the
 * others (§5). Their number is limited: 80 000 keys, which fit in 1 MiB, blocked the process for
 * four seconds.
 */
export const JwkSet = Type.Object({ keys: Type.Array(Type.Object({}), { maxItems: 1000 }) })
