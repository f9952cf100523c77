/**
 * Clients that post batches and record the responses. A batch with a key is repeated until its
 * response is final; a batch without a key is sent once. Some clients disconnect early.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { isResponseOf, makeBatch } from './bank.ts'
import { createPoster, type PostResponse } from './poster.ts'
import { seeded } from './scenario.ts'

/** The outcome of a batch as its client knows it. */
export type KnownOutcome = 'committed' | 'not committed' | 'refused' | 'unknown' | 'unanswered'

export interface KeptBatch {
  readonly key: string
  readonly body: string
  readonly text: string
}

export interface Observations {
  /**
   * By batch number. Only batches with a key are `refused` or `unanswered`; only batches without a
   * key are `not committed` or `unknown`.
   */
  readonly known: KnownOutcome[]
  /** Number of responses by code; `none` counts requests without a response. */
  readonly responses: Record<string, number>
  /** The same for batches without a key. */
  readonly unkeyed: Record<string, number>
  /** The final responses of batches with a key that were rejected. */
  readonly refusals: string[]
  disconnected: number
  /**
   * Number of batches that were applied although every earlier response said that they were not.
   */
  denied: number
  /** Number of responses without the batch's own rows. */
  foreign: number
  /** A sample of batches with a key, with their first response with status 200. */
  readonly kept: KeptBatch[]
}

export interface Crowd {
  readonly observed: Observations
  finished(): number
  /** Resolves with the time of the next response with status 200. */
  next(): Promise<number>
  /** Starts no batches beyond the planned ones. Resolves when all clients have finished. */
  end(): Promise<void>
  /** Stops immediately, also with unfinished batches, for scenarios that fail. */
  stop(): void
}

export interface CrowdOptions {
  readonly url: string
  readonly clients: number
  /** The minimum number of batches. Clients continue until `end` is called. */
  readonly batches: number
  /** One of this many batches is kept, to be sent again later. */
  readonly keepOneOf: number
  /** How long a batch with a key is repeated, in milliseconds. */
  readonly repeatMs?: number
  readonly random: () => number
}

/** The probability that a client disconnects early, and the latest time (ms) at which it does. */
const LEAVE_PROBABILITY = 0.02
const LEAVE_MS = 15

/** One of this many batches has no key. */
const UNKEYED_ONE_OF = 5

/** How long a batch with a key is repeated by default. */
const REPEAT_MS = 30_000

type SendBatch = (id: number, body: string, random: () => number) => Promise<KnownOutcome>

export function startCrowd (options: CrowdOptions): Crowd {
  const { url, clients, batches, keepOneOf, random, repeatMs = REPEAT_MS } = options
  const observed: Observations = {
    known: [],
    responses: {},
    unkeyed: {},
    refusals: [],
    disconnected: 0,
    denied: 0,
    foreign: 0,
    kept: []
  }
  const poster = createPoster(url, clients)
  const waiting: Array<(time: number) => void> = []
  const enough = new AbortController()
  const stopped = new AbortController()
  let next = 0
  let finished = 0

  const recordResponse = (id: number, response: PostResponse | undefined): string => {
    const code = readCode(response)
    observed.responses[code] = (observed.responses[code] ?? 0) + 1
    if (response?.status === 200) {
      for (const wake of waiting.splice(0)) wake(performance.now())
      if (!isResponseOf(id, response.text)) observed.foreign++
    }
    return code
  }
  const repeat: SendBatch = async (id, body, random) => {
    const key = `storm-${id}`
    const until = performance.now() + repeatMs
    let mayBeCommitted = false
    for (let attempt = 1; performance.now() < until && !stopped.signal.aborted; attempt++) {
      const leaving = random() < LEAVE_PROBABILITY
      const response = await poster.post(body, key, leaving ? random() * LEAVE_MS : undefined)
      const code = recordResponse(id, response)
      if (response?.status === 200) {
        if (response.replayed && !mayBeCommitted) observed.denied++
        if (id % keepOneOf === 0) observed.kept.push({ key, body, text: response.text })
        return 'committed'
      }
      if (leaving && response === undefined) observed.disconnected++
      // `in_progress` is about another request, which gets or got its own response.
      mayBeCommitted ||= response === undefined || code === 'commit_unknown'
      if (response !== undefined && !isRetryable(response, code)) {
        observed.refusals.push(response.text)
        return 'refused'
      }
      await pause(random, attempt)
    }
    return 'unanswered'
  }
  const sendOnce: SendBatch = async (id, body, random) => {
    const response = await poster.post(body)
    const code = recordResponse(id, response)
    observed.unkeyed[code] = (observed.unkeyed[code] ?? 0) + 1
    if (response?.status === 200) return 'committed'
    await pause(random, 1)
    return response === undefined || code === 'commit_unknown' ? 'unknown' : 'not committed'
  }
  const work = async (random: () => number): Promise<void> => {
    while (!stopped.signal.aborted && (next < batches || !enough.signal.aborted)) {
      const id = next++
      const body = JSON.stringify(makeBatch(id, random))
      // None of those that are kept.
      const send = id % UNKEYED_ONE_OF === 1 ? sendOnce : repeat
      observed.known[id] = await send(id, body, random)
      finished++
    }
  }
  const done = Promise.all(Array.from({ length: clients }, () => work(seeded(random() * 2 ** 32))))
  return {
    observed,
    finished: () => finished,
    next: () => new Promise(resolve => waiting.push(resolve)),
    async end () {
      enough.abort()
      await done
      poster.close()
    },
    stop () {
      stopped.abort()
      poster.close()
    }
  }
}

/**
 * Spreads the retries of clients that were rejected at the same time, and leaves processor time to
 * a restarting process.
 */
function pause (random: () => number, attempt: number): Promise<void> {
  return delay((10 + 60 * random()) * Math.min(attempt, 4))
}

/** Whether the same batch may succeed when it is repeated, see docs/operations/reliability.md. */
function isRetryable ({ status, text }: PostResponse, code: string): boolean {
  return status === 503 || status === 504 || code === 'commit_unknown' ||
    (status === 409 && text.includes('"retryable":true'))
}

function readCode (response: PostResponse | undefined): string {
  if (response === undefined) return 'none'
  if (response.status === 200) return response.replayed ? 'replayed' : 'ok'
  return /"code":"([a-z0-9_]+)"/.exec(response.text)?.[1] ?? String(response.status)
}
