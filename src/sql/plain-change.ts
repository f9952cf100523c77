/**
 * Builds the INSERT, UPDATE or DELETE of an operation in the plain form.
 */
import type {
  Cell,
  DeleteNode,
  InsertNode,
  NewValues,
  StoredJson,
  UpdateNode
} from '../plan/nodes.ts'
import { buildAssignment } from './assignment.ts'
import { buildDelete } from './delete.ts'
import { buildGate, gateChecks } from './gate.ts'
import { empty, identifier, join, sql, type Fragment } from './fragment.ts'
import { buildQueryInsert } from './insert-query.ts'
import { buildJoin } from './join.ts'
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
  node: InsertNode,
  values: PlainBuilder
): Fragment | undefined {
  const { table, groups: [group, ...more], query, conflict, when } = node
  if (query !== undefined) {
    if (conflict !== undefined) return undefined
    const stored = buildPlainValues(query, values)
    return buildQueryInsert({ table, query, when }, values, { values: stored })
  }
  if (group === undefined || more.length > 0 || conflict !== undefined) return undefined
  const { columns, rows: { cells } } = group
  const insert = sql`insert into ${tableName(table)} as t`
  const gate = buildGate({ when })
  if (cells === undefined) {
    if (columns.length === 0 || !isParameter(group.rows)) return undefined
    const names = join(columns.map(identifier), COMMA)
    const where = gate.length === 0 ? empty : sql` where ${join(gate, AND)}`
    return sql`${insert} (${names}) select ${names} from ${
      values.buildStoredRows(columns, group.rows)
    }${where}`
  }
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

/** Whether the rows are those of a parameter. */
function isParameter ({ document: { references } }: StoredJson): boolean {
  return references[0]?.parameter !== undefined
}

function buildPlainUpdate (node: UpdateNode, values: PlainBuilder): Fragment {
  const { table, columns, computed } = node
  const stored = buildPlainValues(node, values)
  const assignments = [
    ...columns.map((column, i) => sql`${identifier(column)} = ${stored[i] as Fragment}`),
    ...computed.map(value => buildAssignment(value, values))
  ]
  const { source, where, unambiguous } = buildJoin(node, values)
  const from = source.length === 0 ? empty : sql` from ${join(source, COMMA)}`
  return sql`update ${tableName(table)} as t set ${join(assignments, COMMA)}${from}${
    where(gateChecks(node, unambiguous()))
  }`
}

/** The values of columns that are the same in all rows. */
function buildPlainValues (
  { columns, set }: Pick<NewValues, 'columns' | 'set'>,
  values: PlainBuilder
): readonly Fragment[] {
  const [cells] = set.cells as ReadonlyArray<ReadonlyMap<string, Cell>>
  return columns.map(column => {
    const cell = cells?.get(column)
    const value = values.buildCell(cell, column, { always: false })
    // A subquery is computed once, and not for each row.
    return cell?.kind === 'reference' ? sql`(select ${value})` : value
  })
}
