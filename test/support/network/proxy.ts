/**
 * A TCP proxy between the service and PostgreSQL: what goes over the wire, burst by burst, and
 * faults of the network.
 *
 * In charge of: delivering, holding back, delaying, slowing, swallowing, cutting.
 * Refuses to: know more of the protocol than how messages of a session are framed.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'
import { createFramer, type Frame, type Framer } from '../../chaos/messages.ts'
import { until } from '../until.ts'

export type Side = 'client' | 'server'

/**
 * Stands in the flight of every batch and nowhere else: the claims are sent as a value, whatever is
 * prepared.
 */
export const CLAIMS = '"role":'

/** What one side sent until the other side was heard. */
export interface Burst {
  readonly from: Side
  readonly bytes: Buffer
}

/** One connection through the proxy. */
export interface Link {
  readonly client: Socket
  readonly server: Socket
  /** What the client has sent since it was last given an answer. */
  sent: Buffer
  /** Answers that were not delivered yet. */
  held: Buffer
}

/**
 * When a fault happens: before so many bytes or messages more of its side, or at the answer to what
 * has this tag, e.g. `COMMIT`.
 */
export type Moment =
  | { readonly bytes: number }
  | { readonly messages: number }
  | { readonly tag: string, readonly delivered?: 'none' | 'half' | 'all' }

/** One fault of one connection, the first one that `from` is sent on. */
export interface Fault {
  /**
   * `cut` ends the connection on both sides with a FIN, `reset` with a RST; `blackhole` keeps it
   * open and swallows what comes from either side.
   */
  readonly kind: 'cut' | 'reset' | 'blackhole'
  /** Whose bytes are counted; what came before the moment is delivered. */
  readonly side: Side
  readonly after: Moment
  /** What the client sends when counting begins; at once when it is not given. */
  readonly from?: string
}

export interface Injected {
  /** Whether counting has begun. */
  readonly begun: boolean
  readonly happened: boolean
  /**
   * Whether the transaction on the connection came to its end without it, or the connection itself.
   */
  readonly missed: boolean
  /** What was counted so far. */
  readonly seen: Readonly<Record<Side, { readonly bytes: number, readonly messages: number }>>
}

export interface Proxy {
  /** `url` with its host and port replaced by the proxy's. */
  through(url: string): string
  /** Everything that was delivered since the last `record`. */
  readonly bursts: readonly Burst[]
  /** Forgets what was recorded. */
  record(): void
  /** Connections that are open now. */
  readonly links: ReadonlySet<Link>
  /**
   * How many bytes of `link.held` the client may have now; all of them by default. Asked whenever
   * either side sends.
   */
  deliver: (link: Link) => number
  /** Whether the server may have what the client sends; what it may not have is lost. */
  forward: (link: Link) => boolean
  /** Whether new connections are taken. */
  open: boolean
  /** Delay in each direction. */
  latencyMs: number
  /** Bytes a second in each direction of each connection. */
  bytesPerSecond: number
  /**
   * Whether everything on every connection is swallowed, ends of connections too; what was
   * swallowed is lost for good.
   */
  blackhole: boolean
  /** Has a fault happen once; takes the place of one that has not happened. */
  inject(fault: Fault): Injected
  /** Ends every connection on both sides: with a FIN, or with a RST. */
  cut(how?: 'end' | 'reset'): void
}

