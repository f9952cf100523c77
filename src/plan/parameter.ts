/**
 * Parameters of named batches in statements. The statements are compiled once, with a placeholder
 * for each value; a request fills in its own.
 */
import type { Parameter } from './nodes.ts'
import { jsonPlaceholder, textPlaceholder } from './shape.ts'

/** The placeholder of the value as text; NULL for null. An object or an array has no such text. */
export function textOfParameter ({ position }: Parameter): string {
  return textPlaceholder(position)
}

/** The placeholder of the value as JSON. */
export function jsonOfParameter ({ position }: Parameter): string {
  return jsonPlaceholder(position)
}
