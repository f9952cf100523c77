/**
 * Tests the embedded PostgreSQL: data directories, cleanup after kills, and errors.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { availableMajors, startPostgres, type Postgres } from '../../scripts/dev/postgres.ts'
import { execute } from '../support/database/execute.ts'
import { useListener } from '../support/network/listen.ts'
import { isAlive } from '../support/process/processes.ts'
import { until } from '../support/until.ts'

const major = Number(process.env['PG_MAJOR']) || availableMajors().at(-1) || 18

/** Creates a directory that the user of the server can access, unlike one in the project. */
async function createDirectory (t: Test): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'oneflight-test-'))
  await chmod(directory, 0o755)
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  return directory
}

t.test('data survives restarts and kills', async t => {
  const dataDir = join(await createDirectory(t), 'data')
  const first = await startPostgres({ major, dataDir, settings: { max_connections: 17 } })
  const [facts] = await execute(
    first,
    "select current_setting('server_version_num')::int / 10000 as major, " +
      "current_setting('server_encoding') as encoding, current_setting('max_connections') as " +
      'connections, usesuper from pg_user where usename = current_user'
  )
  t.strictSame(facts, { major, encoding: 'UTF8', connections: '17', usesuper: true })
  await execute(first, 'create table kept as select 42 as answer')
  await first.stop()
  t.notOk(isAlive(first.pid), 'stop resolves after the server has exited')
  t.notOk(existsSync(first.socketDir), 'the socket directory is removed')
  await first.stop()

  const second = await startPostgres({ major, dataDir, port: first.port })
  t.equal(second.port, first.port, 'a given port is used')
  t.same(await execute(second, 'select * from kept'), [{ answer: 42 }])
  await t.rejects(startPostgres({ major, dataDir }), {
    message: /^another "npm run dev" is using \S*data \(.* and port \d+\): stop it first$/
  }, 'only one server can use a directory')

  process.kill(second.pid, 'SIGKILL')
  // Busy-waits, so the exit event has not been processed when stop is called.
  while (isAlive(second.pid));
  await second.stop()
  t.ok(existsSync(join(dataDir, 'postmaster.pid')), 'a killed server leaves its lock file')
  const third = await startPostgres({ major, dataDir })
  t.same(await execute(third, 'select * from kept'), [{ answer: 42 }])
  await third.stop()

  // The pid of the stopped server now belongs to another running process: this one.
  await writeFile(
    join(dataDir, 'postmaster.pid'),
    `${process.pid}\n${dataDir}\n1\n${third.port}\n${third.socketDir}\n127.0.0.1\n`
  )
  const fourth = await startPostgres({ major, dataDir })
  t.same(await execute(fourth, 'select * from kept'), [{ answer: 42 }])
  await fourth.stop()
})

t.test('temporary data is removed at stop, and parallel starts do not conflict', async t => {
  const servers = await Promise.all([startPostgres({ major }), startPostgres({ major })])
  t.not(servers[0].port, servers[1].port)
  t.same(await execute(servers[0], 'select 1 as one'), [{ one: 1 }])
  await Promise.all(servers.map(server => server.stop()))
  for (const { dataDir } of servers) t.notOk(existsSync(dataDir))
})

t.test('a server neither outlives its parent process nor keeps it alive', async t => {
  const code = `import { startPostgres } from ${
    JSON.stringify(new URL('../../scripts/dev/postgres.ts', import.meta.url).href)
  }
    process.stdout.write(JSON.stringify(await startPostgres({ major: ${major} })))
    if (process.argv[1] === 'stay') setInterval(() => {}, 1000)`
  for (const [mode, signal] of [['stay', 'SIGKILL'], ['leave', null]] as const) {
    const parent = spawn(process.execPath, ['--input-type=module', '-e', code, mode], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    const [text] = await once(parent.stdout, 'data') as [Buffer]
    const server = JSON.parse(text.toString()) as Postgres
    if (signal !== null) {
      t.ok(isAlive(server.pid))
      parent.kill(signal)
    }
    await until(() => !isAlive(server.pid))
    await until(() => !existsSync(server.dataDir) && !existsSync(server.socketDir))
    t.pass(`${mode}: no server and no files are left`)
  }
})

t.test('invalid directories, versions, settings and ports are rejected', async t => {
  const base = await createDirectory(t)
  const old = join(base, 'old')
  await mkdir(old)
  await writeFile(join(old, 'PG_VERSION'), '9.6\n')
  await t.rejects(startPostgres({ major, dataDir: old }), {
    message: `${old} contains data of PostgreSQL 9.6, not ${major}: start that version, or ` +
      'choose another directory'
  })

  const unreadable = join(base, 'unreadable')
  await mkdir(join(unreadable, 'PG_VERSION'), { recursive: true })
  await t.rejects(startPostgres({ major, dataDir: unreadable }), { code: 'EISDIR' })

  const full = join(base, 'full')
  await mkdir(full)
  await writeFile(join(full, 'letter'), 'dear')
  await t.rejects(startPostgres({ major, dataDir: full }), {
    message: `${full} is not empty and contains no PostgreSQL data`
  })

  const closed = join(base, 'closed')
  await mkdir(closed)
  await chmod(closed, 0o600)
  await t.rejects(startPostgres({ major, dataDir: join(closed, 'data') }), {
    message: `${closed} is not accessible to the user that runs PostgreSQL: ` +
      'choose another data directory'
  })

  await t.rejects(startPostgres({ major: 13 }), {
    message: /^no embedded PostgreSQL 13 for .*--prefix test\/matrix.*TEST_DATABASE_URL.*DATABASE_URL/
  })
  await t.rejects(startPostgres({ major, settings: { no_such_setting: 1 } }), {
    message: /did not start on port \d+:\n[^]*no_such_setting/
  })

  const port = await useListener(t, createServer())
  await t.rejects(startPostgres({ major, port }), { message: /Address already in use/ })
})
