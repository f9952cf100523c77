/**
 * The report on a batch that was sent, for logs, metrics and traces.
 */
import type { OperationKind } from '../../schemas/operation.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { isSchemaFault } from '../errors/schema-fault.ts'
import { isUndefinedTable } from '../errors/sqlstates.ts'
import type { PlanNode } from '../plan/nodes.ts'
import type { Plan } from '../plan/plan.ts'
import type { StatementTimes } from '../postgres/wire-protocol.ts'
import type { BatchOutcome, AttemptTimes } from './outcome.ts'

export interface OperationReport {
  readonly id: string
  readonly op: OperationKind
  /** `<schema>.<table>`; undefined when PostgreSQL reported that there is no such table. */
  readonly table: string | undefined
  /** `skipped`: its `when` did not hold. */
  readonly outcome: 'ok' | 'error' | 'skipped'
  /** Milliseconds from the end of the previous operation to that of this one; see settleTimes. */
  readonly ms: number
  /** The end of the previous operation, as a time of performance.now(). */
  readonly since: number
}

export interface BatchReport {
  /** undefined when the session did not take the role: an unverified name must not be a label. */
  readonly role: string | undefined
  readonly outcome: 'ok' | 'error'
  /** Milliseconds from the sending of the statements to the answer of COMMIT, or the failure. */
  readonly ms: number
  /** When the statements were sent, as a time of performance.now(). */
  readonly since: number
  /** Milliseconds until the session was set; undefined: it was not. */
  readonly sessionMs: number | undefined
  /** The operations that were answered, then the one that failed, if any. */
  readonly operations: readonly OperationReport[]
}

interface ReportOptions {
  readonly role: string
  /** The operation to which the failure belongs. */
  readonly failed: number | undefined
  /** A time of performance.now(). */
  readonly now: number
}

export function createReport (
  plan: Plan,
  batch: BatchOutcome,
  { role, failed, now }: ReportOptions
): BatchReport {
  const { begun = now, sessionSet, operations: answered } = batch.times
  const describe = (index: number, outcome: OperationReport['outcome']): OperationReport => {
    const { id, kind, table } = plan.operations[index] as PlanNode
    const since = (index === 0 ? sessionSet : answered[index - 1]) ?? now
    return {
      id,
      op: kind === 'bulk_update' ? 'update' : kind,
      table: isTableKnown(batch, index, outcome) ? `${table.schema}.${table.name}` : undefined,
      outcome,
      since,
      ms: (answered[index] ?? now) - since
    }
  }
  // A missing row or column fails where it is shared. The operations between there and the
  // operation that reads it count as done, and so do those before a name that does not exist.
  const done = plan.operations.slice(0, failed ?? answered.length)
    .map(({ index }) => describe(index, isSkipped(batch.rows?.[index]) ? 'skipped' : 'ok'))
  return {
    role: sessionSet === undefined ? undefined : role,
    outcome: batch.kind === 'committed' ? 'ok' : 'error',
    since: begun,
    ms: now - begun,
    sessionMs: sessionSet === undefined ? undefined : sessionSet - begun,
    operations: failed === undefined ? done : [...done, describe(failed, 'error')]
  }
}

/** Only the result of an operation that was skipped is the JSON null. */
function isSkipped (result: Buffer | undefined): boolean {
  return result?.length === NULL.length && NULL.equals(result)
}

const NULL = Buffer.from('null')

/** Only the operation that failed can have found that there is no such table. */
function isTableKnown (
  batch: BatchOutcome,
  index: number,
  outcome: OperationReport['outcome']
): boolean {
  if (outcome !== 'error' || batch.kind !== 'failed') return true
  const error = batch.error as DatabaseError
  return batch.at === index && (!isUndefinedTable(error.code) || isSchemaFault(error))
}

// When the session was set and when the operations ended. The answers of all operations arrive
// together, so the time from one to the next is taken from the clock of the server.

export interface ArrivedTimes extends AttemptTimes {
  /** The times of each operation that was answered; undefined: it returned none. */
  readonly server: ReadonlyArray<StatementTimes | undefined>
}

/**
 * Computes the times from when the answers arrived. An operation ends when the next one begins, so
 * its triggers count. The last one ends when its answer arrives, unless the next one failed.
 */
export function settleTimes (arrived: ArrivedTimes, count: number): AttemptTimes {
  const { begun, sessionSet, operations, server } = arrived
  const known = server.filter(times => times !== undefined)
  const [first, last, arrival] = [known[0], known.at(-1), operations.at(-1)]
  if (begun === undefined || sessionSet === undefined || arrival === undefined) return arrived
  // An operation without rows has no times. Its session was answered together with it.
  if (first === undefined || last === undefined) {
    return count === 1 ? { ...arrived, sessionSet: begun } : arrived
  }
  const begins = arrival - (last.ended - first.began)
  // The answer of the session arrives with all others, unless it was sent at once.
  const started = first === server[0] ? Math.min(sessionSet, begins) : begins
  // The clock of the server may be set meanwhile.
  let end = Math.max(begun, Math.min(sessionSet, started))
  const settled = { begun, sessionSet: end }
  // When the next operation with times began, by the index of an operation.
  const following: Array<number | undefined> = []
  for (let i = operations.length - 1; i >= 0; i--) {
    following[i] = server[i + 1]?.began ?? following[i + 1]
  }
  const ends = operations.map((_, i) => {
    const next = server[i + 1]?.began ?? (i === count - 1 ? undefined : server[i]?.ended) ??
      following[i]
    const ended = next === undefined ? arrival : started + (next - first.began)
    end = Math.min(arrival, Math.max(end, ended))
    return end
  })
  return { ...settled, operations: ends }
}
