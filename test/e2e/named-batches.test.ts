/**
 * Tests BATCHES_DIR with real processes: faults stop the start, SIGHUP reads the folder again in
 * one process and in several, and without a folder SIGHUP stops the service.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { useDatabase } from '../support/database/database.ts'
import { childEnvironment, startGroup, type Group } from '../support/process/process.ts'
import { ask, testEnvironment, token, type Answer } from '../support/service.ts'
import { until } from '../support/until.ts'

t.setTimeout(300_000)

const main = join(import.meta.dirname, '../../src/main.ts')
const batch = (alias: string): string =>
  JSON.stringify({
    operations: [{ id: 's', op: 'select', table: 't', columns: [{ column: 'n', as: alias }] }]
  })

interface Running extends Group {
  readonly folder: string
  readonly url: () => string
}

async function start (
  t: Test,
  env: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>> = { 'first.json': batch('a'), 'README.md': 'no batch' }
): Promise<Running> {
  const { loginUrl } = await useDatabase(t, {
    schema: 'create table t (n int); insert into t values (1); grant all on t to oneflight_user'
  })
  const folder = t.testdir(files)
  const group = startGroup(t, [process.execPath, ['--disable-warning=ExperimentalWarning', main]], {
    env: childEnvironment({
      ...testEnvironment,
      DATABASE_URL: loginUrl,
      BATCHES_DIR: folder,
      QUEUE_TIMEOUT_MS: '60000',
      ...env
    })
  })
  const url = (): string =>
    /main server listening at (http:\/\/[^"]+)/.exec(group.output())?.[1] as string
  return { ...group, folder, url }
}

const run = (service: Running, name: string): Promise<Answer> =>
  ask(`${service.url()}/batches/${name}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${token({ role: 'oneflight_user' })}`
    },
    body: '{}'
  })
const runMany = (service: Running, name: string): Promise<readonly Answer[]> =>
  Promise.all(Array.from({ length: 8 }, () => run(service, name)))

for (const workers of [1, 2]) {
  t.test(`SIGHUP reads the folder again as a whole, WORKERS=${workers}`, async t => {
    const service = await start(t, { WORKERS: String(workers) })
    await until(() =>
      workers === 1 ? service.url() !== undefined : /limits apply to each/.test(service.output())
    )
    t.same((await run(service, 'first')).body.data, { s: [{ a: 1 }] })
    const signal = (): void => {
      process.kill(service.child.pid as number, 'SIGHUP')
    }

    writeFileSync(join(service.folder, 'second.json'), batch('b'))
    writeFileSync(join(service.folder, 'wrong.json'), '{"operations": [5]}')
    signal()
    await until(() => service.output().includes('BATCHES_DIR has faults'))
    t.match(service.output(), 'wrong.json:1:17: operation 0: id_missing')
    t.equal((await run(service, 'second')).body.error?.code, 'batch_unknown')
    t.equal((await run(service, 'first')).status, 200, 'the old batches stay')

    rmSync(join(service.folder, 'wrong.json'))
    writeFileSync(join(service.folder, 'first.json'), batch('c'))
    signal()
    await until(() => service.output().includes('read BATCHES_DIR'))
    await until(async () =>
      (await runMany(service, 'second')).every(({ status }) => status === 200)
    )
    for (const answer of await runMany(service, 'first')) {
      t.same(answer.body.data, { s: [{ c: 1 }] })
    }
    process.kill(service.child.pid as number, 'SIGTERM')
    await until(() => service.child.exitCode !== null)
    t.equal(service.child.exitCode, 0)
  })
}

t.test('a fault in a file stops the start', async t => {
  const files = { 'a.json': '{"operations": []}', 'B.json': batch('a') }
  const service = await start(t, {}, files)
  const { folder } = service
  await until(() => service.child.exitCode !== null)
  t.equal(service.child.exitCode, 1)
  t.match(service.output(), `oneflight: ${join(folder, 'B.json')}: The name of the file must match`)
  t.match(service.output(), `oneflight: ${join(folder, 'a.json')}:1:2: "operations": `)
})

t.test('a missing folder stops the start', async t => {
  const service = await start(t, { BATCHES_DIR: '/nowhere' })
  await until(() => service.child.exitCode !== null)
  t.match(service.output(), 'oneflight: /nowhere: The folder cannot be read.')
})

t.test('without a folder, SIGHUP stops the service', async t => {
  const service = await start(t, { BATCHES_DIR: '' })
  await until(() => service.url() !== undefined)
  process.kill(service.child.pid as number, 'SIGHUP')
  await until(() => service.child.exitCode !== null)
  t.equal(service.child.exitCode, 0)
})
