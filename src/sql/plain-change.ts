/**
 * Builds the INSERT, UPDATE or DELETE of an operation in the plain form.
 */
import type { Cell, DeleteNode, InsertNode, UpdateNode } from '../plan/nodes.ts'
import { buildAssignment } from './assignment.ts'
import { buildDelete } from './delete.ts'
import { buildWhere } from './filter.ts'
import { buildGate } from './gate.ts'
import { identifier, join, sql, type Fragment } from './fragment.ts'
import type { PlainBuilder } from './plain-builder.ts'
import { tableName } from './table.ts'

const COMMA = sql`, `
const AND = sql` and `

/** Builds the statement without `returning`. Returns undefined if it has no plain form. */
export function buildPlainChange (
  node: InsertNode | UpdateNode | DeleteNode,
  values: PlainBuilder
): Fragment | undefined {
  switch (node.kind) {
    case 'insert':
      return buildPlainInsert(node, values)
    case 'update':
      return buildPlainUpdate(node, values)
    case 'delete':
      return buildDelete(node, values)
  }
}

function buildPlainInsert (
  { table, groups: [group, ...more], conflict, when }: InsertNode,
  values: PlainBuilder
): Fragment | undefined {
  const cells = group?.rows.cells
  if (cells === undefined || more.length > 0 || conflict !== undefined) return undefined
  const { columns } = group as InsertNode['groups'][number]
  const insert = sql`insert into ${tableName(table)} as t`
  const gate = buildGate({ when })
  if (columns.length === 0) {
    if (cells.length > 1) return undefined
    return gate.length === 0
      ? sql`${insert} default values`
      : sql`${insert} select where ${join(gate, AND)}`
  }
  const rows = cells.map(row => {
    const built = columns.map(column => values.buildCell(row.get(column), column, { always: true }))
    return sql`(${join(built, COMMA)})`
  })
  const stored = sql`values ${join(rows, COMMA)}`
  return sql`${insert} (${join(columns.map(identifier), COMMA)}) ${
    gate.length === 0 ? stored : sql`select * from (${stored}) as v where ${join(gate, AND)}`
  }`
}

function buildPlainUpdate (
  { table, columns, set, computed, where, when }: UpdateNode,
  values: PlainBuilder
): Fragment | undefined {
  const [cells] = set.cells as ReadonlyArray<ReadonlyMap<string, Cell>>
  const stored = columns.map(column => {
    const cell = cells?.get(column)
    const value = values.buildCell(cell, column, { always: false })
    // A subquery is computed once, and not for each row.
    const once = cell?.kind === 'reference' ? sql`(select ${value})` : value
    return sql`${identifier(column)} = ${once}`
  })
  const assignments = [...stored, ...computed.map(value => buildAssignment(value, values))]
  return sql`update ${tableName(table)} as t set ${join(assignments, COMMA)}${
    buildWhere(where, values, { also: buildGate({ when }) })
  }`
}
