/**
 * Builds a keyed update in the plain form.
 */
import { toPath } from '../plan/name.ts'
import type { Cell, KeyedGroup, KeyedUpdateNode, RowField } from '../plan/nodes.ts'
import { buildConditions } from './filter.ts'
import { identifier, integer, join, parameter, sql, whereAll, type Fragment } from './fragment.ts'
import { gateChecks } from './gate.ts'
import { unusedName } from './output.ts'
import {
  buildKeyedRows,
  buildKeyedUpdate,
  checkDistinct,
  checkKeys,
  POSITION_NAME,
  readAs,
  readStored,
  rowColumns,
  rowPosition
} from './keyed-update.ts'
import { buildRecordset, type PlainBuilder } from './plain-builder.ts'
import { tableName } from './table.ts'

const COMMA = sql`, `

export interface PlainKeyedUpdate {
  /** CTEs, of which `r` has the rows. */
  readonly ctes: readonly Fragment[]
  /** A query of the positions of all rows. */
  readonly positions: Fragment
}

export interface ReturnedColumns {
  /** The list after `returning`. */
  readonly returned: Fragment
  /** The names of its columns. */
  readonly names: readonly string[]
}

export function buildPlainKeyedUpdate (
  node: KeyedUpdateNode,
  values: PlainBuilder,
  { returned, names }: ReturnedColumns
): PlainKeyedUpdate {
  const groups = node.groups.map((group, i) => ({
    group,
    source: values.addRows(buildRows(node, group, values)),
    changed: sql`u${integer(i)}`
  }))
  const distinct = values.explain
    ? []
    : checkDistinct(node, groups.map(({ source }) => source)).map(query =>
      values.computeFirst(sql`(${query})`)
    )
  const conditions = [...buildConditions(node.where, values), ...gateChecks(node, distinct)]
  const position = identifier(unusedName(names))
  const updates = groups.map(({ group, source, changed }) => {
    const read = (field: RowField): Fragment => readStored(field, group, values)
    const statement = buildKeyedUpdate(node, group, { source, conditions, values, read })
    return sql`${changed} as (${statement} returning ${returned}, ${rowPosition} as ${position})`
  })
  const ofAll = (columns: readonly Fragment[]): Fragment =>
    join(
      groups.map(({ changed }) => sql`select ${join(columns, COMMA)} from ${changed}`),
      sql` union all `
    )
  const columns = names.map(identifier)
  const ctes = [
    ...updates,
    sql`r as (select ${join(columns, COMMA)} from (${
      ofAll([...columns, position])
    }) as u order by ${position})`
  ]
  return { ctes, positions: ofAll([position]) }
}

function buildRows (
  node: KeyedUpdateNode,
  group: KeyedGroup,
  values: PlainBuilder
): Fragment {
  const cells = values.checkValues ? undefined : group.rows.cells
  const source = cells === undefined
    ? buildManyRows(group, values)
    : sql`(values ${join(buildCells(group, cells, values), COMMA)}) as x (${rowColumns(group)})`
  if (source === undefined) return buildKeyedRows(group, node, values)
  // A CTE keeps the collation of an expression, of which the branch is never computed.
  const columns = group.fields.map(({ name, column, modifier }) => {
    const value = sql`x.${identifier(name)}`
    return modifier !== undefined || cells?.length === 1
      ? value
      : sql`case when false then (null::${tableName(values.table)}).${identifier(column)}
          else ${value} end as ${identifier(name)}`
  })
  return sql`select ${join([rowPosition, ...columns], COMMA)} from ${source}${
    whereAll(values.explain ? [] : checkKeys(group, node))
  }`
}

function buildCells (
  { fields, positions }: KeyedGroup,
  cells: ReadonlyArray<ReadonlyMap<string, Cell>>,
  values: PlainBuilder
): readonly Fragment[] {
  return cells.map((row, i) => {
    const built = fields.map(field => {
      const cell = row.get(field.name) as Cell
      return values.buildCell(cell, field.column, { always: false, as: readAs(field) })
    })
    return sql`(${join([integer(positions[i] as number), ...built], COMMA)})`
  })
}

/**
 * Rows of JSON without references, of which the first field is the position; undefined: a type has
 * no name here.
 */
function buildManyRows (
  { fields, rows: { document, uncertainColumns } }: KeyedGroup,
  values: PlainBuilder
): Fragment | undefined {
  const shapes = new Map(uncertainColumns.map(({ column, shape }) => [column, shape]))
  const types = fields.map(field => ({
    name: field.name,
    type: values.fieldType(
      { path: toPath(field.column), as: readAs(field) },
      shapes.get(field.name)
    )
  }))
  if (document.references.length > 0 || types.some(({ type }) => type === undefined)) {
    return undefined
  }
  const columns = types.map(({ name, type }) => sql`${identifier(name)} ${type as Fragment}`)
  const position = sql`${POSITION_NAME} pg_catalog.int4`
  return buildRecordset(parameter(document.pieces[0] as string), [position, ...columns])
}
