/**
 * Compiles operations to the plain form, in which the types of columns are named. It costs
 * PostgreSQL about half of the general form of compile.ts, which works without knowing the types.
 * Both give the same rows, store the same values and refuse the same batches. If a plain statement
 * fails with a condition of class 0A, 22 or 42, the batch must run again in the general form, which
 * reports the exact failure.
 *
 * Operations that are linked by references must all have the same form, because they publish their
 * values in different ways.
 */
import type {
  CallNode,
  InsertNode,
  OutputColumn,
  Plan,
  PlanNode,
  ReferenceUse,
  Requirements
} from '../plan/nodes.ts'
import { distributeNode, fence, needsOneShard, storesSeveral } from './citus.ts'
import type { FindColumns } from './column-types.ts'
import {
  buildCases,
  buildRowCountChecks,
  buildSizeCheck,
  buildSkipCheck,
  LAST_OPERATION_CHECKS,
  SINGLE_OPERATION_CHECKS,
  type Check
} from './checks.ts'
import { MAX_PARAMETERS, type CompileOptions } from './compile.ts'
import {
  empty,
  identifier,
  integer,
  join,
  parameter,
  renderNullable,
  sql,
  type Fragment
} from './fragment.ts'
import { buildGate, buildRequirements } from './gate.ts'
import { buildAmbiguityCheck } from './keyed-update.ts'
import { raiseNumber } from './marker.ts'
import { shapeOf, type Shape } from './operation-cte.ts'
import { buildNestedSelect, isNested } from './nested.ts'
import { jsonRow, operationTimes, returningList, rowValue, wholeRow } from './output.ts'
import {
  findPublishedValues,
  nothingCollected,
  PlainBuilder,
  type Publication,
  type PublishedValue
} from './plain-builder.ts'
import { buildPlainChange } from './plain-change.ts'
import { buildPlainKeyedUpdate } from './plain-keyed-update.ts'
import { publishCount } from './publication.ts'
import { buildSelectRows } from './select.ts'
import { sourceColumns } from './source.ts'
import { sessionUnchanged } from './session-checks.ts'
import { MAX_KEPT_LENGTH } from './text-cache.ts'

/** A statement in the plain form. It must be prepared. */
export interface PlainStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<string | null>
  /**
   * OIDs of the types of the last columns of the result. Before a connection runs a prepared
   * statement for the first time, it compares them with the types that PostgreSQL reports.
   */
  readonly expectedTypes: readonly number[]
  /**
   * Whether column 0 of each row of the result is one row as JSON. Otherwise the result is one row,
   * and its column 0 is the result of the operation as JSON.
   */
  readonly separateRows: boolean
}

export interface PlainOptions extends Pick<
  CompileOptions,
  'session' | 'maxRows' | 'maxBytes' | 'minimal' | 'keep' | 'distributed'
> {
  readonly findColumns: FindColumns
}

/** What json_agg writes between two rows. */
export const ROW_SEPARATOR = ', \n '

/**
 * Returns the plain form of each operation of a plan, or undefined for an operation that has none.
 */
export function compilePlain (
  plan: Plan,
  options: PlainOptions
): ReadonlyArray<PlainStatement | undefined> {
  const publications = new Map<number, Publication>()
  const { distributed = false } = options
  return plan.operations.map(planned => {
    const node = distributed ? distributeNode(planned, options) : planned
    if (node.kind === 'call' || isTooLarge(node, plan)) return undefined
    const columns = options.findColumns(node.table)
    const uses = plan.referenceUses.get(node.index) ?? []
    const published = columns && findPublishedValues(node, uses, columns)
    if (columns === undefined || published === undefined) return undefined
    const values = new PlainBuilder(
      node.table,
      options.findColumns,
      publications,
      nothingCollected(sourceColumns(node, options.findColumns))
    )
    const last = node.index === plan.operations.length - 1
    const context = {
      ...options,
      minimal: options.minimal === true || node.answersCount === true,
      uses,
      counted: plan.counted.has(node.index),
      requirements: plan.requirements.get(node.index),
      published,
      distributed,
      values,
      last,
      operations: plan.operations.length
    }
    const direct = isDirect(node, context)
    const statement = compileOperation(node, direct, context)
    if (statement !== undefined) publications.set(node.index, { values: published, direct })
    return statement
  })
}

