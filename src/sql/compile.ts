/**
 * Plan → statements, pure: one statement an operation, each answering one row with one column, its rows as JSON text.
 * Names and values come in as fragments; nothing of a request becomes SQL text but quoted identifiers.
 */
import type { Plan, PlanNode, Reading } from '../plan/nodes.ts'
import { deleteStatement } from './delete.ts'
import { empty, join, parameter, render, sql, type Fragment, type RenderedSql } from './fragment.ts'
import { insertStatement } from './insert.ts'
import { raise } from './marker.ts'
import { settingName } from './reference.ts'
import { selectStatement } from './select.ts'
import { updateStatement } from './update.ts'

/** `prepare`: the text does not depend on the amount of data, so it may recur and is worth a prepared statement. */
export interface Statement extends RenderedSql { readonly prepare: boolean }

/** The statements of a plan, in the order of its operations. `maxRows` bounds the rows of each. */
export function compile (plan: Plan, maxRows: number): readonly Statement[] {
  return plan.operations.map(node => ({
    ...render(answering(node, plan.readings.get(node.index) ?? [], maxRows)),
    prepare: !(node.kind === 'insert' && node.values.kind === 'mixed')
  }))
}

/** The columns that later operations read of one operation; a `column` marker counts in this list. */
export function columnsRead (readings: readonly Reading[]): readonly string[] {
  return [...new Set(readings.map(({ reference }) => reference.column))]
}

/** Wraps an operation so that its rows come as one JSON text, are counted against the limit and, when later operations read them, published. */
function answering (node: PlanNode, readings: readonly Reading[], maxRows: number): Fragment {
  const rows = readings.length === 0 ? sql`j.rows` : sql`set_config(${parameter(settingName(node.index))}, j.rows, true)`
  // `r.*` and not `r`: a column of that name would hide the row.
  return sql`with r as (${changing(node)}), j as (
    select coalesce(json_agg(r.*), '[]')::text as rows, count(*) as n from (select * from r limit ${parameter(String(maxRows + 1))}) as r
  ) select case when j.n > ${parameter(String(maxRows))} then ${raise('rows', sql`j.n`)}${missing(readings)} else ${rows} end from j`
}

/**
 * Existence of what later operations read is checked here, where it is published: the reader may never look when no row of its own
 * needs the value, and a missing row would pass silently.
 */
function missing (readings: readonly Reading[]): Fragment {
  if (readings.length === 0) return empty
  const lastRow = Math.max(...readings.map(({ reference }) => reference.row))
  // `j.n * 0`: an expression of constants alone would be evaluated, and fail, while the statement is planned.
  const columns = columnsRead(readings).map((column, i) =>
    sql` when (select to_json(r.*) from r limit 1) -> ${parameter(column)}::text is null then ${raise('column', sql`(j.n * 0 + ${parameter(String(i))}::int)`)}`)
  return sql` when j.n <= ${parameter(String(lastRow))} then ${raise('row', sql`j.n`)}${join(columns, empty)}`
}

function changing (node: PlanNode): Fragment {
  switch (node.kind) {
    case 'insert': return sql`${insertStatement(node)} returning t.*`
    case 'update': return sql`${updateStatement(node)} returning t.*`
    case 'delete': return sql`${deleteStatement(node)} returning t.*`
    case 'select': return selectStatement(node)
  }
}
