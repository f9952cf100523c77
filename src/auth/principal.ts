/**
 * Who a request is from one token to the next: what an idempotency key belongs to. A client's token
 * is renewed while it tries again, and nobody may be answered what was somebody else's.
 */
import { createHash } from 'node:crypto'
import type { Identity } from '../../schemas/claims.ts'
import { parseJson, type JsonObject } from '../json/parse.ts'

/** Claims of one token and not of whom it was given to (RFC 7519 §4.1). */
const passing: ReadonlySet<string> = new Set(['exp', 'nbf', 'iat', 'jti'])

/**
 * SHA-256, in hexadecimal digits, of role, issuer and subject; of role and all claims that outlive
 * the token where there is no subject, for then any of them may be what tells two users apart; of
 * the role alone where there is no token.
 */
export function principalOf ({ role, claims, anonymous }: Identity): string {
  const who = anonymous ? ['anonymous'] : describe(parseJson(Buffer.from(claims)) as JsonObject)
  return createHash('sha256').update(JSON.stringify([role, ...who])).digest('hex')
}

/** Numbers are kept digit for digit: two subjects must not become one by rounding. */
function describe (claims: JsonObject): readonly unknown[] {
  const { iss = null, sub } = claims
  if (typeof sub === 'string' && sub !== '') return ['subject', iss, sub]
  return [
    'claims',
    Object.entries(claims).filter(([name]) => !passing.has(name)).sort(([one], [other]) =>
      one < other ? -1 : 1
    )
  ]
}
