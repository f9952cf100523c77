/**
 * The shape of a batch: everything except the values that its operations store and compare. Batches
 * of one shape have the same plan and the same statements, and differ only in their values.
 */
import type { Batch } from '../../schemas/batch.ts'
import { operators, type OperatorName } from '../../schemas/operator.ts'
import {
  has,
  isDeep,
  isNested,
  isNumber,
  isObject,
  type Json,
  type JsonObject
} from '../json/parse.ts'
import type { Path } from './context.ts'
import { mayRefer, readDollarMember } from './document.ts'
import { hasEqualKeys, readAlikeRows, type AlikeRows } from './key-rows.ts'
import { isData } from './reference.ts'
import { MAX_CELL_ROWS } from './stored-values.ts'
import { findRuns } from './values.ts'

export interface BatchShape {
  /** The same for all batches of the shape. */
  readonly key: string
  /** Texts, numbers, objects and arrays without references, and rows. */
  readonly values: readonly Json[]
  /** Their paths, which begin with the operation. */
  readonly paths: readonly Path[]
}

/** Maximum length of the key. Longer ones hardly recur. */
const MAX_KEY_LENGTH = 8192

/** Returns the shape, or undefined for a batch whose plan is not kept. `maxRows`: MAX_ROWS. */
export function readShape (batch: Batch, maxRows: number): BatchShape | undefined {
  return isDeep(batch) ? undefined : new ShapeReader(maxRows).read(batch)
}

/** Modifiers that take the name of a column. */
const NAMING: ReadonlySet<string> = new Set(['$col', '$excluded', '$from'])

class ShapeReader {
  readonly #maxRows: number
  readonly #values: Json[] = []
  readonly #paths: Path[] = []
  /** Where the reader is. */
  readonly #path: Array<string | number> = []
  #key = ''
  /** Whether an operation excludes a shape, such as many rows that are not one value. */
  #unsupported = false

  constructor (maxRows: number) {
    this.#maxRows = maxRows
  }

  read (batch: Batch): BatchShape | undefined {
    this.#addArray(batch as unknown as Json, operation => this.#addOperation(operation))
    return this.#isRefused()
      ? undefined
      : { key: this.#key, values: this.#values, paths: this.#paths }
  }

  /** Whether the batch gets no shape. The rest of it is then not read. */
  #isRefused (): boolean {
    return this.#unsupported || this.#key.length > MAX_KEY_LENGTH
  }

