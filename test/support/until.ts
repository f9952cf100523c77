/**
 * Polls a condition that has no event.
 */
import { setTimeout as delay } from 'node:timers/promises'

/**
 * Resolves with the first result of `check` that is not undefined, null or false. It has no
 * timeout; the test has one.
 */
export async function until<T> (check: () => Promise<T> | T): Promise<NonNullable<T>> {
  for (;;) {
    const result = await check()
    const isDone = result !== undefined && result !== null && result !== false
    if (isDone) return result as NonNullable<T>
    await delay(10)
  }
}
