/**
 * Writes the integers of a request as digits. For JSON Schema `1.0` and `1e3` are integers, but
 * PostgreSQL does not read them for a column of an integer type.
 */
import { readDecimal, writeInteger } from '../json/decimal.ts'
import { has, isNumber, isObject, parseJson, type Json, type JsonObject } from '../json/parse.ts'
import { hasExactNumber } from './numbers.ts'
import { compilePattern, type Pattern } from './pattern.ts'
import { findReferred } from './schema-parts.ts'

/** A schema that applies to a value. */
interface Applied {
  readonly schema: JsonObject
  /** Whether the value is valid only if this schema accepts it. */
  readonly isRequired: boolean
}

export class IntegerWriter {
  readonly #root: JsonObject
  readonly #patterns = new Map<string, Pattern>()

  /** `root`: the schema as readSchema returns it. */
  constructor (root: JsonObject) {
    this.#root = root
  }

  /**
   * Returns valid values in which each number whose schema is an integer has its digits: `1000` for
   * `1e3`. Other numbers stay as sent. Returns the values themselves if none changes.
   */
  write (values: JsonObject): JsonObject {
    if (!hasExactNumber(values)) return values
    return this.#write(values, [{ schema: this.#root, isRequired: true }]) as JsonObject
  }

  #write (value: Json, given: readonly Applied[]): Json {
    const applied = given.flatMap(one => this.#applySame(one))
    if (isNumber(value)) return isInteger(applied) ? writeDigits(value) : value
    if (Array.isArray(value)) {
      const items = value as readonly Json[]
      const written = items.map((item, i) =>
        mayChange(item) ? this.#write(item, findItem(applied, i)) : item)
      return written.some((item, i) => item !== items[i]) ? written : value
    }
    const changed = Object.entries(value as JsonObject).flatMap(([name, member]) => {
      const written = mayChange(member)
        ? this.#write(member, this.#findMember(applied, name))
        : member
      return written === member ? [] : [[name, written] as const]
    })
    return changed.length === 0 ? value : { ...value as JsonObject, ...Object.fromEntries(changed) }
  }

  /** Returns a schema and those that it applies to the same value. */
  #applySame (one: Applied): readonly Applied[] {
    const { schema, isRequired } = one
    const { $ref: reference, allOf = [], anyOf = [], oneOf = [], then = true, else: other = true } =
      schema as Readonly<Record<string, readonly Json[] | Json>>
    const referred = typeof reference === 'string' ? [findReferred(reference, this.#root)] : []
    const possible = [...anyOf as Json[], ...oneOf as Json[], then as Json, other as Json]
    return [
      one,
      ...select([...referred, ...allOf as Json[]], isRequired).flatMap(one => this.#applySame(one)),
      ...select(possible, false).flatMap(one => this.#applySame(one))
    ]
  }

  #findMember (applied: readonly Applied[], name: string): readonly Applied[] {
    return applied.flatMap(({ schema, isRequired }) => {
      const { properties = {}, patternProperties = {}, additionalProperties = true } =
        schema as Readonly<Record<string, JsonObject>>
      const found = [
        ...has(properties as JsonObject, name) ? [(properties as JsonObject)[name] as Json] : [],
        ...Object.entries(patternProperties).flatMap(([pattern, schema]) =>
          this.#matches(pattern, name) ? [schema] : [])
      ]
      return select(found.length === 0 ? [additionalProperties] : found, isRequired)
    })
  }

  #matches (pattern: string, name: string): boolean {
    const compiled = this.#patterns.get(pattern) ?? compilePattern(pattern)
    this.#patterns.set(pattern, compiled)
    return compiled.test(name)
  }
}

/** Whether a value is a number that was kept as a text, or may contain one. */
function mayChange (value: Json): boolean {
  return typeof value === 'object' && value !== null
}

/** The schemas that are objects: others say nothing about types. */
function select (schemas: readonly Json[], isRequired: boolean): readonly Applied[] {
  return schemas.filter(isObject).map(schema => ({ schema, isRequired }))
}

function findItem (applied: readonly Applied[], index: number): readonly Applied[] {
  return applied.flatMap(({ schema: { prefixItems = [], items = true }, isRequired }) =>
    select([(prefixItems as readonly Json[])[index] ?? items], isRequired))
}

/**
 * Whether the schemas say that a number is an integer. One of several alternatives says so only if
 * no other schema says that it is a number.
 */
function isInteger (applied: readonly Applied[]): boolean {
  const typed = applied.map(({ schema: { type }, isRequired }) => ({
    types: Array.isArray(type) ? type as readonly Json[] : [type],
    isRequired
  }))
  const isNumber = typed.some(({ types }) => types.includes('number'))
  return typed.some(({ types, isRequired }) =>
    types.includes('integer') && !types.includes('number') && (isRequired || !isNumber))
}

function writeDigits (value: Json): Json {
  const { rawJSON } = value as { readonly rawJSON: string }
  const digits = writeInteger(readDecimal(rawJSON))
  return digits === undefined || digits === rawJSON ? value : parseJson(Buffer.from(digits))
}
