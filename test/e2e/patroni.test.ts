/**
 * Tests the shipped configuration of Patroni: its leader is killed under load, and the service
 * knows when a failover can lose commits. test/experiments/patroni/patroni.ts runs all experiments.
 */
import t from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { closeConnection } from '../../src/postgres/connection.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import { startCluster } from '../experiments/patroni/cluster.ts'
import { runExperiment } from '../experiments/patroni/experiment.ts'
import { programs } from '../experiments/patroni/programs.ts'
import { seeded } from '../experiments/scenario.ts'
import { needs } from '../support/process/programs.ts'

// About a minute on an idle machine: 20 s until another server may take over.
t.setTimeout(400_000)

t.test(...needs('no batch is lost when the leader is killed', programs), async t => {
  const cluster = await startCluster(t)
  const result = await runExperiment(
    cluster,
    { route: 'hosts', synchronous: true },
    { database: 'shop', random: seeded(1) }
  )
  t.same(result.violations, [])
  t.equal(result.lost, 0)
  t.ok(result.keyed > 0 && result.unkeyed > 0)

  await t.test('asynchronous replication is noticed on a single host, too', async t => {
    for (const synchronous of [true, false]) {
      await cluster.setSynchronous(synchronous)
      const target = parseDatabaseUrl(await cluster.superuserUrl('shop'))
      const connection = await openConnection(target)
      t.equal(connection.losesCommits, !synchronous)
      await closeConnection(connection)
    }
  })
})
