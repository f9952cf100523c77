/**
 * What the server has answered to the statements of an attempt so far.
 */
import type { Connection } from '../postgres/connection.ts'
import { readRow, readStatementTimes, type StatementTimes } from '../postgres/wire-protocol.ts'
import type { TransactionId } from '../sql/frame/server-state.ts'
import type { Step } from '../sql/frame/steps.ts'
import { ROW_SEPARATOR } from '../sql/result.ts'
import type { AttemptTimes, RowSink } from './outcome.ts'
import { settleTimes } from './report.ts'

/** Stands for NULL. */
const NO_VALUE = Buffer.alloc(0)

const SEPARATOR = Buffer.from(ROW_SEPARATOR)

export class Answers {
  /** The JSON of each operation that was answered; with a sink, the number of its rows. */
  readonly rows: Buffer[] = []
  /** The server has answered that this transaction holds the idempotency key. */
  keyClaimed = false
  transactionId: TransactionId | undefined
  readonly #server: Connection['server']
  readonly #sink: RowSink | undefined
  /** When answers arrived. */
  readonly #arrived = {
    begun: undefined as number | undefined,
    sessionSet: undefined as number | undefined,
    operations: [] as number[],
    server: [] as Array<StatementTimes | undefined>
  }

  /** The first columns of the rows of each statement of an operation that is sent alone. */
  #parts: Buffer[][] = []
  /** The first columns of the rows of the current statement so far. */
  #cells: Buffer[] = []
  /** The times in the last of these rows. */
  #serverTimes: StatementTimes | undefined

  constructor (server: Connection['server'], sink: RowSink | undefined) {
    this.#server = server
    this.#sink = sink
  }

  /** Called when the statements are sent. */
  begin (): void {
    this.#arrived.begun = performance.now()
  }

  /** Returns false if the sink wants no more rows for now. */
  addRow (answer: Step['answer'], body: Buffer): boolean {
    const columns = readRow(body, 3)
    if (answer === 'session') this.#readTransactionId(columns)
    if (answer === 'operation') this.#serverTimes = readStatementTimes(columns)
    // Statements other than operations may return NULL.
    const cell = columns[0] ?? NO_VALUE
    const isRow = answer === 'operation' || answer === 'part'
    if (isRow && this.#sink !== undefined) return this.#sink.write(cell)
    this.#cells.push(cell)
    return true
  }

  #readTransactionId ([xid, ...more]: ReadonlyArray<Buffer | null>): void {
    if (xid == null) return
    // Without facts about the server the next two columns are its start and its clock.
    const [serverStarted, reportedAt] = this.#server === undefined
      ? more.map(String) as [string, string]
      : [this.#server.started, this.#server.openedAt]
    this.transactionId = { xid: String(xid), serverStarted, reportedAt }
  }

  /**
   * Completes a statement. Returns its first cell, empty if it returned no value; undefined for an
   * answer that PostgreSQL never gives.
   */
  complete ({ answer, statement }: Partial<Step>): Buffer | undefined {
    const cells = this.#cells
    const serverTimes = this.#serverTimes
    this.#cells = []
    this.#serverTimes = undefined
    const separateRows = statement?.separateRows === true
    const isOne = answer !== undefined && answer !== 'begin' && !separateRows
    if (isOne && cells.length !== 1) return undefined
    const [cell = NO_VALUE] = cells
    if (answer === 'claim') this.keyClaimed = true
    if (answer === 'session') this.#arrived.sessionSet = performance.now()
    if (answer === 'part') this.#parts.push(cells)
    if (answer !== 'operation') return cell
    const result = this.#sink === undefined
      ? separateRows ? joinRows(cells) : cell
      : Buffer.from(String(this.#sink.count))
    if (result === NO_VALUE) return undefined
    this.add(result, serverTimes)
    return cell
  }

  /** Adds the result of an operation. */
  add (result: Buffer, serverTimes?: StatementTimes): void {
    this.#arrived.operations.push(performance.now())
    this.#arrived.server.push(serverTimes)
    this.rows.push(result)
  }

  /** Returns the rows of each statement since the last call. */
  takeParts (): readonly (readonly Buffer[])[] {
    const parts = this.#parts
    this.#parts = []
    return parts
  }

  /** `count`: the number of operations. */
  times (count: number): AttemptTimes {
    return settleTimes(this.#arrived, count)
  }
}

/** Joins rows as json_agg does. */
export function joinRows (rows: readonly Buffer[]): Buffer {
  const parts = rows.flatMap((row, i) => i === 0 ? [row] : [SEPARATOR, row])
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')])
}
