/**
 * `GET /openapi.json`: the OpenAPI document, without authentication, on the main server and on the
 * admin server. src/openapi/ creates the document at the first request; requests are not validated
 * against it.
 */
import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { describeApi, type DescribedConfig } from '../../src/openapi/document.ts'

export interface OpenApiOptions {
  readonly config: DescribedConfig
  /**
   * Returns the URL of the main server for the document that this request asks for. It may be
   * relative to the document's own URL.
   */
  readonly server: (request: FastifyRequest) => string
}

async function openapi (app: FastifyInstance, { config, server }: OpenApiOptions): Promise<void> {
  /** The last document: the URL rarely changes. */
  let created: { readonly url: string, readonly document: Promise<Document> } | undefined
  app.get('/openapi.json', async (request, reply) => {
    const url = server(request)
    if (created?.url !== url) created = { url, document: createDocument(config, url) }
    const { bytes, etag } = await created.document
    // A new version or configuration changes the document at once, so caches must revalidate.
    reply.header('etag', etag).header('cache-control', 'no-cache')
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    return reply.type('application/json; charset=utf-8').send(bytes)
  })
}

interface Document {
  readonly bytes: Buffer
  readonly etag: string
}

async function createDocument (config: DescribedConfig, server: string): Promise<Document> {
  const bytes = Buffer.from(JSON.stringify(await describeApi(config, server)))
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` }
}

export default fp(openapi, { name: 'openapi', fastify: '5.x', encapsulate: true })
