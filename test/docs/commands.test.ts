/**
 * The commands of the documentation. Every shell block says in the comment directly above it how it
 * is checked:
 *
 *     <!-- run: shop --> run here, by `sh -eu`, against the service on the sample shop, block after
 *     block of its page <!-- run by: test/x.test.ts --> by a test that runs just that <!-- not run:
 *     <reason> --> with a reason of at least three words
 *
 * An output is held against the next block when that is marked `<!-- answer -->`: `json` without
 * regard to white space, `text` as it stands, times and UUIDs aside (see `settle`).
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openTerminal, settle, settleJson, useShop } from '../support/docs/commands.ts'
import { listPages, readBlocks, readPage, root, type Block } from '../support/docs/pages.ts'

const SHELLS = new Set(['sh', 'bash', 'shell', 'console'])

/**
 * What blocks are run against; `sh` and `bash` alone, for a `console` mixes commands with what they
 * print.
 */
const PLACES = new Set(['shop'])
const RUNNABLE = new Set(['sh', 'bash'])

/** What is wrong with what a page says of its blocks, each with its line. */
function faultsOf (blocks: readonly Block[]): readonly string[] {
  return blocks.flatMap(({ language, check, line }, i) => {
    const fault = check?.kind === 'answer'
      ? faultOfAnswer(language, blocks[i - 1])
      : SHELLS.has(language)
        ? faultOfCommand(language, check)
        : undefined
    return fault === undefined ? [] : [`line ${line}: ${fault}`]
  })
}

function faultOfCommand (language: string, check: Block['check']): string | undefined {
  switch (check?.kind) {
    case 'run':
      if (!PLACES.has(check.where)) return `there is no "${check.where}" to run it against`
      return RUNNABLE.has(language) ? undefined : `a block of ${language} is not run`
    case 'run by':
      return existsSync(join(root, check.file)) && check.file.endsWith('.test.ts')
        ? undefined
        : `there is no test ${check.file}`
    case 'not run':
      return check.reason.split(/\s+/).length >= 3 ? undefined : 'its reason is no reason'
    default:
      return 'nothing above it says how it is checked'
  }
}

function faultOfAnswer (language: string, command: Block | undefined): string | undefined {
  if (language !== 'json' && language !== 'text') return `an answer in ${language} is not compared`
  return command?.check?.kind === 'run' ? undefined : 'the answer to nothing that is run'
}

t.test('faults are seen', async t => {
  const faults = (text: string): readonly string[] => faultsOf(readBlocks(text))
  const block = (above: string, language = 'sh'): string =>
    `${above}\n\`\`\`${language}\ntrue\n\`\`\`\n`
  const run = block('<!-- run: shop -->')
  t.same(
    faults(
      `${run}${block('<!-- answer -->', 'json')}${
        block('<!-- run by: test/docs/commands.test.ts -->')
      }${block('<!-- not run: it needs Docker -->', 'console')}`
    ),
    []
  )
  t.same(faults(block('')), ['line 2: nothing above it says how it is checked'])
  t.same(
    faults(block('<!-- run: shop -->\n')),
    ['line 3: nothing above it says how it is checked'],
    'not directly above'
  )
  t.same(faults(block('<!-- run: elsewhere -->')), [
    'line 2: there is no "elsewhere" to run it against'
  ])
  t.same(faults(block('<!-- run: shop -->', 'console')), ['line 2: a block of console is not run'])
  t.same(faults(block('<!-- run by: test/none.test.ts -->')), [
    'line 2: there is no test test/none.test.ts'
  ])
  t.same(faults(block('<!-- run by: README.md -->')), ['line 2: there is no test README.md'])
  t.same(faults(block('<!-- not run: why not -->')), ['line 2: its reason is no reason'])
  t.same(
    faults(`1. A list\n\n   \`\`\`bash\n   true\n   \`\`\`\n${block('<!-- answer -->', 'json')}`),
    [
      'line 3: nothing above it says how it is checked',
      'line 7: the answer to nothing that is run'
    ],
    'indented, too'
  )
  t.same(faults(`${run}${block('<!-- answer -->', 'http')}`), [
    'line 6: an answer in http is not compared'
  ])
  t.same(faults(`~~~md\n${block('')}~~~\n`), [], 'a block in a block is text')
})

t.test('what may differ from run to run, and nothing else', async t => {
  t.equal(settle('a 2026-11-20T09:30:00.123456+00:00 b\r\n'), 'a <time> b')
  t.equal(settle('5856fecf-0c36-4a9b-bb2d-68428cc8a070 2026-11-20'), '<uuid> 2026-11-20')
  t.equal(settleJson('{"a b": [1.10, 2]}'), '{"a b":[1.10,2]}')
})

const pages = listPages().map(path => ({ path, blocks: readBlocks(readPage(path)) }))

t.test('every shell block says how it is checked', async t => {
  for (const { path, blocks } of pages) t.same(faultsOf(blocks), [], path)
  t.ok(pages.some(({ path }) => path === 'README.md'))
  t.ok(pages.some(({ path }) => path.startsWith('docs/')))
})

for (const { path, blocks } of pages) {
  const isRun = ({ check }: Block): boolean => check?.kind === 'run' && check.where === 'shop'
  if (!blocks.some(isRun)) continue
  t.test(path, async t => {
    const { run } = openTerminal(t, await useShop(t))
    for (const [i, block] of blocks.entries()) {
      if (!isRun(block)) continue
      const name = `line ${block.line}: ${block.text.split('\n')[0]}`
      const { code, stdout, stderr } = await run(block.text)
      t.equal(code, 0, name, { stdout, stderr })
      const answer = blocks[i + 1]
      if (answer?.check?.kind !== 'answer') continue
      const settled = answer.language === 'json' ? settleJson : settle
      t.equal(settled(stdout), settled(answer.text), `${name}: the answer`)
    }
  })
}
