/**
 * The claims that the service reads (RFC 7519 §4.1). All claims are passed to the database.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { DatabaseRoute } from './database.ts'

/** Times are finite numbers: seconds since 1970 (NumericDate). */
export const TimeClaims = Type.Object({
  exp: Type.Optional(Type.Number({ description: 'expiration time' })),
  nbf: Type.Optional(Type.Number({ description: 'time before which the token is not valid' })),
  iat: Type.Optional(
    Type.Number({ description: 'time of issue; must not be in the future' })
  )
})
export type TimeClaims = Static<typeof TimeClaims>

/** The identity of a request: from its verified token, or from ANON_ROLE without a token. */
export interface Identity {
  readonly role: string
  /** JSON text for `request.jwt.claims`: the token's payload as it was sent, or `{"role": …}`. */
  readonly claims: string
  readonly anonymous: boolean
  /** The decoded token: one object for all requests while it is cached; undefined without one. */
  readonly payload?: object
  /** The database of the request; undefined without DATABASE_ROUTES. */
  readonly route?: DatabaseRoute | undefined
  /** The value of DATABASE_ROUTE_CLAIM; undefined without DATABASE_ROUTES. */
  readonly tenant?: string | undefined
}

/**
 * Roles that neither a token nor ANON_ROLE may name. SET ROLE NONE selects the login role. pg_* are
 * predefined roles, with access to files and more.
 */
export function isReservedRole (role: string): boolean {
  return role === 'none' || role.startsWith('pg_')
}
