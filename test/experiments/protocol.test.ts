/**
 * Tests the engine against a fake server that breaks the protocol: the reported outcome must be
 * true or `unknown`, the process must survive, and no unreliable connection may serve another
 * batch.
 */
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import type { PoolOptions } from '../../src/postgres/pool.ts'
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

type Case = readonly [
  name: string,
  script: Script,
  expected: string | RegExp,
  /** Whether the next batch uses the same connection. */
  connection: 'kept' | 'replaced',
  /** Number of status lookups on another connection; 0 by default. */
  lookups?: number,
  more?: {
    readonly deadlineMs?: number,
    /** What is expected if BEGIN was sent first, because the connection was quiet. */
    readonly quiet?: string | RegExp
  }
]

const operations = ['--operation 0', '--operation 1']

/** Attempts on connections that cannot be used, with a pool of one connection: 2 * 1 + 1. */
const ATTEMPTS = 3
const fatal = errorResponse('57P01', { severity: 'FATAL' })

type MakeReply = (exchange: Exchange) => Reply

/** Replies to the first (or n-th) request of a kind, on any connection. */
const at = (kind: Kind, reply: MakeReply, occurrence = 0): Script => exchange =>
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
const readyAfter = (kind: Kind, reply: MakeReply): Script => exchange =>
  exchange.after === kind ? at('ready', reply)(exchange) : undefined

const lookupReply = (status: string | null, same: string | null = 't'): Script => exchange =>
  exchange.kind === 'lookup'
    ? { bytes: [rowDescription(['status', 'same']), dataRow([status, same]), complete('SELECT 1')] }
    : undefined

const committed = lookupReply('committed')
const aborted = lookupReply('aborted')

const send = (...bytes: readonly Buffer[]): MakeReply => () => ({ bytes })
const sendAndClose = (...bytes: readonly Buffer[]): MakeReply => () => ({ bytes, then: 'close' })
const silence: MakeReply = () => ({ bytes: [], then: 'silence' })
const reset: MakeReply = () => ({ bytes: [], then: 'reset' })
/** Sends the usual response and more. */
const add = (...more: readonly Buffer[]): MakeReply => ({ response }) =>
  ({ bytes: [...response, ...more] })
const addAndClose = (...more: readonly Buffer[]): MakeReply => ({ response }) =>
  ({ bytes: [...response, ...more], then: 'close' })
const insertBefore = (...more: readonly Buffer[]): MakeReply => ({ response }) =>
  ({ bytes: [...more, ...response] })
/** Sends the usual response with other rows. */
const mapRows = (map: (row: Buffer) => readonly Buffer[]): MakeReply => ({ response }) =>
  ({ bytes: response.flatMap(bytes => isRow(bytes) ? map(bytes) : [bytes]) })
const cutOff: MakeReply = ({ response }) =>
  ({ bytes: [Buffer.concat(response).subarray(0, 20)], then: 'close' })

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

const twoRows = mapRows(row => [row, row])

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

const http = Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')

const COMMITTED = 'committed [0] [1]'

