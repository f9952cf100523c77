/**
 * Compiles a plan to SQL: one statement per operation, which returns one row whose first column is
 * the result as JSON text. Values are parameters, and names are quoted identifiers. No other part
 * of a request becomes SQL text.
 */
import type { Failure } from '../errors/catalogue.ts'
import { fromDatabase } from '../errors/postgres.ts'
import { SqlState } from '../errors/sqlstates.ts'
import type { Plan, PlanNode, ReferenceUse } from '../plan/nodes.ts'
import {
  buildCases,
  buildRowCountChecks,
  buildSizeCheck,
  buildSkipCheck,
  buildSumCheck,
  LAST_OPERATION_CHECKS,
  SINGLE_OPERATION_CHECKS,
  type Check
} from './checks.ts'
import { distributeNode, fence } from './citus.ts'
import { CteBuilder } from './cte-builder.ts'
import type { FindColumns } from './column-types.ts'
import type { FindFunction } from './function-types.ts'
import {
  empty,
  integer,
  join,
  parameter,
  render,
  sql,
  type Fragment,
  type RenderedSql
} from './fragment.ts'
import { buildGate, buildRequirements } from './gate.ts'
import { buildKeyCheck, buildOperationCte, buildOrderCheck, shapeOf } from './operation-cte.ts'
import { hideSecrets } from './marker.ts'
import { answersOnlyCount, operationTimes } from './output.ts'
import {
  buildColumnSearch,
  buildExistenceCheck,
  buildSharing,
  columnsRead,
  exposedColumns,
  findShared,
  needsColumnSearch,
  type SharedResult
} from './shared-results.ts'
import { findSeparateSources } from './separate-rows.ts'
import { sourceColumns } from './source.ts'
import { buildShardCheck } from './shard-check.ts'
import { sessionUnchanged, withSessionFormats, type SessionIdentity } from './session-checks.ts'

export interface Statement extends RenderedSql {
  /** Whether the text does not depend on the amount of data, so that preparing it pays off. */
  readonly prepare: boolean
  /** Whether it stores JSON that may not fit the type of its column; see value-checks.ts. */
  readonly needsValueChecks?: boolean
}

export interface CompileOptions {
  /** The role and the claims that every operation must run with. */
  readonly session: SessionIdentity
  /** Maximum rows per operation. */
  readonly maxRows: number
  /** Maximum bytes of the rows of a response. */
  readonly maxBytes: number
  /** Returns the number of rows instead of the rows, also of operations that are not `counted`. */
  readonly minimal?: boolean
  /** Also keeps each result in a setting of the transaction, for storeStatement. */
  readonly keep?: boolean
  /**
   * Checks each value against its type by the catalogue (see value-checks.ts), distinguishes the
   * JSON null from NULL, and adds up the bytes of all operations. For a batch that failed because a
   * value may not fit its type, or an operation returned more than its share of the bytes.
   */
  readonly checkValues?: boolean
  /**
   * Computes the values of an operation before it starts and writes its rows after it has ended, so
   * that settings changed by a trigger affect neither. For the retry of a batch whose session was
   * changed; it also sets the session again after each operation.
   */
  readonly restoreSession?: boolean
  /** Builds the SQL for Citus; see citus.ts. */
  readonly distributed?: boolean
  /** Finds the types of columns, into which paths go; undefined: they are not known. */
  readonly findColumns?: FindColumns
  /** Finds the types of the parameters of functions; undefined: they are not known. */
  readonly findFunction?: FindFunction
}

/** The protocol counts parameters in 16 bits. */
export const MAX_PARAMETERS = 65_533

/** Names of the CTE with the rows of an operation, and of the one before it with restoreSession. */
const ROWS = sql`r`
const OPERATION_ROWS = sql`c`
/** The rows of an operation as one JSON array. */
const JSON_ROWS = sql`j.rows`

/**
 * Returns the statements of a plan, in the order of its operations. Throws
 * `program_limit_exceeded`, PostgreSQL's own condition, if an operation needs too many parameters.
 */
