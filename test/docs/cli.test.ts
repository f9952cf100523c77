/** Tests that the commands of docs/reference/cli.md print the documented output. */
import { spawn } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { program } from '../support/process/cli.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { childEnvironment } from '../support/process/process.ts'
import { token } from '../support/service.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'

t.test('the commands print the documented output', async t => {
  const service = await useShopService(t, { keys: true, env: { EXPLAIN: 'on' } })
  // The program is on the PATH under its name, as after an installation.
  const directory = t.testdir({
    oneflight: `#!/bin/sh\nexec '${process.execPath}' --disable-warning=ExperimentalWarning ` +
      `'${program}' "$@"\n`
  })
  chmodSync(join(directory, 'oneflight'), 0o755)
  const env = childEnvironment({
    PATH: `${directory}${delimiter}${process.env['PATH'] ?? ''}`,
    ONEFLIGHT_URL: service.url,
    DATABASE_URL: service.database.loginUrl,
    ONEFLIGHT_TOKEN: token(CUSTOMER)
  })
  const page = readPage('docs/reference/cli.md')
  const blocks = readBlocks(page)
  const own = blocks
    .map((block, i) => [block, blocks[i + 1]?.text] as const)
    .filter(([{ check }]) => check?.kind === 'run by' && check.file === 'test/docs/cli.test.ts')
    .filter(([{ language }]) => language === 'sh')
  t.equal(own.length, page.match(/run by: test\/docs\/cli\.test/g)?.length)
  for (const [{ text: line }, expected] of own) {
    const child = spawn('sh', ['-c', `exec 2>&1\n${line}`], {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'inherit']
    })
    t.equal((await text(child.stdout)).trimEnd(), expected, line)
  }
})
