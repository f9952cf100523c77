/** The generator of the documentation writes and checks its parts, and changes nothing else. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { emptyPages, emptyProject } from '../support/docs/generated.ts'

const script = `${import.meta.dirname}/../../scripts/docs.ts`
t.test('the generated tables', async t => {
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

  for (
    const row of [
      '| `DATABASE_URL` | **required** |',
      '| `ANON_ROLE` | – |',
      '| `LOCK_TIMEOUT_MS` | `5000` ms | Maximum wait for a lock (from 1 to 3600000 ms) |',
      '| `QUEUE_SIZE` | 4 × `POOL_SIZE` |'
    ]
  ) t.ok(read('docs/reference/configuration.md').includes(`\n${row}`), row)
  t.match(read('docs/reference/errors.md'), '\n| `request_error` | `id_missing` | 400 | ')
  for (
    const row of [
      '| `id` | all; required | ',
      '| `op` | all; required | `insert`, `update`, `delete`, `select` |',
      '| `values` | insert; required | ',
      '| `where` | update, delete, select | ',
      '| `$inc` | a number or a reference | adds a number'
    ]
  ) t.ok(read('docs/reference/language.md').includes(`\n${row}`), row)
  for (
    const row of [
      '| `gte` | `column >= operand` | comparand | greater or equal |',
      '| keyword | `null`, '
    ]
  ) t.ok(read('docs/reference/filters.md').includes(`\n${row}`), row)
  t.ok(read('docs/reference/preferences.md').includes('\n| `tx` | `commit`, `rollback` | '))

  for (
    const row of [
      '| `oneflight run <file|->` |'.replaceAll('|-', '\\|-'),
      '| `--isolation <level>` | '
    ]
  ) t.ok(read('docs/reference/cli.md').includes(`\n${row}`), row)

  t.equal(run('--check').status, 0, 'the check passes afterwards')
  writeFileSync(`${directory}/README.md`, '# No markers\n')
  t.match(run(), { status: 1, stderr: /README\.md has no "<!-- bench:begin -->"/ })
})
