/**
 * The text of a token taken apart (RFC 7515 §3.1, RFC 7519): exactly one text for one token,
 * nothing that two readers could read differently. What it says counts only once its signature was
 * verified, which is the library's business.
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
  /** The payload as it was signed: no number is rounded and no byte replaced. */
  readonly claims: string
}

/** Takes a compact token of three parts apart. Throws `token_invalid`. */
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
 * RFC 4648 §3.5: the last character may hold bits that mean nothing; then many texts would be one
 * token.
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
  // Whoever signed and whoever reads must see the same claim.
  if (findDuplicate(text) !== undefined) {
    throw failure('token_invalid', 'The token holds a member twice.')
  }
  return [text, value as Payload]
}
