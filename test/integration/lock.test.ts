/**
 * `lock` of a select: which locks conflict with it, what it waits for, and which rows it locks. A
 * batch is held at a chosen point by a row that the test has locked.
 */
import t, { type Test } from 'tap'
import { untilBlocked } from '../support/database/hold.ts'
import * as op from '../support/operations.ts'
import { useService, type Answer } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'

const schema = `
  create table jobs (id int primary key, prio int, state text not null default 'new',
    payload jsonb);
  insert into jobs select n, n % 3, 'new', jsonb_build_object('n', n) from generate_series(1, 9) n;
  create table gate (id int primary key);
  insert into gate values (1), (2);
  create view open_jobs as select id, state from jobs where state = 'new';
  create view counted as select state, count(*) from jobs group by state;
  create table seen (id int);
  revoke update on seen from oneflight_user;
`
/** An operation that waits until the test opens the gate. */
const gate = op.select('gate', 'gate', { where: { id: { eq: 1 } }, lock: 'update' })

interface Held {
  /** Runs SQL in the transaction that holds the lock. */
  run(text: string): Promise<unknown>
  open(): Promise<void>
}

const service = await useService(t, { schema, env: { POOL_SIZE: '6', MAX_ROWS: '5' } })
const { sql } = service.database

/** Takes a lock in a separate transaction. */
async function hold (t: Test, text = 'select from gate where id = 1 for update'): Promise<Held> {
  const connection = await sql.reserve()
  let closed = false
  const open = async (): Promise<void> => {
    if (closed) return
    closed = true
    await connection.unsafe('rollback')
    connection.release()
  }
  t.teardown(open)
  await connection.unsafe(`begin; ${text}`)
  return { run: text => connection.unsafe(text), open }
}

/** Ids of the rows that a session can lock with `mode` at once. */
async function free (mode = 'update'): Promise<number[]> {
  const rows = await sql.unsafe(`select id from jobs order by id for ${mode} skip locked`)
  return rows.map(({ id }) => id as number)
}

/** Runs a select, and calls `check` while the batch holds its locks. */
async function whileLocked (
  t: Test,
  select: object,
  check: () => Promise<void>,
  more: readonly object[] = []
): Promise<Answer> {
  const held = await hold(t)
  const answer = service.post([op.select('s', 'jobs', select), ...more, gate])
  await untilBlocked(service.database)
  await check()
  await held.open()
  return await answer
}

t.test('each mode conflicts with the same modes as in PostgreSQL', async t => {
  const sqlModes = {
    update: 'update', no_key_update: 'no key update', share: 'share', key_share: 'key share'
  }
  const rows: ReadonlyArray<readonly [lock: unknown, free: ReadonlyArray<keyof typeof sqlModes>]> =
    [
      ['update', []],
      ['no_key_update', ['key_share']],
      ['share', ['share', 'key_share']],
      ['key_share', ['no_key_update', 'share', 'key_share']],
      [{ mode: 'share' }, ['share', 'key_share']],
      [{ mode: 'key_share', wait: 'nowait' }, ['no_key_update', 'share', 'key_share']]
    ]
  for (const [lock, allowed] of rows) {
    const { body } = await whileLocked(t, { where: { id: { eq: 2 } }, lock }, async () => {
      const found = []
      for (const [name, mode] of Object.entries(sqlModes)) {
        if ((await free(mode)).includes(2)) found.push(name)
      }
      t.same(found, allowed, JSON.stringify(lock))
      t.same((await free()).length, 8, 'no other row is locked')
    })
    t.match(body.data, { s: [{ id: 2, prio: 2, state: 'new', payload: { n: 2 } }] })
  }
  t.equal((await free()).length, 9, 'the end of the batch releases the locks')
})

