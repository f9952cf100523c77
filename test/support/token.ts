/**
 * Tokens of the services under test.
 */
import { signToken } from '../../src/auth/token.ts'

export const SECRET = 'a secret of the test suite, more than 32 bytes'

/** Creates an HS256 token that expires in an hour. Undefined claims are left out. */
export function token (claims: Readonly<Record<string, unknown>>, secret = SECRET): string {
  return signToken({ exp: Math.floor(Date.now() / 1000) + 3600, ...claims }, secret)
}
