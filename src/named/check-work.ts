/**
 * Limits the work of checking parameters. A schema may apply thousands of parts to every value, so
 * only a budget bounds the product of both: each part spends units when it is applied to a value.
 * The units are those of plan/work.ts.
 */
import { _, type Ajv2020 } from 'ajv/dist/2020.js'
import { failure } from '../errors/catalogue.ts'
import { isObject, type Json, type JsonObject } from '../json/parse.ts'
import { childrenOf, listParts } from './schema-parts.ts'

/** Units, measured like those of operations. */
const units = {
  /** A part of the schema that is applied to a value. */
  part: 0.02,
  /** A keyword of it, and an element of `enum`, `required` or `properties`. */
  keyword: 0.005,
  /** An item or a member of the value, for each keyword that goes through all of them. */
  item: 0.2,
  /** A character of the value for such a keyword. */
  character: 0.001,
  /** A regular expression, and a character that it reads. */
  pattern: 0.7,
  patternCharacter: 0.05,
  /** For `uniqueItems`: an item, a nested value in it, and a character of its text. */
  unique: 0.3,
  uniqueNested: 1.5,
  uniqueCharacter: 0.01
} as const

let limit = Infinity
let spent = 0

/** The units that one or several checks may spend, and those that they have spent. */
export interface CheckBudget {
  readonly maxWork: number
  spent: number
}

/** Runs a check. Throws `too_much_work` if it needs more units than its budget has left. */
export function bound<Result> (budget: CheckBudget, check: () => Result): Result {
  limit = budget.maxWork
  spent = budget.spent
  try {
    return check()
  } finally {
    budget.spent = spent
    limit = Infinity
  }
}

function spend (more: number): void {
  spent += more
  if (spent <= limit) return
  throw failure(
    'too_much_work',
    `The check of the parameters needs more than ${limit} units of work (MAX_WORK). Send them in ` +
      'several requests.'
  )
}

/** Spends the units of a regular expression that reads a text. */
export function spendPattern (text: string): void {
  spend(units.pattern + units.patternCharacter * text.length)
}

/** Spends the units of comparing an object or array by its text. */
export function spendNested (): void {
  spend(units.uniqueNested)
}

/** Spends the units of looking for an item that has the same text. */
export function spendUnique (text: string): void {
  spend(units.unique + units.uniqueCharacter * text.length)
}

const KEYWORD = 'work'

/** Returns a copy of the schema in which each part has the keyword of `addWorkKeyword`. */
export function addUnits (schema: JsonObject): object {
  const copy = structuredClone(schema)
  const parts = listParts(copy).flatMap(({ schema }) => isObject(schema) ? [schema] : [])
  const work = parts.map(part =>
    [unitsOf(part), eachKeywords.filter(keyword => keyword in part).length])
  for (const [i, part] of parts.entries()) Object.assign(part, { [KEYWORD]: work[i] })
  return copy
}

/** The units of a part for one value, with those of parts for the same value. */
function unitsOf (schema: Json): number {
  if (!isObject(schema)) return 0
  const keywords = Object.values(schema).reduce<number>((sum, value) => sum + 1 + sizeOf(value), 0)
  return childrenOf(schema).reduce(
    (sum, { child, sameValue }) => sameValue ? sum + unitsOf(child) : sum,
    units.part + units.keyword * keywords
  )
}

/** Keywords that go through all items, members or characters of a value. */
const eachKeywords = [
  'additionalProperties', 'patternProperties', 'propertyNames', 'unevaluatedProperties', 'contains',
  'unevaluatedItems', 'minLength', 'maxLength'
] as const

/** The number of items or members. */
function sizeOf (value: Json): number {
  if (Array.isArray(value)) return value.length
  return isObject(value) ? Object.keys(value).length : 0
}

/** Lets Ajv spend the units of each part. */
export function addWorkKeyword (ajv: Ajv2020): Ajv2020 {
  return ajv.addKeyword({
    keyword: KEYWORD,
    schemaType: 'array',
    code ({ gen, data, schema }) {
      const [part, each] = schema as readonly [number, number]
      const spendPart = each === 0
        ? () => spend(part)
        : (value: Json) => {
            const size = typeof value === 'string'
              ? units.character * value.length
              : units.item * sizeOf(value)
            spend(part + each * size)
          }
      gen.code(_`${gen.scopeValue('func', { ref: spendPart })}(${data})`)
    }
  })
}
