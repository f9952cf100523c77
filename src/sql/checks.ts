/**
 * Checks that a statement makes after its operation has run, before it returns the result.
 */
import type { PlanNode } from '../plan/nodes.ts'
import { fixed, integer, parameter, sql, type Fragment } from './fragment.ts'
import { raise } from './marker.ts'
import { formatsUnchanged, searchPathUnchanged } from './session-checks.ts'

/**
 * A case of the statement's CASE. `then` raises a failure or is NULL. The first true case counts.
 */
export interface Check {
  readonly when: Fragment
  readonly then: Fragment
}

const raiseSession = raise('session', sql`j.n`)

/**
 * The check of a batch that is one operation. It ignores the search_path: there is no other
 * operation that could depend on it.
 */
export const SINGLE_OPERATION_CHECKS: readonly Check[] = [
  { when: fixed(sql`not (${formatsUnchanged})`), then: raiseSession }
]

/** The check of the last of several operations. */
export const LAST_OPERATION_CHECKS: readonly Check[] = [
  { when: fixed(sql`not (${formatsUnchanged} and ${searchPathUnchanged})`), then: raiseSession }
]

/** Checks the number of rows against MAX_ROWS and `expect`. */
export function buildRowCountChecks ({ expect }: PlanNode, maxRows: number): readonly Check[] {
  const limit = { when: sql`j.n > ${integer(maxRows)}`, then: raise('rows', sql`j.n`) }
  if (expect === undefined) return [limit]
  const { min, max } = expect
  const bounds = [
    ...(min > 0 ? [sql`j.n < ${parameter(String(min))}`] : []),
    ...(max < Infinity ? [sql`j.n > ${parameter(String(max))}`] : [])
  ]
  return [limit, ...bounds.map(when => ({ when, then: raise('expect', sql`j.n`) }))]
}
