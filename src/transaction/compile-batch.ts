/**
 * Compiles a plan for one request: its session, its operations, how its transaction ends.
 */
import type { Identity } from '../../schemas/claims.ts'
import { enabled, type Preferences } from '../../schemas/prefer.ts'
import type { Trace } from '../../schemas/trace-context.ts'
import type { Plan } from '../plan/nodes.ts'
import { commentOn } from '../sql/comment.ts'
import { compile, compileQueryPlans } from '../sql/compile.ts'
import type { Key } from '../sql/idempotency.ts'
import { emptyPublications } from '../sql/publication.ts'
import { sessionStatement, type SessionDefaults } from '../sql/session.ts'
import { mayCommit, type CompiledBatch, type TransactionMode } from './compiled-batch.ts'

/** The properties of a request that a batch needs. Fastify's request has them. */
export interface BatchRequest {
  readonly id: string
  readonly identity: Identity
  readonly preferences: Preferences
  readonly idempotencyKey: Key | undefined
  readonly trace: Trace | undefined
}

/** Settings that all batches share. */
export interface CompileSettings extends SessionDefaults {
  /** Maximum rows per operation. */
  readonly maxRows: number
  /** Add request id and trace to every statement (SQL_COMMENTS). */
  readonly sqlComments: boolean
}

export function compileBatch (
  plan: Plan,
  request: BatchRequest,
  settings: CompileSettings
): CompiledBatch {
  const { id, identity, trace } = request
  const isQueryPlan = wantsQueryPlan(request.preferences)
  const mode = readMode(request.preferences)
  // A batch that commits nothing stores no answer: it can run as often as it is sent.
  const key = mayCommit(mode) ? request.idempotencyKey : undefined
  const session = {
    ...identity,
    requestId: id,
    writes: writes(plan, mode, key),
    settings: isQueryPlan ? emptyPublications(plan) : []
  }
  return {
    role: identity.role,
    session: connection => sessionStatement(session, settings, connection),
    ...isQueryPlan
      ? { operations: compileQueryPlans(plan, settings.maxRows) }
      : compileOperations(plan, request, { ...settings, keepAnswers: key !== undefined }),
    hasReferences: plan.referenceUses.size > 0,
    mode,
    key,
    comment: settings.sqlComments ? commentOn(id, trace) : ''
  }
}

/** Whether the client requests query plans instead of rows. */
export function wantsQueryPlan ({ explain }: Preferences): boolean {
  return explain === enabled
}

/** Query plans are read in a transaction that is rolled back. */
function readMode (preferences: Preferences): TransactionMode {
  return wantsQueryPlan(preferences) ? { ...preferences, tx: 'rollback' } : preferences
}

function compileOperations (
  plan: Plan,
  { identity, preferences }: BatchRequest,
  { maxRows, keepAnswers }: CompileSettings & { readonly keepAnswers: boolean }
): Pick<CompiledBatch, 'operations' | 'compileChecked'> {
  const options = {
    session: identity,
    maxRows,
    minimal: preferences.return === 'minimal',
    keep: keepAnswers
  }
  return {
    operations: compile(plan, options),
    compileChecked: restoreSession =>
      compile(plan, { ...options, checkValues: true, restoreSession })
  }
}

/** Whether the transaction changes the database, so that it needs an id from its start. */
function writes (plan: Plan, mode: TransactionMode, key: Key | undefined): boolean {
  if (!mayCommit(mode)) return false
  return key !== undefined || plan.operations.some(({ kind }) => kind !== 'select')
}
