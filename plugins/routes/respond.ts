/**
 * Sends the response of a batch: its rows, or its failure. The rows that PostgreSQL rendered are
 * sent unchanged, without parsing.
 */
import { Readable } from 'node:stream'
import { constants } from 'node:zlib'
import type { FastifyCompressOptions } from '@fastify/compress'
import type { FastifyReply } from 'fastify'
import { enabled } from '../../schemas/prefer.ts'
import type { Plan } from '../../src/plan/plan.ts'
import type { Committed } from '../../src/transaction/outcome.ts'
import type { BatchReport, OperationReport } from '../../src/transaction/report.ts'
import type { BatchResult } from '../../src/transaction/run-batch.ts'

export interface Answer {
  readonly plan: Plan
  readonly result: BatchResult
  /** When its headers and its body had arrived: times of performance.now(). */
  readonly times: { readonly received: number, readonly read: number }
}

/** Sends the response, or throws the failure. */
export function respond (reply: FastifyReply, answer: Answer): FastifyReply {
  const { rows } = readOutcome(reply, answer)
  return sendBody(reply, renderBody(answer.plan, rows))
}

/** Sets the headers of the response. Returns the outcome, or throws the failure. */
export function readOutcome (reply: FastifyReply, { result, times }: Answer): Committed {
  if (reply.request.preferences.timing === enabled) {
    reply.header('server-timing', renderTiming(times, result))
  }
  if (result.failure !== undefined) throw result.failure
  const outcome = result.outcome as Committed
  const { replayed, txid, position } = outcome
  if (replayed === true) reply.header('idempotent-replayed', 'true')
  if (txid !== undefined) {
    reply.header('oneflight-txid', txid)
    reply.header('oneflight-xid', String(BigInt.asUintN(32, BigInt(txid))))
  }
  if (position !== undefined) reply.header('oneflight-position', position)
  return outcome
}

/**
 * From this many bytes on, a response is sent in pieces: as one piece, a response of 51 MB took 3
 * times its size in memory at the peak, in pieces twice its size.
 */
const manyBytes = 256 * 1024

export function sendBody (reply: FastifyReply, pieces: readonly Buffer[]): FastifyReply {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  return reply
    .type('application/json; charset=utf-8')
    .header('content-length', length)
    .send(length < manyBytes ? Buffer.concat(pieces, length) : Readable.from(pieces))
}

/**
 * `<head>"<op id>":[row, …], …}}`, in pieces. `head` opens two objects; `rows` are JSON arrays
 * (counts with `return=minimal`), one an operation, in the order of the plan.
 */
export function renderBody (
  plan: Plan,
  rows: readonly Buffer[],
  head = '{"error":null,"data":{'
): readonly Buffer[] {
  const pieces: Buffer[] = []
  for (const [i, { id }] of plan.operations.entries()) {
    // An operation id is an identifier: ASCII that needs no escaping in JSON.
    pieces.push(Buffer.from(`${i === 0 ? head : ','}"${id}":`, 'latin1'), rows[i] as Buffer)
  }
  return [...pieces, TAIL]
}

const TAIL = Buffer.from('}}')

/**
 * Maximum number of operations in the header. Of more, the slowest are named, because clients limit
 * headers to 16 KiB or less.
 */
const MOST_OPERATIONS = 20
/** Maximum length of an id. Longer ones are left out. */
const LONGEST_ID = 63

/**
 * The value of `Server-Timing` (W3C), in milliseconds. Without a report nothing was run: the
 * response was stored with its key, or its key was refused.
 */
function renderTiming (
  { received, read }: Answer['times'],
  { report, compiledAt: compiled, answeredAt: answered }: BatchResult
): string {
  const took = report === undefined
    ? [entry('key', answered - compiled)]
    : [entry('wait', report.since - compiled), ...describe(report, answered)]
  return [
    entry('request', read - received),
    entry('plan', compiled - read),
    ...took,
    entry('total', answered - received)
  ].join(', ')
}

/** `wait` ends when the statements of the last attempt are sent, `commit` where `total` does. */
function describe (
  { since, ms, sessionMs = ms, operations }: BatchReport,
  answered: number
): readonly string[] {
  const slowest = new Set(
    operations.toSorted((one, other) => other.ms - one.ms).slice(0, MOST_OPERATIONS)
  )
  const named = operations.flatMap((operation, index) =>
    slowest.has(operation) ? [renderOperation(operation, index)] : []
  )
  const rest = operations.reduce((rest, { ms }) => rest - ms, answered - since - sessionMs)
  return [entry('session', sessionMs), ...named, entry('commit', rest)]
}

function renderOperation ({ id, ms }: OperationReport, index: number): string {
  // An operation id is an identifier: nothing in it needs an escape.
  return `${entry(`op${index}`, ms)}${id.length > LONGEST_ID ? '' : `;desc="${id}"`}`
}

function entry (name: string, ms: number): string {
  return `${name};dur=${Math.max(0, Math.round(ms * 1000) / 1000)}`
}

/**
 * How responses of batches are compressed (COMPRESSION=on). Measured on loopback, CPU time of the
 * service and latency of one request: 11 KB took 0.65 ms and 1.5 ms unchanged, 0.84 ms and 1.9 ms
 * with gzip; 112 KB took 1.6 ms and 3.6 ms unchanged, 3.3 ms and 5.4 ms with gzip. So a client
 * gains only on links below about 200 Mbit/s.
 */
export const compression: FastifyCompressOptions = {
  // A body with a Content-Encoding is refused; media-type.ts does it.
  globalDecompression: false,
  // For clients without a preference: Brotli takes half the CPU time of gzip from 100 KB on.
  encodings: ['br', 'gzip'],
  // Smaller responses fit into the first packets of a connection (RFC 6928).
  threshold: 10_240,
  // Bodies in one piece. As a stream, 11 KB took 1.5 times the CPU time.
  syncThreshold: manyBytes,
  // The fastest levels. Level 6 of gzip took twice the CPU time for 12 % fewer bytes.
  zlibOptions: { level: 1 },
  brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
}

/**
 * Aborted when the client closes the connection before it has its response, or has done so while
 * its batch was planned.
 */
export function clientClosed ({ raw }: Pick<FastifyReply, 'raw'>): AbortSignal {
  const controller = new AbortController()
  if (raw.destroyed) controller.abort()
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort()
  })
  return controller.signal
}
