/**
 * Tests scripts/manifest.ts: what it removes from package.json and from pages, and that the
 * original files are restored, also after an interruption. test/e2e/package.test.ts packs the
 * package.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'

const script = resolve(import.meta.dirname, '../../../scripts/manifest.ts')

const readme = `# One

[In the package](AGENTS.md#a), [below a folder](dist/a.js), [here](#one), [away](https://a.example/).
A [page of two
lines](docs/a.md#b) and \`[a](b)\`. In a table: | [\`a\`](SECURITY.md), [b](distant.md) |

![A picture](docs/a.svg)
\`\`\`js
a[0](b)
\`\`\`
`

const packed = `# One

[In the package](AGENTS.md#a), [below a folder](dist/a.js), [here](#one), [away](https://a.example/).
A page of two
lines and \`[a](b)\`. In a table: | \`a\`, b |


\`\`\`js
a[0](b)
\`\`\`
`

t.test('dead links are packed as text, and the files are restored', async t => {
  const manifest = { name: 'a', files: ['dist', 'AGENTS.md'], optionalDependencies: { b: '1' } }
  const files = {
    'package.json': JSON.stringify(manifest),
    'README.md': readme,
    'AGENTS.md': '[b](b.md), [license](LICENSE)\n'
  }
  const folder = t.testdir(files)
  const run = (...args: readonly string[]): readonly [number | null, string] => {
    const { status, stderr } = spawnSync(process.execPath, [script, ...args], {
      cwd: folder,
      encoding: 'utf8'
    })
    return [status, stderr]
  }
  const read = (): object =>
    Object.fromEntries(
      Object.keys(files).map(path => [path, readFileSync(join(folder, path), 'utf8')])
    )
  t.strictSame(run('restore'), [0, ''], 'there is nothing to restore')
  t.equal(run('pack')[0], 0)
  const changed = {
    'package.json': `${JSON.stringify({ name: 'a', files: ['dist', 'AGENTS.md'] }, null, 2)}\n`,
    'README.md': packed,
    'AGENTS.md': 'b, [license](LICENSE)\n'
  }
  t.strictSame(read(), changed)
  t.match(run('pack'), [1, /an earlier run was interrupted/])
  t.strictSame(read(), changed)
  t.equal(run('restore')[0], 0)
  t.strictSame(read(), files)
  t.notOk(existsSync(join(folder, '.unpacked')))
  t.match(run(), [1, /expected pack or restore/])
})
