/**
 * Tests the engine against a fake server that breaks the protocol: the reported outcome must be
 * true or `unknown`, the process must survive, and no unreliable connection may serve another
 * batch.
 */
import t, { type Test } from 'tap'
import { executeBatch } from '../../src/transaction/execute.ts'
import type { BatchOutcome } from '../../src/transaction/outcome.ts'
import type { Key } from '../../src/sql/idempotency.ts'
import { plainBatch, useEngine, type Engine } from '../support/database/engine.ts'
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
} from './messages.ts'

interface Case {
  readonly name: string
  readonly script: Script
  readonly expected: string | RegExp
  /** Whether the next batch uses the same connection. */
  readonly connection: 'kept' | 'replaced'
  /** Number of status lookups on another connection; 0 by default. */
  readonly lookups?: number
  readonly deadlineMs?: number
  /** What postgres.js prints to the console. */
  readonly printed?: string
}

const operations = ['--operation 0', '--operation 1']
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

const lookupReply = (status: string | null, same: string | null = 't'): Script => exchange =>
  exchange.kind === 'lookup'
    ? {
        bytes: [
          rowDescription(['status', 'same']),
          dataRow([status, same]),
          complete('SELECT 1'),
          ready('I')
        ]
      }
    : undefined

/** Sends `extra` before every message of a response. */
const between = (...extra: readonly Buffer[]): Script => ({ kind, response }) =>
  kind === 'startup' ? undefined : { bytes: response.flatMap(bytes => [...extra, bytes]) }

/**
 * Holds back the responses of the transaction and sends them in one write with the response to
 * COMMIT.
 */
const inOnePiece = (then?: Reply['then']): Script => {
  let held: readonly Buffer[] = []
  return ({ kind, response }) => {
    if (kind === 'session' || kind === 'operation') {
      held = [...held, ...response]
      return { bytes: [] }
    }
    if (kind !== 'commit') return undefined
    const bytes = [...held, ...response]
    held = []
    return { bytes, ...(then === undefined ? {} : { then }) }
  }
}

/** Applies `script` only to the connection of the first batch. */
const onFirst = (script: Script): Script => {
  let connection: number | undefined
  return exchange => {
    if (exchange.kind === 'begin') connection ??= exchange.connection
    const isFirst = exchange.connection === (connection ?? exchange.connection)
    return isFirst ? script(exchange) : undefined
  }
}

async function describe (execution: Promise<BatchOutcome>): Promise<string> {
  return execution.then(outcome => {
    if (outcome.kind === 'failed') return `failed at ${outcome.at} ${outcome.error.code}`
    if (outcome.kind === 'unknown') return outcome.committed ? 'rows lost' : 'unknown'
    const rows = outcome.rows.map(row => row.length < 100 ? String(row) : `${row.length} bytes`)
    return `committed ${rows.join(' ')}`
  }, (error: { code?: string }) => String(error.code))
}

const zeros = [Buffer.alloc(12)]
const ZERO_PRINTED = 'Postgres.js : Unknown Message: 0'

const COMMITTED = 'committed [0] [1]'

