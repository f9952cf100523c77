/**
 * An HTTP client that posts batches on kept connections to a service that may be killed. It never
 * retries, and it can disconnect before the response.
 */
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { bearer } from './own-server.ts'

export interface PostResponse {
  readonly status: number
  readonly replayed: boolean
  readonly text: string
}

/** Longer than any response of the service takes. Afterwards the connection counts as dead. */
const RESPONSE_MS = 35_000

export interface Poster {
  /**
   * Resolves with undefined if there is no response or only a part of one. With `leaveMs` the
   * client disconnects after that time.
   */
  post(body: string, key?: string, leaveMs?: number): Promise<PostResponse | undefined>
  close(): void
}

/** Creates a client with at most `connections` connections. `more` are headers of every request. */
export function createPoster (
  url: string,
  connections: number,
  more: Readonly<Record<string, string>> = {}
): Poster {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const fixed = { authorization: bearer(), 'content-type': 'application/json', ...more }
  return {
    post (body, key, leaveMs) {
      const { promise, resolve } = Promise.withResolvers<PostResponse | undefined>()
      const headers = {
        ...fixed,
        'content-length': Buffer.byteLength(body),
        ...(key === undefined ? {} : { 'idempotency-key': key })
      }
      const sent = httpRequest(url, { method: 'POST', agent, headers, timeout: RESPONSE_MS })
      const leave = leaveMs === undefined
        ? undefined
        : setTimeout(() => {
          sent.destroy()
        }, leaveMs)
      const fail = (): void => resolve(undefined)
      sent.once('response', response => {
        // The response may arrive before the last bytes of the request were read.
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

/** Rejects if the response is incomplete. */
async function collect (response: IncomingMessage): Promise<PostResponse> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  if (!response.complete) throw new Error('the response is incomplete')
  return {
    status: response.statusCode ?? 0,
    replayed: response.headers['idempotent-replayed'] === 'true',
    text: Buffer.concat(chunks).toString()
  }
}