/** An operation that needs more work has a longer text than one that is prepared. */
const MAX_PREPARED_WORK = 5000

/** The text of an update by key does not depend on the number of its rows. */
function isTooLarge ({ kind, index }: PlanNode, { work }: Plan): boolean {
  return kind !== 'keyed_update' && (work[index] as number) > MAX_PREPARED_WORK
}

/**
 * Returns a number for each operation. Operations with the same number are linked by references.
 */
export function linkOperations ({ operations, referenceUses }: Plan): readonly number[] {
  const groups = operations.map((_, i) => i)
  for (const [source, uses] of referenceUses) {
    for (const { reader } of uses) {
      const [from, to] = [groups[reader] as number, groups[source] as number]
      if (from === to) continue
      for (let i = 0; i < groups.length; i++) if (groups[i] === from) groups[i] = to
    }
  }
  return groups
}

/** The operations that have a plain form. */
type PlainNode = Exclude<PlanNode, CallNode>

interface Context extends PlainOptions {
  readonly uses: readonly ReferenceUse[]
  readonly counted: boolean
  readonly requirements: Requirements | undefined
  readonly published: readonly PublishedValue[]
  readonly distributed: boolean
  readonly values: PlainBuilder
  readonly last: boolean
  /** The number of operations of the batch. */
  readonly operations: number
}

/**
 * Whether an operation returns separate rows, without an aggregate. It must return as many rows as
 * the request has, and no check may follow it. They are few: an aggregate of 1000 rows took
 * PostgreSQL a tenth less time, and the service half.
 */
function isDirect (
  node: PlanNode,
  { minimal, keep, uses, counted, distributed, last }: Context
): node is InsertNode {
  // Citus would store the result of the subquery that holds the rows.
  if (counted || node.when.length > 0 || distributed) return false
  if (node.kind !== 'insert' || node.query !== undefined) return false
  if (node.expect !== undefined || node.output?.length === 0) return false
  if (node.groups[0]?.rows.cells === undefined) return false
  // The last of several operations checks the session at its end, even if it returns no row.
  if (minimal === true || keep === true || (last && node.index > 0)) return false
  return uses.length === 0 ||
    (node.groups[0]?.positions.length === 1 && uses.every(({ rows }) => rows === 1))
}

function compileOperation (
  node: PlainNode,
  direct: boolean,
  context: Context
): PlainStatement | undefined {
  const { session, requirements, published, distributed, values } = context
  if (distributed && !isDistributable(node, context)) return undefined
  for (const { column } of published) values.addParameterType(column)
  const body = direct ? buildDirect(node, context) : buildAggregated(node, context)
  if (body === undefined) return undefined
  const conditions = [
    ...node.index === 0 ? [] : [sessionUnchanged(session, { distributed })],
    ...values.existenceChecks(),
    ...buildRequirements(node, requirements),
    ...node.kind === 'select' ? buildGate(node) : []
  ]
  const where = conditions.length === 0 ? empty : sql` where ${join(conditions, sql` and `)}`
  const guards = join(values.guards().map(guard => sql`, ${guard}`), empty)
  const statement = renderNullable(
    sql`${body.ctes}select ${body.result}${operationTimes}${body.settings}${guards} from ${
      body.from(where)
    }`
  )
  const fits = statement.parameters.length <= MAX_PARAMETERS &&
    statement.text.length <= MAX_KEPT_LENGTH
  if (!values.plain || !fits) return undefined
  // A worker does not have the settings of earlier operations. Citus reads them for an insert.
  if (distributed && node.kind !== 'insert' && values.readsSettings) return undefined
  return { ...statement, expectedTypes: values.expectedTypes, separateRows: direct }
}

/** Whether the plain form gives the results of the general form on Citus. */
function isDistributable (node: PlainNode, { requirements }: Context): boolean {
  if (node.when.length > 0) return false
  switch (node.kind) {
    case 'select':
      return requirements === undefined && node.nested === undefined
    case 'insert':
      return node.query === undefined
    case 'keyed_update':
      return false
    default:
      return node.join === undefined
  }
}

/**
 * Whether Citus may run the statement on a worker as a whole: it neither reads nor writes settings
 * of operations. An insert would not run there as a whole.
 */
