/**
 * Lets large bodies leave time to other requests. Reading, planning and compiling one takes up to
 * 100 ms in a row, in which no other request of the process proceeds, and a small batch needs
 * several turns of the event loop. Measured: one client that sent bodies of 1 MiB in a loop left
 * 2 % of its throughput to another one. While there are small bodies, the next large one therefore
 * waits until the one before has left time to the others.
 */
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { failure } from '../../src/errors/catalogue.ts'

/** Smaller bodies do not wait: 16 KiB are read, planned and compiled in about 3 ms. */
const LARGE_BYTES = 16_384

/** How much time a large body leaves to others, as a multiple of the time that it took. */
const PAUSE = 2

/** If no small body came for this many milliseconds, large ones do not wait. */
const MAX_QUIET_MS = 250

/** Estimated milliseconds to receive a byte and to send it on, which are not measured. */
const MS_PER_BYTE = 1e-5

/** More bodies than this do not wait; by default, pool and queue take 50 batches. */
const MAX_WAITING = 64

/** The work for a body, which ends when it is first disposed of. */
export interface BodyWork extends Disposable {
  /** Lets others proceed between two parts of the work for a large body. */
  readonly next: () => Promise<void> | void
}

const smallWork: BodyWork = { next () {}, [Symbol.dispose] () {} }

export class LargeBodies {
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #smallAt = -Infinity

  /** Waits until the work for a body of this size may start. Throws `overloaded`. */
  async start (bytes: number): Promise<BodyWork> {
    if (bytes < LARGE_BYTES) {
      this.#smallAt = performance.now()
      return smallWork
    }
    if (this.#waiting === MAX_WAITING) throw failure('overloaded')
    this.#waiting++
    const before = this.#last
    const { promise, resolve } = Promise.withResolvers<unknown>()
    this.#last = promise
    await before
    this.#waiting--
    const start = performance.now()
    let isEnded = false
    return {
      next: () => nextTurn(),
      [Symbol.dispose]: () => {
        if (isEnded) return
        isEnded = true
        const now = performance.now()
        const ms = now - this.#smallAt < MAX_QUIET_MS ? now - start + MS_PER_BYTE * bytes : 0
        resolve(delay(PAUSE * ms))
      }
    }
  }
}
