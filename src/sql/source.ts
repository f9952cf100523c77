/**
 * Builds the query of `from`.
 */
import type { Source } from '../plan/nodes.ts'
import { empty, type Fragment } from './fragment.ts'
import { buildRows } from './select.ts'
import { tableName } from './table.ts'
import type { ValueBuilder } from './value-builder.ts'

/** Builds the query whose rows have the columns of the source. */
export function buildSource (source: Source, values: ValueBuilder): Fragment {
  const inner = values.ofTable(source.table)
  return buildRows({ ...source, after: undefined, lock: undefined }, inner, {
    source: tableName(source.table),
    row: empty
  })
}
