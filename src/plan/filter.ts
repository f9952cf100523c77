/**
 * `where`: JSON → predicates. The shape was checked against the grammar before; what is left are the limits of a whole filter. Whether column
 * and operand fit each other is PostgreSQL's business.
 */
import { operators, type OperandKind, type Operator, type OperatorName } from '../../schemas/filter.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { planDocument, referenceDocument } from './document.ts'
import { readPath } from './name.ts'
import type { Findings, List, Literal, Operand, Path, PlanLimits, Predicate, Reference, Single } from './nodes.ts'

export interface FilterOptions { readonly findings: Findings, readonly limits: PlanLimits }

interface Place extends FilterOptions {
  readonly path: Path
  /** Whether an odd number of `not` stands around this place: then what meets no row meets every row. */
  readonly negated: boolean
  readonly used: { conditions: number, readonly columns: Set<string> }
}

/** Every predicate of a filter that has the shape of its schema; all of them must hold. */
export function planFilter (filter: JsonObject, path: Path, options: FilterOptions): readonly Predicate[] {
  const used = { conditions: 0, columns: new Set<string>() }
  const predicates = planMembers(filter, { ...options, path, negated: false, used })
  const { findings, limits: { maxConditions } } = options
  if (used.conditions > maxConditions) findings.fault('member_invalid', path, `${path.join('.')} holds ${used.conditions} conditions, at most ${maxConditions} are allowed.`)
  if (used.columns.size > maxColumns) findings.fault('member_invalid', path, `${path.join('.')} names ${used.columns.size} columns, at most ${maxColumns} are allowed.`)
  return predicates
}

function planMembers (filter: JsonObject, place: Place): readonly Predicate[] {
  return Object.entries(filter).flatMap(([key, value]): readonly Predicate[] => {
    const inner = within(place, key)
    if (key === 'and' || key === 'or') return [{ kind: key, of: (value as readonly JsonObject[]).map((member, i) => both(planMembers(member, within(inner, i)))) }]
    if (key === 'not') return [{ kind: 'not', of: both(planMembers(value as JsonObject, { ...inner, negated: !place.negated })) }]
    return planTests(key, value as JsonObject, inner)
  })
}

/** The operators of one column. */
function planTests (column: string, tests: JsonObject, place: Place): readonly Predicate[] {
  const path = readPath(column)
  place.used.columns.add(path.column)
  return Object.entries(tests).map(([name, operand]): Predicate => {
    const inner = within(place, name)
    if (name === 'not') return { kind: 'not', of: both(planTests(column, operand as JsonObject, { ...inner, negated: !place.negated })) }
    const operator = name as OperatorName
    place.used.conditions++
    return { kind: 'condition', column: path, operator, operand: planners[operators[operator].takes](operand, operators[operator], inner) }
  })
}

function both (predicates: readonly Predicate[]): Predicate {
  return predicates.length === 1 ? predicates[0] as Predicate : { kind: 'and', of: predicates }
}

const planners: Record<OperandKind, (operand: Json, operator: Operator, place: Place) => Operand> = {
  comparand (operand, { emptyMeets = false }, place) {
    const quantifier = isObject(operand) ? (['any', 'all'] as const).find(name => has(operand, name)) : undefined
    if (quantifier === undefined) return planSingle(operand, place, rowsNeeded(emptyMeets, place))
    return { kind: 'quantified', quantifier, list: planList((operand as JsonObject)[quantifier] as Json, quantifier === 'all', within(place, quantifier)) }
  },
  distinct: (operand, { emptyMeets = false }, place) => operand === null ? { kind: 'keyword', word: null } : planSingle(operand, place, rowsNeeded(emptyMeets, place)),
  list: (operand, { emptyMeets = false }, place) => planList(operand, emptyMeets, place),
  keys: (operand, { emptyMeets = false }, place) => planList(operand, emptyMeets, place),
  bounds (operand, _operator, place) {
    const [low, high] = (operand as readonly [Json, Json]).map((bound, i) => planSingle(bound, within(place, i))) as [Single, Single]
    return { kind: 'bounds', low, high }
  },
  keyword: operand => ({ kind: 'keyword', word: operand as null | boolean | 'not_null' | 'unknown' }),
  key: (operand, _operator, place) => planSingle(operand, place),
  search (operand, _operator, place) {
    if (!isObject(operand)) return { kind: 'search', query: planText(operand as string, place), config: undefined }
    return { kind: 'search', query: planText(operand['query'] as string, within(place, 'query')), config: operand['config'] as string | undefined }
  },
  json (operand, { emptyMeets = false }, place) {
    const special = isObject(operand) && Object.keys(operand).length === 1 && Object.keys(operand)[0]?.startsWith('$') === true
    return special ? planSingle(operand, place, rowsNeeded(emptyMeets, place)) : planDocument(operand, place.path, place.findings, rowsNeeded(emptyMeets, place))
  }
}

/** One value: a scalar, a reference, a column, or JSON inside `$value`, where lists have to have `rows`. */
function planSingle (operand: Json, place: Place, rows = 0): Single {
  if (typeof operand === 'string') return planText(operand, place)
  if (!isObject(operand)) return literal(JSON.stringify(operand), operand)
  if (has(operand, '$value')) return planDocument(operand['$value'] as Json, [...place.path, '$value'], place.findings, rows)
  return { kind: 'column', path: readPath(Object.values(operand)[0] as string), of: has(operand, '$excluded') ? 'excluded' : 'row' }
}

function planText (operand: string, { findings, path }: Place): Literal | Reference {
  const meaning = findings.string(operand, path)
  return typeof meaning === 'string' ? literal(meaning, meaning) : meaning
}

function planList (operand: Json, emptyMeets: boolean, place: Place): List {
  if (typeof operand === 'string') return { kind: 'list', literals: [], references: planDocument(operand, place.path, place.findings, rowsNeeded(emptyMeets, place)) }
  const members = (operand as readonly Json[]).map((member, i) => planSingle(member, within(place, i)))
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

function within (place: Place, step: string | number): Place {
  return { ...place, path: [...place.path, step] }
}
