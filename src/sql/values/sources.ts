/**
 * What is known of the values that operations return, for later ones that refer to them.
 */
import { casts, type CastName } from '../../../schemas/cast.ts'
import { builtInNamed } from '../../catalogue/built-in.ts'
import type { BaseType, Type } from '../../catalogue/type.ts'
import type { Fragment } from '../../fragment/fragment.ts'
import { isNested } from '../../plan/nested.ts'
import type { OutputColumn, PlanNode } from '../../plan/nodes.ts'
import { isAllColumns, isUnchanged } from '../../plan/output.ts'
import type { Plan } from '../../plan/plan.ts'
import type { FindColumns, TableColumns, TypeCheck } from './column-types.ts'

/** A column of the result of an operation. */
export interface SourceColumn {
  readonly type: Type
  /** What checks that it has this type; undefined: the statement decides it. */
  readonly check: TypeCheck | undefined
}

/** The columns of the result of an operation. */
export interface SourceColumns {
  /** Finds a column; undefined: its type is not known. */
  readonly find: (name: string) => SourceColumn | undefined
  /** The names of all columns; undefined: not all are known. */
  readonly names: readonly string[] | undefined
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
  return new Map([...referenceUses.keys()].flatMap(index => {
    const node = operations[index]
    // A plan of one operation, for `oneflight check`, refers to operations that it lacks.
    return node?.index === index ? [[index, readSource(node, findColumns)] as const] : []
  }))
}

function readSource (node: PlanNode, findColumns: FindColumns): SourceColumns {
  const { output } = node
  const columns = node.kind === 'call' ? undefined : findColumns(node.table)
  const has = findKnown(node, columns)
  const hasAll = output === undefined || output.some(isAllColumns)
  // Both lists come from the client.
  const byName = new Map(output?.map(column => [column.name, column]))
  const own = hasAll ? columns?.keys() : []
  return {
    names: own === undefined || isNested(node)
      ? undefined
      : [...own, ...byName.keys()].filter(name => byName.get(name) === undefined ||
        !isAllColumns(byName.get(name) as OutputColumn)),
    find: name => {
      const found = byName.get(name)
      if (found !== undefined) return readOutput(found, columns)
      return hasAll ? readColumn(name, columns) : undefined
    },
    isTyped: name =>
      has(name) || isNested(node) || (node.kind === 'call' && output === undefined)
  }
}

/**
 * Returns a function that tells whether the rows are known to have a column that others read. The
 * columns of a function are not known, and nested rows are JSON.
 */
export function findKnown (
  node: PlanNode,
  columns: TableColumns | undefined
): (column: string) => boolean {
  if (isNested(node)) return () => false
  const { output } = node
  const ofTable = output === undefined || output.some(isAllColumns)
  // A set, because both lists come from the client and may be long.
  const names = new Set(output?.map(({ name }) => name))
  return column => names.has(column) || (ofTable && columns?.has(column) === true)
}

function readColumn (name: string, columns: TableColumns | undefined): SourceColumn | undefined {
  const column = columns?.get(name)
  return column && { type: column.tree, check: column.check }
}

function readOutput (
  column: OutputColumn,
  columns: TableColumns | undefined
): SourceColumn | undefined {
  const { aggregate, cast } = column
  if (isUnchanged(column)) {
    const { path: { column: name, resultType } } = column
    return resultType === 'column' ? readColumn(name, columns) : computed(resultType)
  }
  if (aggregate === undefined && cast !== undefined) return computed(cast)
  return aggregate === 'count' ? computed('bigint') : undefined
}

/** A column that a statement computes, in a type that the request names. */
function computed (name: CastName): SourceColumn {
  return { type: typeOfCast(name), check: undefined }
}

/** The type of a cast. */
export function typeOfCast (name: CastName): BaseType & { readonly sql: Fragment } {
  return builtInNamed(casts[name])
}
