/**
 * Runs the examples of docs/guides/agents.md on the sample shop.
 */
import { execFile } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { useShop } from '../support/docs/commands.ts'
import { CUSTOMER } from '../support/database/shop.ts'
import { readText, sendMessage, writeCall } from '../support/mcp.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { token } from '../support/service.ts'

const blocks = readBlocks(readPage('docs/guides/agents.md'))
const textOf = (language: string, start: string): string =>
  blocks.find(({ language: found, text }) => found === language && text.startsWith(start))
    ?.text as string

const service = await useShop(t, { env: { MCP: 'on' } })

t.test('a program lists and calls the tools', async t => {
  const folder = t.testdir({})
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const program = textOf('js', 'import').replace('http://127.0.0.1:4000', service.url)
  writeFileSync(join(folder, 'agent.mjs'), program)
  const { stdout } = await promisify(execFile)(process.execPath, ['agent.mjs'], {
    cwd: folder,
    env: { ONEFLIGHT_TOKEN: token(CUSTOMER) }
  })
  t.equal(stdout.trim(), textOf('text', 'order').trim())
})

t.test('an error of a call', async t => {
  const call = writeCall('transfer', '{"from":"till","to":"bank","amount":2.505}')
  const answer = await sendMessage(service, call, {
    headers: { authorization: `Bearer ${token(CUSTOMER)}`, 'x-request-id': 'docs' }
  })
  t.same(JSON.parse(readText(answer)), JSON.parse(textOf('json', '{\n  "committed"')))
})
