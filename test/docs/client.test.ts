/**
 * The examples of README.md, docs/reference/client.md and client/README.md: they compile, they run
 * on the shop of `npm run dev` one after the other, and print what stands behind them. A block that
 * begins with the name of a file is that file; every other one is a program of its own, which has
 * `client`, `$` and `OneflightError` as the page says.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { compileClient } from '../support/process/client-browser.ts'
import { codeBlocks } from '../support/docs/markdown.ts'
import { token } from '../support/service.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')
const compilerOptions = {
  strict: true,
  noEmit: true,
  target: 'es2024',
  lib: ['es2024'],
  module: 'nodenext',
  allowImportingTsExtensions: true,
  exactOptionalPropertyTypes: true,
  typeRoots: [join(root, 'node_modules/@types')],
  types: ['node']
}

for (const page of ['README.md', 'docs/reference/client.md', 'client/README.md']) {
  t.test(page, async t => {
    const directory = t.testdir({
      'package.json': '{"type":"module"}',
      'tsconfig.json': JSON.stringify({ compilerOptions })
    })
    const client = join(directory, 'node_modules/oneflight-client')
    await mkdir(client, { recursive: true })
    await cp(join(root, 'client/package.json'), join(client, 'package.json'))
    await compileClient(join(client, 'dist'))

    const service = await useShopService(t, { keys: true })
    const blocks = codeBlocks(await readFile(join(root, page), 'utf8')).filter(({ language }) =>
      language === 'ts'
    ).map(({ text }) => text.replaceAll('http://127.0.0.1:4000', service.url))
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

    const checked = run(process.execPath, [
      join(root, 'node_modules/typescript/bin/tsc'),
      '-p',
      directory
    ])
    t.equal(
      await checked.then(({ stdout }) => stdout, ({ stdout }: { stdout: string }) => stdout),
      '',
      'compiles'
    )
    const { stdout } = await run(process.execPath, [
      '--disable-warning=ExperimentalWarning',
      join(directory, 'all.ts')
    ], {
      cwd: directory,
      env: { ...process.env, TOKEN: token(CUSTOMER) }
    })
    const expected = programs.flatMap(text =>
      [...text.matchAll(/^ *console\.log\(.*\) \/\/ (.*)$/gm)].map(([, output]) => output)
    )
    t.ok(expected.length > 0)
    t.same(stdout.trimEnd().split('\n'), expected, 'prints what is printed')
  })
}

/** Names that the page says are imported, and where they are from. */
const known = [['client', './shop.ts'], ['$', 'oneflight-client'], [
  'OneflightError',
  'oneflight-client'
]] as const

/** A block with those of them that it uses and does not import or declare itself. */
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
