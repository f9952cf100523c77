/**
 * Sends the rows of a select while PostgreSQL reads them, as newline-delimited JSON: a line for
 * each row, and a last line that says how it ended. While the client does not read, PostgreSQL
 * waits.
 */
import { Readable } from 'node:stream'
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler
} from 'fastify'
import type { Config } from '../../schemas/config.ts'
import { idleTimeoutMs } from '../../schemas/database.ts'
import { mediaTypes } from '../../schemas/http.ts'
import { enabled } from '../../schemas/prefer.ts'
import { failure, type Failure } from '../../src/errors/catalogue.ts'
import type { DescribeFailure } from '../../src/errors/envelope.ts'
import type { SelectNode } from '../../src/plan/nodes.ts'
import type { PlannedBatch } from '../../src/plan/plan-batch.ts'
import type { Plan } from '../../src/plan/plan.ts'
import type { Committed, RowSink } from '../../src/transaction/outcome.ts'
import { readAccept } from './accept.ts'
import { readOutcome, renderBody, respond, type Answer } from './respond.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Takes the rows of a request that prefers a stream. */
    rowSink: RowStream | undefined
  }
}

/** Bytes of rows that may wait for the client. */
const WAITING_BYTES = 256 * 1024
const LINE_FEED = 10
const CARRIAGE_RETURN = 13
const SPACE = 32
const LINE_END = Buffer.of(LINE_FEED)

class RowStream extends Readable implements RowSink {
  readonly maxRows: number
  readonly orJson: boolean
  count = 0
  onReady = (): void => {}
  /** Resolves when there is a row. */
  readonly begun: Promise<void>
  readonly #begin: () => void
  readonly #onStall: () => void
  #timer: NodeJS.Timeout | undefined
  #isWanted = true
  /** The rows of the current read with their line feeds. */
  #lines: Buffer[] = []

  /** `onStall` is called when the client has taken nothing for `idleTimeoutMs`. */
  constructor (
    { maxRows, orJson }: Pick<RowStream, 'maxRows' | 'orJson'>,
    onStall: () => void
  ) {
    super({ highWaterMark: WAITING_BYTES })
    this.maxRows = maxRows
    this.orJson = orJson
    this.#onStall = onStall
    const { promise, resolve } = Promise.withResolvers<void>()
    this.begun = promise
    this.#begin = resolve
  }

