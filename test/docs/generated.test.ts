/**
 * Tests that scripts/docs.ts writes and checks the generated parts, and changes nothing else. What
 * they say is in the pages themselves, which `npm run check` compares.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { emptyPages, emptyProject } from '../support/docs/generated.ts'

const script = `${import.meta.dirname}/../../scripts/docs.ts`

t.test('the generated parts are written between their markers', async t => {
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

  t.match(read('docs/operations/reliability.md'), /Nothing is measured yet/)

  t.equal(run('--check').status, 0, 'the check passes afterwards')
  writeFileSync(`${directory}/README.md`, '# No markers\n')
  t.match(run(), { status: 1, stderr: /README\.md has no "<!-- bench:begin -->"/ })
})
