/**
 * The work that a batch causes. Each limit of a batch bounds a count, for example of operations or
 * of conditions, but only their product bounds how long the service is busy with one request.
 *
 * A unit is about a microsecond of the service's processor. Measured with Node 24 on two cores: a
 * body of 1 MiB with 60 000 conditions took 400 ms, one with 160 000 keys of paths 250 ms.
 */
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { failure } from '../errors/catalogue.ts'
import { finish, type Pieces } from '../json/parse.ts'

/** The units of the parts of a batch, in addition to one for each JSON value that is checked. */
export const units = {
  operation: 100,
  /** An element of a list. */
  element: 0.35,
  /** A condition, an output column, a sort key, an argument, a new value. */
  part: 5,
  /** A member of an object that is checked. */
  name: 0.5,
  /** A key of a path. */
  key: 2,
  /** A character of a name. */
  character: 0.125,
  /** A reference, wherever it stands. */
  reference: 2,
  /** The first time that an operation names a reference. */
  newReference: 2,
  /** A reference or a column of `from` that is an operand of its own. */
  operand: 8,
  /** A reference in `$first`, and a member of `when`. */
  choice: 12,
  /** A table that is read by `exists`, `with` or `from`. */
  table: 30,
  /** A group of rows, which is a statement of its own within the operation. */
  group: 40,
  /** A part that a group repeats. */
  repeated: 2,
  /** A row of an update by `key`. */
  row: 2,
  /** A member of such a row. */
  member: 0.5
} as const

/** The units that a batch may spend. */
export class WorkBudget {
  readonly #limit: number
  #spent = 0

  /** `limit`: MAX_WORK. */
  constructor (limit: number) {
    this.#limit = limit
  }

  get spent (): number {
    return this.#spent
  }

  /** Throws `too_much_work` when the batch spends more units than the limit. */
  spend (units: number, { op, index }: { readonly op: string, readonly index: number }): void {
    this.#spent += units
    if (this.#spent <= this.#limit) return
    throw failure(
      'too_much_work',
      `The batch needs more than ${this.#limit} units of work (MAX_WORK), exceeded in operation ` +
        `${index} ("${op}"). Send its operations in several batches, or its conditions as lists ` +
        '("in") and its values as rows.',
      { op, index }
    )
  }
}

// Lets large bodies take turns. Reading, planning and compiling one takes up to 100 ms each, in
// which no other request of the process proceeds, and a small batch needs several turns of the
// event loop. Measured: one client that sent bodies of 1 MiB in a loop left 2 % of its throughput
// to another one. While there are small bodies, a large one therefore waits until those before it
// have left time to the others.

/** Smaller bodies do not wait: 16 KiB are read, planned and compiled in about 3 ms. */
const LARGE_BYTES = 16_384

/** How much time large bodies leave to others, as a multiple of the time that they took. */
const PAUSE = 2

/**
 * If no small body came for this many milliseconds, large ones do not wait. It is longer than a
 * piece of work for a large body, during which no small one is noticed.
 */
const MAX_QUIET_MS = 250

/** Estimated milliseconds to receive a byte and to send it on, which are not measured. */
const MS_PER_BYTE = 1e-5

/** More bodies than this do not wait; by default, pool and queue take 50 batches. */
const MAX_WAITING = 64

/** The turn of one body. */
export interface Turn {
  /** Does a piece of the work for the body. */
  run<Result>(work: () => Result): Result
  /** Does all pieces, and lets other requests proceed between them. */
  finish<Result>(pieces: Pieces<Result>): Result | Promise<Result>
}

/** The turn of a small body, which neither waits nor makes others wait. */
export const smallTurn: Turn = { run: work => work(), finish }

export class Turns {
  #lastTurn = Promise.resolve()
  #lastPiece = Promise.resolve()
  #waiting = 0
  /** When the next large body may be read, as a time of performance.now(). */
  #freeAt = 0
  /** When the last small body was read. */
  #smallAt = -Infinity

  /** Waits for the turn of a body of this size. Throws `overloaded` when too many wait. */
  async take (bytes: number): Promise<Turn> {
    if (bytes < LARGE_BYTES) {
      this.#smallAt = performance.now()
      return smallTurn
    }
    if (this.#waiting === MAX_WAITING) throw failure('overloaded')
    this.#waiting++
    const before = this.#lastTurn
    const turn = Promise.withResolvers<void>()
    this.#lastTurn = turn.promise
    await before
    const ms = this.#freeAt - performance.now()
    if (ms > 0 && this.#hasSmall()) await delay(ms)
    await this.#pause()
    this.#waiting--
    // The caller uses its turn before the next one begins.
    setImmediate(turn.resolve)
    this.#leave(PAUSE * MS_PER_BYTE * bytes)
    return { run: work => this.#run(work), finish: pieces => this.#finish(pieces) }
  }

  async #finish<Result> (pieces: Pieces<Result>): Promise<Result> {
    for (;;) {
      const { done, value } = this.#run(() => pieces.next())
      if (done === true) return value
      await this.#pause()
    }
  }

  /** Resolves in a turn of the event loop that no other piece has. */
  #pause (): Promise<void> {
    this.#lastPiece = this.#lastPiece.then(() => nextTurn())
    return this.#lastPiece
  }

  #hasSmall (): boolean {
    return performance.now() - this.#smallAt < MAX_QUIET_MS
  }

  #run<Result> (work: () => Result): Result {
    const started = performance.now()
    try {
      return work()
    } finally {
      const ms = performance.now() - started
      // The others did not have this time.
      this.#freeAt += ms
      this.#leave(PAUSE * ms)
    }
  }

  /** Leaves more time to others. */
  #leave (ms: number): void {
    this.#freeAt = Math.max(this.#freeAt, performance.now()) + ms
  }
}
