/**
 * Numbers in the check of parameters. Ajv checks doubles. A number that a double cannot hold is
 * replaced by a stand-in of the same type, which equals no other number, and the keywords of
 * numbers compare the digits that were sent.
 */
import type { Ajv2020 } from 'ajv/dist/2020.js'
import { canonicalDecimal, compareDecimals, isMultipleOf } from '../json/decimal.ts'
import { isNumber, isObject, type Json } from '../json/parse.ts'

/** The digits of numbers that have a stand-in, by the object or array that contains them. */
const digits = new WeakMap<object, Map<string, string>>()

/** Stand-ins begin here: an integer, and a fraction. No schema contains them. */
const INTEGER = 2 ** 1000
const INTEGER_STEP = 2 ** 948
const FRACTION = 0.123_456_789_012
const FRACTION_STEP = 1e-9

/** Returns a copy in which every number is a double. */
export function toDoubles (value: Json): unknown {
  const standIns = new Map<string, number>()
  const copy = (node: Json): unknown => {
    if (!Array.isArray(node) && !isObject(node)) return node
    const kept = new Map<string, string>()
    const entries = Object.entries(node as Readonly<Record<string, Json>>).map(([key, item]) => {
      if (!isNumber(item) || typeof item === 'number') return [key, copy(item)] as const
      const text = item.rawJSON
      if (isDouble(text)) return [key, Number(text)] as const
      kept.set(key, text)
      const equal = canonicalDecimal(text)
      const number = standIns.get(equal) ?? createStandIn(text, standIns.size)
      standIns.set(equal, number)
      return [key, number] as const
    })
    const copied = Array.isArray(node)
      ? entries.map(([, item]) => item)
      : Object.fromEntries(entries)
    if (kept.size > 0) digits.set(copied, kept)
    return copied
  }
  return copy(value)
}

function createStandIn (text: string, count: number): number {
  return isMultipleOf(text, '1')
    ? INTEGER + count * INTEGER_STEP
    : FRACTION + count * FRACTION_STEP
}

/** Whether a double has exactly these digits, apart from zeros. */
function isDouble (text: string): boolean {
  const number = Number(text)
  return Number.isFinite(number) && compareDecimals(text, String(number)) === 0
}

/** The path to the first number that a double cannot hold. */
export function findInexactNumber (value: Json): ReadonlyArray<string | number> | undefined {
  if (isNumber(value)) return typeof value === 'number' || isDouble(value.rawJSON) ? undefined : []
  if (!Array.isArray(value) && !isObject(value)) return undefined
  const entries: Iterable<readonly [string | number, Json]> = Array.isArray(value)
    ? (value as readonly Json[]).entries()
    : Object.entries(value)
  for (const [key, item] of entries) {
    const found = findInexactNumber(item)
    if (found !== undefined) return [key, ...found]
  }
  return undefined
}

const keywords: Readonly<
  Record<string, readonly [text: string, holds: (value: string, limit: string) => boolean]>
> = {
  minimum: ['>=', (value, limit) => compareDecimals(value, limit) >= 0],
  maximum: ['<=', (value, limit) => compareDecimals(value, limit) <= 0],
  exclusiveMinimum: ['>', (value, limit) => compareDecimals(value, limit) > 0],
  exclusiveMaximum: ['<', (value, limit) => compareDecimals(value, limit) < 0],
  multipleOf: ['a multiple of', isMultipleOf]
}

/** Replaces the keywords of numbers by those that compare decimal digits. */
export function addNumberKeywords (ajv: Ajv2020): Ajv2020 {
  for (const [keyword, [text, holds]] of Object.entries(keywords)) {
    ajv.removeKeyword(keyword)
    ajv.addKeyword({
      keyword,
      type: 'number',
      schemaType: 'number',
      error: { message: ({ schema }) => `must be ${text} ${schema as number}` },
      validate: (limit: number, value: number, _schema, place) => {
        const { parentData, parentDataProperty } = place as {
          readonly parentData: object,
          readonly parentDataProperty: string | number
        }
        const sent = digits.get(parentData)?.get(String(parentDataProperty))
        return holds(sent ?? String(value), String(limit))
      }
    })
  }
  return ajv
}
