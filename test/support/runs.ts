/** How much tests of many inputs run: fully with TEST_FULL=on, less otherwise. */

export const thorough = process.env['TEST_FULL'] === 'on'

/** The number of runs of a property; the environment variable PROPERTY_RUNS overrides both. */
export function propertyRuns (quick: number, full: number): number {
  return Number(process.env['PROPERTY_RUNS'] ?? (thorough ? full : quick))
}

/** Whether a test of combinations that are alike takes this one: one of `n` in the quick suites. */
export function isTaken (combination: number, n: number): boolean {
  return thorough || combination % n === 0
}
