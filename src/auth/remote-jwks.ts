/**
 * Fetches and refreshes the key set at JWT_JWKS_URL. The last valid set is kept while the endpoint
 * fails. jose's remote set is not used: it drops its keys when a refresh fails, and sends a request
 * for every token with an unknown `kid` while the endpoint is down.
 */
import { failure } from '../errors/catalogue.ts'
import type { Algorithm } from '../../schemas/token.ts'
import type { VerificationKey } from './verification-key.ts'
import { findKey, narrowKeys, readJwks, usableKeys, type KeySource } from './jwks.ts'

export interface RemoteJwksOptions {
  readonly url: URL
  /** Allowed algorithms. Keys without any of them are dropped. */
  readonly algorithms: readonly Algorithm[]
  /** Maximum time of one fetch. All times are in milliseconds. */
  readonly timeoutMs: number
  /** Time from a successful fetch to the next scheduled one. */
  readonly refreshMs?: number
  /**
   * Minimum time between fetches for unknown keys. Also the time from a failed fetch to the next
   * scheduled one.
   */
  readonly cooldownMs?: number
  /** Time from a failed fetch to the next one before the first success. */
  readonly retryMs?: number
  /**
   * Called when fetching starts to fail (with the reason) or recovers (with the number of usable
   * keys), and when the number of usable keys becomes zero or stops being zero.
   */
  readonly onChange: (change: { readonly failed: string } | { readonly keys: number }) => void
}

const MAX_BYTES = 1_048_576

/**
 * Starts fetching. When no key matches a token, `find` may fetch the set again before it resolves.
 * `close` stops timers and aborts a running fetch.
 */
export function createRemoteJwks (
  {
    url,
    algorithms,
    timeoutMs,
    refreshMs = 600_000,
    cooldownMs = 30_000,
    retryMs = 1000,
    onChange
  }: RemoteJwksOptions
): KeySource {
  const closing = new AbortController()
  let keys: readonly VerificationKey[] | undefined
  let pending: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let failing = false
  /** Earliest time of the next fetch for an unknown key. */
  let nextFetchAt = -Infinity

  const fetchSet = async (): Promise<void> => {
    try {
      const found = readJwks(
        await download(url, AbortSignal.any([closing.signal, AbortSignal.timeout(timeoutMs)]))
      )
      if (found === undefined) throw new Error('the response is not a JSON Web Key Set')
      const usable = narrowKeys(usableKeys(found), algorithms)
      if (failing || keys === undefined || (keys.length === 0) !== (usable.length === 0)) {
        onChange({ keys: usable.length })
      }
      keys = usable
      failing = false
    } catch (error) {
      if (!failing && !closing.signal.aborted) onChange({ failed: reasonOf(error) })
      failing = true
    }
  }
  const refresh = (): Promise<void> => {
    clearTimeout(timer)
    pending ??= fetchSet().finally(() => {
      pending = undefined
      if (closing.signal.aborted) return
      timer = setTimeout(refresh, keys === undefined ? retryMs : failing ? cooldownMs : refreshMs)
        .unref()
    })
    return pending
  }
  /** Whether an unknown key may start a fetch or wait for the running one. */
  const mayRefresh = (): boolean => {
    if (pending !== undefined) return true
    const now = performance.now()
    if (closing.signal.aborted || now < nextFetchAt) return false
    nextFetchAt = now + cooldownMs
    return true
  }

  refresh()
  return {
    async find (header) {
      const first = keys === undefined
      if (first) await pending
      if (keys === undefined) throw failure('keys_unavailable')
      let key = findKey(keys, header)
      // A set that was fetched just now is not fetched again: a request waits once.
      if (key === undefined && !first && mayRefresh()) {
        await refresh()
        key = findKey(keys, header)
      }
      // A newer set might contain the key, but the source is closed.
      if (key === undefined && closing.signal.aborted) throw failure('shutting_down')
      return key
    },
    close () {
      clearTimeout(timer)
      closing.abort()
    }
  }
}

/** Redirects are not followed: only the configuration decides where keys come from. */
async function download (url: URL, signal: AbortSignal): Promise<string> {
  const response = await fetch(url, {
    redirect: 'manual',
    signal,
    headers: { accept: 'application/jwk-set+json, application/json', connection: 'close' }
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`status ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let bytes = 0
  // Counts decoded bytes: a small compressed body may expand to a large one. A body always exists
  // with status 200.
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > MAX_BYTES) throw new Error(`the response is larger than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** Our own message or an error code: messages of the platform may contain the URL. */
function reasonOf (error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string } }
  if (name === 'TimeoutError') return 'no response in time'
  return cause?.code ?? (name === 'Error' ? message : 'the request failed')
}