const cases: readonly Case[] = [
  // BEGIN
  {
    name: 'BEGIN fails',
    script: at('begin', () => ({ bytes: [errorResponse('53200'), ready('I')] })),
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
    name: 'RST instead of the response to BEGIN',
    script: at('begin', () => ({ bytes: [], then: 'reset' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the connection closes after the response to BEGIN',
    script: all(
      at('begin', ({ response }) => ({ bytes: response, then: 'close' })),
      lookupReply('aborted')
    ),
    expected: /^(committed \[0\] \[1\]|failed at session 08006|unknown)$/,
    connection: 'replaced'
  },
  {
    name: 'no response to BEGIN',
    script: at('begin', () => ({ bytes: [], then: 'silence' })),
    expected: 'deadline_exceeded',
    connection: 'replaced',
    deadlineMs: 500
  },
  {
    name: 'BEGIN fails on every attempt',
    script: ({ kind, occurrence }) =>
      kind === 'begin' && occurrence < 2
        ? { bytes: [errorResponse('53200'), ready('I')] }
        : undefined,
    expected: 'database_unavailable',
    connection: 'replaced'
  },

  // Before COMMIT
  {
    name: 'an operation fails',
    script: at('operation', () => ({ bytes: [errorResponse('23505'), ready('E')] })),
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
      ({ response }) => ({ bytes: [...response.slice(0, -3), fatal], then: 'reset' }),
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
    expected: 'failed at 0 08006',
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
    expected: 'failed at 0 08006',
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
    name: 'FATAL after the first half of the response to COMMIT; committed',
    script: all(
      at('commit', () => ({ bytes: [complete('COMMIT'), fatal], then: 'close' })),
      lookupReply('committed')
    ),
    expected: COMMITTED,
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'FATAL after the response to COMMIT',
    script: at('commit', ({ response }) => ({ bytes: [...response, fatal], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the connection closes after the response to COMMIT',
    script: at('commit', ({ response }) => ({ bytes: response, then: 'close' })),
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
    script: onFirst(inOnePiece('close')),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'COMMIT fails',
    script: at('commit', () => ({ bytes: [errorResponse('23503'), ready('I')] })),
    expected: 'failed at commit 23503',
    connection: 'kept'
  },
  {
    name: 'COMMIT returns ROLLBACK although nothing failed; rolled back',
    script: all(
      at('commit', () => ({ bytes: [complete('ROLLBACK'), ready('T')] })),
      lookupReply('aborted')
    ),
    expected: /^failed at commit /,
    connection: 'kept',
    lookups: 1
  },
  {
    name: 'COMMIT returns another tag; committed',
    script: all(
      at('commit', () => ({ bytes: [complete('SELECT 1'), ready('T')] })),
      lookupReply('committed')
    ),
    expected: COMMITTED,
    connection: 'kept',
    lookups: 1
  },
  {
    name: 'an operation fails, but COMMIT returns COMMIT; committed',
    script: all(
      at('operation', () => ({ bytes: [errorResponse('23505'), ready('T')] })),
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
    script: at('reset', () => ({ bytes: [errorResponse('42501'), ready('E')] })),
    expected: COMMITTED,
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
    script: at('end', () => ({ bytes: [errorResponse('57014'), ready('I')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the last COMMIT fails and its transaction stays open',
    script: at('end', () => ({ bytes: [errorResponse('57014'), ready('E')] })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'FATAL while idle',
    script: at('end', ({ response }) => ({ bytes: [...response, fatal], then: 'close' })),
    expected: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'an ERROR while idle',
    script: at('end', ({ response }) => ({ bytes: [...response, errorResponse('XX000')] })),
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
        bytes[0] === 0x44 ? dataRow([Buffer.alloc(8_000_000, 'x')]) : bytes
      )
    })),
    expected: 'committed 8000000 bytes [1]',
    connection: 'kept'
  },
  {
    name: 'an error after ReadyForQuery that does not belong to the next operation; committed',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response, errorResponse('XX000')] })),
      lookupReply('committed')
    ),
    expected: /^(rows lost|unknown|committed \[0\] \[1\])$/,
    connection: 'replaced'
  },

  // Invalid messages
  {
    name: 'a message of an unknown type',
    script: at('operation', ({ response }) => ({ bytes: [message('~', 'what'), ...response] })),
    expected: COMMITTED,
    connection: 'kept',
    printed: 'Postgres.js : Unknown Message: 126'
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
    expected: 'failed at 0 08006',
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
    expected: 'failed at 0 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'zero bytes; rolled back',
    script: all(at('operation', () => ({ bytes: zeros, then: 'close' })), lookupReply('aborted')),
    expected: 'failed at 0 08006',
    connection: 'replaced',
    lookups: 1,
    printed: ZERO_PRINTED
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
    expected: 'failed at 0 08006',
    connection: 'replaced',
    lookups: 1
  },
  {
    name: 'no row; rolled back',
    script: all(
      at('operation', ({ response }) => ({ bytes: response.filter(bytes => bytes[0] !== 0x44) })),
      lookupReply('aborted')
    ),
    expected: /^failed at [01] 08006$/,
    connection: 'replaced'
  },
  {
    name: 'a row without columns; rolled back',
    script: all(
      at('operation', ({ response }) => ({
        bytes: response.map(bytes => bytes[0] === 0x44 ? dataRow([]) : bytes)
      })),
      lookupReply('aborted')
    ),
    expected: /^failed at [01] 08006$/,
    connection: 'replaced'
  },
  {
    name: 'the session statement returns no row',
    script: all(
      at('session', ({ response }) => ({ bytes: response.filter(bytes => bytes[0] !== 0x44) })),
      lookupReply('aborted')
    ),
    expected: 'unknown',
    connection: 'replaced'
  },
  {
    name: 'an empty query; rolled back',
    script: all(
      at('operation', () => ({ bytes: [parseComplete, bindComplete, message('I'), ready('T')] })),
      lookupReply('aborted')
    ),
    expected: /^failed at [01] 08006$/,
    connection: 'replaced'
  },
  {
    name: 'COPY instead of rows; rolled back',
    script: all(
      at('operation', () => ({ bytes: [message('G', Buffer.from([0, 0, 0]))], then: 'close' })),
      lookupReply('aborted')
    ),
    expected: 'failed at 0 08006',
    connection: 'replaced',
    lookups: 1
  },

  // ReadyForQuery
  {
    name: 'status idle after BEGIN',
    script: at('begin', () => ({ bytes: [complete('BEGIN'), ready('I')] })),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'status idle after an operation',
    script: at('operation', ({ response }) => ({ bytes: [...response.slice(0, -1), ready('I')] })),
    expected: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'status failed after an operation that succeeded; rolled back',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response.slice(0, -1), ready('E')] }), 1),
      lookupReply('aborted')
    ),
    expected: 'failed at commit 08006',
    connection: 'kept',
    lookups: 1
  },
  {
    name: 'no ReadyForQuery after an operation; rolled back',
    script: all(
      at('operation', ({ response }) => ({ bytes: response.slice(0, -1), then: 'silence' }), 1),
      lookupReply('aborted')
    ),
    expected: 'failed at 1 deadline_exceeded',
    connection: 'replaced',
    lookups: 1,
    deadlineMs: 4000
  },
  {
    name: 'an additional ReadyForQuery',
    script: all(
      at('operation', ({ response }) => ({ bytes: [...response, ready('T')] })),
      lookupReply('committed')
    ),
    expected: /^(rows lost|unknown|committed \[0\] \[1\])$/,
    connection: 'replaced',
    deadlineMs: 4000
  }
]

