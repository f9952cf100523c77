/**
 * What can be observed of a batch that reached BEGIN: who ran it, how long it and its operations
 * took, and what failed.
 */
import type { DatabaseError } from '../errors/postgres.ts'
import type { Plan, PlanNode } from '../plan/nodes.ts'
import type { BatchOutcome } from './outcome.ts'

export interface OperationReport {
  readonly id: string
  readonly op: PlanNode['kind']
  /** `<schema>.<table>`; undefined when the database says that there is no such table. */
  readonly table: string | undefined
  readonly outcome: 'ok' | 'error'
  readonly ms: number
  /** When the answer before it came, as a time of performance.now(). */
  readonly since: number
}

export interface BatchReport {
  /**
   * undefined when the session did not take the role: then the name is the client's word and no
   * label.
   */
  readonly role: string | undefined
  readonly outcome: 'ok' | 'error'
  /** From the end of BEGIN to the answer of COMMIT, or to the failure. */
  readonly ms: number
  /** When BEGIN was answered, as a time of performance.now(). */
  readonly since: number
  /** Until the session was set; undefined: it was not. */
  readonly sessionMs: number | undefined
  /** Operations that were answered, then the one that failed, if any. */
  readonly operations: readonly OperationReport[]
}

/** Undefined table, undefined schema. */
const noTable = new Set(['42P01', '3F000'])

/**
 * `failed` is the operation that the failure was put down to; `now` a time of performance.now().
 */
export function createReport (
  plan: Plan,
  landed: BatchOutcome,
  failed: number | undefined,
  role: string,
  now: number
): BatchReport {
  const { times } = landed
  const [since = now, session, ...answers] = times
  // An answer came this long after the one before it: the first operation's after the session's,
  // which is second in `times`.
  const describe = (index: number, outcome: 'ok' | 'error'): OperationReport => {
    const { id, kind, table } = plan.operations[index] as PlanNode
    // The database looked for the table only where it failed, and there it may have said that there
    // is none.
    const exists = outcome === 'ok' || landed.kind !== 'failed' ||
      (landed.at === index && !noTable.has((landed.error as DatabaseError).code))
    const before = times[index + 1] ?? now
    return {
      id,
      op: kind,
      table: exists ? `${table.schema}.${table.name}` : undefined,
      outcome,
      since: before,
      ms: (times[index + 2] ?? now) - before
    }
  }
  // A missing row or column shows where it is published; the operations from there to its reader
  // stand before the failure all the same.
  const done = plan.operations.slice(0, failed ?? answers.length).map(({ index }) =>
    describe(index, 'ok')
  )
  return {
    role: session === undefined ? undefined : role,
    outcome: landed.kind === 'committed' ? 'ok' : 'error',
    since,
    ms: now - since,
    sessionMs: session === undefined ? undefined : session - since,
    operations: failed === undefined ? done : [...done, describe(failed, 'error')]
  }
}
