/**
 * Lists the tables and columns that the operations of a plan name, each with its place in the
 * operation. Columns of the result of a function and members of rows of a parameter are not listed:
 * no table has them.
 */
import type { Path } from './context.ts'
import {
  namesInPredicates,
  readColumn,
  type Named,
  type NamedPart,
  type RowScope
} from './condition-names.ts'
import { writePath } from './name.ts'
import type {
  Assignment,
  BulkUpdateNode,
  ConflictNode,
  InsertNode,
  NestedReads,
  NewValues,
  OutputColumn,
  PlanNode,
  SortKey,
  Source,
  TableName,
  TableSource
} from './nodes.ts'
import { sourceOf } from './source.ts'

/** A table or a column that does not exist. */
export interface UnknownName extends NamedPart {
  /** The operation that names it. */
  readonly index: number
}

/** Yields what an operation names: the table before its columns, the operation before `from`. */
export function * namesOfOperation (node: PlanNode): Generator<NamedPart> {
  const { table } = node
  if (node.kind === 'call') {
    // The columns are those of the function; a table in `exists` has its own.
    yield * namesInPredicates(node.where, ['where'], { row: undefined })
    return
  }
  yield nameTable(table, ['table'])
  const source = sourceOf(node)
  const scope: RowScope = {
    row: column => readColumn(table, column),
    excluded: column => readColumn(table, column),
    source: column => resolveSource(source, column)
  }
  yield * namesOfChanges(node, scope)
  if (node.kind !== 'insert') yield * namesInPredicates(node.where, ['where'], scope)
  if (node.kind === 'select') {
    yield * namesOfRead(node, [], table)
    yield * namesOfNested(node.nested, ['with'], table)
  } else yield * namesOfOutput(node.output, ['returning'], table)
  if (source?.kind === 'table') yield * namesOfSource(source)
}

/** The names of what an operation changes. */
function * namesOfChanges (node: PlanNode, scope: RowScope): Generator<NamedPart> {
  const { table } = node
  switch (node.kind) {
    case 'insert':
      yield * namesOfInsert(node, scope)
      break
    case 'update':
      yield * namesOfValues(node, { table, path: ['set'], scope })
      break
    case 'bulk_update':
      yield * namesOfRows(node, scope)
      break
  }
  if (node.kind !== 'update' && node.kind !== 'delete') return
  for (const [column, path] of node.join?.on ?? []) {
    const place = ['from', 'on', column]
    yield { ...readColumn(table, column), path: place }
    const read = scope.source?.(path.column)
    if (read !== undefined) yield { ...read, path: place }
  }
}

function * namesOfInsert (node: InsertNode, scope: RowScope): Generator<NamedPart> {
  const { table, groups, query, conflict } = node
  for (const { columns, positions } of groups) {
    for (const column of columns) yield storeColumn(table, column, pathOfRow(positions, column))
  }
  if (query !== undefined) yield * namesOfValues(query, { table, path: ['columns'], scope })
  if (conflict !== undefined) yield * namesOfConflict(conflict, table, scope)
}

/** Rows of a parameter have no position. */
function pathOfRow ([first]: readonly number[], column: string): Path {
  return first === undefined ? ['values'] : ['values', first, column]
}

interface AssignedPlace {
  readonly table: TableName
  readonly path: Path
  readonly scope: RowScope
}

function * namesOfValues (
  { columns, computed }: NewValues,
  { table, path, scope }: AssignedPlace
): Generator<NamedPart> {
  for (const column of columns) yield storeColumn(table, column, [...path, column])
  yield * namesOfAssignments(computed, { table, path, scope })
}

function * namesOfAssignments (
  assignments: readonly Assignment[],
  { table, path, scope }: AssignedPlace
): Generator<NamedPart> {
  for (const { column, modifier, operand } of assignments) {
    yield storeColumn(table, column, [...path, column])
    const read = operand?.kind === 'column'
      ? scope[operand.of]?.(operand.path.column)
      : undefined
    if (read !== undefined) yield { ...read, path: [...path, column, modifier] }
  }
}

