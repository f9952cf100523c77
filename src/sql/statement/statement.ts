/**
 * A statement of a batch, and what its compiler needs to know.
 */
import type { FindColumns } from '../values/column-types.ts'
import type { RenderedSql } from '../../fragment/fragment.ts'
import type { FindFunction } from '../values/function-types.ts'
import type { SessionIdentity } from './session-checks.ts'

export interface Statement extends RenderedSql {
  /** Whether the text does not depend on the amount of data, so that preparing it pays off. */
  readonly prepare: boolean
  /** Whether it stores JSON that may not fit the type of its column; see value-checks.ts. */
  readonly needsValueChecks?: boolean
  /**
   * Of the statement of an operation: an attempt with value checks tells no more about its errors.
   * It calls a function, or names a table or a column that the service does not know.
   */
  readonly isFinal?: boolean
  /**
   * Whether column 0 of each row of the result is one row as JSON. Otherwise the result is one row,
   * and its column 0 is the result of the operation as JSON.
   */
  readonly separateRows?: boolean
}

export interface CompileOptions {
  /** The role and the claims that every operation must run with. */
  readonly session: SessionIdentity
  /** Maximum rows per operation. */
  readonly maxRows: number
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Returns the number of rows instead of the rows, also of operations that are not `counted`. */
  readonly minimal?: boolean
  /** Also keeps each result in a setting of the transaction, for storeStatement. */
  readonly keep?: boolean
  /**
   * Checks each value against its type by the catalogue (see value-checks.ts), distinguishes the
   * JSON null from NULL, and adds up the bytes of all operations. For a batch that failed because a
   * value may not fit its type, or an operation returned more than its share of the bytes.
   */
  readonly checkValues?: boolean
  /**
   * Computes the values of an operation before it starts and writes its rows after it has ended, so
   * that settings changed by a trigger affect neither. For the retry of a batch whose session was
   * changed; it also sets the session again after each operation.
   */
  readonly restoreSession?: boolean
  /** Builds the SQL for Citus; see citus.ts. */
  readonly distributed?: boolean
  /** Finds the types of columns; by default no table is known. */
  readonly findColumns?: FindColumns
  /** Finds the types of the parameters of functions; undefined: they are not known. */
  readonly findFunction?: FindFunction
}
