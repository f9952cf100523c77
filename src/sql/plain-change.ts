/**
 * Builds the INSERT, UPDATE or DELETE of an operation in the plain form.
 */
import type {
  Cell,
  DeleteNode,
  InsertNode,
  NewValues,
  RowGroup,
  UpdateNode
} from '../plan/nodes.ts'
import { buildAssignment } from './assignment.ts'
import { buildDelete } from './delete.ts'
import { buildGate, gateChecks } from './gate.ts'
import { empty, identifier, join, parameter, sql, whereAll, type Fragment } from './fragment.ts'
import { buildConflictClause, numberRow } from './insert.ts'
import { isMarked, markRow } from './inserted.ts'
import { buildQueryInsert } from './insert-query.ts'
import { buildJoin } from './join.ts'
import { unusedName } from './output.ts'
import type { PlainBuilder, StoredRows } from './plain-builder.ts'
import { tableName } from './table.ts'

type Cells = ReadonlyArray<ReadonlyMap<string, Cell>>

const COMMA = sql`, `

/** Builds the statement without `returning`. */
export function buildPlainChange (
  node: InsertNode | UpdateNode | DeleteNode,
  values: PlainBuilder
): Fragment {
  switch (node.kind) {
    case 'insert':
      return buildPlainInsert(node, values)
    case 'update':
      return buildPlainUpdate(node, values)
    case 'delete':
      return buildDelete(node, values)
  }
}

interface InsertedRows {
  /** One of several groups. */
  readonly group?: RowGroup
  /** Whether `returning` reads the number of each row; see numberRow. */
  readonly numbered?: boolean
}

/** Builds the INSERT of all rows, or of one group, without `returning`. */
export function buildPlainInsert (
  node: InsertNode,
  values: PlainBuilder,
  { group = node.groups[0] as RowGroup, numbered = false }: InsertedRows = {}
): Fragment {
  const { table, query, when } = node
  const marked = isMarked(node)
  const conflict = buildConflictClause(node, values, { marked, distributed: false })
  const mark = marked ? [markRow(true)] : []
  if (query !== undefined) {
    const stored = buildPlainValues(query, values)
    const rest = { values: stored, also: mark, conflict }
    return buildQueryInsert({ table, query, when }, values, rest)
  }
  const insert = sql`insert into ${tableName(table)} as t`
  const conditions = [...buildGate({ when }), ...mark]
  const build = numbered ? buildNumberedRows : buildRows
  return sql`${insert}${build(group, conditions, values)}${conflict}`
}

/** The same as buildRows with the number of each row. */
function buildNumberedRows (
  group: RowGroup,
  conditions: readonly Fragment[],
  values: PlainBuilder
): Fragment {
  const { columns, positions } = group
  const number = identifier(unusedName(columns))
  const where = whereAll([...conditions, numberRow(number)])
  if (columns.length === 0) {
    return sql` select from ${countTo(positions.length)} as x (${number})${where}`
  }
  const names = join(columns.map(identifier), COMMA)
  const { from, stored, checks } = buildSource(group, values)
  const renamed = columns.map((column, i) => sql`${stored[i] as Fragment} as ${identifier(column)}`)
  const rows = sql`select ${join(renamed, COMMA)}, row_number() over () as ${number} from ${from}${
    whereAll(checks)
  }`
  return sql` (${names}) select ${names} from (${rows}) as x${where}`
}

/** The rows of a group as a source of rows. */
function buildSource (group: RowGroup, values: PlainBuilder): StoredRows {
  const { columns } = group
  const cells = cellsOf(group, values)
  if (cells === undefined) return values.buildStoredRows(group)
  const names = join(columns.map(identifier), COMMA)
  return {
    from: sql`(${buildValues(columns, cells, values)}) as x (${names})`,
    stored: columns.map(column => sql`x.${identifier(column)}`),
    checks: []
  }
}

/** More values have a long text. PostgreSQL reads them from their JSON. */
const MAX_CELLS = 128

/** The values of the rows, if each of them is written as an expression. */
function cellsOf (
  { columns, rows }: RowGroup,
  values: PlainBuilder
): Cells | undefined {
  const { cells } = rows
  if (cells === undefined || !values.storesCells(cells)) return undefined
  const isLong = cells.length * columns.length > MAX_CELLS && values.readsRows
  // The document is written when it is read.
  return isLong && rows.document.references.length === 0 ? undefined : cells
}

function buildValues (
  columns: readonly string[],
  cells: Cells,
  values: PlainBuilder
): Fragment {
  const rows = cells.map(row => {
    const built = columns.map(column =>
      values.buildCell(row.get(column) as Cell, column, { always: true })
    )
    return sql`(${join(built, COMMA)})`
  })
  return sql`values ${join(rows, COMMA)}`
}

function countTo (rows: number): Fragment {
  return sql`pg_catalog.generate_series(1, ${parameter(String(rows))}::pg_catalog.int4)`
}

/** Builds the columns of an insert, and its rows. */
function buildRows (
  group: RowGroup,
  conditions: readonly Fragment[],
  values: PlainBuilder
): Fragment {
  const { columns, positions } = group
  const where = whereAll(conditions)
  if (columns.length === 0) {
    if (positions.length === 1) return conditions.length === 0 ? DEFAULTS : sql` select${where}`
    return sql` select from ${countTo(positions.length)}${where}`
  }
  const names = join(columns.map(identifier), COMMA)
  const cells = cellsOf(group, values)
  if (cells === undefined) {
    const { from, stored, checks } = values.buildStoredRows(group)
    return sql` (${names}) select ${join(stored, COMMA)} from ${from}${
      whereAll([...checks, ...conditions])
    }`
  }
  const stored = buildValues(columns, cells, values)
  return sql` (${names}) ${
    conditions.length === 0 ? stored : sql`select * from (${stored}) as v${where}`
  }`
}

const DEFAULTS = sql` default values`

function buildPlainUpdate (node: UpdateNode, values: PlainBuilder): Fragment {
  const { table, columns, computed } = node
  const stored = buildPlainValues(node, values)
  const converted = values.convertFirst()
  const assignments = [
    ...columns.map((column, i) => sql`${identifier(column)} = ${stored[i] as Fragment}`),
    ...computed.map(value => buildAssignment(value, values))
  ]
  const { source, where, unambiguous } = buildJoin(node, values)
  const from = source.length === 0 ? empty : sql` from ${join(source, COMMA)}`
  return sql`update ${tableName(table)} as t set ${join(assignments, COMMA)}${from}${
    where(gateChecks(node, [...converted, ...unambiguous()]))
  }`
}

/** The values of columns that are the same in all rows. */
function buildPlainValues (
  { columns, set }: Pick<NewValues, 'columns' | 'set'>,
  values: PlainBuilder
): readonly Fragment[] {
  const [cells] = set.cells as Cells
  return columns.map(column => {
    const cell = cells?.get(column) as Cell
    const value = values.buildCell(cell, column, { always: false })
    // A subquery is computed once, and not for each row.
    return cell.kind === 'reference' ? sql`(select ${value})` : value
  })
}
