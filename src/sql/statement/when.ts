/**
 * Builds what makes PostgreSQL skip an operation (`when`), and what an operation checks before it
 * reads rows of earlier ones. An operation on which later ones depend in this way stores the number
 * of its rows in a setting of the transaction.
 *
 * The conditions contain no column. PostgreSQL evaluates such a condition once, before it reads a
 * row or computes a value of the query (a one-time filter). The statement triggers of an operation
 * that is skipped still run.
 */
import { AND, empty, join, parameter, sql, type Fragment } from '../../fragment/fragment.ts'
import type { PlanNode, Reference } from '../../plan/nodes.ts'
import type { Requirements } from '../../plan/plan.ts'
import { raise } from './raised-error.ts'
import { countSetting } from './settings.ts'

/** Builds the conditions under which an operation runs; none: it always does. */
export function buildWhen ({ when }: Pick<PlanNode, 'when'>): readonly Fragment[] {
  return when.map(({ source, rows: { min, max } }) => {
    const count = countOf(source)
    if (min === max) return sql`${count} operator(pg_catalog.=) ${bigint(min)}`
    const least = sql`${count} operator(pg_catalog.>=) ${bigint(min)}`
    return max === Infinity
      ? least
      : sql`${least} and ${count} operator(pg_catalog.<=) ${bigint(max)}`
  })
}

/** The conditions of buildWhen, and checks that an operation makes if it is not skipped. */
export function checksWhen (
  node: Pick<PlanNode, 'when'>,
  checks: readonly Fragment[]
): readonly Fragment[] {
  const when = buildWhen(node)
  if (when.length === 0 || checks.length === 0) return [...when, ...checks]
  return [sql`case when ${join(when, AND)} then ${join(checks, AND)} else false end`]
}

/** Builds `<the operation is skipped> or `; nothing if it always runs. */
export function buildSkipped (node: Pick<PlanNode, 'when'>): Fragment {
  const when = buildWhen(node)
  return when.length === 0 ? empty : sql`(${join(when, AND)}) is not true or `
}

/**
 * Builds conditions that are true, or raise `absent`: a row that the operation reads does not
 * exist. An operation that is skipped reads nothing.
 */
export function buildRequirements (
  node: Pick<PlanNode, 'when'>,
  requirements: Requirements = new Map()
): readonly Fragment[] {
  const skipped = buildSkipped(node)
  return [...requirements.values()].map(({ anyOf }, i) => {
    const exists = join(anyOf.map(({ reference, rows }) => hasRows(reference, rows)), sql` or `)
    return sql`case when ${skipped}${exists} then true else ${raise('absent', i + 1)} is null end`
  })
}

/**
 * Builds what depends on a reference. For `$first` it is built for each of its references; that of
 * the first whose row exists counts. The requirements ensure that there is one.
 */
export function buildFirst (
  reference: Reference,
  build: (reference: Reference) => Fragment
): Fragment {
  const { otherwise = [], ...first } = reference
  const last = otherwise.at(-1)
  if (last === undefined) return build(first)
  const cases = [first, ...otherwise.slice(0, -1)].map(reference =>
    sql` when ${hasRows(reference, Number(reference.row) + 1)} then ${build(reference)}`
  )
  return sql`case${join(cases, empty)} else ${build(last)} end`
}

function hasRows ({ source }: Reference, rows: number): Fragment {
  return sql`${countOf(source)} operator(pg_catalog.>=) ${bigint(rows)}`
}

/** The number of rows of an earlier operation; 0 if it was skipped. */
function countOf (source: number): Fragment {
  return sql`pg_catalog.current_setting(${parameter(countSetting(source))})::pg_catalog.int8`
}

function bigint (value: number): Fragment {
  return sql`${parameter(String(value))}::pg_catalog.int8`
}
