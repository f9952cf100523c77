/** Waits for one event of a socket. */
import { once } from 'node:events'
import type { Socket } from 'node:net'

/**
 * Resolves on `event` and leaves no listener behind. Throws the socket's error, or an Error when
 * the socket closes. That includes closing right after the event, before the caller can listen for
 * `close`. There is no deadline: destroy the socket to stop the wait.
 */
export async function waitForEvent (
  socket: Socket,
  event: 'connect' | 'readable' | 'secureConnect'
): Promise<void> {
  const settled = new AbortController()
  const { signal } = settled
  try {
    await Promise.race([once(socket, event, { signal }), once(socket, 'close', { signal })])
  } finally {
    settled.abort()
  }
  if (socket.destroyed) throw new Error('the server closed the connection')
}
