/**
 * The source of verification keys: one key, a JSON Web Key Set (RFC 7517), or a URL that serves
 * one.
 */
import { Value } from '@sinclair/typebox/value'
import { type Algorithm, type TokenHeader, Jwk, JwkSet, algorithms } from '../../schemas/token.ts'
import { failure } from '../errors/catalogue.ts'
import { findDuplicate, tryParse } from '../json/try-parse.ts'
import { type VerificationKey, readJwk } from './verification-key.ts'

/**
 * The keys, or the URL of their set, and the allowed algorithms. A token with another algorithm is
 * rejected before the key lookup.
 */
export interface TokenKeys {
  readonly keys: readonly VerificationKey[] | URL
  readonly algorithms: readonly Algorithm[]
}

/**
 * Reads the usable keys of the JSON text of a set; undefined when it is invalid or has duplicate
 * members. `onInvalid` gets what is wrong with a key, which never contains a part of it.
 */
export function readJwks (
  text: string,
  onInvalid: (problem: string) => void
): readonly VerificationKey[] | undefined {
  const set = tryParse(text)
  if (!Value.Check(JwkSet, set) || findDuplicate(text) !== undefined) return undefined
  return set.keys.flatMap((member, index) => {
    try {
      return readMember(member)
    } catch (error) {
      onInvalid(`key ${index + 1} ${(error as Error).message}`)
      return []
    }
  })
}

/**
 * The key for the token's `alg`, and for its `kid` if it has one. The only key for the `alg`
 * matches every `kid` if it has none itself. Undefined when no key or more than one matches: trying
 * several would be guessing.
 */
export function findKey (
  keys: readonly VerificationKey[],
  { alg, kid }: TokenHeader
): VerificationKey | undefined {
  const fitting = keys.filter(key => (key.algorithms as readonly string[]).includes(alg))
  const named = fitting.filter(key => kid === undefined || kid === key.kid)
  if (named.length > 0) return onlyKeyOf(named)
  return fitting.some(key => key.kid === undefined) ? onlyKeyOf(fitting) : undefined
}

/** The key of a list, which may contain it several times; undefined if there are others. */
function onlyKeyOf ([first, ...more]: readonly VerificationKey[]): VerificationKey | undefined {
  return more.every(({ material }) => material === first?.material) ? first : undefined
}

/** Returns nothing for a key with another purpose. Throws an Error for an invalid one. */
function readMember (member: object): readonly VerificationKey[] {
  if ('d' in member) throw new Error('is a private key')
  if (!Value.Check(Jwk, member)) throw new Error('is malformed')
  if (isIgnored(member)) return []
  const key = readJwk(member)
  const narrowed = key.algorithms.filter(algorithm =>
    member.alg === undefined || member.alg === algorithm
  )
  if (narrowed.length === 0) throw new Error('has an alg that does not match its type')
  return [{ ...key, algorithms: narrowed }]
}

/** Keys for other purposes: secrets, encryption, unsupported algorithms. */
function isIgnored ({ kty, use = 'sig', key_ops: operations = ['verify'], alg }: Jwk): boolean {
  return kty === 'oct' || use !== 'sig' || !operations.includes('verify') ||
    (alg !== undefined && !(algorithms as readonly string[]).includes(alg))
}

// Fetches and refreshes the key set at JWT_JWKS_URL. The last valid set is kept while the endpoint
// fails. With jose 6.2, a third of this class would go, but its remote set sends a request for each
// token with an unknown `kid` while the endpoint is down, and reads responses of any size. Its sets
// refuse a key that is listed twice or has no `kid`, have no Ed448, and do not name invalid keys.

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
export class RemoteJwks {
  readonly #options: Required<RemoteJwksOptions>
  readonly #closing = new AbortController()
  #keys: readonly VerificationKey[] | undefined
  #pending: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #failing = false
  /** Earliest time of the next fetch for an unknown key. */
  #nextFetchAt = -Infinity

  constructor (options: RemoteJwksOptions) {
    this.#options = { refreshMs: 600_000, cooldownMs: 30_000, retryMs: 1000, ...options }
    this.#refresh()
  }

  /**
   * Returns the key for a token with this header, or undefined if no key matches. Throws
   * `keys_unavailable` before the first successful fetch, and `shutting_down` if no key matches
   * after `close`.
   */
  async find (header: TokenHeader): Promise<VerificationKey | undefined> {
    const first = this.#keys === undefined
    if (first) await this.#pending
    if (this.#keys === undefined) throw failure('keys_unavailable')
    let key = findKey(this.#keys, header)
    // A request waits for one fetch at most. One that has waited for the first set does not fetch
    // it again.
    if (key === undefined && !first && this.#mayRefresh()) {
      await this.#refresh()
      key = findKey(this.#keys, header)
    }
    // A newer set might contain the key, but the source is closed.
    if (key === undefined && this.#closing.signal.aborted) throw failure('shutting_down')
    return key
  }

  close (): void {
    clearTimeout(this.#timer)
    this.#closing.abort()
  }

  /** Whether an unknown key may start a fetch or wait for the running one. */
  #mayRefresh (): boolean {
    if (this.#pending !== undefined) return true
    const now = performance.now()
    if (this.#closing.signal.aborted || now < this.#nextFetchAt) return false
    this.#nextFetchAt = now + this.#options.cooldownMs
    return true
  }

  #refresh (): Promise<void> {
    clearTimeout(this.#timer)
    this.#pending ??= this.#fetch().finally(() => {
      this.#pending = undefined
      if (this.#closing.signal.aborted) return
      this.#timer = setTimeout(() => this.#refresh(), this.#pauseMs()).unref()
    })
    return this.#pending
  }

  #pauseMs (): number {
    const { refreshMs, cooldownMs, retryMs } = this.#options
    if (this.#keys === undefined) return retryMs
    return this.#failing ? cooldownMs : refreshMs
  }

  async #fetch (): Promise<void> {
    const { url, algorithms, timeoutMs, onChange } = this.#options
    const { signal } = this.#closing
    try {
      const text = await download(url, AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]))
      const found = readJwks(text, () => {})
      if (found === undefined) throw new Error('the response is not a JSON Web Key Set')
      const usable = found.filter(key =>
        key.algorithms.some(algorithm => algorithms.includes(algorithm)))
      const hadKeys = this.#keys !== undefined && this.#keys.length > 0
      if (this.#failing || this.#keys === undefined || hadKeys !== (usable.length > 0)) {
        onChange({ keys: usable.length })
      }
      this.#keys = usable
      this.#failing = false
    } catch (error) {
      if (!this.#failing && !signal.aborted) onChange({ failed: reasonOf(error) })
      this.#failing = true
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
