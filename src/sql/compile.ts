/**
 * Plan → statements, pure: one statement an operation, each answering one row with one column, its
 * rows as JSON text. Names and values come in as fragments; nothing of a request becomes SQL text
 * but quoted identifiers.
 */
import type { Failure } from '../errors/catalogue.ts'
import { fromDatabase } from '../errors/postgres.ts'
import type { InsertNode, Plan, PlanNode, ReferenceUse, RowGroup } from '../plan/nodes.ts'
import { deleteStatement } from './delete.ts'
import {
  arrayText,
  empty,
  fixed,
  identifier,
  integer,
  join,
  parameter,
  render,
  sharedParameter,
  sql,
  type Fragment,
  type RenderedSql
} from './fragment.ts'
import { conflictClause, insertStatement, rowNumber, unusedName } from './insert.ts'
import {
  formatsKept,
  raise,
  sameSession,
  searchPathKept,
  writeAsSet,
  type SessionIdentity
} from './marker.ts'
import { returningList, wholeRow } from './output.ts'
import {
  answerSetting,
  createCteBuilder,
  nullsName,
  settingName,
  type CteBuilder
} from './cte-builder.ts'
import { selectStatement } from './select.ts'
import { updateStatement } from './update.ts'

/**
 * `prepare`: the text does not depend on the amount of data, so it may recur and is worth a
 * prepared statement. `doubtful`: it stores JSON that may not fit its column; see inspect.ts.
 */
export interface Statement extends RenderedSql {
  readonly prepare: boolean
  readonly doubtful?: boolean
}

/**
 * The protocol counts parameters in 16 bits, and postgres.js loses its place in the answers when
 * there are as many.
 */
const maxParameters = 65_533

export interface CompileOptions {
  /** What the session of the batch says. */
  readonly session: SessionIdentity
  /** Most rows of each operation. */
  readonly maxRows: number
  /** Whether operations answer the number of their rows in place of them. */
  readonly minimal?: boolean
  /** Whether answers are kept in the transaction as well, for storeStatement. */
  readonly keep?: boolean
  /**
   * For a batch whose values may not fit: values are followed into their types (see inspect.ts),
   * and the JSON null is distinguished from NULL.
   */
  readonly checkValues?: boolean
  /**
   * For a batch that runs again because its session was changed, and that sets the session anew
   * after each operation. Whatever a trigger sets, an operation reads and writes as it has to: its
   * values are computed before it begins, and its rows are written when it is over.
   */
  readonly restoreSession?: boolean
}

/**
 * The statements of a plan, in the order of its operations. Throws `program_limit_exceeded`,
 * PostgreSQL's own condition, for an operation that the protocol cannot carry.
 */
export function compile (plan: Plan, options: CompileOptions): readonly Statement[] {
  const inSession = sql` where ${sameSession(options.session)}`
  return plan.operations.map((node, i) => {
    const scope = createCteBuilder(node.table, plan.referenceUses, {
      careful: options.checkValues,
      restoring: options.restoreSession,
      exposed: exposedBy(node, plan.referenceUses)
    })
    const last = i === plan.operations.length - 1 && options.restoreSession !== true
    const kept = !last ? [] : i === 0 ? keptAlone : keptLast
    const body = answering(node, scope, { ...options, everyReading: plan.referenceUses, kept })
    const statement = renderNode(node, i === 0 ? body : sql`${body}${inSession}`)
    const recurs = node.kind !== 'insert' || node.groups.length === 1
    return {
      ...statement,
      prepare: recurs && scope.types() !== undefined,
      doubtful: scope.doubtful()
    }
  })
}

/**
 * Statements that answer how PostgreSQL would run the operations of a plan, each in the shape of
 * rows: `[{"Plan": {…}}]`. Explained is what the operation does to its table; how its rows are made
 * into JSON, counted and published is the same for every operation. Nothing of the service's own
 * stands in it, markers least of all, for a plan shows the conditions that it is made of.
 */
