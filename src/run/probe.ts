/**
 * Whether the database answers. It has a lane of its own, so that it never waits behind batches, and remembers its answer for a
 * second, so that many askers cost one query.
 */
import type { DatabaseTarget } from '../../schemas/database.ts'
import { breakLane, closeLane, openLane, type Lane } from './lane.ts'

export interface Probe {
  /** true when the database answered within a second, now or less than a second ago. */
  reachable (): Promise<boolean>
  close (): Promise<void>
}

const REMEMBER_MS = 1000
const PATIENCE_MS = 1000

export function createProbe (target: DatabaseTarget): Probe {
  let lane: Lane | undefined
  let asked = -Infinity
  let answer: Promise<boolean> = Promise.resolve(false)
  const impatient = { ...target, connectTimeoutMs: Math.min(target.connectTimeoutMs, PATIENCE_MS) }

  const ask = async (): Promise<boolean> => {
    try {
      if (lane === undefined || lane.state.dead || lane.state.retired) {
        const former = lane
        lane = await openLane(impatient)
        if (former !== undefined) await closeLane(former)
      }
      await ping(lane)
      return true
    } catch {
      if (lane !== undefined) breakLane(lane)
      lane = undefined
      return false
    }
  }
  return {
    reachable () {
      if (performance.now() - asked >= REMEMBER_MS) {
        asked = performance.now()
        answer = ask()
      }
      return answer
    },
    async close () {
      await answer
      if (lane !== undefined) await closeLane(lane)
    }
  }
}

async function ping (lane: Lane): Promise<void> {
  const timer = setTimeout(breakLane, PATIENCE_MS, lane)
  try {
    await Promise.race([lane.client.unsafe('select 1'), lane.lost])
  } finally {
    clearTimeout(timer)
  }
}
