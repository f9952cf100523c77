/**
 * Runs a planned batch: compiles it, executes its transaction, and reports what happened.
 */
import type { Config } from '../../schemas/config.ts'
import { idleTimeoutMs } from '../../schemas/database.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import type { PlanNode } from '../plan/nodes.ts'
import type { Plan } from '../plan/plan.ts'
import type { PlannedBatch } from '../plan/plan-batch.ts'
import { wantsQueryPlan, type BatchRequest, type CompileSettings } from '../sql/compiler.ts'
import { mayCommit, type CompiledBatch } from '../sql/frame/compiled-batch.ts'
import { choosePool, type Database } from './decorators.ts'
import { executeBatch, type ExecuteOptions } from './execute.ts'
import type { BatchOutcome, Failed, RowSink } from './outcome.ts'
import { ReplicaBehind } from './position.ts'
import { createReport, type BatchReport } from './report.ts'
import { toFailure } from './to-failure.ts'

/** A request, and what takes its rows if they are streamed. */
interface RunRequest extends BatchRequest {
  readonly rowSink?: RowSink | undefined
}

interface RunBatchOptions extends ExecuteOptions {
  readonly database: Database
  readonly settings: BatchSettings
  /** Called if the replica does not reach the position of the batch in time. */
  readonly onReplicaBehind?: (() => void) | undefined
}

/** Settings that all batches share. */
export interface BatchSettings extends CompileSettings {
  /** Send PostgreSQL's own message and details to the client (ERROR_VERBOSITY). */
  readonly verbose: boolean
}

/** The settings that the configuration contains. */
export function batchSettings (config: Config): BatchSettings {
  return {
    schemas: config.DB_SCHEMAS,
    maxRows: config.MAX_ROWS,
    maxBytes: config.MAX_RESPONSE_BYTES,
    statementTimeoutMs: config.STATEMENT_TIMEOUT_MS,
    lockTimeoutMs: config.LOCK_TIMEOUT_MS,
    idleTimeoutMs,
    sqlComments: config.SQL_COMMENTS === 'on',
    returnsPosition: config.DATABASE_REPLICA_URL !== undefined,
    verbose: config.ERROR_VERBOSITY === 'verbose'
  }
}

export interface BatchResult {
  readonly outcome: BatchOutcome
  /** Why the batch did not succeed; undefined: it did. */
  readonly failure: Failure | undefined
  /** undefined: the batch did not run, because of its key. */
  readonly report: BatchReport | undefined
  /** The batch asked for query plans only. */
  readonly isQueryPlan: boolean
  /** The batch could change the database. */
  readonly mayCommit: boolean
  /** When the statements were compiled: a time of performance.now(). */
  readonly compiledAt: number
  /** When the outcome was known: a time of performance.now(). */
  readonly answeredAt: number
}

/** Throws what executeBatch throws: then nothing is committed. */
export async function runBatch (
  planned: PlannedBatch,
  request: RunRequest,
  options: RunBatchOptions
): Promise<BatchResult> {
  const { database, settings } = options
  const { plan, maxChanged, values } = planned
  const { position, rowSink, identity: { role, anonymous } } = request
  const batch = database.compiler.compile(planned, request)
  // Errors of the operations are found without a connection.
  batch.operations()
  const compiledAt = performance.now()
  const outcome = limitRows(
    await executeOn(database, batch, { ...options, position, rowSink }),
    plan,
    rowSink
  )
  const endedAt = performance.now()
  const deadline = Math.min(options.deadline, endedAt + LOOK_UP_TIMEOUT_MS)
  const { pool, compiler: { columnTypes } } = database
  const known = { pool, columnTypes, deadline, role, anonymous, maxChanged, values }
  const failed = outcome.kind === 'failed'
    ? await toFailure(outcome, plan, { ...settings, ...known })
    : undefined
  const answeredAt = performance.now()
  return {
    outcome,
    failure: failed ?? describeUnknown(outcome),
    report: didRun(outcome, failed)
      ? createReport(plan, outcome, {
        role,
        failed: failed && findOperation(outcome as Failed, failed),
        now: endedAt
      })
      : undefined,
    isQueryPlan: wantsQueryPlan(request.preferences),
    mayCommit: mayCommit(batch.mode),
    compiledAt,
    answeredAt
  }
}

/** A statement that streams rows reads one more than the maximum. */
function limitRows (
  outcome: BatchOutcome,
  { operations }: Plan,
  rowSink: RowSink | undefined
): BatchOutcome {
  if (rowSink === undefined || rowSink.count <= rowSink.maxRows) return outcome
  const message = `The select has more than ${rowSink.maxRows} rows (MAX_STREAM_ROWS). ` +
    'Read it in parts with "after".'
  const { id: op } = operations[0] as PlanNode
  const error = failure('rows_limit', message, { op, index: 0, retryable: false })
  return { kind: 'failed', error, at: 0, times: outcome.times }
}

/** Longest search for names that are similar to an unknown one. */
const LOOK_UP_TIMEOUT_MS = 2000

/**
 * Longest wait until the replica has the position of a request. A replica that is further behind
 * would delay reads more than the primary does.
 */
const REPLICA_WAIT_MS = 500

/** A batch with a position runs on the primary if the replica does not have it in time. */
async function executeOn (
  database: Database,
  batch: CompiledBatch,
  options: RunBatchOptions & Pick<BatchRequest, 'position'>
): Promise<BatchOutcome> {
  const { position, onReplicaBehind } = options
  const pool = choosePool(database, batch.mode)
  if (position === undefined || pool === database.pool) {
    return await executeBatch(pool, batch, options)
  }
  const needs = { position, until: performance.now() + REPLICA_WAIT_MS }
  try {
    return await executeBatch(pool, batch, { ...options, needs })
  } catch (error) {
    if (!(error instanceof ReplicaBehind)) throw error
    onReplicaBehind?.()
    return await executeBatch(database.pool, batch, options)
  }
}

/** A batch that is answered or refused because of its key did not run. */
function didRun (outcome: BatchOutcome, failed: Failure | undefined): boolean {
  if (outcome.kind === 'committed' && outcome.replayed === true) return false
  return failed?.type !== 'request_error'
}

/** The operation that metrics count as failed: that of the failure, or the one that was running. */
function findOperation ({ at }: Failed, { details: { index } }: Failure): number | undefined {
  return [index, at].find(place => typeof place === 'number')
}

function describeUnknown (outcome: BatchOutcome): Failure | undefined {
  if (outcome.kind !== 'unknown') return undefined
  return failure('commit_unknown', outcome.committed ? ROWS_LOST : undefined)
}

const ROWS_LOST = 'The batch is committed, but the connection was lost before its rows arrived.'