export function compileQueryPlans (plan: Plan, maxRows: number): readonly Statement[] {
  return plan.operations.map(node => {
    const scope = createCteBuilder(node.table, plan.referenceUses, { explained: true })
    const change = changing(node, scope, shapeOf(node, false), read)
    const statement = sql`explain (format json) with ${
      join([...scope.queries(), change], sql`, `)
    } select row from r limit ${integer(maxRows + 1)}`
    return { ...renderNode(node, statement), prepare: false }
  })
}

/**
 * Settings that stand for the rows that operations publish: when plans are asked for nothing is
 * run, so there are none, and a planner that looks must find a setting.
 */
export function emptyPublications (
  { referenceUses: readings }: Plan
): ReadonlyArray<readonly [name: string, value: string]> {
  return [...readings.keys()].map(index => [settingName(index), '[]'])
}

function renderNode (node: PlanNode, fragment: Fragment): RenderedSql {
  const statement = render(fragment)
  if (statement.parameters.length > maxParameters) throw tooLarge(node)
  return statement
}

function tooLarge ({ id, index }: PlanNode): Failure {
  const message =
    `The operation is too large: its values and conditions need more than ${maxParameters} ` +
    'parameters.'
  return fromDatabase({ code: '54000', message }, {
    op: id,
    index,
    anonymous: false,
    verbose: false
  })
}

/**
 * The columns that later operations read of one operation; a `column` marker counts in this list,
 * from 1.
 */
export function columnsRead (readings: readonly ReferenceUse[]): readonly string[] {
  return [...new Set(readings.flatMap(({ reference: { column } }) => column ?? []))]
}

/**
 * A list is as long as the answer it is read of: this many of full length are read of one
 * operation, or more of shorter ones. Measured: 1000 of 10 000 rows each, a body of 10 kB, took 20
 * s and 1.9 GB.
 */
export const MAX_LISTS = 100

/** The references to lists; a `lists` marker stands for the first of them. */
export function listsRead (readings: readonly ReferenceUse[]): readonly ReferenceUse[] {
  return readings.filter(({ reference }) => reference.row === '*')
}

interface AnsweringOptions extends CompileOptions {
  readonly everyReading: Plan['referenceUses']
  /** Whether the session is still as it was set when the rows are written. */
  readonly kept: readonly Check[]
}

/**
 * Wraps an operation so that its rows come as one JSON text, are counted against limit and
 * expectation and, when later operations read them, published. The caller adds the condition that
 * it runs in the session as it was set or not at all.
 */
function answering (
  node: PlanNode,
  scope: CteBuilder,
  { maxRows, minimal = false, keep = false, everyReading, kept }: AnsweringOptions
): Fragment {
  const hidden = minimal || node.output?.length === 0
  const readings = everyReading.get(node.index) ?? []
  const columns = columnsRead(readings)
  const shape = shapeOf(node, hidden && readings.length === 0)
  const change = changing(node, scope, shape, scope.restoring ? changed : read)
  const rendered = renderedRows(scope)
  const rows = hidden ? empty : sql`${rendered} as rows, `
  const checks = [
    ...kept,
    { when: sql`j.n > ${integer(maxRows)}`, then: raise('rows', sql`j.n`) },
    ...expecting(node),
    ...checkOrder(node, shape),
    ...publishing(node, { readings, columns, maxRows, hidden, rendered, careful: scope.careful })
  ]
  const shown = minimal ? sql`to_json(j.n)` : hidden ? sql`'[]'` : sql`j.rows`
  const answer = keep
    ? sql`pg_catalog.set_config(${parameter(answerSetting(node.index))}, (${shown})::text, true)`
    : shown
  // As json and not as text, which would be a copy of it: 10 000 rows took a backend 15.2 ms in the
  // place of 13.3.
  const cases = checks.map(({ when, then }) =>
    sql` when ${when} then ${then}${keep ? empty : sql`::json`}`
  )
  const many = columns.length > fewColumns
  // Written last: everything that the statement meets is known by then.
  const types = (scope.types() ?? []).map(type => sql`, ${type}`)
  // An operation begins, with its triggers before statements, when the first of its rows is read.
  // All are read before one is written: writing sets settings that triggers may depend on.
  const counted = sql`(select * from r limit ${integer(maxRows + 1)}) as r`
  const inOrder = scope.restoring
    ? sql`, r as (select * from ${changed} where ${scope.computed()})`
    : empty
  const whole = scope.restoring ? sql` where (select count(*) from ${counted}) is not null` : empty
  return sql`with ${join([...scope.queries(), change], sql`, `)}${inOrder}, j as (
    select ${rows}count(*) as n from ${counted}${whole}
  )${many ? missingColumn(columns) : empty}
  select case${join(cases, empty)} else ${answer} end${join(types, empty)}
  from j${many ? sql`, m` : empty}`
}

