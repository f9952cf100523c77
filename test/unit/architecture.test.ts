/**
 * The import direction of CONTRIBUTING.md, and who may do what. Reads the sources as text; needs no
 * database.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '../..')

/**
 * Rooms by path, the more special path first, and the rooms that each may import from (beside
 * itself).
 */
const rooms: ReadonlyArray<
  readonly [room: string, path: RegExp, imports: readonly string[]]
> = [
  ['schemas', /^schemas\//, []],
  ['errors', /^src\/errors\//, ['schemas']],
  ['json', /^src\/json\//, ['errors', 'schemas']],
  ['plan', /^src\/plan\//, ['json', 'errors', 'schemas']],
  ['sql', /^src\/sql\//, ['plan', 'errors', 'schemas']],
  ['postgres', /^src\/postgres\//, ['sql', 'errors', 'schemas']],
  ['transaction', /^src\/transaction\//, ['postgres', 'sql', 'plan', 'errors', 'schemas']],
  ['response', /^src\/response\//, ['transaction', 'plan', 'errors', 'schemas']],
  ['openapi', /^src\/openapi\//, ['errors', 'schemas']],
  ['auth', /^src\/auth\//, ['json', 'errors', 'schemas']],
  ['config', /^src\/config\//, ['auth', 'schemas']],
  ['dev', /^src\/dev\//, []],
  ['plugins', /^plugins\//, [
    'auth',
    'openapi',
    'response',
    'transaction',
    'postgres',
    'sql',
    'plan',
    'json',
    'errors',
    'schemas'
  ]],
  ['server', /^src\/server\//, ['plugins', 'transaction', 'postgres', 'config', 'schemas']],
  ['cluster', /^src\/cluster\//, [
    'server',
    'plugins',
    'transaction',
    'postgres',
    'config',
    'schemas'
  ]],
  ['cli', /^src\/cli\//, ['config', 'auth', 'plan', 'json', 'errors', 'schemas']],
  ['process', /^src\/(main|process|dev|migrate|cli|index)\.ts$/, [
    'server',
    'cluster',
    'cli',
    'config',
    'auth',
    'dev',
    'postgres',
    'schemas'
  ]]
]

interface Source {
  readonly file: string
  readonly text: string
  readonly imports: readonly string[]
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
    const imports = [...text.matchAll(/(?:from|import\()\s*'(\.[^']*)'/g)].map(([, path]) =>
      relative(root, resolve(root, dirname(file), path as string))
    )
    return { file, text, imports }
  })

function roomOf (file: string): string {
  return rooms.find(([, path]) => path.test(file))?.[0] ?? `no room for ${file}`
}

t.test('every import runs in the allowed direction', async t => {
  for (const { file, imports } of sources) {
    const room = roomOf(file)
    const allowed = rooms.find(([name]) => name === room)?.[2] ?? []
    const wrong = imports.filter(path => roomOf(path) !== room && !allowed.includes(roomOf(path)))
    t.same(wrong, [], `${file} (${room})`)
  }
})

t.test('no file imports itself through others', async t => {
  const importsOf = new Map(sources.map(({ file, imports }) => [file, imports]))
  const clean = new Set<string>()
  const visit = (file: string, trail: readonly string[]): void => {
    if (trail.includes(file)) t.fail(`cycle: ${[...trail, file].join(' → ')}`)
    if (trail.includes(file) || clean.has(file)) return
    for (const next of importsOf.get(file) ?? []) visit(next, [...trail, file])
    clean.add(file)
  }
  for (const { file } of sources) visit(file, [])
  t.equal(clean.size, sources.length)
})

t.test('plugins meet by decorators, not by imports', async t => {
  const wrong = sources.filter(({ file }) => roomOf(file) === 'plugins').flatMap((
    { file, imports }
  ) => imports.filter(path => roomOf(path) === 'plugins').map(path => `${file} → ${path}`))
  t.same(wrong, [])
})

const privileges: ReadonlyArray<readonly [what: string, sign: RegExp, who: RegExp]> = [
  // The queue of the next tick is the event loop's, wherever it is called from.
  [
    'touches the process',
    /\bprocess\b\.(?!nextTick\()/,
    /^src\/(main|process|dev|migrate|cli)\.ts$|^src\/dev\//
  ],
  ['begins a transaction', /\.begin\(/, /^src\/transaction\/attempt\.ts$/],
  [
    'imports the database driver',
    /from 'postgres'/,
    /^src\/(postgres|transaction)\/|^src\/dev(\.ts$|\/)/
  ],
  ['re-exports everything (a barrel)', /export \*/, /^$/]
]

for (const [what, sign, who] of privileges) {
  t.test(`who ${what}`, async t => {
    const found = sources.filter(({ text }) =>
      sign.test(text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, ''))
    ).map(({ file }) => file)
    t.same(found.filter(file => !who.test(file)), [])
  })
}
