/**
 * Plans one operation. Each kind of operation has a planner, which reads the members of that kind.
 */
import {
  InsertedParameter,
  maxDepth,
  operationId,
  type Expect,
  type Lock,
  type OperationKind,
  type Ordering,
  type When
} from '../../schemas/operation.ts'
import { has, type Json, type JsonObject } from '../json/parse.ts'
import { planCall } from './call.ts'
import type { Path, PlanContext } from './context.ts'
import { flattenConditions, planFilter } from './filter.ts'
import { planKeyRows, type KeyColumn } from './key-rows.ts'
import {
  checkMembers,
  readKind,
  readMember,
  requireMember,
  type OperationSource
} from './check/members.ts'
import { planName, planTable, readPath } from './name.ts'
import { checkNested, planNested } from './nested.ts'
import type {
  ConflictNode,
  DeleteNode,
  InsertNode,
  BulkUpdateNode,
  InsertQuery,
  OutputColumn,
  PlanNode,
  Predicate,
  SelectNode,
  TableName,
  UpdateNode
} from './nodes.ts'
import { planConflict } from './on-conflict.ts'
import {
  planAfter,
  planHaving,
  isWhole,
  planColumns,
  planExpectation,
  planOrder,
  planOutput,
  planWhen,
  readColumns
} from './output.ts'
import { planInsertColumns, planSet } from './set.ts'
import { planFrom, planJoin, withJoin, type PlannedJoin } from './source.ts'
import { isNested } from './value-text.ts'
import { countRepeatedParts, planRowGroups, readRows } from './values.ts'
import { units } from './work.ts'

export interface OperationHead {
  readonly index: number
  readonly id: string
  /** Whether the body is nested too deeply somewhere. */
  readonly deep: boolean
}

/** Plans one operation of a batch; returns undefined after an issue. */
export function planOperation (
  operation: JsonObject,
  { index, id, deep }: OperationHead,
  context: PlanContext
): PlanNode | undefined {
  context.spend(units.operation)
  if (!operationId.test(id)) {
    context.addIssue('id_invalid', ['id'], `"id" must match ${operationId.source}.`)
  }
  const op = readKind(operation, context)
  const source: OperationSource = { operation, kind: op ?? 'select', context }
  const table = op === 'call' ? readFunction(source) : readTable(source)
  checkMembers(operation, op, context)
  const tooDeep = deep ? findDeepNode(operation, 2) : undefined
  // The planners recurse, so they must not read this operation.
  if (tooDeep !== undefined) {
    return context.addIssue(
      'depth_exceeded',
      tooDeep,
      `The body must not be nested more than ${maxDepth} levels deep.`
    )
  }
  if (op === undefined) return undefined
  const common = {
    index,
    id,
    table: table ?? invalidTable,
    expect: planExpectation(
      readMember(source, 'expect') as Expect | undefined,
      { context, path: ['expect'] }
    ),
    answersCount: readMember(source, 'answer') === 'count',
    when: planWhen(readMember(source, 'when') as When | undefined, { context, path: ['when'] })
  }
  const node = planners[op](source, common)
  return table === undefined ? undefined : node
}

/** Replaces an invalid table, so that the issues of the other members are found as well. */
const invalidTable: TableName = { schema: '', name: '' }

function readTable (source: OperationSource): TableName | undefined {
  if (requireMember(source, 'table') === undefined) return undefined
  const text = readMember(source, 'table') as string | undefined
  if (text === undefined) return undefined
  return planTable(text, { context: source.context, path: ['table'] })
}

function readFunction (source: OperationSource): TableName | undefined {
  if (requireMember(source, 'function') === undefined) return undefined
  const text = readMember(source, 'function') as string | undefined
  if (text === undefined) return undefined
  return planName(text, { context: source.context, path: ['function'] })
}

/**
 * Returns the path to the first node that is nested too deeply. It never recurses deeper itself. An
 * operation is level 2 of the body.
 */
function findDeepNode (node: Json, level: number): Path | undefined {
  if (!isNested(node)) return undefined
  if (level > maxDepth) return []
  const entries: Iterable<readonly [key: string | number, value: Json]> = Array.isArray(node)
    ? (node as readonly Json[]).entries()
    : Object.entries(node)
  for (const [key, value] of entries) {
    const found = findDeepNode(value, level + 1)
    if (found !== undefined) return [key, ...found]
  }
  return undefined
}

/** Members that the nodes of every kind have. */
type CommonMembers = Pick<PlanNode, 'index' | 'id' | 'table' | 'expect' | 'answersCount' | 'when'>

