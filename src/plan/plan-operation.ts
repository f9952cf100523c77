/**
 * Plans one operation. Each kind of operation has a planner, which reads the members of that kind.
 */
import { FunctionText, TableText } from '../../schemas/filter.ts'
import { referenceAttempt } from '../../schemas/operand.ts'
import { maxDepth, operationId, type Lock, type OperationKind } from '../../schemas/operation.ts'
import { findPath, has, isNested, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { planCall } from './call.ts'
import { checkSchema } from './check/check-schema.ts'
import {
  besideKey,
  checkMembers,
  checkNames,
  readKind,
  requireMember,
  type Members
} from './check/members.ts'
import type { Place, PlanContext } from './context.ts'
import { flattenConditions, planFilter } from './filter.ts'
import { planKeyRows } from './key-rows.ts'
import { planName, planTable, readPath } from './name.ts'
import { checkNested, planNested } from './nested.ts'
import type {
  BulkUpdateNode,
  ConflictNode,
  DeleteNode,
  InsertNode,
  InsertQuery,
  OperationNode,
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
  isWhole,
  planColumns,
  planExpectation,
  planOutput,
  planQuery,
  planWhen
} from './output.ts'
import { planInsertWord, planSet } from './set.ts'
import { planFrom, planJoin, withJoin, type PlannedJoin } from './source.ts'
import { MAX_CELL_ROWS } from './stored-values.ts'
import { countRepeatedParts, planRowGroups, readRows } from './values.ts'

/** Plans one operation of a batch; returns undefined after an issue. */
export function planOperation (context: PlanContext): PlanNode | undefined {
  const { operation, id, index } = context
  if (!operationId.test(id)) {
    context.addIssue('id_invalid', ['id'], `"id" must match ${operationId.source}.`)
  }
  const kind = readKind(context)
  const table = planTarget(kind, context)
  context.table = kind === 'call' ? undefined : table
  checkNames(kind, context)
  // An operation is level 2 of the body. The search does not recurse deeper than the limit.
  const tooDeep = context.batch.isDeep
    ? findPath(operation, (node, level) => level > maxDepth && isNested(node), 2)
    : undefined
  // The planners recurse, so they must not read this operation.
  if (tooDeep !== undefined) {
    return context.addIssue(
      'depth_exceeded',
      tooDeep,
      `The body must not be nested more than ${maxDepth} levels deep.`
    )
  }
  if (kind === undefined) return undefined
  for (const [name, value] of Object.entries(operation)) {
    const inRows = name === 'values' && Array.isArray(value) && value.length > MAX_CELL_ROWS
    countReferences(value, inRows ? PARTS_IN_ROWS : 1, { context, path: [name] })
  }
  const members = checkMembers(kind, context)
  const common = {
    index,
    id,
    table: table ?? invalidTable,
    expect: planExpectation(members.expect, { context, path: ['expect'] }),
    answersCount: members.answer === 'count',
    when: planWhen(members.when, { context, path: ['when'] })
  }
  const node = planners[kind](members as never, common, context)
  return table === undefined ? undefined : node
}

/** A reference in one of many rows counts half: it adds nothing to the text of the SQL. */
const PARTS_IN_ROWS = 0.5

/**
 * Counts each reference of a member, also inside stored JSON, as this number of parts. In an
 * operand such as that of `$first` it counts whole: nothing else counts the modifiers of rows.
 */
function countReferences (value: Json, parts: number, place: Place): void {
  if (typeof value === 'string') {
    if (referenceAttempt.test(value)) place.context.count(parts, place.path)
  } else if (Array.isArray(value)) {
    // By index and by for-in, which create no objects for many thousand values.
    for (let i = 0; i < value.length; i++) countReferences(value[i] as Json, parts, place)
  } else if (isObject(value)) {
    for (const key in value) {
      countReferences(value[key] as Json, key.startsWith('$') ? 1 : parts, place)
    }
  }
}

/** Replaces an invalid table, so that the issues of the other members are found as well. */
const invalidTable: TableName = { schema: '', name: '' }

/** Plans the name of the table or of the function; returns undefined after an issue. */
function planTarget (
  kind: OperationKind | undefined,
  context: PlanContext
): TableName | undefined {
  const [name, schema, plan] = kind === 'call'
    ? ['function', FunctionText, planName] as const
    : ['table', TableText, planTable] as const
  const place = { context, path: [name] }
  const text = requireMember(name, context)
  if (text === undefined || !checkSchema(schema, text, place)) return undefined
  return plan(text as string, place)
}

type CommonMembers = Omit<OperationNode, 'output'>

const planners: {
  readonly [Kind in OperationKind]: (
    members: Members<Kind>,
    common: CommonMembers,
    context: PlanContext
  ) => PlanNode | undefined
} = {
  insert: planInsert,
  update: planUpdate,
  delete: planDelete,
  select: planSelect,
  call: planCall
}

function planInsert (
  members: Members<'insert'>,
  common: CommonMembers,
  context: PlanContext
): InsertNode | undefined {
  const { operation } = context
  const query = planInsertQuery(members, context)
  const values = query === undefined ? requireMember('values', context) : undefined
  const rows = values === undefined ? undefined : readRows(values, context)
  const runs = query === undefined ? rows?.runs : query.runs
  const conflict = has(operation, 'on_conflict')
    ? planConflict(operation['on_conflict'] as Json, runs, context)
    : undefined
  const output = planReturning(members.returning, context)
    ?.map(column => markInserted(column, conflict))
  const node = { kind: 'insert' as const, ...common, conflict, output }
  if (query !== undefined) return query.planned && { ...node, groups: [], query: query.planned }
  if (rows === undefined) return undefined
  const groups = planRowGroups(rows, countRepeatedParts(conflict, output), context)
  return groups === undefined ? undefined : { ...node, groups }
}

/** Plans the query of an insert without `values`. `runs`: the columns that it inserts. */
function planInsertQuery ({ from }: Members<'insert'>, context: PlanContext): {
  readonly planned: InsertQuery | undefined,
  readonly runs: ReadonlyArray<{ readonly columns: readonly string[] }> | undefined
} | undefined {
  const { operation, batch: { limits: { maxRows, maxUploadRows = 0 } } } = context
  if (!has(operation, 'from')) {
    if (has(operation, 'columns')) {
      context.addIssue('member_invalid', ['columns'], '"columns" requires "from" in an insert.')
    }
    return undefined
  }
  if (has(operation, 'values')) {
    context.addIssue('member_invalid', ['values'], '"values" and "from" exclude each other.')
  }
  const columns = requireMember('columns', context)
  const planned = from && planFrom(from, context)
  // Without a valid `from`, the other values are still checked.
  const readSource = planned?.read ?? readPath
  const set = planSet(columns, { context, path: ['columns'], readSource }, planInsertWord)
  const source = planned?.finish()
  // Rows of a parameter were counted when they came; an upload may have more than MAX_ROWS.
  const max = source?.kind === 'rows' ? Math.max(maxRows, maxUploadRows) : maxRows
  return {
    planned: source && set && { source, set, maxRows: max },
    runs: set && [{ columns: set.map(({ column }) => column) }]
  }
}

function planUpdate (
  members: Members<'update'>,
  common: CommonMembers,
  context: PlanContext
): UpdateNode | BulkUpdateNode | undefined {
  const { operation } = context
  if (has(operation, 'key')) return planBulkUpdate(members, common, context)
  const values = requireMember(
    'set',
    context,
    has(operation, 'values') ? '"values" works only together with "key".' : undefined
  )
  const joined = planJoin(members.from, context)
  const set = planSet(values, { context, path: ['set'], readSource: joined?.read })
  const where = planRequiredFilter(members, joined, context)
  const output = planReturning(members.returning, context)
  if (set === undefined) return undefined
  return withJoin({ kind: 'update', ...common, set, where, output }, joined)
}

function planBulkUpdate (
  { key = [], where: filter, returning }: Members<'update'>,
  common: CommonMembers,
  context: PlanContext
): BulkUpdateNode | undefined {
  for (const [name, reason] of Object.entries(besideKey)) {
    if (has(context.operation, name)) context.addIssue('member_invalid', [name], reason)
  }
  const values = requireMember('values', context)
  if (filter !== undefined && Object.keys(filter).length === 0) {
    const message = '"where" must not be empty; to change the row of every key, remove it.'
    context.addIssue('where_empty', ['where'], message)
  }
  const where = planFilter(filter, { context, path: ['where'] })
  const output = planReturning(returning, context)
  if (values === undefined) return undefined
  const parts = flattenConditions(where).length + (output?.length ?? 0)
  const groups = planKeyRows(key, values, { parts, context })
  return groups && { kind: 'bulk_update', ...common, groups, where, output }
}

function planDelete (
  members: Members<'delete'>,
  common: CommonMembers,
  context: PlanContext
): DeleteNode | undefined {
  const joined = planJoin(members.from, context)
  const where = planRequiredFilter(members, joined, context)
  const output = planReturning(members.returning, context)
  return withJoin({ kind: 'delete', ...common, where, output }, joined)
}

function planSelect (
  members: Members<'select'>,
  common: CommonMembers,
  context: PlanContext
): SelectNode {
  const { operation, table } = context
  const { columns, group_by: groups, having, with: nested, after } = members
  // A group has no whole row.
  const reader = ['group_by', 'having'].find(name => has(operation, name))
  if (reader !== undefined && !has(operation, 'columns')) {
    context.addIssue('member_missing', ['columns'], `"${reader}" requires "columns".`)
  }
  const grouped = groups !== undefined || having !== undefined
  const output = columns === undefined || (isWhole(columns) && !grouped)
    ? undefined
    : planOutput(columns, { context, path: ['columns'], table })
  checkLock(operation, context)
  checkNested(operation, output, context)
  const query = { output, ...planQuery(members, output, { context, path: [], table }) }
  return {
    kind: 'select',
    ...common,
    ...query,
    nested: nested &&
      planNested(nested, output, { context, path: ['with'], level: 1, outer: table }),
    after: after === undefined ? undefined : planAfter(after as readonly Json[], query, context),
    lock: planLock(members.lock)
  }
}

/** Adds an issue for a lock if returned rows are not single rows of the table. */
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

function planReturning (
  columns: Members<'insert'>['returning'],
  context: PlanContext
): PlanNode['output'] {
  return planColumns(columns, { context, path: ['returning'], table: context.table })
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
  { all: isAll, where }: Members<'update' | 'delete'>,
  joined: PlannedJoin | undefined,
  context: PlanContext
): readonly Predicate[] {
  const all = isAll === true
  if (all && joined !== undefined) {
    context.addIssue(
      'member_invalid',
      ['all'],
      '"all" and "from" exclude each other: only rows that meet a row of "from" are affected.'
    )
  }
  if (!has(context.operation, 'where') && !all && joined === undefined) {
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
