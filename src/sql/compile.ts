/**
 * Compiles a plan to SQL, one statement for each operation. Values are parameters with the types of
 * their columns, and names are quoted identifiers. No other part of a request becomes SQL text. If
 * a statement fails with a condition of class 0A, 22 or 42, the batch must run again with
 * `checkValues`, which reports the exact failure.
 *
 * The types may have changed since they were read. Each statement therefore compares them with the
 * catalogue before it reads a row; if one differs, the batch runs again with new types.
 */
import type { Failure } from '../errors/catalogue.ts'
import { fromDatabase } from '../errors/postgres.ts'
import { SqlState } from '../errors/sqlstates.ts'
import { isNested } from '../plan/nested.ts'
import type {
  InsertNode,
  KeyedGroup,
  KeyedUpdateNode,
  Plan,
  PlanNode,
  ReferenceUse,
  Requirements,
  RowGroup
} from '../plan/nodes.ts'
import { isAllColumns } from '../plan/output.ts'
import { arrayText } from '../plan/value-text.ts'
import {
  buildCases,
  buildRowCountChecks,
  buildSizeCheck,
  buildSkipCheck,
  buildSumCheck,
  LAST_OPERATION_CHECKS,
  SINGLE_OPERATION_CHECKS,
  type Check
} from './statement/checks.ts'
import { distributeNode, fence } from './citus/citus.ts'
import type { FindColumns, TableColumns } from './values/column-types.ts'
import type { FindFunction } from './values/function-types.ts'
import {
  empty,
  identifier,
  integer,
  join,
  parameter,
  render,
  sql,
  whereAll,
  type Fragment
} from '../fragment/fragment.ts'
import { buildGate, buildRequirements, gateChecks } from './statement/gate.ts'
import { hideSecrets, raiseNumber } from './statement/marker.ts'
import { buildOperation, type OperationContext } from './operations/operation.ts'
import { answersOnlyCount, operationTimes, rowValue } from './operations/output.ts'
import { buildFence, isPushedDown } from './citus/placement.ts'
import { findScalars, References, type Earlier, type Scalar } from './values/references.ts'
import { shapeOf, type BuiltOperation, type Shape } from './operations/returned-rows.ts'
import { findSeparateSources, returnsSeparateRows } from './operations/separate-rows.ts'
import {
  sessionUnchanged,
  withSessionFormats,
  type SessionIdentity
} from './statement/session-checks.ts'
import { buildShardCheck } from './citus/shard-check.ts'
import {
  buildListCheck,
  columnsRead,
  exposedColumns,
  findShared,
  MAX_COLUMN_CHECKS,
  shareCount,
  shareNulls,
  shareValue,
  shareValues,
  type SharedResult
} from './statement/shared-results.ts'
import { sourceColumns } from './operations/source.ts'
import { StatementNeeds } from './values/statement-needs.ts'
import type { Statement } from './statement/statement.ts'
import { MAX_KEPT_LENGTH } from '../fragment/recent-texts.ts'
import { TypedValues } from './values/typed-values.ts'

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
  /** Finds the types of columns; by default no table is known. */
  readonly findColumns?: FindColumns
  /** Finds the types of the parameters of functions; undefined: they are not known. */
  readonly findFunction?: FindFunction
}

/** What json_agg writes between two rows. */
export const ROW_SEPARATOR = ', \n '

/** The protocol counts parameters in 16 bits. */
const MAX_PARAMETERS = 65_533

/**
 * Returns the statements of a plan, in the order of its operations. Throws
 * `program_limit_exceeded`, PostgreSQL's own condition, if an operation needs too many parameters.
 */
