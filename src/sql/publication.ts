/**
 * Publishes the rows of an operation for later operations: as JSON in a setting of the transaction.
 *
 * The publisher checks that the rows and columns that later operations refer to exist. The reader
 * cannot: PostgreSQL does not evaluate its subquery if no row needs the value, so a missing row
 * would go unnoticed.
 */
import type { Plan, PlanNode, ReferenceUse } from '../plan/nodes.ts'
import { mayReturn } from '../plan/output.ts'
import type { Check } from './checks.ts'
import { isNested } from './nested.ts'
import {
  arrayText,
  empty,
  identifier,
  integer,
  join,
  parameter,
  sharedParameter,
  sql,
  type Fragment
} from './fragment.ts'
import { raiseNumber } from './marker.ts'
import { countSetting, jsonNullsSetting, rowsSetting } from './settings.ts'

/**
 * A list is as long as the result that it is read from. This many lists of full length may be read
 * from one operation, or more that are shorter. Measured: 1000 lists of 10 000 rows each, a body of
 * 10 kB, took 20 s and 1.9 GB.
 */
export const MAX_LISTS = 100

/** Up to this many columns are each checked by an expression of their own. */
const MAX_COLUMN_CHECKS = 4

export interface PublicationOptions {
  /** Later operations depend on the number of rows. */
  readonly counted: boolean
  readonly uses: readonly ReferenceUse[]
  readonly maxRows: number
  /** Whether the statement does not return the rows, so `j.rows` does not exist. */
  readonly hidden: boolean
  /** The rows as JSON; see buildStatement. */
  readonly rowsJson: Fragment
  readonly checkValues: boolean
}

/**
 * Returns the distinct columns that later operations read from one operation. The value of a
 * `column` marker is a position in this list, from 1.
 */
export function columnsRead (uses: readonly ReferenceUse[]): readonly string[] {
  return [...new Set(uses.flatMap(({ reference: { column } }) => column ?? []))]
}

/** Returns the references to lists. A `lists` marker is reported at the first of them. */
export function listsRead (uses: readonly ReferenceUse[]): readonly ReferenceUse[] {
  return uses.filter(({ reference }) => reference.row === '*')
}

/**
 * Returns the output columns of which later operations read single values, with their positions
 * among all such columns. `r` has these values beside its rows.
 */
export function exposedColumns (
  node: PlanNode,
  uses: readonly ReferenceUse[]
): ReadonlyArray<readonly [column: string, position: number]> {
  return valuesRead(uses).map((name, i) => [name, i] as const)
    .filter(([name]) => isExposed(node, name))
}

/** Whether a column stands beside the row. If the row has no type of its own, all of them do. */
function isExposed (node: PlanNode, name: string): boolean {
  return !hasTypedRows(node) || (node.output !== undefined && mayReturn(node.output, name))
}

/** Whether the type of the rows is that of the table, or that of the output columns. */
function hasTypedRows (node: PlanNode): boolean {
  return !isNested(node) && (node.kind !== 'call' || node.output !== undefined)
}

/** The columns of which later operations read single values. */
function valuesRead (uses: readonly ReferenceUse[]): readonly string[] {
  return columnsRead(uses.filter(({ reference }) => reference.row !== '*'))
}

/** Publishes what later operations read: the number of rows, and rows. */
export function buildPublication (
  node: PlanNode,
  options: PublicationOptions
): readonly Check[] {
  return [
    ...publishRows(node, options),
    ...options.counted ? [publishCount(node.index, sql`j.n`)] : []
  ]
}

/** Publishes the number of rows, an expression. */
export function publishCount (index: number, rows: Fragment): Check {
  return publish(countSetting(index), sql`(${rows})::text`)
}

/**
 * Publishes the rows that later operations read, up to the last of them, and checks that those
 * exist which the readers do not check.
 */
function publishRows (
  node: PlanNode,
  { uses, maxRows, hidden, rowsJson, checkValues }: PublicationOptions
): readonly Check[] {
  if (uses.length === 0) return []
  const minRows = countRows(uses.filter(({ checked }) => checked))
  const needed = sql`${sharedParameter(String(countRows(uses)))}::bigint`
  const least = minRows === countRows(uses) ? needed : sql`${integer(minRows)}`
  const lists = listsRead(uses).length
  const neededRows = sql`(select ${rowsJson} from (select * from r${
    lists > 0 ? empty : sql` limit ${needed}`
  }) as r)`
  // Where possible this is the text of the result: rendering the rows again took twice the time.
  const published = hidden
    ? neededRows
    : lists > 0
      ? sql`j.rows`
      : sql`case when j.n = ${needed} then j.rows else ${neededRows} end`
  return [
    ...(minRows === 0 ? [] : [{ when: sql`j.n < ${least}`, then: raiseNumber('row', sql`j.n`) }]),
    ...buildListCheck(lists, maxRows),
    ...buildColumnChecks(columnsRead(uses)),
    ...checkValues && valuesRead(uses).length > 0 ? publishJsonNulls(node, uses, needed) : [],
    publish(rowsSetting(node.index), sql`(${published})::text`)
  ]
}

