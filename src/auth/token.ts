/**
 * Decodes a token (RFC 7515 §3.1, RFC 7519) without verifying it; fast-jwt verifies the signature.
 * Accepts only the canonical encoding, and nothing that two parsers could read differently.
 */
import { isUtf8 } from 'node:buffer'
import { TypeCompiler, type ValueError } from '@sinclair/typebox/compiler'
import { refuse } from '../errors/refusal.ts'
import { findDuplicate } from '../json/duplicate-key.ts'
import { tryParse } from '../json/try-parse.ts'
import { TokenHeader } from '../../schemas/token.ts'

export type Payload = Readonly<Record<string, unknown>>

export interface OpenedToken {
  readonly header: TokenHeader
  readonly payload: Payload
  /** The payload text as it was signed, so that no number is rounded. */
  readonly claims: string
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