  write (json: Buffer): boolean {
    if (++this.count > this.maxRows) return true
    if (this.count === 1) this.#begin()
    // Line ends occur in json columns and between nested rows. In strings they are escaped.
    for (const end of [LINE_FEED, CARRIAGE_RETURN]) {
      for (let i = json.indexOf(end); i !== -1; i = json.indexOf(end, i + 1)) json[i] = SPACE
    }
    // All rows of a read are sent together.
    if (this.#lines.length === 0) queueMicrotask(() => this.#flush())
    this.#lines.push(json, LINE_END)
    return this.#isWanted
  }

  finish (line: string): void {
    this.#flush()
    this.push(`${line}\n`)
    this.push(null)
  }

  #flush (): void {
    if (this.#lines.length === 0) return
    this.#isWanted = this.push(Buffer.concat(this.#lines))
    this.#lines = []
    if (this.#isWanted) return
    this.#timer ??= setTimeout(this.#onStall, idleTimeoutMs)
  }

  override _read (): void {
    this.#stopTimer()
    this.#isWanted = true
    this.onReady()
  }

  override _destroy (error: Error | null, callback: (error?: Error | null) => void): void {
    this.#stopTimer()
    callback(error)
  }

  #stopTimer (): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

export function createRowStreams (
  app: FastifyInstance,
  { MAX_STREAM_ROWS: maxRows, POOL_SIZE: poolSize }: Config
) {
  const describe = app.getDecorator<DescribeFailure<FastifyRequest>>('describeFailure')
  const maxStreams = Math.max(1, Math.floor(poolSize / 2))
  /** Streams with a connection to the database, or waiting for one. */
  const streams = new Set<RowStream>()
  app.decorateRequest('rowSink', undefined)
  /** Gives a request its stream if it prefers one to JSON. Runs after Prefer and keys are read. */
  const acceptStreams: onRequestHookHandler = (request, reply, done) => {
    const { accept } = request.headers
    if (accept === undefined || accept === '*/*') return done()
    const weigh = readAccept(accept)
    const json = weigh(mediaTypes.json)
    if (weigh(mediaTypes.ndjson) <= json) return done()
    const refused = refuseRequest(request, maxRows)
    if (refused === undefined) {
      request.rowSink = new RowStream({ maxRows, orJson: json > 0 }, () => {
        request.access.failure = failure('deadline_exceeded', STALLED)
        reply.raw.destroy()
      })
    } else if (json === 0) throw refused
    done()
  }
  return {
    acceptStreams,
    /**
     * Decides whether a planned batch is streamed. If it cannot be, the request loses its stream,
     * or the failure is thrown if the client does not accept JSON. Throws `overloaded`.
     */
    admit (request: FastifyRequest, batch: PlannedBatch): PlannedBatch {
      const stream = request.rowSink as RowStream
      const refused = refusePlan(batch.plan)
      if (refused === undefined) {
        if (streams.size >= maxStreams) {
          throw failure('overloaded', 'Half of the connections stream rows to other clients.')
        }
        streams.add(stream)
        request.preferences = { ...request.preferences, access: 'read-only' }
      } else if (stream.orJson) {
        request.rowSink = undefined
      } else throw refused
      return batch
    },
    /**
     * Runs a batch and sends its stream, or JSON if it is not streamed. Throws the failure of the
     * batch if there is one before the first row.
     */
    async respond (reply: FastifyReply, run: () => Promise<Answer>): Promise<FastifyReply> {
      const { request } = reply
      const stream = request.rowSink as RowStream
      const running = run().finally(() => streams.delete(stream))
      await Promise.race([stream.begun, running])
      if (request.rowSink === undefined) return respond(reply, await running)
      if (stream.count === 0) readOutcome(reply, await running)
      running.then(renderEnd)
        .catch((error: unknown) => describe(error, request).body)
        .then(line => stream.finish(line))
      return reply.type(mediaTypes.ndjson).send(stream)
    }
  }
}

const STALLED = `The client did not read the stream for ${idleTimeoutMs / 1000} s.`

function refuseRequest (request: FastifyRequest, maxRows: number): Failure | undefined {
  if (maxRows === 0) {
    return failure('not_streamable', 'This service streams no rows (MAX_STREAM_ROWS=0).')
  }
  const { preferences, headers } = request
  const refused = preferences.return === 'minimal'
    ? 'Prefer: return=minimal'
    : preferences.explain === enabled
      ? 'Prefer: explain'
      : headers['idempotency-key'] !== undefined
        ? 'Idempotency-Key'
        : request.upload === undefined ? undefined : 'an upload'
  if (refused === undefined) return undefined
  return failure('not_streamable', `Rows cannot be streamed with ${refused}.`)
}

function refusePlan ({ operations }: Plan): Failure | undefined {
  const [node, ...more] = operations
  if (node?.kind !== 'select' || more.length > 0) {
    return failure('not_streamable', 'Only the rows of a batch of one select can be streamed.')
  }
  const { id: op, index } = node
  const member = findUnstreamable(node)
  if (member === undefined) return undefined
  return failure('not_streamable', `The rows of a select with ${member} cannot be streamed.`, {
    op,
    index
  })
}

function findUnstreamable ({ lock, expect, answersCount }: SelectNode): string | undefined {
  if (lock !== undefined) return '"lock"'
  if (expect !== undefined) return '"expect"'
  return answersCount === true ? '"answer": "count"' : undefined
}

/** Returns the last line of a stream that has all rows. Throws the failure of the batch. */
function renderEnd ({ plan, result: { failure, outcome } }: Answer): string {
  if (failure !== undefined) throw failure
  return Buffer.concat(renderBody(plan, (outcome as Committed).rows)).toString()
}
