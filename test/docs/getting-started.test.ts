/**
 * Tests "Your own database" and "From TypeScript" of docs/guides/getting-started.md: the SQL
 * creates the database, the commands start the service, sign a token and send a batch with the
 * printed response, and the program prints the documented output. commands.test.ts and
 * e2e/dev.test.ts run the other commands.
 */
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePort } from '../../scripts/dev/port.ts'
import { useDatabase, withAdmin } from '../support/database/database.ts'
import { openShell, settleJson } from '../support/docs/commands.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { childEnvironment, startGroup } from '../support/process/process.ts'
import { ask } from '../support/service.ts'
import { until } from '../support/until.ts'

/**
 * A suffix for role names. Roles belong to the cluster, which concurrent runs of the suite may
 * share.
 */
const suffix = `${process.pid}_${Date.now().toString(36)}`
const rename = (text: string): string =>
  text.replace(/\bapp_user\b|(?<!-s )\boneflight\b(?!-)/g, `$&_${suffix}`)

const page = readPage('docs/guides/getting-started.md')
const blocks = readBlocks(page.slice(page.indexOf('## Your own database')))
const textOf = (language: string): readonly string[] =>
  blocks.filter(block => block.language === language).map(({ text }) => text)
const [schema = '', loginRole = ''] = textOf('sql')
const [namedBatch = '', answer = '', namedAnswer = ''] = textOf('json')
const [program = ''] = textOf('ts')
const [, sign = '', , send = '', sendNamed = '', start = '', , writeTypes = '', check = ''] =
  textOf('sh')

t.teardown(() => withAdmin(sql => sql.unsafe(rename('drop role if exists oneflight, app_user'))))

/** Starts the service with the commands of a block, and stops it at the end of `t`. */
function run (t: Test, script: string, env: Readonly<Record<string, string>>): void {
  const { child, ended } = startGroup(t, ['sh', ['-euc', script]], {
    cwd: root,
    env: childEnvironment({ HOME: process.env['HOME'], LOG_LEVEL: 'warn', ...env })
  })
  t.teardown(async () => {
    process.kill(-(child.pid as number), 'SIGTERM')
    await ended
  })
}

/** Adds the client to the packages of a folder, as its installation would. */
function installClient (folder: string): void {
  const modules = join(folder, 'node_modules')
  rmSync(modules)
  mkdirSync(join(modules, 'oneflight-client'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(join(root, 'node_modules', name), join(modules, name))
  }
  writeFileSync(
    join(modules, 'oneflight-client/package.json'),
    '{"type": "module", "exports": "./src/index.ts"}'
  )
  symlinkSync(join(root, 'client/src'), join(modules, 'oneflight-client/src'))
}

t.test('the service runs on your own database as described', async t => {
  t.same(['sql', 'json', 'ts', 'sh'].map(language => textOf(language).length), [2, 3, 1, 9])
  const terminal = openShell(t, {})
  const batches = join(terminal.folder, 'batches')
  mkdirSync(batches)
  writeFileSync(join(batches, 'add-note.json'), namedBatch)
  const database = await useDatabase(t)
  await database.sql.unsafe(rename(`${loginRole}\n${schema}`))

  const [port, adminPort] = [await freePort(), await freePort()]
  const { host, pathname } = new URL(database.url)
  const localize = (text: string): string =>
    rename(text)
      .replace(/postgres:\/\/postgres@127\.0\.0\.1:5432\/app/g, () => database.url)
      .replace('127.0.0.1:5432/app', () => `${host}${pathname}`)
      .replace('127.0.0.1:15432/notes', () => `${host}${pathname}`)
      .replaceAll('127.0.0.1:4000', `127.0.0.1:${port}`)

  const started = localize(start)
  run(t, started, {
    HTTP_PORT: String(port),
    ADMIN_HTTP_PORT: String(adminPort),
    BATCHES_DIR: batches
  })
  await until(() =>
    ask(`http://127.0.0.1:${port}/health`).then(({ status }) => status === 200, () => false)
  )

  t.same(await database.sql`select count(*)::int as n from oneflight.idempotency_keys`, [{ n: 0 }])

  // The secret of `npm run dev`; here it is that of the service.
  const secret = /JWT_SECRET='([^']*)'/.exec(started)?.[1] as string
  await terminal.run(`mkdir .data && printf %s '${secret}' > .data/jwt-secret`)
  const signed = await terminal.run(localize(sign))
  t.equal(signed.code, 0, signed.stderr)
  const sent = await terminal.run(localize(send))
  t.equal(sent.code, 0, sent.stderr)
  t.equal(settleJson(sent.stdout), settleJson(answer))
  const sentNamed = await terminal.run(localize(sendNamed))
  t.equal(settleJson(sentNamed.stdout), settleJson(namedAnswer))

  const other = await terminal.run(
    `${localize(sign).replace('corner-shop', 'bakery')}\n${localize(send)}`
  )
  t.match(JSON.parse(other.stdout), {
    data: { note: [{ id: 3, owner: 'bakery' }], mine: [{ count: 1 }] }
  }, 'another user sees only their own notes')

  installClient(terminal.folder)
  const written = await terminal.run(localize(writeTypes))
  t.equal(written.code, 0, written.stderr)
  writeFileSync(join(terminal.folder, 'notes.mts'), localize(program))
  const checked = await terminal.run(check)
  t.same(checked, { code: 0, stdout: "[ { body: 'Bake a pie' } ]\nEat the pie\n", stderr: '' })
})