export function compile (
  plan: Plan,
  options: CompileOptions
): readonly Statement[] {
  const results = findShared(plan)
  const { distributed = false, restoreSession = false, findColumns = UNKNOWN } = options
  const { checkValues = restoreSession } = options
  const scalars = findScalars(plan, findColumns)
  // With value checks every statement counts its rows.
  const separate = checkValues ? undefined : findSeparateSources(plan, results, options)
  return plan.operations.map(planned => {
    const uses = plan.referenceUses.get(planned.index) ?? []
    const onlyCounts = answersOnlyCount(planned, options.minimal) && uses.length === 0
    const node = distributed ? distributeNode(planned, { ...options, onlyCounts }) : planned
    const earlier = { results, scalars, separate: separate?.get(node.index) }
    const facts = { distributed, checkValues, restoreSession, findColumns }
    const compileNode = (node: PlanNode): Statement | undefined => compileOperation(node, {
      ...options,
      ...facts,
      minimal: answersOnlyCount(node, options.minimal),
      uses,
      shared: results.get(node.index) ?? [],
      scalars: scalars.get(node.index),
      counted: plan.counted.has(node.index),
      requirements: plan.requirements.get(node.index),
      ...createBuilders(node, earlier, {
        ...facts,
        explain: false,
        findFunction: options.findFunction
      }),
      separate: !checkValues && returnsSeparateRows(node, plan, options),
      last: node.index === plan.operations.length - 1 && !restoreSession,
      operations: plan.operations.length
    })
    const statement = compileNode(node) ??
      (hasRows(node) ? compileNode(asJson(node)) : undefined)
    if (statement === undefined) throw tooManyParameters(node)
    return statement
  })
}

type WithRows = InsertNode | KeyedUpdateNode

function hasRows (node: PlanNode): node is WithRows {
  return node.kind === 'insert' || node.kind === 'keyed_update'
}

/** The same operation with the rows of each group as JSON, which is one parameter. */
function asJson (node: WithRows): PlanNode {
  const ofGroup = <Group extends RowGroup | KeyedGroup>(group: Group): Group => {
    const { document, uncertainColumns } = group.rows
    return { ...group, rows: { document, uncertainColumns, cells: undefined } }
  }
  return node.kind === 'insert'
    ? { ...node, groups: node.groups.map(ofGroup) }
    : { ...node, groups: node.groups.map(ofGroup) }
}

const UNKNOWN: FindColumns = () => undefined

type Builders = Pick<Context, 'hasColumn' | 'needs' | 'references' | 'values'>

function createBuilders (
  node: PlanNode,
  earlier: Earlier,
  { findColumns, findFunction, ...facts }: FindTypes & Pick<
    StatementNeeds['facts'],
    'distributed' | 'checkValues' | 'restoreSession' | 'explain'
  >
): Builders {
  const call = node.kind === 'call' ? node : undefined
  const source = sourceColumns(node, findColumns)
  const needs = new StatementNeeds({ source, call, findFunction, ...facts })
  const references = new References(earlier, needs)
  return {
    hasColumn: findKnown(node, call === undefined ? findColumns(node.table) : undefined),
    needs,
    references,
    values: new TypedValues(node.table, findColumns, references, needs)
  }
}

interface FindTypes {
  readonly findColumns: FindColumns
  readonly findFunction?: CompileOptions['findFunction'] | undefined
}

/**
 * Returns statements that return the query plan of each operation, in the shape of rows:
 * `[{"Plan": {…}}]`. They explain only what the operation does to its table; the conversion to
 * JSON and the checks are the same for every operation. They contain no secrets of markers, because
 * a plan shows the parameters of its query. No operation is skipped.
 */
export function compileQueryPlans (
  plan: Plan,
  { maxRows, distributed = false, findColumns = UNKNOWN, findFunction }: Pick<
    CompileOptions,
    'maxRows' | 'distributed' | 'findColumns' | 'findFunction'
  >
): readonly Statement[] {
  const types = { findColumns, findFunction }
  const earlier = {
    results: findShared(plan),
    scalars: findScalars(plan, types.findColumns),
    separate: undefined
  }
  return plan.operations.map(planned => {
    const node = { ...distributed ? distributeNode(planned, { maxRows }) : planned, when: [] }
    const builders = createBuilders(node, earlier, { ...types, ...EXPLAINED, distributed })
    const shape = shapeOf(node, false)
    const context = { ...builders, ...ALONE, distributed }
    const operation = buildOperation(node, shape, context)
    const ctes = buildCtes(operation, builders)
    const statement = sql`explain (format json) ${ctes}select * from ${operation.rows}${
      buildFence(node, context)
    } limit ${integer(maxRows + 1)}`
    return { ...hideSecrets(render(statement)), prepare: false }
  })
}