function * namesOfConflict (
  { target, update }: ConflictNode,
  table: TableName,
  scope: RowScope
): Generator<NamedPart> {
  const path = ['on_conflict']
  if ('columns' in target) {
    for (const [i, column] of target.columns.entries()) {
      yield storeColumn(table, column, [...path, 'columns', i])
    }
    yield * namesInPredicates(target.where, [...path, 'index_where'], scope)
  }
  if (update === undefined) return
  // Without `set`, these are the inserted columns.
  if (!update.isDefault) {
    yield * namesOfAssignments(update.set, { table, path: [...path, 'set'], scope })
  }
  yield * namesInPredicates(update.where, [...path, 'where'], scope)
}

function * namesOfRows (
  { table, groups }: BulkUpdateNode,
  scope: RowScope
): Generator<NamedPart> {
  for (const { fields, computed, positions } of groups) {
    for (const [i, { column, modifier }] of fields.entries()) {
      yield modifier === undefined
        ? { ...readColumn(table, column), path: ['key', i] }
        : storeColumn(table, column, pathOfRow(positions, column))
    }
    const path = ['values', ...positions.slice(0, 1)]
    yield * namesOfAssignments(computed, { table, path, scope })
  }
}

type Read = Pick<TableSource, 'where' | 'having' | 'groupBy' | 'order'> & {
  readonly output: readonly OutputColumn[] | undefined
}

/** The names of what a query returns, and of how it groups and orders its rows. */
function * namesOfRead (
  { output, having, groupBy, order }: Omit<Read, 'where'>,
  path: Path,
  table: TableName
): Generator<NamedPart> {
  yield * namesOfOutput(output, [...path, 'columns'], table)
  for (const [i, { column }] of groupBy.entries()) {
    yield { ...readColumn(table, column), path: [...path, 'group_by', i] }
  }
  yield * namesOfOrder(order, [...path, 'order'], table)
  const names = new Set(output?.map(({ name }) => name))
  yield * namesInPredicates(having, [...path, 'having'], {
    // What is no output column is a column of the table (`*`).
    row: column => names.has(column) ? undefined : readColumn(table, column)
  })
}

function * namesOfOutput (
  output: readonly OutputColumn[] = [],
  path: Path,
  table: TableName
): Generator<NamedPart> {
  for (const [i, column] of output.entries()) {
    if (column.path === undefined) continue
    yield { ...readColumn(table, column.path.column), path: [...path, i] }
  }
}

function * namesOfOrder (
  order: readonly SortKey[],
  path: Path,
  table: TableName
): Generator<NamedPart> {
  for (const [i, { by }] of order.entries()) {
    if (typeof by === 'string') continue
    yield { ...readColumn(table, by.column), path: [...path, i, writePath(by)] }
  }
}

function * namesOfNested (
  nested: NestedReads | undefined,
  path: Path,
  outer: TableName
): Generator<NamedPart> {
  for (const read of nested?.reads ?? []) {
    const { name, table, on, where, output, order } = read
    const own = [...path, name]
    yield nameTable(table, [...own, 'table'])
    for (const [column, outerColumn] of on) {
      const place = [...own, 'on', column]
      yield { ...readColumn(table, column), path: place }
      yield { ...readColumn(outer, outerColumn), path: place }
    }
    yield * namesOfOutput(output, [...own, 'columns'], table)
    yield * namesInPredicates(where, [...own, 'where'], {
      row: column => readColumn(table, column)
    })
    yield * namesOfOrder(order, [...own, 'order'], table)
    yield * namesOfNested(read.nested, [...own, 'with'], table)
  }
}

function * namesOfSource (source: TableSource): Generator<NamedPart> {
  const { table, where } = source
  yield nameTable(table, ['from', 'table'])
  yield * namesInPredicates(where, ['from', 'where'], { row: column => readColumn(table, column) })
  yield * namesOfRead(source, ['from'], table)
}

/** The column of the table of `from` that a column of the query returns. */
function resolveSource (
  source: Source | undefined,
  name: string
): Named | undefined {
  if (source?.kind !== 'table') return undefined
  const { table, output } = source
  const found = output.find(column => column.name === name)
  // What is no output column is a column of the table (`*`).
  if (found === undefined) return readColumn(table, name)
  return found.path && readColumn(table, found.path.column)
}

function nameTable (table: TableName, path: Path): NamedPart {
  return { table, column: undefined, isStored: false, path }
}

function storeColumn (table: TableName, column: string, path: Path): NamedPart {
  return { table, column, isStored: true, path }
}
