/**
 * Retries: temporary failures and failures of one connection are retried a limited number of times,
 * but never after a COMMIT that may have succeeded.
 */
import t, { type Test } from 'tap'
import { failure } from '../../src/errors/catalogue.ts'
import { executeBatch } from '../../src/transaction/execute.ts'
import { createReport } from '../../src/transaction/report.ts'
import { isConflict } from '../../src/transaction/retry-policy.ts'
import { toFailure } from '../../src/transaction/to-failure.ts'
import { useDatabase } from '../support/database/database.ts'
import { alterSession, plainBatch, useEngine } from '../support/database/engine.ts'
import { holdRow } from '../support/database/hold.ts'
import { useProxy } from '../support/network/proxy.ts'
import { ask, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `
  create table hot (id int primary key, n int not null);
  insert into hot values (1, 0), (2, 0);
  create sequence tries;
  create table moody (code text, times int);
  create function moody() returns trigger language plpgsql as $$
    begin
      if nextval('tries') <= new.times then raise exception using errcode = new.code,
        message = 'not now'; end if;
      return new;
    end $$;
  create trigger moody before insert on moody for each row execute function moody();
  create table parent (id int primary key);
  create table child (id int primary key, parent int references parent deferrable initially
    deferred);
  grant all on all tables in schema public to oneflight_user;
  grant all on all sequences in schema public to oneflight_user;`

const move = (from: number, to: number): object[] =>
  [from, to].map((id, i) => ({
    id: `o${i}`,
    op: 'update',
    table: 'hot',
    set: { n: id },
    where: { id: { eq: id } }
  }))

t.test('deadlocks are retried until every batch succeeds', async t => {
  const service = await useService(t, { schema, env: { POOL_SIZE: '6' } })
  await service.database.sql.unsafe(`
    alter database ${service.database.name} set deadlock_timeout = '10ms';
    create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.03);
      return null; end $$;
    create trigger slow after update on hot for each row execute function slow()`)
  const rows = await holdRow(service.database, 'select from hot')
  const posts = Array.from(
    { length: 6 },
    (_, i) => service.post(i % 2 === 0 ? move(1, 2) : move(2, 1))
  )
  await rows.awaited(6)
  await rows.free()
  const answers = await Promise.all(posts)
  t.same(answers.map(({ status }) => status), Array(6).fill(200))
  // Backends report their statistics when they exit.
  await service.stop()
  await until(async () =>
    (await service.database
      .sql`select from pg_stat_database where datname = ${service.database.name} and deadlocks > 0`)
      .length > 0
  )
})

t.test('a deadlock that an extension reports is retried', async t => {
  const database = await useDatabase(t, { schema })
  const proxy = await useProxy(t, database.loginUrl)
  const databaseUrl = proxy.through(database.loginUrl)
  const { post, adminUrl } = await useService(t, { databaseUrl: () => databaseUrl })
  const row = await holdRow(database, 'select from hot where id = 1')
  // As in Citus: deadlock detection cancels a transaction, and a log hook changes the error code.
  proxy.deliver = ({ held }) => {
    const at = held.indexOf('C57014\0')
    if (at !== -1) held.write('C40P01', at, 'latin1')
    return held.length
  }
  const answer = post(move(1, 2))
  await row.awaited()
  await database.sql`select pg_cancel_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  const retried = 'service_txn_retry_count{reason="deadlock_detected"} 1\n'
  const isRetried = async (): Promise<boolean> =>
    (await ask(`${adminUrl}/metrics`)).text.includes(retried)
  await Promise.race([answer, until(isRetried)])
  await row.free()
  t.equal((await answer).status, 200)
  t.ok(await isRetried())
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
    t.equal(isConflict({ error }), retried, `${code} ${routine}`)
  }
})

t.test('serialization failures are retried, with at most 15 attempts', async t => {
  const { database: { sql }, post } = await useService(t, { schema })
  const insert = (code: string, times: number): object[] =>
    [{ id: 'a', op: 'insert', table: 'moody', values: [{ code, times }] }]
  t.equal((await post(insert('40001', 3))).status, 200)
  t.same(await sql`select last_value::int from tries`, [{ last_value: 4 }])
  t.same(await sql`select count(*)::int from moody`, [{ count: 1 }])

  await sql`select setval('tries', 1, false)`
  t.match(await post(insert('40P01', 1000)), {
    status: 409,
    body: {
      error: {
        type: 'execution_error',
        code: 'deadlock_detected',
        retryable: true,
        committed: false,
        op: 'a',
        index: 0
      }
    }
  })
  t.same(await sql`select last_value::int from tries`, [{ last_value: 15 }])

  for (const code of ['0A000', '26000', '23505']) {
    await sql`select setval('tries', 1, false)`
    t.not((await post(insert(code, 1000))).status, 200)
    t.same(
      await sql`select last_value::int from tries`,
      [{ last_value: 1 }],
      `${code} raised by a function is not retried`
    )
  }
})

t.test('a failure is not retried if the deadline would pass during the pause', async t => {
  const database = await useDatabase(t, { schema })
  const { run } = useEngine(t, database.loginUrl)
  // Makes the pause before the retry longer than the time left.
  const { random } = Math
  t.teardown(() => {
    Math.random = random
  })
  Math.random = () => 1e6
  t.match(
    await run([
      "with r as (insert into moody values ('40001', 1000) returning code) select code from r"
    ], 60_000),
    { kind: 'failed', error: { code: '40001' } }
  )
  const [tries] = await database.sql`select last_value::int as n from tries`
  t.equal(tries?.['n'], 1)
})

t.test('DDL under load causes no failed batch', async t => {
  const { database: { sql }, post } = await useService(t, { schema })
  const batch = [
    { id: 'w', op: 'insert', table: 'parent', values: [{ id: 1 }] },
    { id: 's', op: 'select', table: 'hot', where: { id: { eq: 1 } } },
    { id: 'd', op: 'delete', table: 'parent', all: true }
  ]
  const end = new AbortController()
  const statuses: number[] = []
  const clients = Array.from({ length: 4 }, async () => {
    while (!end.signal.aborted) {
      statuses.push(
        (await post(batch.map(operation =>
          operation.op === 'insert'
            ? { ...operation, values: [{ id: statuses.length + Math.random() * 1e9 | 0 }] }
            : operation
        ))).status
      )
    }
  })
  for (let i = 0; i < 8; i++) {
    const before = statuses.length
    await until(() => statuses.length > before + 12)
    await sql.unsafe(`alter table hot add column c${i} int default ${i}`)
  }
  end.abort()
  await Promise.all(clients)
  t.same(statuses.filter(status => status !== 200), [])
  t.match((await post(batch)).body.data.s, [{ id: 1, c7: 7 }])
})

t.test('a connection whose prepared statements were dropped is replaced', async t => {
  const database = await useDatabase(t, { schema })
  const { run } = useEngine(t, database.loginUrl)
  await database.sql.unsafe(
    'create function forget() returns text language plpgsql as $$ begin deallocate all; ' +
      "return 'x'; end $$"
  )
  const texts = ["select 'one'", "select 'two'"]
  for (let i = 0; i < 3; i++) await run(texts)
  t.equal((await run(['select forget()'])).kind, 'committed')
  t.equal((await run(texts)).kind, 'committed')
})

t.test('a failure that repeats on every connection is returned', async t => {
  const database = await useDatabase(t, { schema })
  const { pool } = useEngine(t, database.loginUrl, { size: 2 })
  const slow = alterSession(
    plainBatch(["select 'x'"]),
    'pg_catalog.pg_current_xact_id()::pg_catalog.text',
    "(select 'x' from pg_sleep(60))"
  )
  await database.sql.unsafe(
    `alter role oneflight_login in database ${database.name} set statement_timeout = 2000`
  )
  t.teardown(() =>
    database.sql.unsafe(
      `alter role oneflight_login in database ${database.name} reset statement_timeout`
    )
  )
  t.match(await executeBatch(pool, slow, { deadline: performance.now() + 60_000 }), {
    kind: 'failed',
    at: 'session',
    error: { code: '57014' }
  })
})

t.test('a statement can have 65533 parameters', async t => {
  const database = await useDatabase(t, { schema })
  const { pool, run } = useEngine(t, database.loginUrl)
  const many: string[] = Array(65_533).fill('1')
  t.match(
    await executeBatch(pool, {
      ...plainBatch([]),
      count: 1,
      operations: () => [{
        text: `select count(*)::text from unnest(array[${
          many.map((_, i) => `$${i + 1}`).join(',')
        }])`,
        parameters: many,
        prepare: false
      }]
    }, { deadline: performance.now() + 5000 }),
    { kind: 'committed', rows: [Buffer.from('65533')] }
  )
  t.equal((await run(["select 'next'"])).kind, 'committed')
})

t.test('timeouts and deferred constraints report code and operation', async t => {
  const service = await useService(t, {
    schema,
    env: { LOCK_TIMEOUT_MS: '100', STATEMENT_TIMEOUT_MS: '2000' }
  })
  const { sql } = service.database
  await sql.unsafe(
    'create view nap as select pg_sleep(60)::text; grant select on nap to oneflight_user'
  )
  const connection = await sql.reserve()
  await connection.unsafe('begin; select from hot where id = 1 for update')
  const first = { id: 'p', op: 'insert', table: 'parent', values: [{ id: 1 }] }
  const rows: ReadonlyArray<readonly [string, object, object]> = [
    ['lock timeout', move(1, 2)[0] as object, {
      status: 409,
      body: {
        error: {
          type: 'execution_error',
          code: 'lock_not_available',
          sqlstate: '55P03',
          retryable: true,
          op: 'o0',
          index: 1
        }
      }
    }],
    ['statement timeout', { id: 'n', op: 'select', table: 'nap' }, {
      status: 504,
      body: {
        error: {
          type: 'execution_error',
          code: 'query_canceled',
          sqlstate: '57014',
          op: 'n',
          index: 1
        }
      }
    }],
    ['deferred constraint', {
      id: 'c',
      op: 'insert',
      table: 'child',
      values: [{ id: 1, parent: 7 }]
    }, {
      status: 409,
      body: {
        error: {
          code: 'foreign_key_violation',
          op: null,
          index: null,
          constraint: 'child_parent_fkey'
        }
      }
    }]
  ]
  for (const [name, operation, expected] of rows) {
    const answer = await service.post([first, operation])
    t.match(answer, expected, name)
    t.equal(answer.body.error.committed, false)
    t.same(await sql`select * from parent`, [], 'nothing was committed')
  }
  await connection.unsafe('rollback')
  connection.release()
  t.equal((await service.post(move(1, 2))).status, 200)
})

t.test('more rows than MAX_ROWS fail the operation', async t => {
  const { database: { sql }, post } = await useService(t, { schema, env: { MAX_ROWS: '1' } })
  const answer = await post([move(1, 2)[0], {
    id: 'all',
    op: 'update',
    table: 'hot',
    set: { n: 9 },
    all: true
  }])
  t.match(answer, {
    status: 422,
    body: {
      error: { type: 'execution_error', code: 'rows_limit', op: 'all', index: 1, committed: false }
    }
  })
  t.same(await sql`select n from hot order by id`, [{ n: 0 }, { n: 0 }])
})

t.test('failures are mapped to errors, operations and durations', async (t: Test) => {
  const limits = { maxRows: 1, maxBytes: 100_000 }
  const options = { anonymous: false, verbose: false, ...limits, role: 'r', schemas: ['public'] }
  const plan = {
    operations: [{
      kind: 'select',
      index: 0,
      id: 'a',
      table: { schema: 's', name: 't' },
      where: [],
      output: undefined,
      expect: undefined,
      when: [],
      groupBy: [],
      order: [],
      after: undefined,
      limit: undefined,
      distinct: false,
      having: [],
      offset: undefined,
      lock: undefined
    }],
    tables: [{ schema: 's', name: 't' }],
    referenceUses: new Map(),
    requirements: new Map(),
    counted: new Set<number>(),
    usedRows: { inserted: new Set<number>(), documents: [] },
    work: [0]
  } as const
  t.match(
    toFailure(
      {
        kind: 'failed',
        error: { code: '57014', message: 'm' },
        at: 'session',
        times: { begun: 1, operations: [] }
      },
      plan,
      options
    ),
    {
      failure: { code: 'query_canceled', status: 504, details: { op: null } },
      operation: undefined
    }
  )
  const late = failure('deadline_exceeded')
  const times = { begun: 1, sessionSet: 2, operations: [] }
  for (const [at, operation] of [[0, 0], ['commit', undefined]] as const) {
    t.same(toFailure({ kind: 'failed', error: late, at, times }, plan, options), {
      failure: late,
      operation
    })
  }
  t.same(
    createReport(
      plan,
      {
        kind: 'failed',
        error: { code: '54000', message: '' },
        at: 0,
        times: { operations: [] }
      },
      { role: 'r', failed: 0, now: 5 }
    ),
    {
      role: undefined,
      outcome: 'error',
      since: 5,
      ms: 0,
      sessionMs: undefined,
      operations: [{ id: 'a', op: 'select', table: 's.t', outcome: 'error', since: 5, ms: 0 }]
    }
  )
  t.same(
    createReport(plan, {
      kind: 'committed',
      rows: [],
      times: { begun: 1, sessionSet: 3, operations: [7] }
    }, { role: 'r', failed: undefined, now: 9 }),
    {
      role: 'r',
      outcome: 'ok',
      since: 1,
      ms: 8,
      sessionMs: 2,
      operations: [{ id: 'a', op: 'select', table: 's.t', outcome: 'ok', since: 3, ms: 4 }]
    }
  )
  t.same(
    createReport(
      plan,
      {
        kind: 'failed',
        error: { code: '42P01', message: '' },
        at: 0,
        times: { begun: 1, sessionSet: 3, operations: [] }
      },
      { role: 'r', failed: 0, now: 9 }
    ).operations,
    [{ id: 'a', op: 'select', table: undefined, outcome: 'error', since: 3, ms: 6 }]
  )
})
