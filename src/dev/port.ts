/**
 * TCP ports of 127.0.0.1, for processes that are started for a while.
 */
import { connect, createServer, type AddressInfo } from 'node:net'

/** A port that nobody listens on just now. */
export function freePort (): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })
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
