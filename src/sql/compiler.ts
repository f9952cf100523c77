/**
 * Compiles planned batches for requests: the session, the operations, how the transaction ends. It
 * keeps what recurs. Requests whose plan is the same have the same statements, which are compiled
 * once and filled for each request.
 */
import type { EngineName } from '../../schemas/database.ts'
import type { Trace } from '../../schemas/http.ts'
import { enabled, type Preferences } from '../../schemas/prefer.ts'
import type { Identity } from '../../schemas/token.ts'
import type { PlannedBatch } from '../plan/plan-batch.ts'
import type { Plan } from '../plan/plan.ts'
import { separate as divide, type SeparatePlan } from '../plan/separate.ts'
import { distinctMembers, type MembersByPosition } from '../values/rows.ts'
import type { ConnectionFacts } from '../postgres/facts.ts'
import { refuseOnCitus, workerSettings } from './citus/citus.ts'
import { BatchTypes } from './batch-types.ts'
import { compile } from './compile.ts'
import type { CompileOptions } from './values/context.ts'
import {
  mayCommit,
  type CompiledBatch,
  type TransactionMode
} from './frame/compiled-batch.ts'
import type { Key } from './frame/idempotency.ts'
import {
  sessionAgainStatement,
  sessionStatement,
  type Session,
  type SessionDefaults
} from './frame/session.ts'
import { commentOn } from './frame/steps.ts'
import { SeparateBatch, type SeparateBatchParts } from './statement/separate-batch.ts'
import { isRowsSlot, textSlot } from './statement/slot.ts'
import { emptyResults } from './statement/shared-results.ts'
import {
  fillStatement,
  type CompiledStatement,
  type Statement
} from './statement/statement.ts'
import { FunctionTypes } from './values/function-types.ts'
import { ColumnTypes } from './values/column-types.ts'

/** The properties of a request that a batch needs. Fastify's request has them. */
export interface BatchRequest {
  readonly id: string
  readonly identity: Identity
  readonly preferences: Preferences
  readonly idempotencyKey: Key | undefined
  readonly trace: Trace | undefined
  /** The position in the write-ahead log that the batch must see; see isAtPosition. */
  readonly position?: string | undefined
  /** Set if the rows are sent while they are read: then the batch is one select. */
  readonly rowSink?: { readonly maxRows: number } | undefined
}

/** Settings that all batches share. */
export interface CompileSettings extends SessionDefaults {
  /** Maximum rows per operation. */
  readonly maxRows: number
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Add request id and trace to every statement (SQL_COMMENTS). */
  readonly sqlComments: boolean
  /**
   * Whether responses of batches that write contain the position after COMMIT; false by default.
   */
  readonly returnsPosition?: boolean
}

/** What is compiled of a plan or of a session. */
interface Compiled {
  readonly statements: readonly CompiledStatement[]
  /** The division of the plan, if its operations are sent one by one. */
  readonly separate?: SeparatePlan
}

interface Kept {
  readonly compiled: Compiled
  /** What was known about types. If one of them has changed, it is another object now. */
  readonly types: readonly unknown[]
}

