/**
 * Decodes a token (RFC 7515 §3.1, RFC 7519) without verifying it; fast-jwt verifies the signature.
 * Accepts only the canonical encoding, and nothing that two parsers could read differently.
 */
import { isUtf8 } from 'node:buffer'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { failure } from '../errors/catalogue.ts'
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
  decode(signature)
  const [, header] = readObject(head)
  const [claims, payload] = readObject(body)
  if (!headerCheck.Check(header)) throw failure('token_invalid')
  return { header, payload, claims }
}

const headerCheck = TypeCompiler.Compile(TokenHeader)

/**
 * Rejects unused bits in the last character (RFC 4648 §3.5): otherwise several texts would be the
 * same token.
 */
function decode (part: string): Buffer {
  const bytes = Buffer.from(part, 'base64url')
  if (bytes.toString('base64url') !== part) throw failure('token_invalid')
  return bytes
}

function readObject (part: string): readonly [text: string, object: Payload] {
  const bytes = decode(part)
  if (!isUtf8(bytes)) throw failure('token_invalid')
  const text = bytes.toString()
  const value = tryParse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw failure('token_invalid')
  }
  // The issuer and we must read the same claim.
  if (findDuplicate(text) !== undefined) {
    throw failure('token_invalid', 'The token contains a duplicate member.')
  }
  return [text, value as Payload]
}
