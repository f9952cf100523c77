/**
 * Reads parameters of a named batch from a query string, in which every value is a text: it is
 * converted to the type that the schema of its parameter names.
 */
import { isNumberText } from '../json/decimal.ts'
import { parseJson, type Json, type JsonObject } from '../json/parse.ts'
import type { PathIssue } from './schema-parts.ts'
import type { UploadTarget } from './upload-target.ts'

/** A value, or why the text is none. */
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

/** `schema`: that of the parameter; undefined: there is none of this name. */
function convert (name: string, text: string, schema: JsonObject | undefined): Converted {
  if (text.includes('\0')) {
    return { problem: `"${name}" contains U+0000, which PostgreSQL cannot store.` }
  }
  switch (schema === undefined ? 'string' : scalarTypeOf(schema)) {
    case 'string':
      return { value: text }
    case 'boolean':
      return text === 'true' || text === 'false'
        ? { value: text === 'true' }
        : { problem: `"${name}" must be true or false.` }
    case 'integer':
    case 'number':
      return isNumberText(text)
        ? { value: parseJson(Buffer.from(text)) }
        : { problem: `"${name}" must be a number as JSON writes it, for example 2.50.` }
    default:
      return {
        problem: `"${name}" cannot be sent in the query: its schema names no single type among ` +
          'string, integer, number and boolean. Send all parameters as application/json.'
      }
  }
}

/** The only type of a schema beside `null`, which a query cannot send. */
export function scalarTypeOf ({ type = [] }: JsonObject): Json | undefined {
  const types = Array.isArray(type) ? type as readonly Json[] : [type]
  const [first, ...more] = types.filter(one => one !== 'null')
  return more.length === 0 ? first : undefined
}
