/**
 * A TCP proxy between the service and PostgreSQL. It records the traffic and injects network
 * faults: holding back, delaying, throttling, dropping and cutting. It parses only message
 * boundaries.
 */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { listen } from './listen.ts'
import { createFramer, type Frame, type Framer } from './messages.ts'
import { until } from '../until.ts'
import { resetSocket } from './reset.ts'

export type Side = 'client' | 'server'

/**
 * A text that occurs in the session statement of every batch and nowhere else. The claims are sent
 * as a parameter, also with prepared statements.
 */
export const CLAIMS = '"role":'

/** The bytes that one side sent before the other side sent something. */
export interface Burst {
  readonly from: Side
  readonly bytes: Buffer
}

/** One connection through the proxy. */
export interface Link {
  readonly client: Socket
  readonly server: Socket
  /** The bytes that the client sent since it last received something. */
  sent: Buffer
  /** Bytes from the server that were not delivered yet. */
  held: Buffer
}

/**
 * When a fault happens: after this many bytes or messages of its side, or at the response with this
 * command tag, for example `COMMIT`.
 */
export type Moment =
  | { readonly bytes: number }
  | { readonly messages: number }
  | { readonly tag: string, readonly delivered: 'none' | 'half' }

/** A fault of one connection: the first one on which `from` is sent. */
export interface Fault {
  /**
   * `cut` closes the connection on both sides with a FIN, `reset` with a RST. `blackhole` keeps it
   * open and drops everything from either side.
   */
  readonly kind: 'cut' | 'reset' | 'blackhole'
  /** The side whose bytes count. What came before the fault is delivered. */
  readonly side: Side
  readonly after: Moment
  /** Counting begins when the client sends one of these texts; by default at once. */
  readonly from?: readonly string[]
}

export interface Injected {
  readonly begun: boolean
  readonly happened: boolean
  /** Whether the transaction or the connection ended without the fault. */
  readonly missed: boolean
  /** The counts so far. */
  readonly seen: Readonly<Record<Side, { readonly bytes: number, readonly messages: number }>>
}

export interface Proxy {
  /** `url` with its host and port replaced by the proxy's. */
  through(url: string): string
  /** All bursts since the last `record`. */
  readonly bursts: readonly Burst[]
  record(): void
  readonly links: ReadonlySet<Link>
  /**
   * How many bytes of `link.held` may be delivered to the client; all by default. Called whenever
   * either side sends.
   */
  deliver: (link: Link) => number
  /** Whether bytes of the client are forwarded. Other bytes are lost. */
  forward: (link: Link) => boolean
  open: boolean
  /** Delay in each direction. */
  latencyMs: number
  /** Bytes per second in each direction of each connection. */
  bytesPerSecond: number
  /** Drops everything on every connection, also its end. Dropped bytes are lost. */
  blackhole: boolean
  /** Injects a fault once. It replaces a fault that has not happened yet. */
  inject(fault: Fault): Injected
  /** Closes every connection on both sides, with a FIN or a RST. */
  cut(how?: 'end' | 'reset'): void
}

/** Starts a proxy to the server of `url`. The end of `t` stops it. */
export async function useProxy (t: Pick<Test, 'teardown'>, url: string): Promise<Proxy> {
  const { hostname, port } = new URL(url)
  const links = new Set<Link>()
  const sockets = new Set<Socket>()
  let pending: Watch | undefined
  let bursts: Burst[] = []
  const record = (from: Side, bytes: Buffer): void => {
    const last = bursts.at(-1)
    if (last?.from === from) {
      bursts[bursts.length - 1] = { ...last, bytes: Buffer.concat([last.bytes, bytes]) }
    } else bursts.push({ from, bytes })
  }
  /** Forwards the bytes up to an injected fault, and triggers the fault. */
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
  const proxyPort = await listen(listener)

  const proxy: Proxy = {
    through (url) {
      const target = new URL(url)
      target.host = `127.0.0.1:${proxyPort}`
      return target.href
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
      // Not only those of `links`: one side of a swallowed connection may still be open.
      for (const socket of sockets) how === 'reset' ? resetSocket(socket) : socket.destroy()
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
  /** From this side to the other side. */
  readonly lines: Readonly<Record<Side, Line>>
  /** Whether everything is dropped, in both directions. */
  swallowed: boolean
}

interface Watch extends Injected {
  readonly kind: Fault['kind']
  link: Link | undefined
  begins(sent: Buffer): boolean
  /** Called when the connection has ended. */
  lose(): void
  /**
   * How many of the bytes to forward if the fault happens within them; undefined if it does not.
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
    return Math.max(0, after.delivered === 'none' ? start : Math.floor((start + end) / 2))
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
    begins: sent => from?.some(text => sent.includes(text)) ?? true,
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
 * One direction of a connection: forwards bytes in order, with delay and throttling, then the end.
 */
interface Line {
  push(bytes: Buffer): void
  end(reset: boolean): void
}

/** The interval at which a throttled line forwards bytes. */
const TICK_MS = 10

function createLine (
  target: Socket,
  network: () => Pick<Proxy, 'latencyMs' | 'bytesPerSecond'>
): Line {
  const queue: Array<{ readonly due: number, readonly work: () => void }> = []
  /** The time at which the line has forwarded everything so far. */
  let idleAt = 0
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
        idleAt = Math.max(idleAt, now) + part.length / bytesPerSecond * 1000
        add(latencyMs + (Number.isFinite(bytesPerSecond) ? idleAt - now : 0), () => {
          if (!target.destroyed) target.write(part)
        })
      }
    },
    end (reset) {
      add(network().latencyMs, () => {
        if (target.destroyed) return
        // After the written bytes, which a RST would overtake.
        if (reset) target.write('', () => resetSocket(target))
        else target.end()
      })
    }
  }
}

