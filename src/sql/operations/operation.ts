/**
 * Builds what an operation does to its table, and the rows that it returns.
 */
import { AND, identifier, join, sql, whereAll, type Fragment } from '../../fragment/fragment.ts'
import { isNested } from '../../plan/nested.ts'
import type {
  Assignment,
  CallNode,
  PlanNode,
  DeleteNode,
  OutputColumn,
  SelectNode,
  UpdateNode
} from '../../plan/nodes.ts'
import { tableName } from '../statement/table.ts'
import { buildWhen, checksWhen } from '../statement/when.ts'
import { buildCall } from '../values/call.ts'
import type { StatementContext } from '../values/context.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { buildAssignment } from './assignment.ts'
import { buildBulkUpdate } from './bulk-update.ts'
import { buildGroups } from './insert-groups.ts'
import { buildInsert } from './insert.ts'
import { buildNestedSelect, buildPlainNestedSelect } from './nested.ts'
import {
  jsonRow,
  NOTHING,
  returnedColumns,
  returningList,
  wholeRow,
  type BuiltOperation,
  type RowPart
} from './output.ts'
import { buildRows } from './select.ts'
import { buildJoin } from './source.ts'

/** Builds an operation whose rows are those of `r`. */
export function buildOperation (
  node: PlanNode,
  part: RowPart,
  context: StatementContext
): BuiltOperation {
  const { separate, shared, values } = context
  if (node.kind === 'call' || node.kind === 'select') {
    return { ctes: [], rows: sql`(${buildRead(node, context)}) as r` }
  }
  const row = part === 'nothing'
    ? sql`${NOTHING} as row`
    : separate ? jsonRow(values, shared.length > 0) : wholeRow(values)
  if (node.kind === 'bulk_update' || (node.kind === 'insert' && node.groups.length > 1)) {
    const returned = part === 'columns'
      ? returnedColumns(node, values)
      : { returned: row, names: ['row'], selected: identifier('row') }
    return node.kind === 'insert'
      ? buildGroups(node, part, { ...returned, values })
      : buildBulkUpdate(node, values, returned)
  }
  const returned = part === 'columns'
    ? returningList(node.output as readonly OutputColumn[], values)
    : row
  const statement = node.kind === 'insert'
    ? buildInsert(node, values)
    : node.kind === 'update' ? buildUpdate(node, values) : buildDelete(node, values)
  return { ctes: [sql`r as (${statement} returning ${returned})`], rows: sql`r` }
}

/** Builds a query of the rows. */
function buildRead (
  node: CallNode | SelectNode,
  { plain = false, values }: StatementContext
): Fragment {
  if (node.kind === 'call') {
    const row = sql`t.*::record as row`
    return buildRows(node, values, { source: buildCall(node, values), row })
  }
  if (!isNested(node)) {
    return buildRows(node, values, { source: tableName(node.table), row: wholeRow(values) })
  }
  return plain ? buildPlainNestedSelect(node, values) : buildNestedSelect(node, values)
}

function buildUpdate (node: UpdateNode, values: TypedValues): Fragment {
  const { table, set } = node
  const isPlain = ({ modifier }: Assignment): boolean => modifier === '$value'
  // Plain values are built first: only what they convert is computed if no row matches, too.
  const plain = set.filter(isPlain).map(value => buildAssignment(value, values))
  const converted = values.convertFirst()
  if (converted.length > 0) {
    values.needs.conditions.push(sql`(${join(checksWhen(node, converted), AND)}) is not null`)
  }
  const computed = set.filter(value => !isPlain(value))
    .map(value => buildAssignment(value, values))
  const { source, conditions, unambiguous } = buildJoin(node, values, sql`from`)
  const checks = values.evaluateOnce(checksWhen(node, unambiguous))
  return sql`update ${tableName(table)} as t set ${join([...plain, ...computed])}${source}${
    whereAll([...conditions, ...checks])
  }`
}

function buildDelete (node: DeleteNode, values: TypedValues): Fragment {
  const { source, conditions } = buildJoin(node, values, sql`using`)
  return sql`delete from ${tableName(node.table)} as t${source}${
    whereAll([...conditions, ...buildWhen(node)])
  }`
}
