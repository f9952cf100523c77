/**
 * Sends HTTP as raw bytes on a socket, for requests that no HTTP client can send, and splits the
 * received bytes into responses.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface WireAnswer {
  readonly status: number
  /** Names in lower case. Fields with the same name are joined by ", ". */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The parsed JSON of `text`; undefined if it is not a JSON object. */
  readonly body: any
}

export interface Line {
  readonly socket: Socket
  send(bytes: string | Buffer): void
  /**
   * Waits until `n` responses have arrived, including 1xx responses. Throws if the connection ends
   * first.
   */
  answers(n: number): Promise<readonly WireAnswer[]>
  /** Waits until the server has closed the connection. Returns all responses. */
  end(): Promise<readonly WireAnswer[]>
}

/** Opens a connection and sends bytes. `head`: responses announce a body and have none. */
export async function dial (
  url: string,
  bytes: string | Buffer = '',
  { head = false } = {}
): Promise<Line> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
  await once(socket, 'connect')
  const state = { received: Buffer.alloc(0), over: false }
  let wake = (): void => {}
  const change = (): Promise<void> =>
    new Promise(resolve => {
      wake = resolve
    })
  const finish = (): void => {
    state.over = true
    wake()
  }
  socket.on('data', chunk => {
    state.received = Buffer.concat([state.received, chunk])
    wake()
  })
  socket.on('end', finish).on('close', finish).on('error', () => {})
  socket.write(bytes)
  return {
    socket,
    send: bytes => {
      socket.write(bytes)
    },
    async answers (n) {
      while (read(state.received, head).length < n) {
        if (state.over) {
          throw new Error(`the connection ended after ${state.received.toString('latin1')}`)
        }
        await change()
      }
      return read(state.received, head)
    },
    async end () {
      while (!state.over) await change()
      socket.destroy()
      return read(state.received, head)
    }
  }
}

/** Sends bytes on a new connection and returns all responses until the server closes it. */
export async function speak (url: string, bytes: string | Buffer): Promise<readonly WireAnswer[]> {
  const line = await dial(url, bytes)
  return line.end()
}

/** Sends bytes on a new connection and returns the first response. */
export async function exchange (
  url: string,
  bytes: string | Buffer,
  options: { readonly head?: boolean } = {}
): Promise<WireAnswer> {
  const line = await dial(url, bytes, options)
  const [response] = await line.answers(1)
  line.socket.destroy()
  return response as WireAnswer
}

/** Returns a request as text. A body adds `Content-Length`; undefined fields are left out. */
export function request (
  method: string,
  target: string,
  headers: Readonly<Record<string, string | undefined>> = {},
  body?: string
): string {
  const fields = {
    host: 'x',
    ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
    ...headers
  }
  const lines = Object.entries(fields).filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`
}

/** Returns a chunk of a body; that of an empty text is the last one. */
export const chunk = (data: string): string =>
  `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`

function read (bytes: Buffer, head: boolean): readonly WireAnswer[] {
  const answers: WireAnswer[] = []
  let rest = bytes
  for (let split = rest.indexOf('\r\n\r\n'); split >= 0; split = rest.indexOf('\r\n\r\n')) {
    const [start = '', ...fields] = rest.subarray(0, split).toString('latin1').split('\r\n')
    const headers: Record<string, string> = {}
    for (const field of fields) {
      const [, name = '', value = ''] = /^([^:]+):\s*(.*)$/.exec(field) ?? []
      headers[name.toLowerCase()] = name.toLowerCase() in headers
        ? `${headers[name.toLowerCase()]}, ${value}`
        : value
    }
    const length = head ? 0 : Number(headers['content-length'] ?? 0)
    if (rest.length < split + 4 + length) break
    const text = rest.subarray(split + 4, split + 4 + length).toString()
    answers.push({
      status: Number(start.split(' ')[1]),
      headers,
      text,
      body: text.startsWith('{') ? JSON.parse(text) : undefined
    })
    rest = rest.subarray(split + 4 + length)
  }
  if (rest.length > 0 && !rest.toString('latin1').startsWith('HTTP/1.1 ')) {
    throw new Error(`bytes that belong to no response: ${rest.toString('latin1')}`)
  }
  return answers
}
