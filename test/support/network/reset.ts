/**
 * Closes a connection with a RST.
 */
import type { Socket } from 'node:net'

/**
 * Sends a RST, or closes the socket if it has already sent a FIN. Node (24.21) cannot reset a
 * socket whose end is still pending: `end()` and then `resetAndDestroy()` fails with EINVAL and
 * leaves the handle open, and at its exit the process waits for it in a busy loop, for ever.
 */
export function resetSocket (socket: Socket): Socket {
  return socket.writableEnded ? socket.destroy() : socket.resetAndDestroy()
}
