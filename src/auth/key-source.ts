/**
 * Opens the configured source of verification keys: one key, a key set or a URL.
 */
import type { Algorithm, TokenHeader } from '../../schemas/token.ts'
import type { VerificationKey } from './verification-key.ts'
import { findKey, type KeySource } from './jwks.ts'
import { createRemoteJwks, type RemoteJwksOptions } from './remote-jwks.ts'

/** The configured keys. */
export type KeyMaterial =
  | { readonly kind: 'one', readonly key: VerificationKey }
  | { readonly kind: 'set', readonly keys: readonly VerificationKey[] }
  | { readonly kind: 'url', readonly url: URL }

/**
 * The keys and the allowed algorithms. A token with another algorithm is rejected before the key
 * lookup.
 */
export interface TokenKeys {
  readonly material: KeyMaterial
  readonly algorithms: readonly Algorithm[]
}

/** `timeoutMs` and `onChange` apply only to a URL; see RemoteJwksOptions. */
export function openKeySource (
  { material, algorithms }: TokenKeys,
  options: Pick<RemoteJwksOptions, 'timeoutMs' | 'onChange'>
): KeySource {
  if (material.kind === 'url') {
    return createRemoteJwks({ url: material.url, algorithms, ...options })
  }
  return { find: async header => findIn(material, header), close () {} }
}

function findIn (
  material: Exclude<KeyMaterial, { kind: 'url' }>,
  header: TokenHeader
): VerificationKey | undefined {
  switch (material.kind) {
    // The key has no id, so it matches every `kid`.
    case 'one':
      return findKey([material.key], { alg: header.alg })
    case 'set':
      return findKey(material.keys, header)
  }
}
