/**
 * Parameters of named batches in statements. The statements are compiled once, with a placeholder
 * for each value; a request fills in its own.
 */
import { isNested } from './stored-values.ts'
import type { Json } from '../json/parse.ts'
import type { Parameter } from './nodes.ts'
import { textPlaceholder } from './shape.ts'

/** The placeholder of the value as text; NULL for null. An object or an array has no such text. */
export function textOfParameter ({ position }: Parameter): string {
  return textPlaceholder(2 * position)
}

/** The placeholder of the value as JSON. */
export function jsonOfParameter ({ position }: Parameter): string {
  return textPlaceholder(2 * position + 1)
}

/** The values of the placeholders, in their order. */
export function parameterValues (
  values: readonly Json[]
): ReadonlyArray<string | null | undefined> {
  return values.flatMap(value => [textOf(value), JSON.stringify(value)])
}

function textOf (value: Json): string | null | undefined {
  if (value === null) return null
  if (isNested(value)) return undefined
  return typeof value === 'string' ? value : JSON.stringify(value)
}
