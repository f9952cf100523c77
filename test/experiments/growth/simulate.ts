/**
 * Simulates batches on their way through the service and PostgreSQL, as discrete events: how long
 * they take and how many are refused. Pure and seeded: the same setting has the same result.
 */
import { Clock, Line, Log, Machine } from './stations.ts'

/** What one batch needs at each station, in milliseconds. */
export interface Work {
  /** Processor time of the service: before the database, after COMMIT, and after the reset. */
  readonly requestMs: number
  readonly responseMs: number
  readonly releaseMs: number
  /** Processor time of the service to refuse a batch. */
  readonly refusalMs: number
  /** Processor time of the database from BEGIN to COMMIT. */
  readonly databaseMs: number
  /** Processor time of the database after COMMIT, while the connection is still taken. */
  readonly resetMs: number
  /** Waits of the batch that use no processor: wake-ups and the network of the machine. */
  readonly idleMs: number
  readonly roundTripMs: number
  /** One flush of the log to the disk. */
  readonly flushMs: number
}

export interface Setting {
  readonly seed: number
  /** Batches that arrive in a second, independently of each other (a Poisson process). */
  readonly rate: number
  readonly batches: number
  readonly work: Work
  /** How processor times vary. */
  readonly spread: 'constant' | 'exponential'
  readonly processes: number
  readonly poolSize: number
  readonly queueSize: number
  /** `shared`: one machine runs both. Otherwise each process of the service has a core. */
  readonly databaseCores: number
  readonly shared: boolean
  /** The mean number of jobs of other processes that want a core of the database. */
  readonly others: number
  /** The part of the batches, from 0 to 1, that change one and the same row first of all. */
  readonly hot: number
}

export interface Simulated {
  /** Batches in a second. */
  readonly arrived: number
  readonly served: number
  readonly refused: number
  /** From the arrival to the response of those that were served. */
  readonly meanMs: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The mean number of connections that are taken, over all processes. */
  readonly connections: number
  /** The mean time from the sending of a batch to the response to its COMMIT. */
  readonly transactionMs: number
  /** The mean number of processes of the service that are at work. */
  readonly threads: number
  readonly batchesPerFlush: number
}

interface Process {
  readonly thread: Line
  readonly pool: Line
}

/** The part of the batches before the counting starts. */
const WARM_UP = 0.1

/** Runs the simulation until every batch has a response. */
export function simulate (setting: Setting): Simulated {
  return new Simulation(setting).run()
}

class Simulation {
  readonly #setting: Setting
  readonly #random: () => number
  readonly #clock = new Clock()
  readonly #database: Machine
  readonly #service: Machine
  readonly #processes: readonly Process[]
  readonly #log: Log
  readonly #hotRow: Line
  readonly #latencies: number[] = []
  #refused = 0
  #transactionMs = 0

  constructor (setting: Setting) {
    const { seed, databaseCores, others, shared, processes, poolSize, work } = setting
    const clock = this.#clock
    this.#setting = setting
    this.#random = createRandom(seed)
    this.#database = new Machine(clock, databaseCores, others)
    this.#service = shared ? this.#database : new Machine(clock, processes)
    this.#processes = Array.from({ length: processes }, (): Process => ({
      thread: new Line(clock, 1),
      pool: new Line(clock, poolSize)
    }))
    this.#log = new Log(clock, work.flushMs)
    this.#hotRow = new Line(clock, 1)
  }

  run (): Simulated {
    const { rate, batches } = this.#setting
    const first = Math.floor(batches * WARM_UP)
    let [start, end] = [this.#sums(), this.#sums()]
    let time = 0
    const times = Float64Array.from({ length: batches }, () => {
      time -= 1000 / rate * Math.log(1 - this.#random())
      return time
    })
    // Each arrival plans the next one: few events are planned at once.
    const arrive = (i: number): void => {
      if (i + 1 < batches) this.#clock.at(times[i + 1] as number, () => arrive(i + 1))
      if (i === first) start = this.#sums()
      if (i === batches - 1) end = this.#sums()
      this.#arrive(this.#processes[i % this.#processes.length] as Process, i >= first)
    }
    this.#clock.at(times[0] as number, () => arrive(0))
    this.#clock.run()
    return this.#result(start, end)
  }

  #arrive (process: Process, counts: boolean): void {
    const { work, poolSize, queueSize } = this.#setting
    const arrival = this.#clock.now
    let full = false
    const ms = (): number => {
      full = process.pool.length >= poolSize + queueSize
      return full ? work.refusalMs : work.requestMs
    }
    const respond = (sent: number): void =>
      this.#runThread(process, () => {
        if (counts) this.#transactionMs += this.#clock.now - sent
        return work.responseMs
      }, () => {
        if (counts) this.#latencies.push(this.#clock.now - arrival)
      })
    this.#runThread(process, ms, () => {
      if (!full) process.pool.enter(() => this.#runBatch(process, respond))
      else if (counts) this.#refused++
    })
  }

  /** From the sending of the batch to the release of its connection. */
  #runBatch (process: Process, respond: (sent: number) => void): void {
    const { hot, work } = this.#setting
    const sent = this.#clock.now
    const isHot = hot > 0 && this.#random() < hot
    const travel = work.roundTripMs / 2
    const release = (): void =>
      this.#runThread(process, () => work.releaseMs, () => process.pool.leave())
    const commit = (): void => {
      if (isHot) this.#hotRow.leave()
      this.#clock.after(travel, () => respond(sent))
      this.#database.run(this.#vary(work.resetMs), () => this.#clock.after(travel, release))
    }
    const runStatements = (): void =>
      this.#database.run(this.#vary(work.databaseMs), () => this.#log.commit(commit))
    this.#clock.after(travel + work.idleMs, () => {
      if (isHot) this.#hotRow.enter(runStatements)
      else runStatements()
    })
  }

  /** Runs work of a process, which does one thing after the other. `ms` is asked when it begins. */
  #runThread ({ thread }: Process, ms: () => number, action: () => void): void {
    thread.enter(() =>
      this.#service.run(this.#vary(ms()), () => {
        thread.leave()
        action()
      }))
  }

  #vary (ms: number): number {
    return this.#setting.spread === 'constant' ? ms : -ms * Math.log(1 - this.#random())
  }

  #sums (): Sums {
    const sum = (lineOf: (process: Process) => Line): number =>
      this.#processes.reduce((ms, process) => ms + lineOf(process).takenMs(), 0)
    return {
      atMs: this.#clock.now,
      flushes: this.#log.flushes,
      connectionsMs: sum(({ pool }) => pool),
      threadsMs: sum(({ thread }) => thread)
    }
  }

  #result (start: Sums, end: Sums): Simulated {
    const latencies = this.#latencies.toSorted((a, b) => a - b)
    const ms = end.atMs - start.atMs
    const counted = latencies.length + this.#refused
    const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? 0
    return {
      arrived: counted / ms * 1000,
      served: latencies.length / ms * 1000,
      refused: this.#refused / counted,
      meanMs: latencies.reduce((sum, one) => sum + one, 0) / latencies.length,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      connections: (end.connectionsMs - start.connectionsMs) / ms,
      transactionMs: this.#transactionMs / latencies.length,
      threads: (end.threadsMs - start.threadsMs) / ms,
      batchesPerFlush: latencies.length / (end.flushes - start.flushes)
    }
  }
}

/** Sums since the start of the simulation. */
interface Sums {
  readonly atMs: number
  readonly flushes: number
  readonly connectionsMs: number
  readonly threadsMs: number
}

/** Returns a generator of random numbers from 0 to 1 (mulberry32). */
function createRandom (seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
