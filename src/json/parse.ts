/**
 * Parses JSON without loss: bytes → value. Refuses what cannot be kept exactly. JSON.parse would
 * silently change or accept duplicate keys (the last wins), numbers that a double cannot hold,
 * U+0000 and lone surrogates (PostgreSQL supports neither), invalid UTF-8 and a byte order mark.
 * Integer keys move to the front, as in every JavaScript object: member order has no meaning in
 * JSON.
 */
import { isUtf8 } from 'node:buffer'
import { randomBytes, randomInt } from 'node:crypto'
import { maxDepth } from '../../schemas/operation.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import { findSyntaxError, positionOf } from './json-text.ts'
import { QUOTE, scanJson, type ByteSpan, type ScanFacts } from './scan.ts'
import { findDuplicate } from './try-parse.ts'

/** A number kept as its source text because a JavaScript number would change it (JSON.rawJSON). */
export interface ExactNumber {
  readonly rawJSON: string
}
export type JsonObject = { readonly [key: string]: Json }
export type Json = null | boolean | number | string | ExactNumber | readonly Json[] | JsonObject

// TypeScript's library lacks the types of raw JSON (ECMAScript 2026, Node 22).
const json = JSON as typeof JSON & {
  rawJSON(text: string): ExactNumber,
  isRawJSON(value: unknown): value is ExactNumber
}

// Begins the text of an ExactNumber while JSON.parse reads it as a string. It is random, so data
// cannot look like it.
const exactMark = randomBytes(12).toString('base64url')
const quotedMark = Buffer.from(`"${exactMark}`)

/**
 * Parses a request body. Throws `body_invalid` with the reason and, if known, the position. Numbers
 * that a double would change become ExactNumbers, which JSON.stringify writes as sent.
 */
export function parseJson (bytes: Buffer): Json {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    throw failure('body_invalid', 'The body must not begin with a byte order mark.')
  }
  if (!isUtf8(bytes)) throw failure('body_invalid', 'The body is not valid UTF-8.')
  const facts = scanJson(bytes)
  const { value, members, problem } = parseExact(bytes, facts)
  if (problem !== undefined) throw failure('body_invalid', problem)
  if (members !== facts.members) {
    const duplicate = findDuplicate(bytes.toString())?.quoted
    throw failure(
      'body_invalid',
      `The body has an object with the duplicate key ${String(duplicate)}.`
    )
  }
  if (facts.depth > maxDepth) deep.add(value as object)
  return value
}

/** Separates lines that are parsed together. No client can guess it. */
const SEPARATOR = randomInt(1e14, 2 ** 48 - 1)
const SEPARATION = Buffer.from(`,${SEPARATOR},`)
const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')

/**
 * Parses lines, each of which is a JSON text, at once: for lines of 100 bytes, it takes half the
 * time. Returns undefined if parseJson refuses one of them, or may find it too deep.
 */
export function parseLines (lines: readonly Buffer[]): readonly Json[] | undefined {
  const pieces = lines.flatMap((line, i) => i === 0 ? [OPEN, line] : [SEPARATION, line])
  if (pieces.length === 0) return []
  try {
    const list = parseJson(Buffer.concat([...pieces, CLOSE])) as readonly Json[]
    // A line that is no JSON text on its own would move a separator, or add elements.
    const isDivided = list.length === 2 * lines.length - 1 &&
      lines.every((_, i) => i === 0 || list[2 * i - 1] === SEPARATOR)
    return isDivided && !isDeep(list) ? lines.map((_, i) => list[2 * i] as Json) : undefined
  } catch {
    return undefined
  }
}

interface Parsed extends Pick<Inspected, 'members' | 'problem'> {
  readonly value: Json
}

/**
 * Parses the bytes of a text in UTF-8. Numbers keep every digit. What PostgreSQL cannot store is
 * reported and not refused. Throws `body_invalid` for a text that is not JSON.
 */
export function parseExact (bytes: Buffer, { exactNumbers, escapes }: ScanFacts): Parsed {
  const text = bytes.toString()
  const exact = exactNumbers.length > 0
  const root = [parseText(exact ? markNumbers(bytes, exactNumbers) : text, text)]
  const { isMisread, ...inspected } = inspect(root, { strings: escapes, exact })
  if (isMisread) parseText(text, text)
  return { value: root[0] as Json, ...inspected }
}

const deep = new WeakSet<object>()

/** Whether a body from parseJson is nested deeper than `maxDepth`. */
export function isDeep (body: object): boolean {
  return deep.has(body)
}

/** Returns the JSON text of a value, with all digits of its numbers. */
export function writeJson (value: Json): string {
  return JSON.stringify(value)
}

/** Whether a value is a number in either of its two forms. */
export function isNumber (value: Json): value is number | ExactNumber {
  return typeof value === 'number' || json.isRawJSON(value)
}

/** Whether a value is a JSON object. An ExactNumber is an object only to JavaScript. */
export function isObject (value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) &&
    !json.isRawJSON(value)
}

/** Whether a value is JSON that only json and jsonb store unchanged: an object or an array. */
export function isNested (value: Json): value is JsonObject | readonly Json[] {
  return Array.isArray(value) || isObject(value)
}

