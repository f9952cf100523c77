/**
 * Tests that the tests of every promise exist, that every figure refers to an existing promise, and
 * that the generated tables show the figures of the last run. Needs no database.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import type { Figure } from '../experiments/scenario.ts'
import { figuresFile, promises, readFigures, type ScenarioRun } from '../promises.ts'
import { emptyProject } from '../support/docs/generated.ts'

const root = new URL('../..', import.meta.url)
const script = `${import.meta.dirname}/../../scripts/docs.ts`

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
    const missing = tests.filter(([file]) => !existsSync(new URL(`test/${file}.test.ts`, root)))
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
  const measured = (...runs: readonly ScenarioRun[]): (file: string) => string => {
    const directory = t.testdir({
      ...emptyProject(),
      test: { experiments: { 'figures.json': JSON.stringify(runs) } }
    })
    const { status, stderr } = spawnSync(process.execPath, [script], {
      cwd: directory,
      encoding: 'utf8'
    })
    t.same({ status, stderr: status === 0 ? '' : stderr }, { status: 0, stderr: '' })
    return file => readFileSync(`${directory}/${file}`, 'utf8')
  }

  const after = measured(
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
  )
  const page = after('docs/operations/reliability.md')
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
