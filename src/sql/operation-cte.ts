/**
 * Builds the CTEs that run an operation and provide its rows, each as one value `row`.
 */
import type {
  InsertNode,
  KeyedUpdateNode,
  OutputColumn,
  PlanNode,
  RowGroup
} from '../plan/nodes.ts'
import { isAllColumns } from '../plan/output.ts'
import { arrayText } from '../plan/value-text.ts'
import type { Check } from './checks.ts'
import { needsOneShard, storesSeveral, withoutPosition } from './citus.ts'
import type { RowColumns } from './column.ts'
import type { CteBuilder } from './cte-builder.ts'
import { buildDelete } from './delete.ts'
import { buildGate, gateRows } from './gate.ts'
import { empty, identifier, integer, join, parameter, sql, type Fragment } from './fragment.ts'
import {
  buildConflictClause,
  buildInsert,
  buildInsertOfRow,
  numberRows,
  rowNumber
} from './insert.ts'
import { buildQueryInsert } from './insert-query.ts'
import { isMarked, markRow } from './inserted.ts'
import { buildAmbiguityCheck, buildKeyedUpdates, rowPosition } from './keyed-update.ts'
import { raise } from './marker.ts'
import { returningList, rowValue, unusedName, wholeRow } from './output.ts'
import { isNested } from '../plan/nested.ts'
import { buildDistributedNestedSelect, buildNestedSelect } from './nested.ts'
import { buildSelect } from './select.ts'
import { exposeColumns, type ExposedColumns } from './shared-results.ts'
import { buildStoredRow, buildUpdate, newValue } from './update.ts'

/**
 * The part of the rows that the statement reads: whole rows, the output columns, or nothing. To
 * read nothing needs no SELECT privilege.
 */
export type Shape = 'whole' | 'columns' | 'nothing'

export interface OperationCteOptions {
  readonly ctes: CteBuilder
  readonly shape: Shape
  /** The name of the CTE that provides the rows. */
  readonly name: Fragment
}

/** Returns the shape of an operation. `unread`: nothing reads its rows. */
export function shapeOf (node: PlanNode, unread: boolean): Shape {
  if (unread || node.output?.length === 0) return 'nothing'
  return node.output === undefined || isNested(node) ? 'whole' : 'columns'
}

/** Builds `<name> as (…)`, if necessary with further CTEs before it. */
export function buildOperationCte (node: PlanNode, options: OperationCteOptions): Fragment {
  const { ctes, name } = options
  switch (node.kind) {
    case 'insert':
      return buildInsertCte(node, options)
    case 'update':
      return buildReturningCte(node, buildUpdate(node, ctes), options)
    case 'keyed_update':
      return buildKeyedUpdateCte(node, options)
    case 'delete':
      return buildReturningCte(node, buildDelete(node, ctes), options)
    case 'select':
    case 'call': {
      const buildNested = ctes.distributed ? buildDistributedNestedSelect : buildNestedSelect
      const rows = isNested(node)
        ? buildNested(node, ctes, row => ctes.exposedColumns(row))
        : buildSelect(node, ctes)
      return sql`${name} as (${gateRows(rows, ctes.evaluateOnce(buildGate(node)))})`
    }
  }
}

function buildReturningCte (
  node: PlanNode,
  statement: Fragment,
  options: OperationCteOptions
): Fragment {
  const { ctes, shape, name } = options
  const list = returned(node, options)
  if (shape === 'whole') return sql`${name} as (${statement} returning ${list})`
  return sql`p as (${statement} returning ${list}),
    ${name} as (select ${asRow(sql`p`, shape, ctes)} from p)`
}

/** The list after `returning`, which cannot be empty. */
function returned (
  { table, output = [] }: PlanNode,
  { ctes, shape }: OperationCteOptions
): Fragment {
  if (shape === 'whole') return wholeRow(table)
  return shape === 'nothing' ? sql`null` : returningList(output, ctes)
}

export function hasAllColumns ({ output = [] }: PlanNode): boolean {
  return output.some(isAllColumns)
}

/**
 * The output columns as one value `row`, because beside the number of a row their names are not
 * known, and the exposed columns.
 */
export function returnedRecord (
  node: PlanNode,
  columns: RowColumns,
  exposed: ExposedColumns
): Fragment {
  const source = returnedColumns(node, columns)
  return sql`(select q.*::record from ${source}) as row${exposeColumns(exposed, sql`q`, source)}`
}

function returnedColumns (node: PlanNode, columns: RowColumns): Fragment {
  // A subquery that depends on no row is computed once.
  const each = isMarked(node) ? sql` where pg_catalog.num_nulls(t.*) is not null` : empty
  const list = returningList(node.output as readonly OutputColumn[], columns)
  return sql`(select ${list}${each}) as q`
}

