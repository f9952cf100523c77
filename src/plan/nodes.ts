/**
 * The plan: a batch after validation, before SQL. Readonly data; every node has a `kind`.
 */
import type { OperatorName } from '../../schemas/filter.ts'
import type { FaultCode } from '../../schemas/error.ts'

export interface TableName { readonly schema: string, readonly name: string }

/** `$op.row.column`: the value of a column in a row that operation number `source` returns. */
export interface Reference {
  readonly kind: 'reference'
  readonly source: number
  readonly row: number
  readonly column: string
}

/** A scalar as the text that PostgreSQL reads for the type of the column. */
export interface Literal { readonly kind: 'literal', readonly text: string }

/**
 * JSON text cut where references stand: pieces[0] references[0] pieces[1] … There is one piece more than references.
 */
export interface JsonDocument { readonly kind: 'document', readonly pieces: readonly string[], readonly references: readonly Reference[] }

export interface Condition {
  readonly kind: 'condition'
  readonly column: string
  readonly operator: OperatorName
  readonly operand: Literal | Reference
}

interface OperationNode { readonly index: number, readonly id: string, readonly table: TableName }

/**
 * Rows of an insert that name the same columns; what they do not name takes its default. `positions` are their places in `values`,
 * ascending, `rows` is one JSON array of row objects.
 */
export interface RowGroup { readonly columns: readonly string[], readonly positions: readonly number[], readonly rows: JsonDocument }

/** At least one group; more than one only when rows name different columns. */
export interface InsertNode extends OperationNode { readonly kind: 'insert', readonly groups: readonly RowGroup[] }
export interface UpdateNode extends OperationNode { readonly kind: 'update', readonly columns: readonly string[], readonly set: JsonDocument, readonly where: readonly Condition[] }
export interface DeleteNode extends OperationNode { readonly kind: 'delete', readonly where: readonly Condition[] }
export interface SelectNode extends OperationNode { readonly kind: 'select', readonly where: readonly Condition[] }

export type PlanNode = InsertNode | UpdateNode | DeleteNode | SelectNode

/** What a later operation reads of an earlier one. `reader` is the later one's index. */
export interface Reading { readonly reference: Reference, readonly reader: number }

export interface Plan {
  readonly operations: readonly PlanNode[]
  /** By index of the operation that is read: every reference to it, in the order of the batch. */
  readonly readings: ReadonlyMap<number, readonly Reading[]>
}

export type Path = ReadonlyArray<string | number>

/** Where the planner of one operation writes what it finds. */
export interface Findings {
  /** Notes a fault. Answers undefined, so that a planner can end with it. */
  fault (code: FaultCode, path: Path, message: string): undefined
  /** Reads a string of the request: data (unescaped) or a reference, which is noted. A reference gone wrong is a fault and comes back as data. */
  string (text: string, path: Path): string | Reference
}

/** The limits that planning enforces; names as in the configuration. */
export interface PlanLimits {
  readonly schemas: readonly [string, ...string[]]
  readonly maxRows: number
  readonly maxConditions: number
}
