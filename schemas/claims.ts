/**
 * The claims of a token that the service itself reads (RFC 7519 §4.1). Everything else is passed on
 * to the database as it is.
 */
import { Type, type Static } from '@sinclair/typebox'

/** Times are seconds since 1970 (NumericDate), finite numbers. */
export const TimeClaims = Type.Object({
  exp: Type.Optional(Type.Number({ description: 'time from which the token is refused' })),
  nbf: Type.Optional(Type.Number({ description: 'time before which the token is refused' })),
  iat: Type.Optional(
    Type.Number({ description: 'time of issue; refused when it lies in the future' })
  )
})
export type TimeClaims = Static<typeof TimeClaims>

/** Who a request is, once its token was verified or, without one, by ANON_ROLE. */
export interface Identity {
  readonly role: string
  /** JSON text for `request.jwt.claims`: the token's payload as it was sent, or `{"role": …}`. */
  readonly claims: string
  readonly anonymous: boolean
}

/**
 * Roles that neither a token nor ANON_ROLE may name: SET ROLE NONE is the login role, pg_* are
 * PostgreSQL's own, with rights on files and more.
 */
export function isReservedRole (role: string): boolean {
  return role === 'none' || role.startsWith('pg_')
}
