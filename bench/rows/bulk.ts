/**
 * Measures many rows in one operation, compared with psql and a hand-written statement. Both sides
 * run in turns on one connection each and must move the same rows. The time to start them does not
 * count. Also measures the memory of large responses.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import postgres from 'postgres'
import { onStage, type Stage } from '../../scripts/dev/stage.ts'
import { useClient } from '../client.ts'
import { contenders, findProgram, useServer } from '../contenders.ts'
import { forgetPeak, memoryOf } from '../cpu.ts'
import { resetTables, role, withUrlParts, type Database } from '../database.ts'
import type { Bulk, Memory } from '../record.ts'

const ROWS = 10_000
/** 10 000 rows exceed the default size limit of a body, 1 MiB. */
const limits = { MAX_BODY_BYTES: String(16 * 1024 * 1024) }

const rows = Array.from(
  { length: ROWS },
  (_, i) => ({
    id: i,
    sensor: `sensor-${i % 50}`,
    value: i / 8,
    taken_at: '2026-01-01T00:00:00.123456+00:00'
  })
)
const json = JSON.stringify(rows)

/** Runs a statement and returns the text of its value, or ''. */
type Run = (text: string) => Promise<string>

interface BulkOptions {
  readonly database: Database
  /** Sends a batch to Oneflight. */
  readonly send: (body: string) => Promise<Buffer>
  /** Runs a statement with the reference. */
  readonly run: Run
  readonly repetitions: number
}

type Measured = Pick<Bulk, 'bytes' | 'oneflight' | 'other'>

/** Runs both sides in turns, `repetitions` times after as many repetitions as a warm-up. */
export function compareBulk (database: Database, repetitions: number): Promise<readonly Bulk[]> {
  return onStage(async stage => {
    await resetTables(database.sql)
    const { url } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url,
      connections: 1,
      env: limits
    })
    const { name, run } = await useReference(stage, database)
    const options = { database, send: useClient(stage, url), run, repetitions }
    const inserts = await compareInserts(options)
    // The selects read the rows of the last insert.
    const selects = await compareSelects(options)
    return [
      { what: 'insert', rows: ROWS, reference: name, ...inserts },
      { what: 'select', rows: ROWS, reference: name, ...selects }
    ]
  })
}

async function compareInserts (
  { database: { sql }, send, run, repetitions }: BulkOptions
): Promise<Measured> {
  const batch = JSON.stringify([{
    id: 'in',
    op: 'insert',
    table: 'readings',
    values: rows,
    returning: []
  }])
  const statement =
    `insert into readings select * from json_populate_recordset(null::readings, '${json}');`
  const sum = rows.reduce((sum, { value }) => sum + value, 0)
  const measure = async (insert: () => Promise<unknown>): Promise<number> => {
    await sql`truncate readings`
    const seconds = await timed(insert)
    const [found] =
      await sql`select count(*)::int as count, sum(value)::float8 as sum from readings`
    if (found?.['count'] !== ROWS || found['sum'] !== sum) {
      throw new Error(`not all rows were inserted: ${JSON.stringify(found)}`)
    }
    return seconds
  }
  const [oneflight, other] = await turns(
    repetitions,
    () => measure(() => send(batch)),
    () => measure(() => run(statement))
  )
  return { bytes: Buffer.byteLength(json), oneflight, other }
}

async function compareSelects ({ send, run, repetitions }: BulkOptions): Promise<Measured> {
  const batch = JSON.stringify([{ id: 'out', op: 'select', table: 'readings' }])
  const statement = "select coalesce(json_agg(r), '[]') from readings r;"
  const responses = { oneflight: '', other: '' }
  const [oneflight, other] = await turns(
    repetitions,
    () =>
      timed(async () => {
        responses.oneflight = (await send(batch)).toString()
      }),
    () =>
      timed(async () => {
        responses.other = await run(statement)
      })
  )
  return { bytes: sizeOfRows(responses), oneflight, other }
}

/**
 * Measures the memory of one response: with 10 000 rows as above, and with as many rows of 50 MB in
 * total. Each is measured several times, in a new process.
 */
