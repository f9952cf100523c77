/**
 * Plans one operation. Each kind of operation has a planner, which reads the members of that kind.
 */
import {
  maxDepth,
  operationId,
  type Aggregate,
  type Expect,
  type Lock,
  type OperationKind,
  type Ordering,
  type Output,
  type When
} from '../../schemas/operation.ts'
import { has, type Json, type JsonObject } from '../json/parse.ts'
import { planAfter } from './after.ts'
import type { Path, PlanContext } from './context.ts'
import { planCall } from './call.ts'
import { planFilter } from './filter.ts'
import { planHaving } from './having.ts'
import {
  checkMembers,
  readKind,
  readMember,
  requireMember,
  type OperationSource
} from './members.ts'
import { planName, planTable, readPath } from './name.ts'
import type {
  DeleteNode,
  InsertNode,
  PlanNode,
  Predicate,
  SelectNode,
  TableName,
  UpdateNode
} from './nodes.ts'
import { checkNested, planNested } from './nested.ts'
import { planConflict } from './on-conflict.ts'
import {
  isWhole,
  planColumns,
  planExpectation,
  planOrder,
  planOutput,
  planWhen
} from './output.ts'
import { planSet } from './set.ts'
import { countRepeatedParts, planRowGroups, readRows } from './values.ts'

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
 * operation is level 2 of the body. parseJson keeps no ExactNumber in a body that is too deep.
 */
function findDeepNode (node: Json, level: number): Path | undefined {
  if (typeof node !== 'object' || node === null) return undefined
  if (level > maxDepth) return []
  const entries: Iterable<readonly [key: string | number, value: Json]> = Array.isArray(node)
    ? (node as readonly Json[]).entries()
    : Object.entries(node as JsonObject)
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
  const values = requireMember(source, 'values')
  const rows = values === undefined ? undefined : readRows(values, context)
  const conflict = has(operation, 'on_conflict')
    ? planConflict(operation['on_conflict'] as Json, rows?.runs, context)
    : undefined
  const output = planReturning(source)
  if (rows === undefined) return undefined
  const groups = planRowGroups(rows, countRepeatedParts(conflict, output), context)
  return groups === undefined ? undefined : { kind: 'insert', ...common, groups, conflict, output }
}

function planUpdate (source: OperationSource, common: CommonMembers): UpdateNode | undefined {
  const set = requireMember(source, 'set')
  const changes = set === undefined ? undefined : planSet(set, source.context)
  const where = planRequiredFilter(source)
  const output = planReturning(source)
  return changes === undefined
    ? undefined
    : { kind: 'update', ...common, ...changes, where, output }
}

function planDelete (source: OperationSource, common: CommonMembers): DeleteNode {
  return {
    kind: 'delete',
    ...common,
    where: planRequiredFilter(source),
    output: planReturning(source)
  }
}

function planSelect (source: OperationSource, common: CommonMembers): SelectNode {
  const { operation, context } = source
  const where = readMember(source, 'where') as JsonObject | undefined
  const columns = readMember(source, 'columns') as ReadonlyArray<Output | Aggregate> | undefined
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
      output
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
  const returning = readMember(source, 'returning') as readonly Output[] | undefined
  return planColumns(returning, { context: source.context, path: ['returning'] })
}

/**
 * Plans `where` of update and delete. Every row is changed only with `"all": true`; an empty filter
 * is an issue.
 */
function planRequiredFilter (source: OperationSource): readonly Predicate[] {
  const { operation, context } = source
  const all = readMember(source, 'all') === true
  const where = readMember(source, 'where') as JsonObject | undefined
  if (!has(operation, 'where') && !all) {
    context.addIssue(
      'member_missing',
      ['where'],
      '"where" is required; to affect every row, use "all": true.'
    )
  }
  if (where === undefined) return []
  if (Object.keys(where).length === 0) {
    if (!all) {
      context.addIssue(
        'where_empty',
        ['where'],
        '"where" must not be empty; to affect every row, use "all": true.'
      )
    }
    return []
  }
  if (all) {
    context.addIssue(
      'member_invalid',
      ['all'],
      '"all" and conditions in "where" exclude each other; remove one of them.'
    )
  }
  return planFilter(where, { context, path: ['where'] })
}
