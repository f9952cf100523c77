/** The figures of the last run of the experiments, and their table in the documentation. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault, Result } from './experiment.ts'

/** What a run writes. */
export interface PatroniRecord {
  /** ISO 8601. */
  readonly date: string
  readonly commit: string
  /** The name and the version of each program. */
  readonly versions: readonly string[]
  readonly results: readonly Result[]
}

export const figuresFile = join(import.meta.dirname, 'figures.json')

const HEAD = [
  'Fault',
  'Address',
  'Replication',
  '`REQUEST_TIMEOUT_MS`',
  'Batches with a key',
  'without',
  'of these, unknown',
  'Lost after 200',
  'Promotion after',
  'Next 200 after'
]

const faults: Readonly<Record<Fault, string>> = {
  kill: 'leader killed',
  switchover: 'switchover',
  freeze: 'leader frozen'
}

/** Reads what the last run has written. */
export function readRecord (): PatroniRecord {
  return JSON.parse(readFileSync(figuresFile, 'utf8')) as PatroniRecord
}

/** Returns the table in Markdown, with what was measured when. */
export function renderPatroniFigures (): string {
  const record = readRecord()
  const rows = [HEAD, HEAD.map(() => '---'), ...record.results.map(renderResult)]
  const broken = record.results.flatMap(({ violations }) => violations)
  return [
    ...rows.map(cells => `| ${cells.join(' | ')} |`),
    '',
    `Broken promises: ${broken.length === 0 ? 'none' : broken.join('; ')}.`,
    'Measured by `npm run test:chaos patroni` on ' +
      `${record.date.slice(0, 10)} at commit ` +
      `${record.commit.slice(0, 7)} with`,
    `${record.versions.join(', ')}.`
  ].join('\n')
}

function renderResult (result: Result): readonly string[] {
  const { fault, thawAfterMs, route, synchronous, requestTimeoutMs, promotedMs, servedMs } = result
  return [
    thawAfterMs === undefined
      ? faults[fault]
      : `${faults[fault]} until ${thawAfterMs / 1000} s after the promotion`,
    route === 'hosts' ? 'three hosts' : 'haproxy',
    synchronous ? 'synchronous' : 'asynchronous',
    String(requestTimeoutMs),
    String(result.keyed),
    String(result.unkeyed),
    String(result.unknown),
    result.lost === 0 ? '0' : `**${result.lost}**`,
    seconds(promotedMs),
    servedMs === undefined ? '' : seconds(servedMs)
  ]
}

function seconds (ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`
}
