/**
 * Tests how faults of the schema are recognized, and which function the log names: without the
 * texts of any language.
 */
import t from 'tap'
import type { DatabaseError } from '../../../src/errors/database-error.ts'
import { findFunction, isSchemaFault } from '../../../src/errors/schema-fault.ts'

const error = (more: Partial<DatabaseError>): DatabaseError =>
  ({ code: '42P01', message: '', ...more })

t.test('the place of an error tells whose mistake it is', async t => {
  const where = 'PL/pgSQL function f() line 1 at RETURN'
  const faults: ReadonlyArray<Partial<DatabaseError>> = [
    { where },
    { where: 'SQL function "f" statement 1' },
    { where: 'remote SQL command: SELECT id FROM public.t' },
    { internal_position: '5', where: 'SQL function "f" during inlining' },
    { where: 'SQL function "f" statement 1\nunnamed portal with parameters: $1 = \'a\'' },
    { code: '42P17' },
    { code: '54001', where }
  ]
  for (const fault of faults) t.ok(isSchemaFault(error(fault)), JSON.stringify(fault))
  const others: ReadonlyArray<Partial<DatabaseError>> = [
    {},
    { position: '5' },
    { where: 'unnamed portal parameter $1' },
    { where: "Parameter $2 des unbenannten Portals = '…'" },
    { where: 'while executing command on localhost:9701', routine: 'ReportResultError' },
    { where, routine: 'exec_stmt_raise' },
    { code: '42P17', routine: 'exec_stmt_raise' },
    { where, code: '42501' },
    { where, code: '22012' },
    { code: '54001' }
  ]
  for (const other of others) t.notOk(isSchemaFault(error(other)), JSON.stringify(other))
})

t.test('the function is found in contexts of every language', async t => {
  const cases: ReadonlyArray<readonly [where: string, name: string | undefined]> = [
    ['PL/pgSQL function stop(integer,text) line 3 at PERFORM', 'stop(integer,text)'],
    ['PL/pgSQL function app."Stop it"() line 3 at IF', 'app."Stop it"()'],
    ['PL/pgSQL-Funktion stop() Zeile 1 bei SQL-Anweisung', 'stop()'],
    ['fonction PL/pgSQL été(), ligne 1, à RETURN', 'été()'],
    ['compilation of PL/pgSQL function "stop" near line 1', 'stop'],
    ['SQL function "stop" during inlining', 'stop'],
    ['SQL-Funktion »stop« Anweisung 1', 'stop'],
    ['fonction SQL « stop », instruction 1', 'stop'],
    ['SQL statement "select f(\'a\')\n  from t"\nPL/pgSQL function stop() line 1 at IF', 'stop()'],
    ['SQL statement "commit"\nPL/pgSQL function stop() line 1 at IF', 'stop()'],
    ['remote SQL command: SELECT id FROM public.t', undefined]
  ]
  for (const [where, name] of cases) {
    t.equal(findFunction(error({ where })), name, where)
  }
  t.equal(findFunction(error({})), undefined)
})

t.test('the search takes linear time for every context', async t => {
  for (const part of ['a', 'a.', '"', '"a".', '(', 'a(', '«', '" ', '"a"']) {
    const name = findFunction(error({ where: `PL/pgSQL ${part.repeat(1_000_000)}` }))
    t.ok(name === undefined || name === 'a', part)
  }
})
