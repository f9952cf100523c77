/**
 * Reads the key variables: which one is set, whether its key is valid, and the allowed algorithms.
 * Problems never contain a part of a key.
 */
import type { Config } from '../../schemas/config.ts'
import { algorithms, sharedAlgorithms, type Algorithm } from '../../schemas/token.ts'
import { readJwks, type TokenKeys } from '../auth/jwks.ts'
import { readPublicKey, readSecret, type VerificationKey } from '../auth/verification-key.ts'

/** At most one of them is set. */
export const keyVariables = ['JWT_SECRET', 'JWT_PUBLIC_KEY', 'JWT_JWKS_URL', 'JWT_JWKS'] as const
type KeyVariable = typeof keyVariables[number]

/**
 * Reads the configured key; undefined when there is none and the service accepts no tokens. `given`
 * contains the names of all variables that are set. Throws an Error whose message is one line
 * without secrets.
 */
export function readKeys (
  values: Partial<Config>,
  given: readonly string[]
): TokenKeys | undefined {
  const [name, ...more] = keyVariables.filter(name => given.includes(name))
  if (more.length > 0) {
    throw new Error(`${[name, ...more].join(', ')}: mutually exclusive, set only one`)
  }
  const { JWT_ALGORITHMS: requested } = values
  if (name === undefined && requested !== undefined) {
    throw new Error('JWT_ALGORITHMS: requires a key')
  }
  const text = name === undefined ? undefined : values[name]
  // A variable that is set but has no value was already reported.
  if (name === undefined || text === undefined) return undefined
  const keys = readKey(name, text)
  const supported = algorithmsOf(keys)
  const unsupported = requested?.find(algorithm => !supported.includes(algorithm))
  if (unsupported !== undefined) {
    throw new Error(
      `JWT_ALGORITHMS: ${unsupported} is not supported by ${name} ` +
        `(expected ${supported.join(', ')})`
    )
  }
  return { keys, algorithms: requested ?? supported }
}

function readKey (name: KeyVariable, text: string): TokenKeys['keys'] {
  try {
    switch (name) {
      case 'JWT_SECRET':
        return [readSecret(text)]
      case 'JWT_PUBLIC_KEY':
        return [readPublicKey(text)]
      case 'JWT_JWKS_URL':
        return readUrl(text)
      case 'JWT_JWKS':
        return readSet(text)
    }
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}

/** Refuses what fetch rejects (user and password) or does not send (a fragment). */
function readUrl (text: string): URL {
  const url = URL.parse(text)
  if (
    url === null || !/^https?:$/.test(url.protocol) ||
    `${url.username}${url.password}${url.hash}` !== ''
  ) {
    throw new Error(
      'expected an http:// or https:// URL without user, password or fragment ' +
        '(the value is not shown)'
    )
  }
  return url
}

/** Unlike a fetched set, a configured one must not contain an invalid key. */
function readSet (text: string): readonly VerificationKey[] {
  const keys = readJwks(text, problem => {
    throw new Error(problem)
  })
  if (keys === undefined) {
    throw new Error('expected a JSON Web Key Set, {"keys": [{…}]} (the value is not shown)')
  }
  if (keys.length === 0) throw new Error('contains no key that can verify tokens')
  return keys
}

function algorithmsOf (keys: TokenKeys['keys']): readonly Algorithm[] {
  return algorithms.filter(algorithm =>
    keys instanceof URL
      ? !sharedAlgorithms.includes(algorithm)
      : keys.some(key => key.algorithms.includes(algorithm))
  )
}
