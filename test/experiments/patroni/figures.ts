/** The figures of the last run of the experiments, and their table in the documentation. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Result } from './experiment.ts'

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
  'Replication',
  'Batches',
  'Unknown',
  'Lost after 200',
  'Promotion',
  'Next 200'
]

/** Reads what the last run has written. */
export function readRecord (): PatroniRecord {
  return JSON.parse(readFileSync(figuresFile, 'utf8')) as PatroniRecord
}

/**
 * Returns the table in Markdown, with what was measured when. A row has all experiments with a
 * kind of replication.
 */
export function renderPatroniFigures (): string {
  const record = readRecord()
  const groups = Map.groupBy(record.results, ({ synchronous }) =>
    synchronous ? 'synchronous' : 'asynchronous')
  const rows = [
    HEAD,
    HEAD.map(() => '---'),
    ...[...groups].map(([replication, results]) => [replication, ...renderResults(results)])
  ]
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

function renderResults (results: readonly Result[]): readonly string[] {
  const sum = (count: (result: Result) => number): number =>
    results.reduce((all, result) => all + count(result), 0)
  const lost = sum(result => result.lost)
  return [
    String(sum(({ keyed, unkeyed }) => keyed + unkeyed)),
    String(sum(({ unknown }) => unknown)),
    lost === 0 ? '0' : `**${lost}**`,
    seconds(results.map(({ promotedMs }) => promotedMs)),
    seconds(results.map(({ servedMs }) => servedMs))
  ]
}

/** The shortest and the longest time. */
function seconds (times: readonly number[]): string {
  return [...new Set([Math.min(...times), Math.max(...times)].map(ms =>
    (ms / 1000).toFixed(ms < 10_000 ? 2 : 0)
  ))].join('–') + ' s'
}