/** Names of the query with the rows of an operation: as it is read, and behind that one. */
const read = sql`r`
const changed = sql`c`

/** Rows as one JSON array. */
function renderedRows ({ restoring }: CteBuilder): Fragment {
  return sql`coalesce(json_agg(${restoring ? writeAsSet(sql`r.row`) : sql`r.row`}), '[]')`
}

/** Of two conditions the first one counts; `then` fails, or is null. */
interface Check {
  readonly when: Fragment
  readonly then: Fragment
}

/**
 * What the last operation of a batch checks. The only operation of a batch does not check the
 * search_path: no other operation can depend on a change of it.
 */
const sessionChanged = raise('session', sql`j.n`)
const keptAlone: readonly Check[] = [
  { when: fixed(sql`not (${formatsKept})`), then: sessionChanged }
]
const keptLast: readonly Check[] = [
  { when: fixed(sql`not (${formatsKept} and ${searchPathKept})`), then: sessionChanged }
]

/**
 * What is seen of the rows: the whole of them, the columns that were asked for, or nothing, so that
 * no privilege to read is needed.
 */
type Shape = 'whole' | 'columns' | 'nothing'

function shapeOf ({ output }: PlanNode, unseen: boolean): Shape {
  if (unseen || output?.length === 0) return 'nothing'
  return output === undefined ? 'whole' : 'columns'
}

function expecting ({ expect }: PlanNode): readonly Check[] {
  if (expect === undefined) return []
  const { min, max } = expect
  const bounds = [
    ...(min > 0 ? [sql`j.n < ${parameter(String(min))}`] : []),
    ...(max < Infinity ? [sql`j.n > ${parameter(String(max))}`] : [])
  ]
  return bounds.map(when => ({ when, then: raise('expect', sql`j.n`) }))
}

interface Published {
  readonly readings: readonly ReferenceUse[]
  readonly columns: readonly string[]
  readonly maxRows: number
  /** Whether the rows are not answered, so that there is no text of them. */
  readonly hidden: boolean
  readonly rendered: Fragment
  readonly careful: boolean
}

/** Up to this many columns are looked for one by one. */
const fewColumns = 4

/**
 * Publishes the rows that later operations read, up to the last of them. That what they read exists
 * is checked here: the reader may never look when no row of its own needs the value, and a missing
 * row would pass silently.
 */
function publishing (
  node: PlanNode,
  { readings, columns, maxRows, hidden, rendered, careful }: Published
): readonly Check[] {
  if (readings.length === 0) return []
  const most = readings.reduce((most, { rows }) => Math.max(most, rows), 0)
  const needed = sql`${sharedParameter(String(most))}::bigint`
  const lists = listsRead(readings).length
  const some = sql`(select ${rendered} from (select * from r${
    lists > 0 ? empty : sql` limit ${needed}`
  }) as r)`
  // The text of the answer, where it is just that: to render the rows once more took twice the
  // time.
  const published = hidden
    ? some
    : lists > 0
      ? sql`j.rows`
      : sql`case when j.n = ${needed} then j.rows else ${some} end`
  const setting = parameter(settingName(node.index))
  return [
    ...(most === 0 ? [] : [{ when: sql`j.n < ${needed}`, then: raise('row', sql`j.n`) }]),
    ...(lists <= MAX_LISTS
      ? []
      : [{
          when: sql`j.n > ${integer(MAX_LISTS * maxRows / lists)}`,
          then: raise('lists', sql`j.n`)
        }]),
    ...missing(columns),
    ...careful && valuesRead(readings).length > 0 ? publishingNulls(node, readings, needed) : [],
    { when: sql`set_config(${setting}, (${published})::text, true) is null`, then: sql`null` }
  ]
}

