/**
 * Numbers in the check of parameters. Ajv checks doubles. A number that a double cannot hold is
 * replaced by a stand-in of the same type, which equals no other number, and the keywords of
 * numbers compare the digits that were sent.
 */
import { _, type Ajv2020 } from 'ajv/dist/2020.js'
import { canonicalDecimal, compareDecimals, isMultipleOf } from '../json/decimal.ts'
import { isNumber, isObject, type Json } from '../json/parse.ts'

/** The digits of numbers that have a stand-in, by the object or array that contains them. */
const digits = new WeakMap<object, Map<string, string>>()

/** Stand-ins begin here: an integer, and a fraction. No schema contains them. */
const INTEGER = 2 ** 1000
const INTEGER_STEP = 2 ** 948
const FRACTION = 0.123_456_789_012
const FRACTION_STEP = 1e-9

/** Returns the value, or a copy in which every number is a double. */
export function toDoubles (value: Json): unknown {
  if (!hasExactNumber(value)) return value
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

function hasExactNumber (value: Json): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return (value as readonly Json[]).some(hasExactNumber)
  if (!isObject(value)) return true
  for (const key of Object.keys(value)) if (hasExactNumber(value[key] as Json)) return true
  return false
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

interface NumberKeyword {
  /** What the message says before the limit. */
  readonly text: string
  holds(value: number, limit: number): boolean
  /** The same for digits that a double cannot hold. */
  holdsExactly(value: string, limit: string): boolean
}

/** Two doubles compare in the same way as the digits that JavaScript writes for them. */
const keywords: Readonly<Record<string, NumberKeyword>> = {
  minimum: {
    text: '>=',
    holds: (value, limit) => value >= limit,
    holdsExactly: (value, limit) => compareDecimals(value, limit) >= 0
  },
  maximum: {
    text: '<=',
    holds: (value, limit) => value <= limit,
    holdsExactly: (value, limit) => compareDecimals(value, limit) <= 0
  },
  exclusiveMinimum: {
    text: '>',
    holds: (value, limit) => value > limit,
    holdsExactly: (value, limit) => compareDecimals(value, limit) > 0
  },
  exclusiveMaximum: {
    text: '<',
    holds: (value, limit) => value < limit,
    holdsExactly: (value, limit) => compareDecimals(value, limit) < 0
  },
  multipleOf: {
    text: 'a multiple of',
    // The remainder of fractions is not exact: 0.3 % 0.1 is 0.1.
    holds: (value, limit) => isMultipleOf(String(value), String(limit)),
    holdsExactly: isMultipleOf
  }
}

/** Replaces the keywords of numbers by those that compare decimal digits. */
export function addNumberKeywords (ajv: Ajv2020): Ajv2020 {
  for (const [keyword, { text, holds, holdsExactly }] of Object.entries(keywords)) {
    ajv.removeKeyword(keyword)
    ajv.addKeyword({
      keyword,
      type: 'number',
      schemaType: 'number',
      error: { message: ({ schema }) => `must be ${text} ${schema as number}` },
      // Code instead of a function for Ajv to call, which would get an object for each number.
      code (context) {
        const { gen, data, it: { parentData, parentDataProperty } } = context
        const limit = context.schema as number
        const check = (value: number, parent: object, name: string | number): boolean => {
          const sent = digits.get(parent)?.get(String(name))
          return sent === undefined ? holds(value, limit) : holdsExactly(sent, String(limit))
        }
        const call = gen.scopeValue('func', { ref: check })
        context.fail(_`!${call}(${data}, ${parentData}, ${parentDataProperty})`)
      }
    })
  }
  return ajv
}
