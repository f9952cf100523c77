/**
 * A set of public keys as identity providers publish it (RFC 7517), as far as it decides which key
 * may be used for what. The material of a key is the platform's to read.
 */
import { Type, type Static } from '@sinclair/typebox'

/**
 * One key. `use`, `key_ops` and `alg` narrow what it may be used for. Numbers of an RSA key are
 * bounded to what can verify (16 384 and 64 bits): to read an exponent of 128 kB takes the platform
 * three seconds, and one of 700 kB minutes.
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
 * The set. Its keys are judged one by one, for those of a kind that nobody knows here must not
 * spoil the others (§5). Their number is bounded: 80 000 of them, as a mebibyte can hold, kept the
 * process busy for four seconds.
 */
export const JwkSet = Type.Object({ keys: Type.Array(Type.Object({}), { maxItems: 1000 }) })
