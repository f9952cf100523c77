/**
 * Where the keys of tokens come from: one key, a set or a URL. The door to keys for whoever checks
 * tokens.
 */
import type { Algorithm, TokenHeader } from '../../schemas/token.ts'
import type { VerificationKey } from './verification-key.ts'
import { findKey, type KeySource } from './jwks.ts'
import { createRemoteJwks, type RemoteJwksOptions } from './remote-jwks.ts'

/** The keys of the configuration, read. */
export type KeyMaterial =
  | { readonly kind: 'one', readonly key: VerificationKey }
  | { readonly kind: 'set', readonly keys: readonly VerificationKey[] }
  | { readonly kind: 'url', readonly url: URL }

/**
 * The keys, and the algorithms in force: a token of another one is refused before its key is looked
 * for.
 */
export interface TokenKeys {
  readonly material: KeyMaterial
  readonly algorithms: readonly Algorithm[]
}

/** Opens the source. `timeoutMs` and `onChange` concern a URL alone; see RemoteOptions. */
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
    // It has no name, so it answers to every one.
    case 'one':
      return findKey([material.key], { alg: header.alg })
    case 'set':
      return findKey(material.keys, header)
  }
}
