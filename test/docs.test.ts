/** The generated parts of the documentation: written, checked, and nothing else touched. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'

const script = `${import.meta.dirname}/../scripts/docs.ts`
const block = (name: string) => `<!-- ${name}:begin -->\n<!-- ${name}:end -->\n`
const EMPTY = `# Before\n${block('config')}${block('operators')}${block('errors')}After\n`

t.test('the tables of the README', async t => {
  const directory = t.testdir({ 'README.md': EMPTY })
  const readme = `${directory}/README.md`
  const run = (...args: string[]) => spawnSync(process.execPath, [script, ...args], { cwd: directory, encoding: 'utf8' })

  t.match(run('--check'), { status: 1, stderr: /README\.md is not up to date/ })
  t.equal(readFileSync(readme, 'utf8'), EMPTY, 'checking writes nothing')
  t.equal(run().status, 0)
  const text = readFileSync(readme, 'utf8')
  t.match(text, /^# Before\n<!-- config:begin -->\n\| Variable \|[^]*\n<!-- config:end -->\n<!-- operators:begin -->\n\| Operator \|[^]*<!-- errors:begin -->\n\| Type \|[^]*\n<!-- errors:end -->\nAfter\n$/)
  t.match(text, '| `DATABASE_URL` | **required** |')
  t.match(text, '| `ANON_ROLE` | – |')
  t.match(text, '| `LOCK_TIMEOUT_MS` | `5000` ms | Longest wait for one lock (from 1 to 3600000 ms) |')
  t.match(text, '| `QUEUE_SIZE` | 4 × `POOL_SIZE` |')
  t.match(text, '| `gte` | `>=` | greater or equal |')
  t.match(text, /\| `request_error` \| `id_missing` \| 400 \| /)
  t.equal(run('--check').status, 0, 'what was written is what is checked')
  writeFileSync(readme, '# No markers\n')
  t.match(run(), { status: 1, stderr: /README\.md has no "<!-- config:begin -->"/ })
})