export async function measureMemory (
  database: Database,
  repetitions: number
): Promise<readonly Memory[]> {
  await resetTables(database.sql)
  const measured: Memory[] = []
  for (const sensorBytes of [10, 5000]) {
    await database.sql`truncate readings`
    await database
      .sql`insert into readings select n, repeat('s', ${sensorBytes}::int), n / 8.0, now()
        from generate_series(1, ${ROWS}::int) n`
    const all = []
    for (let i = 0; i < repetitions; i++) all.push(await measurePeak(database))
    measured.push({
      answerBytes: all[0]?.answerBytes ?? 0,
      before: all.map(({ before }) => before),
      peak: all.map(({ peak }) => peak)
    })
  }
  return measured
}

function measurePeak (
  database: Database
): Promise<
  { readonly answerBytes: number, readonly before: number | null, readonly peak: number | null }
> {
  return onStage(async stage => {
    const { url, pid } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url
    })
    const send = useClient(stage, url)
    const select = (limit: number): Promise<Buffer> =>
      send(JSON.stringify([{ id: 'out', op: 'select', table: 'readings', limit }]))
    // The first runs of code take additional memory, which does not count.
    for (let i = 0; i < 200; i++) await select(1)
    const measurable = memoryOf(pid) !== undefined
    if (measurable) forgetPeak(pid)
    const before = memoryOf(pid)?.now ?? null
    const { length } = await select(ROWS)
    return { answerBytes: length, before, peak: memoryOf(pid)?.peak ?? null }
  })
}

/** Measures two functions in turns, and drops the first half of the measurements as a warm-up. */
export async function turns (
  repetitions: number,
  one: () => Promise<number>,
  other: () => Promise<number>
): Promise<[number[], number[]]> {
  const taken: [number[], number[]] = [[], []]
  for (let turn = 0; turn < 2 * repetitions; turn++) {
    taken[0].push(await one())
    taken[1].push(await other())
  }
  return [taken[0].slice(repetitions), taken[1].slice(repetitions)]
}

export async function timed (work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return (performance.now() - start) / 1000
}

/** Returns the size of the rows. Throws unless both sides returned the same rows. */
function sizeOfRows (
  { oneflight, other }: { readonly oneflight: string, readonly other: string }
): number {
  const idsOf = (rows: ReadonlyArray<{ id: number }>): string =>
    rows.map(({ id }) => id).sort((a, b) => a - b).join()
  const theirs = idsOf(JSON.parse(other))
  if (idsOf(JSON.parse(oneflight).data.out) !== theirs || theirs === '') {
    throw new Error('the sides returned different rows')
  }
  return Buffer.byteLength(other)
}

/** Returns psql, or postgres.js with the same text. Both set the role of the batch once. */
export async function useReference (
  stage: Stage,
  { url }: Database
): Promise<{ readonly name: string, readonly run: Run }> {
  if (findProgram('psql') === undefined) return useDriver(stage, url)
  const { password } = new URL(url)
  const child = spawn('psql', [
    '-X',
    '-q',
    '-A',
    '-t',
    '-v',
    'ON_ERROR_STOP=1',
    withUrlParts(url, { password: '' })
  ], {
    env: { PATH: process.env['PATH'], PGPASSWORD: password },
    stdio: ['pipe', 'pipe', 'inherit']
  })
  const ended = once(child, 'close')
  stage.teardown(() => {
    child.stdin.end()
    return ended
  })
  const mark = 'the end of a statement'
  const run: Run = async text => {
    child.stdin.write(`${text}\n\\echo ${mark}\n`)
    const parts: Buffer[] = []
    for (;;) {
      const [part] = await Promise.race([
        once(child.stdout, 'data'),
        ended.then(() => {
          throw new Error('psql has stopped')
        })
      ]) as [Buffer]
      parts.push(part)
      if (part.subarray(-mark.length - 1).toString() === `${mark}\n`) {
        return Buffer.concat(parts).toString().slice(0, -mark.length - 2)
      }
    }
  }
  await run(`set role ${role};`)
  return { name: 'psql', run }
}

async function useDriver (
  stage: Stage,
  url: string
): Promise<{ readonly name: string, readonly run: Run }> {
  const sql = postgres(url, {
    max: 1,
    types: { json: { to: 114, from: [114], serialize: String, parse: String } }
  })
  stage.teardown(() => sql.end({ timeout: 1 }))
  await sql.unsafe(`set role ${role}`)
  return {
    name: 'postgres.js',
    run: async text => String(Object.values((await sql.unsafe(text))[0] ?? {})[0] ?? '')
  }
}
