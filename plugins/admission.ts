/**
 * Who is let in: while every place is taken, a request is refused by its headers alone, before a
 * byte of its body is read. In charge of the memory that requests and answers hold as well. Which
 * places there are is the pool's business. The decorator `admit` is a hook for routes that need the
 * pool.
 */
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  onRequestAsyncHookHandler
} from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../schemas/config.ts'
import { failure } from '../src/errors/catalogue.ts'
import { choosePool, type Database } from '../src/transaction/database.ts'

export interface AdmissionOptions {
  readonly config: Config
}

/**
 * Who comes again at once is made to wait a moment, and may find a place then. Refusals cost time
 * that batches need: a hundred clients in a loop, where fifty find a place, left a third of the
 * throughput.
 */
const HURRY_MS = 100
const PAUSE_MS = 25
const SPREAD_MS = 10

async function admission (app: FastifyInstance, { config }: AdmissionOptions): Promise<void> {
  const database = app.getDecorator<Database>('database')
  const { MAX_BYTES_IN_FLIGHT: most, MAX_BODY_BYTES: mostOfBody } = config
  /**
   * Bytes by request: of its body until it is answered, then of its answer until the client has it.
   */
  const held = new Map<FastifyRequest, number>()
  let total = 0
  const hold = (request: FastifyRequest, bytes: number): void => {
    total += bytes - (held.get(request) ?? 0)
    held.set(request, bytes)
  }
  /** When a connection was refused last, as a time of performance.now(). */
  const refused = new WeakMap<Socket, number>()
  const admit: onRequestAsyncHookHandler = async (request, reply) => {
    const { headers, socket } = request
    const bytes = Math.min(Number(headers['content-length'] ?? mostOfBody), mostOfBody)
    const pool = choosePool(database, request.preferences)
    const isFull = (): boolean => pool.isFull() || total + bytes > most
    if (isFull() && performance.now() - (refused.get(socket) ?? -Infinity) < HURRY_MS) {
      await delay(PAUSE_MS + Math.random() * SPREAD_MS)
    }
    if (isFull()) {
      refused.set(socket, performance.now())
      throw failure('overloaded')
    }
    hold(request, bytes)
    onClose(reply, () => {
      total -= held.get(request) as number
      held.delete(request)
    })
  }
  app.decorate('admit', admit)
  app.addHook('onSend', async (request, reply, payload) => {
    // A large answer is sent in pieces, and says how long it is.
    if (held.has(request)) {
      hold(
        request,
        Number(reply.getHeader('content-length') ?? Buffer.byteLength(payload as string | Buffer))
      )
    }
  })
}

/** Not onResponse, which never comes when the client has gone away. */
function onClose ({ raw }: FastifyReply, done: () => void): void {
  if (raw.destroyed) done()
  else raw.once('close', done)
}

export default fp(admission, {
  name: 'admission',
  fastify: '5.x',
  dependencies: ['errors', 'prefer', 'database']
})
