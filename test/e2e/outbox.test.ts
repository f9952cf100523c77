/**
 * Runs the examples of docs/guides/outbox.md on the sample shop. Kills workers, the service and
 * backends while they work, and checks that no work is lost or done twice. graphile-worker is a
 * package of examples/clients/.
 */
import { randomUUID } from 'node:crypto'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { makeKeyTable } from '../support/database/key-table.ts'
import { asCustomer, CUSTOMER, useShopDatabase } from '../support/database/shop.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { childEnvironment } from '../support/process/process.ts'
import { startProgram, type Running } from '../support/process/programs.ts'
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import { ask, token, type Answer } from '../support/service.ts'
import { until } from '../support/until.ts'

const page = readPage('docs/guides/outbox.md')
const examples = join(root, 'examples/clients')

/** Returns the first block of a section in a language that contains a text. */
function blockOf (section: string, language: string, part = ''): string {
  const start = page.indexOf(`\n## ${section}`)
  const found = readBlocks(page.slice(start)).find(block =>
    block.language === language && block.text.includes(part))
  return found?.text as string
}

interface Recipes extends Awaited<ReturnType<typeof useShopDatabase>> {
  readonly service: RestartableService
  readonly send: (batch: string, key?: string) => Promise<Answer>
  /** Starts a program in a folder with the file `worker.mjs`. */
  readonly work: (program: string) => Running
  /** Holds a lock that a statement takes, until it is released. */
  readonly hold: (statement: string) => Promise<() => Promise<void>>
  /** Resolves with the process ids of the backends that wait for a lock. */
  readonly blocked: () => Promise<readonly number[]>
}

async function useRecipes (t: Test): Promise<Recipes> {
  const database = await useShopDatabase(t)
  await makeKeyTable(database)
  const { sql } = database
  await sql.unsafe(blockOf('Once', 'sql'))
  const service = await useRestartableService(t, {
    DATABASE_URL: database.loginUrl,
    LOG_LEVEL: 'silent'
  })
  await service.ready()
  const folder = t.testdir({})
  mkdirSync(join(folder, 'node_modules'))
  for (const [name, installed] of [['postgres', root], ['graphile-worker', examples]] as const) {
    symlinkSync(join(installed, 'node_modules', name), join(folder, 'node_modules', name))
  }
  writeFileSync(join(folder, 'worker.mjs'), blockOf('A table', 'js'))
  const env = childEnvironment({
    ONEFLIGHT_URL: service.url,
    ONEFLIGHT_TOKEN: token(CUSTOMER),
    WORKER_DATABASE_URL: database.url
  })
  return {
    ...database,
    service,
    send: (batch, key = randomUUID()) => ask(service.url, {
      method: 'POST',
      headers: { ...asCustomer(), 'content-type': 'application/json', 'idempotency-key': key },
      body: batch
    }),
    work (program) {
      const path = join(folder, `program-${randomUUID()}.mjs`)
      writeFileSync(path, program)
      return startProgram(t, process.execPath, [path], env)
    },
    async hold (statement) {
      const connection = await sql.reserve()
      await connection.unsafe(`begin; ${statement}`)
      return async () => {
        await connection.unsafe('rollback')
        connection.release()
      }
    },
    blocked: () => until(async () => {
      const waiting = await sql<Array<{ pid: number }>>`select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`
      return waiting.length === 0 ? undefined : waiting.map(({ pid }) => pid)
    })
  }
}

const keys = async ({ sql }: Recipes): Promise<readonly string[]> =>
  (await sql<Array<{ key: string }>>`select key from mails order by key`).map(({ key }) => key)

async function migrateWorker (t: Test, { url }: Recipes): Promise<any> {
  const { makeWorkerUtils } = createRequire(join(examples, 'package.json'))('graphile-worker')
  const utils = await makeWorkerUtils({ connectionString: url })
  t.teardown(() => utils.release())
  await utils.migrate()
  return utils
}

