/**
 * Identifies the owner of an idempotency key across tokens. A client may renew its token between
 * retries, and must not get the response of another client.
 */
import { createHash } from 'node:crypto'
import type { Config } from '../../schemas/config.ts'
import { maxDepth } from '../../schemas/operation.ts'
import type { Identity, KeyOwner } from '../../schemas/token.ts'
import { failure } from '../errors/catalogue.ts'
import { isObject, parseExact, type Json, type JsonObject } from '../json/parse.ts'
import { scanJson } from '../json/scan.ts'
import { findClaim, locateClaim } from './claims.ts'

type OwnerSettings = Pick<Config, 'IDEMPOTENCY_SCOPE' | 'IDEMPOTENCY_IGNORED_CLAIMS'>

type Path = readonly string[]

/**
 * Claims of each token (RFC 7519 §4.1). Another claim here would change the principals of tokens
 * without a subject.
 */
const tokenClaims: readonly Path[] = [['exp'], ['nbf'], ['iat'], ['jti']]
/** Claims of each login and session (OpenID Connect Core §2, Front-Channel Logout §3). */
const earlierLoginClaims: readonly Path[] = [['auth_time'], ['sid']]
/**
 * Further ones, by issuer. They are ids and times of tokens, logins and sessions, and decide no
 * rights. `amr` and `acr` do, for example, and are compared.
 */
const loginClaims: readonly Path[] = [
  ...earlierLoginClaims,
  ['nonce'], ['at_hash'], ['c_hash'], ['s_hash'], ['updated_at'], // OpenID Connect Core §2, §5.1
  ['session_state'], // Keycloak
  ['session_id'], // Supabase
  ['aio'], ['rh'], ['uti'], ['xms_ftd'], // Microsoft Entra
  ['event_id'], ['origin_jti'], // Amazon Cognito
  ['fva'], // Clerk: minutes since the factors were verified
  ['rat'] // Ory Hydra
]

/** Of more claims, or with longer names, it is not stored which ones differ. */
const MAX_CLAIMS = 64
const MAX_NAME = 100

/** Throws `idempotency_key_invalid` for claims that are nested too deep to be compared. */
export function ownerOf (
  { role, claims: text, anonymous }: Identity,
  { IDEMPOTENCY_SCOPE: scope = [], IDEMPOTENCY_IGNORED_CLAIMS: names = [] }: OwnerSettings
): KeyOwner {
  const claims = parseClaims(text)
  const ignored = [...tokenClaims, ...names.map(name => locateClaim(claims, name) ?? [])]
  const parts = [role, ...anonymous ? ['anonymous'] : describe(claims, ignored)]
  if (scope.length > 0) {
    parts.push(scope.map(path => [path, sortMembers((findClaim(claims, path) ?? null) as Json)]))
  }
  const principal = hash(parts)
  const compared = sortMembers(omit(claims, [...ignored, ...loginClaims]))
  return {
    principal,
    claims: hash(compared),
    earlierClaims: hash(sortMembers(omit(claims, [...ignored, ...earlierLoginClaims]))),
    eachClaim: JSON.stringify(hashEach(compared as JsonObject, principal))
  }
}

function hashEach (claims: JsonObject, salt: string): Readonly<Record<string, string>> {
  const known = Object.entries(claims).filter(([name]) => name.length <= MAX_NAME)
  if (known.length > MAX_CLAIMS) return {}
  return Object.fromEntries(
    known.map(([name, value]) => [name, hash([salt, name, value]).slice(0, 8)])
  )
}

/** Numbers keep every digit: rounding must not make two subjects equal. */
function parseClaims (text: string): JsonObject {
  const bytes = Buffer.from(text)
  const facts = scanJson(bytes)
  if (facts.depth > maxDepth) {
    throw failure(
      'idempotency_key_invalid',
      'A batch with an `Idempotency-Key` needs a token whose claims are nested at most ' +
        `${maxDepth} levels deep.`
    )
  }
  return parseExact(bytes, facts).value as JsonObject
}

function describe (claims: JsonObject, ignored: readonly Path[]): unknown[] {
  const { iss = null, sub } = claims
  if (typeof sub === 'string' && sub !== '') return ['subject', iss, sub]
  return ['claims', Object.entries(omit(claims, ignored)).sort(byName)]
}

function omit (object: JsonObject, paths: readonly Path[]): JsonObject {
  return Object.fromEntries(
    Object.entries(object).flatMap(([name, value]) => {
      const inner = paths.filter(([first]) => first === name).map(path => path.slice(1))
      if (inner.some(path => path.length === 0)) return []
      return [[name, inner.length > 0 && isObject(value) ? omit(value, inner) : value]]
    })
  )
}

function sortMembers (value: Json): Json {
  if (Array.isArray(value)) return (value as readonly Json[]).map(sortMembers)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).sort(byName).map(([name, member]) => [name, sortMembers(member)])
  )
}

function byName ([one]: readonly [string, Json], [other]: readonly [string, Json]): number {
  return one < other ? -1 : 1
}

function hash (value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex')
}
