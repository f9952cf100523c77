/**
 * Signs tokens for development and tests. The service itself only verifies tokens.
 */
import { createHmac } from 'node:crypto'

/** Returns an HS256 token with exactly these claims (RFC 7515 §3.1). */
export function signToken (claims: Readonly<Record<string, unknown>>, secret: string): string {
  const encode = (value: unknown): string =>
    Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}
