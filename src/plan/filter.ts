/**
 * Plans filters: JSON → predicates. checkSchema has checked the shape, so only the limits of a
 * whole filter are checked here. PostgreSQL checks whether an operand fits its column.
 */
import type { OperandKind } from '../../schemas/operand.ts'
import { operators, type Operator, type OperatorName } from '../../schemas/operator.ts'
import { has, isObject, type Json, type JsonObject } from '../json/parse.ts'
import { within, type Place } from './context.ts'
import {
  countRequiredRows,
  planDocument,
  planList,
  planScalar,
  readDollarMember,
  type ListPlace
} from './document.ts'
import { columnsOf, planTable, readPath, type ReadColumn } from './name.ts'
import type {
  ColumnOperand,
  ColumnPath,
  Condition,
  Exists,
  Meeting,
  Operand,
  Predicate,
  Single
} from './nodes.ts'

/** How a filter reads the names of columns. */
interface FilterColumns {
  readonly read: ReadColumn
  /** Reads a column of `from`; undefined if the operation has no `from`. */
  readonly readSource?: ReadColumn | undefined
}

interface FilterPlace extends ListPlace, FilterColumns {
  /** Reads a column of the row that the whole filter is about, also inside `exists`. */
  readonly readRow: ReadColumn
  /** The column or path that operands are compared with; undefined outside its conditions. */
  readonly column?: ColumnPath
  /** Whether the column belongs to the table of `exists`. */
  readonly isForeign?: boolean
  /** The number of conditions of the whole filter. */
  readonly used: { conditions: number }
}

/**
 * Plans a filter whose shape is valid. Returns predicates of which all must hold, or an empty list
 * if there is no filter. By default it reads columns of the table of the operation.
 */
export function planFilter (
  filter: object | undefined,
  { context, path }: Place,
  columns: Partial<FilterColumns> = {}
): readonly Predicate[] {
  if (filter === undefined) return []
  const used = { conditions: 0 }
  const { read = columnsOf(context.table), readSource } = columns
  const place =
    { context, path, negated: false, minRows: 0, used, read, readRow: read, readSource }
  const predicates = planMembers(filter as JsonObject, place)
  const { maxConditions } = context.batch.limits
  if (used.conditions > maxConditions) {
    context.addIssue(
      'member_invalid',
      path,
      `"${path.join('.')}" has ${used.conditions} conditions; at most ${maxConditions} are allowed.`
    )
  }
  return predicates
}

function planMembers (filter: JsonObject, place: FilterPlace): readonly Predicate[] {
  return Object.entries(filter).flatMap(([key, value]): readonly Predicate[] => {
    const inner = within(place, key)
    if (key === 'and' || key === 'or') {
      return [{
        kind: key,
        of: (value as readonly JsonObject[]).map((member, i) =>
          combine(planMembers(member, within(inner, i)))
        )
      }]
    }
    if (key === 'not') {
      return [{
        kind: 'not',
        of: combine(planMembers(value as JsonObject, { ...inner, negated: !place.negated }))
      }]
    }
    // In the condition of an index, it is the name of a column.
    if ((key === 'exists' || key === 'not_exists') && has(value as JsonObject, 'table')) {
      return planExists(value as JsonObject, key === 'not_exists', inner)
    }
    return planConditions(key, value as JsonObject, inner)
  })
}

/** Returns no predicate after an issue of the table. */
function planExists (
  { table: text, on, where = {} }: JsonObject,
  negated: boolean,
  place: FilterPlace
): readonly Exists[] {
  place.used.conditions++
  const table = planTable(text as string, within(place, 'table'))
  const pairs = Object.entries(on as Readonly<Record<string, string>>)
  for (const [column, outer] of pairs) {
    const pair = within(within(place, 'on'), column)
    place.context.nameColumn(table, column, pair.path)
    place.read(outer, pair)
  }
  const inner = {
    ...within(place, 'where'),
    negated: place.negated !== negated,
    read: columnsOf(table),
    isForeign: true
  }
  const predicates = planMembers(where as JsonObject, inner)
  if (table === undefined) return []
  return [{ kind: 'exists', negated, table, on: pairs, where: predicates }]
}

