/**
 * Tests the shipped configuration of PgBouncer with the service as compose.yaml and the overlay
 * configure it.
 */
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { countSessions } from '../support/database/hold.ts'
import { program, startPooler } from '../support/database/pgbouncer.ts'
import { needs } from '../support/process/programs.ts'
import { useService } from '../support/service.ts'

const read = (name: string): Promise<string> =>
  readFile(new URL(`../../deploy/pgbouncer/${name}`, import.meta.url), 'utf8')

t.test(
  ...needs('batches and keys work through PgBouncer with the shipped configuration', {
    pgbouncer: program
  }),
  async t => {
    const [ini, databases, users] = [
      await read('pgbouncer.ini'),
      await read('compose/databases.ini'),
      await read('compose/userlist.txt')
    ]
    const url = process.env['TEST_DATABASE_URL'] as string
    const pooler = await startPooler(t, url, ({ directory, port, server }) => ({
      'pgbouncer.ini': ini.replaceAll('/etc/pgbouncer', directory)
        .replace('listen_addr = *', 'listen_addr = 127.0.0.1')
        .replace('6432', String(port)),
      'databases.ini': databases.replace(/^shop = .*$/m, `* = ${server}`),
      'userlist.txt': users.replace('"oneflight" "oneflight"', '"oneflight_login" "login"')
    }))
    const service = await useService(t, {
      schema: 'create table notes (id int primary key)',
      keys: true,
      env: { PREPARED_STATEMENTS: 'off', POOL_SIZE: '10', QUEUE_SIZE: '100' },
      databaseUrl: pooler.through
    })
    const note = (id: number): object[] => [
      { id: 'n', op: 'insert', table: 'notes', values: [{ id }] }
    ]
    const answers = await Promise.all(
      Array.from(
        { length: 60 },
        (_, id) =>
          service.post(note(id % 30), { headers: { 'idempotency-key': `note-${id % 30}` } })
      )
    )
    t.same(
      answers.filter(({ status, body }) =>
        status !== 200 && body.error.code !== 'idempotency_key_in_progress'
      ).map(({ text }) => text),
      []
    )
    t.same(await service.database.sql`select count(*)::int as n from notes`, [{ n: 30 }])
    t.ok(await countSessions(service.database) > 0, 'there are connections to the server')

    t.notMatch(pooler.output(), /ERROR|FATAL|WARNING/i)
    // The stop signal of compose.yaml and the overlay. PgBouncer exits after its transactions, even
    // with connected clients.
    t.equal(await pooler.end('SIGINT'), 0)
  }
)
