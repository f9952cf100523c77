/**
 * Lets a server listen on the address of its variables.
 */
import type { FastifyInstance } from 'fastify'

export interface ListenOptions {
  readonly name: 'main' | 'admin'
  readonly host: string
  readonly port: number
}

/**
 * Listens and returns the URL, for example `http://127.0.0.1:4000`. When the address is not
 * available, the message of the error begins with the name of the variable to change.
 */
export function listen (
  server: FastifyInstance,
  { name, host, port }: ListenOptions
): Promise<string> {
  return server.listen({
    host,
    port,
    listenTextResolver: address => `${name} server listening at ${address}`
  }).catch((error: NodeJS.ErrnoException) => {
    const variable = error.code === 'EADDRINUSE' || error.code === 'EACCES' ? 'PORT' : 'HOST'
    error.message = `${name === 'main' ? '' : 'ADMIN_'}HTTP_${variable}: ${error.message}`
    throw error
  })
}
