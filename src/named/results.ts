/**
 * What a named batch returns, as far as its plan shows it. The database knows the rest: which
 * columns a table has, and of which types.
 */
import type { NestedReads, OutputColumn, PlanNode, TableName } from '../plan/nodes.ts'
import { ALL_COLUMNS, isAllColumns } from '../plan/output.ts'
import type { Plan } from '../plan/plan.ts'

/** The result of an operation. */
export interface Result {
  readonly id: string
  /** The number of rows is returned instead of the rows. */
  readonly isCount: boolean
  /** It is null if the operation is skipped. */
  readonly canBeSkipped: boolean
  /** `expect` requires exactly one row. */
  readonly isOneRow: boolean
  /** Undefined for a call: only the database knows what the function returns. */
  readonly row: ResultRow | undefined
}

/** A row of an operation or of a nested read. */
export interface ResultRow {
  readonly table: TableName
  /** `"*"` stands for all columns of the table. */
  readonly columns: ReadonlyArray<OutputColumn | typeof ALL_COLUMNS>
  readonly nested: readonly NestedResult[]
}

/** A member of a row: rows of another table, or one row or null. */
export interface NestedResult {
  readonly name: string
  readonly isOne: boolean
  readonly row: ResultRow
}

export function listResults ({ operations }: Plan): readonly Result[] {
  return operations.map(node => ({
    id: node.id,
    isCount: node.answersCount === true,
    canBeSkipped: node.when.length > 0,
    isOneRow: node.expect?.min === 1 && node.expect.max === 1,
    row: node.kind === 'call'
      ? undefined
      : readRow(node, node.kind === 'select' ? node.nested : undefined)
  }))
}

function readRow (
  { table, output }: Pick<PlanNode, 'table' | 'output'>,
  nested: NestedReads | undefined
): ResultRow {
  return {
    table,
    columns: output?.map(column => isAllColumns(column) ? ALL_COLUMNS : column) ?? [ALL_COLUMNS],
    nested: nested?.reads.map(({ name, one, nested, ...part }) =>
      ({ name, isOne: one, row: readRow(part, nested) })) ?? []
  }
}
