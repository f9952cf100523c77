/**
 * `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): read from the headers alone. What
 * is kept under it, and when, is the engine's business. The decorator `readIdempotencyKey` is a
 * hook for routes that keep keys.
 */
import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { bareKey, maxKeyLength, quotedKey } from '../schemas/idempotency.ts'
import { failure } from '../src/errors/catalogue.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Its text, without quotes; undefined: the request has none. */
    idempotencyKey: string | undefined
    /** SHA-256 of the body's bytes, where there is a key. */
    bodyDigest: Buffer | undefined
  }
}

async function idempotencyKey (app: FastifyInstance): Promise<void> {
  app.decorateRequest('idempotencyKey', undefined)
  app.decorateRequest('bodyDigest', undefined)
  const readIdempotencyKey: onRequestAsyncHookHandler = async request => {
    request.idempotencyKey = readKey(request)
  }
  app.decorate('readIdempotencyKey', readIdempotencyKey)
  app.decorate('digestBody', (request: FastifyRequest, bytes: Buffer) => {
    if (request.idempotencyKey !== undefined) {
      request.bodyDigest = createHash('sha256').update(bytes).digest()
    }
  })
}

function readKey ({ raw }: FastifyRequest): string | undefined {
  const [sent, ...more] = raw.headersDistinct['idempotency-key'] ?? []
  if (sent === undefined) return undefined
  const key = bareKey.test(sent) ? sent : quotedKey.exec(sent)?.[1]?.replace(/\\(.)/g, '$1')
  if (more.length > 0 || key === undefined || key === '' || key.length > maxKeyLength) {
    throw failure(
      'idempotency_key_invalid',
      `Idempotency-Key must be one key of 1 to ${maxKeyLength} visible ASCII characters, ` +
        'or such a text in quotes.'
    )
  }
  return key
}

export default fp(idempotencyKey, {
  name: 'idempotency-key',
  fastify: '5.x',
  dependencies: ['errors']
})
