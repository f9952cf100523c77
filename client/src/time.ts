/**
 * Work and pauses that end in time, or when the caller no longer waits.
 */

export interface Limits {
  readonly ms: number
  readonly signal: AbortSignal | undefined
  /** The errors of an end before the time. */
  readonly onTimeout: () => Error
  readonly onAbort: (reason: unknown) => Error
}

/** The longest time that timers take; anything longer would fire at once. */
const maxTimer = 2 ** 31 - 1

/**
 * What `work` answers, unless time is over or the signal is aborted before; then its own signal is
 * aborted, and nobody waits for it.
 */
export function limit<T> (
  work: (signal: AbortSignal) => Promise<T>,
  { ms, signal, onTimeout, onAbort }: Limits
): Promise<T> {
  if (signal?.aborted === true) return Promise.reject(onAbort(signal.reason))
  const controller = new AbortController()
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
    const end = (error: Error): void => {
      finish()
      reject(error)
      controller.abort(error)
    }
    const abort = (): void => end(onAbort(signal?.reason))
    // Timers cut off fractions; what is decided when this one fires counts on the time being over.
    const timer = setTimeout(() => end(onTimeout()), Math.min(Math.max(Math.ceil(ms), 0), maxTimer))
    signal?.addEventListener('abort', abort)
    work(controller.signal).finally(finish).then(resolve, reject)
  })
}

/** A pause; it ends at once when it is aborted. */
export function pause (ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    }, { once: true })
  })
}
