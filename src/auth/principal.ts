/**
 * Identifies the principal of a request across tokens. An idempotency key belongs to a principal: a
 * client may renew its token between retries, and must not get the response of another client.
 */
import { createHash } from 'node:crypto'
import type { Identity } from '../../schemas/claims.ts'
import { parseJson, type JsonObject } from '../json/parse.ts'

/** Claims that describe the token and not its subject (RFC 7519 §4.1). */
const tokenClaims: ReadonlySet<string> = new Set(['exp', 'nbf', 'iat', 'jti'])

/**
 * SHA-256 (hexadecimal) of role, issuer and subject. Without a subject, any claim may identify the
 * user: then it is the hash of the role and all claims but those of the token itself. Without a
 * token, it is the hash of the role. With DATABASE_ROUTES, the tenant is a part of it, because one
 * subject can belong to several tenants.
 */
export function principalOf ({ role, claims, anonymous, tenant }: Identity): string {
  const parts = anonymous ? ['anonymous'] : describe(parseJson(Buffer.from(claims)) as JsonObject)
  if (tenant !== undefined) parts.push(tenant)
  return createHash('sha256').update(JSON.stringify([role, ...parts])).digest('hex')
}

/** Numbers keep every digit: rounding must not make two subjects equal. */
function describe (claims: JsonObject): unknown[] {
  const { iss = null, sub } = claims
  if (typeof sub === 'string' && sub !== '') return ['subject', iss, sub]
  return [
    'claims',
    Object.entries(claims).filter(([name]) => !tokenClaims.has(name)).sort(([one], [other]) =>
      one < other ? -1 : 1
    )
  ]
}
