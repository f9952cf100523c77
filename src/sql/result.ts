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
import { buildOperation, type OperationContext } from './operations/operation.ts'
import { JSON_ROW, rowPartOf, type RowPart } from './operations/output.ts'
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
  nameExposed,
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
  readonly settings: Fragment
  /** What follows all rows. The rows then contain no times. */
  readonly end?: Fragment
  /** Builds what follows FROM. */
  readonly from: (where: Fragment) => Fragment
}

/** Returns each row as soon as it is inserted or read. */
export function buildDirect (node: PlanNode, context: StatementContext): Body {
  const { maxBytes, operations, shared, runsCode } = context
  const part = rowPartOf(node, false)
  const operation = buildOperation(node, part, { ...context, exposed: [], json: true })
  const isJson = node.kind !== 'select' && part === 'whole'
  const count = node.kind === 'insert' ? (node.groups[0] as RowGroup).positions.length : 1
  const row = sql`r.${JSON_ROW}`
  const checks = [
    ...runsCode ? [formatCheck] : [],
    ...checkColumns(context, row),
    buildSizeCheck(row, maxBytes, operations * count)
  ]
  const settings = shared.map((result, i) => {
    const value = sharedExpression(result, i, { ...context, part, row })
    return sql`, ${shareValue(result, value)} is null`
  })
  const rest = shared.length === 0 ? empty : sql`r.*, `
  return {
    ctes: operation.ctes,
    result: sql`case${buildCases(checks, row, undefined)} end`,
    settings: join(settings, empty),
    // Without OFFSET, PostgreSQL would render each row for every use of its JSON.
    from: where => isJson
      ? sql`${operation.rows}${where}`
      : sql`(select ${rest}pg_catalog.to_json(r.${
        part === 'whole' ? WHOLE_ROW : ALL_COLUMNS
      }) as ${JSON_ROW} from ${operation.rows}${where} offset 0) as r`
  }
}

/**
 * Returns each row as soon as it is read, and compares the formats after the last one, because a
 * function can change them. To compare them for each row took PostgreSQL nearly as long as to write
 * it. The service counts the rows and limits the bytes of each.
 */
export function buildStreamed (node: PlanNode, context: StatementContext): Body {
  const { maxRows } = context
  const part = rowPartOf(node, false)
  const operation = buildOperation(node, part, { ...context, exposed: [] })
  const row = part === 'columns' ? ROW_VALUE : sql`r.row`
  const { when, then } = formatCheck
  return {
    ctes: operation.ctes,
    result: sql`pg_catalog.to_json(${row})`,
    settings: empty,
    end: context.runsCode
      ? sql` union all select case when ${when} then ${then}::json end where ${when}`
      : empty,
    from: where =>
      sql`(select * from ${operation.rows}${where} limit ${integer(maxRows + 1)}) as r`
  }
}

/**
 * Returns each row, or their number, without checks: the service makes them before it sends the
 * next operation.
 */
export function buildPlain (node: PlanNode, context: StatementContext): Body {
  const counts = context.minimal === true || node.output?.length === 0
  const part = rowPartOf(node, counts)
  const operation = buildOperation(node, part, { ...context, exposed: [] })
  // Citus cannot read anonymous composites that were computed in another part of a statement.
  const all = part === 'columns' ? sql`r.*` : sql`r.row`
  const row = sql`pg_catalog.to_json(${counts ? ROW_COUNT : all})`
  const { when, then } = formatCheck
  return {
    ctes: operation.ctes,
    result: context.runsCode ? sql`case when ${when} then ${then}::json else ${row} end` : row,
    settings: empty,
    end: node.kind === 'call' ? sql` limit ${integer(context.maxRows + 1)}` : empty,
    from: where => sql`${operation.rows}${where}`
  }
}

/** The columns of `r` as one value. */
const ROW_VALUE = sql`r.*::record`

const WHOLE_ROW = sql`row`
const ALL_COLUMNS = sql`*`

/** Returns all rows as one JSON array, after checks of their number. */
export function buildAggregated (node: PlanNode, context: StatementContext): Body {
  const { maxBytes, operations, uses } = context
  const { minimal = false, keep = false } = context
  const hidden = minimal || node.output?.length === 0
  const part = rowPartOf(node, hidden && uses.length === 0)
  const { maxRows: maxReturned, maxChanged = maxReturned } = context
  const maxRows = part === 'nothing' ? maxChanged : maxReturned
  const exposed = context.shared.flatMap(({ form, column }, i) =>
    form === 'json' || column === undefined ? [] : [[column, i] as const])
  const operation = buildOperation(node, part, { ...context, exposed })
  const row = part === 'columns' ? ROW_VALUE : sql`r.row`
  const result = minimal
    ? sql`pg_catalog.to_json(${ROW_COUNT})`
    : hidden ? sql`'[]'` : sql`coalesce(pg_catalog.json_agg(${row}), '[]')`
  const json = sql`pg_catalog.json_agg(${row})`
  const size = hidden ? [] : [buildSizeCheck(json, maxBytes, operations)]
  const checks = [
    ...checkRequiredRows(node, context),
    ...operation.checks ?? [],
    ...buildChecks(node, { ...context, maxRows, part, row, exposed }),
    ...size
  ]
  return {
    ctes: operation.ctes,
    result: sql`case${buildCases(checks, result, keep ? node.index : undefined)} end`,
    settings: empty,
    from: where =>
      sql`(select * from ${operation.rows}${where} limit ${integer(maxRows + 1)}) as r`
  }
}

const ROW_COUNT = sql`count(*)`

function buildChecks (
  node: PlanNode,
  { part, row, ...context }: OperationContext & Row
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
    ...checkColumns(
      context,
      sql`(pg_catalog.json_agg(${row}) operator(pg_catalog.->) 0)`,
      ROW_COUNT
    ),
    ...shared.map((result, i) => {
      const value = sharedExpression(result, i, { ...context, part, row })
      return shareValues(result, value)
    }),
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

/** A row of `r`. */
interface Row {
  readonly part: RowPart
  /** The whole row. */
  readonly row: Fragment
}

/** A shared result in one row of `r`. */
function sharedExpression (
  result: SharedResult,
  position: number,
  context: StatementContext & Row
): Fragment {
  const value = sharedColumn(result, position, context)
  switch (result.form) {
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

function sharedColumn (
  { column, form }: SharedResult,
  position: number,
  { hasColumn, part, row }: StatementContext & Row
): Fragment {
  if (column === undefined) return row
  if (hasColumn(column)) {
    return part === 'columns' ? sql`r.${identifier(column)}` : sql`(r.row).${identifier(column)}`
  }
  return form === 'json'
    ? sql`(pg_catalog.to_json(${row}) operator(pg_catalog.->) ${
      parameter(column)
    }::pg_catalog.text)`
    : sql`r.${identifier(nameExposed(position))}`
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
