/**
 * Collects the rows of an upload as the texts that its statements take, and what the plan depends
 * on: which columns they have, and the shapes of their values. The rows themselves are not kept.
 */
import { has, type Json, type JsonObject } from '../json/parse.ts'
import { keyOfPath, toPath } from '../plan/name.ts'
import type { RowsDocument } from '../plan/plan.ts'
import type { JsonShape } from '../plan/shape.ts'
import { leastCertain } from '../plan/stored-values.ts'
import { readFields, shapeOfData } from './row-values.ts'

/** What is known of the rows. */
export interface CollectedRows {
  /** The columns that all rows have; undefined: no row is inserted as it is. */
  readonly columns: readonly string[] | undefined
  /** The least certain shapes of values that are no scalars, by the keys of their paths. */
  readonly shapes: ReadonlyMap<string, JsonShape>
  /** The rows as a JSON array. */
  readonly text: readonly Buffer[]
  /** The same rows as each document of the plan takes them. */
  readonly documents: ReadonlyArray<readonly Buffer[]>
}

export class RowCollector {
  readonly #rows = new ListText()
  readonly #documents: ReadonlyArray<{
    readonly fields: RowsDocument['fields'],
    readonly rows: ListText
  }>

  readonly #shapes = new Map<string, JsonShape>()
  readonly #keepsRows: boolean
  #columns: readonly string[] | undefined

  /** `keepsRows`: the rows are needed as they are, and not only as documents. */
  constructor (documents: readonly RowsDocument[], keepsRows: boolean) {
    this.#documents = documents.map(({ fields }) => ({ fields, rows: new ListText() }))
    this.#keepsRows = keepsRows
  }

  /** Adds a row. Returns why it cannot be inserted together with those before it. */
  add (row: JsonObject, text: Buffer): string | undefined {
    if (this.#keepsRows) {
      const problem = this.#addColumns(row)
      if (problem !== undefined) return problem
      this.#rows.add(text)
    }
    for (const { fields, rows } of this.#documents) {
      const read = readFields(row, fields)
      for (const { name, path } of fields) {
        this.#addShape(keyOfPath(path), shapeOfData(read[name] as Json))
      }
      rows.add(Buffer.from(JSON.stringify(read)))
    }
    return undefined
  }

  finish (): CollectedRows {
    return {
      columns: this.#columns,
      shapes: this.#shapes,
      text: this.#rows.finish(),
      documents: this.#documents.map(({ rows }) => rows.finish())
    }
  }

  #addColumns (row: JsonObject): string | undefined {
    const names = Object.keys(row)
    if (names.length === 0) return 'The row must have a column.'
    const columns = this.#columns ??= names.toSorted()
    if (names.length !== columns.length || !columns.every(column => has(row, column))) {
      return `The row must have the columns of the first row: ${columns.join(', ')}.`
    }
    for (const column of columns) {
      const value = row[column]
      if (typeof value === 'object' && value !== null) {
        this.#addShape(keyOfPath(toPath(column)), shapeOfData(value))
      }
    }
    return undefined
  }

  #addShape (key: string, shape: JsonShape): void {
    if (shape === 'scalar') return
    this.#shapes.set(key, leastCertain(this.#shapes.get(key) ?? 'scalar', shape))
  }
}

const BLOCK_BYTES = 65_536
const OPEN = Buffer.from('[')
const CLOSE = Buffer.from(']')
const COMMA = 0x2c

/**
 * The text of a JSON array. Its elements are copied into blocks: as a hundred thousand strings,
 * they would take several times the memory.
 */
class ListText {
  readonly #blocks: Buffer[] = []
  #block = OPEN
  #end = OPEN.length

  /** Copies the text of an element. */
  add (element: Buffer): void {
    if (this.#end + element.length + 1 > this.#block.length) this.#open(element.length + 1)
    this.#end += element.copy(this.#block, this.#end)
    this.#block[this.#end++] = COMMA
  }

  finish (): readonly Buffer[] {
    // Without the last comma.
    const last = this.#block.subarray(0, this.#block === OPEN ? this.#end : this.#end - 1)
    return [...this.#blocks, last, CLOSE]
  }

  #open (bytes: number): void {
    this.#blocks.push(this.#block.subarray(0, this.#end))
    this.#block = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, bytes))
    this.#end = 0
  }
}
