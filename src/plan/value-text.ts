/**
 * Values as the texts that PostgreSQL reads.
 */
import { isObject, type Json, type JsonObject } from '../json/parse.ts'

/** The text of a value for the input of its type. */
export function textOf (value: Json): string | null {
  return typeof value === 'string' || value === null ? value : JSON.stringify(value)
}

/**
 * Returns the text form of a PostgreSQL array (docs: "Array Input and Output Syntax"). Only arrays
 * of the type box have another delimiter, `;`.
 */
export function arrayText (
  elements: ReadonlyArray<string | number | null>,
  delimiter = ','
): string {
  return `{${
    elements.map(element =>
      typeof element === 'string' ? `"${element.replace(/["\\]/g, '\\$&')}"` : String(element)
    ).join(delimiter)
  }}`
}

/** Whether a value is a list of scalars. */
export function isList (value: Json): value is readonly Json[] {
  return Array.isArray(value) && !(value as readonly Json[]).some(isNested)
}

/** Whether a value is JSON that only json and jsonb store unchanged: an object or an array. */
export function isNested (value: Json): value is JsonObject | readonly Json[] {
  return Array.isArray(value) || isObject(value)
}
