/**
 * A database client for scenarios that kill the server. Every query has a timeout. After an error
 * the next query opens a new connection; nothing is retried.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres, { type Row } from 'postgres'

export interface QueryClient {
  /** Rejects if the server is unavailable, at the latest after `timeoutMs`. */
  query(text: string, timeoutMs?: number): Promise<readonly Row[]>
  close(): void
}

/** Creates a client. It opens a new connection after each error. */
export function createQueryClient (url: string): QueryClient {
  let client: postgres.Sql | undefined
  const disconnect = (): void => {
    client?.end({ timeout: 0 }).catch(() => {})
    client = undefined
  }
  return {
    async query (text, timeoutMs = 5000) {
      client ??= postgres(url, { max: 1, connect_timeout: 5, backoff: () => 0.02, onnotice () {} })
      try {
        return await withTimeout(client.unsafe(text), timeoutMs, 'the server does not respond')
      } catch (error) {
        disconnect()
        throw error
      }
    },
    close: disconnect
  }
}

/** Returns the result of `work`. Throws an Error with `message` after `ms`. */
export async function withTimeout<T> (
  work: PromiseLike<T>,
  ms: number,
  message: string
): Promise<T> {
  const timer = new AbortController()
  const timeout = delay(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Error(message)
  })
  timeout.catch(() => {})
  try {
    return await Promise.race([work, timeout])
  } finally {
    timer.abort()
  }
}
