/** Waiting for what has no event. In charge of asking again; refuses to wait for a fixed time. */
import { setTimeout as delay } from 'node:timers/promises'

/**
 * Resolves with the first answer of `ask` that is not undefined, null or false. Never gives up: the
 * test's own timeout does.
 */
export async function until<T> (ask: () => Promise<T> | T): Promise<NonNullable<T>> {
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== null && answer !== false) return answer as NonNullable<T>
    await delay(10)
  }
}