t.test('only the returned rows are locked', async t => {
  const rows: ReadonlyArray<readonly [select: Record<string, unknown>, locked: readonly number[]]> =
    [
      [{ order: [{ id: 'asc' }], limit: 2 }, [1, 2]],
      [{ order: [{ prio: 'desc' }, { id: 'desc' }], limit: 3 }, [8, 5, 2]],
      [{ columns: [{ column: 'id', as: 'n' }], order: [{ n: 'desc' }], limit: 2 }, [9, 8]],
      [{ columns: ['state', 'payload->n'], order: [{ 'payload->n': 'asc' }], limit: 1 }, [1]],
      [{ limit: 0 }, []]
    ]
  for (const [select, locked] of rows) {
    const { body, text } = await whileLocked(t, { ...select, lock: 'update' }, async () => {
      const rest = await free()
      t.same(
        [1, 2, 3, 4, 5, 6, 7, 8, 9].filter(id => !rest.includes(id)),
        locked.toSorted((a, b) => a - b), JSON.stringify(select)
      )
    })
    t.equal(body.data?.s.length, locked.length, encodeURI(text))
  }
})

t.test('a lock waits for the row as it is then, and evaluates its condition again', async t => {
  const rows: ReadonlyArray<readonly [select: object, found: readonly object[]]> = [
    [{ where: { id: { eq: 2 } }, columns: ['state'] }, [{ state: 'changed' }]],
    [{ where: { id: { eq: 2 }, state: { eq: 'new' } } }, []]
  ]
  for (const [select, found] of rows) {
    await sql`update jobs set state = 'new'`
    const held = await hold(t, "update jobs set state = 'changed' where id = 2")
    const answer = service.post([op.select('s', 'jobs', { ...select, lock: 'update' })])
    await untilBlocked(service.database)
    await held.run('commit')
    await held.open()
    t.same((await answer).body.data.s, found)
  }
  await sql`update jobs set state = 'new'`
})

t.test('nowait fails immediately with a retryable error', async t => {
  const held = await hold(t, 'select from jobs where id = 2 for share')
  const select = (lock: unknown): unknown => [
    op.insert('first', 'gate', [{ id: 52 }]),
    op.select('s', 'jobs', { where: { id: { eq: 2 } }, lock })
  ]
  t.match(await service.post(select({ wait: 'nowait' })), failed(409, 'lock_not_available', {
    type: 'execution_error', sqlstate: '55P03', retryable: true, committed: false, op: 's', index: 1
  }))
  t.equal((await sql`select from gate where id > 2`).length, 0)
  t.equal((await service.post(select({ mode: 'share', wait: 'nowait' }))).status, 200)
  await held.open()
  await sql`delete from gate where id > 2`
})

t.test('skip_locked applies before limit, and expect counts the remaining rows', async t => {
  const held = await hold(t, 'select from jobs where id in (1, 2, 4) for no key update')
  const select = op.select('s', 'jobs', {
    columns: ['id'], order: [{ id: 'asc' }], limit: 3, lock: { mode: 'update', wait: 'skip_locked' }
  })
  const found = async (more: object): Promise<unknown> =>
    (await service.post([{ ...select, ...more }])).body.data.s
  t.same(await found({}), [{ id: 3 }, { id: 5 }, { id: 6 }])
  t.same(await found({ offset: 5 }), [{ id: 9 }])
  const few = await service.post([{ ...select, where: { id: { lte: 4 } }, expect: { min: 2 } }])
  t.match(few, failed(412, 'expectation_failed', { op: 's' }))
  await held.open()
})

t.test('a lock through a view locks the rows of its table', async t => {
  const select = { table: 'open_jobs', where: { id: { eq: 3 } }, lock: 'update' }
  const { body } = await whileLocked(t, select, async () => {
    t.notOk((await free()).includes(3))
  })
  t.same(body.data.s, [{ id: 3, state: 'new' }])
})

t.test('queries that PostgreSQL cannot lock, and missing privileges, are rejected', async t => {
  const rows: ReadonlyArray<readonly [select: object, status: number, code: string]> = [
    [{ table: 'jobs', columns: [{ fn: 'count' }] }, 400, 'feature_not_supported'],
    [{ table: 'jobs', columns: ['state'], group_by: ['state'] }, 400, 'feature_not_supported'],
    [{ table: 'counted' }, 400, 'feature_not_supported'],
    [{ table: 'seen' }, 403, 'insufficient_privilege']
  ]
  for (const [select, status, code] of rows) {
    const answer = await service.post([{ id: 's', op: 'select', ...select, lock: 'update' }])
    const name = encodeURI(`${JSON.stringify(select)} ${answer.text}`)
    t.match(answer, failed(status, code, { op: 's', committed: false }), name)
  }
})
