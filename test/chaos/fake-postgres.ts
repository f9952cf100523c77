/**
 * A fake PostgreSQL server for message sequences that a real server rarely sends. It answers with
 * default responses unless the script of a test replaces one, and records all requests. Statements
 * are recognized by substrings.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'
import {
  authenticationOk,
  backendKeyData,
  bindComplete,
  complete,
  createFramer,
  dataRow,
  errorResponse,
  noData,
  parameterDescription,
  parameterStatus,
  parseComplete,
  ready,
  rowDescription
} from './messages.ts'

/**
 * The kinds of requests; `end` is the COMMIT or ROLLBACK of the chained transaction, `lookup` asks
 * for the status of a transaction.
 */
export type Kind =
  | 'startup'
  | 'engine'
  | 'inspect'
  | 'settings'
  | 'begin'
  | 'session'
  | 'operation'
  | 'commit'
  | 'reset'
  | 'end'
  | 'lookup'
  | KeyKind
  | 'other'

/**
 * Statements of batches with an idempotency key: in their transaction, and on another connection
 * after a lost connection.
 */
type KeyKind = 'claim' | 'check' | 'release' | 'store' | 'terminate' | 'wait' | 'stored'

/** One request with the default response, which ends with ReadyForQuery. */
export interface Exchange {
  readonly kind: Kind
  readonly text: string
  /** The number of the connection, from 0. */
  readonly connection: number
  /** The number of earlier requests of this kind, on all connections. */
  readonly occurrence: number
  readonly response: readonly Buffer[]
}

/**
 * A response. `then`: afterwards the server closes or resets the connection, or sends nothing more.
 */
export interface Reply {
  readonly bytes: readonly Buffer[]
  readonly then?: 'close' | 'reset' | 'silence'
  /** Sends every byte in a separate write. */
  readonly pieces?: boolean
}

/** Replaces the response to a request. Undefined: the default response. */
export type Script = (exchange: Exchange) => Reply | undefined

export interface FakePostgres {
  readonly url: string
  /** All requests so far, in order. */
  readonly exchanges: readonly Exchange[]
  /** Number of accepted connections so far. */
  readonly accepted: () => number
  /** Number of open connections. */
  readonly open: () => number
  /** Replaces responses from now on. */
  script: Script
}

/** A substring of each kind of statement. The first one that occurs counts. */
const KINDS: ReadonlyArray<readonly [kind: Kind, word: string]> = [
  ['engine', 'pg_extension as e'],
  ['inspect', 'pg_is_in_recovery() as standby'],
  ['lookup', 'pg_xact_status'],
  ['settings', 'pg_db_role_setting'],
  ['begin', 'begin isolation'],
  ['claim', 'pg_try_advisory_xact_lock'],
  ['session', 'client_connection_check_interval'],
  ['reset', 'reset all'],
  ['commit', 'commit and chain'],
  ['operation', '--operation'],
  ['check', 'set constraints'],
  ['release', "set_config('role', 'none'"],
  ['store', 'array_agg'],
  ['terminate', 'pg_terminate_backend'],
  ['wait', 'pg_advisory_xact_lock'],
  ['stored', 'unnest(k.answer)']
]

/** The transaction id that this server always returns. */
export const XID = '4711'

