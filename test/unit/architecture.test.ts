/**
 * Tests the import directions of CONTRIBUTING.md, the exports of the package, and which files may
 * use the process, the database driver and transactions. Reads the sources as text.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '../..')

/** The other modules that each module may import from. */
const directions: Readonly<Record<string, string>> = {
  schemas: '',
  errors: 'schemas',
  json: 'errors schemas',
  plan: 'json errors schemas',
  named: 'values plan json errors schemas',
  mcp: 'named plan json errors schemas',
  fragment: '',
  catalogue: 'fragment',
  values: 'catalogue json',
  postgres: 'fragment errors schemas',
  sql: 'sql/operations sql/citus sql/values sql/frame sql/statement values fragment postgres ' +
    'plan errors schemas',
  'sql/operations': 'sql/values sql/statement fragment plan schemas',
  'sql/citus': 'sql/values sql/frame sql/statement fragment postgres plan errors schemas',
  'sql/values': 'sql/statement values catalogue fragment plan json schemas',
  'sql/frame': 'sql/statement fragment postgres plan schemas',
  'sql/statement': 'values catalogue fragment postgres plan json errors',
  transaction: 'sql sql/values sql/frame sql/statement values fragment postgres plan ' +
    'json errors schemas',
  tables: 'catalogue transaction fragment postgres errors schemas',
  openapi: 'named plan json errors schemas',
  auth: 'json errors schemas',
  config: 'auth errors schemas',
  plugins: 'auth mcp named openapi tables transaction sql sql/frame postgres plan json errors ' +
    'schemas',
  server: 'plugins named transaction config schemas',
  cluster: 'server named transaction',
  cli: 'catalogue tables transaction sql named openapi postgres config auth plan json errors ' +
    'schemas',
  process: 'server cluster cli named config postgres schemas'
}

/** The files of the modules that are no folder of src. */
const places: Readonly<Record<string, RegExp>> = {
  schemas: /^schemas\//,
  sql: /^src\/sql\/[a-z-]+\.ts$/,
  plugins: /^plugins\//,
  process: /^src\/(main|process|parent|migrate|cli|index)\.ts$/
}

const modules = Object.entries(directions).map(([module, imports]) =>
  [module, places[module] ?? new RegExp(`^src/${module}/`), imports.split(' ')] as const
)

interface Source {
  readonly file: string
  readonly text: string
  readonly imports: readonly string[]
  /** The imports of more than types, without those that are loaded when they are needed. */
  readonly loads: readonly string[]
}