/**
 * Columns of which later operations read single values; `r` has them beside its rows, see asRow.
 */
function valuesRead (readings: readonly ReferenceUse[]): readonly string[] {
  return columnsRead(readings.filter(({ reference }) => reference.row !== '*'))
}

/** Those of them that the operation answers by name, with their places among all. */
function exposedBy (
  { index, output = [] }: PlanNode,
  everyReading: Plan['referenceUses']
): ReadonlyArray<readonly [column: string, place: number]> {
  return valuesRead(everyReading.get(index) ?? []).map((name, i) => [name, i] as const)
    .filter(([name]) => output.some(column => column.name === name))
}

/**
 * Publishes the columns of each row that are the JSON null: `[["data"], []]`. In JSON they look
 * like NULL. A name that the rows do not have means the column of `f`, which is NULL.
 */
function publishingNulls (
  { index, output }: PlanNode,
  readings: readonly ReferenceUse[],
  needed: Fragment
): readonly Check[] {
  const names = valuesRead(readings)
  const exposed = names.flatMap((name, i) =>
    output?.some(column => column.name === name) === true
      ? [sql`r.${identifier(`n${i}`)} as ${identifier(name)}`]
      : []
  )
  const columns = output === undefined ? sql`(r.row).*` : join(exposed, sql`, `)
  const nulls = names.map(name =>
    sql`case when (select to_json(${identifier(name)}) from (select ${columns}) as e)::text = 'null'
      then ${parameter(name)}::text end`
  )
  const none = join(names.map(name => sql`null as ${identifier(name)}`), sql`, `)
  const rows = sql`(select coalesce(json_agg(n.nulls), '[]')::text
    from (select * from r limit ${needed}) as r
    cross join lateral (select array_remove(array[${join(nulls, sql`, `)}], null) as nulls
      from (select ${none}) as f) as n)`
  return [{
    when: sql`set_config(${parameter(nullsName(index))}, ${rows}, true) is null`,
    then: sql`null`
  }]
}

/** Checks that the first row has the columns that are read. */
function missing (columns: readonly string[]): readonly Check[] {
  if (columns.length > fewColumns) {
    return [{
      when: sql`j.n > 0 and m.position is not null`,
      then: raise('column', sql`m.position`)
    }]
  }
  // A missing member is NULL, one that is null is not.
  return columns.map((column, i) => ({
    when: sql`j.n > 0 and (select to_json(r.row) -> ${
      parameter(column)
    }::text from (select * from r limit 1) as r) is null`,
    then: raise('column', sql`j.n * 0 + ${integer(i + 1)}`)
  }))
}

/**
 * `m`: the position, from 1, of the first column that later operations read and the rows do not
 * have; null when there is none. One array for all columns: an expression for each took a backend
 * 2.8 GB at 21 000 columns.
 */
function missingColumn (columns: readonly string[]): Fragment {
  return sql`, m as (
    select min(c.position) as position from unnest(${
    parameter(arrayText(columns))
  }::text[]) with ordinality as c (name, position)
    where c.name not in (select json_object_keys(to_json(r.row)) from (select * from r limit 1)
      as r)
  )`
}

/** `<name> as (…)`: the rows of the operation, each as one value `row`. */
function changing (node: PlanNode, scope: CteBuilder, shape: Shape, name: Fragment): Fragment {
  switch (node.kind) {
    case 'insert':
      return inserting(node, scope, shape, name)
    case 'update':
      return returning(node, scope, shape, name, updateStatement(node, scope))
    case 'delete':
      return returning(node, scope, shape, name, deleteStatement(node, scope))
    case 'select':
      return sql`${name} as (${selectStatement(node, scope)})`
  }
}

function returning (
  node: PlanNode,
  scope: CteBuilder,
  shape: Shape,
  name: Fragment,
  statement: Fragment
): Fragment {
  if (shape === 'whole') return sql`${name} as (${statement} returning ${returned(node, shape)})`
  return sql`p as (${statement} returning ${returned(node, shape)}),
    ${name} as (select ${asRow(sql`p`, shape, scope)} from p)`
}

