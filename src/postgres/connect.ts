/**
 * Connects to PostgreSQL: opens TCP or a Unix socket, starts TLS and returns a socket that is ready
 * for the startup message. This replaces the connect code of postgres.js, which has no deadline and
 * accepts bytes injected before TLS. The only protocol message sent here is SSLRequest. Nothing is
 * retried.
 */
import { connect, type Socket } from 'node:net'
import { describeAddress, type DatabaseTls, type HostAddress } from '../../schemas/database.ts'
import { connectWithReadBuffer } from './messages.ts'
import { readCredentials, startTls, waitForEvent } from './tls.ts'

/** Idle time before the kernel probes the server; Linux gives up after 9 more probes of 75 s. */
const KEEP_ALIVE_DELAY_MS = 60_000

interface ConnectOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Connects to a host. Nothing was read from the socket, and no listeners are left on it. The caller
 * must attach an `error` listener before its next await. Throws an Error after `timeoutMs`, or when
 * `signal` is aborted. Its message names the address, and no secret.
 */
export async function connectSocket (
  host: HostAddress,
  tls: DatabaseTls,
  { timeoutMs, signal }: ConnectOptions
): Promise<Socket> {
  const end = performance.now() + timeoutMs
  try {
    // libpq does not encrypt Unix sockets either: no network can be listened to.
    const context = 'path' in host ? undefined : await readCredentials(tls, timeoutMs)
    signal?.throwIfAborted()
    const plain = (context === undefined ? connectWithReadBuffer : connect)({
      ...host,
      // A transaction is several small writes. With Nagle's algorithm the second one would wait for
      // the server to acknowledge the first.
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS
    })
    const open = async (): Promise<Socket> => {
      await waitForEvent(plain, 'connect')
      const { host: name } = host as { readonly host: string }
      return context === undefined ? plain : await startTls(plain, { tls, context, name })
    }
    // Between two awaited steps nothing else listens, and an unhandled `error` ends the process.
    plain.on('error', ignore)
    const late = new Error(`no answer within ${Math.round(timeoutMs)} ms`)
    const remaining = Math.max(1, end - performance.now())
    return await limitTime(open(), { socket: plain, timeoutMs: remaining, late, signal })
      .catch((error: unknown) => {
        plain.destroy()
        throw error
      })
      .finally(() => plain.off('error', ignore))
  } catch (error) {
    throw new Error(`${describeAddress(host)}: ${describeError(error)}`)
  }
}

function ignore (): void {}

/** A name with several addresses fails with an AggregateError whose own message is empty. */
function describeError (error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(describeError).join(', ')
  return (error as Error).message
}

interface TimeLimit extends ConnectOptions {
  readonly socket: { destroy(): unknown }
  /** The error after `timeoutMs`, and when `signal` is aborted. */
  readonly late: Error
}

/**
 * Destroys the socket after `timeoutMs` or when `signal` is aborted, so that the work on it fails,
 * with `late`. Not the `signal` option of `connect`: it would also destroy an open connection.
 */
export function limitTime<Result> (
  work: Promise<Result>,
  { socket, timeoutMs, late, signal }: TimeLimit
): Promise<Result> {
  let gaveUp = false
  const giveUp = (): void => {
    gaveUp = true
    socket.destroy()
  }
  // Not AbortSignal.timeout: its timer would stay until it fires.
  const timer = setTimeout(giveUp, timeoutMs)
  signal?.addEventListener('abort', giveUp)
  return work.catch((error: unknown) => {
    throw gaveUp ? late : error
  }).finally(() => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', giveUp)
  })
}