const sources: readonly Source[] = ['schemas', 'src', 'plugins']
  .flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(file =>
      join(folder, file)
    )
  )
  .filter(file => file.endsWith('.ts'))
  .map(file => {
    const text = readFileSync(join(root, file), 'utf8')
    const find = (pattern: RegExp): readonly string[] =>
      [...text.matchAll(pattern)].map(([, path]) =>
        relative(root, resolve(root, dirname(file), path as string))
      )
    return {
      file,
      text,
      imports: find(/(?:from|import\()\s*'(\.[^']*)'/g),
      loads: find(/^import (?!type )[^']*from '(\.[^']*)'/gm)
    }
  })

function moduleOf (file: string): string {
  return modules.find(([, path]) => path.test(file))?.[0] ?? `${file} belongs to no module`
}

t.test('the code map of CONTRIBUTING.md names what there is', async t => {
  const page = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
  const map = page.split('## Code map', 2)[1]?.split('## Where to change what', 1)[0] ?? ''
  const paths = [...map.matchAll(/`([\w./-]+\/[\w./-]*)`/g)].map(([, path = '']) => path)
  t.same(paths.filter(path => !existsSync(join(root, path))), [])
  const folders = new Set(sources.map(({ file }) => `${dirname(file)}/`))
  folders.delete('src/')
  t.same([...folders].filter(folder => !paths.includes(folder)), [])
  for (const [, folder = '', text = ''] of map.matchAll(/^\| `((?:src|plugins)\/(?:.*\/)?)` \|(.*)$/gm)) {
    const files = [...text.matchAll(/`([a-z-]+)`/g)].map(([, name]) => `${folder}${name}.ts`)
    t.same(files.filter(name => !sources.some(({ file }) => file === name)), [], folder)
    if (!folder.startsWith('plugins/')) continue
    const all = sources.map(({ file }) => file).filter(file => `${dirname(file)}/` === folder)
    t.same(files.toSorted(), all.toSorted(), folder)
  }
})

t.test('the package exports exactly its documented names', async t => {
  const names = Object.keys(await import('../../src/index.ts'))
  t.same(names.sort(), ['buildApp', 'oneflight', 'readConfig', 'startService'])
})

t.test('every import follows the allowed directions', async t => {
  for (const { file, imports } of sources) {
    const module = moduleOf(file)
    const allowed = modules.find(([name]) => name === module)?.[2] ?? []
    const wrong = imports.filter(path => ![module, ...allowed].includes(moduleOf(path)))
    t.same(wrong, [], `${file} (${module})`)
  }
})

t.test('every direction is used', async t => {
  for (const [module, path, imports] of modules) {
    const own = sources.filter(({ file }) => path.test(file))
    const used = new Set(own.flatMap(({ imports }) => imports.map(moduleOf)))
    t.same(imports.filter(name => name !== '' && !used.has(name)), [], module)
  }
})

t.test('the compiler imports nothing of a connection but what is known of its server', async t => {
  const found = sources.filter(({ file }) => file.startsWith('src/sql/'))
    .flatMap(({ imports }) => imports.filter(path => path.startsWith('src/postgres/')))
  t.same([...new Set(found)], ['src/postgres/facts.ts'])
})

t.test('there are no import cycles', async t => {
  const importsOf = new Map(sources.map(({ file, imports }) => [file, imports]))
  const clean = new Set<string>()
  const visit = (file: string, trail: readonly string[]): void => {
    if (trail.includes(file)) t.fail(`cycle: ${[...trail, file].join(' -> ')}`)
    if (trail.includes(file) || clean.has(file)) return
    for (const next of importsOf.get(file) ?? []) visit(next, [...trail, file])
    clean.add(file)
  }
  for (const { file } of sources) visit(file, [])
  t.equal(clean.size, sources.length)
})

/** What a process loads when it starts, and what it must not: it would start later and larger. */
const early: ReadonlyArray<readonly [entry: string, unneeded: string]> = [
  // The schemas of operations take 0.2 s.
  ['src/config/config.ts', 'schemas/operation.ts'],
  ['src/migrate.ts', 'schemas/operation.ts'],
  ['src/server/app.ts', 'src/server/admin.ts'],
  // The SDK takes 0.1 s and 24 MB.
  ['src/server/app.ts', 'src/mcp/answer-message.ts'],
  ['src/cluster/worker.ts', 'src/server/app.ts'],
  ['src/cluster/primary.ts', 'src/sql/compiler.ts']
]

t.test('processes do not load what they do not need', async t => {
  const loadsOf = new Map(sources.map(({ file, loads }) => [file, loads]))
  for (const [entry, unneeded] of early) {
    const loaded = new Set([entry])
    for (const file of loaded) for (const next of loadsOf.get(file) ?? []) loaded.add(next)
    t.ok(loadsOf.has(unneeded), unneeded)
    t.notOk(loaded.has(unneeded), `${entry} loads ${unneeded}`)
  }
})

t.test('plugins do not import each other', async t => {
  const plugins = sources.filter(({ file, text }) =>
    moduleOf(file) === 'plugins' && text.includes('export default ')
  )
  for (const { file, imports } of plugins) {
    t.same(plugins.filter(plugin => imports.includes(plugin.file)), [], file)
  }
})

const restrictions: ReadonlyArray<readonly [what: string, code: RegExp, files: RegExp]> = [
  // process.nextTick belongs to the event loop and may be called anywhere.
  [
    'use the process',
    /\bprocess\b\.(?!nextTick\()/,
    /^src\/(main|process|parent|migrate|cli)\.ts$/
  ],
  ['begin a transaction', /\.begin\(/, /^src\/transaction\/attempt\.ts$/],
  [
    'import the database driver',
    /from 'postgres'/,
    /^src\/(postgres|transaction|tables)\//
  ],
  [
    'write SQL',
    /\bsql`|\bpg_catalog\b/,
    /^(?:schemas|src\/(?:fragment|catalogue|sql|postgres|tables))\//
  ],
  ['re-export everything (a barrel)', /export \*/, /^$/]
]

for (const [what, code, files] of restrictions) {
  t.test(`only the permitted files ${what}`, async t => {
    const found = sources.filter(({ text }) =>
      code.test(text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, ''))
    ).map(({ file }) => file)
    t.same(found.filter(file => !files.test(file)), [])
  })
}
