/**
 * What a scenario of faults is and what it finds: figures, each with the goal it is held against.
 * In charge of the words alone; `run.ts` runs scenarios, each file of this folder has one.
 */

export interface Goal {
  readonly atLeast?: number
  readonly atMost?: number
  readonly exactly?: number
}

/**
 * One measured number. `unit` is `''` for counts; ratios are shown as per cent by whoever prints
 * them (`%`), times in `ms`, memory in `MiB`.
 */
export interface Figure {
  readonly name: string
  readonly value: number
  readonly unit: '' | '%' | 'ms' | 'MiB'
  /** Absent for a number that only describes the run, e.g. how many batches there were. */
  readonly goal?: Goal
  /** Numbers of the promises (test/promises.ts) that this figure speaks of. */
  readonly promises: readonly number[]
}

export interface Setting {
  /** A source of numbers from 0 to 1 that is the same for the same seed. */
  readonly random: () => number
  /**
   * The form that takes minutes, with the figures of the issue; else everything at least once, in
   * seconds.
   */
  readonly long: boolean
  /** Tells what is going on, one line. */
  readonly say: (text: string) => void
}

export interface Scenario {
  readonly name: string
  readonly run: (setting: Setting) => Promise<readonly Figure[]>
}

/** Whether the figure is what it should be. */
export function isReached ({ value, goal = {} }: Figure): boolean {
  const { atLeast = -Infinity, atMost = Infinity, exactly = value } = goal
  return value >= atLeast && value <= atMost && value === exactly
}

/**
 * Figures that are the same however busy the machine is: counts. Times and rates are the long
 * form's, on a machine that does nothing else.
 */
export function counts (figures: readonly Figure[]): readonly Figure[] {
  return figures.filter(({ unit }) => unit === '')
}

/** Numbers from 0 to 1 by a seed (mulberry32): the same seed, the same faults. */
export function seeded (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6D2B79F5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}
