/**
 * Builds the UPDATE of an update operation. New values that do not depend on the row are computed
 * once, before any row is read.
 */
import { toPath } from '../plan/name.ts'
import type { NewValues, UpdateNode } from '../plan/nodes.ts'
import { buildAssignment } from './assignment.ts'
import type { CteBuilder } from './cte-builder.ts'
import { gateChecks } from './gate.ts'
import { empty, identifier, join, sql, type Fragment } from './fragment.ts'
import { buildJoin } from './join.ts'
import { buildDocument, buildVerifiedDocument, isJsonNull } from './reference.ts'
import { nullRow, tableName } from './table.ts'

/**
 * Builds the statement without `returning`. It does not use `set (a, b, …) = (select …)`, which
 * PostgreSQL plans in memory that grows with the square of the columns (measured: 2500 columns took
 * 1.4 GB, and 12 000 columns the whole machine; no timeout stops it).
 */
export function buildUpdate (node: UpdateNode, ctes: CteBuilder): Fragment {
  const { table, columns, set, computed } = node
  const stored = columns.map(column => sql`${identifier(column)} = ${newValue(column, set, ctes)}`)
  const assignments = [...stored, ...computed.map(value => buildAssignment(value, ctes))]
  const { source, where, unambiguous } = buildJoin(node, ctes)
  const rows = [...buildStoredRow(node, ctes), ...source]
  const from = rows.length === 0 ? empty : sql` from ${join(rows, sql`, `)}`
  const conditions = [
    ...ctes.distributed ? [] : ctes.checkStoredRows(set.uncertainColumns),
    ...ctes.evaluateOnce(gateChecks(node, unambiguous()))
  ]
  return sql`update ${tableName(table)} as t set ${join(assignments, sql`, `)}${from}${
    where(conditions)
  }`
}

/** The row `x` with the new values of columns; nothing without columns. */
export function buildStoredRow (
  { columns, set }: Pick<NewValues, 'columns' | 'set'>,
  ctes: CteBuilder
): readonly Fragment[] {
  if (columns.length === 0) return []
  const document = ctes.checkValues
    ? buildVerifiedDocument(set, ctes)
    : buildDocument(set.document, ctes)
  const row = sql`json_populate_record(${nullRow(ctes.table)}, ${document})`
  return [ctes.addStoredRows(row, columns, set.uncertainColumns)]
}

/** The new value of a column in the row `x`. */
export function newValue (
  column: string,
  { uncertainColumns }: UpdateNode['set'],
  ctes: CteBuilder
): Fragment {
  const value = sql`x.${identifier(column)}`
  const uncertain = uncertainColumns.find(({ column: name }) => name === column)
  const [first] = uncertain?.references ?? []
  if (!ctes.checkValues || first === undefined) return value
  const jsonNull = ctes.addJsonNull(
    toPath(column),
    { when: isJsonNull(first.reference) }
  )
  return sql`coalesce(${value}, ${jsonNull})`
}