/**
 * Returns the types of the complete messages in `bytes`: `PDBES…` (protocol docs, "Message
 * Formats").
 */
export function messageTypes (bytes: Buffer): string {
  return createFramer().feed(bytes).map(({ type }) => type).join('')
}

/**
 * Waits until only the pool of the service is connected. The deletion of expired keys uses another
 * connection at the start.
 */
export async function untilAlone (proxy: Proxy): Promise<void> {
  await until(() =>
    proxy.bursts.some(({ bytes }) => bytes.includes('skip locked')) && proxy.links.size === 1
  )
}

/**
 * Whether nothing was recorded or the last message was ReadyForQuery with status I, after the
 * answer to a function call if one was sent: no transaction is open.
 */
export function isIdle ({ bursts }: Proxy): boolean {
  const last = bursts.at(-1)
  if (last === undefined) return true
  const sent = bursts.findLast(({ from }) => from === 'client')?.bytes
  const idle = sent !== undefined && endsWithCall(sent) ? RETURNED : IDLE
  return last.from === 'server' && endsWith(last.bytes, idle)
}

function endsWith (bytes: Buffer, end: Buffer): boolean {
  return bytes.subarray(-end.length).equals(end)
}

const IDLE = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])
/** The answer to the call of a function, which returns void. */
const RETURNED = Buffer.concat([Buffer.from([0x56, 0, 0, 0, 8, 0, 0, 0, 0]), IDLE])

/** Whether the last message calls a function without arguments. */
function endsWithCall (sent: Buffer): boolean {
  return sent.subarray(-15, -10).equals(CALL_HEAD) && endsWith(sent, NO_ARGUMENTS)
}

/** The type and the length of the message. The OID of the function follows. */
const CALL_HEAD = Buffer.from([0x46, 0, 0, 0, 14])
const NO_ARGUMENTS = Buffer.from([0, 0, 0, 0, 0, 1])

/**
 * Delivers responses only after the complete transaction was sent. An engine that waits for a
 * response within the pipeline hangs.
 */
export function holdUntilWritten (proxy: Proxy): void {
  proxy.deliver = ({ sent, held }) => isUnfinished(sent) ? 0 : held.length
}

/** Whether a transaction was started, and the end of its reset not sent. */
function isUnfinished (sent: Buffer): boolean {
  return sent.includes(CLAIMS) && !endsWithCall(sent) && !END.test(tailOf(sent))
}

/** The end of what was sent: more than a comment has. */
const tailOf = (sent: Buffer): string => sent.subarray(-500).toString('latin1')

/** The end without a reset, or behind a pooler, perhaps with a comment. */
const END = /(?:commit|rollback)(?: \/\*[^*]+\*\/)?\0$/

/** On a connection that was quiet for longer, the service sends BEGIN and awaits its answer. */
const MAX_QUIET_MS = 100

/** Waits until the next batch on any connection sends BEGIN first. */
export async function untilQuiet (proxy: Proxy): Promise<void> {
  const count = (): string => `${proxy.bursts.length} ${proxy.bursts.at(-1)?.bytes.length}`
  let last = count()
  let since = performance.now()
  await until(() => {
    const now = count()
    if (now !== last) since = performance.now()
    last = now
    // Twice the time: what was delivered may be read a little later.
    return performance.now() - since > 2 * MAX_QUIET_MS
  })
}
