/**
 * JSON Web Key Sets (RFC 7517), as identity providers publish them. node:crypto reads the key
 * material.
 */
import { Type, type Static } from '@sinclair/typebox'

/**
 * One key. `use`, `key_ops` and `alg` restrict its use. The numbers of an RSA key are limited to
 * 16 384 and 64 bits: node:crypto takes three seconds to read an exponent of 128 kB, and minutes
 * for one of 700 kB.
 */
export const Jwk = Type.Object({
  n: Type.Optional(Type.String({ maxLength: 2736 })),
  e: Type.Optional(Type.String({ maxLength: 11 })),
  kty: Type.String(),
  kid: Type.Optional(Type.String()),
  use: Type.Optional(Type.String()),
  key_ops: Type.Optional(Type.Array(Type.String())),
  alg: Type.Optional(Type.String())
})
export type Jwk = Static<typeof Jwk>

/**
 * A key set. Keys are checked one by one, because a key of an unknown type must not invalidate the
 * others (§5). Their number is limited: 80 000 keys, which fit in 1 MiB, blocked the process for
 * four seconds.
 */
export const JwkSet = Type.Object({ keys: Type.Array(Type.Object({}), { maxItems: 1000 }) })
