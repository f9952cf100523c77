/**
 * JSON → Plan, pure: every operation of a batch is read and all faults are reported at once. Nothing here knows SQL or a database.
 */
import type { TSchema } from '@sinclair/typebox'
import { ignoredMembers, maxDepth, memberKinds, operationId, operations, type Aggregate, type Expect, type LockMode, type LockWait, type OperationKind, type Ordering, type Output } from '../../schemas/operation.ts'
import type { Batch } from '../../schemas/batch.ts'
import type { Fault, FaultCode } from '../../schemas/error.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { checkShape } from './check.ts'
import { planConflict } from './conflict.ts'
import { planFilter } from './filter.ts'
import { planTable, readPath } from './name.ts'
import type { Findings, Path, Plan, PlanLimits, PlanNode, Predicate, Reading, SelectNode, TableName } from './nodes.ts'
import { planExpectation, planOrder, planOutput } from './output.ts'
import { readString } from './reference.ts'
import { planSet } from './set.ts'
import { planValues } from './values.ts'

/** What an operation is read in: its place, the ids before it and where its findings go. */
interface Context {
  readonly index: number
  readonly id: string
  readonly findings: Findings
  readonly limits: PlanLimits
}

/**
 * Plans a batch that passed the request-level checks. Throws `validation_failed` with every fault of every operation:
 * status 422, or 403 when nothing but forbidden schemas is wrong.
 */
export function planBatch (batch: Batch, limits: PlanLimits): Plan {
  const faults: Fault[] = []
  const readings = new Map<number, Reading[]>()
  const earlier = new Map<string, number>()
  const planned: PlanNode[] = []
  for (const [index, element] of batch.entries()) {
    const findings = collect(element.id, index, { faults, readings, earlier })
    const node = planOperation(element as unknown as JsonObject, { index, id: element.id, findings, limits })
    if (node !== undefined) planned.push(node)
    earlier.set(element.id, index)
  }
  if (faults.length > 0) throw refuse(faults)
  return { operations: planned, readings }
}

/** The fields of `findings` write into what the whole batch shares. */
function collect (op: string, index: number, shared: { faults: Fault[], readings: Map<number, Reading[]>, earlier: ReadonlyMap<string, number> }): Findings {
  const fault = (code: FaultCode, path: Path, message: string): undefined => {
    shared.faults.push({ op, index, code, path: [...path], message })
  }
  const read = (text: string, path: Path) => {
    const meaning = readString(text, shared.earlier)
    if (meaning.kind === 'unknown') fault('reference_unknown', path, meaning.message)
    if (meaning.kind === 'malformed') fault('reference_malformed', path, meaning.message)
    return meaning
  }
  return {
    fault,
    read,
    string (text, path, rows = 0) {
      const meaning = read(text, path)
      if (meaning.kind !== 'reference') return meaning.kind === 'data' ? meaning.text : text
      const reading = { reference: meaning, reader: index, rows: meaning.row === '*' ? rows : meaning.row + 1 }
      const known = shared.readings.get(meaning.source)
      if (known === undefined) shared.readings.set(meaning.source, [reading])
      else known.push(reading)
      return meaning
    }
  }
}

function planOperation (operation: JsonObject, context: Context): PlanNode | undefined {
  const { index, id, findings, limits } = context
  if (!operationId.test(id)) findings.fault('id_invalid', ['id'], `id must match ${operationId.source}.`)
  const op = planKind(operation, findings)
  const table = required(operation, 'table', operations[op ?? 'select'], findings) as string | undefined
  const name = table === undefined ? undefined : planTable(table, findings, limits)
  checkMembers(operation, op, findings)
  const tooDeep = findDepth(operation, 2)
  // The planners of the members recurse, so they must not see it.
  if (tooDeep !== undefined) return findings.fault('depth_exceeded', tooDeep, `The body nests deeper than ${maxDepth}.`)
  if (op === undefined) return undefined
  const expect = planExpectation(optional(operation, 'expect', operations[op], findings) as Expect | undefined, findings)
  const node = planners[op](operation, { index, id, table: name ?? nowhere, expect }, context)
  return name === undefined ? undefined : node
}

/** Characters of all faults that are listed: each repeats id and path, so a mebibyte of body could become 500 of answer. */
const maxFaultsLength = 262_144

/** Stands in for a table that is faulty, so that the faults of the other members are found as well. */
const nowhere: TableName = { schema: '', name: '' }

type Head = Pick<PlanNode, 'index' | 'id' | 'table' | 'expect'>

const planners: Record<OperationKind, (operation: JsonObject, head: Head, context: Context) => PlanNode | undefined> = {
  insert (operation, head, { findings, limits }) {
    const values = present(operation, 'values', findings)
    const groups = values === undefined ? undefined : planValues(values, findings, limits)
    const conflict = has(operation, 'on_conflict') ? planConflict(operation['on_conflict'] as Json, groups, { findings, limits }) : undefined
    const output = planReturning(operation, 'insert', findings)
    return groups === undefined ? undefined : { kind: 'insert', ...head, groups, conflict, output }
  },
  update (operation, head, context) {
    const { findings } = context
    const set = present(operation, 'set', findings)
    const changes = set === undefined ? undefined : planSet(set, findings)
    const where = planChosenRows(operation, 'update', context)
    const output = planReturning(operation, 'update', findings)
    return changes === undefined ? undefined : { kind: 'update', ...head, ...changes, where, output }
  },
  delete (operation, head, context) {
    return { kind: 'delete', ...head, where: planChosenRows(operation, 'delete', context), output: planReturning(operation, 'delete', context.findings) }
  },
  select (operation, head, { findings, limits }) {
    const member = (name: string): unknown => optional(operation, name, operations.select, findings)
    const where = member('where') as JsonObject | undefined
    const columns = member('columns') as ReadonlyArray<Output | Aggregate> | undefined
    const groupBy = member('group_by') as readonly string[] | undefined
    if (groupBy !== undefined && !has(operation, 'columns')) findings.fault('member_missing', ['columns'], 'group_by needs columns: a group has no whole row.')
    const output = columns === undefined ? undefined : planOutput(columns, ['columns'], findings)
    const lock = member('lock') as LockMode | { readonly mode?: LockMode, readonly wait?: LockWait } | undefined
    return {
      kind: 'select',
      ...head,
      where: where === undefined ? [] : planFilter(where, ['where'], { findings, limits }),
      output,
      groupBy: groupBy?.map(readPath) ?? [],
      order: planOrder((member('order') ?? []) as ReadonlyArray<Record<string, Ordering>>, output),
      limit: member('limit') as number | undefined,
      offset: member('offset') as number | undefined,
      lock: lock === undefined ? undefined : planLock(lock)
    }
  }
}

