/**
 * Values → JSON text, cut at its references, whose operations have no id yet. In charge of keeping
 * data data: a string that looks like a reference is written as the string it is. Numbers keep
 * their digits. Refuses what JSON cannot say: NaN, functions, `undefined`.
 */
import type { OneflightError } from './error.ts'
import { invalid, meaningOf, type Meaning, type Source } from './reference.ts'
import { maxDepth } from './words.ts'

/** Text, or what becomes the text of a reference when its operation has an id. */
export type Piece = string | { readonly to: Source, readonly tail: string }

/** What is being written of one operation. */
export interface Writer {
  readonly pieces: Piece[]
  /** The way to what is written now, for messages. */
  readonly path: Array<string | number>
  /** What it is, for messages. */
  readonly title: string
  /** Throws when an operation is none of this batch. */
  readonly checkReference: (to: Source) => void
}

/**
 * What the service may read as a reference, or as one that is escaped: all of it takes one more
 * `$`.
 */
const looksLikeReference = /^\$+[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/

/**
 * JSON with references in it. Answers the key of an object that has a single member, as special
 * objects of the language have.
 */
export function writeData (writer: Writer, value: unknown): string | undefined {
  return write(writer, value, text => looksLikeReference.test(text) ? `$${text}` : text)
}

/** JSON as it is, without references: names, keywords, numbers of rows. */
export function writeLiteral (writer: Writer, value: unknown): void {
  write(writer, value, undefined)
}

/** An array of which each element is written by `writeItem`. */
export function writeList (
  writer: Writer,
  list: readonly unknown[],
  writeItem: (item: unknown) => void
): void {
  writer.pieces.push('[')
  for (let i = 0; i < list.length; i++) {
    if (i > 0) writer.pieces.push(',')
    writer.path.push(i)
    writeItem(list[i])
    writer.path.pop()
  }
  writer.pieces.push(']')
}

/**
 * An object of which each member is written by `writeMember`. Members that are `undefined` are
 * refused: without one more rows might be met.
 */
export function writeMembers (
  writer: Writer,
  members: object,
  writeMember: (name: string, value: unknown) => void
): void {
  let separator = '{'
  for (const [name, value] of Object.entries(members) as Array<[string, unknown]>) {
    writer.path.push(name)
    if (value === undefined) throw fault(writer, 'is undefined; leave it out')
    writer.pieces.push(`${separator}${JSON.stringify(name)}:`)
    writeMember(name, value)
    writer.path.pop()
    separator = ','
  }
  writer.pieces.push(separator === '{' ? '{}' : '}')
}

/**
 * The error of what cannot be written at the place where the writer is; `what` ends the sentence.
 */
export function fault ({ title, path }: Writer, what: string): OneflightError {
  return invalid(`${title}: ${path.join('.')} ${what}.`)
}

/** Escapes strings by `escape`; without one nothing may be referred to. */
function write (
  writer: Writer,
  given: unknown,
  escape: ((text: string) => string) | undefined
): string | undefined {
  const meaning = meaningOf(given)
  const value = meaning === undefined ? withoutToJson(given) : given
  if (meaning !== undefined) {
    writer.pieces.push(referencePiece(writer, meaning, escape !== undefined))
  } else if (typeof value === 'object' && value !== null) {
    return writeCompound(writer, value, escape)
  } else writer.pieces.push(writeScalar(writer, value, escape))
  return undefined
}

function writeScalar (
  writer: Writer,
  value: unknown,
  escape: ((text: string) => string) | undefined
): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(escape?.(value) ?? value)
    case 'number':
      if (!Number.isFinite(value)) throw fault(writer, `is ${value}, which is no JSON`)
      return Object.is(value, -0) ? '-0' : String(value)
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object':
      return 'null'
    default:
      throw fault(
        writer,
        `is ${value === undefined ? 'undefined' : `a ${typeof value}`}, which is no JSON`
      )
  }
}

function writeCompound (
  writer: Writer,
  value: object,
  escape: ((text: string) => string) | undefined
): string | undefined {
  if (writer.path.length > maxDepth) {
    throw fault(writer, `nests deeper than ${maxDepth} arrays and objects`)
  }
  const raw = rawText(value)
  if (Array.isArray(value)) writeList(writer, value, item => write(writer, item, escape))
  else if (raw !== undefined) {
    writer.pieces.push(raw.startsWith('"') ? writeScalar(writer, JSON.parse(raw), escape) : raw)
  } else return writeObject(writer, value, escape)
  return undefined
}

function writeObject (
  writer: Writer,
  value: object,
  escape: ((text: string) => string) | undefined
): string | undefined {
  const type = Object.prototype.toString.call(value).slice('[object '.length, -1)
  if (type !== 'Object') throw fault(writer, `is a ${type}, which is no JSON`)
  let separator = '{'
  let only: string | undefined
  // No function for each member and no copy: 10 000 rows of five columns took 40 ms with them, and
  // take half of it.
  for (const name of Object.keys(value)) {
    const member = (value as Readonly<Record<string, unknown>>)[name]
    if (member === undefined) continue
    only = separator === '{' ? name : undefined
    writer.path.push(name)
    writer.pieces.push(`${separator}${JSON.stringify(name)}:`)
    write(writer, member, escape)
    writer.path.pop()
    separator = ','
  }
  writer.pieces.push(separator === '{' ? '{}' : '}')
  return only
}

/**
 * The text of what `JSON.rawJSON` made; undefined of anything else, and where there is no such
 * function.
 */
function rawText (value: object): string | undefined {
  const { isRawJSON } = JSON as { isRawJSON?: (value: unknown) => boolean }
  return isRawJSON?.(value) === true ? (value as { rawJSON: string }).rawJSON : undefined
}

/** A date and its like say by themselves what they are as JSON. */
function withoutToJson (value: unknown): unknown {
  const object = value as { toJSON?: unknown } | null
  return typeof value === 'object' && typeof object?.toJSON === 'function'
    ? (object.toJSON as () => unknown).call(value)
    : value
}

function referencePiece (writer: Writer, meaning: Meaning, allowed: boolean): Piece {
  if (meaning.kind === 'operation') {
    throw fault(
      writer,
      'is an operation, which is no value; its row(0) is, and the columns of that'
    )
  }
  if (meaning.kind === 'rows') {
    throw fault(writer, 'is the rows of an operation, which are no value; rows.<column> is a list')
  }
  if (meaning.kind === 'modifier') {
    throw fault(
      writer,
      `is ${
        nameOf(meaning)
      }, which stands for a whole value of set or for an operand, and nowhere else`
    )
  }
  if (!allowed) throw fault(writer, 'takes no reference')
  writer.checkReference(meaning.to)
  return meaning
}

function nameOf ({ word }: { readonly word: string }): string {
  return `$.${word.replace('$', '')}`
}
