/**
 * Tests that signals to `npm start`, `npm run dev` and `npm run oneflight`, and the end of their
 * terminal, stop the service and what it started.
 */
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { accepts } from '../../scripts/dev/port.ts'
import { useDatabase } from '../support/database/database.ts'
import { childEnvironment, startGroup, type Group } from '../support/process/process.ts'
import { findProgram, needs } from '../support/process/programs.ts'
import { ask, testEnvironment } from '../support/service.ts'
import { listRoot } from '../support/tracked-files.ts'
import { until } from '../support/until.ts'

t.setTimeout(300_000)

const root = resolve(import.meta.dirname, '../..')

/** A folder of links to the files of the project, with its own `.data`. */
async function makeCheckout (t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oneflight-npm-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const name of listRoot()) await symlink(join(root, name), join(folder, name))
  return folder
}

/** Whether something accepts connections on the port of a URL. */
const listens = (url: string): Promise<boolean> => accepts(Number(new URL(url).port))

type Stop = NodeJS.Signals | 'terminal'

/** Starts the command and stops it, by a signal to npm or the end of the terminal. */
async function startAndStop (
  t: Test,
  command: readonly string[],
  how: Stop,
  options: { readonly cwd: string, readonly env: Readonly<Record<string, string>> }
): Promise<void> {
  const npm = ['npm', ...command]
  const group: Group = startGroup(
    t,
    how === 'terminal'
      ? ['script', ['-qefc', npm.join(' '), '/dev/null']]
      : ['npm', command],
    {
      cwd: options.cwd,
      env: childEnvironment({ ...testEnvironment, HOME: process.env['HOME'], ...options.env })
    }
  )
  const title = `${npm.join(' ')}: ${how}`
  const url = await until(() => /main server\D*(http:\/\/[\d.:]+)/.exec(group.output())?.[1])
  const database = await until(() =>
    options.env['DATABASE_URL'] ?? /database +(postgres:\S+)/.exec(group.output())?.[1]
  )
  t.equal((await ask(`${url}/health`)).status, 200, title)
  group.child.kill(how === 'terminal' ? 'SIGKILL' : how)
  // `script` ends before the processes on its terminal.
  await group.ended
  if (how === 'terminal') await until(async () => !await listens(url))
  t.notOk(await listens(url), `${title}: the service has stopped`)
  // Behind a terminal that has ended, no process reads the output.
  if (how !== 'terminal') {
    const cause = how === 'SIGHUP' ? 'npm[^"]* has ended' : how
    const line = new RegExp(`("${cause}",?.*"stopping"|Stopping: ${cause})`)
    await until(() => line.test(group.output()))
  }
  if (options.env['DATABASE_URL'] === undefined) {
    await until(async () => !await listens(database))
    t.pass(`${title}: PostgreSQL has stopped`)
  }
}

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
const terminal = { script: process.platform === 'linux' ? findProgram('script') : undefined }

t.test('a signal to npm stops the service', async t => {
  const { loginUrl } = await useDatabase(t)
  const cwd = await makeCheckout(t)
  for (const signal of signals) {
    await startAndStop(t, ['start'], signal, { cwd, env: { DATABASE_URL: loginUrl } })
    await startAndStop(t, ['run', 'dev'], signal, { cwd, env: {} })
  }
  const program = ['run', 'oneflight', '--', 'start']
  await startAndStop(t, program, 'SIGTERM', { cwd, env: { DATABASE_URL: loginUrl, WORKERS: '2' } })
})

t.test(...needs('the end of the terminal stops the service', terminal), async t => {
  const { loginUrl } = await useDatabase(t)
  const cwd = await makeCheckout(t)
  const env = { DATABASE_URL: loginUrl, BATCHES_DIR: 'deploy/batches' }
  await startAndStop(t, ['start'], 'terminal', { cwd, env })
  await startAndStop(t, ['start'], 'terminal', { cwd, env: { ...env, WORKERS: '2' } })
  await startAndStop(t, ['run', 'dev'], 'terminal', { cwd, env: {} })
})
