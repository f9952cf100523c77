/**
 * Messages in an order that a real server rarely sends: what the engine makes of them is true or
 * `unknown`, the process survives, and no connection that is in doubt carries another batch. On a
 * server that is a script.
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
  type Turn
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
  readonly told: string | RegExp
  /** Whether the next batch flies on the connection that the fault was on. */
  readonly connection: 'kept' | 'replaced'
  /**
   * How often another connection is asked what became of the transaction; none unless said
   * otherwise.
   */
  readonly inquiries?: number
  readonly deadlineMs?: number
  /** What postgres.js writes to the console about it. */
  readonly printed?: string
}

const operations = ['--operation 0', '--operation 1']
const fatal = errorResponse('57P01', { severity: 'FATAL' })

/** Says `reply` to the first (or `time`th) of a kind, on whichever connection. */
const at = (kind: Kind, reply: (turn: Turn) => Reply, time = 0): Script => turn =>
  turn.kind === kind && turn.time === time ? reply(turn) : undefined

/** What the first script says that has something to say. */
const all = (...scripts: readonly Script[]): Script => turn => {
  for (const script of scripts) {
    const reply = script(turn)
    if (reply !== undefined) return reply
  }
  return undefined
}

const status = (status: string | null, same: string | null = 't'): Script => turn =>
  turn.kind === 'inquiry'
    ? {
        bytes: [
          rowDescription(['status', 'same']),
          dataRow([status, same]),
          complete('SELECT 1'),
          ready('I')
        ]
      }
    : undefined

/** `extra` between all messages of every answer. */
const between = (...extra: readonly Buffer[]): Script => ({ kind, answer }) =>
  kind === 'startup' ? undefined : { bytes: answer.flatMap(bytes => [...extra, bytes]) }

/** The answers that are owed, kept until the answer to COMMIT and told in one piece with it. */
const inOnePiece = (then?: Reply['then']): Script => {
  let owed: readonly Buffer[] = []
  return ({ kind, answer }) => {
    if (kind === 'session' || kind === 'operation') {
      owed = [...owed, ...answer]
      return { bytes: [] }
    }
    if (kind !== 'commit') return undefined
    const bytes = [...owed, ...answer]
    owed = []
    return { bytes, ...(then === undefined ? {} : { then }) }
  }
}

/** `script` on the connection of the first batch alone. */
const onFirst = (script: Script): Script => {
  let connection: number | undefined
  return turn => {
    if (turn.kind === 'begin') connection ??= turn.connection
    return turn.connection === (connection ?? turn.connection) ? script(turn) : undefined
  }
}

async function tell (landed: Promise<BatchOutcome>): Promise<string> {
  return landed.then(landed => {
    if (landed.kind === 'failed') return `failed at ${landed.at} ${landed.error.code}`
    if (landed.kind === 'unknown') return landed.committed ? 'rows lost' : 'unknown'
    return `committed ${
      landed.rows.map(row => row.length < 100 ? String(row) : `${row.length} bytes`).join(' ')
    }`
  }, (error: { code?: string }) => String(error.code))
}

const zeros = [Buffer.alloc(12)]
const ZERO_PRINTED = 'Postgres.js : Unknown Message: 0'

const COMMITTED = 'committed [0] [1]'

