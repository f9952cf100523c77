/**
 * Waiting for one event of a socket. In charge of leaving no listener behind, whatever happens
 * first.
 */
import type { Socket } from 'node:net'

/**
 * Resolves when `event` happens. Throws the socket's error, or an Error that says that the
 * connection was closed, also when that followed so closely on the event that nobody else could
 * have heard of it. There is no deadline here: destroying the socket ends the wait.
 */
export async function happens (
  socket: Socket,
  event: 'connect' | 'readable' | 'secureConnect'
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const done = (): void => resolve()
  const closed = (): void => reject(closedError())
  socket.once(event, done).once('error', reject).once('close', closed)
  try {
    await promise
    if (socket.destroyed) throw closedError()
  } finally {
    socket.off(event, done).off('error', reject).off('close', closed)
  }
}

function closedError (): Error {
  return new Error('the server closed the connection')
}