export function compile (plan: Plan, options: CompileOptions): readonly Statement[] {
  const { session, checkValues, restoreSession, findColumns, findFunction } = options
  const { distributed = false } = options
  const inSession = sessionUnchanged(session, { distributed })
  const results = findShared(plan)
  // With value checks all operations have this form, which counts rows.
  const separate = checkValues === true ? undefined : findSeparateSources(plan, results, options)
  return plan.operations.map((planned, i) => {
    const uses = plan.referenceUses.get(planned.index) ?? []
    const onlyCounts = answersOnlyCount(planned, options.minimal) && uses.length === 0
    const node = distributed ? distributeNode(planned, { ...options, onlyCounts }) : planned
    const exposed = exposedColumns(node, uses)
    const ctes = new CteBuilder(node.table, results, {
      checkValues,
      restoreSession,
      distributed,
      exposed,
      source: sourceColumns(node, findColumns),
      findColumns,
      findFunction,
      call: node.kind === 'call' ? node : undefined
    })
    const last = i === plan.operations.length - 1 && restoreSession !== true
    const lastChecks = i === 0 ? SINGLE_OPERATION_CHECKS : LAST_OPERATION_CHECKS
    const sessionChecks = last ? lastChecks : []
    const counted = plan.counted.has(node.index)
    const operations = plan.operations.length
    const body = buildStatement(node, ctes, {
      ...options,
      uses,
      shared: results.get(node.index) ?? [],
      counted,
      sessionChecks,
      sizeCheck: checkValues === true && operations > 1
        ? buildSumCheck(JSON_ROWS, options.maxBytes)
        : buildSizeCheck(JSON_ROWS, options.maxBytes, operations)
    })
    const conditions = [
      inSession,
      ...[...separate?.get(node.index)?.values() ?? []].map(({ setting }) =>
        buildExistenceCheck(parameter(setting))
      ),
      ...buildRequirements(node, plan.requirements.get(node.index))
    ]
    const statement = renderNode(
      node,
      i === 0 ? body : sql`${body} where ${join(conditions, sql` and `)}`
    )
    const fixedText = statement.unique !== true &&
      (!('groups' in node) || node.groups.length <= 1)
    return {
      ...statement,
      prepare: fixedText && node.kind !== 'call' && ctes.parameterTypes() !== undefined,
      needsValueChecks: ctes.needsValueChecks()
    }
  })
}

/** The same as compilePlainQueryPlans in the general form. */
export function compileQueryPlans (
  plan: Plan,
  { maxRows, distributed = false, findColumns, findFunction }: Pick<
    CompileOptions,
    'maxRows' | 'distributed' | 'findColumns' | 'findFunction'
  >
): readonly Statement[] {
  const results = findShared(plan)
  return plan.operations.map(planned => {
    const node = {
      ...distributed ? distributeNode(planned, { maxRows }) : planned,
      when: []
    }
    const ctes = new CteBuilder(node.table, results, {
      explain: true,
      distributed,
      source: sourceColumns(node, findColumns),
      findColumns,
      findFunction,
      call: node.kind === 'call' ? node : undefined
    })
    const operation = buildOperationCte(node, { ctes, shape: shapeOf(node, false), name: ROWS })
    const statement = sql`explain (format json) with ${
      join([...ctes.build(), operation], sql`, `)
    } select row from r limit ${integer(maxRows + 1)}`
    return { ...hideSecrets(renderNode(node, statement)), prepare: false }
  })
}

function renderNode (node: PlanNode, fragment: Fragment): RenderedSql {
  const statement = render(fragment)
  if (statement.parameters.length > MAX_PARAMETERS) throw tooManyParameters(node)
  return statement
}

function tooManyParameters ({ id, index }: PlanNode): Failure {
  const message =
    `The operation is too large: its values and conditions need more than ${MAX_PARAMETERS} ` +
    'parameters.'
  return fromDatabase({ code: SqlState.program_limit_exceeded, message }, {
    op: id,
    index,
    anonymous: false,
    verbose: false
  })
}

