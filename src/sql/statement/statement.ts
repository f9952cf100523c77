/**
 * A statement of a batch.
 */
import type { RenderedSql } from '../../fragment/fragment.ts'

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
