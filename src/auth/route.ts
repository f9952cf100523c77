/**
 * Selects the database of a request by a claim of its token (DATABASE_ROUTES).
 */
import { createHash } from 'node:crypto'
import type { DatabaseRoute, DatabaseRoutes } from '../../schemas/database.ts'
import { quote, refuse } from '../errors/catalogue.ts'
import { findClaim } from './claims.ts'
import type { Payload } from './token.ts'

/**
 * Returns the value of the claim at a dotted path, and its database. Throws `token_claims_invalid`
 * or `route_unknown`. Only text is accepted: two numbers of a token that differ can be the same
 * number of JavaScript.
 */
export function findRoute (
  payload: Payload,
  path: string,
  { values, buckets }: DatabaseRoutes
): { readonly tenant: string, readonly route: DatabaseRoute } {
  const tenant = findClaim(payload, path)
  if (typeof tenant !== 'string' || tenant === '') {
    const reason = `${path} (DATABASE_ROUTE_CLAIM) must be a non-empty string`
    throw refuse('token_claims_invalid', reason)
  }
  const route = values.get(tenant) ?? buckets[bucketOf(tenant, buckets.length)]
  if (route === undefined) {
    throw refuse('route_unknown', `${path} ${quote(tenant)} has no database in DATABASE_ROUTES`)
  }
  return { tenant, route }
}

/**
 * The bucket of a value: the first four bytes of the SHA-256 of its UTF-8 text, as a big-endian
 * number, modulo the number of buckets. It never changes, because it decides where rows are.
 * Without buckets NaN.
 */
export function bucketOf (value: string, buckets: number): number {
  return createHash('sha256').update(value).digest().readUInt32BE() % buckets
}
