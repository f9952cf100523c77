/**
 * A set of keys (RFC 7517): which of them can be used, and which of these a token means.
 */
import { Value } from '@sinclair/typebox/value'
import { Jwk, JwkSet } from '../../schemas/jwk.ts'
import { algorithms, type Algorithm, type TokenHeader } from '../../schemas/token.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import { tryParse } from '../json/try-parse.ts'
import { readJwk, type VerificationKey } from './verification-key.ts'

/**
 * A key of a set as it was found, by its place in it: usable, left out because it serves another
 * purpose, or faulty.
 */
export type JwkResult =
  | { readonly kind: 'usable', readonly key: VerificationKey }
  | { readonly kind: 'foreign' }
  | { readonly kind: 'faulty', readonly problem: string }

/**
 * Reads the JSON text of a set; undefined when it is none, or says a thing twice. No problem holds
 * a piece of a key.
 */
export function readJwks (text: string): readonly JwkResult[] | undefined {
  const set = tryParse(text)
  return Value.Check(JwkSet, set) && findDuplicate(text) === undefined
    ? set.keys.map(readMember)
    : undefined
}

/** Where the keys of tokens come from. */
export interface KeySource {
  /**
   * The one key that a token with this header means; undefined when there is none. Throws, where
   * keys are fetched, `keys_unavailable` when there never was a set, and `shutting_down` when none
   * fits and the set is not fetched any more.
   */
  find(header: TokenHeader): Promise<VerificationKey | undefined>
  /** Ends what is under way. */
  close(): void
}

/** The usable keys of a set. */
export function usableKeys (found: readonly JwkResult[]): readonly VerificationKey[] {
  return found.flatMap(member => member.kind === 'usable' ? [member.key] : [])
}

/** Keys for the algorithms in force alone; those that are left with none are left out. */
export function narrowKeys (
  keys: readonly VerificationKey[],
  inForce: readonly Algorithm[]
): readonly VerificationKey[] {
  return keys
    .map(key => ({
      ...key,
      algorithms: key.algorithms.filter(algorithm => inForce.includes(algorithm))
    }))
    .filter(key => key.algorithms.length > 0)
}

/**
 * The one key that a token means: of its `kid`, when it names one, and fit for its `alg`. undefined
 * when there is none or more than one: to try several would be to guess.
 */
export function findKey (
  keys: readonly VerificationKey[],
  { alg, kid }: TokenHeader
): VerificationKey | undefined {
  const [key, ...more] = keys.filter(key =>
    (key.algorithms as readonly string[]).includes(alg) && (kid === undefined || kid === key.kid)
  )
  return more.length === 0 ? key : undefined
}

function readMember (member: object): JwkResult {
  if ('d' in member) return { kind: 'faulty', problem: 'is a private key' }
  if (!Value.Check(Jwk, member)) return { kind: 'faulty', problem: 'is malformed' }
  if (isForeign(member)) return { kind: 'foreign' }
  try {
    const key = readJwk(member, member.kid)
    const narrowed = key.algorithms.filter(algorithm =>
      member.alg === undefined || member.alg === algorithm
    )
    return narrowed.length === 0
      ? { kind: 'faulty', problem: 'has an alg that does not fit it' }
      : { kind: 'usable', key: { ...key, algorithms: narrowed } }
  } catch (error) {
    return { kind: 'faulty', problem: (error as Error).message }
  }
}

/**
 * Keys for other purposes: secrets, which have no place in a set that is published, encryption,
 * algorithms that are not known here.
 */
function isForeign ({ kty, use = 'sig', key_ops: operations = ['verify'], alg }: Jwk): boolean {
  return kty === 'oct' || use !== 'sig' || !operations.includes('verify') ||
    (alg !== undefined && !(algorithms as readonly string[]).includes(alg))
}
