/**
 * A client of the database for those who kill it.
 *
 * In charge of: an answer or an error within its time, whatever happens to the server, and a new
 * connection after each error. Refuses to: ask again by itself.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres, { type Row } from 'postgres'

export interface Asker {
  /** Rejects when the server is away, at the latest after `patienceMs`. */
  ask(text: string, patienceMs?: number): Promise<readonly Row[]>
  close(): void
}

/** A client that survives its server: each error is followed by a new connection. */
export function createAsker (url: string): Asker {
  let client: postgres.Sql | undefined
  const drop = (): void => {
    client?.end({ timeout: 0 }).catch(() => {})
    client = undefined
  }
  return {
    async ask (text, patienceMs = 5000) {
      client ??= postgres(url, { max: 1, connect_timeout: 5, backoff: () => 0.02, onnotice () {} })
      try {
        return await inTime(client.unsafe(text), patienceMs, 'the server is silent')
      } catch (error) {
        drop()
        throw error
      }
    },
    close: drop
  }
}

/** The same, or an Error when it takes longer. */
export async function inTime<T> (work: PromiseLike<T>, ms: number, otherwise: string): Promise<T> {
  const timer = new AbortController()
  const late = delay(ms, undefined, { signal: timer.signal }).then(() => {
    throw new Error(otherwise)
  })
  late.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}
