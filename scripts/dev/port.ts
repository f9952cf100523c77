/**
 * Free TCP ports on 127.0.0.1 for temporary processes.
 *
 * get-port is not used: when its candidates are taken, it falls back to an ephemeral port, which
 * `freePort` must avoid.
 */
import { once } from 'node:events'
import { connect, createServer, type NetConnectOpts } from 'node:net'

const TRIES = 100

/**
 * Returns a port that is not in use and lies below the ephemeral range. On an ephemeral port, a
 * client of a stopped server can get the server's port, connect to itself, and block the server's
 * restart. Rejects with the last error when no port is free.
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

/** Returns `port`, or a free port if a server accepts connections on it. */
export async function preferPort (port: number): Promise<number> {
  return await accepts(port) ? freePort() : port
}

/** Returns whether a server accepts connections on a port of 127.0.0.1, or at an address. */
export function accepts (address: number | NetConnectOpts): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(
      typeof address === 'number' ? { host: '127.0.0.1', port: address } : address
    )
    const finish = (listening: boolean) => () => {
      socket.destroy()
      resolve(listening)
    }
    socket.once('connect', finish(true)).once('error', finish(false))
  })
}