t.test('graphile-worker: the service and a worker are killed', async t => {
  const recipes = await useRecipes(t)
  const { sql, service, send, work, hold, blocked } = recipes
  const utils = await migrateWorker(t, recipes)
  await sql.unsafe(blockOf('graphile-worker', 'sql'))
  const batch = blockOf('graphile-worker', 'json')
  t.same((await send(batch)).body.data, { order: [{ id: 2 }], mail: [] })

  // The insert of the order waits for its customer.
  const releaseCustomer = await hold('select from customers where id = 1 for update')
  const key = randomUUID()
  const lost = send(batch, key).then(() => 'answered', () => 'lost')
  await blocked()
  await service.end('SIGKILL')
  t.equal(await lost, 'lost')
  await releaseCustomer()
  await service.start()
  await service.ready()
  const again = await until(async () => {
    const answer = await send(batch, key)
    return answer.status === 200 ? answer : undefined
  })
  const [{ id }] = again.body.data.order
  t.same(await sql`select count(*)::int as n from orders where customer_id = 1`, [{ n: 3 }])
  t.same(await sql`select count(*)::int as n from graphile_worker.jobs`, [{ n: 2 }])

  const worker = blockOf('graphile-worker', 'js')
  const releaseMails = await hold('lock table mails in exclusive mode')
  const first = work(worker)
  await blocked()
  await first.end('SIGKILL')
  await releaseMails()
  const locked = await sql<Array<{ by: string }>>`select locked_by as by from graphile_worker.jobs
    where locked_by is not null`
  t.ok(locked.length > 0, 'the killed worker has its job')
  await utils.forceUnlockWorkers(locked.map(({ by }) => by))
  work(worker)
  await until(async () => (await sql`select from graphile_worker.jobs`).length === 0)
  t.same(await keys(recipes), ['order 2', `order ${id}`])
})

t.test('a table: a worker and the backend of its batch are killed', async t => {
  const recipes = await useRecipes(t)
  const { sql, send, work, hold, blocked } = recipes
  t.equal((await send(blockOf('A table', 'json'))).status, 200)
  const jobs = await sql<Array<{ id: string }>>`select id from jobs order by id`
  t.equal(jobs.length, 4)
  const expected = jobs.map(({ id }) => `job ${id}`)

  const program = "import './worker.mjs'"
  const release = await hold('lock table mails in exclusive mode')
  const first = work(program)
  const [pid] = await blocked()
  await first.end('SIGKILL')
  await sql`select pg_terminate_backend(${pid as number})`
  await release()
  const states = await sql`select state, count(*)::int as n from jobs group by state order by state`
  t.same(states, [{ state: 'ready', n: 3 }, { state: 'running', n: 1 }])

  const late = blockOf('A table', 'json', '"late"')
  const now = new Date().toISOString()
  t.match(late, '2026-11-26T12:00:00Z')
  const freed = await send(late.replace('2026-11-26T12:00:00Z', now))
  t.equal(freed.body.data.late.length, 1)
  const workers = [work(program), work(program)]
  await until(async () => (await sql`select from jobs where state <> 'done'`).length === 0)
  await Promise.all(workers.map(({ child }) => until(() => child.exitCode !== null)))
  t.same(await keys(recipes), expected)
  t.same(
    await sql`select attempts, count(*)::int as n from jobs group by attempts order by attempts`,
    [{ attempts: 1, n: 3 }, { attempts: 2, n: 1 }]
  )
})

t.test('pg_notify: the backend of a listener is killed', async t => {
  const recipes = await useRecipes(t)
  const { sql, send, work } = recipes
  await sql.unsafe(blockOf('Wake the workers', 'sql'))
  const batch = blockOf('Wake the workers', 'json')
  const { child } = work(blockOf('Wake the workers', 'js'))
  const listener = () => until(async () => {
    const [found] = await sql<Array<{ pid: number }>>`select pid from pg_stat_activity
      where datname = current_database() and query ilike 'listen %'`
    return found?.pid
  })
  const done = (n: number) => until(async () =>
    (await sql`select from jobs where state = 'done'`).length === n)
  const pid = await listener()
  await done(3)
  t.match((await send(batch)).body, { error: null, data: { wake: [] } })
  await done(4)

  // The worker cannot connect again before a job is added, so it gets no notification of it.
  child.kill('SIGSTOP')
  await sql`select pg_terminate_backend(${pid})`
  await until(async () => (await sql`select from pg_stat_activity where pid = ${pid}`).length === 0)
  t.equal((await send(batch)).status, 200)
  child.kill('SIGCONT')
  await done(5)
  t.not(await listener(), pid)
  const ids = await sql<Array<{ key: string }>>`select 'job ' || id as key from jobs order by id`
  t.same(await keys(recipes), ids.map(({ key }) => key))
  t.same(await sql`select from jobs where attempts <> 1`, [])
})
