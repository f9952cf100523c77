/**
 * The clock of this process for what is measured with `performance.now()`. Refuses to: touch timers.
 */
import type { Test } from 'tap'

/** Until the end of `t` no time passes, so nothing that is remembered for a while becomes too old. */
export function stopClock (t: Pick<Test, 'teardown'>): void {
  const { now } = performance
  const stopped = performance.now()
  performance.now = () => stopped
  t.teardown(() => { performance.now = now })
}
