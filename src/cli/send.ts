/**
 * Sends one batch over HTTP. When there is no response, it tells whether the service may have
 * received the batch.
 */
import { request as requestHttp, type IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { buffer } from 'node:stream/consumers'

export interface HttpRequest {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly timeoutMs: number
}

export interface HttpResponse {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** No response, or an incomplete one. */
export interface LostResponse {
  /** The service may have received the batch. */
  readonly sent: boolean
  /** Status of the incomplete response. */
  readonly status: number | undefined
  readonly reason: string
}

/** Posts a batch on a new connection. Never rejects. */
export async function send (
  { url, headers, body, timeoutMs }: HttpRequest
): Promise<HttpResponse | LostResponse> {
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
    // The error of several addresses that all refuse has a code, but no message.
    return {
      sent,
      status,
      reason: signal.aborted ? `no response within ${timeoutMs / 1000} s` : message || String(code)
    }
  }
}