/** Plans the conditions of one column. */
function planConditions (
  column: string,
  conditions: JsonObject,
  place: FilterPlace
): readonly Predicate[] {
  const path = place.read(column, place)
  return Object.entries(conditions).map(([name, operand]): Predicate => {
    const inner = { ...within(place, name), column: path }
    if (name === 'not') {
      const negated = { ...inner, negated: !place.negated }
      return { kind: 'not', of: combine(planConditions(column, operand as JsonObject, negated)) }
    }
    place.used.conditions++
    const operator: Operator = operators[name as OperatorName]
    const minRows = countRequiredRows(operator.emptyMatches === true, place.negated)
    const planned = planners[operator.takes](operand, { ...inner, minRows })
    return {
      kind: 'condition',
      column: path,
      operator: name as OperatorName,
      operand: planned,
      at: inner.path
    }
  })
}

/** All conditions of a filter, also those inside `exists`. */
export function flattenConditions (
  predicates: readonly Predicate[]
): ReadonlyArray<Condition | Exists> {
  return predicates.flatMap((predicate): ReadonlyArray<Condition | Exists> => {
    switch (predicate.kind) {
      case 'condition':
        return [predicate]
      case 'exists':
        return [predicate, ...flattenConditions(predicate.where)]
      case 'not':
        return flattenConditions([predicate.of])
      default:
        return flattenConditions(predicate.of)
    }
  })
}

function combine (predicates: readonly Predicate[]): Predicate {
  return predicates.length === 1 ? predicates[0] as Predicate : { kind: 'and', of: predicates }
}

const planners: Record<OperandKind, (operand: Json, place: FilterPlace) => Operand> = {
  comparand (operand, place) {
    const quantifier = isObject(operand)
      ? (['any', 'all'] as const).find(name => has(operand, name))
      : undefined
    if (quantifier === undefined) return planSingle(operand, place)
    const list = (operand as JsonObject)[quantifier] as Json
    const minRows = countRequiredRows(quantifier === 'all', place.negated)
    const inner = { ...within(place, quantifier), minRows }
    return { kind: 'quantified', quantifier, list: planList(list, inner) }
  },
  distinct: (operand, place) =>
    operand === null ? { kind: 'keyword', word: null } : planSingle(operand, place),
  list: planList,
  nonEmptyList: planList,
  keys: planList,
  bounds (operand, place) {
    const [low, high] = (operand as readonly [Json, Json]).map((bound, i) =>
      planSingle(bound, within(place, i))
    ) as [Single, Single]
    return { kind: 'bounds', low, high }
  },
  keyword: operand => ({
    kind: 'keyword',
    word: operand as null | boolean | 'not_null' | 'unknown'
  }),
  key: planSingle,
  search (operand, place) {
    const parts = isObject(operand) && !has(operand, '$first') ? operand : undefined
    return {
      kind: 'search',
      query: parts === undefined
        ? planScalar(operand, place)
        : planScalar(parts['query'] as Json, within(place, 'query')),
      config: parts?.['config'] as string | undefined
    }
  },
  json: (operand, place) =>
    readDollarMember(operand) === undefined
      ? planDocument(operand, place)
      : planSingle(operand, place)
}

/** Plans one value: a scalar, a reference, a column, or JSON inside `$value`. */
function planSingle (operand: Json, place: FilterPlace): Single {
  if (!isObject(operand) || has(operand, '$first')) return planScalar(operand, place)
  const inner = within(place, '$value')
  if (place.column?.resultType === 'text' && operand['$value'] === null) {
    place.context.addIssue(
      'operand_invalid',
      inner.path,
      '->> gives text, which is never the JSON null. Use {"is": null} to test for NULL, or -> to ' +
        'compare JSON.'
    )
  }
  if (has(operand, '$value')) return planDocument(operand['$value'] as Json, inner)
  if (has(operand, '$from')) {
    const { column, isForeign, readSource } = place
    const meets = column === undefined || isForeign === true
      ? undefined
      : { path: column, as: 'value' as const }
    return planSourceColumn(operand['$from'] as string, within(place, '$from'), {
      read: readSource,
      meets
    })
  }
  const [of, read] = has(operand, '$excluded')
    ? ['excluded' as const, place.readRow]
    : ['row' as const, place.read]
  return { kind: 'column', path: read(Object.values(operand)[0] as string, place), of }
}

/** Plans a column of `from`. Adds an issue if there is no `from` (`read` is undefined). */
export function planSourceColumn (
  text: string,
  place: Place,
  { read, meets }: { readonly read: ReadColumn | undefined, readonly meets: Meeting | undefined }
): ColumnOperand {
  if (read === undefined) {
    place.context.addIssue('member_invalid', place.path, '"$from" is only allowed beside "from".')
  }
  return { kind: 'column', path: (read ?? readPath)(text, place, meets), of: 'source' }
}
