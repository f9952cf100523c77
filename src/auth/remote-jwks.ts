/**
 * The keys at a URL (JWT_JWKS_URL): fetched at start, kept, and fetched again now and then, so that
 * new keys are found and removed ones die. The last good set stays while the endpoint is down or
 * talks nonsense. Not jose's remote set: that one forgets its keys when they cannot be refreshed,
 * and while the endpoint is down every token with an unknown `kid` is a request to it.
 */
import { failure } from '../errors/catalogue.ts'
import type { Algorithm } from '../../schemas/token.ts'
import type { VerificationKey } from './verification-key.ts'
import { findKey, narrowKeys, readJwks, usableKeys, type KeySource } from './jwks.ts'

export interface RemoteJwksOptions {
  readonly url: URL
  /** The algorithms in force; keys that fit none of them are left out. */
  readonly algorithms: readonly Algorithm[]
  /** Longest time of one fetch. All times in milliseconds. */
  readonly timeoutMs: number
  /** From a good set to the next scheduled fetch. */
  readonly refreshMs?: number
  /**
   * From one fetch that a token asked for to the next; also from a failure to the next scheduled
   * fetch.
   */
  readonly cooldownMs?: number
  /** From a failure to the next fetch as long as there is no set at all. */
  readonly retryMs?: number
  /**
   * Hears when fetching begins to fail or works again, and when there begins or ends to be a usable
   * key: the reason, or their number.
   */
  readonly onChange: (change: { readonly failed: string } | { readonly keys: number }) => void
}

const MAX_BYTES = 1_048_576

/**
 * Begins to fetch. When no key fits a token, the set may be fetched again before `find` answers;
 * `close` ends timers and a fetch that is under way.
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
  /** From when on a token may ask for a fetch. */
  let mayAsk = -Infinity

  const fetchSet = async (): Promise<void> => {
    try {
      const found = readJwks(
        await download(url, AbortSignal.any([closing.signal, AbortSignal.timeout(timeoutMs)]))
      )
      if (found === undefined) throw new Error('the answer is no set of keys')
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
  /**
   * Whether a token for which no key fits is worth a fetch, or may wait for the one that is under
   * way.
   */
  const mayRefresh = (): boolean => {
    if (pending !== undefined) return true
    const now = performance.now()
    if (closing.signal.aborted || now < mayAsk) return false
    mayAsk = now + cooldownMs
    return true
  }

  refresh()
  return {
    async find (header) {
      const first = keys === undefined
      if (first) await pending
      if (keys === undefined) throw failure('keys_unavailable')
      let key = findKey(keys, header)
      // Not what was fetched a moment ago: a request waits once.
      if (key === undefined && !first && mayRefresh()) {
        await refresh()
        key = findKey(keys, header)
      }
      // Another set might have it, but the time to ask is over.
      if (key === undefined && closing.signal.aborted) throw failure('shutting_down')
      return key
    },
    close () {
      clearTimeout(timer)
      closing.abort()
    }
  }
}

/**
 * The text at the URL. No redirect is followed: who may name the keys is decided by the
 * configuration alone.
 */
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
  // Of the decoded body: a small one may unfold to a large one. With status 200 there always is
  // one.
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > MAX_BYTES) throw new Error(`the answer is larger than ${MAX_BYTES} bytes`)
    chunks.push(chunk)
  }
  return new TextDecoder().decode(Buffer.concat(chunks))
}

/** Our own words or a code, e.g. ECONNREFUSED: the messages of the platform may hold the URL. */
function reasonOf (error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string } }
  if (name === 'TimeoutError') return 'no answer in time'
  return cause?.code ?? (name === 'Error' ? message : 'the request failed')
}
