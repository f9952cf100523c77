/**
 * Builds the UPDATEs of a bulk update, one for each group of rows:
 *
 *     update "articles" as t set "price" = x."price" from x0 as x where t."sku" = x."sku"
 *
 * `x0` has the rows of the group: their keys, their new values or the operands of modifiers, and
 * their position in `values`. They have the types of the columns without length, precision or
 * domain, so that a key compares like the operand of a condition; an assignment converts to the
 * exact type. Although `x0` is a CTE, the comparison of keys can use an index of the table.
 */
import {
  AND,
  empty,
  identifier,
  integer,
  join,
  sql,
  whereAll,
  type Fragment
} from '../../fragment/fragment.ts'
import type { Cell, BulkUpdateGroup, BulkUpdateNode, RowField } from '../../plan/nodes.ts'
import { readCells, type Cells } from '../../plan/stored-values.ts'
import type { Check } from '../statement/checks.ts'
import { raise, raiseNumber } from '../statement/raised-error.ts'
import { tableName, unusedName } from '../statement/table.ts'
import { buildSkipped, checksWhen } from '../statement/when.ts'
import { positionAt } from '../values/stored-rows.ts'
import { expectFewRows } from '../values/typed-json.ts'
import type { TypedValues, WrittenField } from '../values/typed-values.ts'
import { applyModifier, buildAssignment, readAs } from './assignment.ts'
import { buildConditions, IS_NOT_NULL, IS_NULL } from './filter.ts'
import type { BuiltOperation, ReturnedColumns } from './output.ts'

const UNION = sql` union all `

export function buildBulkUpdate (
  node: BulkUpdateNode,
  values: TypedValues,
  { returned, names, selected }: ReturnedColumns
): BuiltOperation {
  // The groups may name different fields.
  const number = identifier(unusedName(node.groups.flatMap(({ fields }) =>
    fields.map(({ name }) => name))))
  const groups = node.groups.map((group, i) => ({
    group,
    source: values.needs.addRows(buildRows(node, group, { number, values })),
    changed: sql`u${integer(i)}`
  }))
  if (isSingle(node.groups) && !values.explain) {
    // PostgreSQL makes the query of a single row a part of the update.
    values.needs.conditions.push(...groups.filter(({ group }) => mayLackKey(group))
      .map(({ source }) => sql`(select pg_catalog.count(*) from ${source}) is not null`))
  }
  const distinct = values.explain
    ? []
    : checkDistinct(node, groups.map(({ source }) => source), number).map(query => sql`(${query})`)
  const conditions = [
    ...buildConditions(node.where, values),
    ...checksWhen(node, distinct)
  ]
  const position = identifier(unusedName(names))
  const updates = groups.map(({ group, source, changed }) => {
    const statement = buildGroupUpdate(node, group, { source, conditions, values })
    return sql`${changed} as (${statement} returning ${returned}, x.${number} as ${position})`
  })
  const ofAll = (columns: Fragment): Fragment =>
    join(groups.map(({ changed }) => sql`select ${columns} from ${changed}`), UNION)
  const columns = join(names.map(identifier))
  const rows = ofAll(sql`${columns}, ${position}`)
  return {
    ctes: [...updates, sql`r as (select ${selected} from (${rows}) as u
      order by u.${position})`],
    rows: sql`r`,
    checks: [checkAmbiguity(ofAll(position))]
  }
}

interface RowsParts {
  /** The name of the position of a row in `values`, among the columns of the rows. */
  readonly number: Fragment
  readonly values: TypedValues
}

function buildRows (
  node: BulkUpdateNode,
  group: BulkUpdateGroup,
  { number, values }: RowsParts
): Fragment {
  const { fields, positions, rows } = group
  const cells = readCells(rows)
  const position = cells === undefined
    ? positionInValues(node, group, number)
    : sql`x.${number}`
  const conditions = values.explain ? [] : checkKeys(group, node, { position, values })
  const { from, stored } = cells === undefined
    ? values.buildRows(rows, fields.map(toWritten), { positions, number })
    : {
        from: sql`(values ${join(buildCells(group, cells, values))}) as x (${
          join([...fields.map(({ name }) => identifier(name)), number])
        })`,
        stored: fields.map(readField)
      }
  // The CASE gives a value the collation of its column, which the CTE keeps. The branch with the
  // column is never computed.
  const columns = fields.map(({ name, column, modifier }, i) => {
    const value = stored[i] as Fragment
    return sql`${modifier !== undefined || cells?.length === 1
      ? value
      : sql`case when false then (null::${tableName(values.table)}).${identifier(column)}
          else ${value} end`} as ${identifier(name)}`
  })
  return sql`select ${join([...columns, sql`${position} as ${number}`])} from ${from}${
    whereAll(conditions)
  }${cells === undefined ? expectFewRows : empty}`
}

