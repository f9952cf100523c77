/**
 * Tests `npm run dev` as a child process in an empty folder: the printed commands work, and no
 * process or file remains.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import postgres from 'postgres'
import t from 'tap'
import { ask } from '../support/service.ts'

const program = resolve(import.meta.dirname, '../../src/dev.ts')

interface Running {
  readonly child: ChildProcess
  readonly printed: string
}

async function start (folder: string): Promise<Running> {
  const { DATABASE_URL: _, ...env } = process.env
  const child = spawn(process.execPath, [program], {
    cwd: folder,
    env: { ...env, HTTP_PORT: '0', ADMIN_HTTP_PORT: '0', QUEUE_TIMEOUT_MS: '20000' },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let printed = ''
  child.stdout.setEncoding('utf8')
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += chunk as string
    if (printed.includes('Ctrl-C')) break
  }
  return { child, printed }
}

async function stop ({ child }: Running, signal: NodeJS.Signals): Promise<number | null> {
  const ended = once(child, 'close')
  child.stdout?.resume()
  child.kill(signal)
  await ended
  return child.exitCode
}

function find (printed: string, pattern: RegExp): string {
  return pattern.exec(printed)?.[1] ?? ''
}

t.test('the sample starts, serves, stops and restarts with its data', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'oneflight-dev-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const first = await start(folder)
  t.match(first.printed, '200 OK')
  t.match(first.printed, /"left":\[\{"sku":"apple","price":0\.30,"qty":996\}\]/)

  const url = find(first.printed, /main server +(\S+)/)
  const database = find(first.printed, /database +(\S+)/)
  const [, address = '', bearer = '', body = ''] =
    /curl (\S+) -H "Authorization: (Bearer )\$TOKEN" .* -d '([^']*)'/s.exec(first.printed) ?? []
  t.equal(address, url)
  const token = find(first.printed, /export TOKEN=(\S+)/)
  const answer = await ask(address, {
    method: 'POST',
    headers: { authorization: `${bearer}${token}`, 'content-type': 'application/json' },
    body
  })
  t.equal(answer.status, 200)
  t.match(answer.body.data.order, [{ id: 1, status: 'paid', owner: 'corner-shop' }])

  t.equal(await stop(first, 'SIGTERM'), 0)
  const stopped = postgres(database, { max: 1, onnotice: () => {} })
  await t.rejects(stopped`select 1`)
  await stopped.end({ timeout: 0 })

  const second = await start(folder)
  t.match(second.printed, /"left":\[\{"sku":"apple","price":0\.30,"qty":992\}\]/)
  const again = await ask(find(second.printed, /main server +(\S+)/), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body
  })
  t.equal(again.body.data.order.length, 2, 'the token and the orders survive the restart')
  t.equal(await stop(second, 'SIGINT'), 0)
})

t.test('a failed start prints one line and leaves no server', async t => {
  const folder = await mkdtemp(join(tmpdir(), 'oneflight-dev-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { status, stderr } = spawnSync(process.execPath, [program], {
    cwd: folder,
    env: { ...process.env, LOG_LEVEL: 'loud' },
    encoding: 'utf8'
  })
  t.equal(status, 1)
  t.match(stderr, /^oneflight: LOG_LEVEL: [^\n]*\n$/)
  const again = await start(folder)
  t.match(again.printed, '200 OK', 'no server holds the data directory')
  t.equal(await stop(again, 'SIGTERM'), 0)
})
