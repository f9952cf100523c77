/**
 * What the compiler needs to know about a batch, and about one of its operations.
 */
import type { ReferenceUse, Requirements } from '../../plan/plan.ts'
import type { RowLimits } from '../statement/separate-batch.ts'
import type { SharedResult } from '../statement/shared-results.ts'
import type { FindFunction } from './function-types.ts'
import type { FindColumns } from './column-types.ts'
import type { References } from './references.ts'
import type { StatementNeeds } from './statement-needs.ts'
import type { TypedValues } from './typed-values.ts'

export interface CompileOptions extends RowLimits {
  /** Returns each row of the only operation, a select, as soon as it is read. */
  readonly streamed?: boolean
  /** Also keeps each result in a setting of the transaction, for storeStatement. */
  readonly keep?: boolean
  /**
   * Returns the query plan of each operation instead of its rows: `[{"Plan": {…}}]`. No operation
   * is skipped.
   */
  readonly explain?: boolean
  /**
   * Builds statements that are sent one by one, without checks of their rows; see separate.ts. They
   * contain what Citus can run.
   */
  readonly plain?: boolean
  readonly findColumns: FindColumns
  readonly findFunction: FindFunction
}

/** What is known about the statement of one operation. */
export interface StatementContext extends CompileOptions {
  readonly uses: readonly ReferenceUse[]
  readonly counted: boolean
  readonly shared: readonly SharedResult[]
  readonly requirements: Requirements | undefined
  /** Whether the rows are known to have a column that others read; see SourceColumns. */
  readonly hasColumn: (column: string) => boolean
  readonly needs: StatementNeeds
  readonly references: References
  readonly values: TypedValues
  /** See findSeparate. */
  readonly separate: boolean
  /** See Statement. */
  readonly runsCode: boolean
  /** The number of operations of the batch. */
  readonly operations: number
}
