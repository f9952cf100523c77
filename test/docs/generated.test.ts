/**
 * Tests that scripts/docs.ts writes and checks the generated parts, and changes nothing else, that
 * the tests of every promise exist, and that every figure refers to an existing promise. What the
 * parts say is in the pages themselves, which `npm run check` compares. Needs no database.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Figure } from '../experiments/scenario.ts'
import { figuresFile, promises, readFigures, type ScenarioRun } from '../promises.ts'
import { listPages, readPage, root } from '../support/docs/pages.ts'

interface Directory {
  [name: string]: string | Directory
}

/** Each page with generated parts, with its markers without content between two lines of text. */
const emptyPages = listPages().flatMap(file => {
  const names = readPage(file).matchAll(/^<!-- (\w+):begin -->$/gm)
  const parts = Array.from(names, ([, name]) => `<!-- ${name}:begin -->\n<!-- ${name}:end -->\n`)
  return parts.length === 0 ? [] : [[file, `# Before\n${parts.join('')}After\n`] as const]
})

/** A project of these pages and `files`, in which the generator runs. */
function useProject (t: Test, ...files: ReadonlyArray<readonly [path: string, text: string]>) {
  const project: Directory = { schemas: {} }
  for (const [file, text] of [...emptyPages, ...files]) {
    const folders = file.split('/')
    const name = folders.pop() as string
    let folder = project
    for (const part of folders) folder = (folder[part] ??= {}) as Directory
    folder[name] = text
  }
  const directory = t.testdir(project)
  return {
    directory,
    read: (file: string) => readFileSync(join(directory, file), 'utf8'),
    run: (...args: readonly string[]) =>
      spawnSync(process.execPath, [join(root, 'scripts/docs.ts'), ...args], {
        cwd: directory,
        encoding: 'utf8'
      })
  }
}

t.test('the generated parts are written between their markers', async t => {
  const { directory, read, run } = useProject(t)
  t.match(run('--check'), {
    status: 1,
    stderr:
      /README\.md is out of date[^]*reference\/language\.md is out of date[^]*reliability\.md is out of date/
  })
  for (const [file, text] of emptyPages) t.equal(read(file), text, 'the check writes nothing')
  t.equal(run().status, 0)
  for (const [file, before] of emptyPages) {
    const tables = read(file).replace(/(<!-- (\w+):begin -->\n)[^]+?\n(?=<!-- \2:end -->\n)/g, '$1')
    t.equal(tables, before, `${file} changed only between its markers`)
  }

  t.match(read('docs/operations/reliability.md'), /Nothing is measured yet/)

  t.equal(run('--check').status, 0, 'the check passes afterwards')
  writeFileSync(`${directory}/README.md`, '# No markers\n')
  t.match(run(), { status: 1, stderr: /README\.md has no "<!-- bench:begin -->"/ })
})

const lost: Figure = {
  name: 'batches lost',
  value: 0,
  unit: '',
  goal: { exactly: 0 },
  promises: [1, 2]
}
const storm: ScenarioRun = {
  scenario: 'storm',
  date: '2026-11-20T09:30:00.000Z',
  commit: '0123456789abcdef',
  seed: 4711,
  node: 'v24.21.0',
  postgres: '18.4',
  cores: 2,
  figures: [lost]
}

t.test('the tests of every promise exist', async t => {
  t.same(
    promises.map(({ number }) => number),
    promises.map((_, i) => i + 1),
    'numbers are consecutive and unique'
  )
  for (const { number, tests } of promises) {
    const missing = tests.filter(([file]) => !existsSync(join(root, `test/${file}.test.ts`)))
    t.same(missing, [], `the tests of promise ${number}`)
  }
})

t.test('figures refer to existing promises', async t => {
  t.same(readFigures(JSON.stringify([storm])), [storm])
  for (const number of [0, promises.length + 1]) {
    const foreign = {
      ...storm,
      figures: [lost, { ...lost, name: 'rows lost', promises: [1, number] }]
    }
    t.throws(() => readFigures(JSON.stringify([storm, foreign])), {
      message:
        `${figuresFile}: "rows lost" of storm refers to unknown promise ${number}`
    })
  }
})

t.test('the generated pages show promises and figures', async t => {
  const runs = [
    {
      ...storm,
      figures: [
        lost,
        { ...lost, name: 'batches twice', value: 1 },
        { ...lost, name: 'batches', value: 100_000, goal: { atLeast: 100_000 } },
        { name: 'answers unknown', value: 3, unit: '', promises: [1, 2] }
      ]
    },
    {
      ...storm,
      scenario: 'overload',
      date: '2026-11-21T10:00:00.000Z',
      commit: 'fedcba9876543210',
      figures: [
        { name: 'goodput', value: 0.9237, unit: '%', goal: { atLeast: 0.85 }, promises: [9] },
        { name: 'refusal p99', value: 61.004, unit: 'ms', goal: { atMost: 50 }, promises: [9] }
      ]
    },
    { ...storm, scenario: 'cuts', figures: [] }
  ]
  const { read, run } = useProject(t, [figuresFile, JSON.stringify(runs)])
  t.equal(run().status, 0)
  const page = read('docs/operations/reliability.md')
  const rows = [
    '| storm | batches twice | **1, goal missed** | = 0 |',
    '| overload | goodput | 92.37 % | ≥ 85 % |',
    '| overload | refusal p99 | **61 ms, goal missed** | ≤ 50 ms |',
    '| `storm`, `cuts` | 2026-11-20 | 0123456 | 4711 | 24.21.0 | 18.4 | 2 |',
    '| `overload` | 2026-11-21 | fedcba9 | 4711 | 24.21.0 | 18.4 | 2 |'
  ]
  for (const row of rows) t.ok(page.includes(`\n${row}\n`), row)
  t.match(page, /^3 of 5 goals are reached, among them 1 of the 2 counts that must be 0,/m)
  t.notMatch(page, /^\| storm \| (?:batches lost|batches|answers unknown) \|/m, 'counts')
})
