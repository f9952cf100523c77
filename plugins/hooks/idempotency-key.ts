/**
 * `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header). `readIdempotencyKey` is a hook
 * that checks the header before the body is read. `keepBody` is a content type parser that keeps
 * the bytes of the body and completes the key: the same key with another body or other preferences
 * is another request. `setKey` completes it for routes that read the body themselves: the key may
 * be in the body (MCP), or the body is read in pieces (uploads).
 */
import { createHash } from 'node:crypto'
import type {
  FastifyBodyParser,
  FastifyInstance,
  FastifyRequest,
  onRequestHookHandler
} from 'fastify'
import type { Config } from '../../schemas/config.ts'
import { bareKey, headerValues, maxKeyLength, quotedKey, readTtl } from '../../schemas/http.ts'
import type { Identity, KeyOwner } from '../../schemas/token.ts'
import { ownerOf } from '../../src/auth/key-owner.ts'
import { failure } from '../../src/errors/catalogue.ts'
import type { Key } from '../../src/sql/frame/idempotency.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** undefined without the header, and until the body was read. */
    idempotencyKey: Key | undefined
  }
}

export const readIdempotencyKey: onRequestHookHandler = (request, _reply, done) => {
  readHeader(request)
  done()
}

export type SetIdempotencyKey = ReturnType<typeof createIdempotencyKeys>['setKey']

export function createIdempotencyKeys (app: FastifyInstance, config: Config) {
  const ttlSeconds = readTtl(config.IDEMPOTENCY_TTL)
  app.decorateRequest('idempotencyKey', undefined)
  // Hashing many claims takes 14 µs, 2 % of a small batch. The cache of tokens keeps identities,
  // so it also bounds this one.
  const owners = new WeakMap<Identity, KeyOwner>()
  const findOwner = (identity: Identity): KeyOwner => {
    const owner = owners.get(identity) ?? ownerOf(identity, config)
    owners.set(identity, owner)
    return owner
  }
  /**
   * Completes the key of a request: `given`, or that of its header. `content`: what another request
   * with the same key must have, too.
   */
  const setKey = (request: FastifyRequest, content: Buffer | string, given?: string): void => {
    const text = given ?? readHeader(request)
    if (text === undefined) return
    const owner = findOwner(request.identity)
    request.idempotencyKey = {
      ...owner,
      text,
      fingerprint: hashRequest(request, content),
      lock: lockOf(owner, text),
      ttlSeconds
    }
  }
  const keepBody: FastifyBodyParser<Buffer> = (request, body, done) => {
    setKey(request, body)
    done(null, body)
  }
  return { setKey, keepBody }
}

/** Returns the key without quotes; undefined without the header. */
function readHeader ({ raw }: FastifyRequest): string | undefined {
  const [sent, ...more] = headerValues(raw.rawHeaders, 'idempotency-key')
  if (sent === undefined) return undefined
  const key = bareKey.test(sent) ? sent : quotedKey.exec(sent)?.[1]?.replace(/\\(.)/g, '$1')
  if (more.length > 0 || key === undefined || key === '' || key.length > maxKeyLength) {
    throw failure(
      'idempotency_key_invalid',
      `Idempotency-Key must be a single header of 1 to ${maxKeyLength} visible ASCII ` +
        'characters; a key in double quotes may contain spaces.'
    )
  }
  return key
}

/** Binds the key to this content, these preferences and the name of the batch. */
function hashRequest (
  { preferences, namedBatch }: FastifyRequest,
  content: Buffer | string
): string {
  const { tx, isolation, access, return: wanted } = preferences
  const digest = createHash('sha256').update(content).digest()
  return createHash('sha256')
    .update(digest)
    .update(JSON.stringify([tx, isolation, access, wanted]))
    .update(namedBatch?.name ?? '')
    .digest('hex')
}

function lockOf ({ principal }: KeyOwner, text: string): bigint {
  return createHash('sha256').update(`${principal}:${text}`).digest().readBigInt64BE()
}
