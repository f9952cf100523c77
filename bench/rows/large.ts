/**
 * Measures an upload of 100 000 rows and a stream of 1 000 000, compared with psql's `\copy` of the
 * same rows. Both sides run in turns. Also measures the memory of the service.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onStage } from '../../scripts/dev/stage.ts'
import { useClient } from '../client.ts'
import { contenders, findProgram, useServer } from '../contenders.ts'
import { forgetPeak, memoryOf } from '../cpu.ts'
import { resetTables, tokens, type Database } from '../database.ts'
import type { Large } from '../record.ts'
import { timed, turns, useReference } from './bulk.ts'

const UPLOADED = 100_000
const STREAMED = 1_000_000
const env = { MAX_UPLOAD_ROWS: String(UPLOADED), MAX_STREAM_ROWS: String(STREAMED) }
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
  rows = UPLOADED
): Promise<readonly Large[]> {
  if (findProgram('psql') === undefined) return []
  await resetTables(database.sql)
  const readings = makeReadings(rows)
  const lines = readings.map(reading => JSON.stringify(reading)).join('\n')
  const times = await compareTimes({ database, repetitions, readings, lines })
  const few = lines.split('\n', 10).join('\n')
  const send = (body: string) => (url: string): Promise<unknown> =>
    onStage(stage => useClient(stage, urlOfUpload(url), type)(body))
  const used = await measurePeaks(database, repetitions, { few: send(few), all: send(lines) })
  return [{
    what: 'upload',
    rows,
    bytes: Buffer.byteLength(lines),
    ...times,
    ...used
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
): Promise<Pick<Large, 'oneflight' | 'other'>> {
  return onStage(async stage => {
    const { url } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url,
      connections: 1,
      env
    })
    const send = useClient(stage, urlOfUpload(url), type)
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

const urlOfUpload = (url: string): string => new URL('/batches/load', url).href

/** Returns nothing without psql. */
export async function compareStreams (
  database: Database,
  repetitions: number,
  rows = STREAMED
): Promise<readonly Large[]> {
  if (findProgram('psql') === undefined) return []
  await resetTables(database.sql)
  await database.sql`insert into readings
    select n, 'sensor-' || n % 50, n / 8.0, now() from generate_series(1, ${rows}::int) n`
  let bytes = 0
  const read = (limit: number) => async (url: string): Promise<void> => {
    bytes = await readStream(url, limit)
  }
  const used = await measurePeaks(database, repetitions, { few: read(10), all: read(rows) })
  return await onStage(async stage => {
    const { url } = await useServer(stage, contenders.oneflight, {
      databaseUrl: database.url,
      connections: 1,
      env
    })
    const { run } = await useReference(stage, database)
    const copy = "\\copy (select row_to_json(r) from readings r) to '/dev/null'"
    const [oneflight, other] = await turns(
      repetitions,
      () => timed(() => read(rows)(url)),
      () => timed(() => run(copy))
    )
    await resetTables(database.sql)
    return [{ what: 'stream' as const, rows, bytes, oneflight, other, ...used }]
  })
}

/** Reads a stream without parsing its rows, and returns their bytes. */
async function readStream (url: string, limit: number): Promise<number> {
  const request = httpRequest(url, {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      accept: type,
      authorization: `Bearer ${tokens[0]}`
    }
  })
  request.end(JSON.stringify([{ id: 'out', op: 'select', table: 'readings', limit }]))
  const [response] = await once(request, 'response')
  let bytes = 0
  let end = ''
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length
    end = `${end}${part.subarray(-200).toString()}`.slice(-200)
  }
  const last = end.trimEnd().split('\n').at(-1) ?? ''
  if (last !== `{"error":null,"data":{"out":${limit}}}`) throw new Error(`not all rows: ${last}`)
  return bytes - last.length - 1
}

/** Both take the URL of the service. */
interface Work {
  readonly few: (url: string) => Promise<unknown>
  readonly all: (url: string) => Promise<unknown>
}

/** The memory of new processes, each of which has moved few rows many times before. */
async function measurePeaks (
  database: Database,
  repetitions: number,
  { few, all }: Work
): Promise<Pick<Large, 'before' | 'peak'>> {
  const before: Array<number | null> = []
  const peak: Array<number | null> = []
  for (let i = 0; i < repetitions; i++) {
    await onStage(async stage => {
      const { url, pid } = await useServer(stage, contenders.oneflight, {
        databaseUrl: database.url,
        env
      })
      for (let j = 0; j < 200; j++) await few(url)
      if (memoryOf(pid) !== undefined) forgetPeak(pid)
      before.push(memoryOf(pid)?.now ?? null)
      await all(url)
      peak.push(memoryOf(pid)?.peak ?? null)
    })
  }
  return { before, peak }
}
