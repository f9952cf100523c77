/**
 * Tests docs/guides/row-level-security.md: its commands run in their order, its SQL with `npm run
 * dev`, and its batches return the printed responses. Tests that the tests named in
 * docs/operations/security.md exist.
 */
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import t, { type Test } from 'tap'
import { withAdmin } from '../support/database/database.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { openShell, settleJson } from '../support/docs/commands.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { childEnvironment, startGroup } from '../support/process/process.ts'
import { token, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

/**
 * A suffix for role names. Roles belong to the cluster, which concurrent runs of the suite may
 * share.
 */
const suffix = `${process.pid}_${Date.now().toString(36)}`
const rename = (text: string): string =>
  text.replace(/\b(oneflight|shop_(?:guest|member|auditor))\b/g, `$1_${suffix}`)

const major = await withAdmin(async sql =>
  Math.floor(Number((await sql`show server_version_num`)[0]?.['server_version_num']) / 10_000)
)
/** The blocks of the page; `security_invoker` views need PostgreSQL 15. */
const page = readPage('docs/guides/row-level-security.md')
const blocks = readBlocks(page).filter(({ heading }) => major >= 15 || heading !== 'Views')
const schema = rename(
  "create role oneflight login noinherit password 'change-me';\n" +
  blocks.filter(({ language }) => language === 'sql').map(({ text }) => text).join('\n')
)
const roles = Array.from(schema.matchAll(/^create role (\w+)/gm), ([, name]) => name as string)
/** The printed response of each batch, and its status line. */
function readAnswers (): ReadonlyArray<{ readonly head: string, readonly answer: string }> {
  const blocks = readBlocks(page)
  return blocks.flatMap(({ language, text }, i) => {
    if (language !== 'sh' || !text.startsWith('curl ')) return []
    const [next, afterNext] = blocks.slice(i + 1)
    return next?.language === 'http'
      ? [{ head: next.text.split('\n', 1)[0] as string, answer: afterNext?.text ?? '' }]
      : [{ head: 'HTTP/1.1 200 OK', answer: next?.text ?? '' }]
  })
}

// Teardown handlers run in reverse order, so the databases that refer to the roles are already
// dropped.
t.teardown(() => withAdmin(sql => sql.unsafe(`drop role if exists ${roles.join()}`)))

const login = (url: string): string =>
  Object.assign(new URL(url), { username: rename('oneflight'), password: 'change-me' }).href

/** Runs the service of `npm run dev` as the page says, with free ports. */
async function startDev (
  t: Test,
  folder: string,
  commands: string
): Promise<{ readonly url: string }> {
  const group = startGroup(t, ['sh', ['-euc', commands]], {
    cwd: folder,
    env: childEnvironment({ HOME: process.env['HOME'], HTTP_PORT: '0', ADMIN_HTTP_PORT: '0' })
  })
  t.teardown(async () => {
    process.kill(-(group.child.pid as number), 'SIGTERM')
    await group.ended
  })
  const url = await until(() => {
    if (group.child.exitCode !== null) throw new Error(group.output())
    return /main server +(http:\S+)/.exec(group.output())?.[1]
  })
  return { url }
}

t.test('the page, pasted from top to bottom, gives the printed responses', async t => {
  const [start = '', ...commands] = readBlocks(page).filter(({ language }) => language === 'sh')
    .map(({ text }) => text)
  const terminal = openShell(t, {})
  // Prints the status, too.
  await terminal.run('mkdir .home && echo \'write-out = "\\\\n%{http_code}"\' > .home/.curlrc')
  const { url } = await startDev(t, terminal.folder, start)
  const printed = readAnswers()
  t.equal(commands.length, printed.length + 1)
  for (const [i, command] of commands.entries()) {
    const { code, stdout, stderr } = await terminal.run(
      command.replaceAll('http://127.0.0.1:4000', url)
    )
    t.equal(code, 0, `${command}: ${stderr}`)
    const { head, answer } = printed[i - 1] ?? { head: undefined, answer: '' }
    if (head === undefined) continue
    const [, body = '', status = ''] = /^([^]*)\n(\d+)$/.exec(stdout.trimEnd()) ?? []
    t.equal(`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, head, command)
    t.equal(settleJson(body), settleJson(answer), command)
  }
})

t.test('with the setting of the page, a key of one tenant is free in another', async t => {
  const [, name = '', scope = ''] = /`(IDEMPOTENCY_SCOPE)=([^`]+)`/.exec(page) ?? []
  const service = await useService(t, { schema, env: { [name]: scope }, databaseUrl: login })
  await makeKeyTable({ ...service.database, login: rename('oneflight') })
  const sub = randomUUID()
  const send = async (tenant: string): Promise<string> => {
    const claims = { role: rename('shop_member'), sub, app_metadata: { tenant } }
    const authorization = `Bearer ${token(claims)}`
    const { text } = await service.post(
      [{ id: 'i', op: 'insert', table: 'invoices', values: [{ total: 1 }], returning: ['tenant'] }],
      { role: null, headers: { 'idempotency-key': 'k', authorization } }
    )
    return text
  }
  for (const tenant of ['bakery', 'corner-shop', 'bakery', 'corner-shop']) {
    t.equal(await send(tenant), `{"error":null,"data":{"i":[{"tenant":"${tenant}"}]}}`)
  }
  t.equal((await service.database.sql`select from invoices`).length, 2)
})

t.test('claims in a subquery are read once per statement', async t => {
  const { database: { sql } } = await useService(t, { schema })
  const plan = await sql.begin(async sql => {
    await sql.unsafe(`set local role ${rename('shop_member')}`)
    return sql.unsafe('explain (verbose, costs off) select * from lines')
  })
  t.match(plan.map(row => row['QUERY PLAN']).join('\n'), /InitPlan[^]*claims/)
})

t.test('the tests named in security.md exist', async t => {
  const page = readPage('docs/operations/security.md')
  const named = new Set(page.match(/(?<=`)test\/[\w/-]+\.test\.ts(?=`)/g))
  t.not(named.size, 0)
  for (const name of named) t.ok(existsSync(new URL(`../../${name}`, import.meta.url)), name)
})
