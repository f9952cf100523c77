/**
 * Writes JSON so that equal values have the same text.
 */
import { canonicalDecimal, isDouble, readDecimal } from './decimal.ts'
import { isNumber, isObject, textOf, type Json } from './parse.ts'

/**
 * Returns a JSON text that equal values share: members are sorted, and a number has its exact value
 * whatever its notation.
 */
export function writeCanonically (value: Json): string {
  if (typeof value === 'object' && value !== null && isNumber(value)) {
    return writeNumber(textOf(value))
  }
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(writeCanonically).join()}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort().map(name =>
    `${JSON.stringify(name)}:${writeCanonically(value[name] as Json)}`)
  return `{${members.join()}}`
}

function writeNumber (text: string): string {
  if (isDouble(text)) return String(Number(text))
  const decimal = readDecimal(text)
  // A longer exponent is not exact.
  return Number.isSafeInteger(decimal.magnitude) ? canonicalDecimal(decimal) : text
}
