/**
 * Reads the rows of an upload while they arrive, one JSON object a line or CSV, and checks each one
 * at once. The first faulty line ends the upload. Of the rows only their text is kept.
 */
import { failure, type Failure } from '../errors/catalogue.ts'
import { isDeep, parseJson, parseLines, type Json, type JsonObject } from '../json/parse.ts'
import type { PlannedBatch } from '../plan/plan-batch.ts'
import { describeIssue } from '../values/describe.ts'
import type { MembersByPosition } from '../values/rows.ts'
import type { WriteIssue } from '../values/issue.ts'
import { CsvReader, type UploadProblem, type UploadRow, type UploadRows } from './csv.ts'
import { refuse, type PathIssue } from './issues.ts'
import type { NamedBatch } from './named-batch.ts'
import type { RowCollector } from './rows.ts'
import { findUploadTarget, readQuery, type UploadTarget } from './upload-parameters.ts'

interface UploadLimits {
  readonly maxUploadRows: number
  /** Maximum bytes of a line. */
  readonly maxLineBytes: number
  /** Maximum bytes of all rows as JSON, which may be many times the bytes of their CSV. */
  readonly maxBytes: number
}

/** The failure of an upload that is too large. `form`: in which it has these bytes. */
export function uploadTooLarge (maxBytes: number, form = ''): Failure {
  return failure(
    'body_too_large',
    `The upload has more than ${maxBytes} bytes${form}. Divide its rows.`
  )
}

interface UploadOptions {
  readonly query: string
  readonly isCsv: boolean
  readonly members: MembersByPosition
}

export class Upload {
  /** The bytes of the rows so far, as JSON. */
  bytes = 0
  readonly #batch: NamedBatch
  readonly #target: UploadTarget
  readonly #limits: UploadLimits
  readonly #reader: CsvReader | LineReader
  readonly #rows: RowCollector
  /** All parameters, without the rows. */
  readonly #values: JsonObject
  #count = 0
  /** The line that is read, from 1. */
  #line = 0

  /**
   * `query`: the other parameters, as they follow `?`. `members`: what the statements take of the
   * rows. Throws `content_type_unsupported` if the batch takes no uploads, and `params_invalid`
   * with every issue of the query.
   */
  constructor (
    batch: NamedBatch,
    { query, isCsv, members }: UploadOptions,
    limits: UploadLimits
  ) {
    this.#batch = batch
    this.#target = findUploadTarget(batch)
    this.#limits = limits
    this.#values = { ...readQuery(query, this.#target), [this.#target.name]: [] }
    refuse(this.#target.parameters.check(this.#values))
    this.#rows = batch.planner.collectRows(members)
    this.#reader = isCsv
      ? new CsvReader(this.#target.columns, limits.maxLineBytes)
      : new LineReader(limits.maxLineBytes)
  }

  /**
   * Reads the next bytes. Throws `body_invalid`, `params_invalid` or `value_invalid`.
   */
  read (chunk: Buffer): void {
    this.#addRows(this.#reader.read(chunk))
  }

  /** Called when all bytes were read. Throws what `read` throws. */
  async end (): Promise<void> {
    this.#addRows(await this.#reader.finish())
  }

  /** Plans the batch after `end`. Throws `params_invalid`. */
  finish (): PlannedBatch {
    const { name, minItems } = this.#target
    if (this.#count < minItems) {
      const message = `"${name}" has ${this.#count} rows; at least ${minItems} are required.`
      refuse([{ path: [name], message }])
    }
    const { parameters, planner } = this.#batch
    return planner.planUpload(parameters.read(this.#values), this.#rows.finish())
  }

  /** Lines that are valid are parsed together. Otherwise the first faulty one is looked for. */
  #addRows ({ rows, problem }: UploadRows): void {
    const parsed = parseLines(rows.map(({ text }) => text))
    for (const [i, { text, line }] of rows.entries()) {
      this.#count++
      this.#line = line
      this.#checkCount()
      this.#addRow(parsed === undefined ? this.#parse(text) : parsed[i] as Json, text)
    }
    if (problem !== undefined) this.#refuseProblem(problem)
  }

  #addRow (row: Json, text: Buffer): void {
    this.bytes += text.length
    const { maxBytes } = this.#limits
    if (this.bytes > maxBytes) throw uploadTooLarge(maxBytes, ' as JSON')
    const { name, rows } = this.#target
    const issues = [...rows.check({ [name]: [row] })]
    if (issues.length > 0) this.#refuseRow(issues)
    // The schema accepts only objects.
    const problem = this.#rows.add(row as JsonObject, text, (path, issue) =>
      this.#refuseValue(path, issue))
    if (problem !== undefined) this.#refuseRow([{ path: this.#path(0), message: problem }])
  }

  #path (index: number): PathIssue['path'] {
    return [this.#target.name, index]
  }

  #checkCount (): void {
    const { maxItems } = this.#target
    const { maxUploadRows } = this.#limits
    if (this.#count <= Math.min(maxItems, maxUploadRows)) return
    const limit = maxItems < maxUploadRows
      ? `at most ${maxItems} rows are allowed.`
      : `at most ${maxUploadRows} rows are allowed (MAX_UPLOAD_ROWS).`
    this.#refuseRow([{ path: this.#path(0), message: `There is a further row; ${limit}` }])
  }

  #parse (bytes: Buffer): Json {
    try {
      const row = parseJson(bytes)
      const isTooDeep = typeof row === 'object' && row !== null && isDeep(row)
      if (!isTooDeep) return row
    } catch (error) {
      const { message } = error as Failure
      throw this.#invalid(message.replace('The body', 'it').replace('line 1, ', ''))
    }
    return this.#refuseRow([{ path: this.#path(0), message: 'The row is nested too deeply.' }])
  }

  #refuseProblem ({ line, of, message }: UploadProblem): never {
    this.#line = line
    if (of === 'line') throw this.#invalid(message)
    const path = of === 'header' ? [this.#target.name] : [this.#target.name, this.#count, of.column]
    return refuse([{ path, message }], line) as never
  }

  #invalid (problem: string): Failure {
    const line = this.#line
    return failure('body_invalid', `Line ${line} cannot be read: ${problem}`, { line })
  }

