/**
 * Builds the INSERT, UPDATE or DELETE of an operation.
 */
import { empty, identifier, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { DeleteNode, InsertNode, UpdateNode } from '../../plan/nodes.ts'
import { tableName } from '../statement/table.ts'
import { buildWhen, checksWhen } from '../statement/when.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { buildAssignment } from './assignment.ts'
import { buildInsert, buildNewValues } from './insert.ts'
import { buildJoin } from './source.ts'

const COMMA = sql`, `

/** Builds the statement without `returning`. */
export function buildChange (
  node: InsertNode | UpdateNode | DeleteNode,
  values: TypedValues
): Fragment {
  switch (node.kind) {
    case 'insert':
      return buildInsert(node, values)
    case 'update':
      return buildUpdate(node, values)
    case 'delete':
      return buildDelete(node, values)
  }
}

function buildUpdate (node: UpdateNode, values: TypedValues): Fragment {
  const { table, columns, computed } = node
  const stored = buildNewValues(node, values)
  const converted = values.convertFirst()
  const assignments = [
    ...columns.map((column, i) => sql`${identifier(column)} = ${stored[i] as Fragment}`),
    ...computed.map(value => buildAssignment(value, values))
  ]
  const { source, where, unambiguous } = buildJoin(node, values)
  const from = source.length === 0 ? empty : sql` from ${join(source, COMMA)}`
  return sql`update ${tableName(table)} as t set ${join(assignments, COMMA)}${from}${
    where(values.evaluateOnce(checksWhen(node, [...converted, ...unambiguous()])))
  }`
}

function buildDelete (node: DeleteNode, values: TypedValues): Fragment {
  const { source, where } = buildJoin(node, values)
  const using = source.length === 0 ? empty : sql` using ${join(source, empty)}`
  const when = values.evaluateOnce(buildWhen(node))
  return sql`delete from ${tableName(node.table)} as t${using}${where(when)}`
}
