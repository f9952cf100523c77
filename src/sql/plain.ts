/**
 * Compiles operations to the plain form, in which the types of columns are named. It costs
 * PostgreSQL about half of the general form of compile.ts, which works without knowing the types.
 * Both give the same rows, store the same values and refuse the same batches. If a plain statement
 * fails with a condition of class 0A, 22 or 42, the batch must run again with `checkValues`, which
 * reports the exact failure.
 *
 * The types may have changed since they were read. Each statement therefore compares them with the
 * catalogue before it reads a row; if one differs, the batch runs again with new types.
 */
import type {
  InsertNode,
  OutputColumn,
  Plan,
  PlanNode,
  ReferenceUse,
  Requirements
} from '../plan/nodes.ts'
import { isNested } from '../plan/nested.ts'
import { isAllColumns } from '../plan/output.ts'
import { arrayText } from '../plan/value-text.ts'
import { distributeNode, fence, needsOneShard, storesSeveral } from './citus.ts'
import { buildCall } from './call.ts'
import type { FindColumns, TableColumns } from './column-types.ts'
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
import { MAX_PARAMETERS, type CompileOptions, type Statement } from './compile.ts'
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
} from './fragment.ts'
import type { FindFunction } from './function-types.ts'
import { buildGate, buildRequirements, gateChecks } from './gate.ts'
import { buildAmbiguityCheck } from './keyed-update.ts'
import { rowNumber } from './insert.ts'
import { hideSecrets, raiseNumber } from './marker.ts'
import {
  buildOrderCheck,
  hasAllColumns,
  nameGroups,
  positionInValues,
  returnedRecord,
  shapeOf,
  type Shape
} from './operation-cte.ts'
import { buildNestedSelect } from './nested.ts'
import {
  answersOnlyCount,
  jsonRow,
  operationTimes,
  returningList,
  rowValue,
  unusedName,
  wholeRow
} from './output.ts'
import { PlainBuilder } from './plain-builder.ts'
import { buildPlainChange, buildPlainInsert } from './plain-change.ts'
import { buildPlainKeyedUpdate, type ReturnedColumns } from './plain-keyed-update.ts'
import { PlainNeeds } from './plain-needs.ts'
import { findScalars, PlainReferences, type Earlier, type Scalar } from './plain-references.ts'
import { buildRows, buildSelectRows } from './select.ts'
import { sourceColumns } from './source.ts'
import { sessionUnchanged, withSessionFormats } from './session-checks.ts'
import { findSeparateSources, returnsSeparateRows } from './separate-rows.ts'
import {
  buildListCheck,
  columnsRead,
  exposeColumns,
  exposedColumns,
  findShared,
  MAX_COLUMN_CHECKS,
  nameExposed,
  shareCount,
  shareNulls,
  shareValue,
  shareValues,
  type ExposedColumns,
  type SharedResult
} from './shared-results.ts'
import { MAX_KEPT_LENGTH } from './text-cache.ts'

/** A statement in the plain form. */
export interface PlainStatement {
  readonly text: string
  readonly parameters: ReadonlyArray<string | null>
  readonly prepare: boolean
  /** See value-checks.ts. */
  readonly needsValueChecks: boolean
  /**
   * An attempt with value checks tells no more about its errors: it calls a function, or names a
   * table or a column that the service does not know.
   */
  readonly isFinal: boolean
  /**
   * Whether column 0 of each row of the result is one row as JSON. Otherwise the result is one row,
   * and its column 0 is the result of the operation as JSON.
   */
  readonly separateRows: boolean
}

interface FindTypes {
  readonly findColumns: FindColumns
  readonly findFunction?: FindFunction | undefined
}

export type PlainOptions = CompileOptions & FindTypes

/** What json_agg writes between two rows. */
export const ROW_SEPARATOR = ', \n '

/**
 * Returns the plain form of each operation of a plan, or undefined for an operation that has none.
 */
