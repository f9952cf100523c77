/**
 * JSON → Plan, pure: every operation of a batch is read and all faults are reported at once. Nothing here knows SQL or a database.
 */
import { maxDepth, operationId, operations, knownMembers, type OperationKind } from '../../schemas/operation.ts'
import type { Batch } from '../../schemas/batch.ts'
import type { Fault, FaultCode } from '../../schemas/error.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { planFilter } from './filter.ts'
import { planTable } from './name.ts'
import type { Condition, Findings, Path, Plan, PlanLimits, PlanNode, Reading, TableName } from './nodes.ts'
import { readString } from './reference.ts'
import { planSet, planValues } from './values.ts'

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
  return {
    fault,
    string (text, path) {
      const meaning = readString(text, shared.earlier)
      if (meaning.kind === 'data') return meaning.text
      if (meaning.kind === 'reference') {
        const known = shared.readings.get(meaning.source)
        if (known === undefined) shared.readings.set(meaning.source, [{ reference: meaning, reader: index }])
        else known.push({ reference: meaning, reader: index })
        return meaning
      }
      fault(meaning.kind === 'unknown' ? 'reference_unknown' : 'reference_malformed', path, meaning.message)
      return text
    }
  }
}

function planOperation (operation: JsonObject, context: Context): PlanNode | undefined {
  const { index, id, findings, limits } = context
  if (!operationId.test(id)) findings.fault('id_invalid', ['id'], `id must match ${operationId.source}.`)
  const table = member(operation, 'table', findings)
  const name = table === undefined ? undefined : planTable(table, findings, limits)
  checkMembers(operation, findings)
  const op = planKind(operation, findings)
  const tooDeep = findDepth(operation, 2)
  // The planners of the members recurse, so they must not see it.
  if (tooDeep !== undefined) return findings.fault('depth_exceeded', tooDeep, `The body nests deeper than ${maxDepth}.`)
  if (op === undefined) return undefined
  if (has(operation, 'all') && !has(operations[op].properties, 'all')) findings.fault('member_invalid', ['all'], `all belongs to update and delete, not to ${op}.`)
  const node = planners[op](operation, { index, id, table: name ?? nowhere }, context)
  return name === undefined ? undefined : node
}

/** Characters of all faults that are listed: each repeats id and path, so a mebibyte of body could become 500 of answer. */
const maxFaultsLength = 262_144

/** Stands in for a table that is faulty, so that the faults of the other members are found as well. */
const nowhere: TableName = { schema: '', name: '' }

type Head = Pick<PlanNode, 'index' | 'id' | 'table'>

const planners: Record<OperationKind, (operation: JsonObject, head: Head, context: Context) => PlanNode | undefined> = {
  insert (operation, head, { findings, limits }) {
    const values = member(operation, 'values', findings)
    const rows = values === undefined ? undefined : planValues(values, findings, limits)
    return rows === undefined ? undefined : { kind: 'insert', ...head, groups: rows }
  },
  update (operation, head, context) {
    const set = member(operation, 'set', context.findings)
    const changes = set === undefined ? undefined : planSet(set, context.findings)
    const where = planChosenRows(operation, context)
    return changes === undefined ? undefined : { kind: 'update', ...head, ...changes, where }
  },
  delete (operation, head, context) {
    return { kind: 'delete', ...head, where: planChosenRows(operation, context) }
  },
  select (operation, head, { findings, limits }) {
    const where = operation['where']
    return { kind: 'select', ...head, where: where === undefined ? [] : planFilter(where, 'operand_invalid', findings, limits) }
  }
}

/** `where` of update and delete. Changing every row must be said: `"all": true`; an empty filter alone is a fault. */
function planChosenRows (operation: JsonObject, { findings, limits }: Context): readonly Condition[] {
  const all = operation['all'] === true
  if (has(operation, 'all') && !all) findings.fault('member_invalid', ['all'], 'all can only be true.')
  const where = has(operation, 'where') ? operation['where'] : undefined
  if (where === undefined) {
    if (!all) findings.fault('member_missing', ['where'], 'where is required; "all": true means every row.')
    return []
  }
  if (isObject(where) && Object.keys(where).length === 0) {
    if (!all) findings.fault('where_empty', ['where'], 'where holds no condition; "all": true means every row.')
    return []
  }
  if (all && isObject(where)) findings.fault('member_invalid', ['all'], 'all stands beside conditions; leave out one of the two.')
  return planFilter(where, 'where_empty', findings, limits)
}

function planKind (operation: JsonObject, findings: Findings): OperationKind | undefined {
  const op = member(operation, 'op', findings)
  if (op === undefined) return undefined
  if (typeof op !== 'string') return findings.fault('member_invalid', ['op'], 'op must be a string.')
  if (!Object.hasOwn(operations, op)) return findings.fault('op_unknown', ['op'], `op must be one of ${Object.keys(operations).join(', ')}.`)
  return op as OperationKind
}

/** Members that some other kind of operation uses are ignored; what nobody defined is refused: `wheer` would read the whole table. */
function checkMembers (operation: JsonObject, findings: Findings): void {
  for (const name of Object.keys(operation)) {
    if (!knownMembers.has(name)) findings.fault('member_unknown', [name], `There is no member "${name}".`)
  }
}

function member (operation: JsonObject, name: string, findings: Findings): Json | undefined {
  if (has(operation, name)) return operation[name]
  return findings.fault('member_missing', [name], `${name} is required.`)
}

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
