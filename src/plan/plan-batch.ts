/**
 * JSON → Plan, pure: every operation of a batch is read and all faults are reported at once.
 * Nothing here knows SQL or a database.
 */
import {
  maxDepth,
  operationId,
  operations,
  type Aggregate,
  type Expect,
  type Lock,
  type OperationKind,
  type Ordering,
  type Output
} from '../../schemas/operation.ts'
import type { Batch } from '../../schemas/batch.ts'
import { has, isDeep, type Json, type JsonObject } from '../json/parse.ts'
import { planConflict } from './on-conflict.ts'
import { planFilter } from './filter.ts'
import { collectIssues, createPlanContext } from './issues.ts'
import { checkMembers, optional, planKind, present, required } from './members.ts'
import { planTable, readPath } from './name.ts'
import type {
  PlanContext,
  Path,
  Plan,
  PlanLimits,
  PlanNode,
  PlanOptions,
  Predicate,
  ReferenceUse,
  SelectNode,
  TableName
} from './nodes.ts'
import { planExpectation, planOrder, planOutput } from './output.ts'
import { planSet } from './set.ts'
import { countParts, planGroups, readRows } from './values.ts'

/** What an operation is read in: its place, the ids before it and where its findings go. */
interface Context extends PlanOptions {
  readonly index: number
  readonly id: string
  /** Whether something in the body nests too deep. */
  readonly deep: boolean
}

/**
 * Plans a batch that was parsed by parseJson and passed the request-level checks. Throws
 * `validation_failed` with every fault of every operation: status 422, or 403 when nothing but
 * forbidden schemas is wrong.
 */
export function planBatch (batch: Batch, limits: PlanLimits): Plan {
  const faults = collectIssues()
  const referenceUses = new Map<number, ReferenceUse[]>()
  const earlier = new Map<string, number>()
  const planned: PlanNode[] = []
  const deep = isDeep(batch)
  for (const [index, element] of batch.entries()) {
    const findings = createPlanContext({ op: element.id, index, faults, referenceUses, earlier })
    const node = planOperation(element as unknown as JsonObject, {
      index,
      id: element.id,
      deep,
      findings,
      limits
    })
    if (node !== undefined) planned.push(node)
    earlier.set(element.id, index)
  }
  faults.refuse()
  return { operations: planned, referenceUses }
}

function planOperation (operation: JsonObject, context: Context): PlanNode | undefined {
  const { index, id, deep, findings, limits } = context
  if (!operationId.test(id)) {
    findings.fault('id_invalid', ['id'], `id must match ${operationId.source}.`)
  }
  const op = planKind(operation, findings)
  const table = required(operation, 'table', operations[op ?? 'select'], findings) as
    | string
    | undefined
  const name = table === undefined ? undefined : planTable(table, findings, limits)
  checkMembers(operation, op, findings)
  const tooDeep = deep ? findDepth(operation, 2) : undefined
  // The planners of the members recurse, so they must not see it.
  if (tooDeep !== undefined) {
    return findings.fault('depth_exceeded', tooDeep, `The body nests deeper than ${maxDepth}.`)
  }
  if (op === undefined) return undefined
  const expect = planExpectation(
    optional(operation, 'expect', operations[op], findings) as Expect | undefined,
    findings
  )
  const node = planners[op](operation, { index, id, table: name ?? nowhere, expect }, context)
  return name === undefined ? undefined : node
}

/**
 * Stands in for a table that is faulty, so that the faults of the other members are found as well.
 */
const nowhere: TableName = { schema: '', name: '' }

type Head = Pick<PlanNode, 'index' | 'id' | 'table' | 'expect'>

const planners: Record<
  OperationKind,
  (operation: JsonObject, head: Head, context: Context) => PlanNode | undefined
