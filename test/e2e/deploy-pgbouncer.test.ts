/**
 * Tests the shipped configuration of PgBouncer with the service as compose.yaml and the overlay
 * configure it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { as, give, scratchDirectory, serverAccount } from '../../scripts/dev/account.ts'
import { accepts, freePort } from '../../scripts/dev/port.ts'
import { program } from '../support/database/pgbouncer.ts'
import { needs } from '../support/process/programs.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const shipped = new URL('../../deploy/pgbouncer/', import.meta.url)

t.test(
  ...needs('batches and keys work through PgBouncer with the shipped configuration', {
    pgbouncer: program
  }),
  async t => {
    const { hostname, port: serverPort } = new URL(process.env['TEST_DATABASE_URL'] as string)
    const account = serverAccount()
    const directory = await mkdtemp(join(await scratchDirectory(account), 'oneflight-pgbouncer-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    const port = await freePort()
    const file = (name: string): string => join(directory, name)
    const read = (name: string): Promise<string> => readFile(new URL(name, shipped), 'utf8')
    const localize = (text: string): string =>
      text.replaceAll('/etc/pgbouncer', directory).replace(
        'listen_addr = *',
        'listen_addr = 127.0.0.1'
      ).replace('6432', String(port))
    await writeFile(file('pgbouncer.ini'), localize(await read('pgbouncer.ini')))
    await writeFile(
      file('databases.ini'),
      (await read('compose/databases.ini')).replace(
        /^shop = .*$/m,
        `* = host=${hostname} port=${serverPort}`
      )
    )
    await writeFile(
      file('userlist.txt'),
      (await read('compose/userlist.txt')).replace(
        '"oneflight" "oneflight"',
        '"oneflight_login" "login"'
      )
    )
    await chmod(directory, 0o755)
    for (const path of ['.', 'pgbouncer.ini', 'databases.ini', 'userlist.txt']) {
      await give(file(path), account)
    }

    const child = spawn(program as string, [file('pgbouncer.ini')], {
      ...as(account),
      stdio: ['ignore', 'ignore', 'pipe']
    })
    let printed = ''
    child.stderr.on('data', (bytes: Buffer) => {
      printed += bytes.toString()
    })
    const ended = once(child, 'exit')
    t.teardown(() => child.kill('SIGKILL'))
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`PgBouncer ended: ${printed}`)
      return await accepts(port)
    })
    const through = (url: string): string =>
      Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href
    const service = await useService(t, {
      schema: 'create table notes (id int primary key); grant all on notes to oneflight_user;',
      keys: true,
      env: { PREPARED_STATEMENTS: 'off', POOL_SIZE: '10', QUEUE_SIZE: '100' },
      databaseUrl: through
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
    const sessions = await service.database
      .sql`select from pg_stat_activity where datname = ${service.database.name}
        and usename = 'oneflight_login'`
    t.ok(sessions.length > 0, `${sessions.length} connections to the server`)

    t.notMatch(printed, /ERROR|FATAL|WARNING/i)
    // The stop signal of compose.yaml and the overlay. PgBouncer exits after its transactions, even
    // with connected clients.
    child.kill('SIGINT')
    t.same(await ended, [0, null])
  }
)
