/**
 * Plans values of the request: a scalar → a literal or a reference, JSON → JSON in which strings
 * stand for its references, a list that is an operand → literals and references. Numbers keep their
 * source text. PostgreSQL converts values to the types of columns.
 */
import { randomUUID } from 'node:crypto'
import { referenceAttempt } from '../../schemas/operand.ts'
import { isNested, isObject, writeJson, type Json } from '../json/parse.ts'
import type { Path, Place, PlanContext } from './context.ts'
import type { Given, JsonDocument, List, Literal, Reference } from './nodes.ts'
import { isData, referTo, refersToOperation } from './reference.ts'

// Begins the strings that stand for references. It is random, so data cannot look like it.
const placeholder = `reference-${randomUUID()}-`
const placeholders = new RegExp(`"${placeholder}(\\d+)"`)

/**
 * Returns the only member of an object if its key begins with `$`, as in `{"$col": "a"}`. Such an
 * object is not data. Returns undefined for data.
 */
export function readDollarMember (
  value: Json
): readonly [key: string, operand: Json] | undefined {
  if (!isObject(value)) return undefined
  const [key, ...more] = Object.keys(value)
  return key?.startsWith('$') === true && more.length === 0
    ? [key, value[key] as Json]
    : undefined
}

/**
 * Returns the references of `{"$first": [reference, …]}`. Returns undefined for data: any other
 * object, also a `$first` whose list contains something else.
 */
export function readFirst (value: Json): readonly string[] | undefined {
  const [name, list] = readDollarMember(value) ?? []
  if (name !== '$first' || !Array.isArray(list) || list.length === 0) return undefined
  const items = list as readonly Json[]
  return items.every(item => typeof item === 'string' && referenceAttempt.test(item))
    ? items as readonly string[]
    : undefined
}

/** Whether a value is a number, a boolean, or a string that is data as it stands. */
export function isPlain (value: Json): boolean {
  if (typeof value === 'string') return isData(value)
  return value !== null && !isNested(value)
}

/** Plans a string, number, boolean or `$first`. */
export function planScalar (value: Json, { path, context }: Place): Literal | Reference {
  const position = context.findSlot(path)
  if (position !== undefined) return { kind: 'literal', position }
  const first = readFirst(value)
  if (first !== undefined) return context.resolveFirst(first, [...path, '$first'])
  if (typeof value !== 'string') return { kind: 'literal', value }
  const resolved = context.resolveString(value, path, 0)
  return typeof resolved === 'string' ? { kind: 'literal', value: resolved } : resolved
}

/** Where a list is an operand. */
export interface ListPlace extends Place {
  /**
   * Whether the place is inside an odd number of `not`. There, a condition that matches no row
   * makes the filter match every row.
   */
  readonly negated: boolean
  /** The minimum number of rows of a list of an earlier operation. */
  readonly minRows: number
}

/**
 * Returns how many rows a list needs so that the condition does not match every row.
 * `emptyMatches`: whether the condition itself matches every row if its list is empty.
 */
export function countRequiredRows (emptyMatches: boolean, negated: boolean): number {
  return emptyMatches === negated ? 0 : 1
}

/**
 * Plans an array of literals and references, or a reference that is a list itself (`$op.*.column`,
 * or a parameter). An empty list matches no row; inside `not`, where it would match every row, it
 * is an issue.
 */
export function planList (operand: Json, place: ListPlace): List {
  const { context, path, negated } = place
  if (typeof operand === 'string') return { kind: 'list', of: planDocument(operand, place) }
  if (negated && (operand as readonly Json[]).length === 0) {
    context.addIssue(
      'operand_invalid',
      path,
      `"${path.at(-1)}" must not be an empty array inside "not" or "not_exists": the condition ` +
        'would match every row.'
    )
  }
  const position = context.findSlot(path)
  return {
    kind: 'list',
    of: position === undefined
      ? planDocument(operand, { context, path })
      : { kind: 'literal', position }
  }
}

/** The document that is a list of references. */
export function listDocument (references: readonly Reference[]): JsonDocument {
  return { kind: 'document', value: references.map((_, i) => placeholderOf(i)), references }
}

