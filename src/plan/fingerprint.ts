/**
 * The fingerprint of a batch: everything except the values that its operations store and compare.
 * Batches of the same fingerprint have the same plan and the same statements, and differ only in
 * their values.
 */
import { randomBytes } from 'node:crypto'
import type { Batch } from '../../schemas/batch.ts'
import { operators, type OperatorName } from '../../schemas/operator.ts'
import {
  has,
  isDeep,
  isNested,
  isNumber,
  isObject,
  textOf,
  writeJson,
  type ExactNumber,
  type Json,
  type JsonObject
} from '../json/parse.ts'
import { readDollarMember } from './document.ts'
import { hasEqualKeys } from './key-rows.ts'
import type { Parameter } from './shape.ts'
import { isData } from './reference.ts'
import { MAX_CELL_ROWS } from './stored-values.ts'

interface Fingerprint {
  /** The batch as JSON, with a placeholder for each value. */
  readonly text: string
  /** Texts, numbers, and objects and arrays without references. */
  readonly values: readonly Json[]
}

/** Maximum length of the text. Longer ones hardly recur. */
const MAX_TEXT_LENGTH = 8192
/**
 * Maximum length of a list in the text, for example of `in`. Longer ones hardly recur and take time
 * to write.
 */
const MAX_FIXED_ELEMENTS = 100

/** Returns the fingerprint, or undefined for a batch whose plan is not kept. */
export function readFingerprint (batch: Batch): Fingerprint | undefined {
  if (isDeep(batch)) return undefined
  const writer = new FingerprintWriter()
  for (const operation of batch) writer.addOperation(operation as unknown as JsonObject)
  return writer.finish()
}

/** Modifiers that take the name of a column. */
const NAMING: ReadonlySet<string> = new Set(['$col', '$excluded', '$from'])

class FingerprintWriter {
  readonly #values: Json[] = []
  #text = ''
  /** Whether an operation contains something that excludes a fingerprint, such as a long list. */
  #unsupported = false

  finish (): Fingerprint | undefined {
    if (this.#isRefused()) return undefined
    return { text: `[${this.#text}]`, values: this.#values }
  }

  /** Whether the batch gets no fingerprint. The rest of it is then not read. */
  #isRefused (): boolean {
    return this.#unsupported || this.#text.length > MAX_TEXT_LENGTH
  }

  addOperation (operation: JsonObject): void {
    if (this.#isRefused()) return
    if (this.#text !== '') this.#text += ','
    this.#addObject(operation, (name, value) => {
      if (name === 'values') this.#addRows(value, operation)
      else if (name === 'set' || name === 'columns') this.#addSet(value)
      else if (name === 'args') this.#addObject(value, (_, arg) => this.#addArgument(arg))
      else if (name === 'on_conflict') this.#addConflict(value)
      else if (name === 'from') this.#addRead(value)
      else if (name === 'where' || name === 'having') this.#addFilter(value)
      else if (name === 'with') this.#addObject(value, (_, read) => this.#addRead(read))
      else if (name === 'after') this.#addArray(value, item => this.#addScalar(item))
      else this.#addFixed(value)
    })
  }

  #addRows (rows: Json, operation: JsonObject): void {
    const keyed = has(operation, 'key')
    this.#unsupported ||= Array.isArray(rows) && rows.length > MAX_CELL_ROWS
    this.#unsupported ||= keyed && hasEqualKeys(operation)
    if (this.#unsupported) return
    this.#addArray(rows, row =>
      keyed ? this.#addSet(row) : this.#addObject(row, (_, value) => this.#addStored(value))
    )
  }

