/**
 * Tests BATCHES_DIR with real processes: issues stop the start, SIGHUP reads the folder again in
 * one process and in several, also while a worker starts, and without a folder SIGHUP is ignored.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { useDatabase } from '../support/database/database.ts'
import { preload, startMain, type Line, type Main } from '../support/process/process.ts'
import { ask, testEnvironment, type Answer } from '../support/service.ts'
import { postBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

t.setTimeout(300_000)

const batch = (alias: string): string =>
  JSON.stringify({
    operations: [{ id: 's', op: 'select', table: 't', columns: [{ column: 'n', as: alias }] }]
  })

interface Running extends Main {
  readonly folder: string
  readonly url: () => string
  readonly adminUrl: () => string
}

async function start (
  t: Test,
  env: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>> = { 'first.json': batch('a'), 'README.md': 'no batch' }
): Promise<Running> {
  const { loginUrl } = await useDatabase(t, {
    schema: 'create table t (n int); insert into t values (1)'
  })
  const folder = t.testdir(files)
  const service = startMain(t, {
    ...testEnvironment,
    DATABASE_URL: loginUrl,
    BATCHES_DIR: folder,
    QUEUE_TIMEOUT_MS: '60000',
    ...env
  })
  const address = (name: 'main' | 'admin') => (): string => service.address(name) as string
  return { ...service, folder, url: address('main'), adminUrl: address('admin') }
}

const run = (service: Running, name: string): Promise<Answer> =>
  postBatch(`${service.url()}/batches/${name}`, {})
const runMany = (service: Running, name: string): Promise<readonly Answer[]> =>
  Promise.all(Array.from({ length: 8 }, () => run(service, name)))

const linesOf = ({ lines }: Running, message: string): readonly Line[] =>
  lines().filter(({ msg }) => String(msg).startsWith(message))
async function stop ({ child, ended }: Running): Promise<void> {
  child.kill('SIGTERM')
  t.equal(await ended, 0)
}

/** The paths of named batches in the OpenAPI document of the admin server. */
async function pathsOf (service: Running): Promise<readonly string[]> {
  const { body } = await ask(`${service.adminUrl()}/openapi.json`)
  const paths = Object.keys((body as { readonly paths: object }).paths)
  return paths.filter(path => path.startsWith('/batches/'))
}

t.test('SIGHUP reads the folder again as a whole', async t => {
  const service = await start(t, {})
  await until(() => service.adminUrl() !== undefined)
  t.same((await run(service, 'first')).body.data, { s: [{ a: 1 }] })

  writeFileSync(join(service.folder, 'second.json'), batch('b'))
  writeFileSync(join(service.folder, 'wrong.json'), '{"operations": [5]}')
  service.child.kill('SIGHUP')
  await until(() => service.output().includes('BATCHES_DIR has issues'))
  t.match(service.output(), 'wrong.json:1:17: operation 0: id_missing')
  t.equal((await run(service, 'second')).body.error?.code, 'batch_unknown')
  t.equal((await run(service, 'first')).status, 200, 'the old batches stay')
  t.same(await pathsOf(service), ['/batches/first'])

  rmSync(join(service.folder, 'wrong.json'))
  writeFileSync(join(service.folder, 'first.json'), batch('c'))
  service.child.kill('SIGHUP')
  await until(() => service.output().includes('read BATCHES_DIR'))
  t.equal((await run(service, 'second')).status, 200)
  t.same((await run(service, 'first')).body.data, { s: [{ c: 1 }] })
  t.same(await pathsOf(service), ['/batches/first', '/batches/second'])
  await stop(service)
})

/** Resolves when each of these workers has answered a request with this status. */
const untilAnswered = (
  service: Running,
  { name, status, workers }: { name: string, status: number, workers: readonly number[] }
): Promise<unknown> =>
  until(async () => {
    await runMany(service, name)
    const answered = linesOf(service, 'request completed')
      .filter(line => line['path'] === `/batches/${name}` && line['status'] === status)
      .map(({ worker }) => worker)
    return workers.every(worker => answered.includes(worker))
  })

/** The process id of a worker that serves. */
const pidOf = (service: Running, id: number): number | undefined =>
  linesOf(service, 'main server').find(({ worker }) => worker === id)?.['pid'] as number | undefined

