/**
 * What the service answered, and what that means: rows to print, an error, or nothing that the
 * service would have said.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { BatchAnswer } from '../../schemas/batch.ts'
import { ErrorObject } from '../../schemas/error.ts'
import { readParts, type Part } from '../json/source.ts'
import { tryParse } from '../json/try-parse.ts'
import type { Answer } from './send.ts'
import type { Row } from './table.ts'

/** What one operation answered, as it stands in the answer. */
export interface Result {
  readonly id: string
  /** JSON text. */
  readonly source: string
  readonly rows: readonly Row[]
}

export type Verdict =
  | { readonly kind: 'done', results(): readonly Result[] }
  | { readonly kind: 'refused', readonly error: ErrorObject }
  /** Somebody else answered, a proxy for instance. */
  | { readonly kind: 'foreign' }

/** What every error of the service has; the rest may be that of a later version. */
const SomeError = Type.Object({
  error: Type.Pick(ErrorObject, ['code', 'message', 'committed', 'request_id'])
})

export function readAnswer ({ status, body }: Answer): Verdict {
  const text = body.toString()
  const value = tryParse(text)
  if (status === 200 && Value.Check(BatchAnswer, value)) {
    return {
      kind: 'done',
      results: () => readResults(text)
    }
  }
  return status !== 200 && Value.Check(SomeError, value)
    ? { kind: 'refused', error: value.error as ErrorObject }
    : { kind: 'foreign' }
}

function readResults (text: string): readonly Result[] {
  const { from: data } = readParts(text, text.indexOf('{')).find(({ key }) =>
    key === 'data'
  ) as Part
  return readParts(text, data).map(({ key, from, to }) => ({
    id: String(key),
    source: text.slice(from, to),
    rows: readParts(text, from).map(row => readRow(text, row.from))
  }))
}

function readRow (text: string, from: number): Row {
  return new Map(
    readParts(text, from).map(({ key, from, to }) => [String(key), text.slice(from, to)])
  )
}