  #addSet (set: Json): void {
    this.#addObject(set, (_, value) => {
      const [modifier, operand] = readDollarMember(value) ?? []
      const isName = modifier !== undefined && NAMING.has(modifier)
      if (modifier === undefined || isName || operand === undefined) this.#addStored(value)
      else this.#addObject(value, () => this.#addScalar(operand))
    })
  }

  #addConflict (conflict: Json): void {
    this.#addObject(conflict, (name, value) => {
      // The statement contains its values as text, so it cannot be used for other values.
      this.#unsupported ||= name === 'index_where'
      if (name === 'set') this.#addSet(value)
      else if (name === 'where') this.#addFilter(value)
      else this.#addFixed(value)
    })
  }

  #addFilter (filter: Json): void {
    this.#addObject(filter, (name, value) => {
      if (name === 'and' || name === 'or') this.#addArray(value, inner => this.#addFilter(inner))
      else if (name === 'not') this.#addFilter(value)
      else if (name === 'exists' || name === 'not_exists') this.#addRead(value)
      else this.#addConditions(value)
    })
  }

  /** Adds a read of another table: the operand of `exists` or `from`, or a member of `with`. */
  #addRead (read: Json): void {
    this.#addObject(read, (name, value) => {
      if (name === 'where' || name === 'having') this.#addFilter(value)
      else if (name === 'with') this.#addObject(value, (_, inner) => this.#addRead(inner))
      else this.#addFixed(value)
    })
  }

  #addConditions (conditions: Json): void {
    this.#addObject(conditions, (name, operand) => {
      const takes = Object.hasOwn(operators, name) ? operators[name as OperatorName].takes : ''
      if (name === 'not') this.#addConditions(operand)
      else if (takes === 'comparand' || takes === 'distinct') this.#addScalar(operand)
      else if (takes === 'bounds') this.#addArray(operand, bound => this.#addScalar(bound))
      else this.#addFixed(operand)
    })
  }

  #addObject (value: Json, addMember: (name: string, value: Json) => void): void {
    if (!isObject(value)) return this.#addFixed(value)
    let separator = '{'
    for (const name of Object.keys(value)) {
      if (this.#isRefused()) return
      this.#text += `${separator}${JSON.stringify(name)}:`
      addMember(name, value[name] as Json)
      separator = ','
    }
    this.#text += separator === '{' ? '{}' : '}'
  }

  #addArray (value: Json, addElement: (value: Json) => void): void {
    if (!Array.isArray(value)) return this.#addFixed(value)
    let separator = '['
    for (const element of value as readonly Json[]) {
      if (this.#isRefused()) return
      this.#text += separator
      addElement(element)
      separator = ','
    }
    this.#text += separator === '[' ? '[]' : ']'
  }

  /** Adds a value that is stored: a scalar, or JSON without references. */
  #addStored (value: Json): void {
    if (isNested(value) && !JSON.stringify(value).includes('"$')) this.#addValue(value)
    else this.#addScalar(value)
  }

  /**
   * Adds an argument. Nested arrays are part of the text: their contents decide whether they fit an
   * array type.
   */
  #addArgument (value: Json): void {
    if (Array.isArray(value) && !isList(value)) this.#addFixed(value)
    else this.#addStored(value)
  }

  #addScalar (value: Json): void {
    const isValue = typeof value === 'string' ? isData(value) : isNumber(value)
    if (isValue) this.#addValue(value)
    else this.#addFixed(value)
  }

  #addValue (value: Json): void {
    this.#text += placeholderOf(value, this.#values.length)
    this.#values.push(value)
  }

  #addFixed (value: Json): void {
    this.#unsupported ||= Array.isArray(value) && value.length > MAX_FIXED_ELEMENTS
    if (!this.#unsupported) this.#text += JSON.stringify(value)
  }
}

/** Random, so that no data looks like a placeholder. */
const SECRET = randomBytes(9).toString('hex')
/** The digits of a number that a double cannot represent, so its source text is kept. */
const SECRET_DIGITS = String(10n ** 20n + randomBytes(8).readBigUInt64BE())
const POSITION_DIGITS = 5

