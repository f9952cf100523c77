/**
 * Tests docs/guides/row-level-security.md: its commands run in their order, its SQL with `npm run
 * dev`, and its batches return the printed responses.
 */
import { STATUS_CODES } from 'node:http'
import t, { type Test } from 'tap'
import { execute } from '../support/database/execute.ts'
import { openShell, settleJson } from '../support/docs/commands.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { childEnvironment, startGroup } from '../support/process/process.ts'
import { until } from '../support/until.ts'

const page = readPage('docs/guides/row-level-security.md')

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

/** Runs the service of `npm run dev` as the page says, with free ports. */
async function startDev (
  t: Test,
  folder: string,
  commands: string
): Promise<{ readonly url: string, readonly database: string }> {
  const group = startGroup(t, ['sh', ['-euc', commands]], {
    cwd: folder,
    env: childEnvironment({ HOME: process.env['HOME'], HTTP_PORT: '0', ADMIN_HTTP_PORT: '0' })
  })
  t.teardown(async () => {
    process.kill(-(group.child.pid as number), 'SIGTERM')
    await group.ended
  })
  const printed = (pattern: RegExp): Promise<string> => until(() => {
    if (group.child.exitCode !== null) throw new Error(group.output())
    return pattern.exec(group.output())?.[1]
  })
  return {
    url: await printed(/main server +(http:\S+)/),
    database: await printed(/database +(postgres:\S+)/)
  }
}

t.test('the page, pasted from top to bottom, gives the printed responses', async t => {
  const [start = '', ...commands] = readBlocks(page).filter(({ language }) => language === 'sh')
    .map(({ text }) => text)
  const terminal = openShell(t, {})
  // Prints the status, too.
  await terminal.run('mkdir .home && echo \'write-out = "\\\\n%{http_code}"\' > .home/.curlrc')
  const { url, database } = await startDev(t, terminal.folder, start)
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
  const plan = await execute(
    { url: database },
    'set role shop_member',
    'explain (verbose, costs off) select * from lines'
  )
  const text = plan.map(row => row['QUERY PLAN']).join('\n')
  t.match(text, /InitPlan[^]*claims/, 'claims in a subquery are read once for each statement')
})
