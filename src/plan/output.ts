/**
 * Plans what an operation returns and in which order: `columns`, `returning`, `having`, `order`,
 * `after` and `expect`, and the rows that `when` expects. Their shapes are checked before.
 */
import type {
  Aggregate,
  Expect,
  Inserted,
  Ordering,
  Output,
  When
} from '../../schemas/operation.ts'
import type { Json } from '../json/parse.ts'
import { within, type Place, type PlanContext, type TablePlace } from './context.ts'
import { planScalar } from './document.ts'
import { planFilter } from './filter.ts'
import { columnsOf, findColumnProblem, readPath, type ReadColumn } from './name.ts'
import type {
  ColumnPath,
  Expectation,
  InsertNode,
  Literal,
  OutputColumn,
  PlanNode,
  Query,
  RowCondition,
  SortKey,
  PageStart,
  SelectNode
} from './nodes.ts'

/** An element of `columns` or `returning`. */
type Column = Output | Aggregate | Inserted

/**
 * Plans a list of columns of a table. Without one, and with only `"*"`, the output is the whole
 * row.
 */
export function planColumns (
  columns: readonly Column[] | undefined,
  place: TablePlace
): readonly OutputColumn[] | undefined {
  return columns === undefined || isWhole(columns) ? undefined : planOutput(columns, place)
}

/** Plans the output columns. Two with the same name are an issue: JSON would keep only one. */
export function planOutput (
  columns: readonly Column[],
  { context, path, table }: TablePlace
): readonly OutputColumn[] {
  const names = new Set<string>()
  return columns.map((column, i) => {
    const place = { context, path: [...path, i] }
    const planned = planColumn(column, place)
    if (planned.path !== undefined) context.nameColumn(table, planned.path.column, place.path)
    const problem = findColumnProblem(planned.name)
    if (problem !== undefined) {
      context.addIssue('member_invalid', place.path, `${problem} Rename this one with "as".`)
    }
    if (names.has(planned.name)) {
      context.addIssue(
        'member_invalid',
        place.path,
        `Two output columns have the name "${planned.name}"; rename one of them with "as".`
      )
    }
    names.add(planned.name)
    return planned
  })
}

/** The element of `columns` and `returning` that means all columns of the table. */
export const ALL_COLUMNS = '*'

/** Whether an output column stands for all columns of the table. */
export function isAllColumns ({ path, aggregate, inserted }: OutputColumn): boolean {
  return path === undefined && aggregate === undefined && inserted === undefined
}

/** Whether an output column returns a column or path of the table as it is. */
export function isUnchanged (
  column: OutputColumn
): column is OutputColumn & { readonly path: ColumnPath } {
  const { path, aggregate, cast } = column
  return path !== undefined && aggregate === undefined && cast === undefined
}

/** Whether `returning` shows which rows are new, in an insert that may update rows instead. */
export function isMarked ({ output = [] }: Pick<InsertNode, 'output'>): boolean {
  return output.some(({ inserted }) => inserted === 'unless updated')
}

/** Whether `expect` requires exactly one row. */
export function returnsOneRow ({ expect }: Pick<PlanNode, 'expect'>): boolean {
  return expect?.min === 1 && expect.max === 1
}

/** Whether the result is the number of rows. `minimal`: see CompileOptions. */
export function answersOnlyCount (
  { answersCount }: Pick<PlanNode, 'answersCount'>,
  minimal: boolean | undefined
): boolean {
  return minimal === true || answersCount === true
}

/** Whether the output is the whole row. */
export function isWhole (columns: readonly Column[]): boolean {
  return columns.length === 1 && columns[0] === ALL_COLUMNS
}

function planColumn (column: Column, { context, path }: Place): OutputColumn {
  if (column === ALL_COLUMNS) return { name: column, path: undefined, aggregate: undefined }
  if (typeof column === 'string') return planColumn({ column }, { context, path })
  if (!('fn' in column)) {
    const source = readPath(column.column)
    const { as = defaultName(source), cast } = column
    return { name: as, path: source, aggregate: undefined, cast }
  }
  if (column.fn === 'inserted') {
    const { fn, as = fn } = column
    return { name: as, path: undefined, aggregate: undefined, inserted: 'unless updated' }
  }
  const { fn, as = fn, cast, distinct = false } = column
  if (column.column === undefined && (fn !== 'count' || distinct || cast !== undefined)) {
    const reader = distinct ? '"distinct"' : cast === undefined ? `"fn": "${fn}"` : '"cast"'
    context.addIssue('member_missing', [...path, 'column'], `${reader} requires "column".`)
  }
  return {
    name: as,
    path: column.column === undefined ? undefined : readPath(column.column),
    aggregate: fn,
    cast,
    distinct
  }
}

/** The last key of a path that is not a position in an array, as in PostgREST. */
function defaultName ({ column, keys }: ColumnPath): string {
  return String(keys.findLast(key => typeof key === 'string') ?? column)
}

type Orderings = ReadonlyArray<Readonly<Record<string, Ordering>>>

interface QueryMembers {
  readonly where?: object
  readonly distinct?: boolean
  readonly group_by?: readonly string[]
  readonly having?: object
  readonly order?: object
  readonly limit?: number
  readonly offset?: number
}

