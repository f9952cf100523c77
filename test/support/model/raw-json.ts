/**
 * JSON whose numbers keep their digits.
 */

/** Source text access of JSON.parse (ECMA-262 2026), which is missing in TypeScript's types. */
interface SourceText {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown
  ): unknown
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): value is { readonly rawJSON: string }
}
export const { parse, rawJSON, isRawJSON } = JSON as unknown as SourceText

/** Returns the digits of a number that readRaw has parsed; undefined for other values. */
export function digitsOf (value: unknown): string | undefined {
  return isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : undefined
}

/** Parses JSON with every number as raw JSON, which keeps its digits when it is encoded again. */
export function readRaw (text: string): unknown {
  return parse(
    text, (_key, value, { source }) => typeof value === 'number' ? rawJSON(source as string) : value
  )
}
