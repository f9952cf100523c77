/**
 * Cleanup functions for one piece of work, run in reverse order.
 */

export interface Stage {
  teardown(end: () => unknown): void
}

/** Runs `work`, then its cleanup functions, also when it failed. */
export async function onStage<T> (work: (stage: Stage) => Promise<T>): Promise<T> {
  const ends: Array<() => unknown> = []
  try {
    return await work({
      teardown: end => {
        ends.unshift(end)
      }
    })
  } finally {
    for (const end of ends) await end()
  }
}
