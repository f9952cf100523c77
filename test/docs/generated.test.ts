/**
 * Tests that scripts/docs.ts writes and checks the generated parts, and changes nothing else.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { emptyPages, emptyProject } from '../support/docs/generated.ts'

const script = `${import.meta.dirname}/../../scripts/docs.ts`

t.test('the generated tables are written between their markers', async t => {
  const directory = t.testdir(emptyProject())
  const read = (file: string) => readFileSync(`${directory}/${file}`, 'utf8')
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [script, ...args], { cwd: directory, encoding: 'utf8' })

  t.match(run('--check'), {
    status: 1,
    stderr:
      /README\.md is out of date[^]*reference\/language\.md is out of date[^]*reliability\.md is out of date/
  })
  for (const [file, text] of Object.entries(emptyPages)) {
    t.equal(read(file), text, 'the check writes nothing')
  }
  t.equal(run().status, 0)
  for (const [file, before] of Object.entries(emptyPages)) {
    const tables = read(file).replace(/(<!-- (\w+):begin -->\n)[^]+?\n(?=<!-- \2:end -->\n)/g, '$1')
    t.equal(tables, before, `${file} changed only between its markers`)
  }

  const rowsOf = {
    'docs/reference/configuration.md': [
      '| `DATABASE_URL` | **required** |',
      '| `ANON_ROLE` | – |',
      '| `LOCK_TIMEOUT_MS` | `5000` ms | Maximum wait for a lock (from 1 to 3600000 ms) |',
      '| `QUEUE_SIZE` | 4 × `POOL_SIZE` |'
    ],
    'docs/reference/errors.md': ['| `request_error` | `id_missing` | 400 | '],
    'docs/reference/language.md': [
      '| `id` | all; required | ',
      '| `op` | all; required | `insert`, `update`, `delete`, `select`, `call` |',
      '| `values` | insert | ',
      '| `from` | update, delete | ',
      '| `where` | update, delete, select, call | ',
      '| `$inc` | a number or a reference | adds a number'
    ],
    'docs/reference/filters.md': [
      '| `gte` | `column >= operand` | comparand | greater or equal |',
      '| keyword | `null`, '
    ],
    'docs/reference/preferences.md': ['| `tx` | `commit`, `rollback` | '],
    'docs/reference/cli.md': ['| `oneflight run <file\\|->` |', '| `--isolation <level>` | ']
  }
  for (const [file, rows] of Object.entries(rowsOf)) {
    for (const row of rows) t.ok(read(file).includes(`\n${row}`), row)
  }

  t.match(
    read('docs/internals/promises.md'),
    /^- \*\*2\.\*\* .+\n {2}- \[experiments\/storm\]\(\.\.\/\.\.\/test\/experiments\/storm\.test\.ts\)$/m
  )
  t.match(read('llms.txt'), /^# Before\n\n> [^]*\n## Reference\n\n- \[Before\]\(docs\/reference\/cli/)
  t.match(read('docs/operations/reliability.md'), /Nothing is measured yet/)

  t.equal(run('--check').status, 0, 'the check passes afterwards')
  writeFileSync(`${directory}/README.md`, '# No markers\n')
  t.match(run(), { status: 1, stderr: /README\.md has no "<!-- bench:begin -->"/ })
})
