/**
 * A server that speaks as much of PostgreSQL's protocol as a connection needs and does what its
 * script says, for orders of messages that a real one rarely produces.
 *
 * In charge of: the dull answers, so that a script holds nothing but what is odd, and of
 * remembering what it was asked. Refuses to: know SQL. Statements are told apart by words that
 * stand in them alone.
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

/** What a client asks for; `end` is the COMMIT or ROLLBACK of the chained transaction. */
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
  | 'inquiry'
  | KeyKind
  | 'other'

/**
 * What is asked about an idempotency key: in the flight, and by another connection when the flight
 * was lost.
 */
type KeyKind = 'claim' | 'check' | 'release' | 'store' | 'terminate' | 'wait' | 'stored'

/**
 * One thing that was asked, and what a real server would answer: all of its messages, ReadyForQuery
 * last.
 */
export interface Turn {
  readonly kind: Kind
  readonly text: string
  /** Number of the connection, from 0. */
  readonly connection: number
  /** How often this kind was asked for before, on whichever connection. */
  readonly time: number
  readonly answer: readonly Buffer[]
}

/** What is answered. `then`: the connection ends behind it, or nothing is ever said on it again. */
export interface Reply {
  readonly bytes: readonly Buffer[]
  readonly then?: 'close' | 'reset' | 'silence'
  /** Each byte by itself, and not one write. */
  readonly pieces?: boolean
}

/** The answer to a turn where it is to be an odd one; undefined: as a real server would. */
export type Script = (turn: Turn) => Reply | undefined

export interface FakePostgres {
  readonly url: string
  /** Everything that was asked, in order. */
  readonly turns: readonly Turn[]
  /** Connections that were taken so far, and those that are open now. */
  readonly taken: () => number
  readonly open: () => number
  /** What is answered from now on. */
  script: Script
}

/** Words of which one stands in each kind of statement; the first that is found counts. */
const KINDS: ReadonlyArray<readonly [kind: Kind, word: string]> = [
  ['engine', 'pg_extension as e'],
  ['inspect', 'pg_is_in_recovery() as standby'],
  ['inquiry', 'pg_xact_status'],
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

/** The id of every transaction of this server. */
export const XID = '4711'

/** Starts it; it ends with `t`. */
export async function useFakePostgres (t: Pick<Test, 'teardown'>): Promise<FakePostgres> {
  const turns: Turn[] = []
  const sockets = new Set<Socket>()
  let taken = 0
  const listener = createServer({ noDelay: true }, socket => {
    const connection = taken++
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    serve(socket, (kind, text, answer) => {
      const turn: Turn = {
        kind,
        text,
        connection,
        answer,
        time: turns.filter(({ kind: earlier }) => earlier === kind).length
      }
      turns.push(turn)
      return fake.script(turn) ?? { bytes: answer }
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const fake: FakePostgres = {
    url: `postgres://somebody@127.0.0.1:${(listener.address() as AddressInfo).port}/shop`,
    turns,
    taken: () => taken,
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

type Respond = (kind: Kind, text: string, answer: readonly Buffer[]) => Reply

/** One session. */
function serve (socket: Socket, respond: Respond): void {
  const framer = createFramer(1)
  const prepared = new Map<string, string>()
  let state: 'I' | 'T' | 'E' = 'I'
  let silent = false
  /** What of an extended query was asked so far. */
  let asked: { text: string, parse: boolean, describe: boolean } = {
    text: '',
    parse: false,
    describe: false
  }
  const say = (kind: Kind, text: string, answer: readonly Buffer[]): void => {
    const { bytes, then, pieces = false } = respond(kind, text, answer)
    const told = Buffer.concat(bytes)
    const last = createFramer().feed(told).findLast(({ type }) => type === 'Z')?.body.toString()
    if (last !== undefined) state = last as typeof state
    if (pieces) {
      for (const byte of told) socket.write(Buffer.from([byte]))
    } else socket.write(told)
    silent = then !== undefined
    if (then === 'close') socket.end()
    if (then === 'reset') socket.resetAndDestroy()
  }
  socket.on('data', bytes => {
    for (const { type, body } of framer.feed(bytes)) {
      // Each in a write of its own, for a script may end the connection between two of them.
      if (silent) return
      if (type === '') {
        say('startup', '', [
          authenticationOk,
          parameterStatus('server_version', '18.0'),
          parameterStatus('client_encoding', 'UTF8'),
          backendKeyData(process.pid),
          ready('I')
        ])
      } else if (type === 'Q') {
        const text = readText(body, 0)
        say(kindOf(text), text, answerTo(text, state))
      } else if (type === 'P') {
        const name = readText(body, 0)
        prepared.set(name, readText(body, Buffer.byteLength(name) + 1))
        asked = { ...asked, parse: true }
      } else if (type === 'D') asked = { ...asked, describe: true }
      else if (type === 'B') asked = { ...asked, text: prepared.get(readText(body, 1)) ?? '' }
      else if (type === 'S') {
        const { text, parse, describe } = asked
        asked = { text: '', parse: false, describe: false }
        const [first, ...rest] = answerTo(text, state)
        const shape = first?.[0] === 'T'.charCodeAt(0) ? [first] : [noData]
        const rows = first?.[0] === 'T'.charCodeAt(0) ? rest : [first as Buffer, ...rest]
        const failed = state === 'E'
        say(
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

/** What a real server would answer, as to a simple query. */
function answerTo (text: string, state: 'I' | 'T' | 'E'): readonly Buffer[] {
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
    case 'inquiry':
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