export function compilePlain (
  plan: Plan,
  options: PlainOptions
): ReadonlyArray<PlainStatement | undefined> {
  const results = findShared(plan)
  const { distributed = false, restoreSession = false, findColumns } = options
  const { checkValues = restoreSession } = options
  const scalars = findScalars(plan, findColumns)
  // With value checks every statement counts its rows.
  const separate = checkValues ? undefined : findSeparateSources(plan, results, options)
  return plan.operations.map(planned => {
    const node = distributed ? distributeNode(planned, options) : planned
    const earlier = { results, scalars, separate: separate?.get(node.index) }
    const facts = { distributed, checkValues, restoreSession, explain: false }
    return compileOperation(node, {
      ...options,
      ...facts,
      minimal: answersOnlyCount(node, options.minimal),
      uses: plan.referenceUses.get(node.index) ?? [],
      shared: results.get(node.index) ?? [],
      scalars: scalars.get(node.index),
      counted: plan.counted.has(node.index),
      requirements: plan.requirements.get(node.index),
      ...createBuilders(node, earlier, { ...options, ...facts }),
      separate: !checkValues && returnsSeparateRows(node, plan, options),
      last: node.index === plan.operations.length - 1 && !restoreSession,
      operations: plan.operations.length
    })
  })
}

type Builders = Pick<Context, 'hasColumn' | 'needs' | 'references' | 'values'>

function createBuilders (
  node: PlanNode,
  earlier: Earlier,
  { findColumns, findFunction, ...facts }: FindTypes & Pick<
    PlainNeeds['facts'],
    'distributed' | 'checkValues' | 'restoreSession' | 'explain'
  >
): Builders {
  const call = node.kind === 'call' ? node : undefined
  const source = sourceColumns(node, findColumns)
  const needs = new PlainNeeds({ source, call, findFunction, ...facts })
  const references = new PlainReferences(earlier, needs)
  return {
    hasColumn: findKnown(node, call === undefined ? findColumns(node.table) : undefined),
    needs,
    references,
    values: new PlainBuilder(node.table, findColumns, references, needs)
  }
}

/**
 * Returns statements that return the query plan of each operation, in the shape of rows:
 * `[{"Plan": {…}}]`. They explain only what the operation does to its table; the conversion to
 * JSON and the checks are the same for every operation. They contain no secrets of markers, because
 * a plan shows the parameters of its query. No operation is skipped.
 */
export function compilePlainQueryPlans (
  plan: Plan,
  { maxRows, ...types }: FindTypes & Pick<PlainOptions, 'maxRows'>
): readonly Statement[] {
  const earlier = {
    results: findShared(plan),
    scalars: findScalars(plan, types.findColumns),
    separate: undefined
  }
  return plan.operations.map(planned => {
    const node = { ...planned, when: [] }
    const builders = createBuilders(node, earlier, { ...types, ...EXPLAINED })
    const shape = shapeOf(node, false)
    // Only on Citus, some operations have no plain form.
    const operation = buildOperation(node, shape, { ...builders, ...ALONE }) as BuiltOperation
    const ctes = buildCtes(operation, builders)
    const statement = sql`explain (format json) ${ctes}select * from ${operation.rows} limit ${
      integer(maxRows + 1)
    }`
    return { ...hideSecrets(render(statement)), prepare: false }
  })
}

const EXPLAINED = {
  distributed: false,
  checkValues: false,
  restoreSession: false,
  explain: true
} as const

/** An operation whose rows no other one reads. */
const ALONE = { shared: [], exposed: [], distributed: false } as const

/** `with … `, or nothing. It is complete only when everything else was built. */
function buildCtes (
  { ctes }: Pick<BuiltOperation, 'ctes'>,
  { references, needs }: Pick<Builders, 'references' | 'needs'>
): Fragment {
  const all = [...references.sourceCtes(), ...needs.rowCtes(), ...ctes]
  return all.length === 0 ? empty : sql`with ${join(all, sql`, `)} `
}

interface Context extends PlainOptions {
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
  readonly needs: PlainNeeds
  readonly references: PlainReferences
  readonly values: PlainBuilder
  /** See returnsSeparateRows. */
  readonly separate: boolean
  readonly last: boolean
  /** The number of operations of the batch. */
  readonly operations: number
}