/** The returned columns of `from` as one value `row`. */
function asRow (from: Fragment, shape: Shape, ctes: CteBuilder): Fragment {
  if (shape === 'whole') return sql`row`
  return shape === 'nothing'
    ? sql`${ctes.distributed ? sql`null::json` : sql`row()`} as row`
    : sql`${rowValue(from, ctes)} as row${ctes.exposedColumns(from)}`
}

/** PostgreSQL changes rows in any order. They are sorted into the order of `values`. */
function buildKeyedUpdateCte (
  node: KeyedUpdateNode,
  options: OperationCteOptions
): Fragment {
  const { ctes, shape, name } = options
  if (ctes.distributed) return buildDistributedKeyedUpdateCte(node, options)
  const columns = shape === 'columns'
    ? returnedRecord(node, ctes, ctes.exposed)
    : shape === 'whole' ? returned(node, options) : sql`row() as row`
  const updates = buildKeyedUpdates(node, ctes).map((statement, i) =>
    sql`${nameUpdate(i)} as (${statement} returning ${columns}, ${rowPosition} as position)`
  )
  const rows = sql`row${shape === 'columns' ? ctes.exposedColumns() : empty}`
  return sql`${join(updates, sql`, `)}, ${name} as (select ${rows} from (${
    allUpdates(node, sql`*`)
  }) as placed order by position)`
}

/** No column has a name with an arrow. */
const POSITION = identifier('->')

/** The same, with rows that become values only after they have come from their shards. */
function buildDistributedKeyedUpdateCte (
  node: KeyedUpdateNode,
  options: OperationCteOptions
): Fragment {
  const { ctes, shape, name } = options
  const list = returned(node, options)
  const updates = buildKeyedUpdates(node, ctes).map((statement, i) =>
    sql`w${integer(i)} as (${statement} returning ${list}, ${rowPosition} as ${POSITION})`
  )
  const rows = node.groups.map((_, i) => {
    const from = sql`w${integer(i)}`
    const row = shape === 'nothing' ? sql`null::json` : withoutPosition(from, POSITION)
    return sql`${nameUpdate(i)} as (select ${row} as row${ctes.exposedColumns(from)},
      ${from}.${POSITION} as position from ${from})`
  })
  return sql`${join([...updates, ...rows], sql`, `)}, ${name} as (select row${
    ctes.exposedColumns()
  } from (${allUpdates(node, sql`*`)}) as placed order by position)`
}

function nameUpdate (position: number): Fragment {
  return identifier(`u${position}`)
}

/** A query of columns of the rows of all groups. */
function allUpdates ({ groups }: KeyedUpdateNode, columns: Fragment): Fragment {
  const updates = groups.map((_, i) => sql`select ${columns} from ${nameUpdate(i)}`)
  return join(updates, sql` union all `)
}

/** Fails if a key meets several rows. */
export function buildKeyCheck (node: PlanNode): readonly Check[] {
  return node.kind === 'keyed_update'
    ? [buildAmbiguityCheck(allUpdates(node, sql`position`))]
    : []
}

/**
 * PostgreSQL inserts groups in the order in which the statement reads them. The rows are sorted
 * into the order of `values`.
 */
function buildInsertCte (node: InsertNode, options: OperationCteOptions): Fragment {
  const { ctes, shape, name } = options
  const marked = isMarked(node)
  const { distributed } = ctes
  const conflict = buildConflictClause(node, ctes, { marked, distributed })
  const gate = buildGate(node)
  const { query } = node
  if (query !== undefined) {
    const statement = buildQueryInsert({ ...node, query }, ctes, {
      values: query.columns.map(column => newValue(column, query.set, ctes)),
      stored: buildStoredRow(query, ctes),
      also: [
        ...ctes.checkStoredRows(query.set.uncertainColumns),
        ...marked ? [markRow(true)] : []
      ],
      conflict
    })
    return buildReturningCte(node, statement, options)
  }
  if (ctes.distributed && shape !== 'nothing' && storesSeveral(node) && !needsOneShard(node)) {
    return buildRowByRow(node, options, { conflict, gate })
  }
  const [group, ...more] = node.groups
  if (group !== undefined && more.length === 0) {
    const statement = buildInsert(group, ctes, { conflict, gate, marked })
    return buildReturningCte(node, statement, options)
  }
  const groups = nameGroups(node, shape)
  const inserts = groups.map(({ group, name, number }) => {
    const statement = buildInsert(group, ctes, {
      conflict,
      gate,
      marked,
      numbered: number !== undefined
    })
    const columns = number !== undefined && hasAllColumns(node)
      ? returnedRecord(node, ctes, ctes.exposed)
      : returned(node, options)
    const numbers = number === undefined ? empty : sql`, ${rowNumber} as ${number}`
    return sql`${name} as (${statement} returning ${columns}${numbers})`
  })
  const rows = groups.map(group => selectWithPosition(node, group, options))
  const columns = sql`row${shape === 'columns' ? ctes.exposedColumns() : empty}`
  return sql`${join(inserts, sql`, `)}, ${name} as (select ${columns}
    from (${join(rows, sql` union all `)}) as placed order by position)`
}