t.test('all workers, also later ones, have the batches of the last valid folder', async t => {
  const service = await start(t, { WORKERS: '3' })
  await until(() => [1, 2, 3].every(id => pidOf(service, id) !== undefined))

  writeFileSync(join(service.folder, 'wrong.json'), '{"operations": [5]}')
  writeFileSync(join(service.folder, 'first.json'), batch('b'))
  service.child.kill('SIGHUP')
  await until(() => linesOf(service, 'BATCHES_DIR has issues').length > 0)
  await untilAnswered(service, { name: 'first', status: 200, workers: [1, 2, 3] })
  for (const { body } of await runMany(service, 'first')) t.same(body.data, { s: [{ a: 1 }] })
  const [line, ...others] = linesOf(service, 'BATCHES_DIR has issues')
  t.match(line, { worker: undefined, issues: [/^.*\/wrong\.json:1:17: operation 0: id_missing: /] })
  t.same(others, [], 'the issue is logged once')

  rmSync(join(service.folder, 'wrong.json'))
  writeFileSync(join(service.folder, 'second.json'), batch('b'))
  service.child.kill('SIGHUP')
  await untilAnswered(service, { name: 'second', status: 200, workers: [1, 2, 3] })
  t.same(await pathsOf(service), ['/batches/first', '/batches/second'])

  // The files that a new worker could read are faulty.
  writeFileSync(join(service.folder, 'second.json'), '[]')
  for (const id of [1, 2, 3]) {
    process.kill(pidOf(service, id) as number, 'SIGKILL')
    await until(() => pidOf(service, id + 3) !== undefined)
  }
  const before = linesOf(service, 'request completed').length
  await untilAnswered(service, { name: 'second', status: 200, workers: [4, 5, 6] })
  t.ok(linesOf(service, 'request completed').slice(before).every(line => line['status'] === 200))
  await stop(service)
})

t.test('a worker that starts during a reload has the new batches', async t => {
  // Worker 3 has its batches when it listens, and waits there.
  const service = await start(t, {
    WORKERS: '2',
    ...preload(`
      import { existsSync } from 'node:fs'
      import net from 'node:net'
      const { listen } = net.Server.prototype
      if (id === 3) net.Server.prototype.listen = function (...all) {
        console.log('worker 3 waits')
        const timer = setInterval(() => {
          if (!existsSync(process.env.BATCHES_DIR + '/gate')) return
          clearInterval(timer)
          listen.apply(this, all)
        }, 10)
        return this
      }`)
  })
  await until(() => [1, 2].every(id => pidOf(service, id) !== undefined))
  process.kill(pidOf(service, 1) as number, 'SIGKILL')
  await until(() => service.output().includes('worker 3 waits'))
  writeFileSync(join(service.folder, 'first.json'), batch('b'))
  writeFileSync(join(service.folder, 'second.json'), batch('c'))
  service.child.kill('SIGHUP')
  await untilAnswered(service, { name: 'second', status: 200, workers: [2] })
  writeFileSync(join(service.folder, 'gate'), '')
  await untilAnswered(service, { name: 'second', status: 200, workers: [2, 3] })
  for (const { body } of await runMany(service, 'first')) t.same(body.data, { s: [{ b: 1 }] })
  await stop(service)
})

t.test('a worker that asks for its batches ignores SIGHUP and ends with the primary', async t => {
  // Worker 2 gets no answer, because it does not really ask.
  const script = "if (id === 2) process.send = () => setInterval(() => console.log('waits'), 10)"
  const service = await start(t, { WORKERS: '2', ...preload(script) })
  const waits = (): number => service.output().match(/^waits$/gm)?.length ?? 0
  await until(() => waits() > 0)
  process.kill(-(service.child.pid as number), 'SIGHUP')
  await until(() => linesOf(service, 'read BATCHES_DIR').length === 1)
  const before = waits()
  await until(() => waits() > before + 1)
  service.child.kill('SIGKILL')
  // Every process holds the output until it exits.
  t.equal(await service.ended, 'SIGKILL')
})

t.test('SIGHUP while the service loads does not stop it', async t => {
  const send = "process.on('newListener', function sending (name, { name: by }) { if (name !== " +
    "'SIGHUP' || by !== 'hangUp') return; process.off('newListener', sending); " +
    "queueMicrotask(() => process.emit('SIGHUP')) })"
  const service = await start(t, preload(send))
  await until(() => service.url() !== undefined)
  t.equal((await run(service, 'first')).status, 200)
  await stop(service)
})

t.test('an issue in a file stops the start', async t => {
  const files = { 'a.json': '{"operations": []}', 'B.json': batch('a') }
  const service = await start(t, {}, files)
  const { folder } = service
  t.equal(await service.ended, 1)
  t.match(service.output(), `oneflight: ${join(folder, 'B.json')}: The name of the file must match`)
  t.match(service.output(), `oneflight: ${join(folder, 'a.json')}:1:2: "operations": `)
})

t.test('without a folder, SIGHUP has no effect', async t => {
  const service = await start(t, { BATCHES_DIR: '' })
  await until(() => service.url() !== undefined)
  service.child.kill('SIGHUP')
  await until(() => linesOf(service, 'SIGHUP has no effect without BATCHES_DIR').length === 1)
  t.equal((await ask(`${service.url()}/health`)).status, 200)
  await stop(service)
})
