/**
 * Tests the commands of the documentation. The comment directly above a shell block says how the
 * block is tested:
 *
 *     <!-- run: shop -->                 this test runs it with `sh -eu` against the sample shop
 *     <!-- run by: test/x.test.ts -->    another test runs it
 *     <!-- not run: <reason> -->         nothing runs it; the reason has at least three words
 *
 * Blocks of a page run in order. If the next block is marked `<!-- answer -->`, the output must
 * equal it: `json` apart from white space, `text` exactly; times and UUIDs may differ.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openTerminal, settle, settleJson, useShop } from '../support/docs/commands.ts'
import { listPages, readBlocks, readPage, root, type Block } from '../support/docs/pages.ts'

const SHELLS = new Set(['sh', 'bash', 'shell', 'console'])

/**
 * Targets of `run`, and the languages that can run: a `console` block mixes commands and output.
 */
const TARGETS = new Set(['shop'])
const RUNNABLE = new Set(['sh', 'bash'])

/** Returns the problems of the comments above the blocks of a page, each with its line. */
function problemsOf (blocks: readonly Block[]): readonly string[] {
  return blocks.flatMap(({ language, check, line }, i) => {
    const problem = check?.kind === 'answer'
      ? problemOfAnswer(language, blocks[i - 1])
      : SHELLS.has(language)
        ? problemOfCommand(language, check)
        : undefined
    return problem === undefined ? [] : [`line ${line}: ${problem}`]
  })
}

function problemOfCommand (language: string, check: Block['check']): string | undefined {
  switch (check?.kind) {
    case 'run':
      if (!TARGETS.has(check.where)) return `unknown target "${check.where}"`
      return RUNNABLE.has(language) ? undefined : `cannot run a ${language} block`
    case 'run by':
      return existsSync(join(root, check.file)) && check.file.endsWith('.test.ts')
        ? undefined
        : `no such test: ${check.file}`
    case 'not run':
      return check.reason.split(/\s+/).length >= 3 ? undefined : 'the reason is too short'
    default:
      return 'no comment above it says how it is tested'
  }
}

function problemOfAnswer (language: string, command: Block | undefined): string | undefined {
  if (language !== 'json' && language !== 'text') return `cannot compare an answer in ${language}`
  return command?.check?.kind === 'run' ? undefined : 'the block above the answer is not run'
}

t.test('problems are reported', async t => {
  const block = (above: string, language = 'sh'): string =>
    `${above}\n\`\`\`${language}\ntrue\n\`\`\`\n`
  const run = block('<!-- run: shop -->')
  const answer = block('<!-- answer -->', 'json')
  const rows: ReadonlyArray<readonly [text: string, ...problems: string[]]> = [
    [`${run}${answer}${block('<!-- run by: test/docs/commands.test.ts -->')}`],
    [block('<!-- not run: it needs Docker -->', 'console')],
    [block('<!-- run: shop -->\n'), 'line 3: no comment above it says how it is tested'],
    [block('<!-- run: elsewhere -->'), 'line 2: unknown target "elsewhere"'],
    [block('<!-- run: shop -->', 'console'), 'line 2: cannot run a console block'],
    [block('<!-- run by: test/none.test.ts -->'), 'line 2: no such test: test/none.test.ts'],
    [block('<!-- run by: README.md -->'), 'line 2: no such test: README.md'],
    [block('<!-- not run: why not -->'), 'line 2: the reason is too short'],
    [`- A list\n\n  \`\`\`bash\n  \`\`\`\n${answer}`,
      'line 3: no comment above it says how it is tested',
      'line 6: the block above the answer is not run'],
    [`${run}${block('<!-- answer -->', 'http')}`, 'line 6: cannot compare an answer in http'],
    [`~~~md\n${block('')}~~~\n`]
  ]
  for (const [text, ...problems] of rows) t.same(problemsOf(readBlocks(text)), problems, text)
})

t.test('comparisons ignore only times, UUIDs and white space of JSON', async t => {
  t.equal(settle('a 2026-11-20T09:30:00.123456+00:00 b\r\n'), 'a <time> b')
  t.equal(settle('5856fecf-0c36-4a9b-bb2d-68428cc8a070 2026-11-20'), '<uuid> 2026-11-20')
  t.equal(settleJson('{"a b": [1.10, 2]}'), '{"a b":[1.10,2]}')
})

const pages = listPages().map(path => ({ path, blocks: readBlocks(readPage(path)) }))

t.test('the comment above every shell block says how it is tested', async t => {
  for (const { path, blocks } of pages) t.same(problemsOf(blocks), [], path)
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