const planners: Record<
  OperationKind,
  (source: OperationSource, common: CommonMembers) => PlanNode | undefined
> = {
  insert: planInsert,
  update: planUpdate,
  delete: planDelete,
  select: planSelect,
  call: planCall
}

function planInsert (source: OperationSource, common: CommonMembers): InsertNode | undefined {
  const { operation, context } = source
  const query = planQuery(source)
  const values = query === undefined ? requireMember(source, 'values') : undefined
  const rows = values === undefined ? undefined : readRows(values, context)
  const runs = query === undefined ? rows?.runs : query.runs
  const conflict = has(operation, 'on_conflict')
    ? planConflict(operation['on_conflict'] as Json, runs, context)
    : undefined
  const output = planReturning(source)?.map(column => markInserted(column, conflict))
  const node = { kind: 'insert' as const, ...common, conflict, output }
  if (query !== undefined) return query.planned && { ...node, groups: [], query: query.planned }
  if (rows === undefined) return undefined
  const groups = planRowGroups(rows, countRepeatedParts(conflict, output), context)
  return groups === undefined ? undefined : { ...node, groups }
}

/** Plans the query of an insert without `values`. `runs`: the columns that it inserts. */
function planQuery (source: OperationSource): {
  readonly planned: InsertQuery | undefined,
  readonly runs: ReadonlyArray<{ readonly columns: readonly string[] }> | undefined
} | undefined {
  const { operation, context } = source
  if (!has(operation, 'from')) {
    if (has(operation, 'columns')) {
      context.addIssue('member_invalid', ['columns'], '"columns" requires "from" in an insert.')
    }
    return undefined
  }
  if (has(operation, 'values')) {
    context.addIssue('member_invalid', ['values'], '"values" and "from" exclude each other.')
  }
  const columns = requireMember(source, 'columns')
  const planned = planFrom(source, InsertedParameter)
  // Without `from`, the other values are checked all the same.
  const values = columns === undefined
    ? undefined
    : planInsertColumns(columns, context, planned?.read ?? readPath)
  const query = planned?.finish()
  const names = values && [...values.columns, ...values.computed.map(({ column }) => column)]
  return {
    planned: query && values && { source: query, ...values, maxRows: context.limits.maxRows },
    runs: names && [{ columns: names }]
  }
}

function planUpdate (
  source: OperationSource,
  common: CommonMembers
): UpdateNode | BulkUpdateNode | undefined {
  if (has(source.operation, 'key')) return planBulkUpdate(source, common)
  const set = requireMember(
    source,
    'set',
    has(source.operation, 'values') ? '"values" works only together with "key".' : undefined
  )
  const joined = planJoin(source)
  const changes = set === undefined ? undefined : planSet(set, source.context, joined?.read)
  const where = planRequiredFilter(source, joined)
  const output = planReturning(source)
  if (changes === undefined) return undefined
  return withJoin({ kind: 'update', ...common, ...changes, where, output }, joined)
}

function planBulkUpdate (
  source: OperationSource,
  common: CommonMembers
): BulkUpdateNode | undefined {
  const { operation, context } = source
  for (const [name, reason] of Object.entries(besideKey)) {
    if (has(operation, name)) context.addIssue('member_invalid', [name], reason)
  }
  const key = readMember(source, 'key') as readonly KeyColumn[] | undefined
  const values = requireMember(source, 'values')
  const filter = readMember(source, 'where') as JsonObject | undefined
  if (filter !== undefined && Object.keys(filter).length === 0) {
    const message = '"where" must not be empty; to change the row of every key, remove it.'
    context.addIssue('where_empty', ['where'], message)
  }
  const where = filter === undefined ? [] : planFilter(filter, { context, path: ['where'] })
  const output = planReturning(source)
  if (values === undefined) return undefined
  const parts = flattenConditions(where).length + (output?.length ?? 0)
  const groups = planKeyRows(key ?? [], values, { parts, context })
  return groups && { kind: 'bulk_update', ...common, groups, where, output }
}

/** Members that an update cannot have beside `key`. */
const besideKey = {
  set: '"set" and "key" exclude each other; the new values are in "values".',
  from: '"from" and "key" exclude each other.',
  all: '"all" and "key" exclude each other; the keys choose the rows.'
}

function planDelete (source: OperationSource, common: CommonMembers): DeleteNode | undefined {
  const joined = planJoin(source)
  const where = planRequiredFilter(source, joined)
  const output = planReturning(source)
  return withJoin({ kind: 'delete', ...common, where, output }, joined)
}

