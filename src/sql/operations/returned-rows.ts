/**
 * What a statement reads of the rows of its operation.
 */
import { empty, sql, type Fragment } from '../../fragment/fragment.ts'
import { isNested } from '../../plan/nested.ts'
import type { OutputColumn, PlanNode } from '../../plan/nodes.ts'
import { isAllColumns, isMarked } from '../../plan/output.ts'
import type { Check } from '../statement/checks.ts'
import { exposeColumns, type ExposedColumns } from '../statement/shared-results.ts'
import type { RowColumns } from '../values/column.ts'
import { returningList } from './output.ts'

/**
 * The part of the rows that the statement reads: whole rows, the output columns, or nothing. To
 * read nothing needs no SELECT privilege.
 */
export type Shape = 'whole' | 'columns' | 'nothing'

/** Returns the shape of an operation. `unread`: nothing reads its rows. */
export function shapeOf (node: PlanNode, unread: boolean): Shape {
  if (unread || node.output?.length === 0) return 'nothing'
  return node.output === undefined || isNested(node) ? 'whole' : 'columns'
}

export function hasAllColumns ({ output = [] }: PlanNode): boolean {
  return output.some(isAllColumns)
}

/**
 * The output columns as one value `row`, because beside the number of a row their names are not
 * known, and the exposed columns.
 */
export function returnedRecord (
  node: PlanNode,
  columns: RowColumns,
  exposed: ExposedColumns
): Fragment {
  const source = returnedColumns(node, columns)
  return sql`(select q.*::record from ${source}) as row${exposeColumns(exposed, sql`q`, source)}`
}

function returnedColumns (node: PlanNode, columns: RowColumns): Fragment {
  // A subquery that depends on no row is computed once.
  const each = isMarked(node) ? sql` where pg_catalog.num_nulls(t.*) is not null` : empty
  const list = returningList(node.output as readonly OutputColumn[], columns)
  return sql`(select ${list}${each}) as q`
}

export interface BuiltOperation {
  readonly ctes: readonly Fragment[]
  /** What follows FROM. */
  readonly rows: Fragment
  readonly checks?: readonly Check[]
  /** The output columns are one value `row`. */
  readonly isRecord?: boolean
}
