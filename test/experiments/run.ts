/**
 * `npm run test:chaos [scenario …]`: runs the long form of scenarios, prints their figures and
 * writes `figures.json`. SEED=n replays a run. Exit code 1 if a goal is missed.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { installedPackage } from '../../scripts/dev/binaries.ts'
import { figuresFile, readFigures, type ScenarioRun } from '../promises.ts'
import { major, skip } from '../support/database/restartable-server.ts'
import { citus } from './citus.ts'
import { conflicts } from './conflicts.ts'
import { cuts } from './cuts.ts'
import { fairness } from './fairness.ts'
import { hostile } from './hostile.ts'
import { listAppend } from './list-append.ts'
import { overload } from './overload.ts'
import { pieces } from './pieces.ts'
import { restart } from './restart.ts'
import { isReached, seeded, type Figure, type Scenario } from './scenario.ts'
import { storm } from './storm.ts'

const scenarios: readonly Scenario[] = [
  storm,
  cuts,
  overload,
  conflicts,
  restart,
  listAppend,
  hostile,
  pieces,
  fairness,
  citus
]

const root = join(import.meta.dirname, '../..')
const names = process.argv.slice(2)
const unknown = names.filter(name => !scenarios.some(scenario => scenario.name === name))
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

// process.exit() runs the handlers that kill the processes started by scenarios.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

if (unknown.length > 0 || !Number.isSafeInteger(seed)) {
  const known = scenarios.map(({ name }) => name).join(', ')
  console.error(
    unknown.length > 0
      ? `unknown scenario ${unknown.join(', ')} (expected ${known})`
      : 'SEED must be an integer'
  )
  process.exitCode = 1
} else {
  await runAll(scenarios.filter(({ name, server }) =>
    names.length === 0 ? server === undefined : names.includes(name)
  ))
}

async function runAll (chosen: readonly Scenario[]): Promise<void> {
  console.log(`SEED=${seed}`)
  // Read now, because HEAD may move while a scenario runs.
  const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()
  const missed: string[] = []
  for (const { name, run, server = embeddedVersion } of chosen) {
    const start = performance.now()
    console.log(`# ${name}`)
    const figures = await run({
      long: true,
      // A new sequence for each scenario, so its random numbers do not depend on the others.
      random: seeded(seed),
      log: text => console.log(`#   ${text}`)
    })
    write({
      scenario: name,
      date: new Date().toISOString(),
      commit,
      seed,
      node: process.version,
      postgres: await server(),
      cores: availableParallelism(),
      figures
    })
    for (const figure of figures) if (!isReached(figure)) missed.push(`${name}: ${figure.name}`)
    console.log(
      `${renderTable(figures)}# ${name}: ${((performance.now() - start) / 1000).toFixed(0)} s\n`
    )
  }
  console.log(
    missed.length === 0
      ? 'all goals reached'
      : `${missed.length} goals missed: ${missed.join('; ')}`
  )
  console.log(
    `replay with: SEED=${seed} npm run test:chaos${names.map(name => ` ${name}`).join('')}`
  )
  process.exitCode = missed.length === 0 ? 0 : 1
}

/** Writes the figures of one scenario in place of its earlier ones. */
function write (run: ScenarioRun): void {
  const file = join(root, figuresFile)
  const others = readFigures(readFileSync(file, 'utf8')).filter(
    ({ scenario }) => scenario !== run.scenario
  )
  const runs = [...others, run]
  const ordered = scenarios.flatMap(({ name }) => runs.filter(({ scenario }) => scenario === name))
  writeFileSync(file, `${JSON.stringify(ordered, null, 2)}\n`)
}

async function embeddedVersion (): Promise<string> {
  if (skip !== false) return ''
  return (await installedPackage(major)).version.replace(/\.0-.*$/, '')
}

function renderTable (figures: readonly Figure[]): string {
  const width = Math.max(...figures.map(({ name }) => name.length))
  return figures.map(figure => {
    const { exactly, atLeast, atMost } = figure.goal ?? {}
    const goals = [['=', exactly], ['>=', atLeast], ['<=', atMost]] as const
    const goal = goals.flatMap(([sign, bound]) =>
      bound === undefined ? [] : [`${sign} ${show(bound, figure)}`]
    ).join(', ')
    const verdict = figure.goal === undefined ? '' : isReached(figure) ? 'reached' : 'MISSED'
    return `${figure.name.padEnd(width)}  ${show(figure.value, figure).padStart(12)}  ${
      goal.padEnd(14)
    }  ${verdict}\n`
  }).join('')
}

function show (value: number, { unit }: Figure): string {
  const shown = unit === '%' ? value * 100 : value
  return `${Number.isInteger(shown) ? shown : shown.toFixed(1)}${unit === '' ? '' : ` ${unit}`}`
}
