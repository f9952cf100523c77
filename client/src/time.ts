/**
 * Timeouts, aborts and delays.
 */

export interface Limits {
  readonly ms: number
  readonly signal: AbortSignal | undefined
  /** Create the errors of a timeout and of an abort. */
  readonly onTimeout: () => Error
  readonly onAbort: (reason: unknown) => Error
}

/** The longest delay of a timer. A longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Resolves with the result of `work`. After a timeout or an abort, it rejects at once and aborts
 * the signal of `work`.
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
    // Rounded up, because timers truncate fractions and would fire before the time is over.
    const delay = Math.min(Math.max(Math.ceil(ms), 0), MAX_TIMER_MS)
    const timer = setTimeout(() => end(onTimeout()), delay)
    signal?.addEventListener('abort', abort)
    work(controller.signal).finally(finish).then(resolve, reject)
  })
}

/** Waits. Resolves at once if the signal is aborted. */
export function pause (ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    }, { once: true })
  })
}
