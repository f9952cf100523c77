/**
 * Tests the engine against a fake server that breaks the protocol: the reported outcome must be
 * true or `unknown`, the process must survive, and no unreliable connection may serve another
 * batch.
 */
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import type { BatchOutcome } from '../../src/transaction/outcome.ts'
import type { Key } from '../../src/sql/frame/idempotency.ts'
import { plainBatch, untilQuiet, useEngine, type Engine } from '../support/database/engine.ts'
import { until } from '../support/until.ts'
import {
  useFakePostgres,
  type FakePostgres,
  type Kind,
  type Reply,
  type Script,
  type Exchange
} from './fake-postgres.ts'
import {
  authenticationOk,
  bindComplete,
  complete,
  dataRow,
  errorResponse,
  message,
  notice,
  notification,
  parameterStatus,
  parseComplete,
  ready,
  rowDescription
} from '../support/network/messages.ts'

interface Case {
  readonly name: string
  readonly script: Script
  readonly expected: string | RegExp
  /** Whether the next batch uses the same connection. */
  readonly connection: 'kept' | 'replaced'
  /** Number of status lookups on another connection; 0 by default. */
  readonly lookups?: number
  readonly deadlineMs?: number
  /** What is expected if BEGIN was sent first, because the connection was quiet. */
  readonly quiet?: Partial<Pick<Case, 'expected' | 'connection' | 'lookups'>>
}

const operations = ['--operation 0', '--operation 1']

/** Attempts on connections that cannot be used, with a pool of one connection: 2 * 1 + 1. */
const ATTEMPTS = 3
const fatal = errorResponse('57P01', { severity: 'FATAL' })

/** Replies to the first (or n-th) request of a kind, on any connection. */
const at = (kind: Kind, reply: (exchange: Exchange) => Reply, occurrence = 0): Script => exchange =>
  exchange.kind === kind && exchange.occurrence === occurrence ? reply(exchange) : undefined

/** Returns the reply of the first script that has one. */
const all = (...scripts: readonly Script[]): Script => exchange => {
  for (const script of scripts) {
    const reply = script(exchange)
    if (reply !== undefined) return reply
  }
  return undefined
}

/** Replaces ReadyForQuery after the first statement of a kind, or after its group. */
const readyAfter = (kind: Kind, reply: (exchange: Exchange) => Reply): Script => exchange =>
  exchange.after === kind ? at('ready', reply)(exchange) : undefined

const lookupReply = (status: string | null, same: string | null = 't'): Script => exchange =>
  exchange.kind === 'lookup'
    ? {
        bytes: [
          rowDescription(['status', 'same']),
          dataRow([status, same]),
          complete('SELECT 1')
        ]
      }
    : undefined

/** Sends `extra` before every message of a response. */
const between = (...extra: readonly Buffer[]): Script => ({ kind, response }) =>
  kind === 'startup' ? undefined : { bytes: response.flatMap(bytes => [...extra, bytes]) }

/**
 * Holds back the responses of the transaction and sends them in one write with the response to
 * COMMIT. `keep` chooses among the messages.
 */
const inOnePiece = (
  { then, keep = () => true }: Pick<Reply, 'then'> & { keep?: (bytes: Buffer) => boolean } = {}
): Script => {
  let held: readonly Buffer[] = []
  return ({ kind, after, response }) => {
    if (kind === 'session' || kind === 'operation' || (kind === 'ready' && after === 'operation')) {
      held = [...held, ...kind === 'operation' ? response.filter(keep) : response]
      return { bytes: [] }
    }
    if (kind !== 'commit') return undefined
    const bytes = [...held, ...response]
    held = []
    return { bytes, ...(then === undefined ? {} : { then }) }
  }
}

const isRow = (bytes: Buffer): boolean => bytes[0] === 'D'.charCodeAt(0)
const isNoRow = (bytes: Buffer): boolean => !isRow(bytes)

const twoRows = ({ response }: Exchange): Reply => ({
  bytes: response.flatMap(bytes => isRow(bytes) ? [bytes, bytes] : [bytes])
})

