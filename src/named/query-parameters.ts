/**
 * Reads parameters of a named batch from a query string, in which every value is a text: it is
 * converted to the type that the schema of its parameter names.
 */
import { isNumberText } from '../json/decimal.ts'
import { parseJson, type Json, type JsonObject } from '../json/parse.ts'
import type { PathIssue } from './schema-parts.ts'
import type { UploadTarget } from './upload-target.ts'

/** The value of a text, or why the text is not valid. */
type Converted = { readonly value: Json } | { readonly problem: string }

/** The values of parameters, and what is wrong with the query. */
export interface QueryParameters {
  readonly values: JsonObject
  readonly issues: readonly PathIssue[]
}

/** `query`: what follows `?`. Names that are no parameters are among the values. */
export function readQuery (
  query: string,
  { name: rows, schemas }: Pick<UploadTarget, 'name' | 'schemas'>
): QueryParameters {
  const values = new Map<string, Json>()
  const issues: PathIssue[] = []
  for (const part of query.split('&')) {
    if (part === '') continue
    const [name, text] = cut(part).map(decode)
    if (name === undefined || text === undefined) {
      issues.push({ path: [], message: 'The query has an invalid percent-encoding.' })
      continue
    }
    const read = values.has(name)
      ? { problem: `"${name}" is given more than once.` }
      : name === rows
        ? { problem: `"${name}" is sent as the body.` }
        : convert(name, text, schemas.get(name))
    if ('problem' in read) issues.push({ path: [name], message: read.problem })
    else values.set(name, read.value)
  }
  return { values: Object.fromEntries(values), issues }
}

function cut (part: string): readonly [name: string, text: string] {
  const end = part.indexOf('=')
  return end < 0 ? [part, ''] : [part.slice(0, end), part.slice(end + 1)]
}

/** Returns undefined for a text that is not encoded correctly. */
function decode (text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/** `schema`: that of the parameter, or undefined if no parameter has this name. */
function convert (name: string, text: string, schema: JsonObject | undefined): Converted {
  if (text.includes('\0')) {
    return { problem: `"${name}" contains U+0000, which PostgreSQL cannot store.` }
  }
  const type = schema === undefined ? 'string' : scalarTypeOf(schema)
  if (type === undefined) {
    return {
      problem: `"${name}" cannot be sent in the query: its schema names no single type among ` +
        'string, integer, number and boolean. Send all parameters as application/json.'
    }
  }
  const json = writeScalar(type, text)
  if (json !== undefined) return { value: parseJson(Buffer.from(json)) }
  const expected = type === 'boolean'
    ? 'true or false'
    : 'a number as JSON writes it, for example 2.50'
  return { problem: `"${name}" must be ${expected}.` }
}

type Writer = (text: string) => string | undefined

const writeNumber: Writer = text => isNumberText(text) ? text : undefined

/** By the types of JSON Schema. The schema itself checks that an integer is one. */
const WRITERS = {
  string: text => JSON.stringify(text),
  integer: writeNumber,
  number: writeNumber,
  boolean: text => text === 'true' || text === 'false' ? text : undefined
} satisfies Readonly<Record<string, Writer>>

/** A type of JSON Schema to which a text can be converted. */
export type ScalarType = keyof typeof WRITERS

/** Returns a text as JSON of a type; undefined if it is not a value of this type. */
export function writeScalar (type: ScalarType, text: string): string | undefined {
  return WRITERS[type](text)
}

/**
 * Returns the only type of a schema beside `null`; undefined if there are several, or if a text
 * cannot be converted to it.
 */
export function scalarTypeOf ({ type = [] }: JsonObject): ScalarType | undefined {
  const types = Array.isArray(type) ? type as readonly Json[] : [type]
  const [first, ...more] = types.filter(one => one !== 'null')
  const isScalar = more.length === 0 && typeof first === 'string' &&
    Object.hasOwn(WRITERS, first)
  return isScalar ? first as ScalarType : undefined
}
