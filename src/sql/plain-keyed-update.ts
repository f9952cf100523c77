/**
 * Builds a keyed update in the plain form.
 */
import { isAllColumns } from '../plan/output.ts'
import type { Cell, KeyedGroup, KeyedUpdateNode } from '../plan/nodes.ts'
import { buildConditions } from './filter.ts'
import { empty, identifier, integer, join, sql, type Fragment } from './fragment.ts'
import { gateChecks } from './gate.ts'
import { unusedName } from './output.ts'
import {
  buildKeyedUpdate,
  checkDistinct,
  checkKeys,
  readAs,
  rowColumns,
  rowPosition
} from './keyed-update.ts'
import type { PlainBuilder } from './plain-builder.ts'
import { tableName } from './table.ts'

const COMMA = sql`, `

export interface PlainKeyedUpdate {
  /** CTEs, of which `r` has the rows. */
  readonly ctes: Fragment
  /** A query of the positions of all rows. */
  readonly positions: Fragment
}

interface ReturnedColumns {
  /** The list after `returning`. */
  readonly returned: Fragment
  /** The names of its columns. */
  readonly names: readonly string[]
}

/** Returns undefined if the operation has no plain form. */
export function buildPlainKeyedUpdate (
  node: KeyedUpdateNode,
  values: PlainBuilder,
  { returned, names }: ReturnedColumns
): PlainKeyedUpdate | undefined {
  const [group, ...more] = node.groups
  const cells = group?.rows.cells
  if (cells === undefined || more.length > 0 || node.output?.some(isAllColumns) === true) {
    return undefined
  }
  const rows = buildRows({ node, group: group as KeyedGroup, cells }, values)
  const distinct = checkDistinct(node, [sql`x`]).map(query => sql`(${query})`)
  const statement = buildKeyedUpdate(node, group as KeyedGroup, {
    source: sql`x`,
    conditions: [...buildConditions(node.where, values), ...gateChecks(node, distinct)],
    values
  })
  const position = identifier(unusedName(names))
  return {
    ctes: sql`with x as (${rows}),
      u as (${statement} returning ${returned}, ${rowPosition} as ${position}),
      r as (select ${join(names.map(identifier), COMMA)} from u order by ${position}) `,
    positions: sql`select ${position} from u`
  }
}

interface StoredRows {
  readonly node: KeyedUpdateNode
  readonly group: KeyedGroup
  readonly cells: ReadonlyArray<ReadonlyMap<string, Cell>>
}

function buildRows ({ node, group, cells }: StoredRows, values: PlainBuilder): Fragment {
  const rows = cells.map((row, i) => {
    const fields = group.fields.map(field =>
      values.buildCell(row.get(field.name), field.column, { always: false, as: readAs(field) })
    )
    return sql`(${join([integer(group.positions[i] as number), ...fields], COMMA)})`
  })
  const checks = checkKeys(group, node)
  const where = checks.length === 0 ? empty : sql` where ${join(checks, sql` and `)}`
  // A CTE keeps the collation of an expression, of which the branch is never computed.
  const columns = group.fields.map(({ name, column, modifier }) => {
    const value = sql`x.${identifier(name)}`
    return modifier !== undefined || cells.length === 1
      ? value
      : sql`case when false then (null::${tableName(values.table)}).${identifier(column)}
          else ${value} end as ${identifier(name)}`
  })
  return sql`select ${join([rowPosition, ...columns], COMMA)}
    from (values ${join(rows, COMMA)}) as x (${rowColumns(group)})${where}`
}
