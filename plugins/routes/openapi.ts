/**
 * `GET /openapi.json`: the description of the API, without a token, on the main server and on the
 * admin server. What it says is written in src/openapi/; it is put together when somebody asks for
 * the first time, and no request is ever held against it.
 */
import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { describeApi, type DescribedConfig } from '../../src/openapi/document.ts'

export interface OpenApiOptions {
  readonly config: DescribedConfig
  /**
   * Where the document says that the main server is: an URL, may be relative to that of the
   * document.
   */
  readonly server: string
}

async function openapi (app: FastifyInstance, { config, server }: OpenApiOptions): Promise<void> {
  let making: ReturnType<typeof make> | undefined
  app.get('/openapi.json', async (request, reply) => {
    const { bytes, etag } = await (making ??= make(config, server))
    // It changes with version and configuration alone, but when these do, at once.
    reply.header('etag', etag).header('cache-control', 'no-cache')
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    return reply.type('application/json; charset=utf-8').send(bytes)
  })
}

async function make (
  config: DescribedConfig,
  server: string
): Promise<{ readonly bytes: Buffer, readonly etag: string }> {
  const bytes = Buffer.from(JSON.stringify(await describeApi(config, server)))
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` }
}

export default fp(openapi, { name: 'openapi', fastify: '5.x', encapsulate: true })
