/**
 * Checks the claims of a verified token (RFC 7519 §4.1) and reads the role.
 */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { failure } from '../errors/catalogue.ts'
import { isReservedRole, TimeClaims } from '../../schemas/claims.ts'
import type { Config } from '../../schemas/config.ts'
import { maxIdentifierBytes } from '../../schemas/operation.ts'
import type { Payload } from './token.ts'

/**
 * Checks `exp`, `nbf` and `iat` (RFC 7519 §4.1.4–6). `now` is in seconds since 1970. Throws
 * `token_claims_invalid`, `token_expired` or `token_not_active`.
 */
export function checkTimes (
  payload: Payload,
  { JWT_REQUIRE_EXP: required, JWT_LEEWAY_S: leeway }: Config,
  now: number
): void {
  if (!timesCheck.Check(payload)) {
    throw failure('token_claims_invalid', 'Claims exp, nbf and iat must be finite numbers.')
  }
  const { exp, nbf = -Infinity, iat = -Infinity } = payload
  if (exp === undefined && required) {
    throw failure('token_claims_invalid', 'Token has no exp claim.')
  }
  if (exp !== undefined && now >= exp + leeway) throw failure('token_expired')
  if (now < Math.max(nbf, iat) - leeway) throw failure('token_not_active')
}

const timesCheck = TypeCompiler.Compile(TimeClaims)

/** Checks `iss` and `aud` against the configuration. Throws `token_claims_invalid`. */
export function checkParties (
  { aud, iss }: Payload,
  { JWT_AUD: audiences, JWT_ISS: issuer }: Config
): void {
  if (issuer !== undefined && iss !== issuer) {
    throw failure('token_claims_invalid', 'Token issuer does not match JWT_ISS.')
  }
  const named: unknown[] = Array.isArray(aud) ? aud : [aud]
  if (
    audiences !== undefined &&
    !named.some(name => typeof name === 'string' && audiences.includes(name))
  ) {
    throw failure('token_claims_invalid', 'Token audience does not match JWT_AUD.')
  }
}

/**
 * Reads the role at a dotted path of claims. Throws `role_missing`, `token_claims_invalid` or
 * `role_denied`.
 */
export function readRole (payload: Payload, path: string, loginRole: string): string {
  let found: unknown = payload
  for (const name of path.split('.')) {
    found = typeof found === 'object' && found !== null && Object.hasOwn(found, name)
      ? (found as Payload)[name]
      : undefined
  }
  if (found === undefined) throw failure('role_missing')
  if (typeof found !== 'string' || found === '') {
    throw failure('token_claims_invalid', 'The role claim must be a non-empty string.')
  }
  if (isForbidden(found, loginRole)) throw failure('role_denied')
  return found
}

/**
 * Roles that are rejected before any SQL, like unknown roles: reserved roles, the login role, and
 * names that PostgreSQL would change because they are too long or not well-formed.
 */
function isForbidden (role: string, loginRole: string): boolean {
  return isReservedRole(role) || role === loginRole || role.includes('\0') ||
    !role.isWellFormed() || Buffer.byteLength(role) > maxIdentifierBytes
}
