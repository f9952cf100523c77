/**
 * Opens sockets with the code of the service, and defines host names without DNS. The user is
 * always "app" and the password "hunter2", which no error may contain.
 */
import dns from 'node:dns'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { parseDatabaseUrl } from '../../../src/config/database-url.ts'
import { connectSocket } from '../../../src/postgres/connect.ts'

export function open (host: string, query = '', timeoutMs = 2000): Promise<Socket> {
  const { hosts, tls } = parseDatabaseUrl(`postgres://app:hunter2@${host}/db?${query}`)
  return connectSocket(hosts[0], tls, { timeoutMs })
}

/** Writes and waits for a response, like a client library. Closes the socket. */
export async function ping (socket: Socket): Promise<string> {
  socket.write('ping')
  const [answer] = await once(socket, 'data')
  socket.destroy()
  return String(answer)
}

type Lookup = (
  name: string,
  options: object,
  found: (error: null, all: readonly object[]) => void
) => void

/** Makes these names resolve to these addresses, in this process. */
export function nameHosts (names: Readonly<Record<string, readonly string[]>>): void {
  const original = dns.lookup as unknown as Lookup
  const lookup: Lookup = (name, options, found) => {
    const addresses = names[name]
    if (addresses === undefined) return original(name, options, found)
    found(null, addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 })))
  }
  Object.assign(dns, { lookup })
}
