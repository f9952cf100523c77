/**
 * `npm run test:chaos -- [--quick] [experiment …]`: runs the long form of experiments, prints their
 * figures and writes `figures.json`. SEED=n replays a run. `--quick` runs the short form and writes
 * nothing. Exit code 1 if a goal is missed.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { installedPackage } from '../../scripts/dev/binaries.ts'
import { onStage } from '../../scripts/dev/stage.ts'
import { figuresFile, readFigures, type ScenarioRun } from '../promises.ts'
import { major, skip } from '../support/database/restartable-server.ts'
import { cuts } from './cuts.ts'
import { fairness } from './fairness.ts'
import { growth } from './growth/growth.ts'
import { listAppend } from './list-append.ts'
import { overload } from './overload.ts'
import { patroni } from './patroni/patroni.ts'
import { pieces } from './pieces.ts'
import {
  isReached,
  readCommit,
  renderRecord,
  seeded,
  type Figure,
  type Scenario
} from './scenario.ts'
import { storm } from './storm.ts'

const scenarios: readonly Scenario[] = [
  storm,
  cuts,
  overload,
  listAppend,
  pieces,
  fairness,
  patroni,
  growth
]

const root = join(import.meta.dirname, '../..')

// process.exit() runs the handlers that kill the processes started by experiments.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))

const problem = await run(process.argv.slice(2)).catch((error: Error & { code?: string }) =>
  error.code?.startsWith('ERR_PARSE_ARGS') === true ? error.message : error
)
if (problem !== undefined) {
  console.error(problem)
  process.exitCode = 1
}

interface Options {
  readonly names: readonly string[]
  readonly quick: boolean
  readonly seed: number
}

/** Returns what is wrong with the arguments. */
async function run (args: string[]): Promise<string | undefined> {
  const { values: { quick }, positionals: names } = parseArgs({
    args,
    allowPositionals: true,
    options: { quick: { type: 'boolean', default: false } }
  })
  const unknown = names.filter(name => !scenarios.some(scenario => scenario.name === name))
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  if (unknown.length > 0) {
    const known = scenarios.map(({ name }) => name).join(', ')
    return `unknown experiment ${unknown.join(', ')} (expected ${known})`
  }
  if (!Number.isSafeInteger(seed)) return 'SEED must be an integer'
  await runAll({ names, quick, seed })
  return undefined
}

async function runAll ({ names, quick, seed }: Options): Promise<void> {
  console.log(`SEED=${seed}`)
  const commit = readCommit()
  const missed: string[] = []
  const chosen = scenarios.filter(({ name, isSpecial = false }) =>
    names.length === 0 ? !isSpecial : names.includes(name)
  )
  for (const { name, run, hasOwnRecord = false } of chosen) {
    const start = performance.now()
    console.log(`# ${name}`)
    const options = {
      long: !quick,
      // A new sequence for each experiment, so its random numbers do not depend on the others.
      random: seeded(seed),
      log: (text: string) => console.log(`#   ${text}`)
    }
    const figures = await onStage(stage => run(stage, options))
    if (!quick && !hasOwnRecord) {
      write({
        scenario: name,
        date: new Date().toISOString(),
        commit,
        seed,
        node: process.version,
        postgres: await embeddedVersion(),
        cores: availableParallelism(),
        figures
      })
    }
    for (const figure of figures) if (!isReached(figure)) missed.push(`${name}: ${figure.name}`)
    console.log(
      `${renderTable(figures)}# ${name}: ${((performance.now() - start) / 1000).toFixed(0)} s\n`
    )
  }
  if (quick) console.log('quick run: nothing was written')
  console.log(
    missed.length === 0
      ? 'all goals reached'
      : `${missed.length} goals missed: ${missed.join('; ')}`
  )
  const rerun = [...quick ? ['--quick'] : [], ...names]
  console.log(`replay with: SEED=${seed} npm run test:chaos -- ${rerun.join(' ')}`)
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
  writeFileSync(file, `[${ordered.map(run => renderRecord(run, 'figures')).join(',\n')}]\n`)
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
