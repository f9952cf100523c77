/**
 * Builds conditions: those of `where` and `having`, and that of `after`, by which a row comes
 * behind the given values in the order of the select.
 */
import { operators, type Operator } from '../../../schemas/operator.ts'
import {
  AND,
  empty,
  fill,
  identifier,
  join,
  sql,
  whereAll,
  type Fragment
} from '../../fragment/fragment.ts'
import type { Condition, Exists, Operand, Predicate, PageStart } from '../../plan/nodes.ts'
import { tableName } from '../statement/table.ts'
import { comparableValue } from '../values/column.ts'
import {
  buildArray,
  buildKeyword,
  buildSearchArguments,
  buildSearchDocument,
  buildText,
  buildValue,
  pathOfPattern,
  type ComparedColumns,
  type OperandContext
} from '../values/operand.ts'
import type { TypedValues } from '../values/typed-values.ts'

interface WhereOptions {
  /** Columns other than those of the table of the values. */
  readonly columns?: ComparedColumns
  /**
   * For the predicate of a partial index, where PostgreSQL allows neither parameters nor the name
   * of the table.
   */
  readonly constants?: boolean
  /**
   * For conditions on rows that are already in order. PostgreSQL turns `exists` into a join, for
   * example a hash join that reads the other table first. Inside CASE it stays a condition.
   */
  readonly ordered?: boolean
  /** Further conditions. */
  readonly also?: readonly Fragment[]
}

/** Builds ` where …`, or an empty fragment without conditions. */
export function buildWhere (
  where: readonly Predicate[],
  values: TypedValues,
  { also = [], ...options }: WhereOptions = {}
): Fragment {
  return whereAll([...buildConditions(where, values, options), ...also])
}

/** Builds the conditions, all of which must hold. */
export function buildConditions (
  where: readonly Predicate[],
  values: TypedValues,
  { columns = values, ...options }: Omit<WhereOptions, 'also'> = {}
): readonly Fragment[] {
  return where.map(predicate => buildPredicate(predicate, { values, columns, ...options }))
}

interface Context extends WhereOptions {
  readonly values: TypedValues
  readonly columns: ComparedColumns
}

function buildPredicate (predicate: Predicate, context: Context): Fragment {
  const joinAll = (predicates: readonly Predicate[], operator: Fragment): Fragment =>
    join(predicates.map(inner => buildPredicate(inner, context)), operator)
  switch (predicate.kind) {
    case 'and':
      return sql`(${joinAll(predicate.of, AND)})`
    case 'or':
      return sql`(${joinAll(predicate.of, sql` or `)})`
    case 'not':
      return sql`not (${buildPredicate(predicate.of, context)})`
    case 'condition':
      return buildCondition(predicate, context)
    case 'exists':
      return buildExists(predicate, context)
  }
}

function buildExists (
  { negated, table, on, where }: Exists,
  { values, columns, ordered = false }: Context
): Fragment {
  const inner = values.ofTable(table)
  const matches = on.map(([column, outer]) =>
    sql`${inner.row}.${identifier(column)} = ${columns.row}.${identifier(outer)}`
  )
  const exists = sql`${negated ? sql`not ` : empty}exists (select from ${tableName(table)} as ${
    inner.row
  }${buildWhere(where, inner, { also: matches })})`
  return ordered ? sql`case when ${exists} then true else false end` : exists
}

function buildCondition (
  { column: path, operator: name, operand, at }: Condition,
  { values, columns, constants = false }: Context
): Fragment {
  const operator: Operator = operators[name]
  const met = operator.pattern === true ? pathOfPattern(path, { values, columns }) : path
  return fill(operator.sql, {
    column: constants ? identifier(path.column) : comparableValue(path, columns),
    operand: buildOperand(operand, operator, { values, columns, path: met, constants, at }),
    document: operand.kind === 'search'
      ? buildSearchDocument(operand, { path, at }, columns)
      : empty
  })
}