  #addOperation (operation: Json): void {
    this.#addObject(operation, (name, value) => {
      if (name === 'values') this.#addRows(value, operation as JsonObject)
      else if (name === 'set' || name === 'columns') this.#addSet(value)
      else if (name === 'args') this.#addObject(value, (_, arg) => this.#addStored(arg))
      else if (name === 'on_conflict') this.#addConflict(value)
      else if (name === 'from') this.#addRead(value)
      else if (name === 'after') this.#addArray(value, item => this.#addScalar(item))
      else this.#addReadMember(name, value)
    })
  }

  #addRows (rows: Json, operation: JsonObject): void {
    const keyed = has(operation, 'key')
    if (Array.isArray(rows) && rows.length > MAX_CELL_ROWS) {
      return this.#addManyRows(rows, keyed ? operation['key'] : undefined)
    }
    this.#unsupported ||= keyed && hasEqualKeys(operation['key'] as Json, rows)
    if (this.#unsupported) return
    this.#addArray(rows, row =>
      keyed ? this.#addSet(row) : this.#addObject(row, (_, value) => this.#addStored(value))
    )
  }

  /** Adds rows that a statement takes together as one value. `key`: that of an update. */
  #addManyRows (rows: readonly Json[], key: Json | undefined): void {
    const alike = rows.length > this.#maxRows
      ? undefined
      : key === undefined ? readInserted(rows) : readAlikeRows(key, rows)
    if (alike === undefined) this.#unsupported = true
    else this.#addValue(alike.rows, `rows${alike.shape}`)
  }

  #addSet (set: Json): void {
    this.#addObject(set, (_, value) => {
      const [modifier] = readDollarMember(value) ?? []
      if (modifier === undefined || NAMING.has(modifier)) this.#addStored(value)
      else this.#addObject(value, (_, operand) => this.#addStored(operand))
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
    this.#addObject(read, (name, value) => this.#addReadMember(name, value))
  }

  /** Adds a filter, other reads, a number of rows, or what the plan contains. */
  #addReadMember (name: string, value: Json): void {
    const isCount = COUNTS.has(name) && Number.isSafeInteger(value) && value as number >= 0
    if (name === 'where' || name === 'having') this.#addFilter(value)
    else if (name === 'with') this.#addObject(value, (_, inner) => this.#addRead(inner))
    else if (isCount) this.#addValue(value, 'count')
    else this.#addFixed(value)
  }

  #addConditions (conditions: Json): void {
    this.#addObject(conditions, (name, operand) => {
      const takes = Object.hasOwn(operators, name) ? operators[name as OperatorName].takes : ''
      if (name === 'not') this.#addConditions(operand)
      else if (takes === 'comparand') this.#addComparand(operand)
      else if (takes === 'distinct') this.#addScalar(operand)
      else if (takes === 'bounds') this.#addArray(operand, bound => this.#addScalar(bound))
      else if (LISTS.has(takes)) this.#addList(operand)
      else if (takes === 'json' && isNested(operand)) this.#addStored(operand)
      else this.#addFixed(operand)
    })
  }

  /** Adds a scalar, or the list of `any` or `all`. */
  #addComparand (operand: Json): void {
    if (!isObject(operand)) return this.#addScalar(operand)
    this.#addObject(operand, (name, list) => {
      if (name === 'any' || name === 'all') this.#addList(list)
      else this.#addFixed(list)
    })
  }

  #addObject (value: Json, addMember: (name: string, value: Json) => void): void {
    if (!isObject(value)) return this.#addFixed(value)
    let separator = '{'
    for (const name of Object.keys(value)) {
      if (this.#isRefused()) return
      this.#key += `${separator}${JSON.stringify(name)}:`
      this.#path.push(name)
      addMember(name, value[name] as Json)
      this.#path.pop()
      separator = ','
    }
    this.#key += separator === '{' ? '{}' : '}'
  }

  #addArray (value: Json, addElement: (value: Json) => void): void {
    if (!Array.isArray(value)) return this.#addFixed(value)
    const elements = value as readonly Json[]
    this.#key += '['
    for (let i = 0; i < elements.length; i++) {
      if (this.#isRefused()) return
      if (i > 0) this.#key += ','
      this.#path.push(i)
      addElement(elements[i] as Json)
      this.#path.pop()
    }
    this.#key += ']'
  }

  /** Adds a value that is stored: a scalar, or JSON without references. */
  #addStored (value: Json): void {
    if (!isNested(value)) return this.#addScalar(value)
    if (JSON.stringify(value).includes('"$')) this.#addFixed(value)
    else this.#addValue(value, Array.isArray(value) ? 'array' : 'object')
  }

  #addScalar (value: Json): void {
    const kind = readKind(value)
    if (kind === undefined) this.#addFixed(value)
    else this.#addValue(value, kind)
  }

  /** Adds a list that is an operand. An empty one is a case of its own. */
  #addList (value: Json): void {
    const list = Array.isArray(value) ? value as readonly Json[] : []
    const kind = list[0] === undefined ? undefined : readKind(list[0])
    if (kind === undefined || list.some(item => readKind(item) !== kind)) this.#addFixed(value)
    else this.#addValue(value, `${kind}*`)
  }

  /** `kind`: what the plan depends on. No JSON begins with a question mark. */
  #addValue (value: Json, kind: string): void {
    this.#key += `?${kind}`
    this.#values.push(value)
    this.#paths.push([...this.#path])
  }

  #addFixed (value: Json): void {
    if (!this.#isRefused()) this.#key += JSON.stringify(value)
  }
}

/** Rows of an insert; undefined unless all name the same columns and have no references. */
function readInserted (rows: readonly Json[]): AlikeRows | undefined {
  if (!rows.every(isObject) || mayRefer(rows)) return undefined
  const [run, ...others] = findRuns(rows)
  return run === undefined || run.columns.length === 0 || others.length > 0
    ? undefined
    : { shape: JSON.stringify(run.columns), rows }
}

/** Members that are a number of rows. */
const COUNTS: ReadonlySet<string> = new Set(['limit', 'offset'])

/** The kinds of operands that are lists of scalars. */
const LISTS: ReadonlySet<string> = new Set(['list', 'nonEmptyList', 'keys'])

/** Whether a value is a text or a number; undefined for any other value, such as a reference. */
function readKind (value: Json): 'text' | 'number' | undefined {
  if (typeof value === 'string') return isData(value) ? 'text' : undefined
  return isNumber(value) ? 'number' : undefined
}