/** Starts the server. The end of `t` stops it. */
export async function useFakePostgres (t: Pick<Test, 'teardown'>): Promise<FakePostgres> {
  const exchanges: Exchange[] = []
  const sockets = new Set<Socket>()
  let accepted = 0
  const listener = createServer({ noDelay: true }, socket => {
    const connection = accepted++
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    serve(socket, (kind, text, response) => {
      const exchange: Exchange = {
        kind,
        text,
        connection,
        response,
        occurrence: exchanges.filter(({ kind: earlier }) => earlier === kind).length
      }
      exchanges.push(exchange)
      return fake.script(exchange) ?? { bytes: response }
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const fake: FakePostgres = {
    url: `postgres://test@127.0.0.1:${(listener.address() as AddressInfo).port}/shop`,
    exchanges,
    accepted: () => accepted,
    open: () => sockets.size,
    script: () => undefined
  }
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    listener.close()
    await once(listener, 'close')
  })
  return fake
}

type ChooseReply = (kind: Kind, text: string, response: readonly Buffer[]) => Reply

/** Serves one connection. */
function serve (socket: Socket, chooseReply: ChooseReply): void {
  const framer = createFramer(1)
  const prepared = new Map<string, string>()
  let state: 'I' | 'T' | 'E' = 'I'
  let silent = false
  /** The parts of the current extended query so far. */
  let pending: { text: string, parse: boolean, describe: boolean } = {
    text: '',
    parse: false,
    describe: false
  }
  const reply = (kind: Kind, text: string, response: readonly Buffer[]): void => {
    const { bytes, then, pieces = false } = chooseReply(kind, text, response)
    const joined = Buffer.concat(bytes)
    const last = createFramer().feed(joined).findLast(({ type }) => type === 'Z')?.body.toString()
    if (last !== undefined) state = last as typeof state
    if (pieces) {
      for (const byte of joined) socket.write(Buffer.from([byte]))
    } else socket.write(joined)
    silent = then !== undefined
    if (then === 'close') socket.end()
    if (then === 'reset') socket.resetAndDestroy()
  }
  socket.on('data', bytes => {
    for (const { type, body } of framer.feed(bytes)) {
      // One write per response, because a script may close the connection between two of them.
      if (silent) return
      if (type === '') {
        reply('startup', '', [
          authenticationOk,
          parameterStatus('server_version', '18.0'),
          parameterStatus('client_encoding', 'UTF8'),
          backendKeyData(process.pid),
          ready('I')
        ])
      } else if (type === 'Q') {
        const text = readText(body, 0)
        reply(kindOf(text), text, defaultResponse(text, state))
      } else if (type === 'P') {
        const name = readText(body, 0)
        prepared.set(name, readText(body, Buffer.byteLength(name) + 1))
        pending = { ...pending, parse: true }
      } else if (type === 'D') pending = { ...pending, describe: true }
      else if (type === 'B') pending = { ...pending, text: prepared.get(readText(body, 1)) ?? '' }
      else if (type === 'S') {
        const { text, parse, describe } = pending
        pending = { text: '', parse: false, describe: false }
        const [first, ...rest] = defaultResponse(text, state)
        const shape = first?.[0] === 'T'.charCodeAt(0) ? [first] : [noData]
        const rows = first?.[0] === 'T'.charCodeAt(0) ? rest : [first as Buffer, ...rest]
        const failed = state === 'E'
        reply(
          kindOf(text),
          text,
          failed
            ? rows
            : [
                ...parse ? [parseComplete] : [],
                ...describe ? [parameterDescription(0), ...shape] : [],
                bindComplete,
                ...rows
              ]
        )
      } else if (type === 'X') socket.end()
    }
  })
}

function readText (body: Buffer, start: number): string {
  return body.toString('utf8', start, body.indexOf(0, start))
}

function kindOf (text: string): Kind {
  return KINDS.find(([, word]) => text.includes(word))?.[0] ??
    (text === 'commit' || text === 'rollback' ? 'end' : 'other')
}

/** Returns what a real server sends in response to a simple query. */
function defaultResponse (text: string, state: 'I' | 'T' | 'E'): readonly Buffer[] {
  const kind = kindOf(text)
  const rows = (
    names: readonly string[],
    ...cells: ReadonlyArray<ReadonlyArray<string | null>>
  ): readonly Buffer[] => [
    rowDescription(names),
    ...cells.map(dataRow),
    complete(`SELECT ${cells.length}`),
    ready(state)
  ]
  if (kind === 'end') return [complete(state === 'E' ? 'ROLLBACK' : text.toUpperCase()), ready('I')]
  if (kind === 'commit') return [complete(state === 'E' ? 'ROLLBACK' : 'COMMIT'), ready('T')]
  if (state === 'E') return [errorResponse('25P02'), ready('E')]
  switch (kind) {
    case 'inspect':
      return rows(['standby', 'readonly', 'version', 'pid', 'started', 'privileged'], [
        'f',
        'off',
        '180000',
        String(process.pid),
        '1.5',
        'f'
      ])
    case 'engine':
      return rows(['engine'])
    case 'settings':
      return rows(['role', 'name', 'value'])
    case 'begin':
      return [complete('BEGIN'), ready('T')]
    case 'session':
      return rows(['xid', 'pid', 'server', 'at', 'set'], [
        XID,
        String(process.pid),
        '1.5',
        '2.5',
        ''
      ])
    case 'reset':
      return [complete('RESET'), ready(state)]
    case 'lookup':
      return rows(['status', 'same'], ['committed', 't'])
    case 'claim':
      return rows(['claimed'], [null])
    case 'check':
      return [complete('SET CONSTRAINTS'), ready(state)]
    case 'store':
      return rows(['stored'], [null])
    case 'terminate':
      return rows(['ended'])
    case 'stored':
      return rows(['same', 'answer'])
    default:
      return rows(['answer'], [text.includes('--operation') ? `[${/\d+/.exec(text)?.[0]}]` : '1'])
  }
}