interface StatementOptions extends CompileOptions {
  /** What later operations read from this one. */
  readonly uses: readonly ReferenceUse[]
  readonly shared: readonly SharedResult[]
  /** Whether later operations depend on the number of its rows. */
  readonly counted: boolean
  readonly sessionChecks: readonly Check[]
  readonly sizeCheck: Check
}

/**
 * Wraps an operation: returns its rows as one JSON text, checks their number, and shares them if
 * later operations read them. The caller adds the condition on the session.
 */
function buildStatement (node: PlanNode, ctes: CteBuilder, options: StatementOptions): Fragment {
  const { maxRows, keep = false, uses, shared, counted, sessionChecks, sizeCheck } = options
  const kept = keep ? node.index : undefined
  const minimal = answersOnlyCount(node, options.minimal)
  const hidden = minimal || node.output?.length === 0
  const shape = shapeOf(node, hidden && uses.length === 0)
  const name = ctes.restoreSession ? OPERATION_ROWS : ROWS
  const operation = buildOperationCte(node, { ctes, shape, name })
  const rowsJson = buildRowsJson(ctes)
  const checks = [
    ...sessionChecks,
    ...buildKeyCheck(node),
    ...buildRowCountChecks(node, sql`j.n`, maxRows),
    ...ctes.distributed ? buildShardCheck(node, shape) : buildOrderCheck(node, shape),
    ...buildSharing(node, {
      uses,
      shared,
      counted,
      maxRows,
      hidden,
      rowsJson,
      checkValues: ctes.checkValues
    }),
    ...buildSkipCheck(node, kept),
    ...hidden ? [] : [sizeCheck]
  ]
  const result = minimal ? sql`to_json(j.n)` : hidden ? sql`'[]'` : JSON_ROWS
  const columns = columnsRead(uses)
  const search = needsColumnSearch(columns)
  // Only now are all parameters and values of the statement known.
  const types = (ctes.parameterTypes() ?? []).map(type => sql`, ${type}`)
  const rows = hidden ? empty : sql`${rowsJson} as rows, `
  const counting = countRows(node, ctes, { rows, maxRows })
  return sql`with ${join([...ctes.build(), operation], sql`, `)}${counting}${
    search ? buildColumnSearch(columns) : empty}
  select case${buildCases(checks, result, kept)} end${operationTimes}${
    join(types, empty)
  } from j${search ? sql`, m` : empty}${ctes.distributed ? fence : empty}`
}

/** The rows of `r` as one JSON array. */
function buildRowsJson ({ restoreSession }: CteBuilder): Fragment {
  const row = restoreSession ? withSessionFormats(sql`r.row`) : sql`r.row`
  return sql`coalesce(json_agg(${row}), '[]')`
}

/** A condition that computes the values of an operation that is not skipped. */
function computeFirst (node: PlanNode, ctes: CteBuilder): Fragment {
  const gate = buildGate(node)
  if (gate.length === 0) return ctes.computeFirst()
  const open = join(ctes.evaluateOnce(gate), sql` and `)
  return sql`case when ${open} then ${ctes.computeFirst()} else false end`
}

/**
 * Builds the CTE `j` with the rows as JSON and their number `n`. With restoreSession the CTE `r`
 * before it makes PostgreSQL compute values first. PostgreSQL starts an operation, with its
 * statement triggers, when it reads the first of its rows. All rows are read before the first one
 * is written: to write them sets settings on which triggers may depend.
 */
function countRows (
  node: PlanNode,
  ctes: CteBuilder,
  { rows, maxRows }: { readonly rows: Fragment, readonly maxRows: number }
): Fragment {
  const source = sql`(select * from r limit ${integer(maxRows + 1)}) as r`
  const ordered = ctes.restoreSession
    ? sql`, r as (select * from ${OPERATION_ROWS} where ${computeFirst(node, ctes)})`
    : empty
  const allRead = ctes.restoreSession
    ? sql` where (select count(*) from ${source}) is not null`
    : empty
  return sql`${ordered}, j as (
    select ${rows}count(*) as n from ${source}${allRead}
  )`
}
