/**
 * The patroni experiment: clients transfer money while the leader of a Patroni cluster fails or
 * hands over. It starts the cluster on this machine and takes 20 minutes; the short form is its
 * first part. `--only=freeze --only=asynchronous` limits it. The results are in
 * `patroni/figures.json`. Needs Debian's packages patroni, etcd-server, haproxy and postgresql.
 */
import { writeFileSync } from 'node:fs'
import {
  figureFor,
  mustBeZero,
  readCommit,
  renderRecord,
  seeded,
  type Figure,
  type Scenario
} from '../scenario.ts'
import { startCluster } from './cluster.ts'
import { runExperiment, type Experiment, type Result } from './experiment.ts'
import { figuresFile, readRecord, type PatroniRecord } from './figures.ts'
import { programs, readVersions } from './programs.ts'

const modes: ReadonlyArray<Pick<Experiment, 'route' | 'synchronous'>> = [
  { route: 'hosts', synchronous: true },
  { route: 'haproxy', synchronous: true },
  { route: 'hosts', synchronous: false },
  { route: 'haproxy', synchronous: false }
]

/** REQUEST_TIMEOUT_MS: the default, and less than ttl - loop_wait of patroni.yml (15 s). */
const [LONG_MS, SHORT_MS] = [30_000, 10_000]

const experiments: readonly Experiment[] = [
  ...modes.map(mode => ({ fault: 'kill' as const, ...mode, requestTimeoutMs: LONG_MS })),
  ...modes.map(mode => ({ fault: 'switchover' as const, ...mode, requestTimeoutMs: LONG_MS })),
  ...modes.flatMap(mode =>
    [0, 5000].flatMap(thawAfterMs =>
      (mode.synchronous || mode.route === 'haproxy' ? [LONG_MS] : [LONG_MS, SHORT_MS]).map(
        requestTimeoutMs => ({ fault: 'freeze' as const, ...mode, requestTimeoutMs, thawAfterMs })
      )
    )
  )
]

export const patroni: Scenario = {
  name: 'patroni',
  isSpecial: true,
  hasOwnRecord: true,
  async run (stage, { long, random, log, only = [] }) {
    const missing = Object.keys(programs).filter(name => programs[name] === undefined)
    if (missing.length > 0) throw new Error(`not installed: ${missing.join(', ')}`)
    const commit = readCommit()
    const chosen = experiments.filter(experiment =>
      only.every(word => wordsOf(experiment).includes(word))
    )
    const cluster = await startCluster(stage)
    const figures: Figure[] = []
    for (const [i, experiment] of chosen.slice(0, long ? Infinity : 1).entries()) {
      const options = { database: `shop${i + 1}`, random: seeded(random() * 2 ** 32) }
      const result = await runExperiment(cluster, experiment, options)
      log(JSON.stringify(result))
      figures.push(...describe(result))
      if (long) write(result, commit)
    }
    return figures
  }
}

function wordsOf ({ fault, route, synchronous }: Experiment): readonly string[] {
  return [fault, route, synchronous ? 'synchronous' : 'asynchronous']
}

function describe (result: Result): readonly Figure[] {
  const part = wordsOf(result).join(', ')
  return [
    figureFor(1)(`batches (${part})`, result.keyed + result.unkeyed),
    mustBeZero(1, 2, 3, 4)(`broken promises (${part})`, result.violations.length),
    figureFor(11)(`time until the promotion (${part})`, result.promotedMs, { unit: 'ms' })
  ]
}

/** Replaces the result of the same experiment, and keeps those of all others. */
function write (result: Result, commit: string): void {
  const earlier = readRecord().results
  const record: PatroniRecord = {
    date: new Date().toISOString(),
    commit,
    versions: readVersions(),
    results: experiments.flatMap(experiment =>
      [result, ...earlier].find(result => isOf(experiment, result)) ?? []
    )
  }
  writeFileSync(figuresFile, `${renderRecord(record, 'results')}\n`)
}

function isOf (experiment: Experiment, result: Result): boolean {
  const names = ['fault', 'route', 'synchronous', 'requestTimeoutMs', 'thawAfterMs'] as const
  return names.every(name => experiment[name] === result[name])
}
