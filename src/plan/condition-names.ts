/**
 * Lists the columns that conditions name, and the tables and columns of their `exists`.
 */
import type { Path } from './context.ts'
import { writePath } from './name.ts'
import type { ColumnOperand, Condition, Exists, Operand, Predicate, TableName } from './nodes.ts'

/** A table, or a column of one, that an operation names. */
export interface NamedPart {
  readonly table: TableName
  /** Undefined: the table itself. */
  readonly column: string | undefined
  /**
   * Whether the column is stored. Other columns are read, which can also be functions that take a
   * row of the table.
   */
  readonly isStored: boolean
  /**
   * The path from the operation. It ends before the column where the plan does not show how the
   * client wrote it, for example inside of `not`.
   */
  readonly path: Path
}

/** A part without its place. */
export type Named = Omit<NamedPart, 'path'>

/**
 * The rows whose columns a condition can name. Each function returns the column of a table, or
 * undefined for a column that no table has.
 */
export type RowScope = {
  readonly [Row in ColumnOperand['of']]?: ((column: string) => Named | undefined) | undefined
}

/** A column of a table that is read. */
export function readColumn (table: TableName, column: string): Named {
  return { table, column, isStored: false }
}

interface ConditionPlace {
  readonly path: Path
  readonly scope: RowScope
  /**
   * Whether the filter at the path has the predicate as a member. Several members of an inner
   * filter are one predicate, so the paths of what it contains end at that filter.
   */
  readonly isMember: boolean
}

/** Yields what predicates name, of which all must hold. `path`: that of the filter. */
export function * namesInPredicates (
  predicates: readonly Predicate[],
  path: Path,
  scope: RowScope
): Generator<NamedPart> {
  for (const predicate of predicates) {
    yield * namesInPredicate(predicate, { path, scope, isMember: true })
  }
}

function * namesInPredicate (predicate: Predicate, place: ConditionPlace): Generator<NamedPart> {
  switch (predicate.kind) {
    case 'condition':
      yield * namesInCondition(predicate, place)
      break
    case 'exists':
      yield * namesInExists(predicate, place)
      break
    case 'not':
      yield * namesInPredicate(predicate.of, { ...place, isMember: false })
      break
    default:
      for (const [i, part] of predicate.of.entries()) {
        const isOnly = part.kind === 'condition' || part.kind === 'exists'
        yield * namesInPredicate(part, {
          ...within(place, predicate.kind, i),
          isMember: place.isMember && isOnly
        })
      }
  }
}

function * namesInCondition (
  { column, operator, operand }: Condition,
  place: ConditionPlace
): Generator<NamedPart> {
  const { scope } = place
  const inner = within(place, writePath(column))
  yield * at(inner, scope.row?.(column.column))
  for (const { of, path } of columnsOf(operand)) {
    yield * at(within(inner, operator), scope[of]?.(path.column))
  }
}

function * namesInExists (
  { negated, table, on, where }: Exists,
  place: ConditionPlace
): Generator<NamedPart> {
  const { scope } = place
  const inner = within(place, negated ? 'not_exists' : 'exists')
  yield * at(within(inner, 'table'), { table, column: undefined, isStored: false })
  for (const [column, outer] of on) {
    const pair = within(inner, 'on', column)
    yield * at(pair, readColumn(table, column))
    yield * at(pair, scope.row?.(outer))
  }
  const row = (column: string): Named => readColumn(table, column)
  for (const part of where) {
    yield * namesInPredicate(part, { ...within(inner, 'where'), scope: { ...scope, row } })
  }
}

function * at ({ path }: ConditionPlace, named: Named | undefined): Generator<NamedPart> {
  if (named !== undefined) yield { ...named, path }
}

function within (place: ConditionPlace, ...steps: Path): ConditionPlace {
  return place.isMember ? { ...place, path: [...place.path, ...steps] } : place
}

/** The columns with which an operand compares. Lists contain none. */
function columnsOf (operand: Operand): readonly ColumnOperand[] {
  if (operand.kind === 'column') return [operand]
  if (operand.kind !== 'bounds') return []
  return [operand.low, operand.high].filter(bound => bound.kind === 'column')
}
