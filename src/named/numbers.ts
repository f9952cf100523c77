/**
 * Numbers in the check of parameters. Ajv checks doubles. A number that a double cannot hold is
 * replaced by a double of the same type, which no schema contains, and the keywords that compare
 * numbers read the digits that were sent.
 */
import { _, str, type Ajv2020 } from 'ajv/dist/2020.js'
import {
  canonicalDecimal,
  compareDecimals,
  EXACT_DIGITS,
  hasLongExponent,
  isIntegral,
  isMultipleOf,
  readDecimal,
  type Decimal
} from '../json/decimal.ts'
import {
  findPath,
  isNumber,
  isObject,
  type ExactNumber,
  type Json,
  type JsonObject
} from '../json/parse.ts'
import { spendNested, spendUnique } from './check-work.ts'

/** What was sent, for copies of objects and arrays that contain numbers that no double holds. */
const sources = new WeakMap<object, Readonly<Record<string, Json>>>()

/** What Ajv gets for a number that no double holds. */
const INTEGER = 2 ** 1000
const FRACTION = 2 ** -1000

/** Returns the value, or a copy in which every number is a double. */
export function toDoubles (value: Json): unknown {
  return hasExactNumber(value) ? copyWithDoubles(value) : value
}

function copyWithDoubles (node: Json): unknown {
  if (isNumber(node)) return typeof node === 'number' ? node : toDouble(node.rawJSON)
  if (Array.isArray(node)) {
    const copied = (node as readonly Json[]).map(copyWithDoubles)
    if (copied.some(isReplaced)) sources.set(copied, node as never)
    return copied
  }
  if (!isObject(node)) return node
  // The copy has every member, also `__proto__`, so the assignments below set data.
  const copied: Record<string, unknown> = { ...node }
  let replaced = false
  for (const key of Object.keys(node)) {
    const item = node[key] as Json
    if (typeof item !== 'object') continue
    copied[key] = copyWithDoubles(item)
    replaced ||= isReplaced(copied[key])
  }
  if (replaced) sources.set(copied, node)
  return copied
}

function toDouble (text: string): number {
  const decimal = readDecimal(text)
  const number = Number(text)
  if (isDouble(number, decimal)) return number
  return isIntegral(decimal) ? INTEGER : FRACTION
}

/** Whether a number of a copy may stand for one that no double holds. */
function isReplaced (value: unknown): boolean {
  return value === INTEGER || value === FRACTION
}

/** The digits of a number in a copy; undefined if they are those that JavaScript writes. */
function findDigits (value: number, parent: object, name: string | number): string | undefined {
  if (!isReplaced(value)) return undefined
  const sent = sources.get(parent)?.[name]
  return sent === undefined || typeof sent === 'number' ? undefined : (sent as ExactNumber).rawJSON
}

/** Whether a value contains a number that is not written as JavaScript writes it. */
export function hasExactNumber (value: Json): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return (value as readonly Json[]).some(hasExactNumber)
  if (!isObject(value)) return true
  for (const key of Object.keys(value)) if (hasExactNumber(value[key] as Json)) return true
  return false
}

/** Whether a double has exactly these digits, apart from zeros. */
function isDouble (number: number, decimal: Decimal): boolean {
  if (decimal.digits.length <= EXACT_DIGITS && Math.abs(decimal.magnitude) < MAX_MAGNITUDE) {
    return true
  }
  return Number.isFinite(number) && compareDecimals(decimal, decimalOf(number)) === 0
}

/** Below this magnitude, a double can represent every decimal of EXACT_DIGITS. */
const MAX_MAGNITUDE = 300

/** The path to the first number that a double cannot hold. */
export function findInexactNumber (value: Json): ReturnType<typeof findPath> {
  return findExactNumber(value, text => !isDouble(Number(text), readDecimal(text)))
}

/** The path to the first number whose exponent is too long to compare. */
export function findLongExponent (value: Json): ReturnType<typeof findPath> {
  return findExactNumber(value, hasLongExponent)
}

function findExactNumber (
  value: Json,
  isWanted: (text: string) => boolean
): ReturnType<typeof findPath> {
  return findPath(value, item =>
    isNumber(item) && typeof item !== 'number' && isWanted(item.rawJSON))
}

