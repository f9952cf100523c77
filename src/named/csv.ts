/**
 * Reads the rows of an upload from CSV (RFC 4180, with a header) as lines of JSON, whose values
 * have the types that the schema of the rows names. As for PostgreSQL's COPY, an empty field is
 * NULL, and a quoted one is the empty text.
 */
import { isUtf8 } from 'node:buffer'
import { once } from 'node:events'
import { parse, type CsvError, type Parser } from 'csv-parse'
import { mediaTypes } from '../../schemas/http.ts'
import type { JsonObject } from '../json/parse.ts'
import { scalarTypeOf, writeScalar, type ScalarType } from './upload-parameters.ts'

/** A row as JSON, and the line of the body where it ends. */
export interface UploadRow {
  readonly text: Buffer
  readonly line: number
}

/** What is wrong: with the line itself, with the header of CSV, or with the value of a column. */
export interface UploadProblem {
  readonly line: number
  readonly of: 'line' | 'header' | { readonly column: string }
  readonly message: string
}

/** What a part of an upload contains. */
export interface UploadRows {
  readonly rows: readonly UploadRow[]
  /** What follows these rows and is faulty. */
  readonly problem?: UploadProblem | undefined
}

/** NULL is undefined. */
type Fields = ReadonlyArray<Buffer | undefined>

interface Column {
  readonly name: string
  readonly type: ScalarType
}

const BYTE_ORDER_MARK = Buffer.from('\uFEFF')

export class CsvReader {
  readonly #parser: Parser
  /** The schemas of the columns that a row may have. */
  readonly #schemas: ReadonlyMap<string, JsonObject>
  #columns: readonly Column[] | undefined
  #rows: UploadRow[] = []
  #problem: UploadProblem | undefined
  #isBegun = false
  /** The carriage returns in fields so far. csv-parse counts each as the end of a line. */
  #returns = 0

  constructor (schemas: ReadonlyMap<string, JsonObject>, maxRecordBytes: number) {
    this.#schemas = schemas
    this.#parser = parse({
      // Fields are bytes, so that an invalid one can be refused.
      encoding: null,
      record_delimiter: ['\r\n', '\n'],
      skip_empty_lines: true,
      max_record_size: maxRecordBytes,
      cast: (field, { quoting }) => quoting || field.length > 0 ? field : undefined,
      on_record: (fields, { lines }) => {
        this.#returns += countReturns(fields as unknown as Fields)
        if (this.#problem === undefined) {
          this.#add(fields as unknown as Fields, lines - this.#returns)
        }
        return null
      }
    })
    // It is read from `errored`.
    this.#parser.on('error', () => {})
  }

  /** Returns the rows that end in a chunk. */
  read (chunk: Buffer): UploadRows {
    const hasMark = !this.#isBegun && chunk.subarray(0, 3).equals(BYTE_ORDER_MARK)
    this.#isBegun = true
    this.#parser.write(hasMark ? chunk.subarray(3) : chunk)
    return this.#take()
  }

  /** Reads the last row, if it does not end with a line feed. */
  async finish (): Promise<UploadRows> {
    this.#parser.end()
    this.#parser.resume()
    if (this.#parser.errored === null) await once(this.#parser, 'close').catch(() => {})
    const read = this.#take()
    // A body that was cut at its beginning has no header.
    const isEmpty = read.problem === undefined && this.#columns === undefined
    return isEmpty ? { ...read, problem: NO_HEADER } : read
  }

  #take (): UploadRows {
    const rows = this.#rows
    this.#rows = []
    return { rows, problem: this.#problem ?? this.#describeError() }
  }

  #describeError (): UploadProblem | undefined {
    const error = this.#parser.errored as CsvError | null
    if (error === null) return undefined
    // The other codes belong to options that are not used.
    const message = MESSAGES[error.code] as string
    // csv-parse copies its buffers as JSON.
    const record = (error['record'] ?? []) as ReadonlyArray<{ readonly data: number[] } | null>
    const fields = record.map(field => field === null ? undefined : Buffer.from(field.data))
    const returns = this.#returns + countReturns(fields)
    return { line: error['lines'] as number - returns, of: 'line', message }
  }

  #add (fields: Fields, line: number): void {
    if (!fields.every(field => field === undefined || isUtf8(field))) {
      this.#problem = { line, of: 'line', message: 'it is not UTF-8.' }
    } else if (this.#columns === undefined) this.#readHeader(fields, line)
    else this.#addRow(fields, this.#columns, line)
  }

  #readHeader (fields: Fields, line: number): void {
    const known = [...this.#schemas.keys()].join(', ')
    const columns = new Map<string, Column>()
    for (const field of fields) {
      const name = field?.toString() ?? ''
      const schema = this.#schemas.get(name)
      const type = schema === undefined ? undefined : scalarTypeOf(schema)
      if (type !== undefined && !columns.has(name)) {
        columns.set(name, { name, type })
        continue
      }
      const message = schema === undefined
        ? `The header names ${JSON.stringify(name)}, which rows do not have. Columns: ${known}.`
        : columns.has(name)
          ? `The header names "${name}" twice.`
          : `"${name}" cannot be sent as CSV: its schema names no single type among string, ` +
            `integer, number and boolean. Send the rows as ${mediaTypes.ndjson}.`
      this.#problem = { line, of: 'header', message }
      return
    }
    this.#columns = [...columns.values()]
  }

  #addRow (fields: Fields, columns: readonly Column[], line: number): void {
    const members: string[] = []
    for (const [i, { name, type }] of columns.entries()) {
      const text = fields[i]?.toString()
      const value = text === undefined ? 'null' : writeScalar(type, text)
      if (value === undefined) {
        const article = type === 'integer' ? 'an' : 'a'
        const message = `"${name}" must be ${article} ${type}, as JSON writes it.`
        this.#problem = { line, of: { column: name }, message }
        return
      }
      members.push(`${JSON.stringify(name)}:${value}`)
    }
    this.#rows.push({ text: Buffer.from(`{${members.join()}}`), line })
  }
}

/** The messages of csv-parse quote data. */
const MESSAGES: Readonly<Record<string, string>> = {
  CSV_RECORD_INCONSISTENT_FIELDS_LENGTH: 'it has more or fewer fields than the header.',
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed.',
  INVALID_OPENING_QUOTE: 'a field with a quote must be quoted as a whole.',
  CSV_INVALID_CLOSING_QUOTE: 'a quoted field must end with its quote; a quote in it is doubled.',
  CSV_MAX_RECORD_SIZE: 'it is longer than MAX_BODY_BYTES.'
}

const NO_HEADER: UploadProblem = {
  line: 1,
  of: 'line',
  message: 'the header is missing; it names the columns of the rows.'
}

const CARRIAGE_RETURN = 0x0d

function countReturns (fields: Fields): number {
  let count = 0
  for (const field of fields) {
    for (let i = -1; (i = field?.indexOf(CARRIAGE_RETURN, i + 1) ?? -1) !== -1;) count++
  }
  return count
}
