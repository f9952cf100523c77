/**
 * A batch as statements, ready to be sent, and the variants in which an attempt can send it.
 */
import type { Preferences } from '../../schemas/prefer.ts'
import type { Statement } from '../sql/compile.ts'
import type { RenderedSql } from '../sql/fragment.ts'
import type { Key } from '../sql/idempotency.ts'
import type { PlainStatement } from '../sql/plain.ts'
import type { ConnectionFacts } from '../sql/session.ts'

/** How a transaction begins and ends. */
export type TransactionMode = Pick<Preferences, 'tx' | 'isolation' | 'access'>

/** One transaction: the session, then the operations. Each operation answers one row and column. */
export interface CompiledBatch {
  readonly role: string
  /** The role and the claims. */
  readonly principal: string
  /**
   * Builds the statements that set role, claims and settings; they depend on the connection. The
   * last one returns the id of the transaction.
   */
  readonly session: (connection: ConnectionFacts) => readonly Statement[]
  /** Builds the statements that set on workers what operations need there; only for Citus. */
  readonly workerSession?: (connection: ConnectionFacts) => readonly Statement[]
  /** Returns the same batch in the SQL of Citus. */
  readonly forCitus?: () => CompiledBatch
  /** Whether the batch can write. Then the session returns the id of the transaction. */
  readonly writes?: boolean
  readonly count: number
  /** Returns the operations in the general form, which is compiled when it is needed. */
  readonly operations: () => readonly Statement[]
  /** The operations in the plain form. undefined: the batch is only run in the general form. */
  readonly plain?: PlainBatch | undefined
  /**
   * Compiles the operations with value checks, and with a session that is restored after each of
   * them when `restoreSession` is true.
   */
  readonly compileChecked?: ((restoreSession: boolean) => readonly Statement[]) | undefined
  /** The columns of its tables. */
  readonly columns?: LearnedTypes
  /** The functions that the batch calls with arguments whose types must be known. */
  readonly functions?: CalledFunctions | undefined
  /** Operations read rows of earlier operations. */
  readonly hasReferences?: boolean
  readonly mode: TransactionMode
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Whether the answer tells the position after COMMIT. */
  readonly returnsPosition?: boolean
  /** The answers are stored under this key, in the same transaction. */
  readonly key?: Key | undefined
  /**
   * Appended to every statement, for the log of the server. The text then differs in each batch, so
   * nothing is prepared.
   */
  readonly comment?: string
}

/** Types that are read before a batch begins. */
export interface LearnedTypes {
  /** Returns the statement that reads what is not known yet; undefined: all is known. */
  readonly lookup: () => RenderedSql | undefined
  /** Keeps its result. */
  readonly remember: (types: string) => void
}

/** What a batch needs to know about the functions that it calls; see src/sql/function-types.ts. */
export interface CalledFunctions extends LearnedTypes {
  /** A function was replaced. */
  readonly forget: () => void
}

/** The operations of a batch in the plain form; see src/sql/plain.ts. */
export interface PlainBatch {
  /** undefined: an operation that has no plain form. */
  readonly statements: ReadonlyArray<PlainStatement | undefined>
  /** See linkOperations. */
  readonly links: readonly number[]
  /** Reads the types of columns that are not known; undefined: all are known. */
  readonly columnTypes: Statement | undefined
  readonly remember: (columnTypes: string) => void
  /** The types of some columns have changed. */
  readonly forget: () => void
}

/** What an attempt does differently from the first one. */
export interface AttemptVariant {
  /** Check more closely that every value fits its column. */
  readonly checkValues?: boolean
  /** Set the session again after each operation, because a trigger changes it. */
  readonly restoreSession?: boolean
  /** Use only the general form. */
  readonly general?: boolean
  /** Do not read types of columns after the operations, which may have set a short timeout. */
  readonly onlyOperations?: boolean
  /** Read the types of the columns again, before the batch begins. */
  readonly freshColumns?: boolean
  /** Read the types of the parameters of functions again. */
  readonly freshFunctions?: boolean
  /** Use no statement that was prepared before. */
  readonly unprepared?: boolean
}

/** A batch as one attempt sends it. */
export interface AttemptBatch extends CompiledBatch {
  readonly variant?: AttemptVariant
}

/** The batch in this variant. An attempt that restores the session also checks the values. */
export function applyVariant (batch: CompiledBatch, variant: AttemptVariant): AttemptBatch {
  const { checkValues, restoreSession = false } = variant
  if (checkValues !== true && !restoreSession) return { ...batch, variant }
  const checked = batch.compileChecked?.(restoreSession)
  const operations = checked === undefined ? batch.operations : () => checked
  return { ...batch, operations, variant: { ...variant, checkValues: true } }
}

/** Whether the transaction can change the database. If not, it can be run again in every case. */
export function mayCommit ({ tx, access }: TransactionMode): boolean {
  return tx === 'commit' && access === 'read-write'
}
