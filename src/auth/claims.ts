/**
 * What the claims of a verified token mean (RFC 7519 §4.1): whether it counts now and here, and
 * which role it names.
 */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { failure } from '../errors/catalogue.ts'
import { isReservedRole, TimeClaims } from '../../schemas/claims.ts'
import type { Config } from '../../schemas/config.ts'
import { maxIdentifierBytes } from '../../schemas/operation.ts'
import type { Payload } from './token.ts'

/**
 * RFC 7519 §4.1.4–6; `now` in seconds since 1970. Throws `token_claims_invalid`, `token_expired` or
 * `token_not_active`.
 */
export function checkTimes (
  payload: Payload,
  { JWT_REQUIRE_EXP: required, JWT_LEEWAY_S: leeway }: Config,
  now: number
): void {
  if (!timesCheck.Check(payload)) {
    throw failure('token_claims_invalid', 'exp, nbf and iat must be finite numbers.')
  }
  const { exp, nbf = -Infinity, iat = -Infinity } = payload
  if (exp === undefined && required) throw failure('token_claims_invalid', 'The token has no exp.')
  if (exp !== undefined && now >= exp + leeway) throw failure('token_expired')
  if (now < Math.max(nbf, iat) - leeway) throw failure('token_not_active')
}

const timesCheck = TypeCompiler.Compile(TimeClaims)

/**
 * RFC 7519 §4.1.1 and §4.1.3: what is configured must be there and fit. Throws
 * `token_claims_invalid`.
 */
export function checkParties (
  { aud, iss }: Payload,
  { JWT_AUD: audiences, JWT_ISS: issuer }: Config
): void {
  if (issuer !== undefined && iss !== issuer) {
    throw failure('token_claims_invalid', 'The token is of another issuer.')
  }
  const named: unknown[] = Array.isArray(aud) ? aud : [aud]
  if (
    audiences !== undefined &&
    !named.some(name => typeof name === 'string' && audiences.includes(name))
  ) {
    throw failure('token_claims_invalid', 'The token is meant for another audience.')
  }
}

/**
 * The role at a dotted path of claims. Throws `role_missing` or `token_claims_invalid`, and
 * `role_denied` for one that nobody may be.
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
    throw failure('token_claims_invalid', 'The role must be a string.')
  }
  if (isForbidden(found, loginRole)) throw failure('role_denied')
  return found
}

/**
 * Roles that are refused before any SQL, with the answer for an unknown role: reserved ones, the
 * login role itself, and names that are too long or hold half a character, which would become
 * another one.
 */
function isForbidden (role: string, loginRole: string): boolean {
  return isReservedRole(role) || role === loginRole || role.includes('\0') ||
    !role.isWellFormed() || Buffer.byteLength(role) > maxIdentifierBytes
}