interface NumberKeyword {
  /** What the message says before the limit. */
  readonly text: string
  holds(value: number, limit: number): boolean
  /** The same for digits that a double cannot hold. */
  holdsExactly(value: Decimal, limit: Decimal): boolean
}

/**
 * A keyword that compares. `holds` gets a number below, above or equal to zero, as a function of
 * Array.sort returns it. Two doubles compare in the same way as the digits that JavaScript writes
 * for them.
 */
function comparison (text: string, holds: (order: number) => boolean): NumberKeyword {
  return {
    text,
    holds: (value, limit) => holds(value - limit),
    holdsExactly: (value, limit) => holds(compareDecimals(value, limit))
  }
}

const keywords: Readonly<Record<string, NumberKeyword>> = {
  minimum: comparison('>=', order => order >= 0),
  maximum: comparison('<=', order => order <= 0),
  exclusiveMinimum: comparison('>', order => order > 0),
  exclusiveMaximum: comparison('<', order => order < 0),
  multipleOf: {
    text: 'a multiple of',
    // The remainder of fractions is not exact: 0.3 % 0.1 is 0.1.
    holds: (value, limit) =>
      Number.isSafeInteger(value) && Number.isSafeInteger(limit)
        ? value % limit === 0
        : isMultipleOf(decimalOf(value), decimalOf(limit)),
    holdsExactly: isMultipleOf
  }
}

function decimalOf (number: number): Decimal {
  return readDecimal(String(number))
}

/** Replaces the keywords that compare numbers by those that compare decimal digits. */
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
        const exactLimit = decimalOf(limit)
        const check = (value: number, parent: object, name: string | number): boolean => {
          const sent = findDigits(value, parent, name)
          return sent === undefined
            ? holds(value, limit)
            : holdsExactly(readDecimal(sent), exactLimit)
        }
        const call = gen.scopeValue('func', { ref: check })
        context.fail(_`!${call}(${data}, ${parentData}, ${parentDataProperty})`)
      }
    })
  }
  return addUniqueItems(ajv)
}

/** Ajv compares each pair of items: with 20 000 objects it would take 8 s. */
function addUniqueItems (ajv: Ajv2020): Ajv2020 {
  return ajv.removeKeyword('uniqueItems').addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: {
      message: ({ params: { same } }) => {
        const [first, second] = [_`${same}[0]`, _`${same}[1]`]
        return str`must NOT have duplicate items (items ## ${first} and ${second} are identical)`
      }
    },
    code (context) {
      if (context.schema !== true) return
      const { gen, data } = context
      const call = gen.scopeValue('func', { ref: findSameItems })
      const same = gen.const('same', _`${call}(${data})`)
      context.setParams({ same })
      context.fail(_`${same} !== undefined`)
    }
  })
}

/** The positions of the first two equal items. */
function findSameItems (items: readonly unknown[]): readonly [number, number] | undefined {
  const seen = new Map<unknown, number>()
  for (const [i, item] of items.entries()) {
    // A number that a double holds, `null` and booleans are equal only to themselves.
    const key = isNested(item) || typeof item === 'string' || isReplaced(item)
      ? canonicalText(item, items, i)
      : item
    spendUnique(typeof key === 'string' ? key : '')
    const first = seen.get(key)
    if (first !== undefined) return [first, i]
    seen.set(key, i)
  }
  return undefined
}

/**
 * A JSON text that equal objects share, whatever the order of their members and the notation of
 * their numbers.
 */
export function writeCanonically (value: JsonObject): string {
  return canonicalText(toDoubles(value), [], 0)
}

/** A JSON text that equal values share: members are sorted, numbers have their exact value. */
function canonicalText (value: unknown, parent: object, name: string | number): string {
  if (typeof value === 'number') {
    const digits = findDigits(value, parent, name)
    return digits === undefined ? String(value) : canonicalDecimal(readDecimal(digits))
  }
  if (!isNested(value)) return JSON.stringify(value)
  spendNested()
  if (Array.isArray(value)) return `[${value.map((item, i) => canonicalText(item, value, i))}]`
  const members = Object.keys(value).sort().map(key =>
    `${JSON.stringify(key)}:${canonicalText(value[key], value, key)}`
  )
  return `{${members.join()}}`
}

function isNested (value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
