/**
 * A fake PostgreSQL server for message sequences that a real server rarely sends. It answers with
 * default responses unless the script of a test replaces one, and records all requests. Statements
 * are recognized by substrings. As in a real server, statements of the extended protocol run when
 * Execute arrives, and after an error everything up to Sync is skipped.
 */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { listen } from '../support/network/listen.ts'
import {
  authenticationOk,
  backendKeyData,
  bindComplete,
  complete,
  createFramer,
  dataRow,
  errorResponse,
  functionResult,
  noData,
  parameterDescription,
  parameterStatus,
  parseComplete,
  ready,
  rowDescription,
  type Frame
} from '../support/network/messages.ts'
import { resetSocket } from '../support/network/reset.ts'

/**
 * The kinds of requests. `reset` is any statement after `commit`, `end` the COMMIT or ROLLBACK that
 * follows them, `unlock` a function call; `ready` is Sync or the end of a simple query or of a
 * function call; `lookup` asks for the status of a transaction.
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
  | 'unlock'
  | 'ready'
  | 'lookup'
  | KeyKind
  | 'other'

/**
 * Statements of batches with an idempotency key: in their transaction, and on another connection
 * after a lost connection.
 */
type KeyKind = 'claim' | 'check' | 'role' | 'store' | 'terminate' | 'wait' | 'stored'

/** One request with the default response. ReadyForQuery is the response to `ready`. */
export interface Exchange {
  readonly kind: Kind
  readonly text: string
  /** The last statement that was answered before. */
  readonly after: Kind
  /** The number of the connection, from 0. */
  readonly connection: number
  /** The number of earlier requests of this kind, on all connections; `ready`: after its kind. */
  readonly occurrence: number
  readonly response: readonly Buffer[]
}

/**
 * A response. An ErrorResponse without CommandComplete makes the statement fail. `then`: afterwards
 * the server closes or resets the connection, or sends nothing more.
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
  readonly exchanges: readonly Exchange[]
  readonly accepted: () => number
  readonly open: () => number
  /** Replaces responses from now on. */
  script: Script
}

