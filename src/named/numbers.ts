/**
 * Numbers in the check of parameters. Ajv checks doubles. The keywords that compare numbers read
 * the digits that were sent, so rounding never lets a value pass a limit.
 */
import type { Ajv2020, FuncKeywordDefinition } from 'ajv/dist/2020.js'
import { writeCanonically } from '../json/canonical.ts'
import { compareDecimals, isMultipleOf, readDecimal } from '../json/decimal.ts'
import { isNested, textOf, type ExactNumber, type Json, type JsonObject } from '../json/parse.ts'

/** What was sent, for copies of objects and arrays that contain numbers of many digits. */
const sources = new WeakMap<object, JsonObject>()

/** Returns a value in which every number is a double: itself, or a copy. */
export function toDoubles (sent: Json): unknown {
  if (typeof sent !== 'object' || sent === null) return sent
  if (!isNested(sent)) return Number(textOf(sent))
  const items = sent as Readonly<Record<string | number, Json>>
  let copy: Record<string | number, unknown> | undefined
  let isLong = false
  for (const key of Array.isArray(sent) ? sent.keys() : Object.keys(sent)) {
    const item = items[key] as Json
    const double = toDoubles(item)
    if (double === item) continue
    // The copy has every member, also `__proto__`, so the assignment sets data.
    copy ??= (Array.isArray(sent) ? [...sent] : { ...sent }) as Record<string | number, unknown>
    copy[key] = double
    isLong ||= isNested(item)
      ? sources.has(double as object)
      : LONG.test((item as ExactNumber).rawJSON)
  }
  if (copy !== undefined && isLong) sources.set(copy, sent as JsonObject)
  return copy ?? sent
}

/** A number with more digits than every double has, or with an exponent. */
const LONG = /.{16}|e/i

/** The digits that were sent for a number in a copy; undefined: JavaScript writes them. */
function findDigits (parent: object, name: string | number): string | undefined {
  const sent = sources.get(parent)?.[name]
  return sent === undefined ? undefined : textOf(sent as number)
}

/** Creates the check of a keyword with this limit. `digits`: see findDigits. */
type Compile = (limit: number) => (value: number, digits: string | undefined) => boolean

/** `holds`: whether a number is valid, by its order to the limit as for Array.sort. */
const compare = (holds: (order: number) => boolean): Compile => limit => {
  const exact = readDecimal(String(limit))
  return (value, digits) =>
    holds(digits === undefined ? value - limit : compareDecimals(readDecimal(digits), exact))
}

/** By keyword, the text before the limit in messages, and the check. */
const keywords: ReadonlyArray<readonly [keyword: string, text: string, compile: Compile]> = [
  ['minimum', '>=', compare(order => order >= 0)],
  ['maximum', '<=', compare(order => order <= 0)],
  ['exclusiveMinimum', '>', compare(order => order > 0)],
  ['exclusiveMaximum', '<', compare(order => order < 0)],
  ['multipleOf', 'a multiple of', limit => {
    const divisor = readDecimal(String(limit))
    // The remainder of fractions is not exact: 0.3 % 0.1 is 0.1.
    return (value, digits = String(value)) => isMultipleOf(readDecimal(digits), divisor)
  }]
]

/** Replaces the keywords that compare numbers by those that compare decimal digits. */
export function addNumberKeywords (ajv: Ajv2020): Ajv2020 {
  for (const [keyword, text, compile] of keywords) {
    ajv.removeKeyword(keyword).addKeyword({
      keyword,
      type: 'number',
      schemaType: 'number',
      errors: false,
      error: { message: ({ schema }) => `must be ${text} ${schema as number}` },
      compile (limit: number) {
        const check = compile(limit)
        return (value: number, place) => {
          const { parentData, parentDataProperty } = place as NonNullable<typeof place>
          return check(value, findDigits(parentData, parentDataProperty))
        }
      }
    })
  }
  return addUniqueItems(ajv)
}

type Validate = NonNullable<FuncKeywordDefinition['validate']>

/** Ajv compares each pair of items: with 20 000 objects it would take 8 s. */
function addUniqueItems (ajv: Ajv2020): Ajv2020 {
  const validate: Validate = (isRequired: boolean, items: readonly Json[]) => {
    const same = isRequired ? findSameItems(items) : undefined
    const message = `must have unique items; items ${same} are equal`
    validate.errors = [{ keyword: 'uniqueItems', message, params: {} }]
    return same === undefined
  }
  const keyword = { keyword: 'uniqueItems', type: 'array', schemaType: 'boolean' } as const
  return ajv.removeKeyword('uniqueItems').addKeyword({ ...keyword, validate })
}

/** The positions of the first two equal items, such as `0 and 2`. */
function findSameItems (items: readonly Json[]): string | undefined {
  const seen = new Map<string, number>()
  const sent = (sources.get(items) ?? items) as readonly Json[]
  for (const [i, item] of sent.entries()) {
    const text = writeCanonically(item)
    const first = seen.get(text)
    if (first !== undefined) return `${first} and ${i}`
    seen.set(text, i)
  }
  return undefined
}
