/**
 * Node's HTTP server with the limits and timeouts of the main server.
 */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../../schemas/config.ts'

/**
 * Longer than the 60 s after which most load balancers close an idle connection. If this side
 * closed first, a request on its way would be lost.
 */
const KEEP_ALIVE_MS = 72_000

/** Creates the server. A request has to arrive completely within `timeoutMs`. */
export function createHttpServer (handler: RequestListener, timeoutMs: number): Server {
  const server = createServer({
    // The response of Node to a missing Host would have no request id: the client-errors plugin
    // checks it.
    requireHostHeader: false,
    headersTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    connectionsCheckingInterval: Math.min(1000, Math.ceil(timeoutMs / 4)),
    keepAliveTimeout: KEEP_ALIVE_MS
  }, handler)
  // For clients that do not read their response: longer than any other wait for a client.
  server.timeout = KEEP_ALIVE_MS + timeoutMs
  // 0 is no limit: Node silently drops headers past the limit. Their total size stays limited
  // (16 KiB).
  server.maxHeadersCount = 0
  return server
}

/**
 * Returns the path and query of a request target. Clients of a proxy also send scheme and host
 * (absolute form, RFC 9112 §3.2.2).
 */
export function originForm ({ url = '' }: { readonly url?: string | undefined }): string {
  if (url.startsWith('/')) return url
  const path = url.replace(/^https?:\/\/[^/?#]+/i, '')
  // `*` as well: the router would treat this single character as `/`.
  return path.startsWith('/') ? path : `/${path}`
}

/**
 * Listens where the configuration says, and returns the URL, for example `http://127.0.0.1:4000`.
 * When the address is not available, the message of the error begins with the name of the variable
 * to change.
 */
export function listen (
  server: FastifyInstance,
  config: Config,
  name: 'main' | 'admin'
): Promise<string> {
  const prefix = name === 'main' ? 'HTTP' : 'ADMIN_HTTP'
  return server.listen({
    host: config[`${prefix}_HOST`],
    port: config[`${prefix}_PORT`],
    listenTextResolver: address => `${name} server listening at ${address}`
  }).catch((error: NodeJS.ErrnoException) => {
    const variable = error.code === 'EADDRINUSE' || error.code === 'EACCES' ? 'PORT' : 'HOST'
    error.message = `${prefix}_${variable}: ${error.message}`
    throw error
  })
}
