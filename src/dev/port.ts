/**
 * TCP ports of 127.0.0.1, for processes that are started for a while.
 */
import { connect, createServer } from 'node:net'

/**
 * A port that nobody listens on just now. It lies below those that systems give to outgoing connections: while a server is down one of its clients could
 * be given its port, be connected with itself, and keep the server from coming back.
 */
export async function freePort (): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 18_000)
    const free = await new Promise<boolean>(resolve => {
      const probe = createServer().once('error', () => resolve(false)).listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
    })
    if (free) return port
  }
}

/** Whether somebody takes connections there. */
export function accepts (port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    const tell = (listening: boolean) => () => {
      socket.destroy()
      resolve(listening)
    }
    socket.once('connect', tell(true)).once('error', tell(false))
  })
}
