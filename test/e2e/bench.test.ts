/**
 * Runs the benchmark in its smallest form with real processes. Tests that it detects contenders
 * that do less work, and that the report matches the recorded results. Figures are not judged,
 * because the machine is shared.
 */
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { readArguments } from '../../bench/arguments.ts'
import { takeTurns, warmUp } from '../../bench/compare.ts'
import {
  contenders,
  CONNECTIONS,
  makeSide,
  findProgram,
  useServer,
  type Contender,
  type Server,
  type Side
} from '../../bench/contenders.ts'
import {
  measureRoundTrip,
  resetTables,
  useDatabase,
  useRoute,
  type Database
} from '../../bench/database.ts'
import { addUp, draw } from '../../bench/flame.ts'
import { goalsOf, renderGoals, showVerdict } from '../../bench/goals.ts'
import { overloadGoals } from '../../bench/overload.ts'
import { renderSummary, renderWords } from '../../bench/ratios.ts'
import {
  cpuRatio,
  medianOf,
  ratioOf,
  readRecord,
  spreadOf,
  type BenchRecord
} from '../../bench/record.ts'
import { renderReport } from '../../bench/report.ts'
import { succeeded } from '../../bench/requests.ts'
import { compareBulk, measureMemory } from '../../bench/rows/bulk.ts'
import { compareStreams, compareUploads } from '../../bench/rows/large.ts'
import { measureCost, scales } from '../../bench/rows/cost.ts'
import { hotMatches, orderMatches, play, selectMatches } from '../../bench/rows/throughput.ts'
import { countAll } from '../../bench/rows/wire.ts'
import { nameInCheckout, wordMatches } from '../../bench/rows/words.ts'
import { useScript } from '../../bench/stage.ts'
import { countRoundTrips, readBursts } from '../../bench/wire.ts'
import { gistOfRows, words } from '../../bench/words/words.ts'
import { onStage, type Stage } from '../../scripts/dev/stage.ts'

// About 40 s on an idle machine. It starts a dozen servers.
t.setTimeout(300_000)

const short = { slices: 1, seconds: 0.2, warmUp: { batches: 20, seconds: 0.1 } }
const root = `${import.meta.dirname}/../..`
const {
  oneflight,
  awaits,
  'function in begin': inBegin,
  'bare function': bare,
  'named batch': named,
  'order function': orderFunction,
  'postgres.js': postgresJs,
  'word by hand': byHand,
  'oneflight with its log': logged,
  'word with duties': withDuties
} = contenders

