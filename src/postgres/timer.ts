/**
 * Timers for a deadline. Node's may be early by a part of a millisecond, and cuts the fraction off;
 * what is decided when one fires must not depend on it.
 */

/** Milliseconds to wait so that `time`, of performance.now(), has come when the timer fires. */
export function millisecondsUntil (time: number): number {
  return Math.max(1, Math.ceil(time - performance.now()) + 1)
}
