/**
 * Settings and tokens of services under test.
 */
import { signToken } from '../../src/auth/token.ts'

export const SECRET = 'a secret of the test suite, more than 32 bytes'

/** The settings of a service under test, except for its database. */
export const testEnvironment = {
  HTTP_PORT: '0',
  ADMIN_HTTP_PORT: '0',
  JWT_SECRET: SECRET,
  POOL_SIZE: '4',
  // A long timeout, so that tests which do not test the queue succeed on a busy machine.
  QUEUE_TIMEOUT_MS: '20000',
  // No balancer needs time to notice the stop.
  SHUTDOWN_DELAY_MS: '0'
} as const

/** Creates an HS256 token that expires in an hour. Undefined claims are left out. */
export function token (claims: Readonly<Record<string, unknown>>, secret = SECRET): string {
  return signToken({ exp: Math.floor(Date.now() / 1000) + 3600, ...claims }, secret)
}
