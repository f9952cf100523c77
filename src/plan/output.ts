/**
 * Plans what an operation returns and in which order: `columns`, `returning`, `order` and `expect`,
 * and the rows that `when` expects. Their shapes are checked before.
 */
import type { Aggregate, Expect, Ordering, Output, When } from '../../schemas/operation.ts'
import type { Place } from './context.ts'
import { findColumnProblem, readPath } from './name.ts'
import type { ColumnPath, Expectation, OutputColumn, RowCondition, SortKey } from './nodes.ts'

/** Plans the output columns. Two with the same name are an issue: JSON would keep only one. */
export function planOutput (
  columns: ReadonlyArray<Output | Aggregate>,
  { context, path }: Place
): readonly OutputColumn[] {
  const names = new Set<string>()
  return columns.map((column, i) => {
    const place = { context, path: [...path, i] }
    const planned = planColumn(column, place)
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

function planColumn (column: Output | Aggregate, { context, path }: Place): OutputColumn {
  if (typeof column === 'string') return planColumn({ column }, { context, path })
  if (!('fn' in column)) {
    const source = readPath(column.column)
    return { name: column.as ?? defaultName(source), path: source, aggregate: undefined }
  }
  const { fn, as = fn } = column
  if (column.column === undefined && fn !== 'count') {
    context.addIssue('member_missing', [...path, 'column'], `"fn": "${fn}" requires "column".`)
  }
  return {
    name: as,
    path: column.column === undefined ? undefined : readPath(column.column),
    aggregate: fn
  }
}

/** The last key of a path that is not a position in an array, as in PostgREST. */
function defaultName ({ column, keys }: ColumnPath): string {
  return String(keys.findLast(key => typeof key === 'string') ?? column)
}

/** Plans `order`. The name of an output column takes precedence over a column of the table. */
export function planOrder (
  order: ReadonlyArray<Readonly<Record<string, Ordering>>> = [],
  output: readonly OutputColumn[] = []
): readonly SortKey[] {
  const named = new Map(
    output.map((
      { name, path, aggregate }
    ) => [name, aggregate === undefined && path !== undefined ? path : name])
  )
  return order.flatMap(element =>
    Object.entries(element).map(([name, ordering]) => {
      const { direction, nulls } = typeof ordering === 'string'
        ? { direction: ordering }
        : ordering
      return { by: named.get(name) ?? readPath(name), direction, nulls }
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
