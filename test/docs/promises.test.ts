/**
 * The promises of the README: each has tests that exist, and no figure speaks of one that nobody
 * made. That the README holds what the list says is checked by `npm run check`; here, what the
 * tables make of figures. Needs no database.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { figuresFile, promises, readFigures, type FaultRecord, type Measured } from '../promises.ts'
import { emptyProject } from '../support/docs/generated.ts'

const root = new URL('../../', import.meta.url)
const script = `${import.meta.dirname}/../../scripts/docs.ts`

const figure: Measured = {
  scenario: 'storm',
  name: 'batches lost',
  value: 0,
  unit: '',
  goal: { exactly: 0 },
  promises: [1, 2]
}
const record: FaultRecord = {
  date: '2026-11-20T09:30:00.000Z',
  commit: '0123456789abcdef',
  seed: 4711,
  node: 'v24.21.0',
  postgres: '18.4',
  cores: 2,
  figures: [figure]
}

t.test('every promise has tests, and they are there', async t => {
  t.same(
    promises.map(({ number }) => number),
    promises.map((_, i) => i + 1),
    'numbers are not left out and not given twice'
  )
  t.equal(new Set(promises.map(({ text }) => text)).size, promises.length)
  for (const { number, tests } of promises) {
    const files = tests.map(([file]) => file)
    t.ok(files.length > 0, `promise ${number}`)
    t.equal(new Set(files).size, files.length, `promise ${number} names no file twice`)
    t.same(
      files.filter(file => !existsSync(new URL(`test/${file}.test.ts`, root))),
      [],
      `the tests of promise ${number}`
    )
  }
})

t.test('figures speak of promises that were made', async t => {
  t.same(readFigures(JSON.stringify(record)), record)
  for (const number of [0, promises.length + 1]) {
    const foreign = {
      ...record,
      figures: [figure, { ...figure, name: 'rows eaten', promises: [1, number] }]
    }
    t.throws(() => readFigures(JSON.stringify(foreign)), {
      message:
        `${figuresFile}: "rows eaten" of storm speaks of promise ${number}, which nobody made`
    })
  }
  const last = new URL(figuresFile, root)
  if (existsSync(last)) {
    t.doesNotThrow(() => readFigures(readFileSync(last, 'utf8')), 'the figures of the last run')
  }
})

t.test('the tables', async t => {
  const write = (files: object): string => {
    const directory = t.testdir({ ...emptyProject(), ...files })
    const { status, stderr } = spawnSync(process.execPath, [script], {
      cwd: directory,
      encoding: 'utf8'
    })
    t.same({ status, stderr: status === 0 ? '' : stderr }, { status: 0, stderr: '' })
    return ['README.md', 'docs/operations/reliability.md'].map(file =>
      readFileSync(`${directory}/${file}`, 'utf8')
    ).join('')
  }
  const measured = (...figures: readonly Measured[]) =>
    write({ test: { faults: { 'figures.json': JSON.stringify({ ...record, figures }) } } })

  const before = write({})
  t.match(
    before,
    /^\| 2 \| A 200 means committed \| \[faults\/storm\]\(test\/faults\/storm\.test\.ts\), .* \| – \|$/m
  )
  t.match(before, /Nothing was measured yet/)

  const after = measured(
    figure,
    { ...figure, name: 'batches', value: 100_000, goal: { atLeast: 100_000 } },
    { ...figure, name: 'answers unknown', value: 3, goal: undefined } as unknown as Measured,
    {
      scenario: 'overload',
      name: 'goodput',
      value: 0.9237,
      unit: '%',
      goal: { atLeast: 0.85 },
      promises: [9]
    },
    {
      scenario: 'overload',
      name: 'refusal p99',
      value: 61.004,
      unit: 'ms',
      goal: { atMost: 50 },
      promises: [9]
    }
  )
  const cell = (number: number): string =>
    new RegExp(`^\\| ${number} \\|.*\\| (.*) \\|$`, 'm').exec(after)?.[1] ?? ''
  t.equal(cell(1), 'storm: batches lost 0, batches 100 000')
  t.equal(cell(2), cell(1), 'a figure of two promises stands at both')
  t.equal(cell(3), '–', 'and at no other')
  t.equal(cell(9), 'overload: goodput 92.37 %, refusal p99 **61 ms, goal missed**')
  for (
    const row of [
      '| storm | batches lost | 0 | = 0 | 1, 2 |',
      '| storm | batches | 100 000 | ≥ 100 000 | 1, 2 |',
      '| storm | answers unknown | 3 |  | 1, 2 |',
      '| overload | goodput | 92.37 % | ≥ 85 % | 9 |',
      '| overload | refusal p99 | **61 ms, goal missed** | ≤ 50 ms | 9 |'
    ]
  ) t.ok(after.includes(`\n${row}\n`), row)
  t.equal(
    after.match(
      /^Measured by `npm run test:chaos` on 2026-11-20 at commit 0123456: seed 4711, Node 24\.21\.0, PostgreSQL 18\.4, 2 cores\.$/gm
    )?.length,
    2,
    'under both tables'
  )
})