/** Applies `script` only to the connection of the first batch. */
const onFirst = (script: Script): Script => exchange =>
  exchange.connection === 0 ? script(exchange) : undefined

async function describe (execution: Promise<BatchOutcome>): Promise<string> {
  return execution.then(outcome => {
    if (outcome.kind === 'failed') return `failed at ${outcome.at} ${outcome.error.code}`
    if (outcome.kind === 'unknown') return outcome.committed ? 'rows lost' : 'unknown'
    const rows = outcome.rows.map(row => row.length < 100 ? String(row) : `${row.length} bytes`)
    return `committed ${rows.join(' ')}`
  }, (error: { code?: string }) => String(error.code))
}

const zeros = [Buffer.alloc(12)]

const COMMITTED = 'committed [0] [1]'

const cases: readonly Case[] = [
  // BEGIN
  {
    name: 'BEGIN fails',
    script: at('begin', () => ({ bytes: [errorResponse('53200')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'FATAL instead of the response to BEGIN',
    script: at('begin', () => ({ bytes: [fatal], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'a FATAL error of a pooler instead of the response to BEGIN',
    script: at('begin', () => ({
      bytes: [message('E', 'SFATAL\0C08P01\0Mserver conn crashed?\0\0')],
      then: 'close'
    })),
    expected: 'unknown',
    connection: 'replaced',
    quiet: { expected: COMMITTED }
  },
  {
    name: 'RST instead of the response to BEGIN',
    script: at('begin', () => ({ bytes: [], then: 'reset' })),
    expected: 'unknown',
    connection: 'replaced',
    quiet: { expected: COMMITTED }
  },
  {
    name: 'the connection closes after the response to BEGIN',
    script: all(
      at('begin', ({ response }) => ({ bytes: response, then: 'close' })),
      readyAfter('begin', ({ response }) => ({ bytes: response, then: 'close' })),
      lookupReply('aborted')
    ),
    expected: 'unknown',
    connection: 'replaced',
    quiet: { expected: /^(committed \[0\] \[1\]|failed at session 08006|unknown)$/ }
  },
  {
    name: 'no response to BEGIN',
    script: at('begin', () => ({ bytes: [], then: 'silence' })),
    expected: 'unknown',
    connection: 'replaced',
    deadlineMs: 500,
    quiet: { expected: 'deadline_exceeded' }
  },
  {
    name: 'BEGIN is cancelled',
    script: at('begin', () => ({ bytes: [errorResponse('57014')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'FATAL after the response to BEGIN; rolled back',
    script: at('begin', ({ response }) => ({ bytes: [...response, fatal], then: 'close' })),
    expected: 'failed at session 08006',
    connection: 'replaced',
    quiet: { expected: COMMITTED }
  },
  {
    name: 'BEGIN fails on every attempt',
    script: ({ kind, occurrence }) =>
      kind === 'begin' && occurrence < ATTEMPTS
        ? { bytes: [errorResponse('53200')] }
        : undefined,
    expected: 'database_unavailable',
    connection: 'replaced'
  },

  // Before COMMIT
  {
    name: 'an operation fails',
    script: at('operation', () => ({ bytes: [errorResponse('23505')] })),
    expected: 'failed at 0 23505',
    connection: 'kept'
  },
  {
    name: 'FATAL instead of the response to the session statement',
    script: at('session', () => ({ bytes: [fatal], then: 'close' })),
    expected: 'failed at session 08006',
    connection: 'replaced'
  },
  {
    name: 'FATAL between two responses',
    script: at('operation', () => ({ bytes: [fatal], then: 'close' }), 1),
    expected: 'failed at 1 08006',
    connection: 'replaced'
  },
  {
    name: 'FATAL after half a response',
    script: at(
      'operation',
      ({ response }) => ({ bytes: [...response.slice(0, -2), fatal], then: 'reset' }),
      1
    ),
    expected: 'failed at 1 08006',
    connection: 'replaced'
  },
  {
    name: 'the connection closes within a response; rolled back',
    script: all(
      at(
        'operation',
        ({ response }) => ({ bytes: [Buffer.concat(response).subarray(0, 20)], then: 'close' })
      ),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'the connection closes within a response; committed',
    script: all(
      at(
        'operation',
        ({ response }) => ({ bytes: [Buffer.concat(response).subarray(0, 20)], then: 'close' })
      ),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'the connection closes within a response; committed, but the server has crashed since',
    script: all(
      at(
        'operation',
        ({ response }) => ({ bytes: [Buffer.concat(response).subarray(0, 20)], then: 'close' })
      ),
      lookupReply('committed', 'f')
    ),
    expected: 'unknown',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'the connection closes within a response; at first the transaction is in progress',
    script: all(
      at(
        'operation',
        ({ response }) => ({ bytes: [Buffer.concat(response).subarray(0, 20)], then: 'close' })
      ),
      exchange => exchange.occurrence === 0 ? lookupReply('in progress')(exchange) : undefined,
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 2
  },
  {
    name: 'the connection closes instead of the response to the session statement',
    script: at('session', () => ({ bytes: [], then: 'close' })),
    expected: 'unknown',
    connection: 'replaced'
  },

  // COMMIT
  {
    name: 'FATAL instead of the response to COMMIT; rolled back',
    script: all(at('commit', () => ({ bytes: [fatal], then: 'close' })), lookupReply('aborted')),
    expected: 'failed at commit 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'FATAL instead of the response to COMMIT; committed',
    script: all(at('commit', () => ({ bytes: [fatal], then: 'close' })), lookupReply('committed')),
    expected: COMMITTED,
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'FATAL after the first half of the response to COMMIT',
    script: at('commit', ({ response }) => ({ bytes: [...response, fatal], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'all responses in one write',
    script: inOnePiece(),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'all responses in one write, then the connection closes',
    script: onFirst(inOnePiece({ then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'COMMIT fails',
    script: at('commit', () => ({ bytes: [errorResponse('23503')] })),
    expected: 'failed at commit 23503',
    connection: 'kept'
  },
  {
    name: 'COMMIT returns ROLLBACK although nothing failed; rolled back',
    script: all(
      at('commit', () => ({ bytes: [complete('ROLLBACK')] })),
      lookupReply('aborted')
    ),
    expected: /^failed at commit /,
    connection: 'kept',
    lookups: 1
  },
  {
    name: 'COMMIT returns another tag; committed',
    script: all(
      at('commit', () => ({ bytes: [complete('SELECT 1')] })),
      lookupReply('committed')
    ),
    expected: COMMITTED,
    connection: 'kept',
    lookups: 1
  },
  {
    name: 'an operation fails, but COMMIT returns COMMIT; committed',
    script: all(
      at('operation', () => ({ bytes: [errorResponse('23505')] })),
      readyAfter('operation', () => ({ bytes: [ready('T')] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'no response to COMMIT; committed',
    script: all(at('commit', () => ({ bytes: [], then: 'silence' })), lookupReply('committed')),
    expected: COMMITTED,
    connection: 'replaced',
    lookups: 1,
    deadlineMs: 4000
  },
  {
    name: 'no response to COMMIT; rolled back',
    script: all(at('commit', () => ({ bytes: [], then: 'silence' })), lookupReply('aborted')),
    expected: 'failed at commit deadline_exceeded',
    connection: 'replaced',
    lookups: 1,
    deadlineMs: 4000
  },
  {
    name: 'no response to COMMIT or to a lookup',
    script: exchange =>
      exchange.kind === 'commit' && exchange.occurrence === 0
        ? { bytes: [], then: 'silence' }
        : exchange.kind === 'lookup'
          ? { bytes: [], then: 'silence' }
          : undefined,
    expected: 'unknown',
    connection: 'replaced',
    lookups: 1,
    deadlineMs: 4000
  },

  // After COMMIT
  {
    name: 'the reset fails',
    script: at('reset', () => ({ bytes: [errorResponse('42501')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'advisory locks cannot be released',
    script: at('unlock', () => ({ bytes: [errorResponse('42501')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'COMMIT fails, and then the reset',
    script: all(
      at('commit', () => ({ bytes: [errorResponse('23503')] })),
      at('reset', () => ({ bytes: [errorResponse('42501')] }))
    ),
    expected: 'failed at commit 23503',
    connection: 'replaced'
  },
  {
    name: 'COMMIT fails, and the reset is answered by what no server sends',
    script: all(
      at('commit', () => ({ bytes: [errorResponse('23503')] })),
      at('reset', () => ({ bytes: [ready('I'), ready('I'), ready('I')] }))
    ),
    expected: 'failed at commit 23503',
    connection: 'replaced'
  },
  {
    name: 'FATAL instead of the response to the reset',
    script: at('reset', () => ({ bytes: [fatal], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'no response to the last COMMIT',
    script: at('end', () => ({ bytes: [], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the last COMMIT fails',
    script: at('end', () => ({ bytes: [errorResponse('57014')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the last COMMIT fails and its transaction stays open',
    script: all(
      at('end', () => ({ bytes: [errorResponse('57014')] })),
      readyAfter('end', () => ({ bytes: [ready('E')] }))
    ),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'FATAL while idle',
    script: readyAfter('unlock', ({ response }) => ({ bytes: [...response, fatal], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'an ERROR while idle',
    script: readyAfter('unlock', ({ response }) => ({
      bytes: [...response, errorResponse('XX000')]
    })),
    expected: COMMITTED,
    connection: 'kept'
  },

  // Unusual but valid messages
  {
    name: 'notices, settings and notifications between all messages',
    script: between(notice, parameterStatus('TimeZone', 'UTC'), notification('channel', 'payload')),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'every byte in a separate write',
    script: ({ response }) => ({ bytes: response, pieces: true }),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'a row of 8 MB',
    script: at('operation', ({ response }) => ({
      bytes: response.map(bytes =>
        isRow(bytes) ? dataRow([Buffer.alloc(8_000_000, 'x')]) : bytes
      )
    })),
    expected: 'committed 8000000 bytes [1]',
    connection: 'kept'
  },
  {
    name: 'an error after an operation that succeeded; committed',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response, errorResponse('XX000')] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an error after the last operation; committed',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response, errorResponse('XX000')] }), 1),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an error of a pooler, which has no severity for programs',
    script: at('operation', () => ({ bytes: [message('E', 'SERROR\0C08P01\0Mlost\0\0')] })),
    expected: 'failed at 0 08P01',
    connection: 'kept'
  },

  // Invalid messages
  {
    name: 'a message of an unknown type; committed',
    script: at('operation', ({ response }) => ({ bytes: [message('~', 'what'), ...response] })),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'a message announces 2 GiB and is incomplete; committed',
    script: all(
      at('operation', ({ response }) => ({ bytes: [message('D', 'x', 2 ** 31), ...response] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1,
    deadlineMs: 4000
  },
  {
    name: 'a message of length 0; rolled back',
    script: all(
      at('operation', () => ({ bytes: [message('D', '', 0)], then: 'close' })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an HTTP response; rolled back',
    script: all(
      at(
        'operation',
        () => ({ bytes: [Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')], then: 'close' })
      ),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'zero bytes; rolled back',
    script: all(at('operation', () => ({ bytes: zeros, then: 'close' })), lookupReply('aborted')),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'random bytes; rolled back',
    script: all(
      at('operation', () => ({
        bytes: [Buffer.from(Array.from({ length: 500 }, (_, i) => (i * 7919 + (i >> 3)) % 256))],
        then: 'close'
      })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'no row, all responses in one write; committed',
    script: all(inOnePiece({ keep: isNoRow }), lookupReply('committed')),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'no row; rolled back',
    script: all(
      at('operation', ({ response }) => ({ bytes: response.filter(isNoRow) })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'a row without columns; rolled back',
    script: all(
      at('operation', ({ response }) => ({
        bytes: response.map(bytes => isRow(bytes) ? dataRow([]) : bytes)
      })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'the session statement returns no row',
    script: all(
      at('session', ({ response }) => ({ bytes: response.filter(isNoRow) })),
      lookupReply('aborted')
    ),
    expected: 'unknown',
    connection: 'replaced'
  },
  {
    name: 'two rows for one operation; committed',
    script: all(at('operation', twoRows), lookupReply('committed')),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'two rows for the last operation; committed',
    script: all(at('operation', twoRows, 1), lookupReply('committed')),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'a row without an operation; committed',
    script: all(
      readyAfter('operation', ({ response }) => ({ bytes: [dataRow(['[2]']), ...response] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an operation completes twice; committed',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response, complete('SELECT 1')] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an empty query; rolled back',
    script: all(
      at('operation', () => ({ bytes: [parseComplete, bindComplete, message('I')] })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'COPY FROM instead of rows; rolled back',
    script: all(
      at('operation', () => ({ bytes: [message('G', Buffer.from([0, 0, 0]))], then: 'silence' })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'COPY TO instead of rows; rolled back',
    script: all(
      at('operation', () => ({
        bytes: [message('H', Buffer.from([0, 0, 0])), message('d', '[0]\n'), message('c')],
        then: 'silence'
      })),
      lookupReply('aborted')
    ),
    expected: 'failed at session 08006',
    connection: 'replaced',
    lookups: 1
  },

  // ReadyForQuery
  {
    name: 'status idle after BEGIN',
    script: all(
      readyAfter('begin', () => ({ bytes: [ready('I')] })),
      at('commit', () => ({ bytes: [complete('COMMIT')] }))
    ),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'status idle after an operation',
    script: all(
      readyAfter('operation', () => ({ bytes: [ready('I')] })),
      at('commit', () => ({ bytes: [complete('COMMIT')] }))
    ),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'status failed after an operation that succeeded; rolled back',
    script: all(
      readyAfter('operation', () => ({ bytes: [ready('E')] })),
      lookupReply('aborted')
    ),
    expected: 'failed at commit 08006',
    connection: 'kept',
    lookups: 1
  },
  {
    name: 'no ReadyForQuery after the operations; rolled back',
    script: all(
      readyAfter('operation', () => ({ bytes: [], then: 'silence' })),
      lookupReply('aborted')
    ),
    expected: 'failed at commit deadline_exceeded',
    connection: 'replaced',
    lookups: 1,
    deadlineMs: 4000
  },
  {
    name: 'ReadyForQuery between two operations; committed',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response, ready('T')] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'ReadyForQuery instead of the response to COMMIT; committed',
    script: all(
      at('commit', () => ({ bytes: [ready('T')] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an additional ReadyForQuery after the operations; committed',
    script: all(
      readyAfter('operation', ({ response }) => ({ bytes: [...response, ready('T')] })),
      lookupReply('committed')
    ),
    expected: 'rows lost',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'an additional ReadyForQuery after the reset',
    script: readyAfter('unlock', ({ response }) => ({ bytes: [...response, ready('I')] })),
    expected: COMMITTED,
    connection: 'kept'
  }
]

/** Runs a case on a connection that was just used, or on one that was quiet. */
async function runCase (
  t: Test,
  { script, expected, connection, lookups = 0, deadlineMs = 5000 }: Case,
  { quiet }: { readonly quiet: boolean }
): Promise<void> {
  const { fake, engine } = await useScene(t)
  if (quiet) await untilQuiet(engine)
  fake.script = script
  const started = performance.now()
  const outcome = await describe(engine.run(operations, deadlineMs))
  expected instanceof RegExp ? t.match(outcome, expected) : t.equal(outcome, expected)
  t.ok(performance.now() - started < deadlineMs + 5000, 'answered within the deadline')
  const lookupCount = fake.exchanges.filter(({ kind }) => kind === 'lookup').length
  if (!(expected instanceof RegExp)) t.equal(lookupCount, lookups, 'number of status lookups')
  const first = fake.exchanges.find(({ kind }) => kind === 'begin')?.connection
  // The batch is answered before its connection is released.
  await until(() => engine.pool.count().busy === 0)
  fake.script = () => undefined
  t.equal(await describe(engine.run(operations)), COMMITTED, 'the next batch is served')
  const next = fake.exchanges.findLast(({ kind }) => kind === 'begin')?.connection
  connection === 'kept'
    ? t.equal(next, first, 'on the same connection')
    : t.not(next, first, 'on another connection')
  // One connection for batches and two for lookups.
  await until(() => engine.pool.count().busy === 0 && fake.open() <= 3)
  t.same(engine.pool.count(), { busy: 0, idle: 1, waiting: 0 }, 'the pool is complete')
}

for (const row of cases) {
  t.test(row.name, t => runCase(t, row, { quiet: false }))
  t.test(`${row.name}, on a quiet connection`, t =>
    runCase(t, { ...row, ...row.quiet }, { quiet: true }))
}

t.test('BEGIN is sent with the rest, or first on a quiet connection', async t => {
  const { fake, engine } = await useScene(t)
  const readyAfterBegin = async (): Promise<number> => {
    t.equal(await describe(engine.run(operations)), COMMITTED)
    await until(() => engine.pool.count().busy === 0)
    return fake.exchanges.filter(({ kind, after }) => kind === 'ready' && after === 'begin').length
  }
  t.equal(await readyAfterBegin(), 0)
  t.equal(await readyAfterBegin(), 0)
  await untilQuiet(engine)
  t.equal(await readyAfterBegin(), 1)
  t.equal(fake.accepted(), 1, 'on one connection')
})

t.test('no operation runs after a BEGIN that failed', async t => {
  for (const code of ['57014', '53200', '25006', '0A000']) {
    for (const quiet of [false, true]) {
      const { fake, engine } = await useScene(t)
      if (quiet) await untilQuiet(engine)
      fake.script = at('begin', () => ({ bytes: [errorResponse(code)] }))
      t.equal(await describe(engine.run(operations)), COMMITTED, code)
      const ran = fake.exchanges.filter(({ kind }) => kind === 'operation')
      t.same(ran.map(({ connection }) => connection), [1, 1], 'only on another connection')
    }
  }
})

t.test('a batch that only reads and whose isolation a standby lacks fails', async t => {
  for (const quiet of [false, true]) {
    const { fake, engine } = await useScene(t)
    if (quiet) await untilQuiet(engine)
    fake.script = at('begin', () => ({ bytes: [errorResponse('0A000')] }))
    const batch = plainBatch(operations)
    const mode = { ...batch.mode, access: 'read-only', isolation: 'serializable' } as const
    const deadline = performance.now() + 5000
    t.equal(
      await describe(executeBatch(engine.pool, { ...batch, mode }, { deadline })),
      'failed at session 0A000'
    )
    t.equal(fake.exchanges.filter(({ kind }) => kind === 'operation').length, 0)
    t.equal(await describe(engine.run(operations)), COMMITTED, 'the next batch is served')
  }
})

t.test('a batch with a key whose connection is lost', async t => {
  const key: Key = {
    principal: '00',
    claims: '00',
    text: 'k',
    fingerprint: '00',
    lock: 1n,
    ttlSeconds: 60,
    idleTimeoutMs: 5000
  }
  const lost = (kind: Kind): Script => at(kind, () => ({ bytes: [], then: 'close' }))
  const storedBy = (differs: string): Script => ({ kind }) =>
    kind === 'stored'
      ? {
          bytes: [
            rowDescription(['differs', 'live', 'answer']),
            dataRow([differs, 't', '[7]']),
            dataRow([differs, 't', '[8]']),
            complete('SELECT 2')
          ]
        }
      : undefined
  const stored = storedBy('nothing')
  const stillRunning: Script = at(
    'terminate',
    () => ({ bytes: [rowDescription(['ended']), dataRow(['t']), complete('SELECT 1')] })
  )
  const rows: ReadonlyArray<
    {
      readonly name: string,
      readonly script: Script,
      readonly expected: string,
      readonly attempts: number,
      readonly terminations: number
    }
  > = [
    {
      name: 'no connection is lost',
      script: () => undefined,
      expected: COMMITTED,
      attempts: 1,
      terminations: 0
    },
    {
      name: 'at the claim; no response is stored',
      script: lost('claim'),
      expected: COMMITTED,
      attempts: 2,
      terminations: 1
    },
    {
      name: 'at an operation; no response is stored',
      script: lost('operation'),
      expected: COMMITTED,
      attempts: 2,
      terminations: 1
    },
    {
      name: 'while storing the response; no response is stored',
      script: lost('store'),
      expected: COMMITTED,
      attempts: 2,
      terminations: 1
    },
    {
      name: 'at COMMIT; no response is stored',
      script: lost('commit'),
      expected: COMMITTED,
      attempts: 2,
      terminations: 1
    },
    {
      name: 'at COMMIT; the response is stored',
      script: all(lost('commit'), stored),
      expected: 'committed [7] [8]',
      attempts: 1,
      terminations: 1
    },
    ...['claims', 'request'].map(differs => ({
      name: `at COMMIT; the response to a request with another ${differs} is stored`,
      script: all(lost('commit'), storedBy(differs)),
      expected: COMMITTED,
      attempts: 2,
      terminations: 1
    })),
    {
      name: 'FATAL at an operation',
      script: at('operation', () => ({ bytes: [fatal], then: 'close' })),
      expected: COMMITTED,
      attempts: 2,
      terminations: 0
    },
    {
      name: 'FATAL at COMMIT; the response is stored',
      script: all(at('commit', () => ({ bytes: [fatal], then: 'close' })), stored),
      expected: 'committed [7] [8]',
      attempts: 1,
      terminations: 1
    },
    {
      name: 'the backend does not exit at once',
      script: all(lost('commit'), stillRunning, stored),
      expected: 'committed [7] [8]',
      attempts: 1,
      terminations: 2
    },
    {
      name: 'COMMIT returns ROLLBACK',
      script: at('commit', () => ({ bytes: [complete('ROLLBACK')] })),
      expected: COMMITTED,
      attempts: 2,
      terminations: 1
    },
    {
      name: 'on both attempts',
      script: ({ kind, occurrence }) =>
        kind === 'commit' && occurrence < 2 ? { bytes: [], then: 'close' } : undefined,
      expected: 'failed at commit 08006',
      attempts: 2,
      terminations: 2
    },
    {
      name: 'and the lookup gets no response',
      script: all(
        lost('commit'),
        ({ kind }) => kind === 'wait' ? { bytes: [], then: 'silence' } : undefined
      ),
      expected: 'unknown',
      attempts: 1,
      terminations: 1
    },
    {
      name: 'and the connection of the lookup is lost too',
      script: all(lost('commit'), at('wait', () => ({ bytes: [fatal], then: 'close' })), stored),
      expected: 'committed [7] [8]',
      attempts: 1,
      terminations: 2
    }
  ]
  for (const { name, script, expected, attempts, terminations } of rows) {
    await t.test(name, async t => {
      const { fake, engine } = await useScene(t)
      fake.script = script
      const outcome = await describe(
        executeBatch(engine.pool, { ...plainBatch(operations), key }, {
          deadline: performance.now() + 5000
        })
      )
      t.equal(outcome, expected)
      const count = (wanted: Kind): number =>
        fake.exchanges.filter(({ kind }) => kind === wanted).length
      t.equal(count('begin'), attempts, 'attempts')
      t.ok(count('terminate') >= terminations, 'the backend of the lost connection is terminated')
      await until(() => engine.pool.count().busy === 0)
      fake.script = () => undefined
      t.equal(await describe(engine.run(operations)), COMMITTED, 'the next batch is served')
    })
  }
})

t.test('connection startup', async t => {
  type Row = readonly [name: string, reply: Reply, reason: RegExp, printed?: string]
  const rows: readonly Row[] = [
    ['57P03, the server is starting', {
      bytes: [
        errorResponse('57P03', { severity: 'FATAL', text: 'the database system is starting up' })
      ],
      then: 'close'
    }, /starting up/],
    ['53300, too many connections', {
      bytes: [
        authenticationOk,
        errorResponse('53300', { severity: 'FATAL', text: 'too many clients' })
      ],
      then: 'close'
    }, /too many clients/],
    [
      'the connection closes after authentication',
      { bytes: [authenticationOk], then: 'close' },
      /closed the connection/
    ],
    ['the connection closes at once', { bytes: [], then: 'close' }, /closed the connection/],
    ['RST at once', { bytes: [], then: 'reset' }, /ECONNRESET|closed the connection/],
    [
      'an unknown authentication method',
      { bytes: [message('R', Buffer.from([0, 0, 0, 99]))], then: 'silence' },
      /./,
      'Postgres.js : Unknown Auth: 99'
    ],
    ['no response', { bytes: [], then: 'silence' }, /no session within 1000 ms/],
    [
      'an HTTP response',
      { bytes: [Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')], then: 'silence' },
      /protocol of PostgreSQL/
    ],
    ['zero bytes', { bytes: zeros, then: 'close' }, /protocol of PostgreSQL/],
    ['negotiation of another protocol version', {
      bytes: [message('v', Buffer.from([0, 3, 0, 2, 0, 0, 0, 0]))],
      then: 'silence'
    }, /./]
  ]
  for (const [name, reply, reason, printed] of rows) {
    await t.test(name, async t => {
      // postgres.js prints what it does not know.
      const written = printed === undefined ? () => [] : t.capture(console, 'error')
      const fake = await useFakePostgres(t)
      const engine = useEngine(t, `${fake.url}?connect_timeout=1`, { queueTimeoutMs: 3000 })
      fake.script = ({ kind }) => kind === 'startup' ? reply : undefined
      t.equal(await describe(engine.run(operations)), 'database_unavailable')
      t.match((engine.openFailures[0] as Error).message, reason)
      fake.script = () => undefined
      t.equal(await describe(engine.run(operations)), COMMITTED, 'the next batch is served')
      await until(() => engine.pool.count().busy === 0 && fake.open() === 1)
      t.same(written().map(({ args }) => args.join(' ')), printed === undefined ? [] : [printed])
    })
  }
})

t.test('on Citus an aborted transaction is in doubt: its worker commits first', async t => {
  const lost = { bytes: [], then: 'close' } as const
  const failed = (routine: string): Reply => ({ bytes: [errorResponse('XX000', { routine })] })
  const uncertain = failed('ErrorIfPostCommitFailedShardPlacements')
  const rows = [
    ['citus', lost, 'aborted', 'unknown'],
    ['citus', lost, 'committed', COMMITTED],
    ['postgresql', lost, 'aborted', /^failed at commit/],
    ['citus', uncertain, 'aborted', 'unknown'],
    ['citus', failed('FinishConnectionIO'), 'committed', COMMITTED],
    ['citus', failed('FinishRemoteTransactionPrepare'), 'aborted', 'failed at commit XX000']
  ] as const
  for (const [engine, reply, status, expected] of rows) {
    const fake = await useFakePostgres(t)
    const target = { ...parseDatabaseUrl(fake.url), engine }
    fake.script = all(at('commit', () => reply), lookupReply(status))
    const outcome = describe(useEngine(t, fake.url, { target }).run(operations))
    t.match(await outcome, expected, `${engine}, ${status}`)
  }
})

interface Scene {
  readonly fake: FakePostgres
  readonly engine: Engine
}

async function useScene (t: Test): Promise<Scene> {
  const fake = await useFakePostgres(t)
  return { fake, engine: useEngine(t, fake.url) }
}
