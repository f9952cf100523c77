/**
 * `node test/experiments/patroni/run.ts [word …]`: runs all experiments (about 20 minutes), or
 * those that all words describe (`freeze asynchronous`), on a cluster of this machine. Prints their
 * results and writes them to `figures.json`. Exit code 1 if a promise was broken. Needs Debian's
 * packages patroni, etcd-server, haproxy and postgresql.
 */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { onStage } from '../../../scripts/dev/stage.ts'
import { seeded } from '../scenario.ts'
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

// process.exit() runs the handlers that kill the processes started by an experiment.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

const missing = Object.keys(programs).filter(name => programs[name] === undefined)
if (missing.length > 0) {
  console.error(`not installed: ${missing.join(', ')}`)
  process.exitCode = 1
} else {
  await runAll(process.argv.slice(2))
}

async function runAll (words: readonly string[]): Promise<void> {
  const chosen = experiments.filter(({ fault, route, synchronous }) => {
    const own: readonly string[] = [fault, route, synchronous ? 'synchronous' : 'asynchronous']
    return words.every(word => own.includes(word))
  })
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], {
    cwd: import.meta.dirname,
    encoding: 'utf8'
  }).trim()
  await onStage(async stage => {
    const cluster = await startCluster(stage)
    for (const [i, experiment] of chosen.entries()) {
      const options = { database: `shop${i + 1}`, random: seeded(i) }
      const result = await runExperiment(cluster, experiment, options)
      console.log(JSON.stringify(result))
      if (result.violations.length > 0) process.exitCode = 1
      write(result, commit)
    }
  })
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
  writeFileSync(figuresFile, `${JSON.stringify(record, null, 2)}\n`)
}

function isOf (experiment: Experiment, result: Result): boolean {
  const names = ['fault', 'route', 'synchronous', 'requestTimeoutMs', 'thawAfterMs'] as const
  return names.every(name => experiment[name] === result[name])
}
