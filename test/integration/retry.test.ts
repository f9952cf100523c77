/**
 * Retries: temporary failures and failures of one connection are retried a limited number of times,
 * but never after a COMMIT that may have succeeded.
 */
import t, { type Test } from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { failure } from '../../src/errors/catalogue.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import type { Place } from '../../src/sql/frame/steps.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import type { AttemptTimes, Failed } from '../../src/transaction/outcome.ts'
import { createReport } from '../../src/transaction/report.ts'
import { decide } from '../../src/transaction/retry-policy.ts'
import { toFailure } from '../../src/transaction/to-failure.ts'
import { useDatabase } from '../support/database/database.ts'
import { alterSession, plainBatch, useEngine } from '../support/database/engine.ts'
import { holdRow } from '../support/database/hold.ts'
import { moodySchema } from '../support/database/triggers.ts'
import { useProxy } from '../support/network/proxy.ts'
import {
  gauge,
  retriesOf,
  retryAtOnce,
  useService,
  type ServiceUnderTest,
  type UseServiceOptions
} from '../support/service.ts'
import { update } from '../support/operations.ts'
import { failed } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const schema = `
  create table hot (id int primary key, n int not null);
  insert into hot values (1, 0), (2, 0);
  create view pause as select pg_sleep(0.002)::text as slept;
  ${moodySchema}
  create trigger moody before insert on moody for each row execute function moody();`

const database = await useDatabase(t, { schema })
const { sql } = database
const useThis = (t: Test, options: UseServiceOptions = {}): Promise<ServiceUnderTest> =>
  useService(t, { ...options, provide: async () => database })

/** The number of calls of `moody` since `resetTries`. */
const countTries = async (): Promise<unknown> =>
  (await sql`select last_value::int as n from tries`)[0]?.['n']
const resetTries = () => sql`select setval('tries', 1, false)`

const move = (from: number, to: number): object[] =>
  [from, to].map((id, i) => update(`o${i}`, 'hot', { set: { n: id }, where: { id: { eq: id } } }))

t.test('a conflict is the answer if no connection is free for another attempt', async t => {
  const service = await useThis(t, { env: { POOL_SIZE: '1', QUEUE_TIMEOUT_MS: '2000' } })
  await resetTries()
  const row = await holdRow(database, 'select from hot where id = 1')
  const five = update('u', 'hot', { set: { n: 5 }, where: { id: { eq: 1 } } })
  const conflict = { id: 'm', op: 'insert', table: 'moody', values: [{ code: '40001', times: 99 }] }
  const first = service.post([conflict])
  // Takes the connection while the first one pauses, and waits for the row.
  const second = service.post([five])
  t.match((await first).body.error, { code: 'serialization_failure' })
  await row.free()
  t.equal((await second).status, 200)
})

