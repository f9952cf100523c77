/**
 * Receives uploads: rows of a named batch, which are read while they arrive. The transaction begins
 * when all of them are there, so a slow client holds no connection to the database.
 */
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { maxUploadBytes, type Config } from '../../schemas/config.ts'
import type { Failure } from '../../src/errors/catalogue.ts'
import type { NamedBatch } from '../../src/named/named-batch.ts'
import { Upload, uploadTooLarge } from '../../src/named/upload.ts'
import type { Database } from '../../src/transaction/decorators.ts'
import { findRowMembers } from '../../src/transaction/find-row-members.ts'
import type { HoldBytes } from '../hooks/admission.ts'
import type { SetIdempotencyKey } from '../hooks/idempotency-key.ts'
import type { Answer } from './respond.ts'
import type { BatchRunner } from './run-request.ts'

/**
 * As many bytes are read in one go, which takes about 4 ms. A piece of the body of this size is
 * like a large body: it leaves time to other requests.
 */
const PIECE_BYTES = 65_536

export function createRunUpload (
  app: FastifyInstance,
  config: Config,
  { runner, setKey, holdBytes }: {
    readonly runner: BatchRunner,
    readonly setKey: SetIdempotencyKey,
    readonly holdBytes: HoldBytes
  }
): (request: FastifyRequest, reply: FastifyReply) => Promise<Answer> {
  const database = app.getDecorator<Database>('database')
  const limits = {
    maxUploadRows: config.MAX_UPLOAD_ROWS,
    maxLineBytes: config.MAX_BODY_BYTES,
    maxBytes: maxUploadBytes(config)
  }
  return async (request, reply) => {
    const received = performance.now() - reply.elapsedTime
    const [, query = ''] = request.url.split(/\?(.*)/s, 2)
    const isCsv = request.upload === 'csv'
    const batch = request.namedBatch as NamedBatch
    const deadline = received + config.REQUEST_TIMEOUT_MS
    const { members, compareTypes } =
      await findRowMembers(batch.planner.planOfFile, database, deadline)
    const upload = new Upload(batch, { query, isCsv, members }, limits)
    const hash = request.headers['idempotency-key'] === undefined ? undefined : createHash('sha256')
    let bytes = 0
    const hold = (read: number): void => holdBytes(request, Math.max(read, upload.bytes))
    const receive = async (): Promise<void> => {
      for await (const piece of readPieces(request, hold)) {
        bytes += piece.length
        hash?.update(piece)
        const work = await runner.startWork(piece.length)
        try {
          upload.read(piece)
        } finally {
          work[Symbol.dispose]()
        }
      }
      await upload.end()
    }
    // The types that refuse a value may be outdated.
    const refuse = async (error: Failure): Promise<never> => {
      if (error.code === 'value_invalid') await compareTypes()
      throw error
    }
    await receive().catch(refuse)
    if (hash !== undefined) {
      setKey(request, JSON.stringify([request.upload, query, hash.digest('hex')]))
    }
    const work = await runner.startWork(bytes)
    const times = { received, read: performance.now() }
    const exchange = { request, reply, bytes: Buffer.alloc(0), work, times }
    return await runner.run(exchange, () => upload.finish()).catch(refuse)
  }
}

/**
 * Joins the chunks of a body to pieces of about PIECE_BYTES. `hold` gets the bytes so far. Throws
 * `body_too_large`, and what `hold` throws.
 */
async function * readPieces (
  { raw, headers, maxBodyBytes }: FastifyRequest,
  hold: (read: number) => void
): AsyncGenerator<Buffer> {
  const refuse = (): never => {
    throw uploadTooLarge(maxBodyBytes)
  }
  if (Number(headers['content-length']) > maxBodyBytes) refuse()
  let [all, waiting] = [0, 0]
  let chunks: Buffer[] = []
  // A response to a faulty line has to reach the client, so the connection stays.
  const body = (raw as Readable).iterator({ destroyOnReturn: false })
  for await (const chunk of body as AsyncIterable<Buffer>) {
    all += chunk.length
    if (all > maxBodyBytes) refuse()
    hold(all)
    chunks.push(chunk)
    waiting += chunk.length
    if (waiting < PIECE_BYTES) continue
    yield Buffer.concat(chunks)
    chunks = []
    waiting = 0
  }
  if (waiting > 0) yield Buffer.concat(chunks)
}
