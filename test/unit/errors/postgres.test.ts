/**
 * Tests the status and code of every SQLSTATE, and which part of a message the client sees.
 */
import t from 'tap'
import { conditions } from '../../../src/errors/conditions.ts'
import {
  fromDatabase,
  quotedText,
  withLaterCondition,
  withoutValues
} from '../../../src/errors/postgres.ts'

const place = { op: null, index: null }

/** SQLSTATEs by their status. Their code is the name of the condition, or the SQLSTATE itself. */
const statuses: Readonly<Record<number, string>> = {
  400: '53400 23502 23514 22000 22P02 22ZZZ 42703 42601 44000 54001 0A000 21000 P0001 55000 PT400',
  403: '25006 28P01 0LP01 0P000 42501',
  404: '42P01 42883 3F000',
  409: '40001 40P01 55P03 23503 23505 23P01 23001',
  500: 'PT399 PT600 PT4XX 23000 25001 40000 55006 57P04 57P05 XX000 01000 ZZ999',
  503: 'PT503',
  504: '57014',
  599: 'PT599'
}
const unavailable = '08000 08001 08003 08004 08006 08007 08P01 08XYZ 53000 53100 53200 53300 ' +
  '57P01 57P02 57P03'

t.test('every SQLSTATE has a status and a code', async t => {
  for (const [status, states] of Object.entries(statuses)) {
    for (const sqlstate of states.split(' ')) {
      t.match(fromDatabase({ code: sqlstate, message: 'm' }, place), {
        type: 'execution_error',
        status: Number(status),
        code: conditions.get(sqlstate) ?? sqlstate,
        message: 'm',
        details: { sqlstate, retryable: ['40001', '40P01', '55P03'].includes(sqlstate) }
      }, sqlstate)
    }
  }
  for (const sqlstate of unavailable.split(' ')) {
    t.match(fromDatabase({ code: sqlstate, message: 'm' }, place), {
      type: 'service_error', status: 503, code: 'database_unavailable', details: { sqlstate }
    }, sqlstate)
  }
})

t.test('a bad hstore is a syntax error, as from PostgreSQL 16 on', async t => {
  const error = { code: 'XX000', message: 'Unexpected end of string', severity: 'ERROR' } as const
  for (const [routine, code] of [
    ['get_val', '42601'], ['parse_hstore', '42601'], ['relation_open', 'XX000']
  ] as const) {
    t.equal(withLaterCondition({ ...error, routine }).code, code, routine)
  }
})

t.test('the log names what the server has run out of, and the response does not', async t => {
  const disk = {
    code: '53100',
    message: 'could not extend file "base/1/2": No space left on device',
    hint: 'Check free disk space.',
    severity: 'ERROR'
  } as const
  const { hint, ...memory } = { ...disk, code: '53200', message: 'out of memory' }
  for (const [error, reason] of [
    [disk, `${disk.message}. ${hint}`], [memory, 'out of memory']
  ] as const) {
    const failed = fromDatabase(error, place)
    t.match(failed, { code: 'database_unavailable', reason, details: { sqlstate: error.code } })
    t.notMatch(failed.message, /space|memory/)
  }
})

t.test('messages contain no value, in any language', async t => {
  const rows: ReadonlyArray<readonly [code: string, message: string, shown: string]> = [
    ['22P02', 'ungültige Eingabesyntax für Typ integer: »x«',
      'ungültige Eingabesyntax für Typ integer: »…«'],
    ['22P02', 'syntaxe en entrée invalide pour le type integer : « x »',
      'syntaxe en entrée invalide pour le type integer : «…»'],
    ['22P02', '型integerの入力構文が不正です: "x"', '型integerの入力構文が不正です: "…"'],
    ['23505', 'duplicate key value violates unique constraint "k"',
      'duplicate key value violates unique constraint "k"']
  ]
  for (const [code, message, shown] of rows) {
    t.equal(withoutValues({ code, message }), shown)
    if (shown.includes('…')) t.equal(quotedText(message), 'x')
  }
  t.equal(quotedText('division by zero'), undefined)
  // The search for a closing quote must not take quadratic time.
  const quotes = `unknown code ${'‘'.repeat(1_000_000)}`
  t.equal(withoutValues({ code: '22023', message: quotes }), quotes)
  t.equal(withoutValues({ code: '22023', message: `${quotes}’.` }), 'unknown code ‘…’.')
  t.equal(withoutValues({ code: '22023', message: '» no quote «' }), '»…«')
  t.equal(withoutValues({ message: 'connect ECONNREFUSED "x"' }), 'connect ECONNREFUSED "x"')
})

t.test('Citus reports the loss of a worker without an SQLSTATE of its own', async t => {
  for (const [code, routine, expected] of [
    ['XX000', 'MarkRemoteTransactionFailed', 'database_unavailable'],
    ['58030', 'EndRemoteCopy', 'database_unavailable'],
    ['58030', 'mdread', 'io_error'],
    ['23505', 'ReportResultError', 'unique_violation']
  ] as const) {
    t.equal(fromDatabase({ code, message: '', routine }, place).code, expected)
  }
})