const EXPLAINED = {
  checkValues: false,
  restoreSession: false,
  explain: true
} as const

/** An operation whose rows no other one reads. */
const ALONE = {
  uses: [],
  shared: [],
  exposed: [],
  counted: false,
  checkValues: false,
  requirements: undefined
} as const

/** `with … `, or nothing. It is complete only when everything else was built. */
function buildCtes (
  { ctes }: Pick<BuiltOperation, 'ctes'>,
  { references, needs }: Pick<Builders, 'references' | 'needs'>
): Fragment {
  const all = [...references.sourceCtes(), ...needs.rowCtes(), ...ctes]
  return all.length === 0 ? empty : sql`with ${join(all, sql`, `)} `
}

interface Context extends CompileOptions {
  readonly findColumns: FindColumns
  readonly uses: readonly ReferenceUse[]
  readonly counted: boolean
  readonly shared: readonly SharedResult[]
  /** Its columns of scalars that are shared. */
  readonly scalars: ReadonlyMap<string, Scalar> | undefined
  readonly requirements: Requirements | undefined
  readonly distributed: boolean
  readonly checkValues: boolean
  readonly restoreSession: boolean
  /** See findKnown. */
  readonly hasColumn: (column: string) => boolean
  readonly needs: StatementNeeds
  readonly references: References
  readonly values: TypedValues
  /** See returnsSeparateRows. */
  readonly separate: boolean
  readonly last: boolean
  /** The number of operations of the batch. */
  readonly operations: number
}

