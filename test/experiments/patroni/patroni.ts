/**
 * The patroni experiment: clients transfer money while the leader of a Patroni cluster is killed.
 * It starts the cluster on this machine and takes 5 minutes; the short form is its first part. The
 * results are in `patroni/figures.json`.
 * Needs Debian's packages patroni, etcd-server, haproxy and postgresql.
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

const experiments: readonly Experiment[] = [
  { route: 'hosts', synchronous: true },
  { route: 'haproxy', synchronous: true },
  { route: 'hosts', synchronous: false },
  { route: 'haproxy', synchronous: false }
]

export const patroni: Scenario = {
  name: 'patroni',
  isSpecial: true,
  hasOwnRecord: true,
  async run (stage, { long, random, log }) {
    const missing = Object.keys(programs).filter(name => programs[name] === undefined)
    if (missing.length > 0) throw new Error(`not installed: ${missing.join(', ')}`)
    const commit = readCommit()
    const cluster = await startCluster(stage)
    const figures: Figure[] = []
    for (const [i, experiment] of experiments.slice(0, long ? Infinity : 1).entries()) {
      const options = { database: `shop${i + 1}`, random: seeded(random() * 2 ** 32) }
      const result = await runExperiment(cluster, experiment, options)
      log(JSON.stringify(result))
      figures.push(...describe(result))
      if (long) write(result, commit)
    }
    return figures
  }
}

function describe (result: Result): readonly Figure[] {
  const part = `${result.route}, ${result.synchronous ? 'synchronous' : 'asynchronous'}`
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
  return experiment.route === result.route && experiment.synchronous === result.synchronous
}
