/**
 * Servers of tests on 127.0.0.1.
 */
import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import type { Test } from 'tap'

/** Makes a server listen, on a free port by default. Returns the port. */
export async function listen (server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** The same until the end of `t`, which does not wait for connections. */
export async function useListener (
  t: Pick<Test, 'teardown'>,
  server: Server & { closeAllConnections?: () => void }
): Promise<number> {
  t.teardown(() => {
    server.closeAllConnections?.()
    server.close()
  })
  return await listen(server)
}