/** Returns undefined if the statement has more parameters than the protocol can count. */
function compileOperation (node: PlanNode, context: Context): Statement | undefined {
  const { session, distributed, needs, separate } = context
  const body = separate ? buildDirect(node, context) : buildAggregated(node, context)
  const conditions = [
    ...node.index === 0 ? [] : [sessionUnchanged(session, { distributed })],
    ...needs.typeChecks({ byName: distributed && isPushedDown(node, context) }),
    ...node.kind === 'select' ? [] : requiredRows(node, context),
    ...computedFirst(node, context)
  ]
  const from = body.from(whereAll(conditions))
  const { ctes, rows } = context.restoreSession
    ? {
        ctes: [...body.ctes, sql`a as materialized (select r.* from ${from})`],
        rows: sql`a as r${distributed ? fence : empty}${ALL_READ}`
      }
    : { ctes: body.ctes, rows: from }
  const statement = render(
    sql`${buildCtes({ ctes }, context)}select ${body.result}${operationTimes}${
      body.settings
    } from ${rows}`
  )
  if (statement.parameters.length > MAX_PARAMETERS) return undefined
  return {
    ...statement,
    prepare: statement.unique !== true && node.kind !== 'call' && !needs.hasUnknownTypes &&
      statement.text.length <= MAX_KEPT_LENGTH,
    needsValueChecks: needs.needsValueChecks,
    isFinal: context.checkValues || node.kind === 'call' || needs.hasUnknownTypes,
    separateRows: separate
  }
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

/**
 * All rows are read before the first one is written: to write them sets settings on which triggers
 * may depend.
 */
const ALL_READ = sql` where (select pg_catalog.count(*) from a) is not null`

/**
 * Conditions under which the operation starts. PostgreSQL starts it, with its statement triggers,
 * when it reads the first of its rows.
 */
function computedFirst (
  node: PlanNode,
  { needs, restoreSession, distributed }: Pick<
    Context,
    'needs' | 'restoreSession' | 'distributed'
  >
): readonly Fragment[] {
  if (restoreSession) return gateChecks(node, needs.rowsComputed())
  // On Citus the rows have the condition.
  if (distributed) return []
  return node.kind === 'select' || node.kind === 'call' ? buildGate(node) : []
}

/**
 * Tells whether the rows are known to have a column that others read. Of a function its columns are
 * not known, and nested rows are JSON.
 */
function findKnown (
  node: PlanNode,
  columns: TableColumns | undefined
): (column: string) => boolean {
  if (isNested(node)) return () => false
  const { output } = node
  const ofTable = output === undefined || output.some(isAllColumns)
  // Both lists come from the client.
  const names = new Set(output?.map(({ name }) => name))
  return column => names.has(column) || (ofTable && columns?.checks.has(column) === true)
}

/** The parts of a statement. */
interface Body {
  readonly ctes: readonly Fragment[]
  readonly result: Fragment
  /** More columns, which set the settings of shared results. */
  readonly settings: Fragment
  /** Builds what follows FROM, with the conditions on the session. */
  readonly from: (where: Fragment) => Fragment
}

/**
 * Returns each row as soon as it is inserted. The insert is a CTE, so that the session is checked
 * before its statement triggers run, which could hide a change.
 */
function buildDirect (node: PlanNode, context: Context): Body {
  const { maxBytes, operations, shared, last } = context
  const shape = shapeOf(node, false)
  const operation = buildOperation(node, shape, { ...context, exposed: [], json: true })
  const [group] = (node as InsertNode).groups as readonly [InsertNode['groups'][number]]
  const row = shape === 'whole' ? sql`r.row` : sql`r.${JSON_ROW}`
  const checks = [
    ...last ? SINGLE_OPERATION_CHECKS : [],
    ...checkColumns(context, sql`pg_catalog.to_json(${row})`),
    buildSizeCheck(row, maxBytes, operations * group.positions.length)
  ]
  const settings = shared.map((result, i) => {
    const value = sharedExpression(result, {
      ...context,
      position: i,
      shape,
      row,
      isRecord: false
    })
    return sql`, ${shareValue(result, value)} is null`
  })
  const rest = shared.length === 0 ? empty : sql`r.*, `
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
function buildAggregated (node: PlanNode, context: Context): Body {
  const { maxRows, maxBytes, operations, uses, distributed } = context
  const { minimal = false, keep = false, checkValues } = context
  const hidden = minimal || node.output?.length === 0
  const shape = shapeOf(node, hidden && uses.length === 0)
  const exposed = checkValues ? exposedColumns(node, uses) : []
  const operation = buildOperation(node, shape, { ...context, exposed })
  const { isRecord = false } = operation
  const read = shape === 'columns' && !isRecord ? rowValue(sql`r`, context) : sql`r.row`
  const row = inFormats(read, context)
  const result = minimal
    ? sql`pg_catalog.to_json(${ROW_COUNT})`
    : hidden ? sql`'[]'` : sql`coalesce(pg_catalog.json_agg(${row}), '[]')`
  const json = sql`pg_catalog.json_agg(${row})`
  const size = hidden
    ? []
    : [
        checkValues && operations > 1
          ? buildSumCheck(json, maxBytes)
          : buildSizeCheck(json, maxBytes, operations)
      ]
  const checks = [
    ...checkRequiredRows(node, context),
    ...operation.checks ?? [],
    ...distributed ? buildShardCheck(node, { returnsRows: shape !== 'nothing', row }) : [],
    ...buildChecks(node, { ...context, shape, row, isRecord, exposed }),
    ...size
  ]
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
  { shape, row, isRecord, exposed, ...context }: Context & Row & Pick<OperationContext, 'exposed'>
): readonly Check[] {
  const { maxRows, keep = false, uses, counted, shared, scalars, distributed, last } = context
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
    ...buildListCheck(uses, ROW_COUNT, maxRows),
    ...checkColumns(
      context,
      sql`(pg_catalog.json_agg(${row}) operator(pg_catalog.->) 0)`,
      ROW_COUNT
    ),
    ...shared.map((result, i) =>
      shareValues(
        result,
        sharedExpression(result, { ...context, position: i, shape, row, isRecord }),
        {
          isScalar: !context.restoreSession && result.column !== undefined &&
            scalars?.has(result.column) === true
        }
      )
    ),
    ...context.checkValues
      ? shareNulls(node, uses, {
        exposed,
        hasColumn: shape === 'columns' && !isRecord ? context.hasColumn : undefined
      })
      : [],
    ...counted ? [shareCount(node.index, ROW_COUNT)] : [],
    ...buildSkipCheck(node, keep ? node.index : undefined)
  ]
}

/**
 * Checks that the first row has the columns that are read, where that is not known. `first` is its
 * JSON; `count` is the number of rows, or undefined if there is one.
 */
function checkColumns (
  { uses, hasColumn }: Pick<Context, 'uses' | 'hasColumn'>,
  first: Fragment,
  count?: Fragment
): readonly Check[] {
  const unknown = columnsRead(uses).map((name, i) => ({ name, position: i + 1 }))
    .filter(({ name }) => !hasColumn(name))
  if (unknown.length === 0) return []
  // Of few columns, a check of each costs less. Not a constant; see raiseNumber.
  if (count !== undefined && unknown.length <= MAX_COLUMN_CHECKS) {
    return unknown.map(({ name, position }) => ({
      when: sql`${count} > 0 and (${first} operator(pg_catalog.->) ${
        parameter(name)
      }::pg_catalog.text) is null`,
      then: raiseNumber('column', sql`${count} * 0 + ${integer(position)}`)
    }))
  }
  const exists = count === undefined ? empty : sql`${count} > 0 and `
  const names = parameter(arrayText(unknown.map(({ name }) => name)))
  const positions = parameter(arrayText(unknown.map(({ position }) => position)))
  const missing = sql`(select min(c.position)
    from unnest(${names}::pg_catalog.text[], ${positions}::pg_catalog.int4[]) as c (name, position)
    where c.name not in (select pg_catalog.json_object_keys(${first})))`
  return [{ when: sql`${exists}${missing} is not null`, then: raiseNumber('column', missing) }]
}

/** A row of `r`. */
interface Row extends Pick<Required<BuiltOperation>, 'isRecord'> {
  readonly shape: Shape
  /** The whole row. */
  readonly row: Fragment
}

/** A shared result in one row of `r`. */
function sharedExpression (
  { column }: SharedResult,
  { hasColumn, position, shape, row, isRecord, ...context }:
    & Pick<Context, 'hasColumn' | 'restoreSession'>
    & Row
    & { readonly position: number }
): Fragment {
  if (column === undefined) return row
  if (isRecord || !hasColumn(column)) {
    return sql`(pg_catalog.to_json(${row}) operator(pg_catalog.->) ${
      parameter(column)
    }::pg_catalog.text)`
  }
  const name = shape === 'columns' ? identifier(column) : nameShared(position)
  return inFormats(sql`r.${name}`, context)
}

/** A value that is written as JSON. */
function inFormats (
  value: Fragment,
  { restoreSession }: Pick<Context, 'restoreSession'>
): Fragment {
  return restoreSession ? withSessionFormats(value) : value
}

/** The name of a shared column beside the row. */
function nameShared (position: number): Fragment {
  return identifier(`p${position}`)
}

/** Conditions that the rows exist which the operation reads. They are true, or fail. */
function requiredRows (
  node: PlanNode,
  { references, requirements }: Pick<Context, 'references' | 'requirements'>
): readonly Fragment[] {
  return [...references.existenceChecks(), ...buildRequirements(node, requirements)]
}

/**
 * The same as checks of the result. PostgreSQL evaluates no condition on the rows of a query if it
 * finds that another one is false. What changes rows is a CTE, and has conditions of its own.
 */
function checkRequiredRows (node: PlanNode, context: Context): readonly Check[] {
  if (node.kind !== 'select' && node.kind !== 'call') return []
  return requiredRows(node, context).map(condition => ({
    when: sql`(${condition}) is false`,
    then: sql`null`
  }))
}
