/**
 * Compiles a plan for one request: its session, its operations, how its transaction ends.
 */
import type { EngineName } from '../../schemas/engine.ts'
import type { Identity } from '../../schemas/claims.ts'
import { enabled, type Preferences } from '../../schemas/prefer.ts'
import type { Trace } from '../../schemas/trace-context.ts'
import { once, type PlannedBatch } from '../plan/batch-planner.ts'
import type { Plan } from '../plan/nodes.ts'
import { notOnCitus } from './citus/citus.ts'
import { commentOn } from './frame/comment.ts'
import { columnTypesStatement, type ColumnTypes } from './values/column-types.ts'
import {
  functionTypesStatement,
  needsTypes,
  type FunctionTypes
} from './values/function-types.ts'
import type { Key } from './frame/idempotency.ts'
import { emptyResults } from './statement/shared-results.ts'
import type { ConnectionFacts } from '../postgres/facts.ts'
import type { SessionDefaults } from './frame/session.ts'
import type { Statement } from './statement/statement.ts'
import { workerSettings } from './citus/worker-session.ts'
import {
  compileChecked,
  compileOperations,
  compilePlans,
  type FindTypes
} from './compile-operations.ts'
import { compileSession } from './compile-session.ts'
import {
  mayCommit,
  type CompiledBatch,
  type LearnedTypes,
  type TransactionMode
} from './frame/compiled-batch.ts'
import type { DatabaseNumber } from './template-cache.ts'

/** The properties of a request that a batch needs. Fastify's request has them. */
export interface BatchRequest {
  readonly id: string
  readonly identity: Identity
  readonly preferences: Preferences
  readonly idempotencyKey: Key | undefined
  readonly trace: Trace | undefined
  /** What the batch must see; see src/sql/frame/position.ts. */
  readonly position?: string | undefined
}

/** Settings that all batches share. */
export interface CompileSettings extends SessionDefaults, DatabaseNumber {
  /** Maximum rows per operation. */
  readonly maxRows: number
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Add request id and trace to every statement (SQL_COMMENTS). */
  readonly sqlComments: boolean
  /** What is known about the types of columns. */
  readonly columnTypes: ColumnTypes
  /** What is known about the parameters of functions. */
  readonly functionTypes: FunctionTypes
  /** Whether answers of batches that write tell the position after COMMIT; false by default. */
  readonly returnsPosition?: boolean
}

export function compileBatch (
  batch: PlannedBatch,
  request: BatchRequest,
  settings: CompileSettings
): CompiledBatch {
  return {
    ...compileFor('postgresql', batch, { request, settings }),
    forCitus: once(() => compileFor('citus', batch, { request, settings }))
  }
}

interface CompileContext {
  readonly request: BatchRequest
  readonly settings: CompileSettings
}

function compileFor (
  engine: EngineName,
  batch: PlannedBatch,
  { request, settings }: CompileContext
): CompiledBatch {
  const distributed = engine === 'citus'
  const { outline } = batch
  const { id, identity, trace } = request
  const isQueryPlan = wantsQueryPlan(request.preferences)
  const mode = readMode(request.preferences)
  if (distributed && mode.isolation !== 'read-committed') {
    throw notOnCitus(
      `Citus cannot keep isolation=${mode.isolation}: its nodes have no common snapshot.`
    )
  }
  // A batch that commits nothing stores no answer: it can run as often as it is sent.
  const key = mayCommit(mode) ? request.idempotencyKey : undefined
  const session = {
    ...identity,
    requestId: id,
    writes: writes(outline, mode, key),
    ...isQueryPlan && { settings: emptyResults(outline) }
  }
  return {
    role: identity.role,
    principal: `${identity.role}\n${identity.claims}`,
    session: connection => compileSession(session, settings, connection),
    ...distributed && {
      workerSession: (connection: ConnectionFacts) => workerSettings(session, settings, connection)
    },
    writes: session.writes,
    ...isQueryPlan
      ? compileRenewable(batch, settings, find =>
        compilePlans(batch, { maxRows: settings.maxRows, distributed, ...find }))
      : compileRows(batch, request, {
        ...settings,
        keepAnswers: key !== undefined,
        distributed
      }),
    count: outline.operations.length,
    hasReferences: outline.referenceUses.size > 0,
    mode,
    maxBytes: settings.maxBytes,
    returnsPosition: settings.returnsPosition === true && session.writes,
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

function compileRows (
  batch: PlannedBatch,
  { identity, preferences }: BatchRequest,
  settings: CompileSettings & { readonly keepAnswers: boolean, readonly distributed: boolean }
): Pick<CompiledBatch, 'operations' | 'types' | 'compileChecked'> {
  const { keepAnswers, distributed, ...types } = settings
  const { maxRows, maxBytes, database } = settings
  const options = {
    session: identity,
    maxRows,
    maxBytes,
    minimal: preferences.return === 'minimal',
    keep: keepAnswers,
    distributed,
    database
  }
  return {
    ...compileRenewable(batch, types, find =>
      compileOperations(batch, { ...options, ...find })),
    compileChecked: restoreSession =>
      compileChecked(batch, { ...options, ...findTypes(types), restoreSession })
  }
}

/** What is known about types. */
type Types = Pick<CompileSettings, 'columnTypes' | 'functionTypes'>

function findTypes ({ columnTypes, functionTypes }: Types): FindTypes {
  return {
    findColumns: table => columnTypes.lookup(table),
    findFunction: name => functionTypes.lookup(name)
  }
}

/**
 * The operations. They are compiled when they are first needed, and again when types were read that
 * they depend on.
 */
function compileRenewable (
  { outline }: PlannedBatch,
  types: Types,
  compileFor: (find: FindTypes) => readonly Statement[]
): Pick<CompiledBatch, 'operations' | 'types'> {
  const compileLater = () => once(() => compileFor(findTypes(types)))
  let compiled = compileLater()
  return {
    operations: () => compiled(),
    types: learnTypes(outline, types, () => {
      compiled = compileLater()
    })
  }
}

/** The types on which a batch depends. `renew` is called when they were read. */
function learnTypes (
  { tables, operations }: Plan,
  { columnTypes, functionTypes }: Types,
  renew: () => void
): LearnedTypes {
  const functions = operations
    .filter(node => node.kind === 'call' && needsTypes(node)).map(({ table }) => table)
  const sources = [
    { names: tables, types: columnTypes, read: columnTypesStatement },
    { names: functions, types: functionTypes, read: functionTypesStatement }
  ]
  return {
    ofFunctions: functions.length > 0,
    unknown: () =>
      sources.flatMap(({ names, types, read }) => {
        const unknown = names.filter(name => types.lookup(name) === undefined)
        if (unknown.length === 0) return []
        return {
          text: read(unknown),
          remember (json) {
            types.remember(json)
            renew()
          }
        }
      }),
    forget () {
      for (const { names, types } of sources) for (const name of names) types.forget(name)
    }
  }
}

/** Whether the transaction changes the database, so that it needs an id from its start. */
function writes (plan: Plan, mode: TransactionMode, key: Key | undefined): boolean {
  if (!mayCommit(mode)) return false
  return key !== undefined || plan.operations.some(({ kind }) => kind !== 'select')
}
