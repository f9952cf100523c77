/** Tests that the commands of docs/reference/cli.md print the documented output. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { useShopService } from '../support/database/shop.ts'
import { openTerminal } from '../support/docs/commands.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { program } from '../support/process/cli.ts'

t.test('the commands print the documented output', async t => {
  const service = await useShopService(t, { keys: true, env: { EXPLAIN: 'on' } })
  const { folder, run } = openTerminal(t, service)
  // The program is on the PATH under its name, as after an installation.
  const node = `'${process.execPath}' --disable-warning=ExperimentalWarning`
  const file = join(folder, 'oneflight')
  writeFileSync(file, `#!/bin/sh\nexec ${node} '${program}' "$@"\n`, { mode: 0o755 })
  await run(`export PATH="$PWD:$PATH" DATABASE_URL='${service.database.loginUrl}'`)
  const page = readPage('docs/reference/cli.md')
  const blocks = readBlocks(page)
  const own = blocks
    .map((block, i) => [block, blocks[i + 1]?.text] as const)
    .filter(([{ check }]) => check?.kind === 'run by' && check.file === 'test/docs/cli.test.ts')
    .filter(([{ language }]) => language === 'sh')
  t.equal(own.length, page.match(/run by: test\/docs\/cli\.test/g)?.length)
  for (const [{ text }, expected] of own) {
    t.equal((await run(`exec 2>&1\n${text}`)).stdout.trimEnd(), expected, text)
  }
})
