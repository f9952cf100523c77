/**
 * A batch as statements, ready to be sent.
 */
import type { EngineName } from '../../../schemas/database.ts'
import type { Preferences } from '../../../schemas/prefer.ts'
import type { NamedPart } from '../../plan/plan.ts'
import type { TableName } from '../../plan/nodes.ts'
import type { ConnectionFacts } from '../../postgres/facts.ts'
import { refuseStatement } from '../statement/refusal.ts'
import type { SeparateBatch } from '../statement/separate-batch.ts'
import type { Statement } from '../statement/statement.ts'
import type { Key } from './idempotency.ts'

/** How a transaction begins and ends. */
export type TransactionMode = Pick<Preferences, 'tx' | 'isolation' | 'access'>

/** One transaction: the session, then the operations. Each operation is one statement. */
export interface CompiledBatch {
  readonly role: string
  /**
   * Builds the statement that sets role, claims and settings; it depends on the connection. It
   * returns the id of the transaction.
   */
  readonly session: (connection: ConnectionFacts) => Statement
  /** Builds the statement that sets them again after an operation that can run code. */
  readonly sessionAgain: (connection: ConnectionFacts) => Statement
  /**
   * Builds the statements that set on workers what operations need there; only for Citus. Then the
   * commit of a batch with a key is a two-phase one.
   */
  readonly workerSession?: ((connection: ConnectionFacts) => readonly Statement[]) | undefined
  /** Returns the same batch with its operations one by one, for an engine that needs that. */
  readonly oneByOne?: (engine: EngineName) => CompiledBatch
  /** The operations one by one, instead of `operations`; undefined: all are sent at once. */
  readonly separate?: (() => SeparateBatch) | undefined
  /** Whether the batch can write. Then the session returns the id of the transaction. */
  readonly writes?: boolean
  readonly count: number
  /** Returns the operations, which are compiled when they are needed. */
  readonly operations: () => readonly Statement[]
  /** The types of its tables, and of the functions that it calls. */
  readonly types?: LearnedTypes | undefined
  readonly mode: TransactionMode
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Whether the response contains the position after COMMIT. */
  readonly returnsPosition?: boolean
  /** The results are stored under this key, in the same transaction. */
  readonly key?: Key | undefined
  /**
   * Appended to every statement, for the log of the server. The text then differs in each batch, so
   * nothing is prepared.
   */
  readonly comment?: string
  /** Whether it uses no statement that was prepared before. */
  readonly unprepared?: boolean
}

/** A query that returns types in one row, and the function that keeps them. */
export interface TypesQuery {
  readonly text: string
  readonly remember: (row: Readonly<Record<string, string | null>>) => void
}

/** Types that are read before a batch begins. The operations are compiled for those known. */
export interface LearnedTypes {
  /** Returns the query of those that are not known or were read a minute ago, if there are any. */
  readonly unknown: () => TypesQuery | undefined
  readonly tables: readonly TableName[]
  /** Returns the first name of the batch that the database does not have, if there is one. */
  readonly unknownName: () => NamedPart | undefined
  /** Returns the query of those that should be read again while batches go on, if there are any. */
  readonly aging: () => TypesQuery | undefined
  /** Returns the query of all of them. */
  readonly all: () => TypesQuery
  /**
   * Whether other types are known now than those for which the operations were compiled. If so, the
   * operations are compiled again.
   */
  readonly renew: () => boolean
}

/**
 * Returns the batch with a statement that fails instead of its operations: because the role may not
 * use the schema of these tables, or by raising `refused`.
 */
export function refuseOperations (
  batch: CompiledBatch,
  tables: readonly TableName[]
): CompiledBatch {
  const refusal = [refuseStatement(tables)]
  return { ...batch, operations: () => refusal, separate: undefined }
}

/** Whether the batch can run code of the database, which may change the session. */
export function runsCode ({ operations }: CompiledBatch): boolean {
  return operations().some(({ runsCode }) => runsCode === true)
}

/** Whether the transaction can change the database. If not, it can be run again in every case. */
export function mayCommit ({ tx, access }: TransactionMode): boolean {
  return tx === 'commit' && access === 'read-write'
}