t.test('every part of the benchmark runs', async t => {
  await onStage(async stage => {
    const database = await useDatabase(stage, process.env['TEST_DATABASE_URL'])

    // The harness compares the work of both sides and throws if it differs.
    const matches = [
      ...hotMatches.filter(({ roundTripMs }) => roundTripMs === 2),
      ...selectMatches(orderMatches, { roundTripsMs: [0] }),
      ...selectMatches(orderMatches, { roundTripsMs: [0.5], against: ['postgres.js'] })
    ]
    for (const match of matches) {
      const { work, roundTripMs, measuredRoundTripMs, contenders: taken } = await play(
        match,
        database,
        short
      )
      t.strictSame(taken.slice(0, match.against.length + 1).map(({ name }) => name), [
        oneflight.name,
        ...match.against.map(({ name }) => name)
      ], `${work}, ${roundTripMs} ms`)
      t.ok(
        taken.every(({ slices }) =>
          slices.length === 1 &&
          slices.every(({ batches, seconds }) => batches >= CONNECTIONS && seconds > 0)
        )
      )
      if (database.pid !== undefined) {
        t.ok(taken.every(({ slices }) => (slices[0]?.postgresCpuMs ?? 0) > 0))
      }
      t.ok(measuredRoundTripMs >= roundTripMs, 'the proxy adds at least the requested round trip')
    }
    await checkWords(stage, database)

    const delayed = async (roundTripMs: number): Promise<number> => {
      const { url, slow } = await useRoute(stage, database, roundTripMs)
      await slow(true)
      return measureRoundTrip(url)
    }
    const shortest = await delayed(0.5)
    t.ok(shortest >= 0.5 && shortest < await delayed(2), 'less than the resolution of timers')

    const chosen = [oneflight, awaits, inBegin, orderFunction, bare]
    const counted = (await countAll(database, chosen)).map(
      ({ name, work, roundTrips, afterBatch, underLock }) =>
        [`${name}, ${work}`, [roundTrips, afterBatch, underLock]]
    )
    t.match(Object.fromEntries(counted), {
      [`${oneflight.name}, 1 operation, with a key`]: [2, 1, 0],
      // A busy machine reads it for longer than a connection counts as alive without a check.
      [`${oneflight.name}, 100 operations, each with references`]: [2, Number, 0],
      [`${oneflight.name}, invoice`]: [2, 1, 0],
      [`${awaits.name}, invoice`]: [7, 7, 4],
      [`${inBegin.name}, invoice`]: [4, 4, 1],
      [`${orderFunction.name}, order`]: [4, 4, 1],
      [`${bare.name}, invoice`]: [1, 1, 0]
    })

    t.match(await compareBulk(database, 1), [
      { what: 'insert', oneflight: [Number], other: [Number] },
      { what: 'select', oneflight: [Number], other: [Number] }
    ])
    for (const compare of [compareUploads, compareStreams]) {
      t.match(await compare(database, 1, 1000), findProgram('psql') === undefined
        ? []
        : [{ rows: 1000, oneflight: [Number], other: [Number], peak: [Number] }])
    }
    const memory = await measureMemory(database, 1)
    t.strictSame(
      memory.map(({ answerBytes, peak }) => [answerBytes > 50e6, peak.length]),
      [[false, 1], [true, 1]]
    )
    const costs = await measureCost(database, { ...scales.perOperation, sizes: [1, 100] }, {
      slices: 1,
      seconds: 0.1
    })
    t.match(costs, [{ size: 1, ms: [Number] }, { size: 100, ms: [Number] }])

    const workload = { work: 'invoice', sql: database.sql } as const
    const slow: Side = { name: 'honest', gist: 1, run: async batches => ({ batches, seconds: 1 }) }
    await t.rejects(takeTurns([slow], workload, short), {
      message:
        /^honest did not do the work of \d+ batches \(invoice\): counted: 0 instead of \d+, invoices: 0 instead of \d+, lines: 0/
    }, 'a contender that does no work is rejected')
    const half: Side = {
      name: 'half',
      gist: undefined,
      run: async batches => {
        await database.sql`update counters set n = n + ${batches}`
        return { batches, seconds: 1 }
      }
    }
    await t.rejects(takeTurns([half], workload, short), {
      message: /^half did not do the work of \d+ batches \(invoice\): invoices: 0 instead of/
    }, 'a contender that does part of the work is rejected')
    await t.rejects(
      warmUp([slow, { ...slow, name: 'other', gist: 2 }], workload, short),
      { message: 'different responses: honest 1, other 2' },
      'a contender with another response is rejected'
    )
  })
})

/** Runs a few batches of every word on servers that are started once. Throws if one differs. */
async function checkWords (stage: Stage, { sql, url }: Database): Promise<void> {
  await resetTables(sql)
  const load = await useScript(stage, 'load.ts', { sendsHello: false })
  const servers = new Map<string, Promise<Server>>()
  for (const { work, against } of [
    ...wordMatches({ words: ['upsert'], checkout: root }),
    ...wordMatches()
  ]) {
    const sides: Side[] = []
    for (const contender of [oneflight, ...against] as readonly Contender[]) {
      const { script, checkout, duties } = contender
      const key = `${script} ${checkout} ${duties}`
      const server = servers.get(key) ?? useServer(stage, contender, { databaseUrl: url })
      servers.set(key, server)
      sides.push(await makeSide(contender, { server: await server, load, work }))
    }
    await warmUp(sides, { work, sql }, short)
  }
}

