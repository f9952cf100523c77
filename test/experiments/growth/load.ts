/**
 * Sends batches at random times that do not depend on the responses (an open loop), in its own
 * process (started by `fork`). A closed loop sends no more than the service can run, and so never
 * shows a queue or a refusal.
 *
 * Receives LoadOrder messages and replies with LoadResult messages.
 */
import { once } from 'node:events'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeBody, type Work } from '../../../bench/requests.ts'

export interface LoadOrder {
  readonly url: string
  readonly work: Work
  readonly tokens: readonly string[]
  /** Batches per second. */
  readonly rate: number
  readonly seconds: number
}

export interface LoadResult {
  readonly sent: number
  readonly served: number
  readonly refused: number
  /** The first response that is neither 200 nor 503. */
  readonly wrong?: string | undefined
  /** From the first request to the last one. */
  readonly seconds: number
  /** From the request to the end of its response, of those that were served. */
  readonly latenciesMs: readonly number[]
}

/**
 * A connection is used again only after about this time (ms). The service answers a refused client
 * later if it tries again within 100 ms, which no client of an open loop does.
 */
const REST_MS = 500

process.on('message', (order: LoadOrder) => {
  // An unhandled failure stops this process, and with it the run.
  sendLoad(order).then(result => process.send?.(result))
})
process.on('disconnect', () => process.exit())

async function sendLoad ({ url, work, tokens, rate, seconds }: LoadOrder): Promise<LoadResult> {
  const sockets = Math.ceil(rate * REST_MS / 1000)
  const agent = new Agent({ keepAlive: true, scheduling: 'fifo', maxFreeSockets: 2 * sockets })
  await Promise.all(Array.from({ length: sockets }, () => get(new URL('/health', url), agent)))
  const state = { sent: 0, served: 0, refused: 0, wrong: undefined as string | undefined }
  const latenciesMs: number[] = []
  const pending: Array<Promise<void>> = []
  const send = async (): Promise<void> => {
    const caller = state.sent++ % tokens.length
    const start = performance.now()
    const { status, text } = await post(
      url,
      { agent, token: tokens[caller] as string, body: makeBody('oneflight', work, { caller }) }
    )
    if (status === 200) {
      state.served++
      latenciesMs.push(performance.now() - start)
    } else if (status === 503) state.refused++
    else state.wrong ??= `${status} ${text.slice(0, 1000)}`
  }
  const start = performance.now()
  let due = 0
  for (; due < seconds * 1000; due -= 1000 / rate * Math.log(1 - Math.random())) {
    const early = start + due - performance.now()
    if (early > 0) await sleep(early)
    pending.push(send())
  }
  const taken = (performance.now() - start) / 1000
  await Promise.all(pending)
  agent.destroy()
  return { ...state, seconds: taken, latenciesMs }
}

async function get (url: URL, agent: Agent): Promise<void> {
  const request = httpRequest(url, { agent })
  request.end()
  const [response] = await once(request, 'response')
  await read(response)
}

async function post (
  url: string,
  { agent, token, body }: {
    readonly agent: Agent,
    readonly token: string,
    readonly body: string
  }
): Promise<{ readonly status: number, readonly text: string }> {
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    authorization: `Bearer ${token}`
  }
  const request = httpRequest(url, { method: 'POST', agent, headers })
  request.end(body)
  const [response] = await once(request, 'response')
  return { status: response.statusCode, text: await read(response) }
}

async function read (response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of response) parts.push(part)
  return Buffer.concat(parts).toString()
}
