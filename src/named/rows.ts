/**
 * The rows of a parameter: as the fields that operations read, and, for an upload, as the texts
 * that its statements take.
 */
import { has, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { ColumnPath } from '../plan/nodes.ts'
import type { RowsDocument } from '../plan/plan.ts'
import type { PathIssue } from './issues.ts'
import type { WriteIssue } from '../values/issue.ts'
import { writeRow, type RowMembers, type WrittenRows } from '../values/rows.ts'

/** The values of the fields of a row. A missing one is null. Names are those of `fieldName`. */
export function readFields (row: JsonObject, fields: RowsDocument['fields']): JsonObject {
  const read: Record<string, Json> = {}
  for (const { name, path } of fields) read[name] = readValue(row, path)
  return read
}

/** Reads a value as PostgreSQL does with `->` and `->>`. */
function readValue (row: JsonObject, { column, keys, resultType }: ColumnPath): Json {
  let value = readStep(row, column)
  for (const key of keys) value = readStep(value, key)
  if (resultType !== 'text' || value === null || typeof value === 'string') return value
  return writeJson(value)
}

/** A number is a position in an array, from its end if it is negative. */
function readStep (value: Json, key: string | number): Json {
  if (typeof key === 'number') {
    return Array.isArray(value) ? (value as readonly Json[]).at(key) ?? null : null
  }
  return isObject(value) && has(value, key) ? value[key] as Json : null
}

// Collects the rows of an upload as texts, and which columns they have, on which the plan depends.
// The rows themselves are not kept.

/** What is known of the rows. */
export interface CollectedRows {
  /** The columns that all rows have; undefined: no row is inserted as it is. */
  readonly columns: readonly string[] | undefined
  /** The rows as they are inserted. */
  readonly rows: readonly WrittenRows[]
  /** The same rows as each document of the plan takes them. */
  readonly documents: ReadonlyArray<readonly WrittenRows[]>
}

type RefuseValue = (path: PathIssue['path'], issue: WriteIssue) => void

/** Rows as a statement takes them: their fields, or as they are, in the types of these members. */
interface TakenRows {
  readonly fields: RowsDocument['fields'] | undefined
  readonly members: RowMembers
  readonly list: ListText
}

export class RowCollector {
  /** undefined: no row is inserted as it is. */
  readonly #inserted: readonly TakenRows[] | undefined
  readonly #documents: ReadonlyArray<readonly TakenRows[]>
  readonly #all: readonly TakenRows[]
  #columns: readonly string[] | undefined

  /** `inserted`: the members of rows that are inserted as they are; undefined if none are. */
  constructor (
    documents: ReadonlyArray<RowsDocument & { readonly members: readonly RowMembers[] }>,
    inserted: readonly RowMembers[] | undefined
  ) {
    this.#inserted = inserted && takeRows(inserted)
    this.#documents = documents.map(({ fields, members }) => takeRows(members, fields))
    this.#all = [...this.#inserted ?? [], ...this.#documents.flat()]
  }

  /**
   * Adds a row. Returns why it cannot be inserted together with those before it. `refuse` gets a
   * value that the type of its column refuses, and its path in the row.
   */
  add (row: JsonObject, text: Buffer, refuse: RefuseValue): string | undefined {
    const problem = this.#inserted && this.#addColumns(row)
    if (problem !== undefined) return problem
    for (const { fields, members, list } of this.#all) {
      const read = fields === undefined ? row : readFields(row, fields)
      const written = writeRow(read, members, ({ name }, issue) => {
        const path = fields?.find(field => field.name === name)?.path
        refuse(path === undefined ? [name] : [path.column, ...path.keys], issue)
      })
      list.add(written === row ? text : Buffer.from(JSON.stringify(written)))
    }
    return undefined
  }

  finish (): CollectedRows {
    const finishAll = (rows: readonly TakenRows[]): readonly WrittenRows[] =>
      rows.map(({ members, list }) => ({ members, text: list.finish() }))
    return {
      columns: this.#columns,
      rows: finishAll(this.#inserted ?? []),
      documents: this.#documents.map(finishAll)
    }
  }

  #addColumns (row: JsonObject): string | undefined {
    const names = Object.keys(row)
    if (names.length === 0) return 'The row must have a column.'
    const columns = this.#columns ??= names.toSorted()
    if (names.length !== columns.length || !columns.every(column => has(row, column))) {
      return `The row must have the columns of the first row: ${columns.join(', ')}.`
    }
    return undefined
  }
}

/** If no statement takes the rows, they are kept as they are. */
function takeRows (
  all: readonly RowMembers[],
  fields?: RowsDocument['fields']
): readonly TakenRows[] {
  const known = all.length === 0 ? [[]] : all
  return known.map(members => ({ fields, members, list: new ListText() }))
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