/** The number of rows up to the last of those that are read. */
function countRows (uses: readonly ReferenceUse[]): number {
  return uses.reduce((most, { rows }) => Math.max(most, rows), 0)
}

/** Sets a setting of the transaction. It is a check that never fails. */
function publish (setting: string, value: Fragment): Check {
  return { when: sql`set_config(${parameter(setting)}, ${value}, true) is null`, then: sql`null` }
}

function buildListCheck (lists: number, maxRows: number): readonly Check[] {
  if (lists <= MAX_LISTS) return []
  return [{
    when: sql`j.n > ${integer(MAX_LISTS * maxRows / lists)}`,
    then: raiseNumber('lists', sql`j.n`)
  }]
}

/** Checks that the first row has the columns. */
function buildColumnChecks (columns: readonly string[]): readonly Check[] {
  if (needsColumnSearch(columns)) {
    return [{
      when: sql`j.n > 0 and m.position is not null`,
      then: raiseNumber('column', sql`m.position`)
    }]
  }
  // `->` returns NULL for a missing member, and the JSON null for a member that is null.
  return columns.map((column, i) => ({
    when: sql`j.n > 0 and (select to_json(r.row) -> ${
      parameter(column)
    }::text from (select * from r limit 1) as r) is null`,
    then: raiseNumber('column', sql`j.n * 0 + ${integer(i + 1)}`)
  }))
}

/** Whether the statement needs the CTE of buildColumnSearch. */
export function needsColumnSearch (columns: readonly string[]): boolean {
  return columns.length > MAX_COLUMN_CHECKS
}

/**
 * Builds the CTE `m`: the position, from 1, of the first of these columns that the rows do not
 * have, or NULL. It uses one array: an expression for each of 21 000 columns took a backend 2.8 GB.
 */
export function buildColumnSearch (columns: readonly string[]): Fragment {
  return sql`, m as (
    select min(c.position) as position from unnest(${
    parameter(arrayText(columns))
  }::text[]) with ordinality as c (name, position)
    where c.name not in (select json_object_keys(to_json(r.row)) from (select * from r limit 1)
      as r)
  )`
}

/**
 * Publishes which columns of each row are the JSON null: `[["data"], []]`. The published JSON does
 * not distinguish it from NULL. A name that the rows do not have resolves to the column of `f`,
 * which is NULL.
 */
function publishJsonNulls (
  node: PlanNode,
  uses: readonly ReferenceUse[],
  needed: Fragment
): readonly Check[] {
  const names = valuesRead(uses)
  const exposed = names.flatMap((name, i) =>
    isExposed(node, name)
      ? [sql`r.${identifier(`n${i}`)} as ${identifier(name)}`]
      : []
  )
  const columns = node.output === undefined && hasTypedRows(node)
    ? sql`(r.row).*`
    : join(exposed, sql`, `)
  const nulls = names.map(name =>
    sql`case when (select to_json(${identifier(name)}) from (select ${columns}) as e)::text = 'null'
      then ${parameter(name)}::text end`
  )
  const defaults = join(names.map(name => sql`null as ${identifier(name)}`), sql`, `)
  const rows = sql`(select coalesce(json_agg(n.nulls), '[]')::text
    from (select * from r limit ${needed}) as r
    cross join lateral (select array_remove(array[${join(nulls, sql`, `)}], null) as nulls
      from (select ${defaults}) as f) as n)`
  return [publish(jsonNullsSetting(node.index), rows)]
}

/**
 * Returns settings that hold no published rows. PostgreSQL plans a statement without running those
 * before it, but the planner may read the settings.
 */
export function emptyPublications (
  { referenceUses, counted }: Plan
): ReadonlyArray<readonly [name: string, value: string]> {
  return [
    ...[...referenceUses.keys()].map(index => [rowsSetting(index), '[]'] as const),
    ...[...counted].map(index => [countSetting(index), '0'] as const)
  ]
}
