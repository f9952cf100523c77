/**
 * Tests the TypeScript examples of README.md, docs/reference/client.md and client/README.md: they
 * compile, run in order on the sample shop, and print what their comments say. A block that begins
 * with a file name is that file. Every other block is a program that may use `client`, `$` and
 * `OneflightError` without importing them.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { compileClient } from '../support/process/client-browser.ts'
import { runProgram } from '../support/process/programs.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { token } from '../support/service.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'

const run = promisify(execFile)
const compilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: 'es2024',
  lib: ['es2024'],
  module: 'nodenext',
  allowImportingTsExtensions: true,
  exactOptionalPropertyTypes: true,
  typeRoots: [join(root, 'node_modules/@types')],
  types: ['node']
}

const pages = ['README.md', 'docs/reference/client.md', 'client/README.md']

t.test('the examples compile and print the documented output', async t => {
  // All pages are compiled in one run because the compiler takes seconds to start.
  const home = t.testdir({
    'package.json': '{"type":"module"}',
    'tsconfig.json': JSON.stringify({ compilerOptions }),
    ...Object.fromEntries(pages.map(page => [directoryOf(page), {}]))
  })
  const client = join(home, 'node_modules/oneflight-client')
  await mkdir(client, { recursive: true })
  await cp(join(root, 'client/package.json'), join(client, 'package.json'))
  await compileClient(join(client, 'dist'))

  const programs = new Map<string, readonly string[]>()
  for (const page of pages) {
    const service = await useShopService(t, {
      keys: true,
      env: { MAX_STREAM_ROWS: '100000' }
    })
    programs.set(page, await writePrograms(page, join(home, directoryOf(page)), service.url))
  }

  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const { output } = await runProgram(process.execPath, [tsc, '-p', home])
  t.equal(output, '', 'compiles')
  for (const [page, texts] of programs) {
    const { stdout } = await run(process.execPath, [
      '--disable-warning=ExperimentalWarning',
      join(home, directoryOf(page), 'all.ts')
    ], {
      cwd: home,
      env: { ...process.env, ONEFLIGHT_TOKEN: token(CUSTOMER) }
    })
    const expected = texts.flatMap(text =>
      [...text.matchAll(/^ *console\.log\(.*\) \/\/ (.*)$/gm)].map(([, output]) => output)
    )
    t.ok(expected.length > 0, `${page} prints something`)
    t.same(stdout.trimEnd().split('\n'), expected, `${page}: the output is as documented`)
  }
})

/** Writes the blocks of a page and `all.ts`, which runs them in order. Returns the programs. */
async function writePrograms (
  page: string,
  directory: string,
  url: string
): Promise<readonly string[]> {
  const blocks = readBlocks(readPage(page)).filter(({ language }) => language === 'ts')
    .map(({ text }) => text.replaceAll('http://127.0.0.1:4000', url))
  const fileOf = (text: string): string | undefined => /^\/\/ ([\w.-]+\.ts)\n/.exec(text)?.[1]
  const programs = blocks.filter(text => fileOf(text) === undefined)
  for (const text of blocks) {
    await writeFile(
      join(directory, fileOf(text) ?? `program-${programs.indexOf(text)}.ts`),
      fileOf(text) === undefined ? withImports(text) : text
    )
  }
  await writeFile(
    join(directory, 'all.ts'),
    programs.map((_, i) => `await import('./program-${i}.ts')`).join('\n')
  )
  return programs
}

function directoryOf (page: string): string {
  return page.replace(/\W/g, '-')
}

/** Names that programs may use without an import, and their modules. */
const known = [
  ['client', './shop.ts'],
  ['$', 'oneflight-client'],
  ['OneflightError', 'oneflight-client']
] as const

/** Adds the imports of the known names that a block uses and neither imports nor declares. */
function withImports (text: string): string {
  const words = (line: string): readonly string[] => line.match(/[\w$]+/g) ?? []
  const lines = text.split('\n')
  const own = new Set(
    lines.flatMap(line =>
      line.startsWith('import ')
        ? words(line.split(' from ', 1)[0] as string)
        : /^const (\w+) =/.exec(line)?.slice(1) ?? []
    )
  )
  const used = new Set(words(text))
  return [
    ...known.filter(([name]) => used.has(name) && !own.has(name)).map(([name, from]) =>
      `import { ${name} } from '${from}'`
    ),
    text,
    'export {}',
    ''
  ].join('\n')
}
