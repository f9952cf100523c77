/**
 * What is known of the values that operations return, for later ones that refer to them.
 */
import { casts, type CastName } from '../../../schemas/cast.ts'
import { builtInNamed } from '../../catalogue/built-in.ts'
import type { BaseType } from '../../catalogue/type.ts'
import type { Fragment } from '../../fragment/fragment.ts'
import { isNested } from '../../plan/nested.ts'
import type { OutputColumn, PlanNode } from '../../plan/nodes.ts'
import { isAllColumns, isUnchanged } from '../../plan/output.ts'
import type { Plan } from '../../plan/plan.ts'
import type { Column, FindColumns, TableColumns } from './column-types.ts'

/** A column of the result of an operation: of a table, or of a type that the statement decides. */
export type SourceColumn = Column | Pick<Column, 'type'>

/** The columns of the result of an operation. */
export interface SourceColumns {
  /** Finds a column; undefined: its type is not known. */
  readonly find: (name: string) => SourceColumn | undefined
  /** The names of all columns; undefined: not all are known. */
  readonly names: readonly string[] | undefined
  /** Whether the rows are known to have a column. The columns of a function are not known. */
  readonly has: (name: string) => boolean
  /** Whether its values can be shared in another form than that of the JSON of its row. */
  readonly isTyped: (name: string) => boolean
}

/** The results of the operations of a plan, by the index of the operation. */
export type Sources = ReadonlyMap<number, SourceColumns>

/** Finds what the operations return that later ones refer to. */
export function findSources (
  { operations, referenceUses }: Pick<Plan, 'operations' | 'referenceUses'>,
  findColumns: FindColumns
): Sources {
  return new Map(operations.filter(({ index }) => referenceUses.has(index))
    .map(node => [node.index, readSource(node, findColumns)]))
}

function readSource (node: PlanNode, findColumns: FindColumns): SourceColumns {
  const { output } = node
  const columns = node.kind === 'call' ? undefined : findColumns(node.table)
  const hasAll = output === undefined || output.some(isAllColumns)
  // A map, because both lists come from the client and may be long.
  const byName = new Map(output?.map(column => [column.name, column]))
  const own = hasAll ? columns?.keys() : []
  const has = (name: string): boolean =>
    byName.has(name) || (hasAll && columns?.has(name) === true)
  return {
    names: own === undefined || isNested(node)
      ? undefined
      : [...own, ...byName.keys()].filter(name => byName.get(name) === undefined ||
        !isAllColumns(byName.get(name) as OutputColumn)),
    find: name => {
      const found = byName.get(name)
      if (found !== undefined) return readOutput(found, columns)
      return hasAll ? columns?.get(name) : undefined
    },
    has,
    isTyped: name =>
      has(name) || isNested(node) || (node.kind === 'call' && output === undefined)
  }
}

function readOutput (
  column: OutputColumn,
  columns: TableColumns | undefined
): SourceColumn | undefined {
  const { aggregate, cast } = column
  if (isUnchanged(column)) {
    const { path: { column: name, resultType } } = column
    return resultType === 'column' ? columns?.get(name) : { type: typeOfCast(resultType) }
  }
  if (aggregate === undefined && cast !== undefined) return { type: typeOfCast(cast) }
  return aggregate === 'count' ? { type: typeOfCast('bigint') } : undefined
}

/** The type of a cast. */
export function typeOfCast (name: CastName): BaseType & { readonly sql: Fragment } {
  return builtInNamed(casts[name])
}