/** Compiles the batches of one database. */
export class Compiler {
  /** What is known about the types of columns. */
  readonly columnTypes = new ColumnTypes()
  /** What is known about the parameters of functions. */
  readonly functionTypes = new FunctionTypes()
  readonly #settings: CompileSettings
  /** Compiled statements by plan or connection, and by variant: what else they depend on. */
  readonly #kept = new WeakMap<object, Map<string, Kept>>()
  readonly #find: Pick<CompileOptions, 'findColumns' | 'findFunction'> = {
    findColumns: table => this.columnTypes.lookup(table),
    findFunction: name => this.functionTypes.lookup(name)
  }

  constructor (settings: CompileSettings) {
    this.#settings = settings
  }

  compile (batch: PlannedBatch, request: BatchRequest): CompiledBatch {
    return {
      ...this.#compileFor('postgresql', batch, request),
      oneByOne: engine => this.#compileFor(engine, batch, request)
    }
  }

  #compileFor (engine: EngineName, batch: PlannedBatch, request: BatchRequest): CompiledBatch {
    const settings = this.#settings
    const { plan } = batch
    const { id, identity, trace, preferences, rowSink } = request
    const isQueryPlan = wantsQueryPlan(preferences)
    const mode = readMode(preferences)
    const plain = engine !== 'postgresql'
    // A batch that commits nothing stores no response: it can run as often as it is sent.
    const key = mayCommit(mode) ? request.idempotencyKey : undefined
    const session = {
      ...identity,
      requestId: id,
      writes: writes(plan, mode, key),
      keepsResults: !plain && (plan.referenceUses.size > 0 || plan.counted.size > 0),
      ...isQueryPlan && { settings: emptyResults(plan) }
    }
    const { maxRows, maxBytes } = settings
    const options: RowOptions = {
      ...this.#find,
      plain,
      maxRows: rowSink?.maxRows ?? maxRows,
      maxBytes,
      maxChanged: batch.maxChanged,
      streamed: rowSink !== undefined,
      minimal: preferences.return === 'minimal',
      keep: key !== undefined,
      explain: isQueryPlan
    }
    return {
      role: identity.role,
      session: connection => this.#compileSession(session, connection, sessionStatement),
      sessionAgain: connection => this.#compileSession(session, connection, sessionAgainStatement),
      ...engine === 'citus' && {
        workerSession: (connection: ConnectionFacts) =>
          workerSettings(session, settings, connection)
      },
      writes: session.writes,
      ...this.#compileRows(batch, { ...options, engine, mode }),
      count: plan.operations.length,
      mode,
      maxBytes,
      returnsPosition: settings.returnsPosition === true && session.writes,
      key,
      comment: settings.sqlComments ? commentOn(id, trace) : ''
    }
  }

  /** Returns what is known of the types of a plan, and what reads it. */
  typesOf (plan: Plan, engine: EngineName): BatchTypes {
    return new BatchTypes(plan, this, engine === 'citus')
  }

  /** Returns what the statements of a plan take of the rows of parameters. */
  rowMembersOf (plan: Plan): MembersByPosition {
    const { maxRows, maxBytes } = this.#settings
    const options = { maxRows, maxBytes, ...this.#find }
    const slots = compile(plan, options).flatMap(({ parameters }) => parameters.filter(isRowsSlot))
    const byPosition = Map.groupBy(slots, ({ position }) => position)
    return new Map([...byPosition].map(([position, slots]) =>
      [position, distinctMembers(slots.map(({ members }) => members))]))
  }

  /**
   * Returns statements that are compiled when they are first needed, and again after types on which
   * they depend have changed.
   */
  #compileRows (
    batch: PlannedBatch,
    { engine, mode, ...options }: RowOptions & {
      readonly engine: EngineName
      readonly mode: TransactionMode
    }
  ): Pick<CompiledBatch, 'operations' | 'types' | 'separate'> {
    const { plan, values } = batch
    const types = this.typesOf(plan, engine)
    if (engine === 'postgresql') {
      const operations = (): readonly Statement[] => types.compile(known =>
        this.#compileKept(batch, options, known, () => ({ statements: compile(plan, options) }))
          .statements.map(statement => fillStatement(statement, values)))
      return { operations, types }
    }
    let current: SeparateBatch | undefined
    const isUpload = batch.maxChanged !== undefined
    const operations = (): readonly Statement[] => types.compile(known => {
      if (engine === 'citus') refuseOnCitus(plan, { ...options, mode, isUpload })
      const kept = this.#compileKept(batch, options, known, () =>
        compileSeparate(divide(plan, { values: values.length, isUpload }), options))
      const findKey: SeparateBatchParts['findKey'] = (table, key) => {
        const columns = this.columnTypes.lookup(table)
        const names = 'constraint' in key ? columns?.uniqueKeys?.get(key.constraint)?.columns : key
        return names?.map(column => ({ column, type: columns?.get(column)?.type })) ?? []
      }
      const compiled = kept as Required<Compiled>
      current = new SeparateBatch({ plan, compiled, values, limits: options, findKey })
      return current.foresee()
    })
    const separate = (): SeparateBatch => {
      operations()
      return current as SeparateBatch
    }
    // Query plans need no rows of earlier operations.
    return { operations, types, separate: options.explain ? undefined : separate }
  }

  /** Compiles statements, or returns those that are kept for their plan. */
  #compileKept (
    { plan, isKept }: PlannedBatch,
    { minimal, keep, streamed, plain, maxChanged, explain }: CompileOptions,
    types: readonly unknown[],
    create: () => Compiled
  ): Compiled {
    if (!isKept || explain === true) return create()
    const variant = JSON.stringify([minimal, keep, streamed, plain, maxChanged])
    return this.#keep(plan, { variant, types }, create)
  }

  /** Calls `create` if nothing is kept for these types. */
  #keep (
    owner: object,
    { variant, types }: Pick<Kept, 'types'> & { readonly variant: string },
    create: () => Compiled
  ): Compiled {
    const variants = this.#kept.get(owner) ?? new Map<string, Kept>()
    this.#kept.set(owner, variants)
    const known = variants.get(variant)
    if (known?.types.every((type, i) => type === types[i]) === true) return known.compiled
    const compiled = create()
    variants.set(variant, { types, compiled })
    return compiled
  }

  /**
   * A statement of the session. For all batches on one connection it is the same, except for the
   * role, the claims and the request id. Some roles have a text of their own; see sessionStatement.
   */
  #compileSession (
    session: Session,
    connection: ConnectionFacts,
    compile: typeof sessionStatement | typeof sessionAgainStatement
  ): Statement {
    // The settings of query plans depend on the batch.
    if (session.settings !== undefined) return compile(session, this.#settings, connection)
    const { role, claims, requestId, writes, keepsResults } = session
    const { roleSettings, server } = connection
    const own = roleSettings.has(role) || role === server?.login ? role : undefined
    const variant = JSON.stringify([compile.name, writes, keepsResults, own])
    const { statements: [compiled] } = this.#keep(connection, { variant, types: [] }, () => {
      const slots = { claims: textSlot(0), requestId: textSlot(1), role: own ?? textSlot(2) }
      const generic = { ...session, ...slots }
      return { statements: [compile(generic, this.#settings, connection) as CompiledStatement] }
    })
    return fillStatement(compiled as CompiledStatement, [claims, requestId, role])
  }
}

/** The options of a batch that returns rows or query plans. */
type RowOptions = CompileOptions & Required<Pick<CompileOptions, 'minimal' | 'explain'>>

/**
 * Compiles the statements of a plan that are sent one by one. An operation whose rows are read
 * returns them, whatever the client wants to have.
 */
function compileSeparate (separate: SeparatePlan, options: RowOptions): Compiled {
  const statements = separate.statements.flatMap(({ plan, isRead }) =>
    compile(plan, { ...options, minimal: options.minimal && !isRead }))
  return { statements, separate }
}

/** Whether the client requests query plans instead of rows. */
export function wantsQueryPlan ({ explain }: Preferences): boolean {
  return explain === enabled
}

/** Query plans are read in a transaction that is rolled back. */
function readMode (preferences: Preferences): TransactionMode {
  return wantsQueryPlan(preferences) ? { ...preferences, tx: 'rollback' } : preferences
}

/** Whether the transaction can change the database. It then needs an id from its start. */
function writes (plan: Plan, mode: TransactionMode, key: Key | undefined): boolean {
  if (!mayCommit(mode)) return false
  return key !== undefined || plan.operations.some(({ kind }) => kind !== 'select')
}