function buildOperand (operand: Operand, { takes }: Operator, context: OperandContext): Fragment {
  const within = (step: string | number): OperandContext =>
    ({ ...context, at: context.at && [...context.at, step] })
  switch (operand.kind) {
    case 'list': {
      if (takes !== 'keys') return buildArray(operand, context)
      const path = { ...context.path, resultType: 'text' } as const
      return sql`(${buildArray(operand, { ...context, path })})::text[]`
    }
    case 'quantified': {
      const list = buildArray(operand.list, within(operand.quantifier))
      return operand.quantifier === 'any' ? sql`any (${list})` : sql`all (${list})`
    }
    case 'bounds':
      return sql`${buildValue(operand.low, within(0))} and ${buildValue(operand.high, within(1))}`
    case 'keyword':
      return buildKeyword(operand.word)
    case 'search':
      return buildSearchArguments(operand, context)
    default:
      return takes === 'key' ? buildText(operand, context.values) : buildValue(operand, context)
  }
}

/**
 * With one direction, and NULL before all values, the condition is a comparison of rows, for which
 * PostgreSQL can use an index. Otherwise it is `a > 1 or (a = 1 and (b > 2 or …))`. If the NULLs of
 * the first column come first, a bound of that column is added, for which PostgreSQL can use an
 * index, too.
 */
export function buildAfter (starts: readonly PageStart[], values: TypedValues): Fragment {
  const keys = starts.map((start): Key => ({
    ...start,
    column: comparableValue(start.path, values),
    operand: buildValue(start.value, { values, path: start.path, at: start.at })
  }))
  const first = keys[0] as Key
  const limited = first.value.kind === 'literal' && first.nullsFirst
  const uniform = keys.every(({ value, nullsFirst, descending }) =>
    value.kind === 'literal' && nullsFirst && descending === first.descending
  )
  if (uniform) {
    const columns = join(keys.map(({ column }) => column))
    const operands = join(keys.map(({ operand }) => operand))
    return sql`(${columns}) ${first.descending ? sql`<` : sql`>`} (${operands})`
  }
  const behind = buildBehind(keys)
  return limited
    ? sql`${first.column} ${first.descending ? sql`<=` : sql`>=`} ${first.operand} and ${behind}`
    : behind
}

/** An element of the order. */
interface Key extends PageStart {
  readonly column: Fragment
  readonly operand: Fragment
}

/** A condition in parentheses. Deeper keys decide only where all before them are equal. */
function buildBehind ([key, ...deeper]: readonly Key[]): Fragment {
  const cases = [
    ...buildStrictlyBehind(key as Key),
    ...deeper.length === 0 ? [] : [sql`(${buildSame(key as Key)} and ${buildBehind(deeper)})`]
  ]
  return cases.length === 0 ? sql`false` : sql`(${join(cases, sql` or `)})`
}

/** `is null` and `is not null` ask about the attributes of a composite. */
export const IS_NULL = sql`is not distinct from null`
export const IS_NOT_NULL = sql`is distinct from null`

/** Of these conditions, one is true for a value behind that of the key. */
function buildStrictlyBehind (
  { column, operand, value, descending, nullsFirst }: Key
): readonly Fragment[] {
  if (value.kind === 'null') return nullsFirst ? [sql`${column} ${IS_NOT_NULL}`] : []
  const compared = sql`${column} ${descending ? sql`<` : sql`>`} ${operand}`
  if (value.kind === 'literal') {
    return nullsFirst ? [compared] : [compared, sql`${column} ${IS_NULL}`]
  }
  return [
    compared,
    nullsFirst
      ? sql`(${column} ${IS_NOT_NULL} and ${operand} ${IS_NULL})`
      : sql`(${column} ${IS_NULL} and ${operand} ${IS_NOT_NULL})`
  ]
}

/** The value of the column is that of the key; two NULLs are the same. */
function buildSame ({ column, operand, value }: Key): Fragment {
  switch (value.kind) {
    case 'null':
      return sql`${column} ${IS_NULL}`
    case 'literal':
      return sql`${column} = ${operand}`
    case 'reference':
      return sql`(${column} = ${operand} or (${column} ${IS_NULL} and ${operand} ${IS_NULL}))`
  }
}