function planSelect (source: OperationSource, common: CommonMembers): SelectNode {
  const { operation, context } = source
  const where = readMember(source, 'where') as JsonObject | undefined
  const columns = readColumns(source, 'columns')
  const groupBy = readMember(source, 'group_by') as readonly string[] | undefined
  // A group has no whole row.
  const reader = ['group_by', 'having'].find(name => has(operation, name))
  if (reader !== undefined && !has(operation, 'columns')) {
    context.addIssue('member_missing', ['columns'], `"${reader}" requires "columns".`)
  }
  const having = readMember(source, 'having') as JsonObject | undefined
  const grouped = groupBy !== undefined || having !== undefined
  const output = columns === undefined || (isWhole(columns) && !grouped)
    ? undefined
    : planOutput(columns, { context, path: ['columns'] })
  checkLock(operation, context)
  checkNested(operation, output, context)
  const nested = readMember(source, 'with') as Parameters<typeof planNested>[0] | undefined
  const sorted = {
    output,
    groupBy: groupBy?.map(readPath) ?? [],
    order: planOrder(
      readMember(source, 'order') as ReadonlyArray<Record<string, Ordering>> | undefined,
      output,
      context
    )
  }
  const after = readMember(source, 'after') as readonly Json[] | undefined
  return {
    kind: 'select',
    ...common,
    nested: nested && planNested(nested, output, { context, path: ['with'], level: 1 }),
    distinct: readMember(source, 'distinct') === true,
    having: having === undefined || output === undefined
      ? []
      : planHaving(having, output, { context, path: ['having'] }),
    where: where === undefined ? [] : planFilter(where, { context, path: ['where'] }),
    ...sorted,
    after: after === undefined ? undefined : planAfter(after, sorted, context),
    limit: readMember(source, 'limit') as number | undefined,
    offset: readMember(source, 'offset') as number | undefined,
    lock: planLock(readMember(source, 'lock') as Lock | undefined)
  }
}

/** Of these selects, a row of the table may have no row, or be one of several. */
function checkLock (operation: JsonObject, context: PlanContext): void {
  const other = ['distinct', 'having'].find(name => has(operation, name))
  if (!has(operation, 'lock') || other === undefined) return
  context.addIssue('member_invalid', ['lock'], `"lock" and "${other}" exclude each other.`)
}

function planLock (lock: Lock | undefined): SelectNode['lock'] {
  if (lock === undefined) return undefined
  const { mode = 'update', wait } = typeof lock === 'string' ? { mode: lock } : lock
  return { mode, wait }
}

function planReturning (source: OperationSource): PlanNode['output'] {
  return planColumns(readColumns(source, 'returning'), {
    context: source.context,
    path: ['returning']
  })
}

/** Without an update, every returned row is new. */
function markInserted (column: OutputColumn, conflict: ConflictNode | undefined): OutputColumn {
  return column.inserted !== undefined && conflict?.update === undefined
    ? { ...column, inserted: 'always' }
    : column
}

/**
 * Plans `where` of update and delete, which `from` makes optional. Every row is changed only with
 * `"all": true`; an empty filter is an issue.
 */
function planRequiredFilter (
  source: OperationSource,
  joined: PlannedJoin | undefined
): readonly Predicate[] {
  const { operation, context } = source
  const all = readMember(source, 'all') === true
  const where = readMember(source, 'where') as JsonObject | undefined
  if (all && joined !== undefined) {
    context.addIssue(
      'member_invalid',
      ['all'],
      '"all" and "from" exclude each other: only rows that meet a row of "from" are affected.'
    )
  }
  if (!has(operation, 'where') && !all && joined === undefined) {
    context.addIssue(
      'member_missing',
      ['where'],
      '"where" is required, for example {"id": {"eq": 1}}; to affect every row, use "all": true.'
    )
  }
  if (where === undefined) return []
  if (Object.keys(where).length === 0) {
    if (!all) {
      context.addIssue(
        'where_empty',
        ['where'],
        joined === undefined
          ? '"where" must not be empty; to affect every row, use "all": true.'
          : '"where" must not be empty; to affect every row that meets a row of "from", remove it.'
      )
    }
    return []
  }
  if (all && joined === undefined) {
    context.addIssue(
      'member_invalid',
      ['all'],
      '"all" and conditions in "where" exclude each other; remove one of them.'
    )
  }
  return planFilter(where, { context, path: ['where'] }, { readSource: joined?.read })
}