function compileOperation (node: PlanNode, context: Context): PlainStatement | undefined {
  const { session, distributed, needs, references } = context
  if (distributed && !isDistributable(node, context)) return undefined
  const { separate } = context
  const body = separate ? buildDirect(node, context) : buildAggregated(node, context)
  if (body === undefined) return undefined
  const conditions = [
    ...node.index === 0 ? [] : [sessionUnchanged(session, { distributed })],
    ...needs.typeChecks(),
    ...node.kind === 'select' ? [] : requiredRows(node, context),
    ...computedFirst(node, context)
  ]
  const from = body.from(whereAll(conditions))
  const { ctes, rows } = context.restoreSession
    ? { ctes: [...body.ctes, sql`a as materialized (select * from ${from})`], rows: ALL_READ }
    : { ctes: body.ctes, rows: from }
  const statement = render(
    sql`${buildCtes({ ctes }, context)}select ${body.result}${operationTimes}${
      body.settings
    } from ${rows}`
  )
  if (!needs.plain || statement.parameters.length > MAX_PARAMETERS) return undefined
  // A worker does not have the settings of earlier operations. Citus reads them for an insert.
  if (distributed && node.kind !== 'insert' && references.readsSettings) return undefined
  return {
    ...statement,
    prepare: statement.unique !== true && node.kind !== 'call' && !needs.hasUnknownTypes &&
      statement.text.length <= MAX_KEPT_LENGTH,
    needsValueChecks: needs.needsValueChecks,
    isFinal: context.checkValues || node.kind === 'call' || needs.hasUnknownTypes,
    separateRows: separate
  }
}

/**
 * All rows are read before the first one is written: to write them sets settings on which triggers
 * may depend.
 */
const ALL_READ = sql`a as r where (select pg_catalog.count(*) from a) is not null`

/**
 * Conditions under which the operation starts. PostgreSQL starts it, with its statement triggers,
 * when it reads the first of its rows.
 */
