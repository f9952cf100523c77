/**
 * Builds the condition of `after`: a row comes behind the given values in the order of the select.
 */
import { join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { PageStart } from '../../plan/nodes.ts'
import { comparableValue } from '../values/column.ts'
import { buildValue } from '../values/operand.ts'
import type { ValueBuilder } from '../values/value-builder.ts'

/**
 * With one direction, and NULL before all values, the condition is a comparison of rows, for which
 * PostgreSQL can use an index. Otherwise it is `a > 1 or (a = 1 and (b > 2 or …))`. If the NULLs
 * of the first column come first, a limit of that column is added, for which it can use an index
 * too.
 */
export function buildAfter (starts: readonly PageStart[], values: ValueBuilder): Fragment {
  const keys = starts.map((start): Key => ({
    ...start,
    column: comparableValue(start.path, values),
    operand: buildValue(start.value, { values, path: start.path })
  }))
  const first = keys[0] as Key
  const limited = first.value.kind === 'literal' && first.nullsFirst
  const uniform = keys.every(({ value, nullsFirst, descending }) =>
    value.kind === 'literal' && nullsFirst && descending === first.descending
  )
  if (uniform) {
    const columns = join(keys.map(({ column }) => column), sql`, `)
    const operands = join(keys.map(({ operand }) => operand), sql`, `)
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

/** Of these conditions, one is true for a value behind that of the key. */
function buildStrictlyBehind (
  { column, operand, value, descending, nullsFirst }: Key
): readonly Fragment[] {
  if (value.kind === 'null') return nullsFirst ? [sql`${column} is not null`] : []
  const compared = sql`${column} ${descending ? sql`<` : sql`>`} ${operand}`
  if (value.kind === 'literal') return nullsFirst ? [compared] : [compared, sql`${column} is null`]
  return [
    compared,
    nullsFirst
      ? sql`(${column} is not null and ${operand} is null)`
      : sql`(${column} is null and ${operand} is not null)`
  ]
}

/** The value of the column is that of the key; two NULLs are the same. */
function buildSame ({ column, operand, value }: Key): Fragment {
  switch (value.kind) {
    case 'null':
      return sql`${column} is null`
    case 'literal':
      return sql`${column} = ${operand}`
    case 'reference':
      return sql`(${column} = ${operand} or (${column} is null and ${operand} is null))`
  }
}