/** The position in `values` of a row of JSON, whose number in the group begins with 1. */
function positionInValues (
  { groups }: BulkUpdateNode,
  { positions }: BulkUpdateGroup,
  number: Fragment
): Fragment {
  return groups.length === 1
    ? sql`(x.${number} operator(pg_catalog.-) 1)::pg_catalog.int4`
    : positionAt(positions, sql`x.${number}`)
}

function buildCells (
  { fields, positions }: BulkUpdateGroup,
  cells: Cells,
  values: TypedValues
): readonly Fragment[] {
  return cells.map((row, i) => {
    const built = fields.map(field => {
      const cell = row.get(field.name) as Cell
      const stored = field.modifier !== undefined
      const read = { as: readAs(field.modifier), stored, row: positions[i] }
      return values.buildCell(cell, field.column, read)
    })
    return sql`(${join([...built, integer(positions[i] as number)])})`
  })
}

interface UpdateParts {
  /** The rows of the group. */
  readonly source: Fragment
  readonly conditions: readonly Fragment[]
  readonly values: TypedValues
}

/** Builds the statement of a group, without `returning`. */
function buildGroupUpdate (
  { table }: BulkUpdateNode,
  group: BulkUpdateGroup,
  { source, conditions, values }: UpdateParts
): Fragment {
  const assignments = [
    ...group.fields.flatMap(field => {
      const { column, modifier } = field
      if (modifier === undefined) return []
      return [sql`${identifier(column)} = ${
        applyModifier({ column, modifier }, readField(field), values)
      }`]
    }),
    ...group.computed.map(value => buildAssignment(value, values))
  ]
  const matches = keysOf(group).map(field =>
    sql`${values.row}.${identifier(field.column)} = ${readField(field)}`
  )
  return sql`update ${tableName(table)} as t set ${join(assignments)} from ${source} as x
    where ${join([...matches, ...conditions], AND)}`
}

function isSingle (groups: BulkUpdateNode['groups']): boolean {
  return groups.length === 1 && groups[0]?.positions.length === 1
}

function keysOf ({ fields }: BulkUpdateGroup): readonly RowField[] {
  return fields.filter(({ modifier }) => modifier === undefined)
}

function readField ({ name }: RowField): Fragment {
  return sql`x.${identifier(name)}`
}

function toWritten (field: RowField): WrittenField {
  return { ...field, as: readAs(field.modifier), stored: field.modifier !== undefined }
}

/**
 * Builds conditions on the rows that are true, or fail because a reference in a key is NULL.
 * PostgreSQL may evaluate them while it plans the statement, also if the operation is skipped.
 */
function checkKeys (
  group: BulkUpdateGroup,
  node: BulkUpdateNode,
  { position, values: { needs } }: { readonly position: Fragment, readonly values: TypedValues }
): readonly Fragment[] {
  if (!mayLackKey(group)) return []
  const keys = keysOf(group)
  const missing = keys.map(field => {
    const issue = { column: field.column, isCompared: true, issue: KEY_ISSUE }
    return sql` when ${readField(field)} ${IS_NULL} then ${needs.raiseIssue(issue, position)}`
  })
  const named = join(keys.map(field => sql`${readField(field)} ${IS_NOT_NULL}`), AND)
  return [sql`case when ${buildSkipped(node)}${named}
    then true else case${join(missing, empty)} end is null end`]
}

/** Whether a key may be NULL. Values of the batch other than references are never NULL. */
function mayLackKey ({ rows }: BulkUpdateGroup): boolean {
  return !rows.references.every(({ parameter }) => parameter?.isNested !== undefined)
}

const KEY_ISSUE = { problem: 'key', path: [] } as const

/**
 * Builds a query that returns true, or raises `duplicate`: two rows have the same key. PostgreSQL
 * would use one of them. Keys compare like the columns, because the rows have their types and
 * collations. `rows` are the rows of the groups, `number` is the name of their position. A single
 * row needs no check.
 */
function checkDistinct (
  { groups }: BulkUpdateNode,
  rows: readonly Fragment[],
  number: Fragment
): readonly Fragment[] {
  if (isSingle(groups)) return []
  const [group] = groups as readonly [BulkUpdateGroup, ...BulkUpdateGroup[]]
  const keys = join(keysOf(group).map(({ name }) => identifier(name)))
  const all = join(
    rows.map(source => sql`select ${number}, ${keys} from ${source}`),
    UNION
  )
  return [sql`select case when q.position is null then true
      else ${raiseNumber('duplicate', sql`q.position`)} is null end
    from (select pg_catalog.min(d.position) as position from (
      select pg_catalog.max(${number}) as position from (${all}) as k group by ${keys}
        having pg_catalog.count(*) operator(pg_catalog.>) 1) as d) as q`]
}

/**
 * Fails if a key matches several rows. `positions`: a query that returns the positions of all
 * updated rows.
 */
function checkAmbiguity (positions: Fragment): Check {
  return {
    when: sql`(select pg_catalog.count(*) operator(pg_catalog.>) pg_catalog.count(distinct u.n)
      from (${positions}) as u (n))`,
    then: raise('ambiguous')
  }
}
