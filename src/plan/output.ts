/**
 * What an operation answers and in which order: `columns`, `returning`, `order`, `expect`. The shapes were checked before.
 */
import type { Aggregate, Expect, Ordering, Output } from '../../schemas/operation.ts'
import { readPath } from './name.ts'
import type { ColumnPath, Expectation, Findings, OutputColumn, Path, SortKey } from './nodes.ts'

/** The columns of the answer. Two of the same name would be one in JSON, so that is a fault. */
export function planOutput (columns: ReadonlyArray<Output | Aggregate>, path: Path, findings: Findings): readonly OutputColumn[] {
  const names = new Set<string>()
  return columns.map((column, i) => {
    const planned = planColumn(column, [...path, i], findings)
    if (names.has(planned.name)) findings.fault('member_invalid', [...path, i], `Two columns of the answer are called "${planned.name}"; "as" gives one of them another name.`)
    names.add(planned.name)
    return planned
  })
}

function planColumn (column: Output | Aggregate, path: Path, findings: Findings): OutputColumn {
  if (typeof column === 'string') return { name: nameOf(readPath(column)), path: readPath(column), aggregate: undefined }
  if (!('fn' in column)) return { name: column.as ?? nameOf(readPath(column.column)), path: readPath(column.column), aggregate: undefined }
  const { fn, as = fn } = column
  if (column.column === undefined && fn !== 'count') findings.fault('member_missing', [...path, 'column'], `${fn} needs a column.`)
  return { name: as, path: column.column === undefined ? undefined : readPath(column.column), aggregate: fn }
}

/** As PostgREST names it: the last key of a path, positions in arrays left out. */
function nameOf ({ column, keys }: ColumnPath): string {
  return String(keys.findLast(key => typeof key === 'string') ?? column)
}

/** A key that is the name of a column of the answer means that one. */
export function planOrder (order: ReadonlyArray<Readonly<Record<string, Ordering>>>, output: readonly OutputColumn[] = []): readonly SortKey[] {
  const names = new Set(output.map(({ name }) => name))
  return order.flatMap(element => Object.entries(element).map(([key, how]) => {
    const { direction, nulls } = typeof how === 'string' ? { direction: how } : how
    return { by: names.has(key) ? key : readPath(key), direction, nulls }
  }))
}

/** Undefined when nothing is expected. */
export function planExpectation (expect: Expect | undefined, findings: Findings): Expectation | undefined {
  if (expect === undefined) return undefined
  const { min = 0, max = Infinity } = typeof expect === 'number' ? { min: expect, max: expect } : expect
  return min <= max ? { min, max } : findings.fault('member_invalid', ['expect'], 'min is greater than max: no number of rows could be right.')
}
