/**
 * Builds how a statement returns the rows of its operation: each as soon as it is there, or all of
 * them as one JSON array after checks of their number.
 */
import {
  empty,
  identifier,
  integer,
  join,
  parameter,
  sql,
  type Fragment
} from '../fragment/fragment.ts'
import type { PlanNode, RowGroup } from '../plan/nodes.ts'
import type { StatementContext } from './values/context.ts'
import { buildOperation } from './operations/operation.ts'
import { NOTHING, rowPartOf, type BuiltOperation, type RowPart } from './operations/output.ts'
import {
  buildCases,
  buildRowCountChecks,
  buildSizeCheck,
  buildSkipCheck,
  formatCheck,
  type Check
} from './statement/checks.ts'
import { raise, raiseNumber } from './statement/raised-error.ts'
import {
  buildListCheck,
  columnsRead,
  shareCount,
  shareValue,
  shareValues,
  type SharedResult
} from './statement/shared-results.ts'
import { buildRequirements } from './statement/when.ts'

/** What json_agg writes between two rows. */
export const ROW_SEPARATOR = ', \n '

/** The parts of a statement. */
export interface Body {
  readonly ctes: readonly Fragment[]
  readonly result: Fragment
  /** More columns, which set the settings of shared results. */
  readonly settings?: Fragment
  /** What follows all rows. The rows then contain no times. */
  readonly end?: Fragment
  /** Builds what follows FROM. */
  readonly from: (where: Fragment) => Fragment
}

/** Returns each row as soon as it is inserted or read. */
export function buildDirect (node: PlanNode, context: StatementContext): Body {
  const { maxBytes, operations, shared, runsCode } = context
  const part = rowPartOf(node, false)
  const operation = buildOperation(node, part, context)
  const count = node.kind === 'insert' ? (node.groups[0] as RowGroup).positions.length : 1
  const json = sql`r.json`
  const checks = [
    ...runsCode ? [formatCheck] : [],
    ...checkColumns(context, json),
    buildSizeCheck(json, maxBytes, operations * count)
  ]
  const settings = shared.map(result =>
    sql`, ${shareValue(result, sharedExpression(result, context))} is null`)
  return {
    ctes: operation.ctes,
    result: sql`case${buildCases(checks, json, undefined)} end`,
    settings: join(settings, empty),
    // A write returns the JSON of whole rows, which takes PostgreSQL 5 us less than a subquery.
    // Without OFFSET, PostgreSQL would render each row for every use of its JSON.
    from: where => part === 'whole' && node.kind !== 'select'
      ? sql`${operation.rows}${where}`
      : sql`(select ${rowOf(part)} as row, pg_catalog.to_json(${rowOf(part)}) as json
          from ${operation.rows}${where} offset 0) as r`
  }
}

/** The part of a row that the statement reads, as one value. */
function rowOf (part: RowPart): Fragment {
  return part === 'nothing' ? NOTHING : part === 'whole' ? ROW : sql`r.*::record`
}

const ROW = sql`r.row`

/**
 * Returns each row as soon as it is read, and compares the formats after the last one, because a
 * function can change them. To compare them for each row took PostgreSQL nearly as long as to write
 * it. The service counts the rows and limits the bytes of each.
 */
export function buildStreamed (node: PlanNode, context: StatementContext): Body {
  const { maxRows } = context
  const part = rowPartOf(node, false)
  const operation = buildOperation(node, part, context)
  const { when, then } = formatCheck
  return {
    ctes: operation.ctes,
    result: sql`pg_catalog.to_json(${ROW})`,
    end: context.runsCode
      ? sql` union all select case when ${when} then ${then}::json end where ${when}`
      : empty,
    from: where => limitRows(operation, part, { where, maxRows })
  }
}

/** Builds the rows as `r.row`, with one more than allowed. */
function limitRows (
  { rows }: BuiltOperation,
  part: RowPart,
  { where, maxRows }: { readonly where: Fragment, readonly maxRows: number }
): Fragment {
  return sql`(select ${rowOf(part)} as row from ${rows}${where} limit ${integer(maxRows + 1)}) as r`
}

/**
 * Returns each row, or their number, without checks: the service makes them before it sends the
 * next operation.
 */
export function buildPlain (node: PlanNode, context: StatementContext): Body {
  const counts = context.minimal === true || node.output?.length === 0
  const part = rowPartOf(node, counts)
  const operation = buildOperation(node, part, context)
  // Citus cannot read anonymous composites that were computed in another part of a statement.
  const all = part === 'columns' ? sql`r.*` : ROW
  const row = sql`pg_catalog.to_json(${counts ? ROW_COUNT : all})`
  const { when, then } = formatCheck
  return {
    ctes: operation.ctes,
    result: context.runsCode ? sql`case when ${when} then ${then}::json else ${row} end` : row,
    end: node.kind === 'call' ? sql` limit ${integer(context.maxRows + 1)}` : empty,
    from: where => sql`${operation.rows}${where}`
  }
}