/** Returns the placeholder of a value, as JSON of the same kind. */
function placeholderOf (value: Json, position: number): string {
  if (typeof value === 'string') return jsonPlaceholder(position)
  if (isNumber(value)) return SECRET_DIGITS + String(position).padStart(POSITION_DIGITS, '0')
  return isList(value)
    ? `["${listPlaceholder(position)}"]`
    : `{"${textPlaceholder(position)}":0}`
}

/** The element of the placeholder of a list. */
function listPlaceholder (position: number): string {
  return `${textPlaceholder(position)}list`
}

/** The placeholder of a text. */
export function textPlaceholder (position: number): string {
  return `${SECRET}.${position}.`
}

/** The placeholder of a value as JSON. */
function jsonPlaceholder (position: number): string {
  return `"${textPlaceholder(position)}"`
}

/** A placeholder in a parameter of a statement. */
export interface Placeholder {
  readonly position: number
  /** The parameter is the text itself, or the value as JSON. */
  readonly as: 'text' | 'json'
}

const TEXT = new RegExp(`^${SECRET}\\.(\\d+)\\.$`)
const LIST = new RegExp(`^${SECRET}\\.(\\d+)\\.list$`)
const JSON_NUMBER = new RegExp(`^${SECRET_DIGITS}(\\d{${POSITION_DIGITS}})$`)
const JSON_TEXT = new RegExp(
  `^(?:"${SECRET}\\.(\\d+)\\."|\\["${SECRET}\\.(\\d+)\\.list"\\]` +
    `|\\{"${SECRET}\\.(\\d+)\\.":0\\}|${SECRET_DIGITS}(\\d{${POSITION_DIGITS}}))$`
)

/** Returns the placeholder that a parameter consists of, or undefined. */
export function readPlaceholder (parameter: string): Placeholder | undefined {
  const [, text] = TEXT.exec(parameter) ?? []
  if (text !== undefined) return { position: Number(text), as: 'text' }
  const position = JSON_TEXT.exec(parameter)?.slice(1).find(found => found !== undefined)
  return position === undefined ? undefined : { position: Number(position), as: 'json' }
}

/** Returns the position of the value for which a value of the batch is a placeholder. */
export function readValuePlaceholder (value: Json): number | undefined {
  if (typeof value === 'string') return readPosition(TEXT, value)
  if (typeof value !== 'object' || value === null) return undefined
  if (isNumber(value)) return readPosition(JSON_NUMBER, (value as ExactNumber).rawJSON)
  if (!Array.isArray(value)) return readPosition(TEXT, Object.keys(value)[0] ?? '')
  const [element] = value as readonly Json[]
  return typeof element === 'string' ? readPosition(LIST, element) : undefined
}

/** Whether a value is a list of scalars. */
function isList (value: Json): value is readonly Json[] {
  return Array.isArray(value) && !(value as readonly Json[]).some(isNested)
}

function readPosition (pattern: RegExp, text: string): number | undefined {
  const position = pattern.exec(text)?.[1]
  return position === undefined ? undefined : Number(position)
}

/** The values of placeholders, by their positions. */
export type Values = readonly Json[]

/** Returns the parameter for a placeholder; undefined for an object or an array as text. */
export function fillPlaceholder (
  { position, as }: Placeholder,
  values: Values
): string | null | undefined {
  const value = values[position] as Json
  if (as === 'json') return writeJson(value)
  return isNested(value) ? undefined : textOf(value)
}

/** Whether a text contains a placeholder. */
export function hasPlaceholder (text: string): boolean {
  return text.includes(SECRET) || text.includes(SECRET_DIGITS)
}

// Parameters of named batches in statements. The statements are compiled once, with a placeholder
// for each value; a request fills in its own.

/** The placeholder of the value as text; NULL for null. An object or an array has no such text. */
export function textOfParameter ({ position }: Parameter): string {
  return textPlaceholder(position)
}

/** The placeholder of the value as JSON. */
export function jsonOfParameter ({ position }: Parameter): string {
  return jsonPlaceholder(position)
}
