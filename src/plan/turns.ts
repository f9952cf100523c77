/**
 * Lets large bodies take turns. Reading, planning and compiling one takes up to 100 ms, in which
 * no other request of the process proceeds, and a small batch needs several turns of the
 * event loop. Measured: one client that sent bodies of 1 MiB in a loop left 2 % of its throughput
 * to another one. A large body therefore waits until those before it have left time to the others.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { failure } from '../errors/catalogue.ts'

/** Smaller bodies do not wait: 32 KiB are read and planned in 3 ms. */
const LARGE_BYTES = 32_768

/** How much time large bodies leave to others, as a multiple of the time that they took. */
const PAUSE = 2

/** More bodies than this do not wait. */
const MAX_WAITING = 32

/** Runs `work` and reports how many milliseconds it took, also when it throws. */
export function timed<Result> (
  work: () => Result,
  report: ((ms: number) => void) | undefined
): Result {
  const started = performance.now()
  try {
    return work()
  } finally {
    report?.(performance.now() - started)
  }
}

export class Turns {
  #last = Promise.resolve()
  #waiting = 0
  /** When the next large body may be read, as a time of performance.now(). */
  #freeAt = 0

  /** Waits for the turn of a body of this size. Throws `overloaded` when too many wait. */
  async wait (bytes: number): Promise<void> {
    if (bytes < LARGE_BYTES) return
    if (this.#waiting === MAX_WAITING) throw failure('overloaded')
    this.#waiting++
    const before = this.#last
    const turn = Promise.withResolvers<void>()
    this.#last = turn.promise
    await before
    const ms = this.#freeAt - performance.now()
    if (ms > 0) await delay(ms)
    this.#waiting--
    // The caller uses its turn before the next one begins.
    setImmediate(turn.resolve)
  }

  /** Records that work for a body of this size has taken this long. */
  spend (ms: number, bytes: number): void {
    if (bytes < LARGE_BYTES) return
    this.#freeAt = Math.max(this.#freeAt, performance.now()) + PAUSE * ms
  }
}