/** Inserts each row by a statement of its own, because Citus returns rows shard by shard. */
function buildRowByRow (
  node: InsertNode,
  { ctes, shape, name }: OperationCteOptions,
  options: { readonly conflict: Fragment, readonly gate: readonly Fragment[] }
): Fragment {
  const list = returned(node, { ctes, shape, name })
  const inserts = node.groups.flatMap(group => {
    const rows = numberRows(group, ctes)
    return group.positions.map((place, i) => {
      const insert = identifier(`g${place}`)
      const statement = buildInsertOfRow(rows, i, ctes, options)
      return {
        cte: sql`${insert} as (${statement} returning ${list})`,
        row: sql`select ${asRow(insert, shape, ctes)}, ${integer(place)} as position from ${insert}`
      }
    })
  })
  const columns = sql`row${ctes.exposedColumns()}`
  return sql`${join(inserts.map(({ cte }) => cte), sql`, `)}, ${name} as (select ${columns}
    from (${join(inserts.map(({ row }) => row), sql` union all `)}) as placed order by position)`
}

/** One of several groups of an insert. */
export interface NamedGroup {
  readonly group: RowGroup
  /** The CTE that inserts the group. */
  readonly name: Fragment
  /** The column of that CTE with the row number, or undefined if none is needed. */
  readonly number: Fragment | undefined
}

export function nameGroups (
  { groups, output = [] }: InsertNode,
  shape: Shape
): readonly NamedGroup[] {
  const number = identifier(
    // Such rows are one value, with exposed columns named n0, n1, … beside it.
    output.some(isAllColumns) ? 'number' : unusedName(output.map(({ name }) => name))
  )
  return groups.map((group, i) => ({
    group,
    name: identifier(`g${i}`),
    number: shape !== 'nothing' && hasGaps(group) ? number : undefined
  }))
}

/**
 * Whether there are rows of other groups between the rows of this one. Without gaps the order of
 * the returned rows is right, even if some rows were not inserted.
 */
function hasGaps ({ positions }: RowGroup): boolean {
  return (positions.at(-1) as number) - (positions[0] as number) >= positions.length
}

/** Selects the rows of a group as `row`, with their `position` in `values`. */
function selectWithPosition (
  node: InsertNode,
  { group, name, number }: NamedGroup,
  { ctes, shape }: OperationCteOptions
): Fragment {
  const position = sql`${positionInValues({ group, name, number })} as position`
  if (number === undefined) {
    return sql`select ${asRow(name, shape, ctes)}, ${position} from ${name}`
  }
  if (shape === 'whole') return sql`select row, ${position} from ${name}`
  if (hasAllColumns(node)) {
    return sql`select row${ctes.exposedColumns()}, ${position} from ${name}`
  }
  const { output = [] } = node
  const columns = join(output.map(column => sql`${name}.${identifier(column.name)}`), sql`, `)
  const outputColumns = sql`cross join lateral (select ${columns}) as q`
  return sql`select ${asRow(sql`q`, shape, ctes)}, ${position} from ${name} ${outputColumns}`
}

/** The position in `values` of a row of the CTE of a group. */
export function positionInValues ({ group, name, number }: NamedGroup): Fragment {
  const positions = sql`(${parameter(arrayText(group.positions))}::pg_catalog.int4[])`
  const next = sql`row_number() over ()`
  // For rows without a number see buildOrderCheck.
  const at = number === undefined ? next : sql`coalesce(${name}.${number}, ${next})`
  return sql`${positions}[${at}]`
}

/**
 * Fails if row numbers are missing because a trigger reset the settings of the session. If every
 * row of a group was inserted, their order is known without numbers.
 */
export function buildOrderCheck (node: PlanNode, shape: Shape): readonly Check[] {
  const groups = node.kind === 'insert' ? nameGroups(node, shape) : []
  const missing = groups.flatMap(({ group: { positions }, name, number }) => {
    if (number === undefined) return []
    const all = sql`${parameter(String(positions.length))}::int`
    return sql`(select count(${number}) < count(*) and count(*) < ${all} from ${name})`
  })
  if (missing.length === 0) return []
  return [{ when: join(missing, sql` or `), then: raise('order') }]
}
