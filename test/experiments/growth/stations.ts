/**
 * The stations of the simulation. Times are milliseconds on the clock of the simulation, so a
 * result does not depend on the machine that computes it.
 */

interface Timed {
  readonly at: number
  readonly action: () => void
}

/** A binary heap: the next event first. */
class Heap {
  readonly #items: Timed[] = []

  get size (): number {
    return this.#items.length
  }

  get first (): Timed | undefined {
    return this.#items[0]
  }

  push (item: Timed): void {
    const items = this.#items
    let place = items.push(item) - 1
    for (let up = (place - 1) >> 1; place > 0 && (items[up] as Timed).at > item.at;) {
      items[place] = items[up] as Timed
      place = up
      up = (place - 1) >> 1
    }
    items[place] = item
  }

  pop (): Timed | undefined {
    const items = this.#items
    const [first, last] = [items[0], items.pop()]
    if (last === undefined || items.length === 0) return first
    let place = 0
    for (let down = 1; down < items.length; down = 2 * place + 1) {
      if ((items[down + 1]?.at ?? Infinity) < (items[down] as Timed).at) down++
      if (last.at <= (items[down] as Timed).at) break
      items[place] = items[down] as Timed
      place = down
    }
    items[place] = last
    return first
  }
}

/** Runs actions in the order of their times. */
export class Clock {
  readonly #events = new Heap()
  now = 0

  at (time: number, action: () => void): void {
    this.#events.push({ at: time, action })
  }

  after (ms: number, action: () => void): void {
    this.at(this.now + ms, action)
  }

  /** Runs until no action is left. */
  run (): void {
    for (let event = this.#events.pop(); event !== undefined; event = this.#events.pop()) {
      this.now = event.at
      event.action()
    }
  }
}

/**
 * The cores of a machine, shared equally as by the scheduler of an operating system: `n` jobs
 * advance at `min(1, cores / n)` each. `others` jobs, on average, belong to somebody else.
 */
export class Machine {
  readonly #clock: Clock
  readonly #cores: number
  readonly #others: number
  /** `at`: how far a job that always ran would be when this one ends. */
  readonly #jobs = new Heap()
  #progress = 0
  #since = 0
  #plans = 0

  constructor (clock: Clock, cores: number, others = 0) {
    this.#clock = clock
    this.#cores = cores
    this.#others = others
  }

  run (ms: number, action: () => void): void {
    this.#advance()
    this.#jobs.push({ at: this.#progress + ms, action })
    this.#plan()
  }

  #speed (): number {
    return Math.min(1, this.#cores / (this.#jobs.size + this.#others))
  }

  #advance (): void {
    if (this.#jobs.size > 0) this.#progress += (this.#clock.now - this.#since) * this.#speed()
    this.#since = this.#clock.now
  }

  /** Waits for the next job to end. A later job changes the speed, and so makes the plan void. */
  #plan (): void {
    const plan = ++this.#plans
    const next = this.#jobs.first
    if (next === undefined) return
    this.#clock.after(Math.max(0, next.at - this.#progress) / this.#speed(), () => {
      if (plan !== this.#plans) return
      this.#advance()
      this.#jobs.pop()
      this.#plan()
      next.action()
    })
  }
}

/** Places that are taken in the order of arrival: a thread, connections, a lock. */
export class Line {
  readonly #clock: Clock
  readonly #places: number
  readonly #waiting: Array<() => void> = []
  #taken = 0
  #since = 0
  #takenMs = 0

  constructor (clock: Clock, places: number) {
    this.#clock = clock
    this.#places = places
  }

  /** The number of all that have a place or wait for one. */
  get length (): number {
    return this.#taken + this.#waiting.length
  }

  enter (action: () => void): void {
    if (this.#taken === this.#places) this.#waiting.push(action)
    else this.#take(1, action)
  }

  leave (): void {
    this.#take(-1)
    const next = this.#waiting.shift()
    if (next !== undefined) this.#take(1, next)
  }

  /** The sum of the taken places over time. */
  takenMs (): number {
    return this.#takenMs + this.#taken * (this.#clock.now - this.#since)
  }

  #take (places: 1 | -1, action?: () => void): void {
    this.#takenMs = this.takenMs()
    this.#since = this.#clock.now
    this.#taken += places
    action?.()
  }
}

/** The log on the disk: one flush at a time, for all that wait when it begins (group commit). */
export class Log {
  readonly #clock: Clock
  readonly #flushMs: number
  #waiting: Array<() => void> = []
  #flushing = false
  flushes = 0

  constructor (clock: Clock, flushMs: number) {
    this.#clock = clock
    this.#flushMs = flushMs
  }

  commit (action: () => void): void {
    this.#waiting.push(action)
    if (!this.#flushing) this.#flush()
  }

  #flush (): void {
    const group = this.#waiting
    this.#waiting = []
    this.#flushing = group.length > 0
    if (!this.#flushing) return
    this.flushes++
    this.#clock.after(this.#flushMs, () => {
      for (const action of group) action()
      this.#flush()
    })
  }
}