t.test('statements are read from recorded bursts', async t => {
  const message = (type: string, ...texts: readonly string[]): Buffer => {
    const body = Buffer.from(texts.map(text => `${text}\0`).join(''))
    const size = Buffer.alloc(4)
    size.writeInt32BE(body.length + 4)
    return Buffer.concat([Buffer.from(type), size, body])
  }
  const bursts = readBursts([
    Buffer.concat([Buffer.from([0, 0, 0, 8, 0, 3, 0, 0]), message('P', 'a', 'update t set x = 1')]),
    message('Q', 'begin'),
    Buffer.concat([message('B', '', 'a'), message('S')]),
    message('Q', 'select 1'),
    message('Q', 'COMMIT')
  ])
  t.strictSame(bursts, [[], ['begin'], ['update t set x = 1'], ['select 1'], ['COMMIT']])
  t.strictSame(countRoundTrips(bursts, /^update/), { roundTrips: 5, underLock: 2 })
  t.strictSame(countRoundTrips(bursts, /^delete/), { roundTrips: 5, underLock: 0 })
})

t.test('the report matches the recorded results', async t => {
  const record = readRecord()
  const report = renderReport(record)
  const measured = new Set(record.comparisons.flatMap(({ contenders }) =>
    contenders.map(({ name }) => name)))
  t.strictSame(
    goalsOf(record).filter(({ figure, against }) => figure === undefined && measured.has(against)),
    [],
    'only contenders that are newer than the record are not measured'
  )
  t.strictSame([...report.keys()], [
    'docs/internals/benchmarks.md',
    ...['order', 'hot-row', 'contenders', 'cpu', 'cost'].map(name =>
      `docs/internals/benchmarks/${name}.svg`
    )
  ])
  for (const [path, text] of report) {
    t.ok(
      existsSync(`${root}/${path}`) && readFileSync(`${root}/${path}`, 'utf8') === text,
      `${path} matches bench/results.json`
    )
  }
})

/** A contender that ran this number of batches in one second. */
const side = (name: string, batches: number, nodeCpuMs = 30, postgresCpuMs = 60) =>
  ({ name, slices: [{ seconds: 1, p50Ms: null, p99Ms: null, nodeCpuMs, postgresCpuMs, batches }] })

