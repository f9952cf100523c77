/**
 * What an operation answers and in which order: `columns`, `returning`, `order`, `expect`. The
 * shapes were checked before.
 */
import type { Aggregate, Expect, Ordering, Output } from '../../schemas/operation.ts'
import { columnFault, readPath } from './name.ts'
import type { ColumnPath, Expectation, PlanContext, OutputColumn, Path, SortKey } from './nodes.ts'

/** The columns of the answer. Two of the same name would be one in JSON, so that is a fault. */
export function planOutput (
  columns: ReadonlyArray<Output | Aggregate>,
  path: Path,
  findings: PlanContext
): readonly OutputColumn[] {
  const names = new Set<string>()
  return columns.map((column, i) => {
    const planned = planColumn(column, [...path, i], findings)
    const fault = columnFault(planned.name)
    if (fault !== undefined) {
      findings.fault('member_invalid', [...path, i], `${fault} "as" gives this one another name.`)
    }
    if (names.has(planned.name)) {
      findings.fault(
        'member_invalid',
        [...path, i],
        `Two columns of the answer are called "${planned.name}"; "as" gives one of them ` +
          'another name.'
      )
    }
    names.add(planned.name)
    return planned
  })
}

function planColumn (column: Output | Aggregate, path: Path, findings: PlanContext): OutputColumn {
  if (typeof column === 'string') return planColumn({ column }, path, findings)
  if (!('fn' in column)) {
    const source = readPath(column.column)
    return { name: column.as ?? defaultName(source), path: source, aggregate: undefined }
  }
  const { fn, as = fn } = column
  if (column.column === undefined && fn !== 'count') {
    findings.fault('member_missing', [...path, 'column'], `${fn} needs a column.`)
  }
  return {
    name: as,
    path: column.column === undefined ? undefined : readPath(column.column),
    aggregate: fn
  }
}

/** As PostgREST names it: the last key of a path, positions in arrays left out. */
function defaultName ({ column, keys }: ColumnPath): string {
  return String(keys.findLast(key => typeof key === 'string') ?? column)
}

/**
 * A key that is the name of a column of the answer means that one: what it is made of, or the
 * aggregate of that name.
 */
export function planOrder (
  order: ReadonlyArray<Readonly<Record<string, Ordering>>>,
  output: readonly OutputColumn[] = []
): readonly SortKey[] {
  const named = new Map(
    output.map((
      { name, path, aggregate }
    ) => [name, aggregate === undefined && path !== undefined ? path : name])
  )
  return order.flatMap(element =>
    Object.entries(element).map(([key, how]) => {
      const { direction, nulls } = typeof how === 'string' ? { direction: how } : how
      return { by: named.get(key) ?? readPath(key), direction, nulls }
    })
  )
}

/** Undefined when nothing is expected. */
export function planExpectation (
  expect: Expect | undefined,
  findings: PlanContext
): Expectation | undefined {
  if (expect === undefined) return undefined
  const { min = 0, max = Infinity } = typeof expect === 'number'
    ? { min: expect, max: expect }
    : expect
  return min <= max
    ? { min, max }
    : findings.fault(
      'member_invalid',
      ['expect'],
      'min is greater than max: no number of rows could be right.'
    )
}