/**
 * Captures what postgres.js prints about an unknown message. The result asserts that it printed
 * this line, any number of times, and no other. Without a line nothing is captured.
 */
function captureConsole (t: Test, line: string | undefined): () => void {
  if (line === undefined) return () => {}
  const written = t.capture(console, 'error')
  return () => t.same([...new Set(written().map(({ args }) => args.join(' ')))], [line])
}

for (const { name, script, expected, connection, ...row } of cases) {
  t.test(name, async t => {
    const { lookups = 0, deadlineMs = 5000, printed } = row
    const checkConsole = captureConsole(t, printed)
    const { fake, engine } = await useScene(t)
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
    checkConsole()
  })
}

t.test('a batch with a key whose connection is lost', async t => {
  const key: Key = {
    principal: '00',
    text: 'k',
    fingerprint: '00',
    lock: 1n,
    ttlSeconds: 60,
    idleTimeoutMs: 5000
  }
  const lost = (kind: Kind): Script => at(kind, () => ({ bytes: [], then: 'close' }))
  const stored: Script = ({ kind }) =>
    kind === 'stored'
      ? {
          bytes: [
            rowDescription(['same', 'live', 'answer']),
            dataRow(['t', 't', '[7]']),
            dataRow(['t', 't', '[8]']),
            complete('SELECT 2'),
            ready('I')
          ]
        }
      : undefined
  const stillRunning: Script = at(
    'terminate',
    () => ({ bytes: [rowDescription(['ended']), dataRow(['t']), complete('SELECT 1'), ready('I')] })
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
      script: at('commit', () => ({ bytes: [complete('ROLLBACK'), ready('T')] })),
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
      /no session within 1000 ms/
    ],
    ['zero bytes', { bytes: zeros, then: 'close' }, /./, ZERO_PRINTED],
    ['negotiation of another protocol version', {
      bytes: [message('v', Buffer.from([0, 3, 0, 2, 0, 0, 0, 0]))],
      then: 'silence'
    }, /./]
  ]
  for (const [name, reply, reason, printed] of rows) {
    await t.test(name, async t => {
      const checkConsole = captureConsole(t, printed)
      const fake = await useFakePostgres(t)
      const engine = useEngine(t, `${fake.url}?connect_timeout=1`, { queueTimeoutMs: 3000 })
      fake.script = ({ kind }) => kind === 'startup' ? reply : undefined
      t.equal(await describe(engine.run(operations)), 'database_unavailable')
      t.match((engine.openFailures[0] as Error).message, reason)
      fake.script = () => undefined
      t.equal(await describe(engine.run(operations)), COMMITTED, 'the next batch is served')
      await until(() => engine.pool.count().busy === 0 && fake.open() === 1)
      checkConsole()
    })
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
