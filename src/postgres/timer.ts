/** Converts deadlines to timer delays. */

/**
 * Returns the delay in milliseconds after which `time`, of performance.now(), has passed. Node
 * truncates fractions and can fire a fraction of a millisecond early; code that runs on the timer
 * must see the deadline as passed.
 */
export function millisecondsUntil (time: number): number {
  return Math.max(1, Math.ceil(time - performance.now()) + 1)
}
