/**
 * What the text of a batch says of itself, as far as people are told: its operations, and where
 * they stand in the file.
 */
import type { ErrorObject } from '../../schemas/error.ts'
import { createLocator, type Locator, type Place } from '../json/source.ts'
import { tryParse } from '../json/try-parse.ts'
import type { Input } from './input.ts'

export interface BatchText {
  readonly name: string
  readonly text: string
  /** undefined: not JSON. */
  readonly locator: Locator | undefined
  /**
   * Of an operation by its id: `insert orders`, and whether it asked for no rows, whose number then
   * tells nothing.
   */
  operation(id: string): { readonly title: string, readonly silent: boolean }
}

type Element = Readonly<Record<string, unknown>>

export function readBatchText ({ name, bytes }: Input): BatchText {
  const text = bytes.toString()
  const batch = tryParse(text)
  return {
    name,
    text,
    locator: batch === undefined ? undefined : createLocator(text),
    operation (id) {
      // The service has run it, so it is there.
      const { op, table, returning } = (batch as readonly Element[]).find(element =>
        element['id'] === id
      ) as Element
      return {
        title: `${String(op)} ${String(table)}`,
        silent: Array.isArray(returning) && returning.length === 0
      }
    }
  }
}

/**
 * What is wrong, each on a line of its own: `order.json:3:5: operation 1 (order): member_unknown at
 * wheer: There is …`.
 */
export function describeFaults (
  { errors, op, index, code, message }: Pick<
    ErrorObject,
    'errors' | 'op' | 'index' | 'code' | 'message'
  >,
  batch: BatchText,
  place?: Place
): readonly string[] {
  if (errors !== undefined) {
    return errors.map(fault => {
      const at = batch.locator?.locate([fault.index, ...fault.path])
      return `${describePlace(batch, at)}: ${describeOperation(fault)}: ${fault.code} at ${
        describePath(fault.path)
      }: ${fault.message}`
    })
  }
  const at = place ?? (typeof index === 'number' ? batch.locator?.locate([index]) : undefined)
  const operation = typeof index === 'number' ? `: ${describeOperation({ op, index })}` : ''
  return [`${describePlace(batch, at)}${operation}: ${code}: ${message}`]
}

function describePlace ({ name }: BatchText, place: Place | undefined): string {
  return place === undefined ? name : `${name}:${place.line}:${place.column}`
}

function describeOperation (
  { op, index }: { readonly op?: string | null | undefined, readonly index: number }
): string {
  return typeof op === 'string' ? `operation ${index} (${op})` : `operation ${index}`
}

/** `where.total.gte`, `values[0].sku`, `where["data->a"]`. */
function describePath (path: ReadonlyArray<string | number>): string {
  return path.map(step => {
    if (typeof step === 'string' && /^[\w$]+$/.test(step)) return `.${step}`
    return `[${JSON.stringify(step)}]`
  }).join('').replace(/^\./, '')
}
