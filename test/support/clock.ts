/**
 * Controls the time that `performance.now()` returns in this process. Timers are not affected.
 */
import type { Test } from 'tap'

/** Stops the time of `performance.now()` until the end of `t`, so cached entries stay valid. */
export function stopClock (t: Pick<Test, 'teardown'>): void {
  const { now } = performance
  const stopped = performance.now()
  performance.now = () => stopped
  t.teardown(() => {
    performance.now = now
  })
}
