/**
 * Backpressure: refuses a request by its headers, before the body is read, while the pool or the
 * memory for bodies and responses is full. Routes that use the pool take `hooks` as onRequest
 * hooks. `mayBegin` asks for the memory again when a batch has waited for a connection: the
 * responses of earlier batches may have become large. With PRINCIPAL_CONCURRENCY, the first hook
 * refuses a principal that has too many batches.
 */
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Config } from '../../schemas/config.ts'
import type { Identity } from '../../schemas/token.ts'
import { failure } from '../../src/errors/catalogue.ts'
import { choosePool, type Database } from '../../src/transaction/decorators.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * Keeps its place among the batches of its principal until the returned function is called;
     * undefined without PRINCIPAL_CONCURRENCY.
     */
    keepPlace: (() => () => void) | undefined
    /** The bytes that are reserved for its body, later for its response until the client has it. */
    reservedBytes: number | undefined
  }
}

/**
 * A refused client that retries within QUICK_RETRY_MS waits PAUSE_MS plus up to SPREAD_MS, and may
 * be admitted then. Refusals take CPU time from batches: with 100 clients in a loop and room for
 * 50, a third of the throughput was left without the pause.
 */
const QUICK_RETRY_MS = 100
const PAUSE_MS = 25
const SPREAD_MS = 10

export type HoldBytes = ReturnType<typeof createAdmission>['holdBytes']

export function createAdmission (app: FastifyInstance, config: Config) {
  const database = app.getDecorator<Database>('database')
  const {
    MAX_BYTES_IN_FLIGHT: maxBytes,
    MAX_BODY_BYTES: maxBodyBytes,
    PRINCIPAL_CONCURRENCY: concurrency
  } = config
  /** The reserved bytes of all requests. */
  let total = 0
  /** Replaces an earlier reservation of the request. */
  const reserve = (request: FastifyRequest, bytes: number): void => {
    total += bytes - (request.reservedBytes ?? 0)
    request.reservedBytes = bytes
  }
  /** When a request on a client connection was last refused, as a time of performance.now(). */
  const refusedAt = new WeakMap<Socket, number>()
  const admit: onRequestHookHandler = (request, reply, done) => {
    const { headers, socket } = request
    const bytes = Math.min(Number(headers['content-length'] ?? maxBodyBytes), maxBodyBytes)
    const pool = choosePool(database, request.preferences)
    const isFull = (): boolean => pool.isFull() || total + bytes > maxBytes
    const decide = (): void => {
      if (isFull()) {
        refusedAt.set(socket, performance.now())
        done(failure('overloaded'))
      } else {
        reserve(request, bytes)
        onClose(reply, () => {
          reserve(request, 0)
          request.reservedBytes = undefined
        })
        done()
      }
    }
    if (isFull() && performance.now() - (refusedAt.get(socket) ?? -Infinity) < QUICK_RETRY_MS) {
      setTimeout(decide, PAUSE_MS + Math.random() * SPREAD_MS)
    } else decide()
  }
  app.decorateRequest('keepPlace', undefined)
  app.decorateRequest('reservedBytes', undefined)
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.reservedBytes !== undefined) {
      // A large response is a stream with a content-length. Streamed rows have none, nor has
      // what a host compresses.
      const length = reply.getHeader('content-length') ??
        (payload instanceof Readable
          ? payload.readableHighWaterMark
          : Buffer.byteLength(payload as string | Buffer))
      reserve(request, Number(length))
    }
    done()
  })
  return {
    hooks: concurrency === undefined ? [admit] : [createLimit(concurrency), admit],
    mayBegin: (): boolean => total <= maxBytes,
    /**
     * Counts the bytes of a body that have arrived, if they are more than MAX_BODY_BYTES. Throws
     * `overloaded` if there is no memory for them.
     */
    holdBytes (request: FastifyRequest, bytes: number): void {
      // A slow client that announces a large body, or no size, would otherwise keep others out.
      if (request.reservedBytes === undefined || bytes <= maxBodyBytes) return
      reserve(request, bytes)
      if (total > maxBytes) throw failure('overloaded')
    }
  }
}

function createLimit (concurrency: number): onRequestHookHandler {
  /** The number of batches of each principal that has one. */
  const counts = new Map<string, number>()
  const add = (principal: string, change: number): void => {
    const count = (counts.get(principal) ?? 0) + change
    if (count === 0) counts.delete(principal)
    else counts.set(principal, count)
  }
  return (request, reply, done) => {
    const principal = nameOf(request.identity)
    if ((counts.get(principal) ?? 0) >= concurrency) {
      done(failure('principal_busy'))
      return
    }
    // The place is taken until the response is closed and the handler has ended: the transaction
    // may run on after its client has disconnected.
    let users = 0
    const keep = (): () => void => {
      if (users++ === 0) add(principal, 1)
      return () => {
        if (--users === 0) add(principal, -1)
      }
    }
    request.keepPlace = keep
    onClose(reply, keep())
    done()
  }
}

/** Role, issuer and subject, or the role alone. */
function nameOf ({ role, payload = {} }: Identity): string {
  const { iss, sub }: { readonly iss?: unknown, readonly sub?: unknown } = payload
  return typeof sub === 'string' && sub !== '' ? JSON.stringify([role, iss, sub]) : role
}

/** Fastify does not call onResponse when the client has disconnected. */
function onClose ({ raw }: FastifyReply, callback: () => void): void {
  if (raw.destroyed) callback()
  else raw.once('close', callback)
}
