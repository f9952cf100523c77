/**
 * `where`: JSON → predicates. The shape was checked against the grammar before; what is left are references, limits, and what a schema
 * cannot say. Whether column and operand fit each other is PostgreSQL's business.
 */
import type { FaultCode } from '../../schemas/error.ts'
import { maxFilterDepth, operators, type OperandKind, type Operator, type OperatorName } from '../../schemas/filter.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { planDocument, referenceDocument } from './document.ts'
import { readPath } from './name.ts'
import type { ColumnOperand, Findings, List, Literal, Operand, Path, PlanLimits, Predicate, Reference, Single } from './nodes.ts'

export interface FilterOptions {
  readonly findings: Findings
  readonly limits: PlanLimits
  /** Whether there is a row that was to be inserted, so that operands may be its columns. */
  readonly excluded?: boolean
}

interface Place extends FilterOptions {
  readonly path: Path
  /** Combinators around this place. */
  readonly depth: number
  /** Whether an odd number of them are `not`: then what meets no row meets every row. */
  readonly negated: boolean
  readonly used: { conditions: number, readonly columns: Set<string> }
}

/** Every predicate of a filter that has the shape of its schema; all of them must hold. */
export function planFilter (filter: JsonObject, path: Path, options: FilterOptions): readonly Predicate[] {
  const used = { conditions: 0, columns: new Set<string>() }
  const predicates = planMembers(filter, { ...options, path, depth: 0, negated: false, used })
  const { findings, limits: { maxConditions } } = options
  if (used.conditions > maxConditions) findings.fault('member_invalid', path, `${path.join('.')} holds ${used.conditions} conditions, at most ${maxConditions} are allowed.`)
  if (used.columns.size > maxColumns) findings.fault('member_invalid', path, `${path.join('.')} names ${used.columns.size} columns, at most ${maxColumns} are allowed.`)
  return predicates
}

function planMembers (filter: JsonObject, place: Place): readonly Predicate[] {
  return Object.entries(filter).flatMap(([key, value]): readonly Predicate[] => {
    const inner = { ...place, path: [...place.path, key] }
    if (key === 'and' || key === 'or') return combine(inner, deeper => ({ kind: key, of: (value as readonly JsonObject[]).map((member, i) => both(planMembers(member, { ...deeper, path: [...deeper.path, i] }))) }))
    if (key === 'not') return combine({ ...inner, negated: !place.negated }, deeper => ({ kind: 'not', of: both(planMembers(value as JsonObject, deeper)) }))
    return planTests(key, value as JsonObject, inner)
  })
}

/** The operators of one column. */
function planTests (column: string, tests: JsonObject, place: Place): readonly Predicate[] {
  const path = readPath(column)
  place.used.columns.add(path.column)
  return Object.entries(tests).flatMap(([name, operand]): readonly Predicate[] => {
    const inner = { ...place, path: [...place.path, name] }
    if (name === 'not') return combine({ ...inner, negated: !place.negated }, deeper => ({ kind: 'not', of: both(planTests(column, operand as JsonObject, deeper)) }))
    const operator = name as OperatorName
    place.used.conditions++
    return [{ kind: 'condition', column: path, operator, operand: planners[operators[operator].takes](operand, operators[operator], inner) }]
  })
}

/** One level deeper, unless that is too deep. */
function combine (place: Place, plan: (deeper: Place) => Predicate): readonly Predicate[] {
  const depth = place.depth + 1
  if (depth <= maxFilterDepth) return [plan({ ...place, depth })]
  place.findings.fault('depth_exceeded', place.path, `Filters nest deeper than ${maxFilterDepth}.`)
  return []
}

function both (predicates: readonly Predicate[]): Predicate {
  return predicates.length === 1 ? predicates[0] as Predicate : { kind: 'and', of: predicates }
}