/** Starts a proxy to the server of `url`; it ends with `t`. */
export async function useProxy (t: Pick<Test, 'teardown'>, url: string): Promise<Proxy> {
  const { hostname, port } = new URL(url)
  const links = new Set<Link>()
  const sockets = new Set<Socket>()
  let pending: Watch | undefined
  let bursts: Burst[] = []
  const record = (from: Side, bytes: Buffer): void => {
    const last = bursts.at(-1)
    if (last?.from === from) {
      bursts[bursts.length - 1] = { from, bytes: Buffer.concat([last.bytes, bytes]) }
    } else bursts.push({ from, bytes })
  }
  /** What of the bytes goes on; the fault happens behind them. */
  const pass = (link: WatchedLink, side: Side, bytes: Buffer): void => {
    const frames = link.framers[side].feed(bytes)
    if (link.swallowed || proxy.blackhole) return
    if (pending?.link === undefined && side === 'client' && pending?.begins(bytes) === true) {
      pending.link = link
    }
    const watch = pending?.link === link ? pending : undefined
    const passed = watch?.count(side, bytes.length, frames)
    link.lines[side].push(passed === undefined ? bytes : bytes.subarray(0, passed))
    if (passed === undefined || watch === undefined) return
    pending = undefined
    link.swallowed = true
    if (watch.kind !== 'blackhole') {
      for (const line of Object.values(link.lines)) line.end(watch.kind === 'reset')
    }
  }
  const deliver = (link: WatchedLink): void => {
    const bytes = link.held.subarray(0, Math.max(0, proxy.deliver(link)))
    if (bytes.length === 0) return
    link.held = link.held.subarray(bytes.length)
    link.sent = Buffer.alloc(0)
    record('server', bytes)
    pass(link, 'server', bytes)
  }
  const listener = createServer({ noDelay: true }, client => {
    if (!proxy.open) {
      client.destroy()
      return
    }
    const server = connect({ host: hostname, port: Number(port), noDelay: true })
    const link: WatchedLink = {
      client,
      server,
      sent: Buffer.alloc(0),
      held: Buffer.alloc(0),
      framers: { client: createFramer(1), server: createFramer() },
      lines: { client: createLine(server, () => proxy), server: createLine(client, () => proxy) },
      swallowed: false
    }
    links.add(link)
    client.on('data', bytes => {
      record('client', bytes)
      link.sent = Buffer.concat([link.sent, bytes])
      if (proxy.forward(link)) pass(link, 'client', bytes)
      deliver(link)
    })
    server.on('data', bytes => {
      link.held = Buffer.concat([link.held, bytes])
      deliver(link)
    })
    for (const [one, side] of [[client, 'client'], [server, 'server']] as const) {
      sockets.add(one)
      const isHeard = (): boolean => !link.swallowed && !proxy.blackhole
      one.on('error', () => {}).on('end', () => {
        if (isHeard()) link.lines[side].end(false)
      }).on('close', () => {
        links.delete(link)
        if (pending?.link === link) pending.lose()
        sockets.delete(one)
        if (isHeard()) (one === client ? server : client).destroySoon()
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
    get bursts () {
      return bursts
    },
    record () {
      bursts = []
    },
    links,
    deliver: link => link.held.length,
    forward: () => true,
    open: true,
    latencyMs: 0,
    bytesPerSecond: Infinity,
    blackhole: false,
    inject (fault) {
      pending = createWatch(fault)
      return pending
    },
    cut (how = 'end') {
      // Not those of `links` alone: of one that was swallowed the other end may still be open.
      for (const socket of sockets) how === 'reset' ? socket.resetAndDestroy() : socket.destroy()
    }
  }
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    listener.close()
    await once(listener, 'close')
  })
  return proxy
}

interface WatchedLink extends Link {
  readonly framers: Readonly<Record<Side, Framer>>
  /** From this side to the other. */
  readonly lines: Readonly<Record<Side, Line>>
  /** Whether nothing goes through any more, in either direction. */
  swallowed: boolean
}

/** A fault that waits for its moment. */
interface Watch extends Injected {
  readonly kind: Fault['kind']
  link: Link | undefined
  begins(sent: Buffer): boolean
  /** The connection has ended. */
  lose(): void
  /**
   * How many of the bytes still go through when the fault happens among them; undefined: it does
   * not.
   */
  count(side: Side, bytes: number, frames: readonly Frame[]): number | undefined
}

function createWatch ({ kind, side, after, from }: Fault): Watch {
  const seen = { client: { bytes: 0, messages: 0 }, server: { bytes: 0, messages: 0 } }
  const state = { happened: false, missed: false }
  const moment = (bytes: number, frames: readonly Frame[]): number | undefined => {
    const before = seen[side]
    if ('bytes' in after) {
      return before.bytes + bytes >= after.bytes
        ? after.bytes - before.bytes
        : undefined
    }
    if ('messages' in after) {
      return after.messages === before.messages
        ? 0
        : frames[after.messages - before.messages - 1]?.end
    }
    const answer = frames.find(({ type, body }) =>
      type === 'C' && body.toString('latin1') === `${after.tag}\0`
    )
    if (answer === undefined) return undefined
    const { start, end } = answer
    return Math.max(
      0,
      { none: start, half: Math.floor((start + end) / 2), all: end }[after.delivered ?? 'none']
    )
  }
  return {
    kind,
    link: undefined,
    seen,
    get begun () {
      return this.link !== undefined
    },
    get happened () {
      return state.happened
    },
    get missed () {
      return state.missed
    },
    lose () {
      state.missed = true
    },
    begins: sent => from === undefined || sent.includes(from),
    count (from, bytes, frames) {
      const passed = from === side ? moment(bytes, frames) : undefined
      seen[from].bytes += bytes
      seen[from].messages += frames.length
      state.happened = passed !== undefined
      state.missed ||= !state.happened &&
        frames.some(({ type, body }) =>
          from === 'server' && type === 'Z' && body.toString() === 'I'
        )
      return passed
    }
  }
}

/**
 * One direction of a connection: bytes in their order, late or slow as the network is at the
 * moment, then its end.
 */
interface Line {
  push(bytes: Buffer): void
  end(reset: boolean): void
}

/** So often a slow line gives on what it has. */
const TICK_MS = 10

function createLine (
  target: Socket,
  network: () => Pick<Proxy, 'latencyMs' | 'bytesPerSecond'>
): Line {
  const queue: Array<{ readonly due: number, readonly work: () => void }> = []
  /** When the line has given on everything so far. */
  let free = 0
  let running = false
  const run = (): void => {
    while ((queue[0]?.due ?? Infinity) <= performance.now()) queue.shift()?.work()
    running = queue.length > 0
    if (running) setTimeout(run, Math.max(1, (queue[0]?.due ?? 0) - performance.now()))
  }
  const add = (ms: number, work: () => void): void => {
    if (ms <= 0 && queue.length === 0) {
      work()
      return
    }
    const due = Math.max(performance.now() + ms, queue.at(-1)?.due ?? 0)
    queue.push({ due, work })
    if (!running) run()
  }
  return {
    push (bytes) {
      const { latencyMs, bytesPerSecond } = network()
      const piece = Math.max(1, Math.min(bytes.length, Math.ceil(bytesPerSecond / 1000 * TICK_MS)))
      for (let at = 0; at < bytes.length; at += piece) {
        const part = bytes.subarray(at, at + piece)
        const now = performance.now()
        free = Math.max(free, now) + part.length / bytesPerSecond * 1000
        add(latencyMs + (Number.isFinite(bytesPerSecond) ? free - now : 0), () => {
          if (!target.destroyed) target.write(part)
        })
      }
    },
    end (reset) {
      add(network().latencyMs, () => {
        if (target.destroyed) return
        // Behind what was written, which a RST would overtake.
        if (reset) target.write('', () => target.resetAndDestroy())
        else target.end()
      })
    }
  }
}

/**
 * The types of the messages in `bytes`, which must hold whole ones: `PDBES…` (protocol docs,
 * "Message Formats").
 */
export function messageTypes (bytes: Buffer): string {
  return createFramer().feed(bytes).map(({ type }) => type).join('')
}

/**
 * Until nobody but the connections of the service is connected: who deletes expired keys looks for
 * them at the start, over a connection of its own.
 */
export async function untilAlone (proxy: Proxy): Promise<void> {
  await until(() =>
    proxy.bursts.some(({ bytes }) => bytes.includes('skip locked')) && proxy.links.size === 1
  )
}

/**
 * Whether nothing was said, or the last word was the server's: no transaction is open
 * (ReadyForQuery, status I).
 */
export function isIdle ({ bursts }: Proxy): boolean {
  const last = bursts.at(-1)
  return last === undefined ||
    (last.from === 'server' && last.bytes.subarray(-IDLE.length).equals(IDLE))
}

const IDLE = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/**
 * From now on a flight is answered when its end was sent: an engine that waited for any answer
 * within would hang.
 */
export function holdUntilWritten (proxy: Proxy): void {
  proxy.deliver = ({ sent, held }) => isUnfinished(sent) ? 0 : held.length
}

/**
 * Whether a flight was begun, and its end not sent: the COMMIT of `sql.begin`, behind the reset of
 * the session.
 */
function isUnfinished (sent: Buffer): boolean {
  return sent.includes(CLAIMS) &&
    !(sent.includes('from_sql))::int; commit and chain\0') &&
      sent.subarray(-SYNC.length).equals(SYNC))
}

const SYNC = Buffer.from([0x53, 0, 0, 0, 4])
