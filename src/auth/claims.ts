/**
 * Checks the claims of a verified token (RFC 7519 §4.1), and reads the role.
 */
import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Config } from '../../schemas/config.ts'
import { maxIdentifierBytes } from '../../schemas/operation.ts'
import { isReservedRole, TimeClaims } from '../../schemas/token.ts'
import { quote, refuse } from '../errors/catalogue.ts'
import type { Payload } from './token.ts'

/** Seconds by which the clocks of the issuer and of the service may differ (RFC 7519 §4.1.4). */
const LEEWAY_S = 30

/**
 * Checks `exp`, `nbf` and `iat` (RFC 7519 §4.1.4–6). `now` is in seconds since 1970. Throws
 * `token_claims_invalid`, `token_expired` or `token_not_active`.
 */
export function checkTimes (
  payload: Payload,
  { JWT_REQUIRE_EXP: required }: Config,
  now: number
): void {
  if (!timesCheck.Check(payload)) {
    throw refuse('token_claims_invalid', 'exp, nbf and iat must be finite numbers')
  }
  const { exp, nbf = -Infinity, iat = -Infinity } = payload
  if (exp === undefined && required) {
    throw refuse('token_claims_invalid', 'there is no exp, and JWT_REQUIRE_EXP is true')
  }
  if (exp !== undefined && now >= exp + LEEWAY_S) {
    throw refuse(
      'token_expired',
      `exp ${exp} was ${Math.round(now - exp)} s ago; ${LEEWAY_S} s are tolerated`
    )
  }
  const [name, start] = nbf < iat ? ['iat', iat] : ['nbf', nbf]
  if (now < start - LEEWAY_S) {
    throw refuse(
      'token_not_active',
      `${name} ${start} is in ${Math.round(start - now)} s; ${LEEWAY_S} s are tolerated`
    )
  }
}

const timesCheck = TypeCompiler.Compile(TimeClaims)

/** Checks `iss` and `aud` against the configuration. Throws `token_claims_invalid`. */
export function checkParties (
  { aud, iss }: Payload,
  { JWT_AUD: audiences, JWT_ISS: issuer }: Config
): void {
  if (issuer !== undefined && iss !== issuer) {
    throw refuse('token_claims_invalid', `iss is ${show(iss)}, JWT_ISS is ${quote(issuer)}`)
  }
  const named: unknown[] = Array.isArray(aud) ? aud : [aud]
  if (
    audiences !== undefined &&
    !named.some(name => typeof name === 'string' && audiences.includes(name))
  ) {
    throw refuse(
      'token_claims_invalid',
      `aud is ${show(aud)}, JWT_AUD is ${quote(audiences.join(','))}`
    )
  }
}

function show (claim: unknown): string {
  return claim === undefined ? 'missing' : quote(claim)
}

/**
 * Reads the role from the claim that `path` names, see locateClaim. Throws `role_missing`,
 * `token_claims_invalid` or `role_denied`.
 */
export function readRole (payload: Payload, path: string, loginRole: string): string {
  const found = findClaim(payload, path)
  if (found === undefined) throw refuse('role_missing', `there is no ${path} (JWT_ROLE_CLAIM)`)
  if (typeof found !== 'string' || found === '') {
    throw refuse('token_claims_invalid', `${path} (JWT_ROLE_CLAIM) must be a non-empty string`)
  }
  const problem = problemOf(found, loginRole)
  if (problem !== undefined) throw refuse('role_denied', `role ${quote(found)} ${problem}`)
  return found
}

/** Returns the claim that a setting names, or undefined if the token does not have it. */
export function findClaim (payload: Payload, path: string): unknown {
  return locateClaim(payload, path)?.reduce<unknown>(
    (found, name) => (found as Payload)[name],
    payload
  )
}

/**
 * Returns the names from the payload to the claim that a setting names. That is the claim with the
 * whole name, which may be a URL, then the one at the dotted path, then a path of names that
 * contain dots. undefined: the token has none of them.
 */
export function locateClaim (payload: Payload, path: string): readonly string[] | undefined {
  return Object.hasOwn(payload, path) ? [path] : locateInside(payload, path)
}

function locateInside (value: unknown, path: string): readonly string[] | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  for (let dot = path.indexOf('.'); dot >= 0; dot = path.indexOf('.', dot + 1)) {
    const name = path.slice(0, dot)
    if (!Object.hasOwn(value, name)) continue
    const inside = locateInside((value as Payload)[name], path.slice(dot + 1))
    if (inside !== undefined) return [name, ...inside]
  }
  return Object.hasOwn(value, path) ? [path] : undefined
}

export function namedClaims (
  config: Config
): ReadonlyArray<readonly [setting: keyof Config, name: string]> {
  const { IDEMPOTENCY_SCOPE: scope = [], IDEMPOTENCY_IGNORED_CLAIMS: ignored = [] } = config
  return [
    ['JWT_ROLE_CLAIM', config.JWT_ROLE_CLAIM],
    ...scope.map(name => ['IDEMPOTENCY_SCOPE', name] as const),
    ...ignored.map(name => ['IDEMPOTENCY_IGNORED_CLAIMS', name] as const)
  ]
}

/**
 * Roles that are rejected before any SQL, with the response for unknown roles: reserved roles, the
 * login role, and names that PostgreSQL would change because they are too long or not well-formed.
 */
function problemOf (role: string, loginRole: string): string | undefined {
  if (isReservedRole(role)) return 'is reserved'
  if (role === loginRole) return 'is the login role of the service'
  const invalid = role.includes('\0') || !role.isWellFormed() ||
    Buffer.byteLength(role) > maxIdentifierBytes
  return invalid ? 'is not a possible name of a role' : undefined
}