/** Returns all rows as one JSON array, after checks of their number. */
export function buildAggregated (node: PlanNode, context: StatementContext): Body {
  const { maxBytes, operations, uses } = context
  const { minimal = false, keep = false } = context
  const hidden = minimal || node.output?.length === 0
  const part = rowPartOf(node, hidden && uses.length === 0)
  const { maxRows: maxReturned, maxChanged = maxReturned } = context
  const maxRows = part === 'nothing' ? maxChanged : maxReturned
  const operation = buildOperation(node, part, context)
  const json = sql`pg_catalog.json_agg(${ROW})`
  const result = minimal
    ? sql`pg_catalog.to_json(${ROW_COUNT})`
    : hidden ? sql`'[]'` : sql`coalesce(${json}, '[]')`
  const size = hidden ? [] : [buildSizeCheck(json, maxBytes, operations)]
  const checks = [
    ...checkRequiredRows(node, context),
    ...operation.checks ?? [],
    ...buildChecks(node, json, { ...context, maxRows }),
    ...size
  ]
  return {
    ctes: operation.ctes,
    result: sql`case${buildCases(checks, result, keep ? node.index : undefined)} end`,
    from: where => limitRows(operation, part, { where, maxRows })
  }
}

const ROW_COUNT = sql`count(*)`

/** `json`: the rows as JSON. */
function buildChecks (
  node: PlanNode,
  json: Fragment,
  context: StatementContext
): readonly Check[] {
  const { maxRows, keep = false, uses, counted, shared, runsCode } = context
  const needed = uses.reduce((most, { rows, checked }) => checked ? Math.max(most, rows) : most, 0)
  return [
    ...runsCode ? [formatCheck] : [],
    ...buildRowCountChecks(node, ROW_COUNT, maxRows),
    ...needed === 0
      ? []
      : [{
          when: sql`${ROW_COUNT} < ${integer(needed)}`,
          then: raiseNumber('row', ROW_COUNT)
        }],
    ...buildListCheck(uses, ROW_COUNT, maxRows),
    ...checkColumns(context, sql`(${json} operator(pg_catalog.->) 0)`, ROW_COUNT),
    ...shared.map(result => shareValues(result, sharedExpression(result, context))),
    ...counted ? [shareCount(node.index, ROW_COUNT)] : [],
    ...buildSkipCheck(node, keep ? node.index : undefined)
  ]
}

/**
 * Checks that the first row has the columns that are read, where that is not known. `first` is its
 * JSON; `count` is the number of rows, or undefined if there is one.
 */
function checkColumns (
  { uses, hasColumn }: StatementContext,
  first: Fragment,
  count?: Fragment
): readonly Check[] {
  const exists = count === undefined ? empty : sql`${count} > 0 and `
  return columnsRead(uses).flatMap((name, i) => hasColumn(name)
    ? []
    : [{
        when: sql`${exists}(${first} operator(pg_catalog.->) ${
          parameter(name)
        }::pg_catalog.text) is null`,
        then: raise('column', i + 1)
      }])
}

/** A shared result in one row of `r`. */
function sharedExpression (
  { column, form }: SharedResult,
  { hasColumn }: StatementContext
): Fragment {
  if (column === undefined) return ROW
  if (form === 'json' && !hasColumn(column)) {
    return sql`(pg_catalog.to_json(${ROW}) operator(pg_catalog.->) ${
      parameter(column)
    }::pg_catalog.text)`
  }
  const value = sql`(${ROW}).${identifier(column)}`
  switch (form) {
    case 'text':
      return sql`${value}::pg_catalog.text`
    case 'boxed':
      // Unlike IS NULL, num_nulls does not count a composite whose attributes are all NULL.
      return sql`case pg_catalog.num_nulls(${value}) when 0
        then pg_catalog.json_build_array(${value}) end`
    default:
      return value
  }
}

/** Builds conditions that are true, or fail if a row that the operation reads does not exist. */
export function requiredRows (
  node: PlanNode,
  { references, requirements }: StatementContext
): readonly Fragment[] {
  return [...references.existenceChecks(), ...buildRequirements(node, requirements)]
}

/**
 * Builds the conditions of `requiredRows` as checks of the result, for a select or a call:
 * PostgreSQL does not evaluate a condition of a query if it finds that another one is false.
 * Operations that change rows are CTEs with conditions of their own.
 */
function checkRequiredRows (node: PlanNode, context: StatementContext): readonly Check[] {
  if (node.kind !== 'select' && node.kind !== 'call') return []
  return requiredRows(node, context).map(condition => ({
    when: sql`(${condition}) is false`,
    then: sql`null`
  }))
}
