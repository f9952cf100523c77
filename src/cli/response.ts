/**
 * Interprets the response of the service: results, an error, or a response of another server.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { BatchAnswer } from '../../schemas/batch.ts'
import { ErrorObject } from '../../schemas/error.ts'
import { tryParse } from '../json/try-parse.ts'
import { childrenOf, membersOf, parseJsonText, sourceOf, type JsonNode } from '../json/json-text.ts'
import type { HttpResponse } from './send.ts'
import type { Row } from './table.ts'

/** The result of one operation. */
export interface Result {
  readonly id: string
  /** JSON text as it was sent. */
  readonly source: string
  readonly rows: readonly Row[]
}

export type BatchResponse =
  /** `results` returns undefined when the values nest too deep to be split into rows. */
  | { readonly kind: 'results', results(): readonly Result[] | undefined }
  | { readonly kind: 'error', readonly error: ErrorObject }
  /** Not sent by the service, but by a proxy for example. */
  | { readonly kind: 'foreign' }

/** The members of an error that are read. A later version may send more. */
const AnyError = Type.Object({
  error: Type.Pick(ErrorObject, ['code', 'message', 'committed', 'request_id'])
})

export function readResponse ({ status, body }: HttpResponse): BatchResponse {
  const text = body.toString()
  const value = tryParse(text)
  if (status === 200 && Value.Check(BatchAnswer, value)) {
    return { kind: 'results', results: () => readResults(text) }
  }
  return status !== 200 && Value.Check(AnyError, value)
    ? { kind: 'error', error: value.error as ErrorObject }
    : { kind: 'foreign' }
}

function readResults (text: string): readonly Result[] | undefined {
  const { root } = parseJsonText(text)
  if (root === undefined) return undefined
  const { data } = Object.fromEntries(membersOf(root)) as { data: JsonNode }
  return membersOf(data).map(([id, rows]) => ({
    id,
    source: sourceOf(text, rows),
    rows: childrenOf(rows).map(row =>
      new Map(membersOf(row).map(([name, value]) => [name, sourceOf(text, value)]))
    )
  }))
}