t.test('a deadlock that an extension reports is retried', async t => {
  const proxy = await useProxy(t, database.loginUrl)
  const { post, adminUrl } = await useThis(t, { databaseUrl: proxy.through })
  const row = await holdRow(database, 'select from hot where id = 1')
  // As in Citus: deadlock detection cancels a transaction, and a log hook changes the error code.
  proxy.deliver = ({ held }) => {
    const at = held.indexOf('C57014\0')
    if (at !== -1) held.write('C40P01', at, 'latin1')
    return held.length
  }
  const answer = post(move(1, 2))
  await row.awaited()
  await sql`select pg_cancel_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  const isRetried = async (): Promise<boolean> =>
    (await retriesOf({ adminUrl }))['deadlock_detected'] === 1
  await Promise.race([answer, until(isRetried)])
  await row.free()
  t.equal((await answer).status, 200)
  t.ok(await isRetried())
})

t.test('batches that meet in opposite orders run again, and each is applied once', async t => {
  await sql.unsafe(`alter database ${database.name} set deadlock_timeout = '10ms'`)
  const service = await useThis(t, { env: { POOL_SIZE: '8', QUEUE_TIMEOUT_MS: '30000' } })
  await sql`update hot set n = 0`
  const add = (id: number): object =>
    update(`o${id}`, 'hot', { set: { n: { $inc: 1 } }, where: { id: { eq: id } } })
  let committed = 0
  await until(async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => service.post(
      [add(1 + i % 2), { id: 'p', op: 'select', table: 'pause' }, add(2 - i % 2)],
      { headers: { prefer: `isolation=${i < 4 ? 'read-committed' : 'serializable'}` } }
    )))
    const refused = answers.filter(({ status }) => status !== 200)
    for (const { body } of refused) {
      t.match(body.error, {
        code: /^(deadlock_detected|serialization_failure)$/, retryable: true, committed: false
      })
    }
    committed += answers.length - refused.length
    const { deadlock_detected: deadlocks = 0, serialization_failure: conflicts = 0, ...others } =
      await retriesOf(service)
    t.same(others, {}, 'no other retries')
    return deadlocks > 0 && conflicts > 0
  })
  t.same([...await sql`select n from hot`], [{ n: committed }, { n: committed }])
  const counted = await gauge(service, 'service_txn_count{role="oneflight_user",outcome="ok"}')
  t.equal(counted, committed, 'a batch is counted once')
})

t.test('deadlocks and serialization failures of a recovery conflict are not retried', async t => {
  type Row = readonly [code: string, routine: string | undefined, retried: boolean]
  const rows: readonly Row[] = [
    ['40P01', 'DeadLockReport', true],
    ['40P01', 'ProcessInterrupts', true],
    ['40P01', undefined, true],
    ['40P01', 'CheckRecoveryConflictDeadlock', false],
    ['40001', 'CheckForSerializableConflictOut', true],
    ['40001', undefined, true],
    ['40001', 'ProcessInterrupts', false],
    ['40001', 'ProcessRecoveryConflictInterrupt', false],
    ['23505', '_bt_check_unique', false]
  ]
  for (const [code, routine, retried] of rows) {
    const error = { code, message: '', ...routine === undefined ? {} : { routine } }
    const outcome = { kind: 'failed', error, at: 0, times: { operations: [] } } as const
    const result = { batch: {} as never, outcome, hasRoleSettings: false, typesChanged: false }
    const budget = {
      connections: 2,
      standbys: 2,
      losses: 2,
      conflicts: 2,
      internal: 2,
      softDeadline: Infinity
    }
    t.equal(decide(result, budget) !== undefined, retried, `${code} ${routine}`)
  }
})

t.test('serialization failures are retried, with at most 15 attempts', async t => {
  retryAtOnce(t)
  await resetTries()
  const { post } = await useThis(t)
  const insert = (code: string, times: number): object[] =>
    [{ id: 'a', op: 'insert', table: 'moody', values: [{ code, times }] }]
  t.equal((await post(insert('40001', 3))).status, 200)
  t.equal(await countTries(), 4)
  t.equal((await sql`select from moody`).length, 1)

  await resetTries()
  t.match(await post(insert('40P01', 1000)), failed(409, 'deadlock_detected', {
    type: 'execution_error',
    retryable: true,
    committed: false,
    op: 'a',
    index: 0
  }))
  t.equal(await countTries(), 15)

  for (const code of ['0A000', '26000', '23505']) {
    await resetTries()
    t.not((await post(insert(code, 1000))).status, 200)
    t.equal(await countTries(), 1, `${code} raised by a function is not retried`)
  }
})

t.test('a failure is not retried if the deadline would pass during the pause', async t => {
  const { run } = useEngine(t, database.loginUrl)
  await resetTries()
  // Makes the pause before the retry longer than the time left.
  t.intercept(Math, 'random', { value: () => 1e6 })
  t.match(
    await run([
      'with r as (insert into moody values (1000) returning code) select code from r'
    ], 60_000),
    { kind: 'failed', error: { code: '40001' } }
  )
  t.equal(await countTries(), 1)
})

t.test('a failure that repeats on every connection is returned', async t => {
  const { pool } = useEngine(t, database.loginUrl, { size: 2 })
  const slow = alterSession(
    plainBatch(["select 'x'"]),
    'pg_catalog.pg_current_xact_id()::pg_catalog.text',
    "(select 'x' from pg_sleep(60))"
  )
  const role = `alter role oneflight_login in database ${database.name}`
  await sql.unsafe(`${role} set statement_timeout = 300`)
  t.teardown(() => sql.unsafe(`${role} reset statement_timeout`))
  t.match(await executeBatch(pool, slow, { deadline: performance.now() + 60_000 }), {
    kind: 'failed',
    at: 'session',
    error: { code: '57014' }
  })
})

t.test('failures are mapped to errors, operations and durations', async t => {
  const { pool } = useEngine(t, database.loginUrl)
  const options = {
    anonymous: false,
    verbose: false,
    maxRows: 1,
    maxBytes: 100_000,
    role: 'r',
    schemas: ['public'],
    pool,
    columnTypes: { lookup: () => undefined },
    deadline: 0
  }
  const select = [{ id: 'a', op: 'select', table: 't' }] as unknown as Batch
  const plan = planBatch(select, { schemas: ['s'], maxRows: 1, maxConditions: 1 })
  const outcomeOf = (code: string, at: Place, times: AttemptTimes): Failed =>
    ({ kind: 'failed', error: { code, message: 'm' }, at, times })
  const canceled = outcomeOf('57014', 'session', { begun: 1, operations: [] })
  t.match(await toFailure(canceled, plan, options), {
    code: 'query_canceled',
    status: 504,
    details: { op: null }
  })
  const late = failure('deadline_exceeded')
  const set = { begun: 1, sessionSet: 3, operations: [] }
  const outcome = { kind: 'failed', error: late, at: 'commit', times: set } as const
  t.equal(await toFailure(outcome, plan, options), late)
  const operation = { id: 'a', op: 'select', table: 's.t', outcome: 'error' }
  t.same(
    createReport(plan, outcomeOf('54000', 0, { operations: [] }), { role: 'r', failed: 0, now: 5 }),
    {
      role: undefined,
      outcome: 'error',
      since: 5,
      ms: 0,
      sessionMs: undefined,
      operations: [{ ...operation, since: 5, ms: 0 }]
    }
  )
  const committed = { kind: 'committed', rows: [], times: { ...set, operations: [7] } } as const
  t.same(createReport(plan, committed, { role: 'r', failed: undefined, now: 9 }), {
    role: 'r',
    outcome: 'ok',
    since: 1,
    ms: 8,
    sessionMs: 2,
    operations: [{ ...operation, outcome: 'ok', since: 3, ms: 4 }]
  })
  t.same(
    createReport(plan, outcomeOf('42P01', 0, set), { role: 'r', failed: 0, now: 9 }).operations,
    [{ ...operation, table: undefined, since: 3, ms: 6 }]
  )
})