function isPushedDown (
  { kind }: Pick<PlanNode, 'kind'>,
  { uses, counted, requirements, keep = false }: Context
): boolean {
  return kind !== 'insert' && uses.length === 0 && !counted && requirements === undefined &&
    !keep
}

function buildFence (node: PlanNode, context: Context): Fragment {
  return context.distributed && !isPushedDown(node, context) ? fence : empty
}

/** The parts of a statement. */
interface Body {
  readonly ctes: Fragment
  readonly result: Fragment
  /** More columns, which set the settings of published values. */
  readonly settings: Fragment
  /** Builds what follows FROM, with the conditions on the session. */
  readonly from: (where: Fragment) => Fragment
}

/**
 * Returns each row as soon as it is inserted. The insert is a CTE, so that the session is checked
 * before its statement triggers run, which could hide a change.
 */
function buildDirect (node: PlainNode, context: Context): Body | undefined {
  const { maxBytes, operations, published, last } = context
  const shape = shapeOf(node, false)
  const operation = buildOperation(node, shape, { ...context, json: true })
  if (operation === undefined) return undefined
  const [group] = (node as InsertNode).groups as readonly [InsertNode['groups'][number]]
  const row = shape === 'whole' ? sql`r.row` : sql`r.${JSON_ROW}`
  const checks = [
    ...last ? SINGLE_OPERATION_CHECKS : [],
    buildSizeCheck(row, maxBytes, operations * group.positions.length)
  ]
  const settings = published.map((value, i) =>
    sql`, ${publish(value, sql`r.${name(value, i, shape)}`)} is null`
  )
  const rest = published.length === 0 ? empty : sql`r.*, `
  return {
    ctes: operation.ctes,
    result: sql`case${buildCases(checks, row, undefined)} end`,
    settings: join(settings, empty),
    // Without OFFSET, PostgreSQL would render each row for every use of its JSON.
    from: where => shape === 'whole'
      ? sql`${operation.rows}${where}`
      : sql`(select ${rest}pg_catalog.to_json(r.*) as ${JSON_ROW} from ${
        operation.rows
      }${where} offset 0) as r`
  }
}

/** No column has a name with an arrow. */
const JSON_ROW = identifier('->')

/** Returns all rows as one JSON array, after checks of their number. */
function buildAggregated (node: PlainNode, context: Context): Body | undefined {
  const { maxRows, maxBytes, operations, uses, distributed } = context
  const { minimal = false, keep = false } = context
  const hidden = minimal || node.output?.length === 0
  const shape = shapeOf(node, hidden && uses.length === 0)
  const operation = buildOperation(node, shape, context)
  if (operation === undefined) return undefined
  const row = shape === 'columns' ? rowValue(sql`r`, context) : sql`r.row`
  const result = minimal
    ? sql`pg_catalog.to_json(${ROW_COUNT})`
    : hidden ? sql`'[]'` : sql`coalesce(pg_catalog.json_agg(${row}), '[]')`
  const ambiguous = operation.positions === undefined
    ? []
    : [buildAmbiguityCheck(operation.positions)]
  const size = hidden
    ? []
    : [buildSizeCheck(sql`pg_catalog.json_agg(${row})`, maxBytes, operations)]
  const checks = [...ambiguous, ...buildChecks(node, shape, context), ...size]
  return {
    ctes: operation.ctes,
    result: sql`case${buildCases(checks, result, keep ? node.index : undefined)} end`,
    settings: empty,
    from: where => {
      const fence = buildFence(node, context)
      // Citus would store the result of the subquery. An insert has as many rows as the request.
      return distributed && node.kind === 'insert'
        ? sql`${operation.rows}${fence}${where}`
        : sql`(select * from ${operation.rows}${where} limit ${integer(maxRows + 1)}) as r${fence}`
    }
  }
}

const ROW_COUNT = sql`count(*)`

