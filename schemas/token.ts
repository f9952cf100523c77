/**
 * Algorithms (RFC 7518 §3.1, RFC 8037 §3.1) and header (RFC 7515 §4) of tokens.
 */
import { Type, type Static } from '@sinclair/typebox'

/** Every algorithm that can be configured. `none` is not supported. */
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

/** Algorithms of shared secrets. A secret that verifies tokens can also sign them. */
export const sharedAlgorithms: readonly Algorithm[] = ['HS256', 'HS384', 'HS512']

/** Maximum length of a token in bytes. */
export const maxTokenBytes = 16_384

/**
 * The header of a token. Members that contain or locate a key (`jku`, `jwk`, `x5u`, `x5c`) are
 * ignored. Rejected are critical extensions (`crit`, `b64`), encryption (`enc`), nested tokens
 * (`cty`) and token types for other purposes (`typ` such as `logout+jwt`, RFC 8725 §3.11).
 * Parameters of these media types are ignored.
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
