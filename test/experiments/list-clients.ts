/**
 * Clients that post transactions over lists and record the history. A transaction with an
 * idempotency key is sent again until its outcome is known; one without a key is sent once.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { HistoryEvent, MicroOperation, Outcome } from '../support/elle/history.ts'
import type { Level } from '../support/elle/levels.ts'
import { createTransactionMaker, toBatch, withResults } from './lists.ts'
import { createPoster, type PostResponse } from './poster.ts'
import { seeded } from './scenario.ts'

export interface ListClients {
  readonly history: readonly HistoryEvent[]
  finished(): number
  /** Resolves with the time of the next response with status 200. */
  next(): Promise<number>
  /**
   * Starts no transactions beyond the planned ones. When all clients have finished, reads every
   * list, so that no append remains unseen.
   */
  end(): Promise<void>
  /** Stops immediately, for scenarios that fail. */
  stop(): void
}

export interface ListClientsOptions {
  readonly url: string
  readonly level: Level
  readonly clients: number
  /** The minimum number of transactions. Clients continue until `end` is called. */
  readonly transactions: number
  readonly random: () => number
  /** Send half of the transactions with an idempotency key; true by default. */
  readonly keys?: boolean
}

const KEYED_PROBABILITY = 0.5

/** The probability that a client disconnects early, and the latest time (ms) at which it does. */
const LEAVE_PROBABILITY = 0.02
const LEAVE_MS = 15

/** How long a transaction with a key is repeated. */
const REPEAT_MS = 30_000

/** The number of lists that one transaction reads at the end. */
const READ_AT_ONCE = 20

export function startListClients (options: ListClientsOptions): ListClients {
  const { url, level, clients, transactions, random, keys = true } = options
  const maker = createTransactionMaker()
  const poster = createPoster(url, clients, { prefer: `isolation=${level}` })
  const history: HistoryEvent[] = []
  const waiting: Array<(time: number) => void> = []
  const enough = new AbortController()
  const stopped = new AbortController()
  const counts = { started: 0, finished: 0 }
  const start = performance.now()
  const record = (event: Omit<HistoryEvent, 'time'>): void => {
    history.push({ ...event, time: performance.now() - start })
  }

  const post = async (body: string, key: string | undefined, random: () => number) => {
    const leaving = random() < LEAVE_PROBABILITY
    const response = await poster.post(body, key, leaving ? random() * LEAVE_MS : undefined)
    if (response?.status === 200) {
      for (const wake of waiting.splice(0)) wake(performance.now())
    }
    return response
  }
  /** Sends a transaction again until it is committed. Rejected attempts leave it unknown. */
  const repeat = async (
    body: string,
    key: string,
    random: () => number
  ): Promise<PostResponse | undefined> => {
    const until = performance.now() + REPEAT_MS
    let response: PostResponse | undefined
    while (response?.status !== 200 && performance.now() < until && !stopped.signal.aborted) {
      await pause(random)
      response = await post(body, key, random)
    }
    return response?.status === 200 ? response : undefined
  }
  /** Sends one transaction and records it. Resolves with its outcome. */
  const run = async (
    process: number,
    operations: readonly MicroOperation[],
    { key, random }: { readonly key?: string | undefined, readonly random: () => number }
  ): Promise<Outcome> => {
    const body = JSON.stringify(toBatch(level, operations))
    record({ type: 'invoke', process, value: operations })
    const first = await post(body, key, random)
    const isRepeated = readOutcome(first) === 'info' && key !== undefined
    const response = isRepeated ? await repeat(body, key, random) : first
    const outcome = readOutcome(response)
    const value = outcome === 'ok' ? withResults(operations, response?.text ?? '') : operations
    record({ type: outcome, process, value })
    return outcome
  }
  const work = async (client: number): Promise<void> => {
    const own = seeded(random() * 2 ** 32)
    let process = client
    while (
      !stopped.signal.aborted && (counts.started < transactions || !enough.signal.aborted)
    ) {
      const number = counts.started++
      const key = own() < KEYED_PROBABILITY && keys ? `${level}-${number}` : undefined
      const outcome = await run(process, maker.next(own), { key, random: own })
      counts.finished++
      if (outcome === 'info') process += clients
      if (outcome !== 'ok') await pause(own)
    }
  }
  /** Repeats the reads until they succeed. */
  const readAll = async (): Promise<void> => {
    const process = history.reduce((most, event) => Math.max(most, event.process), 0) + 1
    const keys = maker.keys()
    for (let i = 0, reader = process; i < keys.length && !stopped.signal.aborted; reader++) {
      const reads = keys.slice(i, i + READ_AT_ONCE).map(key => ['r', key, null] as const)
      const outcome = await run(reader, reads, { random: () => 1 })
      if (outcome === 'ok') i += READ_AT_ONCE
    }
  }
  const done = Promise.all(Array.from({ length: clients }, (_, client) => work(client)))
  return {
    history,
    finished: () => counts.finished,
    next: () => new Promise(resolve => waiting.push(resolve)),
    async end () {
      enough.abort()
      await done
      await readAll()
      poster.close()
    },
    stop () {
      stopped.abort()
      poster.close()
    }
  }
}

/** Leaves processor time to a restarting process. */
function pause (random: () => number): Promise<void> {
  return delay(50 + 150 * random())
}

/** The outcome according to the service alone. */
function readOutcome (response: PostResponse | undefined): Outcome {
  if (response === undefined) return 'info'
  if (response.status === 200) return 'ok'
  return /"committed":false/.test(response.text) ? 'fail' : 'info'
}