const cases: readonly Case[] = [
  // BEGIN
  [
    'FATAL instead of the response to BEGIN', at('begin', sendAndClose(fatal)), COMMITTED,
    'replaced'
  ],
  [
    'a FATAL error of a pooler instead of the response to BEGIN',
    at('begin', sendAndClose(message('E', 'SFATAL\0C08P01\0Mserver conn crashed?\0\0'))),
    'unknown', 'replaced', 0, { quiet: COMMITTED }
  ],
  [
    'RST instead of the response to BEGIN',
    at('begin', reset),
    'unknown', 'replaced', 0, { quiet: COMMITTED }
  ],
  [
    'the connection closes after the response to BEGIN',
    all(at('begin', addAndClose()), readyAfter('begin', addAndClose()), aborted),
    'unknown', 'replaced', 0,
    { quiet: /^(committed \[0\] \[1\]|failed at session 08006|unknown)$/ }
  ],
  [
    'no response to BEGIN',
    at('begin', silence),
    'unknown', 'replaced', 0, { deadlineMs: 500, quiet: 'deadline_exceeded' }
  ],
  [
    'FATAL after the response to BEGIN; rolled back',
    at('begin', addAndClose(fatal)),
    'failed at session 08006', 'replaced', 0, { quiet: COMMITTED }
  ],
  [
    'BEGIN fails on every attempt',
    ({ kind, occurrence }) =>
      kind === 'begin' && occurrence < ATTEMPTS ? { bytes: [errorResponse('53200')] } : undefined,
    'database_unavailable', 'replaced'
  ],

  // Before COMMIT
  [
    'an operation fails', at('operation', send(errorResponse('23505'))), 'failed at 0 23505', 'kept'
  ],
  [
    'FATAL instead of the response to the session statement', at('session', sendAndClose(fatal)),
    'failed at session 08006', 'replaced'
  ],
  [
    'FATAL between two responses', at('operation', sendAndClose(fatal), 1), 'failed at 1 08006',
    'replaced'
  ],
  [
    'FATAL after half a response',
    at(
      'operation',
      ({ response }) => ({ bytes: [...response.slice(0, -2), fatal], then: 'reset' }),
      1
    ),
    'failed at 1 08006', 'replaced'
  ],
  [
    'the connection closes within a response; committed, but the server has crashed since',
    all(at('operation', cutOff), lookupReply('committed', 'f')),
    'unknown', 'replaced', 1
  ],
  [
    'the connection closes within a response; at first the transaction is in progress',
    all(
      at('operation', cutOff),
      exchange => exchange.occurrence === 0 ? lookupReply('in progress')(exchange) : undefined,
      aborted
    ),
    'failed at session 08006', 'replaced', 2
  ],
  [
    'the connection closes instead of the response to the session statement',
    at('session', sendAndClose()), 'unknown', 'replaced'
  ],
  [
    'the session statement returns no row', all(at('session', mapRows(() => [])), aborted),
    'unknown', 'replaced'
  ],

  // COMMIT
  [
    'FATAL instead of the response to COMMIT; rolled back',
    all(at('commit', sendAndClose(fatal)), aborted), 'failed at commit 08006', 'replaced', 1
  ],
  [
    'FATAL instead of the response to COMMIT; committed',
    all(at('commit', sendAndClose(fatal)), committed), COMMITTED, 'replaced', 1
  ],
  [
    'FATAL after the first half of the response to COMMIT', at('commit', addAndClose(fatal)),
    COMMITTED, 'replaced'
  ],
  ['all responses in one write', inOnePiece(), COMMITTED, 'kept'],
  [
    'all responses in one write, then the connection closes',
    onFirst(inOnePiece({ then: 'close' })), COMMITTED, 'replaced'
  ],
  ['COMMIT fails', at('commit', send(errorResponse('23503'))), 'failed at commit 23503', 'kept'],
  [
    'COMMIT returns ROLLBACK although nothing failed; rolled back',
    all(at('commit', send(complete('ROLLBACK'))), aborted), /^failed at commit /, 'kept', 1
  ],
  [
    'COMMIT returns another tag; committed',
    all(at('commit', send(complete('SELECT 1'))), committed), COMMITTED, 'kept', 1
  ],
  [
    'no response to COMMIT; committed',
    all(at('commit', silence), committed),
    COMMITTED, 'replaced', 1, { deadlineMs: 4000 }
  ],
  [
    'no response to COMMIT; rolled back',
    all(at('commit', silence), aborted),
    'failed at commit deadline_exceeded', 'replaced', 1, { deadlineMs: 4000 }
  ],
  [
    'no response to COMMIT or to a lookup',
    all(at('commit', silence), exchange =>
      exchange.kind === 'lookup' ? silence(exchange) : undefined),
    'unknown', 'replaced', 1, { deadlineMs: 4000 }
  ],

  // After COMMIT
  ['the reset fails', at('reset', send(errorResponse('42501'))), COMMITTED, 'replaced'],
  ['advisory locks stay', at('unlock', send(errorResponse('42501'))), COMMITTED, 'replaced'],
  [
    'COMMIT fails, and then the reset',
    all(at('commit', send(errorResponse('23503'))), at('reset', send(errorResponse('42501')))),
    'failed at commit 23503', 'replaced'
  ],
  [
    'COMMIT fails, and ReadyForQuery three times instead of the reset',
    all(
      at('commit', send(errorResponse('23503'))),
      at('reset', send(ready('I'), ready('I'), ready('I')))
    ),
    'failed at commit 23503', 'replaced'
  ],
  [
    'FATAL instead of the response to the reset', at('reset', sendAndClose(fatal)), COMMITTED,
    'replaced'
  ],
  ['no response to the last COMMIT', at('end', sendAndClose()), COMMITTED, 'replaced'],
  ['the last COMMIT fails', at('end', send(errorResponse('57014'))), COMMITTED, 'replaced'],
  [
    'the last COMMIT fails and its transaction stays open',
    all(at('end', send(errorResponse('57014'))), readyAfter('end', send(ready('E')))),
    COMMITTED, 'replaced'
  ],
  ['FATAL while idle', readyAfter('unlock', addAndClose(fatal)), COMMITTED, 'replaced'],
  ['an ERROR while idle', readyAfter('unlock', add(errorResponse('XX000'))), COMMITTED, 'kept'],

  // Unusual but valid messages
  [
    'notices, settings and notifications between all messages',
    between(notice, parameterStatus('TimeZone', 'UTC'), notification('channel', 'payload')),
    COMMITTED, 'kept'
  ],
  [
    'every byte in a separate write', ({ response }) => ({ bytes: response, pieces: true }),
    COMMITTED, 'kept'
  ],
  [
    'a row of 8 MB',
    at('operation', mapRows(() => [dataRow([Buffer.alloc(8_000_000, 'x')])])),
    'committed 8000000 bytes [1]', 'kept'
  ],
  [
    'an error of a pooler, which has no severity for programs',
    at('operation', send(message('E', 'SERROR\0C08P01\0Mlost\0\0'))), 'failed at 0 08P01', 'kept'
  ],

  // ReadyForQuery
  [
    'status idle after BEGIN',
    all(readyAfter('begin', send(ready('I'))), at('commit', send(complete('COMMIT')))),
    COMMITTED, 'kept'
  ],
  [
    'status idle after an operation',
    all(readyAfter('operation', send(ready('I'))), at('commit', send(complete('COMMIT')))),
    COMMITTED, 'kept'
  ],
  [
    'an additional ReadyForQuery after the reset', readyAfter('unlock', add(ready('I'))), COMMITTED,
    'kept'
  ],

  // The results of the batch are lost, and the outcome is looked up.
  ...([
    ['the connection closes within a response', at('operation', cutOff)],
    ['an operation fails, but COMMIT returns COMMIT', all(
      at('operation', send(errorResponse('23505'))),
      readyAfter('operation', send(ready('T')))
    )],
    ['an error after an operation that succeeded', at('operation', add(errorResponse('XX000')))],
    ['an error after the last operation', at('operation', add(errorResponse('XX000')), 1)],
    ['a message of an unknown type', at('operation', insertBefore(message('~', 'what')))],
    ['no row, all responses in one write', inOnePiece({ keep: isNoRow })],
    ['two rows for one operation', at('operation', twoRows)],
    ['an operation completes twice', at('operation', add(complete('SELECT 1')))],
    ['ReadyForQuery between two operations', at('operation', add(ready('T')))],
    ['ReadyForQuery instead of the response to COMMIT', at('commit', send(ready('T')))],
    ['ReadyForQuery after the operations, without a Sync', at('operation', add(ready('T')), 1)]
  ] as ReadonlyArray<readonly [string, Script]>).map(([what, script]): Case => [
    `${what}; committed`, all(script, committed), 'rows lost', 'replaced', 1
  ]),
  ...([
    ['the connection closes within a response', cutOff],
    ['an HTTP response', sendAndClose(http)],
    ['no row', mapRows(() => [])],
    ['a row without columns', mapRows(() => [dataRow([])])],
    ['an empty query', send(parseComplete, bindComplete, message('I'))],
    ['COPY FROM instead of rows', () => (
      { bytes: [message('G', Buffer.from([0, 0, 0]))], then: 'silence' }
    )],
    ['COPY TO instead of rows', () => ({
      bytes: [message('H', Buffer.from([0, 0, 0])), message('d', '[0]\n'), message('c')],
      then: 'silence'
    })]
  ] as ReadonlyArray<readonly [string, MakeReply]>).map(([what, reply]): Case => [
    `${what}; rolled back`, all(at('operation', reply), aborted), 'failed at session 08006',
    'replaced', 1
  ])
]