const cases: readonly Case[] = [
  // BEGIN
  {
    name: 'BEGIN is refused',
    script: at('begin', () => ({ bytes: [errorResponse('53200'), ready('I')] })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: "FATAL in the place of BEGIN's answer",
    script: at('begin', () => ({ bytes: [fatal], then: 'close' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: "a RST in the place of BEGIN's answer",
    script: at('begin', () => ({ bytes: [], then: 'reset' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: "the end right behind BEGIN's answer",
    script: all(at('begin', ({ answer }) => ({ bytes: answer, then: 'close' })), status('aborted')),
    told: /^(committed \[0\] \[1\]|failed at session 08006|unknown)$/,
    connection: 'replaced'
  },
  {
    name: 'BEGIN is never answered',
    script: at('begin', () => ({ bytes: [], then: 'silence' })),
    told: 'deadline_exceeded',
    connection: 'replaced',
    deadlineMs: 500
  },
  {
    name: 'BEGIN is always refused',
    script: ({ kind, time }) =>
      kind === 'begin' && time < 2 ? { bytes: [errorResponse('53200'), ready('I')] } : undefined,
    told: 'database_unavailable',
    connection: 'replaced'
  },

  // before the end
  {
    name: 'an operation fails',
    script: at('operation', () => ({ bytes: [errorResponse('23505'), ready('E')] })),
    told: 'failed at 0 23505',
    connection: 'kept'
  },
  {
    name: "FATAL in the place of the session's answer",
    script: at('session', () => ({ bytes: [fatal], then: 'close' })),
    told: 'failed at session 08006',
    connection: 'replaced'
  },
  {
    name: 'FATAL between answers',
    script: at('operation', () => ({ bytes: [fatal], then: 'close' }), 1),
    told: 'failed at 1 08006',
    connection: 'replaced'
  },
  {
    name: 'FATAL behind half an answer',
    script: at(
      'operation',
      ({ answer }) => ({ bytes: [...answer.slice(0, -3), fatal], then: 'reset' }),
      1
    ),
    told: 'failed at 1 08006',
    connection: 'replaced'
  },
  {
    name: 'half an answer, then the end; rolled back',
    script: all(
      at(
        'operation',
        ({ answer }) => ({ bytes: [Buffer.concat(answer).subarray(0, 20)], then: 'close' })
      ),
      status('aborted')
    ),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'half an answer, then the end; committed',
    script: all(
      at(
        'operation',
        ({ answer }) => ({ bytes: [Buffer.concat(answer).subarray(0, 20)], then: 'close' })
      ),
      status('committed')
    ),
    told: 'rows lost',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'half an answer, then the end; committed, but the server has crashed since',
    script: all(
      at(
        'operation',
        ({ answer }) => ({ bytes: [Buffer.concat(answer).subarray(0, 20)], then: 'close' })
      ),
      status('committed', 'f')
    ),
    told: 'unknown',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'half an answer, then the end; first it still runs',
    script: all(
      at(
        'operation',
        ({ answer }) => ({ bytes: [Buffer.concat(answer).subarray(0, 20)], then: 'close' })
      ),
      turn => turn.time === 0 ? status('in progress')(turn) : undefined,
      status('aborted')
    ),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 2
  },
  {
    name: "the end in the place of the session's answer",
    script: at('session', () => ({ bytes: [], then: 'close' })),
    told: 'unknown',
    connection: 'replaced'
  },

  // COMMIT
  {
    name: "FATAL in the place of COMMIT's answer; rolled back",
    script: all(at('commit', () => ({ bytes: [fatal], then: 'close' })), status('aborted')),
    told: 'failed at commit 08006',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: "FATAL in the place of COMMIT's answer; committed",
    script: all(at('commit', () => ({ bytes: [fatal], then: 'close' })), status('committed')),
    told: COMMITTED,
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: "FATAL behind the first half of COMMIT's answer; committed",
    script: all(
      at('commit', () => ({ bytes: [complete('COMMIT'), fatal], then: 'close' })),
      status('committed')
    ),
    told: COMMITTED,
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: "FATAL behind COMMIT's answer",
    script: at('commit', ({ answer }) => ({ bytes: [...answer, fatal], then: 'close' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: "the end right behind COMMIT's answer",
    script: at('commit', ({ answer }) => ({ bytes: answer, then: 'close' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  { name: 'all answers in one piece', script: inOnePiece(), told: COMMITTED, connection: 'kept' },
  {
    name: 'all answers in one piece, and the end right behind it',
    script: onFirst(inOnePiece('close')),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'COMMIT fails',
    script: at('commit', () => ({ bytes: [errorResponse('23503'), ready('I')] })),
    told: 'failed at commit 23503',
    connection: 'kept'
  },
  {
    name: 'COMMIT answers ROLLBACK, and nothing had failed; rolled back',
    script: all(
      at('commit', () => ({ bytes: [complete('ROLLBACK'), ready('T')] })),
      status('aborted')
    ),
    told: /^failed at commit /,
    connection: 'kept',
    inquiries: 1
  },
  {
    name: 'COMMIT answers something else; committed',
    script: all(
      at('commit', () => ({ bytes: [complete('SELECT 1'), ready('T')] })),
      status('committed')
    ),
    told: COMMITTED,
    connection: 'kept',
    inquiries: 1
  },
  {
    name: 'an operation fails, and COMMIT answers COMMIT; committed',
    script: all(
      at('operation', () => ({ bytes: [errorResponse('23505'), ready('T')] })),
      status('committed')
    ),
    told: 'rows lost',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'COMMIT is never answered; committed',
    script: all(at('commit', () => ({ bytes: [], then: 'silence' })), status('committed')),
    told: COMMITTED,
    connection: 'replaced',
    inquiries: 1,
    deadlineMs: 4000
  },
  {
    name: 'COMMIT is never answered; rolled back',
    script: all(at('commit', () => ({ bytes: [], then: 'silence' })), status('aborted')),
    told: 'failed at commit deadline_exceeded',
    connection: 'replaced',
    inquiries: 1,
    deadlineMs: 4000
  },
  {
    name: 'COMMIT is never answered, nor any question',
    script: turn =>
      turn.kind === 'commit' && turn.time === 0
        ? { bytes: [], then: 'silence' }
        : turn.kind === 'inquiry'
          ? { bytes: [], then: 'silence' }
          : undefined,
    told: 'unknown',
    connection: 'replaced',
    inquiries: 1,
    deadlineMs: 4000
  },

  // behind COMMIT
  {
    name: 'the reset fails',
    script: at('reset', () => ({ bytes: [errorResponse('42501'), ready('E')] })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: "FATAL in the place of the reset's answer",
    script: at('reset', () => ({ bytes: [fatal], then: 'close' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the last COMMIT is not answered',
    script: at('end', () => ({ bytes: [], then: 'close' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the last COMMIT is refused',
    script: at('end', () => ({ bytes: [errorResponse('57014'), ready('I')] })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'the last COMMIT is refused, and its transaction is still there',
    script: at('end', () => ({ bytes: [errorResponse('57014'), ready('E')] })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'FATAL while idle',
    script: at('end', ({ answer }) => ({ bytes: [...answer, fatal], then: 'close' })),
    told: COMMITTED,
    connection: 'replaced'
  },
  {
    name: 'an ERROR while idle',
    script: at('end', ({ answer }) => ({ bytes: [...answer, errorResponse('XX000')] })),
    told: COMMITTED,
    connection: 'kept'
  },

  // between everything
  {
    name: 'notices, settings and notifications between everything',
    script: between(notice, parameterStatus('TimeZone', 'UTC'), notification('channel', 'payload')),
    told: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'every byte by itself',
    script: ({ answer }) => ({ bytes: answer, pieces: true }),
    told: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'a row of 8 MB',
    script: at('operation', ({ answer }) => ({
      bytes: answer.map(bytes =>
        bytes[0] === 0x44 ? dataRow([Buffer.alloc(8_000_000, 'x')]) : bytes
      )
    })),
    told: 'committed 8000000 bytes [1]',
    connection: 'kept'
  },
  {
    name: "an error behind ReadyForQuery, which is none of the next operation's; committed",
    script: all(
      at('operation', ({ answer }) => ({ bytes: [...answer, errorResponse('XX000')] })),
      status('committed')
    ),
    told: /^(rows lost|unknown|committed \[0\] \[1\])$/,
    connection: 'replaced'
  },

  // what no server says
  {
    name: 'a message of an unknown type',
    script: at('operation', ({ answer }) => ({ bytes: [message('~', 'what'), ...answer] })),
    told: COMMITTED,
    connection: 'kept',
    printed: 'Postgres.js : Unknown Message: 126'
  },
  {
    name: 'a message of 2 GiB that does not come; committed',
    script: all(
      at('operation', ({ answer }) => ({ bytes: [message('D', 'x', 2 ** 31), ...answer] })),
      status('committed')
    ),
    told: 'rows lost',
    connection: 'replaced',
    inquiries: 1,
    deadlineMs: 4000
  },
  {
    name: 'a message of length 0; rolled back',
    script: all(
      at('operation', () => ({ bytes: [message('D', '', 0)], then: 'close' })),
      status('aborted')
    ),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'HTTP; rolled back',
    script: all(
      at(
        'operation',
        () => ({ bytes: [Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')], then: 'close' })
      ),
      status('aborted')
    ),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'zeros; rolled back',
    script: all(at('operation', () => ({ bytes: zeros, then: 'close' })), status('aborted')),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 1,
    printed: ZERO_PRINTED
  },
  {
    name: 'noise; rolled back',
    script: all(
      at('operation', () => ({
        bytes: [Buffer.from(Array.from({ length: 500 }, (_, i) => (i * 7919 + (i >> 3)) % 256))],
        then: 'close'
      })),
      status('aborted')
    ),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 1
  },
  {
    name: 'no row; rolled back',
    script: all(
      at('operation', ({ answer }) => ({ bytes: answer.filter(bytes => bytes[0] !== 0x44) })),
      status('aborted')
    ),
    told: /^failed at [01] 08006$/,
    connection: 'replaced'
  },
  {
    name: 'a row without columns; rolled back',
    script: all(
      at('operation', ({ answer }) => ({
        bytes: answer.map(bytes => bytes[0] === 0x44 ? dataRow([]) : bytes)
      })),
      status('aborted')
    ),
    told: /^failed at [01] 08006$/,
    connection: 'replaced'
  },
  {
    name: 'a session that answers no row',
    script: all(
      at('session', ({ answer }) => ({ bytes: answer.filter(bytes => bytes[0] !== 0x44) })),
      status('aborted')
    ),
    told: 'unknown',
    connection: 'replaced'
  },
  {
    name: 'an empty query; rolled back',
    script: all(
      at('operation', () => ({ bytes: [parseComplete, bindComplete, message('I'), ready('T')] })),
      status('aborted')
    ),
    told: /^failed at [01] 08006$/,
    connection: 'replaced'
  },
  {
    name: 'COPY in the place of rows; rolled back',
    script: all(
      at('operation', () => ({ bytes: [message('G', Buffer.from([0, 0, 0]))], then: 'close' })),
      status('aborted')
    ),
    told: 'failed at 0 08006',
    connection: 'replaced',
    inquiries: 1
  },

  // ReadyForQuery
  {
    name: 'not in a transaction behind BEGIN',
    script: at('begin', () => ({ bytes: [complete('BEGIN'), ready('I')] })),
    told: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'not in a transaction behind an operation',
    script: at('operation', ({ answer }) => ({ bytes: [...answer.slice(0, -1), ready('I')] })),
    told: COMMITTED,
    connection: 'kept'
  },
  {
    name: 'a transaction that failed behind an operation that did not; rolled back',
    script: all(
      at('operation', ({ answer }) => ({ bytes: [...answer.slice(0, -1), ready('E')] }), 1),
      status('aborted')
    ),
    told: 'failed at commit 08006',
    connection: 'kept',
    inquiries: 1
  },
  {
    name: 'no ReadyForQuery behind an operation; rolled back',
    script: all(
      at('operation', ({ answer }) => ({ bytes: answer.slice(0, -1), then: 'silence' }), 1),
      status('aborted')
    ),
    told: 'failed at 1 deadline_exceeded',
    connection: 'replaced',
    inquiries: 1,
    deadlineMs: 4000
  },
  {
    name: 'a ReadyForQuery too many',
    script: all(
      at('operation', ({ answer }) => ({ bytes: [...answer, ready('T')] })),
      status('committed')
    ),
    told: /^(rows lost|unknown|committed \[0\] \[1\])$/,
    connection: 'replaced',
    deadlineMs: 4000
  }
]

/**
 * Keeps off the console what postgres.js writes there about a message that it does not know. The
 * result checks that it wrote this line, as often as it likes, and no other. Without a line nothing
 * is kept off.
 */
function hearConsole (t: Test, line: string | undefined): () => void {
  if (line === undefined) return () => {}
  const written = t.capture(console, 'error')
  return () => t.same([...new Set(written().map(({ args }) => args.join(' ')))], [line])
}

for (const { name, script, told, connection, inquiries = 0, deadlineMs = 5000, printed } of cases) {
  t.test(name, async t => {
    const checkConsole = hearConsole(t, printed)
    const { fake, engine } = await useScene(t)
    fake.script = script
    const started = performance.now()
    const answer = await tell(engine.run(operations, deadlineMs))
    told instanceof RegExp ? t.match(answer, told) : t.equal(answer, told)
    t.ok(performance.now() - started < deadlineMs + 5000, 'answered within the deadline')
    const asked = fake.turns.filter(({ kind }) => kind === 'inquiry').length
    if (!(told instanceof RegExp)) t.equal(asked, inquiries, 'questions what became of it')
    const odd = fake.turns.find(({ kind }) => kind === 'begin')?.connection
    // The batch is answered before its connection is done with it.
    await until(() => engine.pool.count().busy === 0)
    fake.script = () => undefined
    t.equal(await tell(engine.run(operations)), COMMITTED, 'the next batch is served')
    const next = fake.turns.findLast(({ kind }) => kind === 'begin')?.connection
    connection === 'kept'
      ? t.equal(next, odd, 'on the same connection')
      : t.not(next, odd, 'on another connection')
    // One for batches, and two for questions.
    await until(() => engine.pool.count().busy === 0 && fake.open() <= 3)
    t.same(engine.pool.count(), { busy: 0, idle: 1, waiting: 0 }, 'the pool is whole')
    checkConsole()
  })
}

t.test('with a key, when the connection is lost', async t => {
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
  const living: Script = at(
    'terminate',
    () => ({ bytes: [rowDescription(['ended']), dataRow(['t']), complete('SELECT 1'), ready('I')] })
  )
  const rows: ReadonlyArray<
    {
      readonly name: string,
      readonly script: Script,
      readonly told: string,
      readonly flights: number,
      readonly ended: number
    }
  > = [
    { name: 'nothing is lost', script: () => undefined, told: COMMITTED, flights: 1, ended: 0 },
    {
      name: 'at the claim; there is no answer',
      script: lost('claim'),
      told: COMMITTED,
      flights: 2,
      ended: 1
    },
    {
      name: 'at an operation; there is no answer',
      script: lost('operation'),
      told: COMMITTED,
      flights: 2,
      ended: 1
    },
    {
      name: 'at the storing; there is no answer',
      script: lost('store'),
      told: COMMITTED,
      flights: 2,
      ended: 1
    },
    {
      name: 'at COMMIT; there is no answer',
      script: lost('commit'),
      told: COMMITTED,
      flights: 2,
      ended: 1
    },
    {
      name: 'at COMMIT; the answer is there',
      script: all(lost('commit'), stored),
      told: 'committed [7] [8]',
      flights: 1,
      ended: 1
    },
    {
      name: 'FATAL before the end',
      script: at('operation', () => ({ bytes: [fatal], then: 'close' })),
      told: COMMITTED,
      flights: 2,
      ended: 0
    },
    {
      name: 'FATAL at COMMIT; the answer is there',
      script: all(at('commit', () => ({ bytes: [fatal], then: 'close' })), stored),
      told: 'committed [7] [8]',
      flights: 1,
      ended: 1
    },
    {
      name: 'the process takes its time to end',
      script: all(lost('commit'), living, stored),
      told: 'committed [7] [8]',
      flights: 1,
      ended: 2
    },
    {
      name: 'COMMIT answers ROLLBACK',
      script: at('commit', () => ({ bytes: [complete('ROLLBACK'), ready('T')] })),
      told: COMMITTED,
      flights: 2,
      ended: 1
    },
    {
      name: 'twice',
      script: ({ kind, time }) =>
        kind === 'commit' && time < 2 ? { bytes: [], then: 'close' } : undefined,
      told: 'failed at commit 08006',
      flights: 2,
      ended: 2
    },
    {
      name: 'and who is asked is silent',
      script: all(
        lost('commit'),
        ({ kind }) => kind === 'wait' ? { bytes: [], then: 'silence' } : undefined
      ),
      told: 'unknown',
      flights: 1,
      ended: 1
    },
    {
      name: 'and who is asked is lost as well',
      script: all(lost('commit'), at('wait', () => ({ bytes: [fatal], then: 'close' })), stored),
      told: 'committed [7] [8]',
      flights: 1,
      ended: 2
    }
  ]
  for (const { name, script, told, flights, ended } of rows) {
    await t.test(name, async t => {
      const { fake, engine } = await useScene(t)
      fake.script = script
      const answer = await tell(
        executeBatch(engine.pool, { ...plainBatch(operations), key }, {
          deadline: performance.now() + 5000
        })
      )
      t.equal(answer, told)
      const count = (wanted: Kind): number =>
        fake.turns.filter(({ kind }) => kind === wanted).length
      t.equal(count('begin'), flights, 'flights')
      t.ok(count('terminate') >= ended, 'the process of the lost connection is ended')
      await until(() => engine.pool.count().busy === 0)
      fake.script = () => undefined
      t.equal(await tell(engine.run(operations)), COMMITTED, 'the next batch is served')
    })
  }
})

t.test('start-up', async t => {
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
      'the end behind authentication',
      { bytes: [authenticationOk], then: 'close' },
      /closed the connection/
    ],
    ['the end at once', { bytes: [], then: 'close' }, /closed the connection/],
    ['a RST at once', { bytes: [], then: 'reset' }, /ECONNRESET|closed the connection/],
    [
      'an authentication that is unknown',
      { bytes: [message('R', Buffer.from([0, 0, 0, 99]))], then: 'silence' },
      /./,
      'Postgres.js : Unknown Auth: 99'
    ],
    ['silence', { bytes: [], then: 'silence' }, /no session within 1000 ms/],
    [
      'HTTP',
      { bytes: [Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')], then: 'silence' },
      /no session within 1000 ms/
    ],
    ['zeros', { bytes: zeros, then: 'close' }, /./, ZERO_PRINTED],
    ['a later protocol', {
      bytes: [message('v', Buffer.from([0, 3, 0, 2, 0, 0, 0, 0]))],
      then: 'silence'
    }, /./]
  ]
  for (const [name, reply, reason, printed] of rows) {
    await t.test(name, async t => {
      const checkConsole = hearConsole(t, printed)
      const fake = await useFakePostgres(t)
      const engine = useEngine(t, `${fake.url}?connect_timeout=1`, { queueTimeoutMs: 3000 })
      fake.script = ({ kind }) => kind === 'startup' ? reply : undefined
      t.equal(await tell(engine.run(operations)), 'database_unavailable')
      t.match((engine.openFailures[0] as Error).message, reason)
      fake.script = () => undefined
      t.equal(await tell(engine.run(operations)), COMMITTED, 'the next batch is served')
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
