/** How often tests with random input run: fully in `npm run test:all`, less often otherwise. */

export const thorough = process.env['TEST_SUITE'] === 'all'

/** The number of runs of a property; the environment variable PROPERTY_RUNS overrides both. */
export function propertyRuns (quick: number, full: number): number {
  return Number(process.env['PROPERTY_RUNS'] ?? (thorough ? full : quick))
}
