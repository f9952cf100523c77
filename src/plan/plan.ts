/**
 * The plan of a batch: its operations, and how they depend on each other.
 */
import type { PlanNode, Reference, SourceField, TableName, ValuePath } from './nodes.ts'
import type { Parameter } from './parameter.ts'

/**
 * The use of a reference. `reader` is the index of the operation that uses it; `rows` is how many
 * rows the earlier operation must have at least. `checked`: the earlier operation checks that it
 * has them, otherwise the reader does, see Requirement. `path`: where the reader first uses it.
 */
export interface ReferenceUse {
  readonly reference: Reference
  readonly reader: number
  readonly rows: number
  readonly checked: boolean
  readonly path: ValuePath
}

/**
 * What a reader checks itself when it runs: at least one of these earlier operations has this
 * number of rows. `$first` has several. A reader that is skipped checks nothing.
 */
export interface Requirement {
  readonly anyOf: readonly ReferenceUse[]
}

/** The requirements of one operation, each once. */
export type Requirements = ReadonlyMap<string, Requirement>

/** A table or a column that an operation names. */
export interface NamedPart {
  readonly table: TableName
  /** Undefined: the table itself. */
  readonly column: string | undefined
  /**
   * Whether the column is stored. Other columns are read, which can also be functions that take a
   * row of the table.
   */
  readonly isStored: boolean
  /** The operation, and the path from it. */
  readonly index: number
  readonly path: ReadonlyArray<string | number>
}

export interface Plan {
  readonly operations: readonly PlanNode[]
  /** All tables that the operations name, each once. */
  readonly tables: readonly TableName[]
  /**
   * What each operation names, where it does so first. Columns of the result of a function and
   * members of rows of a parameter are left out: no table has them.
   */
  readonly names: readonly NamedPart[]
  /**
   * The uses of references, by the index of the operation that they refer to, in the order of the
   * batch.
   */
  readonly referenceUses: ReadonlyMap<number, readonly ReferenceUse[]>
  /** What operations check themselves before they read references, by their index. */
  readonly requirements: ReadonlyMap<number, Requirements>
  /** Indexes of the operations on whose number of rows later ones depend. */
  readonly counted: ReadonlySet<number>
  readonly usedRows: UsedRows
  /** How many values of the batch the plan refers to by their positions. */
  readonly slots: number
}

/** The rows of a parameter as a statement takes them: objects of fields. */
export interface RowsDocument {
  readonly parameter: Parameter
  readonly fields: ReadonlyArray<Pick<SourceField, 'name' | 'path'>>
}

/** How the values of parameters are used. */
interface UsedRows {
  /** The positions of those that are inserted (`values`). */
  readonly inserted: ReadonlySet<number>
  /** Those that are read (`from`). The positions of their documents follow all parameters. */
  readonly documents: readonly RowsDocument[]
  /** The positions of those that are used as a value, also of those whose rows are not. */
  readonly values: ReadonlySet<number>
}
