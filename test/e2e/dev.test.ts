/**
 * `npm run dev` as a separate process in an empty folder: the printed commands work, data survive a
 * restart but not a reset, and no server is left running.
 */
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import postgres from 'postgres'
import t, { type Test } from 'tap'
import { signToken } from '../../src/auth/token.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { startGroup, type Group } from '../support/process/process.ts'
import { ask } from '../support/service.ts'
import { until } from '../support/until.ts'

const program = resolve(import.meta.dirname, '../../scripts/dev/main.ts')

interface Running extends Group {
  readonly printed: string
}

async function makeFolder (t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oneflight-dev-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

interface Options {
  readonly args?: readonly string[]
  readonly extra?: Readonly<Record<string, string>>
}

async function start (
  t: Test,
  folder: string,
  { args = [], extra = {} }: Options = {}
): Promise<Running> {
  const { DATABASE_URL: _, ...env } = process.env
  const group = startGroup(t, [process.execPath, [program, ...args]], {
    cwd: folder,
    env: { ...env, ...extra, HTTP_PORT: '0', ADMIN_HTTP_PORT: '0', QUEUE_TIMEOUT_MS: '20000' }
  })
  await until(() => group.output().includes('Ctrl-C') || group.child.exitCode !== null)
  return { ...group, printed: group.output() }
}

function stop ({ child, ended }: Running, signal: NodeJS.Signals): Promise<number | string> {
  child.kill(signal)
  return ended
}

function find (printed: string, pattern: RegExp): string {
  return pattern.exec(printed)?.[1] ?? ''
}

function post ({ printed }: Running, token: string, body: string, path = '') {
  return ask(`${find(printed, /main server +(http\S+)/)}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body
  })
}

const order = '[{"id": "o", "op": "insert", "table": "orders", "values": [{"customer_id": 1}]}]'
const orders = '[{"id": "o", "op": "select", "table": "orders", "columns": ["id"]}]'

t.test('the printed request works, and the shop survives a restart but not a reset', async t => {
  const folder = await makeFolder(t)
  const first = await start(t, folder, { args: ['--reset'] })
  const database = find(first.printed, /database +(\S+)/)
  const token = find(first.printed, /export ONEFLIGHT_TOKEN=(\S+)/)
  const [, address, body = ''] =
    /curl (\S+) -H "Authorization: Bearer \$ONEFLIGHT_TOKEN" .* -d '([^']*)'/s
      .exec(first.printed) ?? []
  t.equal(address, find(first.printed, /main server +(http\S+)/))
  const response = await post(first, token, body)
  t.match(response.body.data?.order, [{ id: 1, status: 'paid', owner: 'corner-shop' }])
  t.match((await post(first, token, order)).body.data.o, [{ id: 2 }])
  const path = find(first.printed, /POST (\/batches\/\S+): deploy\/batches/)
  const parameters = '{"customer_id": 1, "account": "till", "items": [{"sku": "pear", "qty": 2}]}'
  const named = await post(first, token, parameters, path)
  t.match(named.body.data?.order, [{ id: 3, status: 'paid' }])

  t.equal(await stop(first, 'SIGTERM'), 0)
  const stopped = postgres(database, { max: 1, onnotice: () => {} })
  await t.rejects(stopped`select 1`)
  await stopped.end({ timeout: 0 })

  const second = await start(t, folder)
  t.same((await post(second, token, orders)).body.data.o, [{ id: 1 }, { id: 2 }, { id: 3 }])
  t.equal(await stop(second, 'SIGINT'), 0)

  // What npm 11 does with `npm run dev --reset`.
  const third = await start(t, folder, { extra: { npm_config_reset: 'true' } })
  t.same((await post(third, token, orders)).body.data.o, [{ id: 1 }])
  t.equal(await stop(third, 'SIGTERM'), 0)
})

t.test('an SQL file instead of the shop, as in docs/guides/getting-started.md', async t => {
  const folder = await makeFolder(t)
  const [sql] = readBlocks(readPage('docs/guides/getting-started.md')).filter(({ language }) =>
    language === 'sql'
  )
  // The first and the last command of pg_dump, and a statement that sends a notice.
  const dump = ['\\restrict a', 'drop table if exists absent;', sql?.text, '\\unrestrict a']
  await writeFile(join(folder, 'notes.sql'), dump.join('\n'))
  const running = await start(t, folder, { args: ['notes.sql'] })
  t.match(running.printed, /database .*\/notes$/m)
  t.match(running.printed, '\nSet a token. Roles of this database: app_user\n')
  t.match(
    running.printed,
    '\nTo start again with a fresh database: npm run dev -- --reset notes.sql\n'
  )
  const file = find(running.printed, /export JWT_SECRET=\$\(cat (\S+)\)/)
  const token = signToken(
    { role: 'app_user', sub: 'alice', exp: 9_999_999_999 },
    await readFile(resolve(folder, file), 'utf8')
  )
  const insert = '[{"id": "n", "op": "insert", "table": "notes", "values": [{"body": "b"}]}]'
  const { body } = await post(running, token, insert)
  t.same(body.data?.n, [{ id: 1, owner: 'alice', body: 'b' }])
  t.equal(await stop(running, 'SIGTERM'), 0)

  await writeFile(join(folder, 'notes.sql'), 'create table other ();')
  const changed = await start(t, folder, { args: ['notes.sql'] })
  t.match(
    changed.printed,
    '\nThe SQL file has changed since this database was created. To create it again: ' +
      'npm run dev -- --reset notes.sql\n'
  )
  t.equal((await post(changed, token, insert)).status, 200, 'the data are kept')
  t.equal(await stop(changed, 'SIGTERM'), 0)

  const fresh = await start(t, folder, { args: ['--reset', 'notes.sql'] })
  t.match(fresh.printed, '\nNo role that can use this database is granted to oneflight')
  t.match(fresh.printed, '\ngrant select on other to app_user;\n')
  t.equal(await stop(fresh, 'SIGTERM'), 0)
})

t.test('a failed start prints one line and leaves no server running', async t => {
  const folder = await makeFolder(t)
  await writeFile(join(folder, 'broken.sql'), "select 'é😀';\n\ncreate tabel t ();\n")
  await writeFile(join(folder, 'zero.sql'), 'select 1 / 0;')
  await writeFile(join(folder, 'postgres.sql'), '')
  const rows: ReadonlyArray<
    readonly [args: readonly string[], message: RegExp, env?: Readonly<Record<string, string>>]
  > = [
    [['--fresh'], /^oneflight: unknown option; usage: npm run dev \[-- \[--reset\] \[file\.sql\]\]\n$/],
    [['a.sql', 'b.sql'], /^oneflight: expected at most one file; usage: [^\n]*\n$/],
    [['missing.sql'], /^oneflight: no such file: [^\n]*missing\.sql\n$/],
    [['.'], /^oneflight: no such file: [^\n]*\n$/],
    [['broken.sql'], /^oneflight: broken\.sql:3: syntax error at or near "tabel"\n$/],
    [['zero.sql'], /^oneflight: zero\.sql: division by zero\n$/],
    [['postgres.sql'], /^oneflight: postgres\.sql: rename the file, .* "postgres"\n$/],
    [[], /^oneflight: LOG_LEVEL: [^\n]*\n$/, { LOG_LEVEL: 'loud' }],
    [[], /^oneflight: BATCHES_DIR: the folder \/nowhere cannot be read \(ENOENT\)\n$/, { BATCHES_DIR: '/nowhere' }]
  ]
  for (const [args, message, env] of rows) {
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], {
      cwd: folder,
      env: { ...process.env, ...env },
      encoding: 'utf8'
    })
    t.equal(status, 1)
    t.match(stderr, message)
  }
  // A server that was left running would hold the data directory.
  const again = await start(t, folder)
  t.equal(await stop(again, 'SIGTERM'), 0)
})