/** Plans the members of a query of a table. `output`: undefined without `columns`. */
export function planQuery (
  members: QueryMembers,
  output: readonly OutputColumn[] | undefined,
  place: TablePlace
): Query {
  const { where, distinct = false, group_by: groups = [], having, order } = members
  const read = columnsOf(place.table)
  const planNumber = (name: 'limit' | 'offset'): Literal | undefined =>
    members[name] === undefined
      ? undefined
      : planScalar(members[name], within(place, name)) as Literal
  return {
    where: planFilter(where, within(place, 'where'), { read }),
    distinct,
    groupBy: groups.map((text, i) => read(text, within(within(place, 'group_by'), i))),
    order: planOrder(order as Orderings | undefined, output, within(place, 'order')),
    having: having === undefined || output === undefined
      ? []
      : planFilter(having, within(place, 'having'), {
        read: readOutput(output, output.some(isAllColumns) ? read : refuseOthers(output, read))
      }),
    limit: planNumber('limit'),
    offset: planNumber('offset')
  }
}

/** Plans `order`. The name of an output column takes precedence over a column of the table. */
function planOrder (
  order: Orderings = [],
  output: readonly OutputColumn[] = [],
  { context, path, table }: TablePlace
): readonly SortKey[] {
  const read = columnsOf(table)
  const named = new Map(
    output.map(column => [column.name, isUnchanged(column) ? column.path : column.name])
  )
  return order.flatMap((element, i) =>
    Object.entries(element).map(([name, ordering]) => {
      const { direction, nulls } = typeof ordering === 'string'
        ? { direction: ordering }
        : ordering
      const by = named.get(name) ?? read(name, { context, path: [...path, i, name] })
      return { by, direction, nulls }
    })
  )
}

/** Plans `expect`; returns undefined if it is absent or after an issue. */
export function planExpectation (
  expect: Expect | undefined,
  { context, path }: Place
): Expectation | undefined {
  if (expect === undefined) return undefined
  const { min = 0, max = Infinity } = typeof expect === 'number'
    ? { min: expect, max: expect }
    : expect
  return min <= max
    ? { min, max }
    : context.addIssue('member_invalid', path, '"min" must not be greater than "max".')
}

/** Plans `when`: conditions on the number of rows of earlier operations. */
export function planWhen (when: When = {}, { context, path }: Place): readonly RowCondition[] {
  return Object.entries(when).flatMap(([id, expected]): readonly RowCondition[] => {
    const place = { context, path: [...path, id] }
    const source = context.countRows(id, place.path)
    const rows = planExpectation(expected, place)
    return source === undefined || rows === undefined ? [] : [{ source, rows }]
  })
}

/**
 * Returns a function that reads names of output columns, and paths into them. `otherwise`: reads
 * all other names.
 */
export function readOutput (
  output: readonly OutputColumn[],
  otherwise: ReadColumn
): ReadColumn {
  return (text, place, meets) => {
    const column = output.find(({ name }) => name === text)
    if (column !== undefined && !isAllColumns(column)) {
      return { column: text, keys: [], resultType: resultTypeOf(column) }
    }
    const path = readPath(text)
    return path.keys.length > 0 && output.some(({ name }) => name === path.column)
      ? path
      : otherwise(text, place, meets)
  }
}

/**
 * Returns a function that reads names that are no output columns, and adds an issue for each. `of`:
 * whose columns they are.
 */
export function refuseOthers (
  output: readonly OutputColumn[],
  read: ReadColumn,
  of = ''
): ReadColumn {
  const names = output.map(({ name }) => name).join(', ')
  return (text, place) => {
    const message = `"${text}" is not in "columns"${of}. Output columns: ${names}.`
    place.context.addIssue('member_invalid', place.path, message)
    return read(text, place)
  }
}

/** The type of the values of an output column. An aggregate has a type of its own. */
function resultTypeOf (column: OutputColumn): ColumnPath['resultType'] {
  if (isUnchanged(column)) return column.path.resultType
  const cast = column.aggregate === undefined ? column.cast : undefined
  if (cast === 'json' || cast === 'jsonb') return 'json'
  return cast === 'text' ? 'text' : 'column'
}

const path = ['after']

/** Plans `after`, whose shape is valid. Returns undefined after an issue. */
export function planAfter (
  values: readonly Json[],
  { order, output = [], groupBy }: Pick<SelectNode, 'order' | 'output' | 'groupBy'>,
  context: PlanContext
): readonly PageStart[] | undefined {
  const planned = values.map((value, i): PageStart['value'] =>
    value === null ? { kind: 'null' } : planScalar(value, { context, path: [...path, i] })
  )
  if (order.length === 0) {
    return context.addIssue('member_missing', ['order'], '"after" requires "order".')
  }
  if (order.length !== values.length) {
    return context.addIssue(
      'member_invalid',
      path,
      `"after" must have one value for each element of "order", which has ${order.length}.`
    )
  }
  const starts = order.flatMap(({ by, direction = 'asc', nulls }, i): readonly PageStart[] => {
    const value = planned[i] as PageStart['value']
    if (typeof by === 'string') return []
    const nullsFirst = nulls === undefined ? direction === 'desc' : nulls === 'first'
    return [{ path: by, descending: direction === 'desc', nullsFirst, value, at: [...path, i] }]
  })
  const aggregated = groupBy.length > 0 || output.some(({ aggregate }) => aggregate !== undefined)
  return aggregated || starts.length < order.length
    ? context.addIssue(
      'member_invalid',
      path,
      '"after" works only with an order of columns and paths, not with groups, aggregates or casts.'
    )
    : starts
}
