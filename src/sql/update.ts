/**
 * Builds the UPDATE of an update operation. New values that do not depend on the row are computed
 * once, before any row is read.
 */
import type { UpdateNode } from '../plan/nodes.ts'
import { buildAssignment } from './assignment.ts'
import type { CteBuilder } from './cte-builder.ts'
import { buildWhere } from './filter.ts'
import { buildGate } from './gate.ts'
import { empty, identifier, join, sql, type Fragment } from './fragment.ts'
import { buildDocument, buildVerifiedDocument, isJsonNull } from './reference.ts'
import { nullRow, tableName } from './table.ts'

/**
 * Builds the statement without `returning`. It does not use `set (a, b, …) = (select …)`, which
 * PostgreSQL plans in memory that grows with the square of the columns (measured: 2500 columns took
 * 1.4 GB, and 12 000 columns the whole machine; no timeout stops it).
 */
export function buildUpdate (
  { table, columns, set, computed, where, when }: UpdateNode,
  ctes: CteBuilder
): Fragment {
  const stored = columns.map(column => sql`${identifier(column)} = ${newValue(column, set, ctes)}`)
  const assignments = [...stored, ...computed.map(value => buildAssignment(value, ctes))]
  const document = ctes.checkValues
    ? buildVerifiedDocument(set, ctes)
    : buildDocument(set.document, ctes)
  const rows = sql`json_populate_record(${nullRow(table)}, ${document})`
  const from = columns.length === 0 ? empty : sql` from ${ctes.addStoredRows(rows, columns)}`
  const also = [...ctes.checkStoredRows(set.uncertainColumns), ...buildGate({ when })]
  return sql`update ${tableName(table)} as t set ${join(assignments, sql`, `)}${from}${
    buildWhere(where, ctes, { also })
  }`
}

function newValue (
  column: string,
  { uncertainColumns }: UpdateNode['set'],
  ctes: CteBuilder
): Fragment {
  const value = sql`x.${identifier(column)}`
  const uncertain = uncertainColumns.find(({ column: name }) => name === column)
  const [first] = uncertain?.references ?? []
  if (!ctes.checkValues || first === undefined) return value
  const jsonNull = ctes.addJsonNull(
    { column, keys: [], resultType: 'column' },
    { when: isJsonNull(first.reference) }
  )
  return sql`coalesce(${value}, ${jsonNull})`
}