/** What follows `returning`, where something has to. */
function returned ({ table, output = [] }: PlanNode, shape: Shape): Fragment {
  if (shape === 'whole') return wholeRow(table)
  return shape === 'nothing' ? sql`null` : returningList(output)
}

/** What was returned, in `from`, as one value `row`. */
function asRow (from: Fragment, shape: Shape, scope: CteBuilder): Fragment {
  if (shape === 'whole') return sql`row`
  return shape === 'nothing'
    ? sql`row() as row`
    : sql`${from}.*::record as row${scope.exposed(from)}`
}

/**
 * Groups are inserted in their order, because they are read in that order, and answered in the
 * order of `values`.
 */
function inserting (node: InsertNode, scope: CteBuilder, shape: Shape, name: Fragment): Fragment {
  const conflict = conflictClause(node.conflict, scope)
  const [group, ...more] = node.groups
  if (group !== undefined && more.length === 0) {
    return returning(node, scope, shape, name, insertStatement(group, conflict, scope))
  }
  const groups = nameGroups(node, shape)
  const inserts = join(
    groups.map(({ group, name, number }) => {
      const noted = number === undefined ? empty : sql`, ${rowNumber} as ${number}`
      const statement = insertStatement(group, conflict, scope, number !== undefined)
      return sql`${name} as (${statement} returning ${returned(node, shape)}${noted})`
    }),
    sql`, `
  )
  const placed = join(groups.map(group => placeRows(node, group, shape, scope)), sql` union all `)
  return sql`${inserts}, ${name} as (select row${shape === 'columns' ? scope.exposed() : empty}
    from (${placed}) as placed order by position)`
}

/** One of several groups of an insert. */
interface NamedGroup {
  readonly group: RowGroup
  /** The query that inserts it. */
  readonly name: Fragment
  /** The column of that query with the number of the row; undefined where none is needed. */
  readonly number: Fragment | undefined
}

function nameGroups ({ groups, output = [] }: InsertNode, shape: Shape): readonly NamedGroup[] {
  const number = identifier(unusedName(output.map(({ name }) => name)))
  return groups.map((group, i) => ({
    group,
    name: identifier(`g${i}`),
    number: shape !== 'nothing' && hasGaps(group) ? number : undefined
  }))
}

/**
 * Whether rows of other groups stand between those of the group. Where none do, the rows that were
 * returned may close up: their order is right whichever were suppressed.
 */
function hasGaps ({ positions }: RowGroup): boolean {
  return (positions.at(-1) as number) - (positions[0] as number) >= positions.length
}

/** The rows of a group as `row`, with their `position` in `values`. */
function placeRows (
  { output = [] }: InsertNode,
  named: NamedGroup,
  shape: Shape,
  scope: CteBuilder
): Fragment {
  const { group, name, number } = named
  const positions = sql`(${parameter(arrayText(group.positions))}::int[])`
  const next = sql`row_number() over ()`
  if (number === undefined) {
    return sql`select ${asRow(name, shape, scope)}, ${positions}[${next}] as position from ${name}`
  }
  // Rows without a number: see checkOrder.
  const position = sql`${positions}[coalesce(${name}.${number}, ${next})] as position`
  if (shape === 'whole') return sql`select row, ${position} from ${name}`
  const columns = join(output.map(column => sql`${name}.${identifier(column.name)}`), sql`, `)
  const answered = sql`cross join lateral (select ${columns}) as q`
  return sql`select ${asRow(sql`q`, shape, scope)}, ${position} from ${name} ${answered}`
}

/**
 * Fails when numbers of rows are missing because a trigger reset the settings of the session. Where
 * every row of a group was returned, their order is known without numbers.
 */
function checkOrder (node: PlanNode, shape: Shape): readonly Check[] {
  const groups = node.kind === 'insert' ? nameGroups(node, shape) : []
  const lost = groups.flatMap(({ group: { positions }, name, number }) => {
    if (number === undefined) return []
    const all = sql`${parameter(String(positions.length))}::int`
    return sql`(select count(${number}) < count(*) and count(*) < ${all} from ${name})`
  })
  return lost.length === 0 ? [] : [{ when: join(lost, sql` or `), then: raise('order', sql`j.n`) }]
}
