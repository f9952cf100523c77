/**
 * Runs the benchmark in its smallest form with real processes. Tests that the report matches the
 * recorded results. Figures are not judged, because the machine is shared.
 */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { warmUp } from '../../bench/compare.ts'
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
import { goalsOf } from '../../bench/goals.ts'
import { readRecord } from '../../bench/record.ts'
import { renderReport } from '../../bench/report.ts'
import { compareBulk, measureMemory } from '../../bench/rows/bulk.ts'
import { compareStreams, compareUploads } from '../../bench/rows/large.ts'
import { measureCost, scales } from '../../bench/rows/cost.ts'
import { hotMatches, orderMatches, play, selectMatches } from '../../bench/rows/throughput.ts'
import { countAll } from '../../bench/rows/wire.ts'
import { wordMatches } from '../../bench/rows/words.ts'
import { useScript } from '../../bench/stage.ts'
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
  'order function': orderFunction
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
