/**
 * `where`: JSON → predicates. The shape was checked against the grammar before; what is left are
 * the limits of a whole filter. Whether column and operand fit each other is PostgreSQL's business.
 */
import {
  operators,
  type OperandKind,
  type Operator,
  type OperatorName
} from '../../schemas/filter.ts'
import { maxColumns } from '../../schemas/operation.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { planDocument, planScalar, referenceDocument, specialMember } from './document.ts'
import { readPath } from './name.ts'
import type { ColumnPath, List, Operand, Path, PlanOptions, Predicate, Single } from './nodes.ts'

interface Place extends PlanOptions {
  readonly path: Path
  /** What the column or path gives that is looked at; undefined outside of a column. */
  readonly gives?: ColumnPath['gives']
  /**
   * Whether an odd number of `not` stands around this place: then what meets no row meets every
   * row.
   */
  readonly negated: boolean
  readonly used: { conditions: number, readonly columns: Set<string> }
}

/** Every predicate of a filter that has the shape of its schema; all of them must hold. */
export function planFilter (
  filter: JsonObject,
  path: Path,
  options: PlanOptions
): readonly Predicate[] {
  const used = { conditions: 0, columns: new Set<string>() }
  const predicates = planMembers(filter, { ...options, path, negated: false, used })
  const { findings, limits: { maxConditions } } = options
  if (used.conditions > maxConditions) {
    findings.fault(
      'member_invalid',
      path,
      `${path.join('.')} holds ${used.conditions} conditions, at most ${maxConditions} are allowed.`
    )
  }
  if (used.columns.size > maxColumns) {
    findings.fault(
      'member_invalid',
      path,
      `${path.join('.')} names ${used.columns.size} columns, at most ${maxColumns} are allowed.`
    )
  }
  return predicates
}

function planMembers (filter: JsonObject, place: Place): readonly Predicate[] {
  return Object.entries(filter).flatMap(([key, value]): readonly Predicate[] => {
    const inner = within(place, key)
    if (key === 'and' || key === 'or') {
      return [{
        kind: key,
        of: (value as readonly JsonObject[]).map((member, i) =>
          both(planMembers(member, within(inner, i)))
        )
      }]
    }
    if (key === 'not') {
      return [{
        kind: 'not',
        of: both(planMembers(value as JsonObject, { ...inner, negated: !place.negated }))
      }]
    }
    return planTests(key, value as JsonObject, inner)
  })
}

/** The operators of one column. */
function planTests (column: string, tests: JsonObject, place: Place): readonly Predicate[] {
  const path = readPath(column)
  place.used.columns.add(path.column)
  return Object.entries(tests).map(([name, operand]): Predicate => {
    const inner = { ...within(place, name), gives: path.gives }
    if (name === 'not') {
      return {
        kind: 'not',
        of: both(planTests(column, operand as JsonObject, { ...inner, negated: !place.negated }))
      }
    }
    place.used.conditions++
    const operator: Operator = operators[name as OperatorName]
    const planned = planners[operator.takes](
      operand,
      inner,
      rowsNeeded(operator.emptyMeets === true, place)
    )
    return { kind: 'condition', column: path, operator: name as OperatorName, operand: planned }
  })
}

function both (predicates: readonly Predicate[]): Predicate {
  return predicates.length === 1 ? predicates[0] as Predicate : { kind: 'and', of: predicates }
}

/** `rows`: how many rows a list of an earlier operation must have. */
const planners: Record<OperandKind, (operand: Json, place: Place, rows: number) => Operand> = {
  comparand (operand, place, rows) {
    const quantifier = isObject(operand)
      ? (['any', 'all'] as const).find(name => has(operand, name))
      : undefined
    if (quantifier === undefined) return planSingle(operand, place, rows)
    const list = (operand as JsonObject)[quantifier] as Json
    return {
      kind: 'quantified',
      quantifier,
      list: planList(list, within(place, quantifier), rowsNeeded(quantifier === 'all', place))
    }
  },
  distinct: (operand, place, rows) =>
    operand === null ? { kind: 'keyword', word: null } : planSingle(operand, place, rows),
  list: planList,
  keys: planList,
  bounds (operand, place) {
    const [low, high] = (operand as readonly [Json, Json]).map((bound, i) =>
      planSingle(bound, within(place, i), 0)
    ) as [Single, Single]
    return { kind: 'bounds', low, high }
  },
  keyword: operand => ({
    kind: 'keyword',
    word: operand as null | boolean | 'not_null' | 'unknown'
  }),
  key: planSingle,
  search (operand, { path, findings }) {
    if (!isObject(operand)) {
      return { kind: 'search', query: planScalar(operand, path, findings), config: undefined }
    }
    return {
      kind: 'search',
      query: planScalar(operand['query'] as Json, [...path, 'query'], findings),
      config: operand['config'] as string | undefined
    }
  },
  json: (operand, place, rows) =>
    specialMember(operand) === undefined
      ? planDocument(operand, place.path, place.findings, rows)
      : planSingle(operand, place, rows)
}

/**
 * One value: a scalar, a reference, a column, or JSON inside `$value`, where lists have to have
 * `rows`.
 */
function planSingle (operand: Json, { path, gives, findings }: Place, rows: number): Single {
  if (!isObject(operand)) return planScalar(operand, path, findings)
  if (gives === 'text' && operand['$value'] === null) {
    findings.fault(
      'operand_invalid',
      [...path, '$value'],
      '->> gives text, which is never the JSON null; ' +
        '{"is": null} asks for NULL, and -> gives JSON.'
    )
  }
  if (has(operand, '$value')) {
    return planDocument(operand['$value'] as Json, [...path, '$value'], findings, rows)
  }
  return {
    kind: 'column',
    path: readPath(Object.values(operand)[0] as string),
    of: has(operand, '$excluded') ? 'excluded' : 'row'
  }
}

function planList (operand: Json, place: Place, rows: number): List {
  const { path, findings } = place
  if (typeof operand === 'string') {
    return { kind: 'list', literals: [], references: planDocument(operand, path, findings, rows) }
  }
  const members = (operand as readonly Json[]).map((member, i) =>
    planScalar(member, [...path, i], findings)
  )
  const references = members.filter(member => member.kind === 'reference')
  return {
    kind: 'list',
    literals: members.filter(member => member.kind === 'literal'),
    references: references.length === 0 ? undefined : referenceDocument(references)
  }
}

/** How many rows a list must have so that the condition does not meet every row. */
function rowsNeeded (emptyMeets: boolean, { negated }: Place): number {
  return emptyMeets === negated ? 0 : 1
}

function within (place: Place, step: string | number): Place {
  return { ...place, path: [...place.path, step] }
}
