/**
 * Bytes → JSON value without loss: what cannot be kept exactly is refused. JSON.parse does the
 * parsing; this file guards what it would change silently: duplicate keys (the last wins), numbers
 * beyond a double, U+0000 and lone surrogates (PostgreSQL has neither), invalid UTF-8 and a byte
 * order mark. Keys that are integers move to the front, as in every JavaScript object: the order of
 * members is no part of a JSON value.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { failure, type Failure } from '../errors/catalogue.ts'
import { maxDepth } from '../../schemas/operation.ts'
import { findDuplicate } from './duplicate-key.ts'
import { scanJson, type ValuesSpan } from './scan.ts'

/** A number kept as its source text because a JavaScript number would change it (JSON.rawJSON). */
export interface ExactNumber {
  readonly rawJSON: string
}
export type JsonObject = { readonly [key: string]: Json }
export type Json = null | boolean | number | string | ExactNumber | readonly Json[] | JsonObject

// TypeScript's library does not know the source text access of JSON yet (ECMAScript 2026, Node 22).
const json = JSON as typeof JSON & {
  rawJSON(text: string): ExactNumber,
  isRawJSON(value: unknown): value is ExactNumber,
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown
  ): unknown
}

/**
 * Parses a request body. Throws `body_invalid` with the reason and, where there is one, the
 * position. Numbers that a double would change come back as ExactNumber; JSON.stringify writes
 * those as they were sent.
 */
export function parseJson (bytes: Buffer): Json {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    throw failure('body_invalid', 'The body must not begin with a byte order mark.')
  }
  const ascii = isAscii(bytes)
  if (!ascii && !isUtf8(bytes)) throw failure('body_invalid', 'The body is not valid UTF-8.')
  const text = bytes.toString(ascii ? 'latin1' : 'utf8')
  const facts = scanJson(bytes)
  // The reviver recurses; what is too deep for it will be refused by its path, so its numbers need
  // not be kept.
  const exact = facts.exactNumbers && facts.depth <= maxDepth
  const value = read(() => (exact ? json.parse(text, keepNumber) : JSON.parse(text)) as Json)
  const { members, fault } = inspect(value, facts.escapes)
  if (fault !== undefined) throw failure('body_invalid', fault)
  if (members !== facts.members) {
    throw failure(
      'body_invalid',
      `The body has an object with the duplicate key ${String(findDuplicate(text)?.quoted)}.`
    )
  }
  // White space and the spelling of escapes are not kept, whoever writes the value.
  if (!facts.spaces && !facts.escapes) {
    for (const span of facts.values) {
      keepSource(
        value,
        span,
        ascii ? text.slice(span.start, span.end) : bytes.toString('utf8', span.start, span.end)
      )
    }
  }
  if (facts.depth > maxDepth) deep.add(value as object)
  return value
}

const deep = new WeakSet<object>()

/** Whether a body that was parsed here nests deeper than `maxDepth`. */
export function isDeep (body: object): boolean {
  return deep.has(body)
}

const sources = new WeakMap<object, string>()

/**
 * JSON text of a value: what JSON.stringify writes. Of large arrays `values` it is the text that
 * was sent, in which the members of an object may stand in another order: writing 10 000 rows again
 * took 2.5 ms of the 12 in which they were read and planned.
 */
export function writeJson (value: Json): string {
  return (typeof value === 'object' && value !== null ? sources.get(value) : undefined) ??
    JSON.stringify(value)
}

function keepSource (body: Json, { element }: ValuesSpan, source: string): void {
  const operation = Array.isArray(body) ? (body as readonly Json[])[element] : undefined
  const values = isObject(operation) ? operation['values'] : undefined
  if (Array.isArray(values)) sources.set(values, source)
}

/** true for a number in either of its two forms. */
export function isNumber (value: Json): value is number | ExactNumber {
  return typeof value === 'number' || json.isRawJSON(value)
}

/** true for a JSON object; an ExactNumber, which is an object to JavaScript, is none. */
export function isObject (value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) &&
    !json.isRawJSON(value)
}

/** Whether `object` itself holds `key`; `__proto__` and `constructor` are keys like any other. */
export function has (object: JsonObject, key: string): boolean {
  return Object.hasOwn(object, key)
}

function keepNumber (_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value === 'number' && source !== undefined && String(value) !== source
    ? json.rawJSON(source)
    : value
}

function read (parse: () => Json): Json {
  try {
    return parse()
  } catch (error) {
    throw malformed(error)
  }
}

/** V8 quotes the text around the fault, which may be a secret in a log; the position is enough. */
function malformed (error: unknown): Failure {
  const position = / in JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(
    (error as Error).message
  )?.[1]
  return failure(
    'body_invalid',
    position === undefined
      ? 'The body is not valid JSON.'
      : `The body is not valid JSON: unexpected character at position ${position}.`
  )
}

/**
 * Counts the members of all objects and, when `strings`, looks at every string. Iterative: a body
 * of a mebibyte can nest half a million deep, which is refused later by its path and must not end
 * here in a stack overflow.
 */
function inspect (root: Json, strings: boolean): { members: number, fault?: string } {
  let members = 0
  const open: Json[] = [root]
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value === 'string') {
      const fault = strings ? badString(value) : undefined
      if (fault !== undefined) return { members, fault }
    } else if (Array.isArray(value)) {
      for (const item of value as readonly Json[]) {
        if (strings || typeof item === 'object') open.push(item)
      }
    } else if (isObject(value)) {
      for (const key of Object.keys(value)) {
        members++
        const fault = strings ? badString(key) : undefined
        if (fault !== undefined) return { members, fault }
        const item = value[key] as Json
        if (strings || typeof item === 'object') open.push(item)
      }
    }
  }
  return { members }
}

function badString (text: string): string | undefined {
  if (text.includes('\0')) {
    return 'The body contains the character U+0000, which PostgreSQL cannot store.'
  }
  return text.isWellFormed()
    ? undefined
    : 'The body contains a lone surrogate, which is not a valid character.'
}
