/**
 * The rows of a parameter: as the fields that operations read, and, for an upload, as the texts
 * that its statements take.
 */
import { has, isObject, writeJson, type Json, type JsonObject } from '../json/parse.ts'
import type { ColumnPath } from '../plan/nodes.ts'
import type { RowsDocument } from '../plan/plan.ts'
import type { PathIssue } from './issues.ts'
import type { WriteIssue } from '../values/issue.ts'
import { writeRow, type ReportMember, type RowMembers, type WrittenRows } from '../values/rows.ts'

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

export class RowCollector {
  /** undefined: no row is inserted as it is. */
  readonly #rows: RowTexts | undefined
  readonly #documents: ReadonlyArray<{
    readonly fields: RowsDocument['fields'],
    readonly rows: RowTexts
  }>

  #columns: readonly string[] | undefined

  /** `inserted`: the members of rows that are inserted as they are; undefined if none are. */
  constructor (
    documents: ReadonlyArray<RowsDocument & { readonly members: readonly RowMembers[] }>,
    inserted: readonly RowMembers[] | undefined
  ) {
    this.#documents = documents.map(({ fields, members }) =>
      ({ fields, rows: new RowTexts(members) }))
    this.#rows = inserted && new RowTexts(inserted)
  }

  /**
   * Adds a row. Returns why it cannot be inserted together with those before it. `refuse` gets a
   * value that the type of its column refuses, and its path in the row.
   */
  add (row: JsonObject, text: Buffer, refuse: RefuseValue): string | undefined {
    if (this.#rows !== undefined) {
      const problem = this.#addColumns(row)
      if (problem !== undefined) return problem
      this.#rows.add(row, ({ name }, issue) => refuse([name], issue), text)
    }
    for (const { fields, rows } of this.#documents) {
      const read = readFields(row, fields)
      rows.add(read, (member, issue) => {
        const { path } = fields.find(({ name }) => name === member.name) as typeof fields[number]
        refuse([path.column, ...path.keys], issue)
      })
    }
    return undefined
  }

  finish (): CollectedRows {
    return {
      columns: this.#columns,
      rows: this.#rows?.finish() ?? [],
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
    return undefined
  }
}

/** Rows in the texts that the statements take. */
class RowTexts {
  readonly #texts: ReadonlyArray<{ readonly members: RowMembers, readonly list: ListText }>

  /** If no statement takes them, they are kept as they are. */
  constructor (members: readonly RowMembers[]) {
    const all = members.length === 0 ? [[]] : members
    this.#texts = all.map(members => ({ members, list: new ListText() }))
  }

  /** `text`: that of the row as it is, if it is known. */
  add (row: JsonObject, report: ReportMember, text?: Buffer): void {
    for (const { members, list } of this.#texts) {
      const written = writeRow(row, members, report)
      list.add(written === row && text !== undefined ? text : Buffer.from(JSON.stringify(written)))
    }
  }

  finish (): readonly WrittenRows[] {
    return this.#texts.map(({ members, list }) => ({ members, text: list.finish() }))
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
