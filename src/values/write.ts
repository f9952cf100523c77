/**
 * Writes JSON as the text that PostgreSQL reads as a value of a type, exactly; or finds why it
 * cannot be stored exactly.
 */
import { builtInNamed } from '../catalogue/built-in.ts'
import {
  baseOf,
  type ArrayType,
  type BaseType,
  type CompositeType,
  type RangeType,
  type Type
} from '../catalogue/type.ts'
import { writePlain } from '../json/decimal.ts'
import { has, isNested, isObject, textOf, type Json, type JsonObject } from '../json/parse.ts'
import { FITS, isLossless } from './fits.ts'
import { issueOf, type WriteIssue } from './issue.ts'
import { fitText } from './text-forms.ts'

/**
 * Returns the text of a value, as the input function of its type reads it; null for NULL. The text
 * does not depend on the length or precision of the type, only whether it fits does. A string for
 * an array, a composite or a range is the text of the value itself.
 */
export function write (value: Json, type: Type): string | null | WriteIssue {
  if (value === null) return null
  switch (type.kind) {
    case 'base':
      return writeBase(value, type)
    case 'domain':
      return write(value, type.base)
    case 'array':
      return typeof value === 'string' ? fitText(value, type) : writeArray(value, type)
    case 'composite':
      return typeof value === 'string' ? fitText(value, type) : writeComposite(value, type)
    case 'range':
    case 'multirange':
      return isNested(value) ? writeRange(value, type) : fitText(textOf(value), type)
    default:
      return isNested(value)
        ? issueOf(type.kind === 'enum' ? 'list' : 'unknown', type)
        : textOf(value)
  }
}

/** Whether a result of `write` is an issue. */
export function isIssue (result: string | null | WriteIssue): result is WriteIssue {
  return typeof result === 'object' && result !== null
}

/**
 * Returns the JSON from which json_to_recordset reads what `write` returns: the value itself, or
 * its text as a string. `report` gets the issue of a value that does not fit. PostgreSQL converts
 * no JSON to a domain over a type without a binary form.
 */
export function writeMember (
  value: Json,
  type: Type,
  report: (issue: WriteIssue) => void
): Json {
  if (value === null || (type.kind === 'base' && isSame(value, type))) return value
  const text = write(value, type)
  if (isIssue(text)) {
    report(text)
    return null
  }
  const isKept = isJson(type) || (!isNested(value) && text === textOf(value))
  return isKept ? value : text
}

/** Whether a value is known to be its own text, a quick check: 10 000 rows have many values. */
function isSame (value: Exclude<Json, null>, type: BaseType): boolean {
  return typeof value !== 'object' &&
    (isLossless(type) || (type.form === 'integer' && !isFraction(value)))
}

/** Whether PostgreSQL reads every scalar of a type as it is, or refuses it. */
export function isPlain (type: Type): boolean {
  const base = baseOf(type)
  return base.kind === 'enum' || (base.kind === 'base' && isLossless(base))
}

/** Whether a type has texts that it refuses, so an error may quote one of its values. */
export function refusesText (type: Type | undefined): boolean {
  const base = type && baseOf(type)
  return base?.kind !== 'base' || !(isJson(base) || TEXT_OIDS.has(base.oid))
}

/** name, text, character and character varying. */
const TEXT_OIDS: ReadonlySet<number> = new Set([19, 25, 1042, 1043])

/**
 * The type of what can be added to a value of a type or subtracted from it, with the same digits;
 * undefined if nothing can.
 */
export function differenceType (type: Type): Type | undefined {
  const base = baseOf(type)
  if (base.kind !== 'base') return undefined
  switch (base.form) {
    case 'date':
      return INTEGER
    case 'time':
    case 'timestamp':
    case 'timestamptz':
      return base.precision === undefined ? INTERVAL : { ...INTERVAL, precision: base.precision }
    default:
      return COUNTED_OIDS.has(base.oid) ? base : undefined
  }
}

/**
 * The type by which values of a type are multiplied, which is the type itself for numbers;
 * undefined if they cannot be multiplied.
 */
export function factorType (type: Type): Type | undefined {
  const base = baseOf(type)
  if (base.kind !== 'base' || !COUNTED_OIDS.has(base.oid)) return undefined
  return base.form === 'money' || base.form === 'interval' ? FLOAT : type
}

/** Whether a type is one of numbers, without money. */
export function isNumeric (type: Type | undefined): boolean {
  const base = type && baseOf(type)
  return base?.kind === 'base' && base.form !== 'money' && base.form !== 'interval' &&
    COUNTED_OIDS.has(base.oid)
}

const FLOAT = builtInNamed('float8')
const INTEGER = builtInNamed('int4')
const INTERVAL = builtInNamed('interval')

/** int8, int2, int4, float4, float8, money, interval and numeric. */
const COUNTED_OIDS: ReadonlySet<number> = new Set([20, 21, 23, 700, 701, 790, 1186, 1700])

/** Whether a type is json or jsonb. */
export function isJson (type: Type | undefined): boolean {
  const base = type && baseOf(type)
  return base?.kind === 'base' && base.form === 'json'
}

function writeBase (value: Exclude<Json, null>, type: BaseType): string | WriteIssue {
  const { form } = type
  if (form === 'json') return JSON.stringify(value)
  if (isNested(value)) {
    return form === 'list' ? JSON.stringify(value) : issueOf('list', type)
  }
  if (isSame(value, type)) return textOf(value)
  const text = scalarText(value, type)
  return FITS[form]?.(text, type) ?? text
}

