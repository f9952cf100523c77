/**
 * Posting batches on connections that are kept, to a service that may die at any time.
 *
 * In charge of: one answer or none for each request; going away before the answer, where that is
 * asked for. Refuses to: send anything twice.
 */
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { bearer } from './own-server.ts'

export interface Answer {
  readonly status: number
  readonly replayed: boolean
  readonly text: string
}

/** Longer than the service takes for any answer, and so is silence of its end. */
const ANSWER_MS = 35_000

export interface Poster {
  /**
   * undefined: there was no answer, or none that came whole. The client goes away after `leaveMs`,
   * if that is given.
   */
  post(body: string, key?: string, leaveMs?: number): Promise<Answer | undefined>
  close(): void
}

/** Makes a poster with at most so many connections. */
export function createPoster (url: string, connections: number): Poster {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const fixed = { authorization: bearer(), 'content-type': 'application/json' }
  return {
    post (body, key, leaveMs) {
      const { promise, resolve } = Promise.withResolvers<Answer | undefined>()
      const headers = {
        ...fixed,
        'content-length': Buffer.byteLength(body),
        ...(key === undefined ? {} : { 'idempotency-key': key })
      }
      const sent = httpRequest(url, { method: 'POST', agent, headers, timeout: ANSWER_MS })
      const leave = leaveMs === undefined
        ? undefined
        : setTimeout(() => {
          sent.destroy()
        }, leaveMs)
      const fail = (): void => resolve(undefined)
      sent.once('response', response => {
        // It may come before the last bytes were read.
        sent.off('close', fail)
        collect(response).then(resolve, fail)
      })
      sent.on('error', () => {}).once('close', fail).once('timeout', () => {
        sent.destroy()
      })
      sent.end(body)
      return promise.finally(() => clearTimeout(leave))
    },
    close: () => agent.destroy()
  }
}

/** Rejects when the answer does not come whole. */
async function collect (response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  if (!response.complete) throw new Error('the answer is cut short')
  return {
    status: response.statusCode ?? 0,
    replayed: response.headers['idempotent-replayed'] === 'true',
    text: Buffer.concat(chunks).toString()
  }
}
