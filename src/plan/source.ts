/**
 * Plans `from`: a query of another table, whose rows an operation uses. The operation names their
 * columns by a column, a path or an alias; the query returns those that are named.
 */
import type { Aggregate, InsertSource, Ordering, Output } from '../../schemas/operation.ts'
import type { Static } from '@sinclair/typebox'
import type { JsonObject } from '../json/parse.ts'
import type { Place } from './context.ts'
import { planFilter, type ReadColumn } from './filter.ts'
import { planHaving, resultTypeOf } from './having.ts'
import { planTable, readPath } from './name.ts'
import type { OutputColumn, PlanNode, Source } from './nodes.ts'
import { isAllColumns, planOrder, planOutput } from './output.ts'
import { units } from './work.ts'

/** The members of `from` that are read. Those that the operation does not have are undefined. */
export type SourceMembers = Partial<Static<typeof InsertSource>>

/** Rows that an operation uses. */
export interface PlannedSource {
  /** Reads the name of a column of the rows. */
  readonly read: ReadColumn
  /** Returns the query, after all names were read; undefined after an issue of the table. */
  readonly finish: () => Source | undefined
}

/** Plans a query whose shape is valid. */
export function planSource (members: SourceMembers, { context, path }: Place): PlannedSource {
  const within = (step: string): Place => ({ context, path: [...path, step] })
  const { columns, distinct = false, group_by: groupBy = [], having, order, limit, offset } =
    members
  const { where } = members
  for (const name of ['group_by', 'having', 'distinct'] as const) {
    if (members[name] === undefined || columns !== undefined) continue
    context.addIssue('member_missing', within('columns').path, `"${name}" requires "columns".`)
  }
  context.spend(units.table)
  const table = planTable(members.table as string, within('table'))
  const declared = columns === undefined
    ? []
    : planOutput(columns as ReadonlyArray<Output | Aggregate>, within('columns'))
  const aggregated = declared.some(({ aggregate }) => aggregate !== undefined)
  const fixed = columns !== undefined &&
    (distinct || groupBy.length > 0 || having !== undefined || aggregated)
  const source = {
    kind: 'table' as const,
    where: where === undefined ? [] : planFilter(where as JsonObject, within('where')),
    distinct,
    groupBy: groupBy.map(readPath),
    having: having === undefined || columns === undefined
      ? []
      : planHaving(having as JsonObject, declared, within('having')),
    order: planOrder(
      order as ReadonlyArray<Record<string, Ordering>> | undefined,
      declared,
      context
    ),
    limit,
    offset
  }
  const output = fixed ? fixedOutput(declared) : openOutput(declared)
  return {
    read: output.read,
    finish: () => table && { ...source, table, output: output.columns() }
  }
}

interface SourceOutput {
  readonly read: ReadColumn
  readonly columns: () => readonly OutputColumn[]
}

/** The rows have exactly these columns: more would be other rows. */
function fixedOutput (declared: readonly OutputColumn[]): SourceOutput {
  return {
    columns: () => declared,
    read (text, { context, path }) {
      const found = findDeclared(declared, text)
      if (found !== undefined) return found
      if (!declared.some(isAllColumns)) {
        const names = declared.map(({ name }) => name).join(', ')
        context.addIssue(
          'member_invalid',
          path,
          `"${text}" is not in "columns" of "from". Output columns: ${names}.`
        )
      }
      return readPath(text)
    }
  }
}

/** The rows have these columns, and all others that are read. */
function openOutput (declared: readonly OutputColumn[]): SourceOutput {
  const named = declared.filter(column => !isAllColumns(column))
  const others = new Map<string, OutputColumn>()
  return {
    columns: () => [...named, ...others.values()],
    read (text) {
      const found = findDeclared(named, text)
      if (found !== undefined) return found
      const path = readPath(text)
      // No column and no alias that is read has a name with an arrow.
      const { name } = others.get(text) ??
        { name: path.keys.length === 0 ? path.column : `->${others.size}` }
      others.set(text, { name, path, aggregate: undefined })
      return { column: name, keys: [], resultType: path.resultType }
    }
  }
}

/** Finds an output column by its name, or by a path into it. */
function findDeclared (
  declared: readonly OutputColumn[],
  text: string
): ReturnType<ReadColumn> | undefined {
  const column = declared.find(({ name }) => name === text)
  if (column !== undefined && !isAllColumns(column)) {
    return { column: text, keys: [], resultType: resultTypeOf(column) }
  }
  const path = readPath(text)
  return path.keys.length > 0 && declared.some(({ name }) => name === path.column)
    ? path
    : undefined
}

/** Returns what the operation reads with `from`. */
export function sourceOf (node: PlanNode): Source | undefined {
  if (node.kind === 'insert') return node.query?.source
  return node.kind === 'update' || node.kind === 'delete' ? node.join?.source : undefined
}
