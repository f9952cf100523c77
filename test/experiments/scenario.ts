/**
 * The types of an experiment and of its figures, each with its goal. `run.ts` runs the experiments:
 * chaos scenarios, and others that measure.
 */
import { execFileSync } from 'node:child_process'
import type { Stage } from '../../scripts/dev/stage.ts'

export interface Goal {
  readonly atLeast?: number
  readonly atMost?: number
  readonly exactly?: number
}

/**
 * One measured number. `unit` is `''` for counts, `%` for ratios (printed as per cent), `ms` for
 * times, `MiB` for memory.
 */
export interface Figure {
  readonly name: string
  readonly value: number
  readonly unit: '' | '%' | 'ms' | 'MiB'
  /** Absent for numbers that only describe the run, such as the number of batches. */
  readonly goal?: Goal
  /** The promises (test/promises.ts) that this figure supports, by number. */
  readonly promises: readonly number[]
}

export interface ScenarioOptions {
  /** Random numbers from 0 to 1, the same for the same seed. */
  readonly random: () => number
  /**
   * True: the long form, which takes minutes. False: the short form with every fault at least once,
   * which takes seconds.
   */
  readonly long: boolean
  /** Reports the progress, one line. */
  readonly log: (text: string) => void
}

export interface Scenario {
  readonly name: string
  /** It needs programs or servers that the project does not install: it runs only by its name. */
  readonly isSpecial?: boolean
  /** Its long form writes a record of its own. The figures of others enter figures.json. */
  readonly hasOwnRecord?: boolean
  /** The end of the stage stops what it started. */
  readonly run: (stage: Stage, options: ScenarioOptions) => Promise<readonly Figure[]>
}

/**
 * Returns a function that makes a figure of these promises. Its unit is '' by default, and without
 * bounds it has no goal.
 */
export function figureFor (...promises: readonly number[]) {
  return (
    name: string,
    value: number,
    { unit = '', ...goal }: Goal & Partial<Pick<Figure, 'unit'>> = {}
  ): Figure => ({
    name,
    value,
    unit,
    ...Object.keys(goal).length > 0 && { goal },
    promises
  })
}

/** The same for figures whose goal is 0. */
export function mustBeZero (...promises: readonly number[]) {
  return (name: string, value: number): Figure =>
    figureFor(...promises)(name, value, { exactly: 0 })
}

/** Writes a record as JSON, with a line for each element of its array `name`. */
export function renderRecord (record: object, name: string): string {
  const { [name]: list, ...head } = record as Readonly<Record<string, unknown>>
  const lines = (list as readonly unknown[]).map(element => JSON.stringify(element))
  return `${JSON.stringify(head).slice(0, -1)},"${name}":[\n${lines.join(',\n')}\n]}`
}

/** Returns the commit that is checked out. HEAD may move while an experiment runs. */
export function readCommit (): string {
  const options = { cwd: import.meta.dirname, encoding: 'utf8' } as const
  return execFileSync('git', ['rev-parse', 'HEAD'], options).trim()
}

/** True if the figure reaches its goal or has none. */
export function isReached ({ value, goal = {} }: Figure): boolean {
  const { atLeast = -Infinity, atMost = Infinity, exactly = value } = goal
  return value >= atLeast && value <= atMost && value === exactly
}

/** Returns a generator of random numbers from 0 to 1 (mulberry32). */
export function seeded (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6D2B79F5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}
