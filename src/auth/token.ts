/**
 * Decodes a token (RFC 7515 §3.1, RFC 7519) without verifying it; fast-jwt verifies the signature.
 * Accepts only the canonical encoding, and nothing that two parsers could read differently. Caches
 * verified tokens.
 */
import { isUtf8 } from 'node:buffer'
import { createHmac } from 'node:crypto'
import { TypeCompiler, type ValueError } from '@sinclair/typebox/compiler'
import { LRUCache } from 'lru-cache'
import { type Identity, TokenHeader } from '../../schemas/token.ts'
import { refuse } from '../errors/catalogue.ts'
import { findDuplicate, tryParse } from '../json/try-parse.ts'
import type { VerificationKey } from './verification-key.ts'

export type Payload = Readonly<Record<string, unknown>>

export interface OpenedToken {
  readonly header: TokenHeader
  readonly payload: Payload
  /** The payload text as it was signed, so that no number is rounded. */
  readonly claims: string
  key?: VerificationKey
  /** Set once the claims were accepted, apart from the times. */
  identity?: Identity
}

/** Decodes a compact token of three parts. Throws `token_invalid`. */
export function openToken (token: string): OpenedToken {
  const [head = '', body = '', signature = ''] = token.split('.')
  decode('signature', signature)
  const [, header] = readObject('header', head)
  const [claims, payload] = readObject('payload', body)
  if (!headerCheck.Check(header)) throw refuse('token_invalid', describeHeader(header))
  return { header, payload, claims }
}

const headerCheck = TypeCompiler.Compile(TokenHeader)

/** Names the first invalid member: always one of the schema, never text of the token. */
function describeHeader (header: Payload): string {
  const { path } = headerCheck.Errors(header).First() as ValueError
  return `the header member ${path.slice(1)} is missing or not supported`
}

type Part = 'header' | 'payload' | 'signature'

/**
 * Rejects unused bits in the last character (RFC 4648 §3.5): otherwise several texts would be the
 * same token.
 */
function decode (name: Part, part: string): Buffer {
  const bytes = Buffer.from(part, 'base64url')
  if (bytes.toString('base64url') !== part) {
    throw refuse('token_invalid', `the ${name} is not canonical base64url`)
  }
  return bytes
}

function readObject (name: Part, part: string): readonly [text: string, object: Payload] {
  const bytes = decode(name, part)
  const text = bytes.toString()
  const value = isUtf8(bytes) ? tryParse(text) : undefined
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refuse('token_invalid', `the ${name} is not a JSON object in UTF-8`)
  }
  // The issuer and we must read the same claim.
  if (findDuplicate(text) !== undefined) {
    throw refuse('token_invalid', `the ${name} has a duplicate member`)
  }
  return [text, value as Payload]
}

// Caches verified tokens. A client sends the same token for minutes, and verification costs more
// than everything else before the batch runs. Times and key are checked on every request, not here.

/** Maximum memory of the cache: about a thousand tokens of the usual size. */
const MAX_BYTES = 8 * 1024 * 1024

/** Maximum memory of an entry: tokens of about 2 kB. Longer ones are not cached. */
const MAX_ENTRY_BYTES = 48 * 1024

/** Bytes of an entry, and of a character of the claims as text and as objects; measured. */
const ENTRY_BYTES = 600
const BYTES_PER_CHARACTER = 26

/** Evicts the least recently used token. Keys are tokens as they were sent. */
export function createTokenCache (): LRUCache<string, OpenedToken> {
  return new LRUCache({
    maxSize: MAX_BYTES,
    maxEntrySize: MAX_ENTRY_BYTES,
    sizeCalculation: ({ claims }, token) =>
      ENTRY_BYTES + 2 * token.length + BYTES_PER_CHARACTER * claims.length
  })
}

/** Returns an HS256 token with exactly these claims (RFC 7515 §3.1). */
export function signToken (claims: Readonly<Record<string, unknown>>, secret: string): string {
  const encode = (value: unknown): string =>
    Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}
