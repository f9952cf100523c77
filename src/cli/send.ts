/**
 * One batch over HTTP. In charge of saying whether the service can have heard of it at all; what an
 * answer means is not known here.
 */
import { request as requestHttp, type IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { buffer } from 'node:stream/consumers'

export interface Message {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly timeoutMs: number
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/**
 * No answer, or a part of one. `sent`: the batch may have arrived. `status`: that of the answer
 * that was cut.
 */
export interface Loss {
  readonly sent: boolean
  readonly status: number | undefined
  readonly reason: string
}

/**
 * Posts it on a connection of its own. Resolves with the answer, whatever its status, or with what
 * became of it.
 */
export async function send ({ url, headers, body, timeoutMs }: Message): Promise<Answer | Loss> {
  const signal = AbortSignal.timeout(timeoutMs)
  let [sent, status]: [boolean, number | undefined] = [false, undefined]
  try {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const secure = url.protocol === 'https:'
    const options = {
      method: 'POST',
      agent: false,
      signal,
      headers: { ...headers, 'content-type': 'application/json', 'content-length': body.length }
    }
    const sending = (secure ? requestHttps : requestHttp)(url, options, resolve)
    sending.on('error', reject).on(
      'socket',
      socket =>
        socket.once(secure ? 'secureConnect' : 'connect', () => {
          sent = true
        })
    )
    sending.end(body)
    const response = await promise
    status = response.statusCode as number
    return { status, headers: response.headers, body: await buffer(response) }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    // Several addresses that all refuse have a code and no message.
    return {
      sent,
      status,
      reason: signal.aborted ? `no answer within ${timeoutMs / 1000} s` : message || String(code)
    }
  }
}