> = {
  insert (operation, head, { findings, limits }) {
    const values = present(operation, 'values', findings)
    const rows = values === undefined ? undefined : readRows(values, { findings, limits })
    const conflict = has(operation, 'on_conflict')
      ? planConflict(operation['on_conflict'] as Json, rows?.runs, { findings, limits })
      : undefined
    const output = planReturning(operation, 'insert', findings)
    if (rows === undefined) return undefined
    const groups = planGroups(rows, countParts(conflict, output), findings)
    return groups === undefined ? undefined : { kind: 'insert', ...head, groups, conflict, output }
  },
  update (operation, head, context) {
    const { findings } = context
    const set = present(operation, 'set', findings)
    const changes = set === undefined ? undefined : planSet(set, findings)
    const where = planChosenRows(operation, 'update', context)
    const output = planReturning(operation, 'update', findings)
    return changes === undefined
      ? undefined
      : { kind: 'update', ...head, ...changes, where, output }
  },
  delete (operation, head, context) {
    return {
      kind: 'delete',
      ...head,
      where: planChosenRows(operation, 'delete', context),
      output: planReturning(operation, 'delete', context.findings)
    }
  },
  select (operation, head, { findings, limits }) {
    const member = (name: string): unknown => optional(operation, name, operations.select, findings)
    const where = member('where') as JsonObject | undefined
    const columns = member('columns') as ReadonlyArray<Output | Aggregate> | undefined
    const groupBy = member('group_by') as readonly string[] | undefined
    if (groupBy !== undefined && !has(operation, 'columns')) {
      findings.fault(
        'member_missing',
        ['columns'],
        'group_by needs columns: a group has no whole row.'
      )
    }
    const output = columns === undefined ? undefined : planOutput(columns, ['columns'], findings)
    return {
      kind: 'select',
      ...head,
      where: where === undefined ? [] : planFilter(where, ['where'], { findings, limits }),
      output,
      groupBy: groupBy?.map(readPath) ?? [],
      order: planOrder((member('order') ?? []) as ReadonlyArray<Record<string, Ordering>>, output),
      limit: member('limit') as number | undefined,
      offset: member('offset') as number | undefined,
      lock: planLock(member('lock') as Lock | undefined)
    }
  }
}

function planLock (lock: Lock | undefined): SelectNode['lock'] {
  if (lock === undefined) return undefined
  const { mode = 'update', wait } = typeof lock === 'string' ? { mode: lock } : lock
  return { mode, wait }
}

function planReturning (
  operation: JsonObject,
  op: OperationKind,
  findings: PlanContext
): PlanNode['output'] {
  const returning = optional(operation, 'returning', operations[op], findings) as
    | readonly Output[]
    | undefined
  return returning === undefined ? undefined : planOutput(returning, ['returning'], findings)
}

/**
 * `where` of update and delete. Changing every row must be said: `"all": true`; an empty filter
 * alone is a fault.
 */
function planChosenRows (
  operation: JsonObject,
  op: 'update' | 'delete',
  { findings, limits }: Context
): readonly Predicate[] {
  const all = optional(operation, 'all', operations[op], findings) === true
  const where = optional(operation, 'where', operations[op], findings) as JsonObject | undefined
  if (!has(operation, 'where') && !all) {
    return findings.fault(
      'member_missing',
      ['where'],
      'where is required; "all": true means every row.'
    ) ?? []
  }
  if (where === undefined) return []
  if (Object.keys(where).length === 0) {
    if (!all) {
      findings.fault(
        'where_empty',
        ['where'],
        'where holds no condition; "all": true means every row.'
      )
    }
    return []
  }
  if (all) {
    findings.fault(
      'member_invalid',
      ['all'],
      'all stands beside conditions; leave out one of the two.'
    )
  }
  return planFilter(where, ['where'], { findings, limits })
}

/**
 * Path to the first node that nests too deep; never recurses deeper than that. An operation is
 * level 2 of the body. In a body that is too deep every number is plain.
 */
function findDepth (node: Json, level: number): Path | undefined {
  if (typeof node !== 'object' || node === null) return undefined
  if (level > maxDepth) return []
  const entries: Iterable<readonly [key: string | number, value: Json]> = Array.isArray(node)
    ? (node as readonly Json[]).entries()
    : Object.entries(node as JsonObject)
  for (const [key, value] of entries) {
    const found = findDepth(value, level + 1)
    if (found !== undefined) return [key, ...found]
  }
  return undefined
}
