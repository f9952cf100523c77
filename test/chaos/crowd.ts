/**
 * Clients that post transfers and remember what they were told.
 *
 * In charge of: sending a batch with a key until its answer is final, and one without a key once;
 * counting the answers; clients that go away. Refuses to: cause any other fault, or to look into
 * the database.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { isAnswerOf, makeTransfer } from './bank.ts'
import { createPoster, type Answer } from './poster.ts'
import { seeded } from './scenario.ts'

/** What the client knows of its batch in the end. */
export type Knowledge = 'committed' | 'not committed' | 'refused' | 'unknown' | 'unanswered'

export interface Kept {
  readonly key: string
  readonly body: string
  readonly text: string
}

export interface Told {
  /**
   * By the number of the batch. Only batches with a key are `refused` or `unanswered`, only those
   * without one `not committed` or `unknown`.
   */
  readonly known: Knowledge[]
  /** How often which answer came, by code; `none` where none came. */
  readonly answers: Record<string, number>
  /** How batches without a key ended. */
  readonly unkeyed: Record<string, number>
  /** Requests whose client went away. */
  gone: number
  /** Batches that had been applied although each answer before had said that they were not. */
  denied: number
  /** Answers that did not hold the batch's own rows. */
  foreign: number
  /** Some batches with a key, with their first 200. */
  readonly kept: Kept[]
}

export interface Crowd {
  readonly told: Told
  /** How many batches are through. */
  finished(): number
  /** The time of the next 200 that arrives. */
  next(): Promise<number>
  /** No new batches after the planned ones; resolves when every client is through. */
  end(): Promise<void>
  /** No further request, whatever is still open: the storm cannot go on. */
  stop(): void
}

export interface CrowdOptions {
  readonly url: string
  readonly clients: number
  /** How many batches at least; more until `end` is called. */
  readonly batches: number
  /** One batch out of so many is kept to be sent again. */
  readonly keepOneOf: number
  readonly random: () => number
}

/** One batch out of so many has no key. */
const UNKEYED = 5

/** How likely a client goes away before its answer, and within which time (ms). */
const GOING = 0.02
const GONE_MS = 15

/** A batch with a key is sent again for so long. */
const PATIENCE_MS = 30_000

/** Starts the clients. */
export function startCrowd ({ url, clients, batches, keepOneOf, random }: CrowdOptions): Crowd {
  const told: Told = {
    known: [],
    answers: {},
    unkeyed: {},
    gone: 0,
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

  const hear = (id: number, answer: Answer | undefined): string => {
    const code = readCode(answer)
    told.answers[code] = (told.answers[code] ?? 0) + 1
    if (answer?.status === 200) {
      for (const wake of waiting.splice(0)) wake(performance.now())
      if (!isAnswerOf(id, answer.text)) told.foreign++
    }
    return code
  }
  const insist = async (id: number, body: string, random: () => number): Promise<Knowledge> => {
    const key = `storm-${id}`
    const until = performance.now() + PATIENCE_MS
    let doubtful = false
    for (let attempt = 1; performance.now() < until && !stopped.signal.aborted; attempt++) {
      const leaving = random() < GOING
      const answer = await poster.post(body, key, leaving ? random() * GONE_MS : undefined)
      const code = hear(id, answer)
      if (answer?.status === 200) {
        if (answer.replayed && !doubtful) told.denied++
        if (id % keepOneOf === 0) told.kept.push({ key, body, text: answer.text })
        return 'committed'
      }
      if (leaving && answer === undefined) told.gone++
      // `in_progress` speaks of another request, which has or had its own answer.
      doubtful ||= answer === undefined || code === 'commit_unknown'
      if (answer !== undefined && !isPassing(answer, code)) return 'refused'
      await pause(random, attempt)
    }
    return 'unanswered'
  }
  const sendOnce = async (id: number, body: string, random: () => number): Promise<Knowledge> => {
    const answer = await poster.post(body)
    const code = hear(id, answer)
    told.unkeyed[code] = (told.unkeyed[code] ?? 0) + 1
    if (answer?.status === 200) return 'committed'
    await pause(random, 1)
    return answer === undefined || code === 'commit_unknown' ? 'unknown' : 'not committed'
  }
  const work = async (random: () => number): Promise<void> => {
    while (!stopped.signal.aborted && (next < batches || !enough.signal.aborted)) {
      const id = next++
      const body = JSON.stringify(makeTransfer(id, random))
      told.known[id] = await (id % UNKEYED === UNKEYED - 1 ? sendOnce : insist)(id, body, random)
      finished++
    }
  }
  const done = Promise.all(Array.from({ length: clients }, () => work(seeded(random() * 2 ** 32))))
  return {
    told,
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
 * So that clients that were refused together do not come back together, nor take the processor from
 * who is being started again.
 */
function pause (random: () => number, attempt: number): Promise<void> {
  return delay((10 + 60 * random()) * Math.min(attempt, 4))
}

/**
 * Whether the same batch may succeed when it is sent again, as docs/operations/reliability.md says
 * it.
 */
function isPassing ({ status, text }: Answer, code: string): boolean {
  return status === 503 || status === 504 || code === 'commit_unknown' ||
    (status === 409 && text.includes('"retryable":true'))
}

function readCode (answer: Answer | undefined): string {
  if (answer === undefined) return 'none'
  if (answer.status === 200) return answer.replayed ? 'replayed' : 'ok'
  return /"code":"([a-z0-9_]+)"/.exec(answer.text)?.[1] ?? String(answer.status)
}