/** Plans any JSON. `minRows` is the minimum number of rows of a list in it. */
export function planDocument (
  value: Json,
  { path, context, minRows = 0 }: Place & { readonly minRows?: number }
): JsonDocument {
  const position = context.findSlot(path)
  if (position !== undefined) return documentOf(referToValue(position, isNested(value)))
  const references: Reference[] = []
  const isData = isNested(value) && !mayRefer(value)
  const replaced = isData ? value : replaceStrings(value, path, { context, minRows, references })
  return { kind: 'document', value: replaced, references }
}

/** A document that is the value of a reference. */
export function documentOf (reference: Reference): JsonDocument {
  return { kind: 'document', value: placeholderOf(0), references: [reference] }
}

/** The reference that a document is as a whole; undefined: it is other JSON. */
export function readWhole ({ value, references }: JsonDocument): Reference | undefined {
  const number = readNumber(value)
  return number === undefined ? undefined : references[number]
}

/** The value that a document is as a whole; undefined: it refers to operations. */
export function readGiven (document: JsonDocument): Given | undefined {
  return refersToOperation(document) ? undefined : readWhole(document)?.parameter ?? document
}

/** Returns the reference to a value of a batch, by its position among them. */
export function referToValue (position: number, isNested: boolean): Reference {
  return referTo('', { position, isNested, isList: false, minItems: 0, isOptional: false })
}

/**
 * Cuts the text of JSON at the strings that stand for references: pieces[0] numbers[0] pieces[1] …
 */
export function cutJson (
  value: Json
): { readonly pieces: readonly string[], readonly numbers: readonly number[] } {
  const parts = writeJson(value).split(placeholders)
  return {
    pieces: parts.filter((_, i) => i % 2 === 0),
    numbers: parts.filter((_, i) => i % 2 === 1).map(Number)
  }
}

/** The string that stands for a reference, by its number in the document. */
export function placeholderOf (number: number): string {
  return `${placeholder}${number}`
}

/** The number of the reference for which a string of a document stands; undefined: it is data. */
export function readNumber (value: Json): number | undefined {
  return typeof value === 'string' && value.startsWith(placeholder)
    ? Number(value.slice(placeholder.length))
    : undefined
}

/** Replaces the strings of JSON that stand for references. */
export function replaceNumbers (value: Json, read: (number: number) => Json): Json {
  const number = readNumber(value)
  if (number !== undefined) return read(number)
  if (Array.isArray(value)) {
    return (value as readonly Json[]).map(item => replaceNumbers(item, read))
  }
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) =>
    [name, replaceNumbers(member, read)]))
}

/** Whether JSON contains strings that stand for references. */
export function hasReference (value: Json): boolean {
  return holds(value, placeholder)
}

/** Whether a text or a name in JSON begins with `$`, and may be a reference or a modifier. */
export function mayRefer (value: Json): boolean {
  return holds(value, '$')
}

/** Whether a text or a name begins with `start`. To write the JSON took five times as long. */
function holds (value: Json, start: string): boolean {
  if (typeof value === 'string') return value.startsWith(start)
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (holds(value[i] as Json, start)) return true
  } else if (isObject(value)) {
    for (const key in value) {
      if (key.startsWith(start) || holds(value[key] as Json, start)) return true
    }
  }
  return false
}

interface Replacement {
  readonly context: PlanContext
  readonly minRows?: number
  /** References found so far, by the number of their placeholder. */
  readonly references: Reference[]
}

/** Copies `value`, with placeholders for references and `$$` unescaped. */
function replaceStrings (value: Json, path: Path, replacement: Replacement): Json {
  if (typeof value === 'string') {
    const { context, minRows = 0, references } = replacement
    const resolved = context.resolveString(value, path, minRows)
    return typeof resolved === 'string'
      ? resolved
      : placeholderOf(references.push(resolved) - 1)
  }
  if (Array.isArray(value)) {
    // For half a million plain elements, paths took most of the time.
    return value.map((item: Json, i) =>
      isPlain(item) ? item : replaceStrings(item, [...path, i], replacement))
  }
  if (!isObject(value)) return value
  const first = readFirst(value)
  if (first !== undefined) {
    const { context, references } = replacement
    const resolved = context.resolveFirst(first, [...path, '$first'])
    return placeholderOf(references.push(resolved) - 1)
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) =>
    [key, isPlain(item) ? item : replaceStrings(item, [...path, key], replacement)]))
}
