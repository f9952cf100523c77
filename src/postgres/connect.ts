/**
 * Connects to PostgreSQL: picks the host, opens TCP or a Unix socket, has it protected, and hands
 * over a socket on which the startup message can be written. It is what the client library's
 * `socket` option is given (with `ssl: false`), because the library's own way has no deadline,
 * takes bytes that were slipped in before TLS, and gives no say about buffers. Refuses to speak
 * more of the protocol than SSLRequest; never retries; knows no user and no password.
 */
import { connect, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { DatabaseTarget, HostAddress } from '../../schemas/database.ts'
import { waitForEvent } from './wait-for-event.ts'
import { connectMessageReader } from './message-reader.ts'
import { readCredentials, startTls, type StartTlsOptions } from './tls.ts'

/**
 * Bytes that may be waiting in a socket before `write` says false. The client library takes false
 * as "stop pipelining" and would put a round trip into the middle of a transaction, with locks
 * held. Nothing is allocated by this. SQL can be many times as large as the batch it was made of
 * (15 times, for conditions with references), so MAX_BODY_BYTES is no measure for it.
 */
const BUFFERS = { highWaterMark: 1024 * 1024 * 1024 }

/**
 * Silence after which the kernel asks whether a server is still there; Linux gives up 9 × 75 s
 * later.
 */
const KEEP_ALIVE_AFTER_MS = 60_000

/** The signal of those who never change their mind. */
const NEVER = new AbortController().signal

export interface OpenSocketOptions {
  /**
   * Connected and, where wanted, encrypted; no byte of the session has been read; without listeners
   * of ours.
   */
  readonly socket: Socket
  /** Where it leads, for logs: `host:port` or the path of the Unix socket. */
  readonly address: string
  /**
   * Where to start when this server turns out to be the wrong one, e.g. a standby: the number of
   * the host behind it.
   */
  readonly next: number
}

/**
 * Tries each host from number `start` to the last once, in order; the rest of the time is shared
 * evenly among the hosts that are left, so that one which never answers does not eat it all. The
 * caller must attach its own `error` listener before it awaits anything else. Throws an
 * AggregateError within `timeoutMs`, or as soon as `signal` is aborted; its message names every
 * address with its failure, and no secret.
 */
export async function connectSocket (
  target: DatabaseTarget,
  start: number,
  timeoutMs: number,
  signal: AbortSignal = NEVER
): Promise<OpenSocketOptions> {
  const { hosts, tls } = target
  const end = performance.now() + timeoutMs
  const context = await readCredentials(tls, timeoutMs)
  const failures: Error[] = []
  for (const [number, host] of hosts.entries()) {
    if (number < start) continue
    const address = describeAddress(host)
    const timeoutMs = Math.max(1, (end - performance.now()) / (hosts.length - number))
    try {
      const socket = await openHost(host, target, context, { timeoutMs, signal })
      return { socket, address, next: number + 1 }
    } catch (error) {
      failures.push(new Error(`${address}: ${describeFailure(error)}`, { cause: error }))
    }
  }
  throw new AggregateError(
    failures,
    `no connection to the database: ${failures.map(failure => failure.message).join('; ')}`
  )
}

interface Patience {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

async function openHost (
  host: HostAddress,
  target: DatabaseTarget,
  context: SecureContext | undefined,
  { timeoutMs, signal }: Patience
): Promise<Socket> {
  signal.throwIfAborted()
  // libpq never encrypts Unix sockets either: there is no network to listen on.
  const securing = context === undefined || 'path' in host
    ? undefined
    : { tls: target.tls, context, name: host.host, buffers: BUFFERS }
  const plain = (securing === undefined ? connectMessageReader : connect)({
    ...host,
    ...BUFFERS,
    // A flight is several small writes: with Nagle's algorithm the second would wait for the answer
    // to the first.
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS
  })
  // Between two awaited steps nobody else listens, and an error that nobody hears ends the process.
  plain.on('error', ignore)
  let reason: unknown
  const giveUp = (why: unknown): void => {
    reason = why
    plain.destroy()
  }
  // Not the option `signal` of `connect`: it would hold for as long as the socket lives,
  // transactions included.
  const aborted = (): void => giveUp(signal.reason)
  signal.addEventListener('abort', aborted)
  const timer = setTimeout(
    giveUp,
    timeoutMs,
    new Error(`no answer within ${Math.round(timeoutMs)} ms`)
  )
  return await prepare(plain, securing).catch((error: unknown) => {
    plain.destroy()
    throw reason ?? error
  }).finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', aborted)
    plain.off('error', ignore)
  })
}

async function prepare (plain: Socket, securing: StartTlsOptions | undefined): Promise<Socket> {
  await waitForEvent(plain, 'connect')
  return securing === undefined ? plain : await startTls(plain, securing)
}

function ignore (): void {}

function describeAddress (host: HostAddress): string {
  if ('path' in host) return host.path
  return host.host.includes(':') ? `[${host.host}]:${host.port}` : `${host.host}:${host.port}`
}

/** A name with several addresses fails with an AggregateError whose own message is empty. */
function describeFailure (error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(describeFailure).join(', ')
  return (error as Error).message
}
