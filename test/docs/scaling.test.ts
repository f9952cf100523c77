/**
 * Tests docs/operations/scaling.md and databases.md: they list every server function, command and
 * setting that the service sends, and the metrics that they name exist.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readPage, root } from '../support/docs/pages.ts'
import { findTracked } from '../support/tracked-files.ts'

const pages = ['scaling', 'databases'].map(name => readPage(`docs/operations/${name}.md`))
const page = pages.join('\n')
const read = (...patterns: readonly string[]): string =>
  findTracked(...patterns)
    .map(file => readFileSync(join(root, file), 'utf8'))
    .join('\n')

/** The sources that contain SQL, without comments and with strings of several lines joined. */
const sent = read('src/{sql,postgres}/**/*.ts', 'deploy/migrate.sql')
  .replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|^--.*$|' \+\n *'/gm, '')

t.test('every server function is listed', async t => {
  const named = new Set(
    Array.from(
      sent.matchAll(
        /\b(pg_(?!catalog|temp)[a-z_]+|has_parameter_privilege|hashtextextended|json_[a-z_]+|(?:plain|phrase|websearch_)?to_tsquery)\b/g
      ),
      ([name]) => name
    )
  )
  const covered = new Set([
    // Catalog tables that match the pattern, and JSON functions listed as parts of one expression.
    'pg_database', 'pg_extension', 'json_build_array', 'json_agg'
  ])
  t.ok(named.size > 20)
  for (const name of named) t.ok(covered.has(name) || page.includes(name), name)
})

t.test('every command is listed', async t => {
  const commands = [
    'commit',
    'rollback',
    'and chain',
    'set constraints all immediate',
    'set session authorization default',
    'reset all',
    'discard temp',
    'discard sequences',
    'close all',
    'unlisten *',
    'deallocate all',
    'skip locked',
    'nowait',
    'isolation level'
  ]
  for (const command of commands) {
    t.ok(sent.includes(command), `${command} is sent`)
    t.ok(page.includes(command), `${command} is listed`)
  }
})

t.test('every setting of a transaction is listed', async t => {
  const settings = Array.from(
    read('src/sql/frame/session.ts', 'src/postgres/facts.ts').matchAll(
      /\['(\w+)', '[^']*'\]|sql`'([\w.]+)'`|set_config\('(\w+)'/g
    ),
    ([, ...names]) => names.find(name => name !== undefined) as string
  )
  t.ok(settings.length > 10)
  for (const name of settings) t.ok(page.includes(name), name)
})

t.test('the named metrics exist', async t => {
  const known = read('plugins/metrics.ts')
  const named = new Set(Array.from(page.matchAll(/\bservice_[a-z_]+[a-z]\b/g), ([name]) => name))
  t.ok(named.size > 4)
  for (const name of named) t.ok(known.includes(`'${name}'`), name)
})

t.test('every reference link is defined and used', async t => {
  for (const page of pages) {
    const namesOf = (pattern: RegExp): readonly string[] =>
      Array.from(page.matchAll(pattern), ([, name]) => name as string)
    const defined = namesOf(/^\[([\w-]+)\]: https:/gm)
    const used = new Set(namesOf(/\]\[([\w-]+)\]/g))
    t.same([...used].filter(name => !defined.includes(name)), [])
    t.same(defined.filter(name => !used.has(name)), [])
  }
})
