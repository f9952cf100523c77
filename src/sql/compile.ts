/**
 * Plan → statements, pure: one statement an operation, each answering one row with one column, its rows as JSON text.
 * Names and values come in as fragments; nothing of a request becomes SQL text but quoted identifiers.
 */
import type { Failure } from '../errors/catalogue.ts'
import { fromDatabase } from '../errors/postgres.ts'
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

/** The protocol counts parameters in 16 bits, and postgres.js loses its place in the answers when there are as many. */
const maxParameters = 65_533

/**
 * The statements of a plan, in the order of its operations. `maxRows` bounds the rows of each. Throws `program_limit_exceeded`, PostgreSQL's
 * own condition, for an operation that the protocol cannot carry.
 */
export function compile (plan: Plan, maxRows: number): readonly Statement[] {
  return plan.operations.map(node => {
    const statement = render(answering(node, plan.readings.get(node.index) ?? [], maxRows))
    if (statement.parameters.length > maxParameters) throw tooLarge(node)
    return { ...statement, prepare: node.kind !== 'insert' || node.groups.length === 1 }
  })
}

function tooLarge ({ id, index }: PlanNode): Failure {
  const message = `The operation is too large: its values and conditions need more than ${maxParameters} parameters.`
  return fromDatabase({ code: '54000', message }, { op: id, index, anonymous: false, verbose: false })
}

/** The columns that later operations read of one operation; a `column` marker counts in this list, from 1. */
export function columnsRead (readings: readonly Reading[]): readonly string[] {
  return [...new Set(readings.map(({ reference }) => reference.column))]
}

/** Wraps an operation so that its rows come as one JSON text, are counted against the limit and, when later operations read them, published. */
function answering (node: PlanNode, readings: readonly Reading[], maxRows: number): Fragment {
  const read = readings.length > 0
  return sql`with ${changing(node)}, j as (
    select coalesce(json_agg(r.row), '[]')::text as rows, count(*) as n from (select * from r limit ${parameter(String(maxRows + 1))}) as r
  )${read ? missingColumn(readings) : empty} select case when j.n > ${parameter(String(maxRows))} then ${raise('rows', sql`j.n`)}${read ? publishing(node, readings) : empty} else j.rows end from j${read ? sql`, m` : empty}`
}

/**
 * Publishes the rows that later operations read, up to the last of them. That what they read exists is checked here: the reader may
 * never look when no row of its own needs the value, and a missing row would pass silently.
 */
function publishing (node: PlanNode, readings: readonly Reading[]): Fragment {
  const lastRow = readings.reduce((last, { reference }) => Math.max(last, reference.row), 0)
  const published = sql`(select json_agg(r.row)::text from (select * from r limit ${parameter(String(lastRow + 1))}) as r)`
  return sql` when j.n <= ${parameter(String(lastRow))} then ${raise('row', sql`j.n`)}
    when m.position is not null then ${raise('column', sql`m.position`)}
    when set_config(${parameter(settingName(node.index))}, ${published}, true) is null then null`
}

/**
 * `m`: the position, from 1, of the first column that later operations read and the rows do not have; null when there is none. One
 * array for all columns: an expression for each took a backend 2.8 GB at 21 000 columns.
 */
function missingColumn (readings: readonly Reading[]): Fragment {
  return sql`, m as (
    select min(c.position) as position from unnest(${parameter(arrayText(columnsRead(readings)))}::text[]) with ordinality as c (name, position)
    where c.name not in (select json_object_keys(to_json(r.row)) from (select * from r limit 1) as r)
  )`
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