/** Runs a case on a connection that was just used, or on one that was quiet. */
async function runCase (
  t: Test,
  [, script, usual, connection, lookups = 0, more = {}]: Case,
  { quiet }: { readonly quiet: boolean }
): Promise<void> {
  const { deadlineMs = 5000 } = more
  const expected = (quiet ? more.quiet : undefined) ?? usual
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
  const [name] = row
  t.test(name, t => runCase(t, row, { quiet: false }))
  t.test(`${name}, on a quiet connection`, t => runCase(t, row, { quiet: true }))
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

t.test('connections are opened without settings once a pooler has refused them', async t => {
  const { fake, engine } = await useScene(t, {
    startup: () => [['lock_timeout', '15000']]
  })
  const withSettings = (): readonly boolean[] =>
    fake.exchanges.filter(({ kind }) => kind === 'startup')
      .map(({ text }) => text.includes('lock_timeout'))
  const runOnNew = async (): Promise<void> => {
    const connection = await engine.pool.acquire(performance.now() + 5000)
    connection.state.retired = true
    engine.pool.release(connection)
    t.equal(await describe(engine.run(operations)), COMMITTED)
    await until(() => engine.pool.count().busy === 0)
  }
  await runOnNew()
  // The first connection is opened again.
  t.same(withSettings(), [false, true, true])
  fake.script = ({ kind, text }) =>
    kind === 'startup' && text.includes('lock_timeout')
      ? { bytes: [errorResponse('08P01', { severity: 'FATAL' })], then: 'close' }
      : undefined
  await runOnNew()
  await runOnNew()
  t.same(withSettings(), [false, true, true, true, false, false])
})

t.test('no operation runs after a BEGIN that failed', async t => {
  for (const code of ['57014', '53200', '25006', '0A000']) {
    for (const quiet of [false, true]) {
      const { fake, engine } = await useScene(t)
      if (quiet) await untilQuiet(engine)
      fake.script = at('begin', send(errorResponse(code)))
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
    fake.script = at('begin', send(errorResponse('0A000')))
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
    earlierClaims: '00',
    eachClaim: '{}',
    text: 'k',
    fingerprint: '00',
    lock: 1n,
    ttlSeconds: 60
  }
  const lost = (kind: Kind): Script => at(kind, sendAndClose())
  const storedBy = (differs: string): Script => exchange =>
    exchange.kind === 'stored'
      ? send(
        rowDescription(['differs', 'live', 'answer', 'xmin', 'next']),
        dataRow([differs, 't', '[7]', '1', '2']),
        dataRow([differs, 't', '[8]', '1', '2']),
        complete('SELECT 2')
      )(exchange)
      : undefined
  const stored = storedBy('nothing')
  const STORED = 'committed [7] [8]'
  const stillRunning =
    at('terminate', send(rowDescription(['ended']), dataRow(['t']), complete('SELECT 1')))
  const lostTwice: Script = ({ kind, occurrence }) =>
    kind === 'commit' && occurrence < 2 ? { bytes: [], then: 'close' } : undefined
  const silentLookup: Script = exchange => exchange.kind === 'wait' ? silence(exchange) : undefined
  const rows: ReadonlyArray<readonly [
    name: string, script: Script, expected: string, attempts: number, terminations: number
  ]> = [
    ['no connection is lost', () => undefined, COMMITTED, 1, 0],
    ['at the claim; no response is stored', lost('claim'), COMMITTED, 2, 1],
    ['at an operation; no response is stored', lost('operation'), COMMITTED, 2, 1],
    ['while storing the response; no response is stored', lost('store'), COMMITTED, 2, 1],
    ['at COMMIT; no response is stored', lost('commit'), COMMITTED, 2, 1],
    ['at COMMIT; the response is stored', all(lost('commit'), stored), STORED, 1, 1],
    ...['claims', 'request'].map(differs => [
      `at COMMIT; the response to a request with another ${differs} is stored`,
      all(lost('commit'), storedBy(differs)), COMMITTED, 2, 1
    ] as const),
    ['FATAL at an operation', at('operation', sendAndClose(fatal)), COMMITTED, 2, 0],
    [
      'FATAL at COMMIT; the response is stored',
      all(at('commit', sendAndClose(fatal)), stored), STORED, 1, 1
    ],
    ['the backend does not exit at once', all(lost('commit'), stillRunning, stored), STORED, 1, 2],
    ['COMMIT returns ROLLBACK', at('commit', send(complete('ROLLBACK'))), COMMITTED, 2, 1],
    ['on both attempts', lostTwice, 'failed at commit 08006', 2, 2],
    ['and the lookup gets no response', all(lost('commit'), silentLookup), 'unknown', 1, 1],
    [
      'and the connection of the lookup is lost too',
      all(lost('commit'), at('wait', sendAndClose(fatal)), stored), STORED, 1, 2
    ]
  ]
  for (const [name, script, expected, attempts, terminations] of rows) {
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
  type Row = readonly [name: string, reply: MakeReply, reason: RegExp, printed?: string]
  const fatalAtStart = (code: string, text: string): Buffer =>
    errorResponse(code, { severity: 'FATAL', text })
  const sendAndWait = (...bytes: readonly Buffer[]): MakeReply => () => ({ bytes, then: 'silence' })
  const rows: readonly Row[] = [
    [
      '57P03, the server is starting',
      sendAndClose(fatalAtStart('57P03', 'the database system is starting up')),
      /starting up/
    ],
    [
      '53300, too many connections',
      sendAndClose(authenticationOk, fatalAtStart('53300', 'too many clients')),
      /too many clients/
    ],
    ['the connection closes at once', sendAndClose(), /closed the connection/],
    [
      'an unknown authentication method', sendAndWait(message('R', Buffer.from([0, 0, 0, 99]))),
      /./, 'Postgres.js : Unknown Auth: 99'
    ],
    ['no response', silence, /no session within 1000 ms/],
    ['an HTTP response', sendAndWait(http), /protocol of PostgreSQL/]
  ]
  for (const [name, reply, reason, printed] of rows) {
    await t.test(name, async t => {
      // postgres.js prints what it does not know.
      const written = printed === undefined ? () => [] : t.capture(console, 'error')
      const fake = await useFakePostgres(t)
      const engine = useEngine(t, `${fake.url}?connect_timeout=1`, { queueTimeoutMs: 3000 })
      fake.script = exchange => exchange.kind === 'startup' ? reply(exchange) : undefined
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
  const lost = sendAndClose()
  const failed = (routine: string): MakeReply => send(errorResponse('XX000', { routine }))
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
    fake.script = all(at('commit', reply), lookupReply(status))
    const outcome = describe(useEngine(t, fake.url, { target }).run(operations))
    t.match(await outcome, expected, `${engine}, ${status}`)
  }
})

interface Scene {
  readonly fake: FakePostgres
  readonly engine: Engine
}

async function useScene (t: Test, options: Partial<PoolOptions> = {}): Promise<Scene> {
  const fake = await useFakePostgres(t)
  return { fake, engine: useEngine(t, fake.url, options) }
}
