/**
 * Measures an upload of 100 000 rows, which is checked while it arrives, compared with psql's
 * `\copy` of the same rows. Both sides run in turns. Also measures the memory of the service.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onStage } from '../../scripts/dev/stage.ts'
import { useClient } from '../client.ts'
import { contenders, findProgram, useServer } from '../contenders.ts'
import { forgetPeak, memoryOf } from '../cpu.ts'
import { resetTables, type Database } from '../database.ts'
import type { Upload } from '../record.ts'
import { timed, turns, useReference } from './bulk.ts'

const ROWS = 100_000
const limits = { MAX_UPLOAD_ROWS: String(ROWS) }
const type = 'application/x-ndjson'

interface Reading {
  readonly id: number
  readonly sensor: string
  readonly value: number
  readonly taken_at: string
}

/** `rows`: how many. Each has about 100 bytes as JSON. */
function makeReadings (rows: number): readonly Reading[] {
  return Array.from({ length: rows }, (_, i) => ({
    id: i,
    sensor: `sensor-${i % 50}-of-hall-${i % 7}`,
    value: i / 8,
    taken_at: '2026-01-01T00:00:00.123456+00:00'
  }))
}

/** Returns nothing without psql. */
export async function compareUploads (
  database: Database,
  repetitions: number,
  rows = ROWS
): Promise<readonly Upload[]> {
  if (findProgram('psql') === undefined) return []
  await resetTables(database.sql)
  const readings = makeReadings(rows)
  const lines = readings.map(reading => JSON.stringify(reading)).join('\n')
  const times = await compareTimes({ database, repetitions, readings, lines })
  const used = []
  for (let i = 0; i < repetitions; i++) used.push(await measurePeak(database, lines))
  return [{
    rows,
    bytes: Buffer.byteLength(lines),
    ...times,
    before: used.map(({ before }) => before),
    peak: used.map(({ peak }) => peak)
  }]
}

interface Compared {
  readonly database: Database
  readonly repetitions: number
  readonly readings: readonly Reading[]
  readonly lines: string
}

function compareTimes (
  { database, repetitions, readings, lines }: Compared
): Promise<Pick<Upload, 'oneflight' | 'other'>> {
  return onStage(async stage => {
    const { url } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url,
      connections: 1,
      env: limits
    })
    const send = useClient(stage, new URL('/batches/load', url).href, type)
    const { run } = await useReference(stage, database)
    const folder = mkdtempSync(join(tmpdir(), 'oneflight-bench-'))
    stage.teardown(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'readings.csv')
    writeFileSync(file, readings.map(row => `${Object.values(row).join()}\n`).join(''))
    const measure = async (load: () => Promise<unknown>): Promise<number> => {
      await database.sql`truncate readings`
      const seconds = await timed(load)
      const [found] = await database.sql`select count(*)::int as count from readings`
      if (found?.['count'] !== readings.length) throw new Error('not all rows were inserted')
      return seconds
    }
    const [oneflight, other] = await turns(
      repetitions,
      () => measure(() => send(lines)),
      () => measure(() => run(`\\copy readings from '${file}' with (format csv)`))
    )
    return { oneflight, other }
  })
}

/** The memory of a new process that has run small uploads before. */
function measurePeak (
  database: Database,
  lines: string
): Promise<{ readonly before: number | null, readonly peak: number | null }> {
  return onStage(async stage => {
    const { url, pid } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url,
      env: limits
    })
    const send = useClient(stage, new URL('/batches/load', url).href, type)
    const few = lines.split('\n', 10).join('\n')
    for (let i = 0; i < 200; i++) await send(few)
    const measurable = memoryOf(pid) !== undefined
    if (measurable) forgetPeak(pid)
    const before = memoryOf(pid)?.now ?? null
    await send(lines)
    return { before, peak: memoryOf(pid)?.peak ?? null }
  })
}
