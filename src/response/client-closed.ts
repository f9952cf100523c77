/**
 * Notices that the client closed its connection.
 */
import type { FastifyReply } from 'fastify'

/** Aborted when the client closes the connection before it has its response. */
export function clientClosed ({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort()
  })
  return controller.signal
}
