/**
 * Tests that databases which may not enforce policies are refused. A row in pg_extension simulates
 * another version of Citus, because the service recognizes Citus by this row.
 */
import t from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { closeConnection } from '../../src/postgres/connection.ts'
import { openConnection } from '../../src/postgres/open-connection.ts'
import * as op from '../support/operations.ts'
import { useDatabase } from '../support/database/database.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { answering, ask, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const citus = `
  create table t (n int);
  grant all on t to oneflight_user;
  insert into pg_catalog.pg_extension
    (oid, extname, extowner, extnamespace, extrelocatable, extversion)
  select 1, 'citus', extowner, extnamespace, false, '12.1-1'
  from pg_catalog.pg_extension where extname = 'plpgsql'`
const removeCitus = "delete from pg_catalog.pg_extension where extname = 'citus'"

const batch = [op.select('s', 't')]
const reason = /^Citus 12\.1-1 is not supported.*row level security fails open/

t.test('an untested version of Citus is refused, and the log states the reason', async t => {
  const { post, database, adminUrl, url, log } = await useService(t, {
    schema: citus, replicaUrl: url => url, env: { POOL_SIZE: '1' }
  })
  const target = parseDatabaseUrl(database.loginUrl)
  for (const prefer of ['', 'access=read-only']) {
    t.match(await post(batch, { headers: { prefer } }), {
      status: 503, body: { error: { code: 'database_unavailable', committed: false } }
    })
  }
  t.equal((await ask(`${adminUrl}/ready`)).status, 503)
  t.equal((await ask(`${url}/health`)).status, 503)
  const reasons = log.filter(({ msg }) => msg === 'could not connect to the database')
  t.match(reasons, [{ reason }, { reason }])
  t.same(reasons.map(({ server }) => server).sort(), ['replica', undefined], 'once for each server')

  await t.rejects(makeKeyTable(database), { message: reason }, 'the migration is refused, too')
  for (const roleSettings of [true, false]) {
    await t.rejects(openConnection(target, { roleSettings }), { message: reason })
  }
  await until(async () =>
    (await database.sql`
    select from pg_stat_activity where datname = ${database.name} and usename = 'oneflight_login'
  `).length === 0
  )

  await database.sql.unsafe(removeCitus)
  t.equal((await post(batch)).status, 200)
  await answering(`${adminUrl}/ready`)
  await closeConnection(await openConnection(target))
})

t.test('DATABASE_ENGINE overrides the refusal, and the log states its reason once', async t => {
  const { post, log } = await useService(t, {
    schema: citus, env: { DATABASE_ENGINE: 'postgresql' }
  })
  for (let i = 0; i < 2; i++) t.equal((await post(batch)).status, 200)
  t.match(log.filter(({ reason }) => reason !== undefined), [{
    level: 40,
    engine: 'postgresql',
    reason: /extension citus: row level security fails open/,
    msg: /^DATABASE_ENGINE overrides the refusal /
  }])
})

t.test('a product that is not PostgreSQL is refused by its version', async t => {
  const { sql, name, loginUrl } = await useDatabase(t, {
    schema: `
      create schema product;
      create function product.version() returns text language sql
        return 'CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu)';
      grant usage on schema product to public;`
  })
  // The service does not name the schema of version(), because other products may lack it.
  await sql.unsafe(`alter database "${name}" set search_path = product, pg_catalog`)
  await t.rejects(openConnection(parseDatabaseUrl(loginUrl)), {
    message: /^CockroachDB is not supported: advisory locks/
  })
})
