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
import { CsvReader, type CsvProblem, type CsvRow, type CsvRows } from './csv.ts'
import { describeIssues, refuse, type PathIssue } from './issues.ts'
import type { NamedBatch } from './named-batch.ts'
import type { RowCollector } from './rows.ts'
import { findUploadTarget, readQuery, type UploadTarget } from './upload-parameters.ts'

export interface UploadLimits {
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
  readonly #lines: Lines
  /** undefined: the lines are JSON. */
  readonly #csv: CsvReader | undefined
  #lastRows: CsvRows = { rows: [], problem: undefined }
  readonly #rows: RowCollector
  /** All parameters, with a list of the row that is checked. */
  readonly #sample: JsonObject
  readonly #list: Json[] = []
  #count = 0
  /** The lines of JSON that were read. */
  #linesRead = 0
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
    const { values, issues } = readQuery(query, this.#target)
    refuse(issues)
    this.#sample = { ...values, [this.#target.name]: this.#list }
    refuse(this.#target.parameters.check(this.#sample))
    this.#rows = batch.planner.collectRows(members)
    this.#csv = isCsv ? new CsvReader(this.#target.columns, limits.maxLineBytes) : undefined
    this.#lines = new Lines(limits.maxLineBytes, before => this.#refuseLength(before))
  }

  /**
   * Reads the next bytes. Throws `body_invalid`, `params_invalid` or `value_invalid`.
   */
  read (chunk: Buffer): void {
    if (this.#csv === undefined) this.#addJson(this.#lines.read(chunk))
    else this.#addRows(this.#csv.read(chunk))
  }

  /** Called when all bytes were read. */
  async end (): Promise<void> {
    if (this.#csv !== undefined) this.#lastRows = await this.#csv.finish()
  }

  /** Plans the batch after `end`. Throws what `read` throws. */
  finish (): PlannedBatch {
    this.#addJson(this.#lines.finish())
    this.#addRows(this.#lastRows)
    const { name, minItems } = this.#target
    if (this.#count < minItems) {
      const message = `"${name}" has ${this.#count} rows; at least ${minItems} are required.`
      refuse([{ path: [name], message }])
    }
    const { parameters, planner } = this.#batch
    return planner.planUpload(parameters.read(this.#sample), this.#rows.finish())
  }

  #addRows ({ rows, problem }: CsvRows): void {
    this.#addLines(rows)
    if (problem !== undefined) this.#refuseCsv(problem)
  }

  /** Adds lines of JSON. An empty one is not a row. */
  #addJson (lines: readonly Buffer[]): void {
    const rows: CsvRow[] = []
    for (const text of lines) {
      this.#linesRead++
      if (!isEmpty(text)) rows.push({ text, line: this.#linesRead })
    }
    this.#addLines(rows)
  }

  /** Lines that are valid are parsed together. Otherwise the first faulty one is looked for. */
  #addLines (lines: readonly CsvRow[]): void {
    const rows = parseLines(lines.map(({ text }) => text))
    for (const [i, { text, line }] of lines.entries()) {
      this.#count++
      this.#line = line
      this.#checkCount()
      this.#addRow(rows === undefined ? this.#parse(text) : rows[i] as Json, text)
    }
  }

  #addRow (row: Json, text: Buffer): void {
    this.bytes += text.length
    const { maxBytes } = this.#limits
    if (this.bytes > maxBytes) throw uploadTooLarge(maxBytes, ' as JSON')
    this.#list[0] = row
    const { parameters } = this.#target
    const issues = [...parameters.check(this.#sample)]
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

  #refuseLength (before: readonly Buffer[]): never {
    // One of them may be faulty.
    this.#addJson(before)
    this.#line = this.#linesRead + 1
    throw this.#invalid(`it has more than ${this.#limits.maxLineBytes} bytes (MAX_BODY_BYTES).`)
  }

  #refuseCsv ({ line, of, message }: CsvProblem): never {
    this.#line = line
    if (of === 'csv') throw this.#invalid(message)
    const path = of === 'header' ? [this.#target.name] : [this.#target.name, this.#count, of.column]
    throw describeIssues([{ path, message }], line)
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
    const refused = describeIssues(moved, this.#line) as Failure
    throw refused
  }
}

const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

function isEmpty (line: Buffer): boolean {
  return line.length === 0 || (line.length === 1 && line[0] === CARRIAGE_RETURN)
}

/**
 * Divides bytes that arrive in chunks into lines. In UTF-8, no part of another character is a line
 * feed, so lines are found before they are decoded.
 */
class Lines {
  readonly #maxBytes: number
  /** Throws for a line of more than `maxBytes`. `before`: the lines before it in its chunk. */
  readonly #tooLong: (before: readonly Buffer[]) => never
  /** The parts of a line whose end has not arrived. */
  #parts: Buffer[] = []
  #length = 0

  constructor (maxBytes: number, tooLong: (before: readonly Buffer[]) => never) {
    this.#maxBytes = maxBytes
    this.#tooLong = tooLong
  }

  /** Returns the lines that end in a chunk, without their line feeds. */
  read (chunk: Buffer): readonly Buffer[] {
    const lines: Buffer[] = []
    let start = 0
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, start)
      const part = chunk.subarray(start, end < 0 ? chunk.length : end)
      if (this.#length + part.length > this.#maxBytes) this.#tooLong(lines)
      if (end < 0) {
        this.#keep(part)
        return lines
      }
      lines.push(this.#join(part))
      start = end + 1
    }
  }

  /** Returns the last line, if it does not end with a line feed. */
  finish (): readonly Buffer[] {
    return this.#length === 0 ? [] : [this.#join(Buffer.alloc(0))]
  }

  #keep (part: Buffer): void {
    if (part.length === 0) return
    this.#parts.push(part)
    this.#length += part.length
  }

  #join (last: Buffer): Buffer {
    if (this.#parts.length === 0) return last
    const line = Buffer.concat([...this.#parts, last])
    this.#parts = []
    this.#length = 0
    return line
  }
}
