/**
 * `GET /openapi.json`: the OpenAPI document, without authentication, on the main server and on the
 * admin server. src/openapi/ creates the document at the first request; requests are not validated
 * against it.
 */
import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { NamedBatches } from '../../src/named/named-batch.ts'
import { describeApi, type DescribedConfig } from '../../src/openapi/document.ts'

interface OpenApiOptions {
  readonly config: DescribedConfig
  /**
   * Returns the URL of the main server for the document that this request asks for. It may be
   * relative to the document's own URL.
   */
  readonly server: (request: FastifyRequest) => string
  /** Returns the current named batches, in the same object until they change. */
  readonly batches: () => NamedBatches
}

async function openapi (
  app: FastifyInstance,
  { config, server, batches }: OpenApiOptions
): Promise<void> {
  /** The last document, and what it was created for: the URL and the batches rarely change. */
  let created: ReturnType<typeof createDocument> | undefined
  app.get('/openapi.json', async (request, reply) => {
    const [url, current] = [server(request), batches()]
    if (created?.url !== url || created.batches !== current) {
      created = createDocument(config, url, current)
    }
    const { bytes, etag } = created
    // A new version, configuration or set of named batches changes the document at once, so caches
    // must revalidate.
    reply.header('etag', etag).header('cache-control', 'no-cache')
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    return reply.type('application/json; charset=utf-8').send(bytes)
  })
}

function createDocument (config: DescribedConfig, url: string, batches: NamedBatches) {
  const bytes = Buffer.from(JSON.stringify(describeApi(config, url, [...batches.values()])))
  const etag = `"${createHash('sha256').update(bytes).digest('base64url')}"`
  return { url, batches, bytes, etag }
}

export default fp(openapi, { name: 'openapi', encapsulate: true })