/** The text of a value for the input of its type. */
export function textOf (value: Exclude<Json, null>): string
export function textOf (value: Json): string | null
export function textOf (value: Json): string | null {
  if (typeof value === 'string' || value === null) return value
  // JSON.stringify takes three times as long.
  return typeof value === 'number' ? String(value) : JSON.stringify(value)
}

/** Whether `object` itself has `key`; `__proto__` and `constructor` are ordinary keys. */
export function has (object: JsonObject, key: string): boolean {
  return Object.hasOwn(object, key)
}

/**
 * Returns the path to the first value for which `isWanted` holds, outer ones first. `level` is that
 * of `value`.
 */
export function findPath (
  value: Json,
  isWanted: (value: Json, level: number) => boolean,
  level = 0
): ReadonlyArray<string | number> | undefined {
  if (isWanted(value, level)) return []
  if (!Array.isArray(value) && !isObject(value)) return undefined
  const entries: Iterable<readonly [string | number, Json]> = Array.isArray(value)
    ? (value as readonly Json[]).entries()
    : Object.entries(value)
  for (const [key, item] of entries) {
    const found = findPath(item, isWanted, level + 1)
    if (found !== undefined) return [key, ...found]
  }
  return undefined
}

/**
 * Returns the text of the bytes with the numbers in these spans as strings that begin with the
 * mark. A reviver could read their source text, but it is called for every value: for a body of
 * 200 000 numbers it took 130 ms.
 */
function markNumbers (bytes: Buffer, spans: readonly ByteSpan[]): string {
  const marked = Buffer.allocUnsafe(bytes.length + spans.length * (quotedMark.length + 1))
  let copied = 0
  let length = 0
  for (const { start, end } of spans) {
    length += bytes.copy(marked, length, copied, start)
    length += quotedMark.copy(marked, length)
    length += bytes.copy(marked, length, start, end)
    marked[length++] = QUOTE
    copied = end
  }
  length += bytes.copy(marked, length, copied)
  return marked.toString('utf8', 0, length)
}

/** Parses a text, in which numbers may be marked. Errors are located in the text as it was sent. */
function parseText (text: string, sent: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch (error) {
    if (text === sent) throw toFailure(error, text)
    return parseText(sent, sent)
  }
}

/**
 * V8 quotes the text around the error, which may be a secret, so only the position is kept. V8 does
 * not report the position of every error.
 */
function toFailure (error: unknown, text: string): Failure {
  const position = / in JSON at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(
    (error as Error).message
  )?.[1]
  const offset = position === undefined ? findSyntaxError(text) : Number(position)
  if (offset === undefined) return failure('body_invalid', 'The body is not valid JSON.')
  const { line, column } = positionOf(text, offset)
  const what = offset < text.trimEnd().length ? 'unexpected character' : 'unexpected end'
  return failure(
    'body_invalid',
    `The body is not valid JSON: ${what} at line ${line}, column ${column}.`
  )
}

interface InspectOptions {
  /** Check every string. */
  readonly strings: boolean
  /** Replace marked strings by the numbers that they hold. */
  readonly exact: boolean
}

interface Inspected {
  readonly members: number
  /** The first string that PostgreSQL cannot store. */
  readonly problem: string | undefined
  /** Something marked is not a number, or is the name of a member: the text is not JSON. */
  readonly isMisread: boolean
}

/**
 * Counts the members of all objects, checks strings and replaces marked ones. It is iterative: a
 * body of 1 MiB can be nested half a million levels deep, which must not overflow the stack.
 */
function inspect (root: Json[], { strings, exact }: InspectOptions): Inspected {
  let members = 0
  let problem: string | undefined
  let isMisread = false
  const readString = (text: string): Json => {
    if (strings) problem ??= findStringProblem(text)
    if (!exact || !text.startsWith(exactMark)) return text
    const number = readMarked(text)
    isMisread ||= number === undefined
    return number ?? text
  }
  const open: Array<Record<string, Json> | Json[]> = [root]
  for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
    if (Array.isArray(parent)) {
      for (let i = 0; i < parent.length; i++) {
        const item = parent[i] as Json
        if (typeof item === 'object' && item !== null) open.push(item as Json[])
        else if (typeof item === 'string' && (strings || exact)) parent[i] = readString(item)
      }
      continue
    }
    for (const key of Object.keys(parent)) {
      members++
      if (strings || exact) isMisread ||= readString(key) !== key
      const item = parent[key] as Json
      if (typeof item === 'object' && item !== null) open.push(item as Json[])
      else if (typeof item === 'string' && (strings || exact)) parent[key] = readString(item)
    }
  }
  return { members, problem, isMisread }
}

/** Reads a marked string; undefined: it does not hold a number of JSON. */
function readMarked (text: string): ExactNumber | undefined {
  try {
    return json.rawJSON(text.slice(exactMark.length))
  } catch {
    return undefined
  }
}

function findStringProblem (text: string): string | undefined {
  if (text.includes('\0')) {
    return 'The body contains the character U+0000, which PostgreSQL cannot store.'
  }
  return text.isWellFormed()
    ? undefined
    : 'The body contains a lone surrogate, which is not a valid character.'
}
