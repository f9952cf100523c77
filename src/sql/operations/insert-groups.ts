/**
 * Builds an insert whose rows name different columns, with one INSERT for each group of rows.
 */
import {
  empty,
  identifier,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { InsertNode, RowGroup } from '../../plan/nodes.ts'
import type { Check } from '../statement/checks.ts'
import { raise } from '../statement/raised-error.ts'
import { unusedName } from '../statement/table.ts'
import { positionAt } from '../values/stored-rows.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { buildInsert, rowNumber } from './insert.ts'
import type { BuiltOperation, ReturnedColumns, RowPart } from './output.ts'

/** Inserts each group by a statement of its own, and sorts the rows into the order of `values`. */
export function buildGroups (
  node: InsertNode,
  part: RowPart,
  { returned, names, selected, values }: ReturnedColumns & { readonly values: TypedValues }
): BuiltOperation {
  const position = identifier(unusedName(names))
  const groups = nameGroups(node, part, position)
  const inserts = groups.map(({ group, name, number }) => {
    const numbers = number === undefined ? empty : sql`, ${rowNumber} as ${number}`
    const statement = buildInsert(node, values, { group, numbered: number !== undefined })
    return sql`${name} as (${statement} returning ${returned}${numbers})`
  })
  const columns = join(names.map(identifier))
  const placed = groups.map(group =>
    sql`select ${columns}, ${positionInValues(group)} as ${position} from ${group.name}`
  )
  return {
    ctes: [
      ...inserts,
      sql`r as (select ${selected} from (${
        join(placed, sql` union all `)
      }) as placed order by placed.${position})`
    ],
    rows: sql`r`,
    checks: buildOrderCheck(groups)
  }
}

/** One of several groups of an insert. */
interface NamedGroup {
  readonly group: RowGroup
  /** The CTE that inserts the group. */
  readonly name: Fragment
  /** The column of that CTE with the row number, or undefined if none is needed. */
  readonly number: Fragment | undefined
}

function nameGroups (
  { groups }: InsertNode,
  part: RowPart,
  number: Fragment
): readonly NamedGroup[] {
  return groups.map((group, i) => ({
    group,
    name: identifier(`g${i}`),
    number: part !== 'nothing' && hasGaps(group) ? number : undefined
  }))
}

/**
 * Whether there are rows of other groups between the rows of this one. Without gaps the order of
 * the returned rows is right, even if some rows were not inserted.
 */
function hasGaps ({ positions }: RowGroup): boolean {
  return (positions.at(-1) as number) - (positions[0] as number) >= positions.length
}

/** The position in `values` of a row of the CTE of a group. */
function positionInValues ({ group, name, number }: NamedGroup): Fragment {
  const next = sql`row_number() over ()`
  // For rows without a number see buildOrderCheck.
  const at = number === undefined ? next : sql`coalesce(${name}.${number}, ${next})`
  return positionAt(group.positions, at)
}

/**
 * Fails if row numbers are missing because a trigger reset the settings of the session. If every
 * row of a group was inserted, their order is known without numbers.
 */
function buildOrderCheck (groups: readonly NamedGroup[]): readonly Check[] {
  const missing = groups.flatMap(({ group: { positions }, name, number }) => {
    if (number === undefined) return []
    const all = sql`${parameter(String(positions.length))}::int`
    return sql`(select count(${number}) < count(*) and count(*) < ${all} from ${name})`
  })
  if (missing.length === 0) return []
  return [{ when: join(missing, sql` or `), then: raise('order') }]
}
