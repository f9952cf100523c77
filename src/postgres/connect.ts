/**
 * Connects to PostgreSQL: picks a host, opens TCP or a Unix socket, starts TLS and returns a socket
 * that is ready for the startup message. This replaces the connect code of postgres.js, which has
 * no deadline and accepts bytes injected before TLS. The only protocol message sent here is
 * SSLRequest. Nothing is retried.
 */
import { connect, type Socket } from 'node:net'
import { describeAddress, type DatabaseTarget, type HostAddress } from '../../schemas/database.ts'
import { connectWithReadBuffer } from './messages.ts'
import { readCredentials, startTls, type StartTlsOptions, waitForEvent } from './tls.ts'

/** Idle time before the kernel probes the server; Linux gives up after 9 more probes of 75 s. */
const KEEP_ALIVE_DELAY_MS = 60_000

const NEVER_ABORTED = new AbortController().signal

export interface ConnectOptions {
  /** Index of the first host to try. */
  readonly firstHost: number
  /** Longest time for all hosts together. */
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

export interface ConnectedSocket {
  /** Connected and, where configured, encrypted. Nothing was read; no listeners are left. */
  readonly socket: Socket
  /** `host:port` or the path of the Unix socket, for logs. */
  readonly address: string
  /** Index of the host to try when this server does not match, e.g. because it is a standby. */
  readonly nextHost: number
  /** Why the hosts before it were not used, each with its address. */
  readonly refusals: readonly string[]
}

/**
 * Connects to the first host that accepts, in order from `firstHost`. The remaining time is divided
 * evenly among the remaining hosts, so an unresponsive one leaves time for the next. The caller
 * must attach an `error` listener before its next await. Throws an Error after
 * `timeoutMs`, or when `signal` is aborted. Its message names each address with its error, and no
 * secret.
 */
export async function connectSocket (
  target: DatabaseTarget,
  { firstHost, timeoutMs, signal = NEVER_ABORTED }: ConnectOptions
): Promise<ConnectedSocket> {
  const { hosts, tls } = target
  const end = performance.now() + timeoutMs
  const context = await readCredentials(tls, timeoutMs)
  const errors: string[] = []
  for (const [index, host] of hosts.entries()) {
    if (index < firstHost) continue
    const address = describeAddress(host)
    const timeoutMs = Math.max(1, (end - performance.now()) / (hosts.length - index))
    // libpq does not encrypt Unix sockets either: no network can be listened to.
    const encryption = context === undefined || 'path' in host
      ? undefined
      : { tls, context, name: host.host }
    try {
      const socket = await connectHost(host, encryption, { timeoutMs, signal })
      return { socket, address, nextHost: index + 1, refusals: errors }
    } catch (error) {
      errors.push(`${address}: ${describeError(error)}`)
    }
  }
  throw new Error(`no connection to the database: ${errors.join('; ')}`)
}

async function connectHost (
  host: HostAddress,
  encryption: StartTlsOptions | undefined,
  { timeoutMs, signal }: { readonly timeoutMs: number, readonly signal: AbortSignal }
): Promise<Socket> {
  signal.throwIfAborted()
  const plain = (encryption === undefined ? connectWithReadBuffer : connect)({
    ...host,
    // A transaction is several small writes. With Nagle's algorithm the second one would wait for
    // the server to acknowledge the first.
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS
  })
  // Between two awaited steps nothing else listens, and an unhandled `error` ends the process.
  plain.on('error', ignore)
  let reason: unknown
  const giveUp = (why: unknown): void => {
    reason = why
    plain.destroy()
  }
  // Not the `signal` option of `connect`: it would also destroy an open connection.
  const onAbort = (): void => giveUp(signal.reason)
  signal.addEventListener('abort', onAbort)
  const timeout = new Error(`no answer within ${Math.round(timeoutMs)} ms`)
  const timer = setTimeout(giveUp, timeoutMs, timeout)
  const open = async (): Promise<Socket> => {
    await waitForEvent(plain, 'connect')
    return encryption === undefined ? plain : startTls(plain, encryption)
  }
  return open().catch((error: unknown) => {
    plain.destroy()
    throw reason ?? error
  }).finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
    plain.off('error', ignore)
  })
}

function ignore (): void {}

/** A name with several addresses fails with an AggregateError whose own message is empty. */
function describeError (error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(describeError).join(', ')
  return (error as Error).message
}
