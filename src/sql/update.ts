/**
 * Update → SQL. The new values that do not depend on the row are computed once, before any row is
 * touched.
 */
import type { UpdateNode } from '../plan/nodes.ts'
import { assignment } from './assignment.ts'
import { empty, identifier, join, sql, type Fragment } from './fragment.ts'
import { whereClause } from './filter.ts'
import { documentJson, inspectedDocument, isJsonNull } from './reference.ts'
import { nullRow, tableName, type CteBuilder } from './cte-builder.ts'

/**
 * The update alone; `returning` is added by the caller. Not `set (a, b, …) = (select …)`:
 * PostgreSQL plans that in memory that grows with the square of the columns (measured: 2500 columns
 * 1.4 GB, 12 000 columns the whole machine, and no timeout ends it).
 */
export function updateStatement (
  { table, columns, set, computed, where }: UpdateNode,
  scope: CteBuilder
): Fragment {
  const plain = columns.map(column => sql`${identifier(column)} = ${newValue(column, set, scope)}`)
  const assignments = join([...plain, ...computed.map(value => assignment(value, scope))], sql`, `)
  const document = scope.careful ? inspectedDocument(set, scope) : documentJson(set.document, scope)
  const from = columns.length === 0
    ? empty
    : sql` from ${
      scope.stored(
        sql`json_populate_record(${nullRow(table)}, ${document})`,
        columns
      )
    }`
  const also = scope.undoubted(set.doubts)
  return sql`update ${tableName(table)} as t set ${assignments}${from}${
    whereClause(where, scope, { also })
  }`
}

function newValue (column: string, { doubts }: UpdateNode['set'], scope: CteBuilder): Fragment {
  const value = sql`x.${identifier(column)}`
  const [place] = doubts.find(doubt => doubt.column === column)?.places ?? []
  if (!scope.careful || place === undefined) return value
  const jsonNull = scope.jsonNull(
    { column, keys: [], gives: 'column' },
    { when: isJsonNull(place.reference) }
  )
  return sql`coalesce(${value}, ${jsonNull})`
}
