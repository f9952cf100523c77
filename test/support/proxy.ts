/**
 * A TCP proxy between the service and PostgreSQL: what goes over the wire, burst by burst, and faults of the network.
 *
 * In charge of: delivering, holding back, delaying, cutting.
 * Refuses to: know more of the protocol than how messages of an established session are framed.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'

/** What one side sent until the other side was heard. */
export interface Burst { readonly from: 'client' | 'server', readonly bytes: Buffer }

/** One connection through the proxy. */
export interface Link {
  readonly client: Socket
  readonly server: Socket
  /** What the client has sent since it was last given an answer. */
  sent: Buffer
  /** Answers that were not delivered yet. */
  held: Buffer
}

export interface Proxy {
  /** `url` with its host and port replaced by the proxy's. */
  through (url: string): string
  /** Everything that was delivered since the last `record`. */
  readonly bursts: readonly Burst[]
  /** Forgets what was recorded. */
  record (): void
  /** Connections that are open now. */
  readonly links: ReadonlySet<Link>
  /** How many bytes of `link.held` the client may have now; all of them by default. Asked whenever either side sends. */
  deliver: (link: Link) => number
  /** Whether the server may have what the client sends; what it may not have is lost. */
  forward: (link: Link) => boolean
  /** Whether new connections are taken. */
  open: boolean
  /** Delay in each direction. */
  latencyMs: number
  /** Ends every connection on both sides: with a FIN, or with a RST. */
  cut (how?: 'end' | 'reset'): void
}

/** Starts a proxy to the server of `url`; it ends with `t`. */
export async function useProxy (t: Pick<Test, 'teardown'>, url: string): Promise<Proxy> {
  const { hostname, port } = new URL(url)
  const links = new Set<Link>()
  let bursts: Burst[] = []
  const record = (from: Burst['from'], bytes: Buffer): void => {
    const last = bursts.at(-1)
    if (last?.from === from) bursts[bursts.length - 1] = { from, bytes: Buffer.concat([last.bytes, bytes]) }
    else bursts.push({ from, bytes })
  }
  const later = (work: () => void): void => { proxy.latencyMs > 0 ? setTimeout(work, proxy.latencyMs) : work() }

  const deliver = (link: Link): void => {
    const bytes = link.held.subarray(0, Math.max(0, proxy.deliver(link)))
    if (bytes.length === 0) return
    link.held = link.held.subarray(bytes.length)
    link.sent = Buffer.alloc(0)
    record('server', bytes)
    later(() => link.client.write(bytes))
  }
  const listener = createServer({ noDelay: true }, client => {
    if (!proxy.open) {
      client.destroy()
      return
    }
    const server = connect({ host: hostname, port: Number(port), noDelay: true })
    const link: Link = { client, server, sent: Buffer.alloc(0), held: Buffer.alloc(0) }
    links.add(link)
    client.on('data', bytes => {
      record('client', bytes)
      link.sent = Buffer.concat([link.sent, bytes])
      if (proxy.forward(link)) later(() => server.write(bytes))
      deliver(link)
    })
    server.on('data', bytes => {
      link.held = Buffer.concat([link.held, bytes])
      deliver(link)
    })
    for (const [one, other] of [[client, server], [server, client]] as const) {
      one.on('error', () => {}).on('end', () => later(() => other.end())).on('close', () => {
        links.delete(link)
        other.destroySoon()
      })
    }
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const proxyPort = (listener.address() as AddressInfo).port

  const proxy: Proxy = {
    through (url) {
      const led = new URL(url)
      led.host = `127.0.0.1:${proxyPort}`
      return led.href
    },
    get bursts () { return bursts },
    record () { bursts = [] },
    links,
    deliver: link => link.held.length,
    forward: () => true,
    open: true,
    latencyMs: 0,
    cut (how = 'end') {
      for (const { client, server } of links) {
        for (const socket of [client, server]) how === 'reset' ? socket.resetAndDestroy() : socket.destroy()
      }
    }
  }
  t.teardown(async () => {
    proxy.cut()
    listener.close()
    await once(listener, 'close')
  })
  return proxy
}

/** The types of the messages in `bytes`, which must hold whole ones: `PDBES…` (protocol docs, "Message Formats"). */
export function messageTypes (bytes: Buffer): string {
  let types = ''
  for (let at = 0; at < bytes.length; at += 1 + bytes.readUInt32BE(at + 1)) types += String.fromCharCode(bytes[at] as number)
  return types
}