/** A substring of each kind of statement. The first one that occurs counts. */
const KINDS: ReadonlyArray<readonly [kind: Kind, word: string]> = [
  ['engine', 'version() as version'],
  ['inspect', 'pg_is_in_recovery() as standby'],
  ['lookup', 'pg_xact_status'],
  ['settings', 'pg_db_role_setting'],
  ['begin', 'begin isolation'],
  ['claim', 'pg_try_advisory_xact_lock'],
  ['session', 'request.jwt.claims'],
  ['operation', '--operation'],
  ['check', 'set constraints'],
  ['role', 'set local role'],
  ['store', 'insert into oneflight.idempotency_keys'],
  ['terminate', 'pg_terminate_backend'],
  ['wait', 'pg_advisory_xact_lock'],
  ['stored', 'unnest(k.answer)'],
  ['commit', 'commit']
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
    const session = new FakeSession(socket, request => {
      const exchange: Exchange = {
        ...request,
        connection,
        occurrence: exchanges.filter(({ kind, after }) =>
          kind === request.kind && (kind !== 'ready' || after === request.after)
        ).length
      }
      exchanges.push(exchange)
      return fake.script(exchange) ?? { bytes: exchange.response }
    })
    session.serve()
  })
  const fake: FakePostgres = {
    url: `postgres://test@127.0.0.1:${await listen(listener)}/shop`,
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

type ChooseReply = (request: Omit<Exchange, 'connection' | 'occurrence'>) => Reply

/** Idle, in a transaction, or in a failed transaction. */
type State = 'I' | 'T' | 'E'

class FakeSession {
  readonly #socket: Socket
  readonly #chooseReply: ChooseReply
  /** The texts of the prepared statements by name. */
  readonly #prepared = new Map<string, string>()
  #state: State = 'I'
  /** After an error of the extended protocol, until Sync. */
  #skipping = false
  /** After COMMIT AND CHAIN, until the next COMMIT. */
  #resetting = false
  #silent = false
  #lastKind: Kind = 'startup'
  /** The text of the statement that was bound last, or was parsed after it. */
  #current = ''
  /** Answers to Parse, Bind and Describe, which are sent with that of Execute. */
  #answers: Buffer[] = []

  constructor (socket: Socket, chooseReply: ChooseReply) {
    this.#socket = socket
    this.#chooseReply = chooseReply
  }

  serve (): void {
    const framer = createFramer(1)
    this.#socket.on('data', bytes => {
      for (const { type, body } of framer.feed(bytes)) {
        if (!this.#silent) this.#handle(type, body)
      }
    })
  }

  #handle (type: string, body: Buffer): void {
    if (type === 'X') this.#socket.end()
    else if (type === '') this.#start(body)
    else if (type === 'S') this.#ready()
    else if (this.#skipping) this.#answers = []
    else if (type === 'Q') {
      this.#query(readText(body, 0))
      if (!this.#silent) this.#ready()
    } else if (type === 'F') {
      this.#reply('unlock', '', [functionResult])
      if (!this.#silent) this.#ready()
    } else this.#handleExtended(type, body)
  }

  #handleExtended (type: string, body: Buffer): void {
    if (type === 'P') {
      const name = readText(body, 0)
      this.#current = readText(body, Buffer.byteLength(name) + 1)
      this.#prepared.set(name, this.#current)
      this.#answers.push(parseComplete)
    } else if (type === 'B') {
      this.#current = this.#prepared.get(readText(body, 1)) ?? ''
      this.#answers.push(bindComplete)
    } else if (type === 'D') {
      const { columns } = defaultResponse(this.#kindOf(this.#current), this.#current, this.#state)
      this.#answers.push(parameterDescription(0), columns[0] ?? noData)
    } else if (type === 'E') {
      const text = this.#current
      const { rest } = defaultResponse(this.#kindOf(text), text, this.#state)
      const isRefused = rest[0]?.[0] === ERROR_RESPONSE
      this.#skipping = this.#execute(text, isRefused ? rest : [...this.#answers, ...rest])
      this.#answers = []
    }
  }

  /** Runs the statements of a simple query up to the first one that fails. */
  #query (query: string): void {
    for (const text of query.split('; ')) {
      const { columns, rest } = defaultResponse(this.#kindOf(text), text, this.#state)
      if (this.#execute(text, [...columns, ...rest]) || this.#silent) return
    }
  }

  #start (body: Buffer): void {
    this.#reply('startup', body.toString(), [
      authenticationOk,
      parameterStatus('server_version', '18.0'),
      parameterStatus('client_encoding', 'UTF8'),
      backendKeyData(process.pid),
      ready('I')
    ])
  }

  #ready (): void {
    this.#skipping = false
    this.#answers = []
    this.#reply('ready', '', [ready(this.#state)])
  }

  /** Returns whether the statement failed. */
  #execute (text: string, response: readonly Buffer[]): boolean {
    const kind = this.#kindOf(text)
    const frames = this.#reply(kind, text, response)
    const failed = !frames.some(({ type }) => type === 'C') &&
      frames.some(({ type, body }) => type === 'E' && body.includes('ERROR\0'))
    if (failed && this.#state === 'T') this.#state = 'E'
    if (kind === 'begin' && !failed) this.#state = 'T'
    if (kind === 'commit') {
      this.#resetting = true
      this.#state = failed ? 'I' : 'T'
    }
    if (kind !== 'end') return failed
    this.#resetting = false
    this.#state = 'I'
    return failed
  }

  /** Sends the default response or that of the script, and returns the messages sent. */
  #reply (kind: Kind, text: string, response: readonly Buffer[]): readonly Frame[] {
    const request = { kind, text, response, after: this.#lastKind }
    if (kind !== 'ready') this.#lastKind = kind
    const { bytes, then, pieces = false } = this.#chooseReply(request)
    // One write per response, because a script may close the connection between two of them.
    const joined = Buffer.concat(bytes)
    if (pieces) {
      for (const byte of joined) this.#socket.write(Buffer.from([byte]))
    } else if (joined.length > 0) this.#socket.write(joined)
    this.#silent = then !== undefined
    if (then === 'close') this.#socket.end()
    if (then === 'reset') resetSocket(this.#socket)
    const frames = createFramer().feed(joined)
    const state = frames.findLast(({ type }) => type === 'Z')?.body.toString()
    if (state !== undefined) this.#state = state as State
    return frames
  }

  #kindOf (text: string): Kind {
    if (text === 'commit' || text === 'rollback') return 'end'
    if (this.#resetting) return 'reset'
    return KINDS.find(([, word]) => text.includes(word))?.[0] ?? 'other'
  }
}

const ERROR_RESPONSE = 'E'.charCodeAt(0)

function readText (body: Buffer, start: number): string {
  return body.toString('utf8', start, body.indexOf(0, start))
}

/** What the service asks for when it opens a connection. */
const FACTS = {
  standby: 'f',
  readonly: 'off',
  version: '180000',
  pid: String(process.pid),
  started: '1.5',
  privileged: 'f',
  serverStarted: '1.5',
  openedAt: '2.5',
  connectionCheck: '1000',
  defaults: '',
  citus: null
}

/** What a real server answers to a statement, without ReadyForQuery. */
interface DefaultResponse {
  /** RowDescription, if the statement returns rows. */
  readonly columns: readonly Buffer[]
  readonly rest: readonly Buffer[]
}

function defaultResponse (kind: Kind, text: string, state: State): DefaultResponse {
  const plain = (answer: Buffer): DefaultResponse => ({ columns: [], rest: [answer] })
  const rows = (
    names: readonly string[],
    ...cells: ReadonlyArray<ReadonlyArray<string | null>>
  ): DefaultResponse => ({
    columns: [rowDescription(names)],
    rest: [...cells.map(dataRow), complete(`SELECT ${cells.length}`)]
  })
  if (kind === 'end') return plain(complete(state === 'E' ? 'ROLLBACK' : text.toUpperCase()))
  if (kind === 'commit') {
    // Outside of a transaction AND CHAIN is refused.
    if (state === 'I') return plain(errorResponse('25P01'))
    return plain(complete(state === 'E' ? 'ROLLBACK' : 'COMMIT'))
  }
  if (state === 'E') return plain(errorResponse('25P02'))
  switch (kind) {
    case 'inspect':
      return rows(Object.keys(FACTS), Object.values(FACTS))
    case 'engine':
      return rows(['version'], ['PostgreSQL 18.0 on fake, compiled by hand'])
    case 'settings':
      return rows(['role', 'name', 'value'])
    case 'begin':
      return plain(complete('BEGIN'))
    case 'session':
      return rows(['xid', 'server', 'at', 'set'], [XID, '1.5', '2.5', ''])
    case 'reset':
      return text.includes('select') ? rows(['reset'], ['1']) : plain(complete('RESET'))
    case 'lookup':
      return rows(['status', 'same'], ['committed', 't'])
    case 'claim':
      return rows(['claimed'], [null])
    case 'check':
      return plain(complete('SET CONSTRAINTS'))
    case 'role':
      return plain(complete('SET'))
    case 'store':
      return plain(complete('INSERT 0 1'))
    case 'terminate':
      return rows(['ended'])
    case 'stored':
      return rows(['same', 'answer'])
    default:
      return rows(['answer'], [text.includes('--operation') ? `[${/\d+/.exec(text)?.[0]}]` : '1'])
  }
}
