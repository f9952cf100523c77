/**
 * Writes values as JSON text. The text is split at references, because their operations have no id
 * yet. A string that looks like a reference is escaped, so that it stays a string. Numbers keep all
 * digits. Values that JSON cannot represent throw: NaN, functions, `undefined`.
 */
import type { OneflightError } from './error.ts'
import { invalid, meaningOf, type Meaning, type Source } from './reference.ts'
import { maxDepth } from './words.ts'

/**
 * JSON text; or what becomes text when the operations have ids: a reference, the id of an
 * operation, or a string that the service escapes only if an operation has the id `ifId`.
 */
export type Piece =
  | string
  | { readonly text: string, readonly ifId: string }
  | { readonly to: Source, readonly tail: string }
  | { readonly idOf: Source }

/** The state while one operation is written. */
export interface Writer {
  readonly pieces: Piece[]
  readonly path: Array<string | number>
  readonly title: string
  /** Throws if the operation does not belong to this batch. */
  readonly checkReference: (to: Source) => void
}

/**
 * Matches strings that the service could parse as a reference or as an escaped one. They are
 * escaped by one more `$`.
 */
const looksLikeReference = /^\$+[A-Za-z_][A-Za-z0-9_]*(?:\.|$)/

/** The same for strings that are references only if an operation has the id: `$order[0].id`. */
const bracketed = /^\$+(?:([A-Za-z_][A-Za-z0-9_]*)\[|\{([A-Za-z_][A-Za-z0-9_]*)\.)/

type WriteText = (text: string) => Piece

function escapeText (text: string): Piece {
  if (!text.startsWith('$')) return JSON.stringify(text)
  if (looksLikeReference.test(text)) return JSON.stringify(`$${text}`)
  const [, before, inside] = bracketed.exec(text) ?? []
  const ifId = before ?? inside
  return ifId === undefined ? JSON.stringify(text) : { text, ifId }
}

/**
 * Writes JSON that may contain references. Returns the key of an object with a single member,
 * because special objects of the language have this form.
 */
export function writeData (writer: Writer, value: unknown): string | undefined {
  return write(writer, value, escapeText)
}

/** Writes JSON without references: names, keywords, row counts. */
export function writeLiteral (writer: Writer, value: unknown): void {
  write(writer, value, undefined)
}

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
 * Writes an object, each member with `writeMember`. Throws if a member is `undefined`, because a
 * filter without it could match more rows.
 */
export function writeMembers (
  writer: Writer,
  members: object,
  writeMember: (name: string, value: unknown) => void
): void {
  let separator = '{'
  for (const [name, value] of Object.entries(members) as Array<[string, unknown]>) {
    writer.path.push(name)
    if (value === undefined) throw invalidAt(writer, 'is undefined; omit it')
    writer.pieces.push(`${separator}${JSON.stringify(name)}:`)
    writeMember(name, value)
    writer.path.pop()
    separator = ','
  }
  writer.pieces.push(separator === '{' ? '{}' : '}')
}

/** Creates the error of an invalid value at the current path. `issue` completes the sentence. */
export function invalidAt ({ title, path }: Writer, issue: string): OneflightError {
  return invalid(`${title}: ${path.join('.')} ${issue}.`)
}

/** Writes a value, its strings with `escape`. Without `escape`, references throw. */
function write (
  writer: Writer,
  input: unknown,
  escape: WriteText | undefined
): string | undefined {
  const meaning = meaningOf(input)
  const value = meaning === undefined ? callToJson(writer, input) : input
  if (meaning !== undefined) {
    writeMeaning(writer, meaning, escape !== undefined)
  } else if (typeof value === 'object' && value !== null) {
    return writeCompound(writer, value, escape)
  } else writer.pieces.push(writeScalar(writer, value, escape))
  return undefined
}

const NOT_JSON = 'which JSON cannot represent'

function writeScalar (
  writer: Writer,
  value: unknown,
  escape: WriteText | undefined
): Piece {
  switch (typeof value) {
    case 'string':
      return escape?.(value) ?? JSON.stringify(value)
    case 'number':
      if (!Number.isFinite(value)) throw invalidAt(writer, `is ${value}, ${NOT_JSON}`)
      return Object.is(value, -0) ? '-0' : String(value)
    case 'bigint':
    case 'boolean':
      return String(value)
    case 'object':
      return 'null'
    default:
      throw invalidAt(
        writer,
        `is ${value === undefined ? 'undefined' : `a ${typeof value}`}, ${NOT_JSON}`
      )
  }
}

function writeCompound (
  writer: Writer,
  value: object,
  escape: WriteText | undefined
): string | undefined {
  if (writer.path.length > maxDepth) {
    throw invalidAt(writer, `nests deeper than ${maxDepth} arrays and objects`)
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
  escape: WriteText | undefined
): string | undefined {
  const type = Object.prototype.toString.call(value).slice('[object '.length, -1)
  if (type !== 'Object') throw invalidAt(writer, `is a ${type}, ${NOT_JSON}`)
  let separator = '{'
  let onlyKey: string | undefined
  // A loop without a callback and a copy takes half of the time: 10 000 rows of five columns took
  // 40 ms with them.
  for (const name of Object.keys(value)) {
    const member = (value as Readonly<Record<string, unknown>>)[name]
    if (member === undefined) continue
    onlyKey = separator === '{' ? name : undefined
    writer.path.push(name)
    writer.pieces.push(`${separator}${JSON.stringify(name)}:`)
    write(writer, member, escape)
    writer.path.pop()
    separator = ','
  }
  writer.pieces.push(separator === '{' ? '{}' : '}')
  return onlyKey
}

/**
 * Returns the text of a value of `JSON.rawJSON`; undefined for other values, and where the function
 * does not exist.
 */
function rawText (value: object): string | undefined {
  const { isRawJSON } = JSON as { isRawJSON?: (value: unknown) => boolean }
  return isRawJSON?.(value) === true ? (value as { rawJSON: string }).rawJSON : undefined
}

/** Applies `toJSON`, which dates for example have. That of an invalid date returns `null`. */
function callToJson (writer: Writer, value: unknown): unknown {
  const object = value as { toJSON?: unknown } | null
  if (typeof value !== 'object' || typeof object?.toJSON !== 'function') return value
  if (value instanceof Date && Number.isNaN(value.getTime())) {
    throw invalidAt(writer, `is an invalid Date, ${NOT_JSON}`)
  }
  return (object.toJSON as () => unknown).call(value)
}

function writeMeaning (writer: Writer, meaning: Meaning, allowed: boolean): void {
  if (meaning.kind === 'operation') {
    throw invalidAt(writer, 'is an operation; use its row(0) or a column of it, row(0).<column>')
  }
  if (meaning.kind === 'rows') {
    throw invalidAt(writer, 'is the rows of an operation; use a column of them, rows.<column>')
  }
  if (meaning.kind === 'modifier') {
    throw invalidAt(
      writer,
      `is ${nameOf(meaning)}, which is allowed only as a whole value of set or as an operand` +
        (writer.path[0] === 'values' ? '; omit a column to use its default' : '')
    )
  }
  if (!allowed) throw invalidAt(writer, 'does not accept a reference')
  if (meaning.kind === 'first') {
    writer.pieces.push('{"$first":')
    writeList(writer, meaning.references, inner => writeMeaning(writer, inner as Meaning, allowed))
    writer.pieces.push('}')
  } else {
    writer.checkReference(meaning.to)
    writer.pieces.push(meaning)
  }
}

function nameOf ({ word }: { readonly word: string }): string {
  return `$.${word.replace('$', '')}`
}
