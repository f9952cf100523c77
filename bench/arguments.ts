/**
 * The command line of the benchmark.
 */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { contenders } from './contenders.ts'
import type { WordSelection } from './rows/words.ts'
import type { Selection } from './rows/throughput.ts'
import { words } from './words/words.ts'

export interface Arguments {
  readonly quick: boolean
  /** The names of parts; none for all. */
  readonly names: readonly string[]
  readonly selection: Selection & WordSelection
  /** Names the arguments that mean nothing, if there are any. */
  readonly problem?: string | undefined
}

const options = {
  quick: { type: 'boolean' },
  'round-trips': { type: 'string' },
  against: { type: 'string' },
  words: { type: 'string' },
  'against-checkout': { type: 'string' }
} as const

const opponents: readonly string[] = [...Object.keys(contenders), 'pgbench']

/** Reads the arguments of a benchmark that has these parts. */
export function readArguments (
  parts: readonly string[],
  args: readonly string[] = process.argv.slice(2)
): Arguments {
  const { values, positionals } = parseArgs({ args: [...args], strict: false, options })
  const { quick, 'round-trips': roundTrips, against, 'against-checkout': checkout } = values
  const list = (value: unknown): readonly string[] | undefined =>
    value === undefined ? undefined : String(value).split(',')
  const selection = {
    roundTripsMs: list(roundTrips)?.map(Number),
    against: list(against),
    words: list(values['words']),
    checkout: checkout === undefined ? undefined : resolve(String(checkout))
  }
  const unknown = [
    ...positionals.filter(name => !parts.includes(name)),
    ...Object.keys(values).filter(name => !(name in options)).map(name => `--${name}`),
    ...list(roundTrips)?.filter(ms => Number.isNaN(Number(ms))) ?? [],
    ...selection.against?.filter(name => !opponents.includes(name)) ?? [],
    ...selection.words?.filter(name => !(name in words)) ?? [],
    ...[selection.checkout ?? []].flat().filter(folder => !existsSync(join(folder, 'src/main.ts')))
  ]
  return {
    quick: quick === true,
    names: positionals,
    selection,
    problem: unknown.length === 0 ? undefined : describeUsage(unknown, parts)
  }
}

function describeUsage (unknown: readonly string[], parts: readonly string[]): string {
  return `unknown ${unknown.join(', ')}. Expected some of:
  ${parts.join(', ')}
  --quick
  --round-trips=0,2.5
  --against=${opponents.join(',')}
  --words=${Object.keys(words).join(',')}
  --against-checkout=<folder with src/main.ts>`
}