const planners: Record<OperandKind, (operand: Json, operator: Operator, place: Place) => Operand> = {
  comparand (operand, _operator, place) {
    if (!isObject(operand)) return planSingle(operand, place)
    for (const quantifier of ['any', 'all'] as const) {
      if (has(operand, quantifier)) {
        const list = planList(operand[quantifier] as Json, quantifier === 'all', { ...place, path: [...place.path, quantifier] })
        return { kind: 'quantified', quantifier, list }
      }
    }
    return planSingle(operand, place)
  },
  distinct: (operand, _operator, place) => operand === null ? { kind: 'keyword', word: null } : planSingle(operand, place),
  list: (operand, { emptyMeets = false }, place) => planList(operand, emptyMeets, place),
  keys: (operand, { emptyMeets = false }, place) => planList(operand, emptyMeets, place),
  bounds (operand, _operator, place) {
    const [low, high] = (operand as readonly [Json, Json]).map((bound, i) => planSingle(bound, { ...place, path: [...place.path, i] })) as [Single, Single]
    return { kind: 'bounds', low, high }
  },
  keyword: operand => ({ kind: 'keyword', word: operand as null | boolean | 'not_null' | 'unknown' }),
  key: (operand, _operator, place) => planSingle(operand, place),
  search (operand, _operator, place) {
    if (!isObject(operand)) return { kind: 'search', query: planText(operand as string, place), config: undefined }
    return { kind: 'search', query: planText(operand['query'] as string, { ...place, path: [...place.path, 'query'] }), config: operand['config'] as string | undefined }
  },
  json (operand, { emptyMeets = false }, place) {
    if (isObject(operand) && (isColumn(operand) || has(operand, '$value'))) return planSingle(operand, place)
    return planJson(operand, emptyMeets, place)
  }
}

function isColumn (operand: JsonObject): boolean {
  return Object.keys(operand).length === 1 && (has(operand, '$col') || has(operand, '$excluded'))
}

/** One value: a scalar, a reference, a column, or JSON inside `$value`. */
function planSingle (operand: Json, place: Place): Single {
  if (typeof operand === 'string') return planText(operand, place)
  if (!isObject(operand)) return literal(JSON.stringify(operand), operand)
  if (!isColumn(operand)) return planValue(operand['$value'] as Json, { ...place, path: [...place.path, '$value'] })
  const of = has(operand, '$excluded') ? 'excluded' : 'row'
  if (of === 'excluded' && place.excluded !== true) refuse(place, '$excluded has a meaning in on_conflict alone.')
  return { kind: 'column', path: readPath(Object.values(operand)[0] as string), of } satisfies ColumnOperand
}

function planText (operand: string, place: Place): Literal | Reference {
  const meaning = place.findings.string(operand, place.path)
  if (typeof meaning === 'string') return literal(meaning, meaning)
  if (meaning.row === '*') refuse(place, `"${operand}" is a list; it belongs into in, nin, any, all or a comparison of arrays.`)
  return meaning
}

function planValue (value: Json, place: Place): Single {
  if (value === null) refuse(place, 'null equals nothing in SQL; use {"is": null}.')
  return planDocument(value, place.path, place.findings)
}

/** JSON for a column of any type. A list that may turn out to be empty is refused where it would then meet every row. */
function planJson (operand: Json, emptyMeets: boolean, place: Place): Single {
  if (typeof operand !== 'string') return planDocument(operand, place.path, place.findings)
  const meaning = place.findings.string(operand, place.path, rowsNeeded(emptyMeets, place))
  return typeof meaning === 'string' ? planDocument(operand, place.path, place.findings) : { kind: 'document', pieces: ['', ''], references: [meaning] }
}

function planList (operand: Json, emptyMeets: boolean, place: Place): List {
  if (typeof operand === 'string') {
    const meaning = place.findings.string(operand, place.path, rowsNeeded(emptyMeets, place))
    if (typeof meaning !== 'string' && meaning.row === '*') return { kind: 'list', literals: [], references: { kind: 'document', pieces: ['', ''], references: [meaning] } }
    refuse(place, `${String(place.path.at(-1))} takes an array or a reference $op.*.column.`)
    return { kind: 'list', literals: [], references: undefined }
  }
  const members = (operand as readonly Json[]).map((member, i) => planSingle(member, { ...place, path: [...place.path, i] }))
  const references = members.filter(member => member.kind === 'reference')
  return { kind: 'list', literals: members.filter(member => member.kind === 'literal'), references: references.length === 0 ? undefined : referenceDocument(references) }
}

/** How many rows a list must have so that the condition does not meet every row. */
function rowsNeeded (emptyMeets: boolean, { negated }: Place): number {
  return emptyMeets === negated ? 0 : 1
}

function literal (text: string, value: Json): Literal {
  return { kind: 'literal', text, json: JSON.stringify(value) }
}

function refuse ({ findings, path }: Place, message: string): void {
  findings.fault('operand_invalid' satisfies FaultCode, path, message)
}
