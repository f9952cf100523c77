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

/**
 * Settings of the mode in which tests of the language run, of TEST_MODE: `one-by-one` sends the
 * operations of a batch one by one.
 */
export function modeEnvironment (): Readonly<Record<string, string>> {
  const mode = process.env['TEST_MODE']
  if (mode === undefined) return {}
  if (mode !== 'one-by-one') throw new Error(`unknown TEST_MODE ${mode}`)
  return { DATABASE_ENGINE: 'sequential' }
}

/** Options of a test that does not hold where operations are sent one by one, and why not. */
export function differsOneByOne (reason: string): { readonly skip: string | false } {
  return { skip: process.env['TEST_MODE'] === 'one-by-one' && `one by one: ${reason}` }
}

/** Creates an HS256 token that expires in an hour. Undefined claims are left out. */
export function token (claims: Readonly<Record<string, unknown>>, secret = SECRET): string {
  return signToken({ exp: Math.floor(Date.now() / 1000) + 3600, ...claims }, secret)
}
