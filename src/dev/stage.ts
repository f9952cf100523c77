/**
 * What is started for one piece of work, and ended with it.
 */

/** What is to be ended, the last one first. */
export interface Stage {
  teardown(end: () => unknown): void
}

/** Runs `work` on a stage, then ends what it put there, whatever became of it. */
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
