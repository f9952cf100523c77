/**
 * Plans `with`: rows of other tables that become members of each row of a select.
 */
import type { Static } from '@sinclair/typebox'
import {
  maxAllNestedReads,
  maxNestedReads,
  type NestedRead as Schema
} from '../../schemas/operation.ts'
import { has, type JsonObject } from '../json/parse.ts'
import { within, type Place, type PlanContext } from './context.ts'
import { planTable } from './name.ts'
import type {
  NestedRead,
  NestedReads,
  OutputColumn,
  PlanNode,
  SelectNode,
  TableName
} from './nodes.ts'
import { isAllColumns, planColumns, planQuery } from './output.ts'

type Reads = Readonly<Record<string, Static<typeof Schema>>>

/** Members of a select that cannot be combined with `with`. */
const EXCLUDED = ['group_by', 'having', 'distinct', 'lock']

/** Adds an issue for every member beside `with` that excludes it. */
export function checkNested (
  operation: JsonObject,
  output: readonly OutputColumn[] = [],
  context: PlanContext
): void {
  if (!has(operation, 'with')) return
  const excluded = EXCLUDED.filter(name => has(operation, name))
  if (output.some(({ aggregate }) => aggregate !== undefined)) excluded.push('fn')
  for (const name of excluded) {
    context.addIssue('member_invalid', ['with'], `"with" and "${name}" exclude each other.`)
  }
}

interface NestedPlace extends Place {
  /** From 1. */
  readonly level: number
  /** The table of the row that the reads belong to; undefined after an issue. */
  readonly outer: TableName | undefined
}

/** `output`: the columns of the row that the reads belong to. */
export function planNested (
  reads: Reads,
  output: readonly OutputColumn[] = [],
  { context, path, level, outer }: NestedPlace
): NestedReads | undefined {
  if (level > maxNestedReads) {
    return context.addIssue(
      'depth_exceeded',
      path,
      `"with" must not be nested more than ${maxNestedReads} levels deep.`
    )
  }
  const count = level === 1 ? countReads(reads) : 0
  if (count > maxAllNestedReads) {
    return context.addIssue(
      'member_invalid',
      path,
      `"with" has ${count} reads in all its levels; at most ${maxAllNestedReads} are allowed.`
    )
  }
  if (output.some(isAllColumns)) {
    context.addIssue(
      'member_invalid',
      path,
      'Beside "*" there must be no other column where "with" adds members.'
    )
  }
  const planned = Object.entries(reads).map(([name, read]): NestedRead | undefined => {
    const place = { context, path: [...path, name] }
    if (output.some(column => column.name === name)) {
      context.addIssue(
        'member_invalid',
        place.path,
        `"columns" returns "${name}" already; choose another name.`
      )
    }
    return planRead([name, read], { ...place, level, outer })
  })
  const { maxRows } = context.batch.limits
  return { reads: planned.filter(read => read !== undefined), maxRows }
}

/** The number of reads of all levels. */
function countReads (reads: Reads): number {
  return Object.values(reads).reduce(
    (count, { with: inner = {} }) => count + 1 + countReads(inner as Reads),
    0
  )
}

/** Returns undefined after an issue of the table. */
function planRead (
  [name, read]: readonly [name: string, read: Reads[string]],
  place: NestedPlace
): NestedRead | undefined {
  const { context, level, outer } = place
  const { on: joined, one = false, columns, with: inner } = read
  const table = planTable(read.table, within(place, 'table'))
  const on = Object.entries(joined as Readonly<Record<string, string>>)
  for (const [column, outerColumn] of on) {
    const { path } = within(within(place, 'on'), column)
    context.nameColumn(table, column, path)
    context.nameColumn(outer, outerColumn, path)
  }
  const output = planColumns(columns, { ...within(place, 'columns'), table })
  const planned = {
    name,
    on,
    one,
    output,
    ...planQuery(read, output, { context, path: place.path, table }),
    nested: inner === undefined
      ? undefined
      : planNested(inner as Reads, output, {
        ...within(place, 'with'),
        level: level + 1,
        outer: table
      })
  }
  return table && { ...planned, table }
}

/** A select with nested rows. */
export type NestedSelect = SelectNode & { readonly nested: NestedReads }

/** Whether an operation returns rows with nested ones. */
export function isNested (node: PlanNode): node is NestedSelect {
  return node.kind === 'select' && node.nested !== undefined
}