function buildChecks (
  node: PlanNode,
  shape: Shape,
  context: Context
): readonly Check[] {
  const { maxRows, keep = false, uses, counted, published, distributed, last } = context
  const lastChecks = node.index === 0 ? SINGLE_OPERATION_CHECKS : LAST_OPERATION_CHECKS
  // No operation can change the formats of a worker.
  const checked = last && !(distributed && isPushedDown(node, context))
  const needed = uses.reduce((most, { rows, checked }) => checked ? Math.max(most, rows) : most, 0)
  return [
    ...checked ? lastChecks : [],
    ...buildRowCountChecks(node, ROW_COUNT, maxRows),
    ...needed === 0
      ? []
      : [{
          when: sql`${ROW_COUNT} < ${integer(needed)}`,
          then: raiseNumber('row', ROW_COUNT)
        }],
    ...published.map((value, i) => {
      const values = sql`pg_catalog.array_agg(r.${name(value, i, shape)})`
      const first = sql`(${values})[${integer(value.row + 1)}]`
      return { when: sql`${publish(value, first)} is null`, then: sql`null` }
    }),
    ...counted ? [publishCount(node.index, ROW_COUNT)] : [],
    ...buildSkipCheck(node, keep ? node.index : undefined)
  ]
}

/** Sets the setting of a published value; NULL is `null`. */
function publish ({ setting }: PublishedValue, value: Fragment): Fragment {
  return sql`pg_catalog.set_config(${parameter(setting)},
    coalesce(pg_catalog.to_json(${value})::pg_catalog.text, 'null'), true)`
}

/** The name of a published value beside the row, or in it. */
function name ({ output }: PublishedValue, position: number, shape: Shape): Fragment {
  return identifier(shape === 'columns' ? output : `p${position}`)
}

interface BuiltOperation {
  readonly ctes: Fragment
  /** What follows FROM. */
  readonly rows: Fragment
  /** See PlainKeyedUpdate. */
  readonly positions?: Fragment
}

function buildOperation (
  node: PlainNode,
  shape: Shape,
  { published, distributed, values, json = false }: Context & { readonly json?: boolean }
): BuiltOperation | undefined {
  const more = shape === 'whole'
    ? join(
      published.map((value, i) =>
        sql`, t.${identifier(value.column)} as ${name(value, i, shape)}`
      ),
      empty
    )
    : empty
  if (node.kind === 'select') {
    if (isNested(node)) {
      return published.length > 0
        ? undefined
        : { ctes: empty, rows: sql`(${buildNestedSelect(node, values)}) as q` }
    }
    return { ctes: empty, rows: sql`(${buildSelectRows(node, values, more)}) as q` }
  }
  const returned = shape === 'nothing'
    ? sql`null as row`
    : shape === 'whole'
      ? sql`${json ? jsonRow(node.table) : wholeRow(node.table)}${more}`
      : returningList(node.output as readonly OutputColumn[], values)
  if (node.kind === 'keyed_update') {
    const names = shape === 'columns'
      ? (node.output as readonly OutputColumn[]).map(({ name }) => name)
      : ['row', ...published.map((_, i) => `p${i}`)]
    const update = buildPlainKeyedUpdate(node, values, { returned, names })
    return update && { ...update, rows: sql`r` }
  }
  if (distributed && node.kind === 'insert' && shape !== 'nothing' && storesSeveral(node)) {
    return needsOneShard(node) ? undefined : buildRowByRow(node, returned, values)
  }
  const statement = buildPlainChange(node, values)
  if (statement === undefined) return undefined
  return { ctes: sql`with r as (${statement} returning ${returned}) `, rows: sql`r` }
}

/** Inserts each row by a statement of its own, because Citus returns rows shard by shard. */
function buildRowByRow (
  node: InsertNode,
  returned: Fragment,
  values: PlainBuilder
): BuiltOperation | undefined {
  const [group, ...more] = node.groups as readonly [InsertNode['groups'][number]]
  const { rows: { cells } } = group
  if (cells === undefined || more.length > 0) return undefined
  const inserts = cells.map((row, i) => {
    const one = { ...group, positions: [i], rows: { ...group.rows, cells: [row] } }
    const statement = buildPlainChange({ ...node, groups: [one] }, values)
    return statement && sql`g${integer(i)} as (${statement} returning ${returned})`
  })
  if (inserts.includes(undefined)) return undefined
  const all = inserts.map((_, i) => sql`select * from g${integer(i)}`)
  return {
    ctes: sql`with ${join(inserts as readonly Fragment[], sql`, `)}, r as (${
      join(all, sql` union all `)
    }) `,
    rows: sql`r`
  }
}
