/**
 * TCP ports of 127.0.0.1, for processes that are started for a while.
 */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/** Ports that are tried; more than a few are taken only where none can be had. */
const TRIES = 100

/**
 * A port that nobody listens on just now. It lies below those that systems give to outgoing
 * connections: while a server is down one of its clients could be given its port, be connected with
 * itself, and keep the server from coming back. Rejects with the last reason when there is none.
 */
export async function freePort (tries = TRIES): Promise<number> {
  const port = 12_000 + Math.floor(Math.random() * 18_000)
  const probe = createServer()
  try {
    await once(probe.listen(port, '127.0.0.1'), 'listening')
  } catch (error) {
    if (tries === 1) throw error
    return freePort(tries - 1)
  }
  probe.close()
  await once(probe, 'close')
  return port
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
