/**
 * Which statements are worth preparing: those whose text recurs. postgres.js never forgets a prepared statement (5000 of them are
 * 89 MiB in a backend), so their number is bounded on each lane, and a lane that is full is replaced.
 */
import type { Lane } from './lane.ts'

const MAX_PER_LANE = 250
const MAX_REMEMBERED = 2000

// Texts seen lately, oldest first. A Map keeps the order of insertion, which is all that a least-recently-used list needs.
const seen = new Map<string, true>()

/** Whether to send `text` as a prepared statement on `lane`; the second time a text is seen, it recurs. */
export function shouldPrepare (lane: Lane, text: string): boolean {
  if (lane.prepared.has(text)) return true
  const recurs = remember(text)
  if (!recurs) return false
  lane.prepared.add(text)
  if (lane.prepared.size >= MAX_PER_LANE) lane.state.retired = true
  return true
}

function remember (text: string): boolean {
  const recurs = seen.delete(text)
  seen.set(text, true)
  if (seen.size > MAX_REMEMBERED) {
    const { value } = seen.keys().next()
    if (value !== undefined) seen.delete(value)
  }
  return recurs
}
