/**
 * The variables about keys, together: which of them is set, whether its key can be used, and which
 * algorithms are in force. No problem ever holds a piece of a key.
 */
import type { Config } from '../../schemas/config.ts'
import { algorithms, sharedAlgorithms, type Algorithm } from '../../schemas/token.ts'
import { readPublicKey, readSecret, type VerificationKey } from '../auth/verification-key.ts'
import { readJwks, usableKeys } from '../auth/jwks.ts'
import type { KeyMaterial, TokenKeys } from '../auth/key-source.ts'

/** One of them may be set. */
export const keyVariables = ['JWT_SECRET', 'JWT_PUBLIC_KEY', 'JWT_JWKS_URL', 'JWT_JWKS'] as const
type KeyVariable = typeof keyVariables[number]

/**
 * Reads the key that `values` hold; `given` tells which variables were set at all. undefined: none,
 * the service takes no tokens. Throws an Error with one line that is safe to print.
 */
export function readKeys (
  values: Partial<Config>,
  given: readonly string[]
): TokenKeys | undefined {
  const [name, ...more] = keyVariables.filter(name => given.includes(name))
  if (more.length > 0) throw new Error(`${[name, ...more].join(', ')}: only one of them may be set`)
  const { JWT_ALGORITHMS: wanted } = values
  if (name === undefined && wanted !== undefined) {
    throw new Error('JWT_ALGORITHMS: there is no key for them')
  }
  const text = name === undefined ? undefined : values[name]
  // A variable that is set and has no value has a problem that is known already.
  if (name === undefined || text === undefined) return undefined
  const material = readMaterial(name, text)
  const fits = fitness(material)
  const unfit = wanted?.find(algorithm => !fits.includes(algorithm))
  if (unfit !== undefined) {
    throw new Error(`JWT_ALGORITHMS: ${unfit} does not fit ${name}, which takes ${fits.join(', ')}`)
  }
  return { material, algorithms: wanted ?? fits }
}

function readMaterial (name: KeyVariable, text: string): KeyMaterial {
  try {
    switch (name) {
      case 'JWT_SECRET':
        return { kind: 'one', key: readSecret(text) }
      case 'JWT_PUBLIC_KEY':
        return { kind: 'one', key: readPublicKey(text) }
      case 'JWT_JWKS_URL':
        return { kind: 'url', url: readUrl(text) }
      case 'JWT_JWKS':
        return { kind: 'set', keys: readSet(text) }
    }
  } catch (error) {
    throw new Error(`${name}: ${(error as Error).message}`)
  }
}

/** fetch takes no user and password in a URL, and sends no fragment. */
function readUrl (text: string): URL {
  const url = URL.parse(text)
  if (
    url === null || !/^https?:$/.test(url.protocol) ||
    `${url.username}${url.password}${url.hash}` !== ''
  ) {
    throw new Error(
      'expected an http or https URL without user, password and fragment (the value is not shown)'
    )
  }
  return url
}

/** Unlike a set that is fetched, one that somebody wrote must not hold a mistake. */
function readSet (text: string): readonly VerificationKey[] {
  const found = readJwks(text)
  if (found === undefined) {
    throw new Error(
      'expected the JSON text of a set of keys, {"keys": [{…}]} (the value is not shown)'
    )
  }
  for (const [index, member] of found.entries()) {
    if (member.kind === 'faulty') throw new Error(`key ${index + 1} ${member.problem}`)
  }
  const keys = usableKeys(found)
  if (keys.length === 0) throw new Error('holds no key that can verify tokens')
  return keys
}

/** Every algorithm that fits, in their own order. */
function fitness (material: KeyMaterial): readonly Algorithm[] {
  switch (material.kind) {
    case 'one':
      return material.key.algorithms
    case 'set':
      return algorithms.filter(algorithm =>
        material.keys.some(key => key.algorithms.includes(algorithm))
      )
    case 'url':
      return algorithms.filter(algorithm => !sharedAlgorithms.includes(algorithm))
  }
}