/** The text of a scalar. PostgreSQL reads no interval and no money with an exponent. */
export function scalarText (value: Exclude<Json, null>, type: Type): string {
  const isWritten = type.kind === 'base' && (type.form === 'interval' || type.form === 'money') &&
    typeof value !== 'string' && typeof value !== 'boolean'
  return isWritten ? writePlain(textOf(value)) : textOf(value)
}

/** Writes an array (docs: "Array Input and Output Syntax"). */
function writeArray (value: Exclude<Json, null>, type: ArrayType): string | WriteIssue {
  if (!Array.isArray(value)) return issueOf('array', type)
  const list = value as readonly Json[]
  // Every element may be an array, as for jsonb: the first one decides how many dimensions it has.
  const lengths: number[] = []
  const ofJson = isJson(type.element)
  for (let first: Json | undefined = list; isList(first); first = first[0]) {
    lengths.push(first.length)
    if (isElement(first[0]) || (ofJson && dimensions.has(first) && isList(first[0]))) {
      const problem = ofJson ? 'dimension' : 'list'
      return { problem, path: lengths.map(() => 0), type: type.element }
    }
  }
  return writeDimension(list, type, lengths)
}

const elements = new WeakSet<readonly Json[]>()
const dimensions = new WeakSet<readonly Json[]>()

/**
 * Copies a list as an element of an array, so that it is not taken for a dimension of the array.
 * Other values are returned as they are.
 */
export function copyElement (value: Json): Json {
  return copyAs(elements, value)
}

/** Copies a list whose items are elements of an array; see copyElement. */
export function copyElements (value: Json): Json {
  return isList(value) ? value.map(copyElement) : value
}

/** Copies a list as a dimension of an array. In an array of JSON, a list in it is an element. */
export function copyDimension (value: Json): Json {
  return copyAs(dimensions, value)
}

function copyAs (kind: WeakSet<readonly Json[]>, value: Json): Json {
  if (!isList(value)) return value
  const copy = [...value]
  kind.add(copy)
  return copy
}

function isElement (value: Json | undefined): boolean {
  return isList(value) && elements.has(value)
}

/** `lengths`: those of the lists in this dimension and in the ones below. */
function writeDimension (
  list: readonly Json[],
  type: ArrayType,
  [, ...below]: readonly number[]
): string | WriteIssue {
  const texts: string[] = []
  for (const [i, item] of list.entries()) {
    const text = below.length > 0
      ? writeInner(item, type, below)
      : quoteElement(item, write(item, type.element))
    if (typeof text !== 'string') return inside(i, text)
    texts.push(text)
  }
  return `{${texts.join(type.delimiter)}}`
}

function writeInner (
  item: Json,
  type: ArrayType,
  lengths: readonly number[]
): string | WriteIssue {
  if (isList(item) && item.length === 0) return issueOf('empty', type)
  return isList(item) && !isElement(item) && item.length === lengths[0]
    ? writeDimension(item, type, lengths)
    : issueOf('ragged', type)
}

function quoteElement (value: Json, text: string | null | WriteIssue): string | WriteIssue {
  return text === null ? 'NULL' : quote(value, text)
}

/** Quotes the text of a part; the text of a number or a boolean needs no quotes. */
function quote (value: Json, text: string | WriteIssue): string | WriteIssue {
  if (typeof text !== 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return text
  }
  // Most texts have nothing to escape; for many thousand, replaceAll took most of the time.
  const isSafe = !text.includes('"') && !text.includes('\\')
  return `"${isSafe ? text : text.replaceAll(/["\\]/g, String.raw`\$&`)}"`
}

function inside (step: string | number, issue: WriteIssue): WriteIssue {
  return { ...issue, path: [step, ...issue.path] }
}

/** Writes a composite (docs: "Composite Type Input and Output Syntax"). */
function writeComposite (value: Exclude<Json, null>, type: CompositeType): string | WriteIssue {
  if (!isObject(value)) return issueOf('object', type)
  const { attributes } = type
  const unknown = Object.keys(value).find(name => !attributes.has(name))
  if (unknown !== undefined) return { problem: 'member', path: [unknown], type }
  const texts: string[] = []
  for (const [name, attribute] of attributes) {
    const text = writeAttribute(value, name, attribute)
    if (typeof text !== 'string') return inside(name, text)
    texts.push(text)
  }
  return `(${texts.join(',')})`
}

/** Writes an attribute. For NULL, there is nothing between the commas. */
function writeAttribute (object: JsonObject, name: string, type: Type): string | WriteIssue {
  const value = has(object, name) ? object[name] as Json : null
  const text = write(value, type)
  return text === null ? '' : quote(value, text)
}

/** Writes a range that includes both of its bounds: `[1,5]`. */
function writeRange (
  value: readonly Json[] | JsonObject,
  type: RangeType
): string | WriteIssue {
  const isPair = isList(value) && value.length === 2 && !value.includes(null)
  if (type.kind === 'multirange' || !isPair) return issueOf('bounds', type)
  const texts: string[] = []
  for (const [i, bound] of value.entries()) {
    const text = quoteElement(bound, write(bound, type.subtype))
    if (typeof text !== 'string') return inside(i, text)
    texts.push(text)
  }
  return `[${texts.join(',')}]`
}

function isList (value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value)
}

function isFraction (value: string | number | boolean): boolean {
  return typeof value === 'number' && !Number.isInteger(value)
}