function computedFirst (
  node: PlanNode,
  { needs, restoreSession }: Pick<Context, 'needs' | 'restoreSession'>
): readonly Fragment[] {
  if (restoreSession) return gateChecks(node, needs.rowsComputed())
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

/** Whether the plain form gives the results of the general form on Citus. */
function isDistributable (node: PlanNode, { requirements, uses, hasColumn }: Context): boolean {
  if (node.when.length > 0) return false
  if (!columnsRead(uses).every(hasColumn)) return false
  switch (node.kind) {
    case 'select':
      return requirements === undefined && node.nested === undefined
    case 'insert':
      return node.query === undefined && node.conflict === undefined && node.groups.length === 1
    case 'keyed_update':
    case 'call':
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
  // One group of rows that are written one by one always has a plain form.
  const options = { ...context, exposed: [], json: true }
  const operation = buildOperation(node, shape, options) as BuiltOperation
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
function buildAggregated (node: PlanNode, context: Context): Body | undefined {
  const { maxRows, maxBytes, operations, uses, distributed } = context
  const { minimal = false, keep = false, checkValues } = context
  const hidden = minimal || node.output?.length === 0
  const shape = shapeOf(node, hidden && uses.length === 0)
  const exposed = checkValues ? exposedColumns(node, uses) : []
  const operation = buildOperation(node, shape, { ...context, exposed })
  if (operation === undefined) return undefined
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

interface OperationContext
  extends Pick<Context, 'shared' | 'hasColumn' | 'distributed' | 'values'> {
  /** Columns that stand beside the row. */
  readonly exposed: ExposedColumns
  /** Whole rows are JSON. */
  readonly json?: boolean
}

interface BuiltOperation {
  readonly ctes: readonly Fragment[]
  /** What follows FROM. */
  readonly rows: Fragment
  readonly checks?: readonly Check[]
  /** The output columns are one value `row`. */
  readonly isRecord?: boolean
}

function buildOperation (
  node: PlanNode,
  shape: Shape,
  { shared, exposed, hasColumn, distributed, values, json = false }: OperationContext
): BuiltOperation | undefined {
  const beside = shared.flatMap(({ column }, i) =>
    shape === 'whole' && column !== undefined && hasColumn(column)
      ? [{ column, name: `p${i}` }]
      : []
  )
  const more = join(
    beside.map(({ column, name }) => sql`, t.${identifier(column)} as ${identifier(name)}`),
    empty
  )
  if (node.kind === 'call') {
    const row = sql`t.*::record as row${exposeColumns(exposed, sql`t`)}`
    return {
      ctes: [],
      rows: sql`(${buildRows(node, values, { source: buildCall(node, values), row })}) as q`
    }
  }
  if (node.kind === 'select') {
    if (isNested(node)) {
      const rows = buildNestedSelect(node, values, from => exposeColumns(exposed, from))
      return { ctes: [], rows: sql`(${rows}) as q` }
    }
    return { ctes: [], rows: sql`(${buildSelectRows(node, values, more)}) as q` }
  }
  const hasGroups = node.kind === 'keyed_update' ||
    (node.kind === 'insert' && node.groups.length > 1)
  const isRecord = shape === 'columns' && hasGroups && hasAllColumns(node)
  const returned = shape === 'nothing'
    ? sql`null as row`
    : shape === 'whole'
      ? sql`${json ? jsonRow(node.table) : wholeRow(node.table)}${more}`
      : isRecord
        ? returnedRecord(node, values, exposed)
        : returningList(node.output as readonly OutputColumn[], values)
  const names = shape === 'columns' && !isRecord
    ? (node.output as readonly OutputColumn[]).map(({ name }) => name)
    : [
        'row',
        ...beside.map(({ name }) => name),
        ...isRecord ? exposed.map(([, position]) => nameExposed(position)) : []
      ]
  if (node.kind === 'keyed_update') {
    const update = buildPlainKeyedUpdate(node, values, { returned, names })
    const checks = [buildAmbiguityCheck(update.positions)]
    return { ctes: update.ctes, rows: sql`r`, checks, isRecord }
  }
  if (distributed && node.kind === 'insert' && shape !== 'nothing' && storesSeveral(node)) {
    return needsOneShard(node) ? undefined : buildRowByRow(node, returned, values)
  }
  if (node.kind === 'insert' && node.groups.length > 1) {
    return { ...buildGroups(node, shape, { returned, names, values }), isRecord }
  }
  const statement = buildPlainChange(node, values)
  return { ctes: [sql`r as (${statement} returning ${returned})`], rows: sql`r` }
}

/** Inserts each group by a statement of its own, and sorts the rows into the order of `values`. */
function buildGroups (
  node: InsertNode,
  shape: Shape,
  { returned, names, values }: ReturnedColumns & Pick<Context, 'values'>
): BuiltOperation {
  const groups = nameGroups(node, shape)
  const inserts = groups.map(({ group, name, number }) => {
    const numbers = number === undefined ? empty : sql`, ${rowNumber} as ${number}`
    const statement = buildPlainInsert(node, values, { group, numbered: number !== undefined })
    return sql`${name} as (${statement} returning ${returned}${numbers})`
  })
  const columns = join(names.map(identifier), sql`, `)
  const position = identifier(unusedName(names))
  const placed = groups.map(group =>
    sql`select ${columns}, ${positionInValues(group)} as ${position} from ${group.name}`
  )
  return {
    ctes: [
      ...inserts,
      sql`r as (select ${columns} from (${
        join(placed, sql` union all `)
      }) as placed order by ${position})`
    ],
    rows: sql`r`,
    checks: buildOrderCheck(node, shape)
  }
}

/** Inserts each row by a statement of its own, because Citus returns rows shard by shard. */
function buildRowByRow (
  node: InsertNode,
  returned: Fragment,
  values: PlainBuilder
): BuiltOperation | undefined {
  const [group, ...more] = node.groups as readonly [InsertNode['groups'][number]]
  const { rows: { cells } } = group
  if (cells === undefined || more.length > 0 || !values.storesCells(cells)) return undefined
  const inserts = cells.map((row, i) => {
    const one = { ...group, positions: [i], rows: { ...group.rows, cells: [row] } }
    // One row has a plain form, whatever its columns are.
    const statement = buildPlainInsert(node, values, { group: one })
    return sql`g${integer(i)} as (${statement} returning ${returned})`
  })
  const all = inserts.map((_, i) => sql`select * from g${integer(i)}`)
  return {
    ctes: [...inserts, sql`r as (${join(all, sql` union all `)})`],
    rows: sql`r`
  }
}
