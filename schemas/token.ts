/**
 * What a token is made of before its claims count: the algorithms (RFC 7518 §3.1, RFC 8037 §3.1)
 * and the header (RFC 7515 §4).
 */
import { Type, type Static } from '@sinclair/typebox'

/** Every algorithm that can be configured. `none` is not among them. */
export const Algorithm = Type.Union([
  Type.Literal('HS256'),
  Type.Literal('HS384'),
  Type.Literal('HS512'),
  Type.Literal('RS256'),
  Type.Literal('RS384'),
  Type.Literal('RS512'),
  Type.Literal('PS256'),
  Type.Literal('PS384'),
  Type.Literal('PS512'),
  Type.Literal('ES256'),
  Type.Literal('ES384'),
  Type.Literal('ES512'),
  Type.Literal('EdDSA')
])
export type Algorithm = Static<typeof Algorithm>
export const algorithms: readonly Algorithm[] = Algorithm.anyOf.map(word => word.const)

/** Those of a secret, which also sign: whoever can check such a token can make one. */
export const sharedAlgorithms: readonly Algorithm[] = ['HS256', 'HS384', 'HS512']

/** Longest token that is looked at, in bytes. */
export const maxTokenBytes = 16_384

/**
 * The header of a token. Members that name a key or where to find one (`jku`, `jwk`, `x5u`, `x5c`)
 * are never looked at. Refused are extensions that would have to be understood (`crit`, `b64`),
 * encryption (`enc`), tokens in tokens (`cty`), and kinds of token that are meant for other
 * purposes (`typ` such as `logout+jwt`, RFC 8725 §3.11); parameters of these media types do not
 * count.
 */
export const TokenHeader = Type.Object({
  alg: Type.String(),
  kid: Type.Optional(Type.String()),
  typ: Type.Optional(
    Type.RegExp(/^\s*(?:application\/)?at\+jwt\s*(?:;|$)|^(?![^]*(?:\+jwt|jose\+json)\s*(?:;|$))/i)
  ),
  cty: Type.Optional(Type.RegExp(/^(?!\s*(?:application\/)?jwt\s*(?:;|$))/i)),
  crit: Type.Optional(Type.Never()),
  b64: Type.Optional(Type.Never()),
  enc: Type.Optional(Type.Never())
})
export type TokenHeader = Static<typeof TokenHeader>