t.test('missed goals are shown as missed', async t => {
  const record: BenchRecord = {
    ...readRecord(),
    comparisons: [{
      work: 'invoice',
      roundTripMs: 2,
      measuredRoundTripMs: 2,
      contenders: [
        side(oneflight.name, 30, 30, 90), side(awaits.name, 2, 4 / 3, 4 / 3),
        side(inBegin.name, 15, 30, 90)
      ]
    }],
    wire: [2, 2, 3].map((roundTrips, i) =>
      ({ name: oneflight.name, work: `${i}`, roundTrips, afterBatch: 1, underLock: 0 })),
    memory: [],
    large: [{
      what: 'upload',
      rows: 100_000,
      bytes: 1e7,
      oneflight: [0.5],
      other: [0.25],
      before: [1e8, null],
      peak: [2e8, null]
    }]
  }
  t.match(
    goalsOf(record).filter(({ work }) => work.includes('hot row, 4')).map(
      goal => [goal.against, goal.figure?.median, showVerdict(goal)]
    ),
    [[awaits.name, 15, 'reached'], [inBegin.name, 2, 'missed'], [bare.name, undefined, '']]
  )
  const page = renderReport(record).get('docs/internals/benchmarks.md')
  t.match(renderSummary(record), /is 15× that\sof awaited statements, and 2× that of/)
  t.match(page, '\n| upload | 100 000 | 10 MB | 500 | 250 | 100 MB |')
  t.match(renderGoals(record), /^ +0\.5× +– +100 000 rows in, one upload; psql's \\copy$/m)
  t.match(renderGoals(record), /^ +95\.4 MiB +≤ 64 MiB missed +the same, resident memory/m)
  t.match(page, '\n| 2 (2) | 30 | 15× | 1.5× | 4.5× | 2× |\n')
  t.match(page, /\*\*not measured\*\*.*≥ 5×/)
  t.match(renderGoals(record), /^ +1 +≤ 1 +reached +round trips of 1 to 100 operations/m)
  t.match(renderGoals(record), /^ +2 \(2–3\) +≤ 2 +missed +the same, after a pause/m)

  const overload = {
    scenario: 'overload',
    date: '2026-01-02T03:04:05Z',
    commit: '0123456789',
    seed: 1,
    node: '',
    postgres: '',
    cores: 2,
    figures: [0.95, 0.8].map(value => ({
      name: 'goodput of capacity, limited by CPU, clients',
      value,
      unit: '%' as const,
      promises: []
    }))
  }
  t.match(overloadGoals(overload).map(goal => [showVerdict(goal), goal.against]), [
    ['missed', 'capacity, `test:chaos overload`, 2026-01-02 at 0123456'],
    ['', '`test:chaos overload`, 2026-01-02 at 0123456']
  ], 'the worst figure counts')
})

t.test('a named batch is compared with the batch and the endpoint', async t => {
  const record: BenchRecord = {
    ...readRecord(),
    comparisons: [{
      work: 'order',
      roundTripMs: 0,
      measuredRoundTripMs: 0.1,
      contenders: [side(oneflight.name, 30), side(named.name, 60), side(postgresJs.name, 15)]
    }]
  }
  t.match(
    goalsOf(record).filter(({ work }) => work.startsWith('order as a named batch')).map(goal =>
      [goal.against, goal.figure?.median]
    ),
    [['the same ad hoc', 0.5], [postgresJs.name, 0.25]]
  )
})

t.test('every word is shown beside the endpoint, once it was measured', async t => {
  const measured = { roundTripMs: 0, measuredRoundTripMs: 0.1 }
  const comparisons = [
    { ...measured, work: 'read', contenders: [side(oneflight.name, 30), side(byHand.name, 15)] },
    {
      ...measured,
      work: 'upsert',
      contenders: [
        side(oneflight.name, 30), side(nameInCheckout(oneflight.name), 20), side(named.name, 60),
        side(nameInCheckout(named.name), 20), side(byHand.name, 15), side(logged.name, 24),
        side(withDuties.name, 16)
      ]
    }
  ]
  const page = renderReport({ ...readRecord(), comparisons }).get('docs/internals/benchmarks.md')
  t.match(page, '## Every word')
  const title = words.upsert.title
  t.match(page, `
| --- | --- | --- | --- | --- |
| ${words.read.title} | 30 | 2× | 0.5× | 0.5× |
| ${title} | 30 | 2× | 0.5× | 0.5× |

`)
  t.match(page, `
| --- | --- | --- | --- | --- |
| ${title} | 24 | 1.5× | 0.667× | 0.667× |
`, 'beside an endpoint with the same duties')
  t.match(renderWords({ comparisons }, nameInCheckout), `
| ${title} | ${oneflight.name} | 30 | 1.5× | 0.667× | 0.667× |
| ${title} | ${named.name} | 60 | 3× | 0.333× | 0.333× |`, 'in both forms, or left out')
  t.notMatch(
    renderReport({ ...readRecord(), comparisons: [] })
      .get('docs/internals/benchmarks.md'),
    '## Every word'
  )
})

t.test('the time of a function contains that of what it calls, below it', async t => {
  const frame = (functionName: string, url = '') => ({ functionName, url })
  const all = addUp({
    profile: {
      startTime: 0,
      nodes: [
        { id: 1, callFrame: frame('(root)'), children: [2, 4] },
        { id: 2, callFrame: frame('handle', 'file:///x/src/main.ts'), children: [3] },
        { id: 3, callFrame: frame('', 'file:///x/node_modules/postgres/src/index.js') },
        { id: 4, callFrame: frame('(idle)') }
      ],
      samples: [2, 2, 3, 3, 3, 4, 3],
      timeDeltas: [1, 9, 10, 10, 10, 10, 100]
    },
    from: 10,
    to: 60
  })
  t.match(all, { samples: 4 }, 'without idle time and what is before and after the load')
  const drawn = draw(all)
  t.match(drawn, /<title>handle src\/main.ts 100.0 %<\/title><rect x="0.0" y="60" width="860.0"/)
  t.match(drawn, '<title>(anonymous) node_modules/postgres/src/index.js 75.0 %<')
  t.match(drawn, 'y="76" width="645.0"')
})

t.test('a response that lacks rows of its word is rejected', async t => {
  t.ok(succeeded('oneflight', 'exists', '[{"shelf":1},'.repeat(5)))
  t.notOk(succeeded('oneflight', 'exists', '[{"shelf":1},'.repeat(4)))
  const { call } = words
  const row = { article: 'shop apple', qty: 2, total: 2.7 }
  t.strictSame(gistOfRows(call, [row]), gistOfRows(call, [{ ...row, total: '2.70' }]))
  t.notSame(gistOfRows(call, [row]), gistOfRows(call, [{ ...row, total: 2.71 }]))
  t.notSame(gistOfRows(call, [row]), gistOfRows(call, [row, row]))
})

t.test('the command line selects parts and words', async t => {
  const read = (...args: readonly string[]) => readArguments(['words', 'wire'], args)
  t.match(read('words', '--quick', '--words=upsert,call', `--against-checkout=${root}`), {
    quick: true,
    names: ['words'],
    selection: { words: ['upsert', 'call'], checkout: resolve(root) },
    problem: undefined
  })
  t.strictSame(
    wordMatches({ words: ['upsert'] }).map(({ against }) => against.map(({ path }) => path)),
    [['/batches/upsert', '/upsert', '/', '/upsert']]
  )
  const wrong = ['--words=upsert,cal', '--against=pgbench,x', '--against-checkout=/y', '--slow']
  t.match(read('wires', ...wrong).problem, /^unknown wires, --slow, x, cal, \/y\. Expected/)
})

t.test('figures are compared turn by turn', async t => {
  t.strictSame(ratioOf([2, 30, 4], [1, 10, 1]), { median: 3, least: 2, most: 4 })
  t.equal(ratioOf([1, null], [0, 1]), undefined)
  const slice = { seconds: 1, p50Ms: null, p99Ms: null }
  const mine = [{ ...slice, batches: 10, nodeCpuMs: 20, postgresCpuMs: 40 }]
  const other = [{ ...slice, batches: 20, nodeCpuMs: 20, postgresCpuMs: 20 }]
  t.equal(cpuRatio(mine, other, 'node')?.median, 2)
  t.equal(cpuRatio(mine, other, 'postgres')?.median, 4)
  t.equal(cpuRatio(mine, other, 'both')?.median, 3)
  const withoutNode = mine.map(slice => ({ ...slice, nodeCpuMs: null }))
  t.equal(cpuRatio(withoutNode, other, 'both'), undefined)
  t.strictSame(spreadOf([3, 1, 2, 10]), { median: 2.5, least: 1, most: 10 })
  t.equal(spreadOf([]), undefined)
  const many = Array.from({ length: 25 }, (_, i) => i)
  t.strictSame(medianOf(many), { median: 12, least: 7, most: 17 }, '95 % of a binomial')
  t.strictSame(medianOf([3, 1, 2, 10]), spreadOf([3, 1, 2, 10]), 'few values: all of them')
})

t.test('round trips and contenders can be selected', async t => {
  t.strictSame(
    selectMatches(orderMatches, { roundTripsMs: [0, 2.5], against: ['postgres.js', 'pgbench'] }),
    [
      { work: 'order', roundTripMs: 0, against: [postgresJs], pgbench: true },
      { work: 'order', roundTripMs: 2.5, against: [postgresJs], pgbench: false }
    ]
  )
  t.equal(selectMatches(orderMatches, {}).length, orderMatches.length)
})
