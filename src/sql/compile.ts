/**
 * Plan → statements, pure: one statement an operation, each answering one row with one column, its rows as JSON text.
 * Names and values come in as fragments; nothing of a request becomes SQL text but quoted identifiers.
 */
import type { InsertNode, Plan, PlanNode, Reading } from '../plan/nodes.ts'
import { deleteStatement } from './delete.ts'
import { arrayText, empty, identifier, join, parameter, render, sql, type Fragment, type RenderedSql } from './fragment.ts'
import { insertStatement } from './insert.ts'
import { raise } from './marker.ts'
import { settingName, wholeRow } from './reference.ts'
import { selectStatement } from './select.ts'
import { updateStatement } from './update.ts'

/** `prepare`: the text does not depend on the amount of data, so it may recur and is worth a prepared statement. */
export interface Statement extends RenderedSql { readonly prepare: boolean }

/** The statements of a plan, in the order of its operations. `maxRows` bounds the rows of each. */
export function compile (plan: Plan, maxRows: number): readonly Statement[] {
  return plan.operations.map(node => ({
    ...render(answering(node, plan.readings.get(node.index) ?? [], maxRows)),
    prepare: node.kind !== 'insert' || node.groups.length === 1
  }))
}

/** The columns that later operations read of one operation; a `column` marker counts in this list. */
export function columnsRead (readings: readonly Reading[]): readonly string[] {
  return [...new Set(readings.map(({ reference }) => reference.column))]
}

/** Wraps an operation so that its rows come as one JSON text, are counted against the limit and, when later operations read them, published. */
function answering (node: PlanNode, readings: readonly Reading[], maxRows: number): Fragment {
  return sql`with ${changing(node)}, j as (
    select coalesce(json_agg(r.row), '[]')::text as rows, count(*) as n from (select * from r limit ${parameter(String(maxRows + 1))}) as r
  ) select case when j.n > ${parameter(String(maxRows))} then ${raise('rows', sql`j.n`)}${readings.length === 0 ? empty : publishing(node, readings)} else j.rows end from j`
}

/**
 * Publishes the rows that later operations read, up to the last of them. That what they read exists is checked here: the reader may
 * never look when no row of its own needs the value, and a missing row would pass silently.
 */
function publishing (node: PlanNode, readings: readonly Reading[]): Fragment {
  const lastRow = readings.reduce((last, { reference }) => Math.max(last, reference.row), 0)
  const published = sql`(select json_agg(r.row)::text from (select * from r limit ${parameter(String(lastRow + 1))}) as r)`
  // `j.n * 0`: an expression of constants alone would be evaluated, and fail, while the statement is planned.
  const columns = columnsRead(readings).map((column, i) =>
    sql` when (select to_json(r.row) from r limit 1) -> ${parameter(column)}::text is null then ${raise('column', sql`(j.n * 0 + ${parameter(String(i))}::int)`)}`)
  return sql` when j.n <= ${parameter(String(lastRow))} then ${raise('row', sql`j.n`)}${join(columns, empty)}
    when set_config(${parameter(settingName(node.index))}, ${published}, true) is null then null`
}

/** `r as (…)`: the rows of the operation, each as one value `row`. */
function changing (node: PlanNode): Fragment {
  const returning = sql` returning ${wholeRow(node.table)}`
  switch (node.kind) {
    case 'insert': return inserting(node, returning)
    case 'update': return sql`r as (${updateStatement(node)}${returning})`
    case 'delete': return sql`r as (${deleteStatement(node)}${returning})`
    case 'select': return sql`r as (${selectStatement(node)})`
  }
}

/**
 * Groups are inserted in their order, because `r` reads them in that order, and answered in the order of `values`. Which rows a trigger
 * suppressed is not known: those of the same group close up.
 */
function inserting ({ table, groups }: InsertNode, returning: Fragment): Fragment {
  const inserts = groups.map(group => sql`${insertStatement(table, group)}${returning}`)
  if (inserts.length === 1) return sql`r as (${inserts[0] as Fragment})`
  const named = inserts.map((insert, i) => sql`${identifier(`g${i}`)} as (${insert})`)
  const placed = groups.map(({ positions }, i) =>
    sql`select row, (${parameter(arrayText(positions))}::int[])[row_number() over ()] as position from ${identifier(`g${i}`)}`)
  return sql`${join(named, sql`, `)}, r as (select row from (${join(placed, sql` union all `)}) as placed order by position)`
}
