/**
 * Builds the query of `from`.
 */
import type { PlanNode, Source } from '../plan/nodes.ts'
import { kindOfOutput, SOURCE_ROW, type RowColumns } from './column.ts'
import type { FindColumns } from './column-types.ts'
import { empty, type Fragment } from './fragment.ts'
import { buildRows } from './select.ts'
import { tableName } from './table.ts'
import type { ValueBuilder } from './value-builder.ts'

/** The columns of the rows of `from`. */
export function sourceColumns (node: PlanNode, findColumns?: FindColumns): RowColumns {
  const source = sourceOf(node)
  return {
    row: SOURCE_ROW,
    kindOf: name =>
      source && kindOfOutput(source.output, name, column =>
        findColumns?.(source.table)?.kinds.get(column)
      )
  }
}

function sourceOf (node: PlanNode): Source | undefined {
  if (node.kind === 'insert') return node.query?.source
  return node.kind === 'update' || node.kind === 'delete' ? node.join?.source : undefined
}

/** Builds the query whose rows have the columns of the source. */
export function buildSource (source: Source, values: ValueBuilder): Fragment {
  const inner = values.ofTable(source.table)
  return buildRows({ ...source, after: undefined, lock: undefined }, inner, {
    source: tableName(source.table),
    row: empty
  })
}