  #refuseValue (steps: PathIssue['path'], issue: WriteIssue): never {
    const path = [...this.#path(this.#count - 1), ...steps, ...issue.path]
    const name = JSON.stringify(steps.join('.'))
    const message = `Line ${this.#line}, ${name}: ${describeIssue(issue)}`
    throw failure('value_invalid', message, { path, line: this.#line, retryable: false })
  }

  /** Throws `params_invalid`. The row is the first one in the paths of the issues. */
  #refuseRow (issues: readonly PathIssue[]): never {
    const { name } = this.#target
    const element = `Element 0 of "${name}"`
    const moved = issues.map(({ path: [, , ...rest], message }) => ({
      path: [...this.#path(this.#count - 1), ...rest],
      message: message.replace(element, 'The row')
    }))
    return refuse(moved, this.#line) as never
  }
}

const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

function isEmpty (line: Buffer): boolean {
  return line.length === 0 || (line.length === 1 && line[0] === CARRIAGE_RETURN)
}

/**
 * Reads the lines of an upload of JSON, of which an empty one is not a row. In UTF-8, no part of
 * another character is a line feed, so lines are found before they are decoded.
 */
class LineReader {
  readonly #maxBytes: number
  /** The parts of a line whose end has not arrived. */
  #parts: Buffer[] = []
  #length = 0
  /** The lines that were read. */
  #count = 0

  constructor (maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Returns the rows that end in a chunk. */
  read (chunk: Buffer): UploadRows {
    const rows: UploadRow[] = []
    let start = 0
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, start)
      const part = chunk.subarray(start, end < 0 ? chunk.length : end)
      this.#parts.push(part)
      this.#length += part.length
      if (this.#length > this.#maxBytes) {
        const message = `it has more than ${this.#maxBytes} bytes (MAX_BODY_BYTES).`
        return { rows, problem: { line: this.#count + 1, of: 'line', message } }
      }
      if (end < 0) return { rows }
      rows.push(...this.#end())
      start = end + 1
    }
  }

  /** Reads the last line, if it does not end with a line feed. */
  finish (): UploadRows {
    return { rows: this.#end() }
  }

  #end (): readonly UploadRow[] {
    const [first = EMPTY, ...more] = this.#parts
    const text = more.length === 0 ? first : Buffer.concat(this.#parts)
    this.#parts = []
    this.#length = 0
    this.#count++
    return isEmpty(text) ? [] : [{ text, line: this.#count }]
  }
}

const EMPTY = Buffer.alloc(0)
