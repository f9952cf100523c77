/**
 * Reads a JSON Web Key Set (RFC 7517) and finds the key of a token in it.
 */
import { Value } from '@sinclair/typebox/value'
import { Jwk, JwkSet } from '../../schemas/jwk.ts'
import { algorithms, type Algorithm, type TokenHeader } from '../../schemas/token.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import { tryParse } from '../json/try-parse.ts'
import { readJwk, type VerificationKey } from './verification-key.ts'

/** One key of a set: usable, ignored because it has another purpose, or invalid. */
export type JwkResult =
  | { readonly kind: 'usable', readonly key: VerificationKey }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'invalid', readonly problem: string }

/**
 * Reads the JSON text of a set; undefined when it is invalid or has duplicate members. Problems
 * never contain a part of a key.
 */
export function readJwks (text: string): readonly JwkResult[] | undefined {
  const set = tryParse(text)
  return Value.Check(JwkSet, set) && findDuplicate(text) === undefined
    ? set.keys.map(readMember)
    : undefined
}

/** Source of verification keys. */
export interface KeySource {
  /**
   * The key for a token with this header; undefined when there is none. A remote source throws
   * `keys_unavailable` before the first successful fetch, and `shutting_down` when no key matches
   * and the source is closed.
   */
  find(header: TokenHeader): Promise<VerificationKey | undefined>
  /** Stops fetching. */
  close(): void
}

/** The usable keys of a set. */
export function usableKeys (found: readonly JwkResult[]): readonly VerificationKey[] {
  return found.flatMap(member => member.kind === 'usable' ? [member.key] : [])
}

/** Limits keys to the configured algorithms. Drops keys without any of them. */
export function narrowKeys (
  keys: readonly VerificationKey[],
  allowed: readonly Algorithm[]
): readonly VerificationKey[] {
  return keys
    .map(key => ({
      ...key,
      algorithms: key.algorithms.filter(algorithm => allowed.includes(algorithm))
    }))
    .filter(key => key.algorithms.length > 0)
}

/**
 * The key for the token's `alg`, and for its `kid` if it has one. Undefined when no key or more
 * than one matches: trying several would be guessing.
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
  if ('d' in member) return { kind: 'invalid', problem: 'is a private key' }
  if (!Value.Check(Jwk, member)) return { kind: 'invalid', problem: 'is malformed' }
  if (isIgnored(member)) return { kind: 'ignored' }
  try {
    const key = readJwk(member, member.kid)
    const narrowed = key.algorithms.filter(algorithm =>
      member.alg === undefined || member.alg === algorithm
    )
    return narrowed.length === 0
      ? { kind: 'invalid', problem: 'has an alg that does not match its type' }
      : { kind: 'usable', key: { ...key, algorithms: narrowed } }
  } catch (error) {
    return { kind: 'invalid', problem: (error as Error).message }
  }
}

/** Keys for other purposes: secrets, encryption, unsupported algorithms. */
function isIgnored ({ kty, use = 'sig', key_ops: operations = ['verify'], alg }: Jwk): boolean {
  return kty === 'oct' || use !== 'sig' || !operations.includes('verify') ||
    (alg !== undefined && !(algorithms as readonly string[]).includes(alg))
}