function planLock (lock: LockMode | { readonly mode?: LockMode, readonly wait?: LockWait }): SelectNode['lock'] {
  const { mode = 'update', wait } = typeof lock === 'string' ? { mode: lock } : lock
  return { mode, wait }
}

function planReturning (operation: JsonObject, op: OperationKind, findings: Findings): PlanNode['output'] {
  const returning = optional(operation, 'returning', operations[op], findings) as readonly Output[] | undefined
  return returning === undefined ? undefined : planOutput(returning, ['returning'], findings)
}

/** `where` of update and delete. Changing every row must be said: `"all": true`; an empty filter alone is a fault. */
function planChosenRows (operation: JsonObject, op: 'update' | 'delete', { findings, limits }: Context): readonly Predicate[] {
  const all = optional(operation, 'all', operations[op], findings) === true
  const where = optional(operation, 'where', operations[op], findings) as JsonObject | undefined
  if (!has(operation, 'where') && !all) return findings.fault('member_missing', ['where'], 'where is required; "all": true means every row.') ?? []
  if (where === undefined) return []
  if (Object.keys(where).length === 0) {
    if (!all) findings.fault('where_empty', ['where'], 'where holds no condition; "all": true means every row.')
    return []
  }
  if (all) findings.fault('member_invalid', ['all'], 'all stands beside conditions; leave out one of the two.')
  return planFilter(where, ['where'], { findings, limits })
}

function planKind (operation: JsonObject, findings: Findings): OperationKind | undefined {
  const op = present(operation, 'op', findings)
  if (op === undefined) return undefined
  if (typeof op !== 'string') return findings.fault('member_invalid', ['op'], 'op must be a string.')
  if (!Object.hasOwn(operations, op)) return findings.fault('op_unknown', ['op'], `op must be one of ${Object.keys(operations).join(', ')}.`)
  return op as OperationKind
}

/**
 * What nobody defined is refused: `wheer` would read the whole table. What belongs to another kind is refused as well, `limit` of a delete,
 * except for the three members that have always been ignored there.
 */
function checkMembers (operation: JsonObject, op: OperationKind | undefined, findings: Findings): void {
  for (const name of Object.keys(operation)) {
    const kinds = memberKinds.get(name)
    if (kinds === undefined) findings.fault('member_unknown', [name], `There is no member "${name}".`)
    else if (op !== undefined && !kinds.includes(op) && !ignoredMembers.has(name)) findings.fault('member_invalid', [name], `${name} belongs to ${kinds.join(' and ')}, not to ${op}.`)
  }
}

function present (operation: JsonObject, name: string, findings: Findings): Json | undefined {
  if (has(operation, name)) return operation[name]
  return findings.fault('member_missing', [name], `${name} is required.`)
}

/** A member that is there and has the shape of its schema; any other is noted, a missing one too. */
function required (operation: JsonObject, name: string, schema: Schema, findings: Findings): Json | undefined {
  return present(operation, name, findings) === undefined ? undefined : optional(operation, name, schema, findings)
}

/** A member that is there and has the shape of its schema; one that has not is noted. */
function optional (operation: JsonObject, name: string, { properties }: Schema, findings: Findings): Json | undefined {
  if (!has(operation, name)) return undefined
  const value = operation[name] as Json
  return checkShape(properties[name] as TSchema, value, [name], findings) ? value : undefined
}

interface Schema { readonly properties: Readonly<Record<string, TSchema>> }

/** Path to the first node that nests too deep; never recurses deeper than that. An operation is level 2 of the body. */
function findDepth (node: Json, level: number): Path | undefined {
  if (typeof node !== 'object' || node === null) return undefined
  if (level > maxDepth) return []
  const entries = Array.isArray(node) ? (node as readonly Json[]).entries() : isObject(node) ? Object.entries(node) : []
  for (const [key, value] of entries) {
    const found = findDepth(value, level + 1)
    if (found !== undefined) return [key, ...found]
  }
  return undefined
}

function refuse (faults: Fault[]): Failure {
  const listed = faults.slice(0, countFitting(faults))
  const message = faults.length === 1 ? faults[0]?.message : `The batch has ${faults.length} faults${listed.length < faults.length ? `, of which the first ${listed.length} are listed` : ''}.`
  const refused = failure('validation_failed', message, { errors: listed })
  if (!faults.every(fault => fault.code === 'schema_forbidden')) return refused
  return new Failure({ type: refused.type, code: refused.code, status: 403, message: refused.message, details: refused.details })
}

/** How many faults an answer has room for, at least one. */
function countFitting (faults: readonly Fault[]): number {
  let size = 0
  const end = faults.findIndex(fault => {
    size += JSON.stringify(fault).length
    return size > maxFaultsLength
  })
  return end < 0 ? faults.length : Math.max(1, end)
}
