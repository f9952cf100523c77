/**
 * An HTTP client with one connection, for one request at a time. It does not parse responses,
 * because parsing takes additional time and memory.
 */
import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import type { Stage } from '../scripts/dev/stage.ts'
import { tokens } from './database.ts'

/**
 * Returns a function that posts a body on a kept connection and resolves with the bytes of the
 * response. It throws unless the status is 200.
 */
export function useClient (
  stage: Stage,
  url: string,
  type = 'application/json'
): (body: string) => Promise<Buffer> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  stage.teardown(() => agent.destroy())
  return async body => {
    const headers = {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      authorization: `Bearer ${tokens[0]}`
    }
    const request = httpRequest(url, { method: 'POST', agent, headers })
    request.end(body)
    const [response] = await once(request, 'response')
    const parts: Buffer[] = []
    for await (const part of response) parts.push(part)
    const bytes = Buffer.concat(parts)
    if (response.statusCode !== 200) {
      throw new Error(`${url} returned ${response.statusCode} ${bytes.toString().slice(0, 1000)}`)
    }
    return bytes
  }
}
