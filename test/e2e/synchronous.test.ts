/**
 * Tests that a batch is answered 200 only when the synchronous standbys have it: also if the wait
 * of its COMMIT was cancelled, if its session was terminated, and for a stored response. Its own
 * server waits for a standby that does not exist.
 */
import tap from 'tap'
import { changeSetting } from '../support/database/execute.ts'
import { skip, useRestartableServer } from '../support/database/restartable-server.ts'
import { useService, type Answer } from '../support/service.ts'
import { until } from '../support/until.ts'

tap.test('a commit that no standby has is not answered 200', { skip }, async t => {
  // Stopped at the end of the whole file, because databases are dropped there.
  const { url } = (await useRestartableServer(tap)).current()
  process.env['TEST_DATABASE_URL'] = url
  const service = await useService(t, {
    schema: 'create table moves (id int primary key)',
    keys: true,
    env: { REQUEST_TIMEOUT_MS: '4000' }
  })
  const { database: { sql } } = service
  const requireStandby = (names: string): Promise<void> =>
    changeSetting({ url }, 'synchronous_standby_names', names)
  const move = (id: number, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
    service.post([{ id: 'm', op: 'insert', table: 'moves', values: [{ id }] }], { headers })
  t.equal((await move(0)).status, 200)
  await requireStandby('nobody')
  let next = 1

  for (const end of ['cancel', 'terminate']) {
    await t.test(`pg_${end}_backend while COMMIT waits, with and without a key`, async t => {
      for (const headers of [{}, { 'idempotency-key': end }]) {
        const answer = move(next++, headers)
        await until(async () => (await sql.unsafe(`select pg_${end}_backend(pid)
          from pg_stat_activity where wait_event = 'SyncRep' and query ~* '^commit'`)).length > 0)
        t.match(await answer, { status: 500, body: { error: { code: 'commit_unknown' } } })
      }
    })
  }

  await t.test('a stored response is sent when the standbys have it', async t => {
    const repeated = await move(4, { 'idempotency-key': 'terminate' })
    t.match(repeated, { status: 409, body: { error: { code: 'idempotency_key_in_progress' } } })
    await requireStandby('')
    const replayed = await move(4, { 'idempotency-key': 'terminate' })
    t.equal(replayed.status, 200)
    t.equal(replayed.headers.get('idempotent-replayed'), 'true')
    t.same(await sql`select count(*)::int as n from moves where id = 4`, [{ n: 1 }])
  })
})
