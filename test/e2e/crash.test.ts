/**
 * Tests crashes of PostgreSQL under load: SIGKILL of a backend, after which PostgreSQL closes every
 * connection and recovers, and a restart. Uses its own server, because a shared one must not crash.
 */
import tap from 'tap'
import { skip, useRestartableServer } from '../support/database/restartable-server.ts'
import { audit, ledgerSchema, pair, servesAgain, startLoad, type Load } from '../support/ledger.ts'
import { isAlive } from '../support/process/processes.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'

const allowed = ['ok', 'database_unavailable', 'commit_unknown', 'overloaded']

tap.test('responses are true when the server crashes or restarts under load', { skip }, async t => {
  // Stopped at the end of the whole file, because databases are dropped there. Teardowns run in
  // reverse order.
  const server = await useRestartableServer(tap)
  process.env['TEST_DATABASE_URL'] = server.current().url

  const isUp = async ({ database }: ServiceUnderTest): Promise<boolean> =>
    await database.sql`select`.then(() => true, () => false)

  const finish = async (
    t: Parameters<typeof audit>[0],
    service: ServiceUnderTest,
    load: Load
  ): Promise<void> => {
    await load.stop()
    const codes = await audit(t, service.database.sql, load)
    t.comment(JSON.stringify(codes))
    t.same(Object.keys(codes).filter(code => !allowed.includes(code)), [])
    t.equal((await service.post(pair(1_000_000))).status, 200)
  }

  await t.test('SIGKILL of a backend', async t => {
    const service = await useService(t, { schema: ledgerSchema })
    const load = startLoad(service, 8)
    for (let i = 0; i < 2; i++) {
      const before = load.answers.size
      await until(() => load.answers.size > before + 20)
      // Sessions that run batches; other sessions come and go. After the kill all of them end.
      const pids = (await service.database
        .sql`select pid from pg_stat_activity where datname = ${service.database.name}
          and usename = 'oneflight_login' and query !~ 'idempotency_keys'`)
        .map(({ pid }) => pid as number)
      process.kill(pids[0] as number, 'SIGKILL')
      await until(() => !pids.some(isAlive))
      await until(() => isUp(service))
      await servesAgain(load)
    }
    await finish(t, service, load)
  })

  await t.test('restart of the server', async t => {
    // With a short queue timeout, batches that wait for a connection would fail with
    // `deadline_exceeded`.
    const service = await useService(t, {
      schema: ledgerSchema,
      env: { QUEUE_TIMEOUT_MS: '60000' }
    })
    const load = startLoad(service, 8)
    await until(() => load.answers.size > 20)
    await server.stop()
    const refused = await service.post(pair(2_000_000))
    t.match(refused.body, { error: { code: 'database_unavailable', committed: false } })
    t.equal(refused.headers.get('retry-after'), '1')
    await server.start()
    await servesAgain(load)
    await finish(t, service, load)
  })
})
