/**
 * The plan: a batch after validation, before SQL. Readonly data; every node has a `kind`.
 */
import type { IssueCode } from '../../schemas/error.ts'
import type { OperatorName } from '../../schemas/filter.ts'
import type { ModifierName } from '../../schemas/modifier.ts'
import type { Aggregate, LockMode, LockWait } from '../../schemas/operation.ts'

export interface TableName {
  readonly schema: string
  readonly name: string
}

/**
 * A column, or a place inside its jsonb: `data->items->0->>sku`. Numbers are positions in arrays.
 */
export interface ColumnPath {
  readonly column: string
  readonly keys: ReadonlyArray<string | number>
  /** What it gives: the column's own type, jsonb (`->`) or text (`->>`). */
  readonly gives: 'column' | 'json' | 'text'
}

/**
 * What an operation before, number `source`, returned: `$op.row.column` a value, `$op.row` a row as
 * JSON (`column` is undefined), `$op.*.column` the values of a column in all rows.
 */
export interface Reference {
  readonly kind: 'reference'
  readonly source: number
  readonly row: number | '*'
  readonly column: string | undefined
}

/** What a string is: data (perhaps less one `$`), a reference, or a reference gone wrong. */
export type StringMeaning =
  | { readonly kind: 'data', readonly text: string }
  | { readonly kind: 'malformed' | 'unknown', readonly message: string }
  | Reference

/**
 * A scalar of the request. `text` is what PostgreSQL reads for the type of the column, `json` the
 * same as JSON.
 */
export interface Literal {
  readonly kind: 'literal'
  readonly text: string
  readonly json: string
}

/**
 * What a JSON value is, as far as the request tells: one value · an array of values, however deep ·
 * an object, or an array with one in it · an array with references in it, or with values beside
 * arrays, or a reference to a list · a reference to one value, which may be any JSON.
 */
export type JsonShape = 'scalar' | 'list' | 'object' | 'array' | 'reference'

/**
 * JSON text cut at its references: pieces[0] references[0] pieces[1] … There is one piece more than
 * references.
 */
export interface JsonDocument {
  readonly kind: 'document'
  readonly pieces: readonly string[]
  readonly references: readonly Reference[]
  readonly shape: JsonShape
}

/**
 * A column that is given JSON which its type may not be able to hold. `shape` is the least certain
 * of its rows; `places` are its values that are references as a whole, `row` counted from 0 in the
 * document.
 */
export interface Doubt {
  readonly column: string
  readonly shape: Exclude<JsonShape, 'scalar'>
  readonly places: ReadonlyArray<{ readonly row: number, readonly reference: Reference }>
}

/**
 * Rows, or the new values of one, as a document, with what has to be looked at when it is stored.
 */
export interface StoredJson {
  readonly document: JsonDocument
  readonly doubts: readonly Doubt[]
}

/** A column of the row that is looked at, or of the row that was to be inserted. */
export interface ColumnOperand {
  readonly kind: 'column'
  readonly path: ColumnPath
  readonly of: 'row' | 'excluded'
}

/**
 * `references` is a JSON array of those members of the list that are references, or a list by
 * itself.
 */
export interface List {
  readonly kind: 'list'
  readonly literals: readonly Literal[]
  readonly references: JsonDocument | undefined
}

/**
 * SQL's NULL. The document `null` is not the same: it is the JSON null, which jsonb and json can
 * hold.
 */
export interface Null {
  readonly kind: 'null'
}

export type Single = Literal | Reference | ColumnOperand | JsonDocument | Null
export type Operand =
  | Single
  | List
  | { readonly kind: 'quantified', readonly quantifier: 'any' | 'all', readonly list: List }
  | { readonly kind: 'bounds', readonly low: Single, readonly high: Single }
  | { readonly kind: 'keyword', readonly word: null | boolean | 'not_null' | 'unknown' }
  | {
    readonly kind: 'search',
    readonly query: Literal | Reference,
    readonly config: string | undefined
  }

export interface Condition {
  readonly kind: 'condition'
  readonly column: ColumnPath
  readonly operator: OperatorName
  readonly operand: Operand
}

export type Predicate =
  | Condition
  | { readonly kind: 'and' | 'or', readonly of: readonly Predicate[] }
  | { readonly kind: 'not', readonly of: Predicate }

/** A column of the answer. Without `path` it is `count(*)`. */
export interface OutputColumn {
  readonly name: string
  readonly path: ColumnPath | undefined
  readonly aggregate: Aggregate['fn'] | undefined
}

/** Rows that an operation must affect or return, both ends included. */
export interface Expectation {
  readonly min: number
  readonly max: number
}

interface OperationNode {
  readonly index: number
  readonly id: string
  readonly table: TableName
  /** Undefined: the whole row. */
  readonly output: readonly OutputColumn[] | undefined
  readonly expect: Expectation | undefined
}

/**
 * Rows of an insert that name the same columns; what they do not name takes its default.
 * `positions` are their places in `values`, ascending, the document of `rows` is one JSON array of
 * row objects.
 */
export interface RowGroup {
  readonly columns: readonly string[]
  readonly positions: readonly number[]
  readonly rows: StoredJson
}

/** A new value that is computed. Without an operand the modifier has none. */
export interface Assignment {
  readonly column: string
  readonly modifier: ModifierName
  readonly operand: Single | undefined
}

export interface ConflictNode {
  readonly target: { readonly columns: readonly string[], readonly where: readonly Predicate[] } | {
    readonly constraint: string
  }
  /** Undefined: the row that is there stays as it is. */
  readonly update:
    | { readonly set: readonly Assignment[], readonly where: readonly Predicate[] }
    | undefined
}

/** At least one group; more than one only when rows name different columns. */
export interface InsertNode extends OperationNode {
  readonly kind: 'insert'
  readonly groups: readonly RowGroup[]
  readonly conflict: ConflictNode | undefined
}
/** `set` has the new values of `columns`, `computed` the others. */
export interface UpdateNode extends OperationNode {
  readonly kind: 'update'
  readonly columns: readonly string[]
  readonly set: StoredJson
  readonly computed: readonly Assignment[]
  readonly where: readonly Predicate[]
}
export interface DeleteNode extends OperationNode {
  readonly kind: 'delete'
  readonly where: readonly Predicate[]
}
export interface SelectNode extends OperationNode {
  readonly kind: 'select'
  readonly where: readonly Predicate[]
  readonly groupBy: readonly ColumnPath[]
  readonly order: readonly SortKey[]
  readonly limit: number | undefined
  readonly offset: number | undefined
  readonly lock: { readonly mode: LockMode, readonly wait: LockWait | undefined } | undefined
}

/** `by`: a column, or the name of an aggregate of the answer. */
export interface SortKey {
  readonly by: ColumnPath | string
  readonly direction: 'asc' | 'desc' | undefined
  readonly nulls: 'first' | 'last' | undefined
}

export type PlanNode = InsertNode | UpdateNode | DeleteNode | SelectNode

/**
 * What a later operation reads of an earlier one. `reader` is the later one's index; `rows`: how
 * many rows there must be at least.
 */
export interface ReferenceUse {
  readonly reference: Reference
  readonly reader: number
  readonly rows: number
}

export interface Plan {
  readonly operations: readonly PlanNode[]
  /** By index of the operation that is read: every reference to it, in the order of the batch. */
  readonly referenceUses: ReadonlyMap<number, readonly ReferenceUse[]>
}

export type Path = ReadonlyArray<string | number>

/** Where the planner of one operation writes what it finds. */
export interface PlanContext {
  /** Notes a fault. Answers undefined, so that a planner can end with it. */
  fault(code: IssueCode, path: Path, message: string): undefined
  /** What a string of the request means; notes a fault when it is a reference gone wrong. */
  read(text: string, path: Path): StringMeaning
  /**
   * Reads a string of the request: data (unescaped) or a reference, which is noted. A reference
   * gone wrong is a fault and comes back as data. `rows`: how many rows a list must have at least.
   */
  string(text: string, path: Path, rows?: number): string | Reference
}

/** What the planner of a member works with. */
export interface PlanOptions {
  readonly findings: PlanContext
  readonly limits: PlanLimits
}

/** The limits that planning enforces; names as in the configuration. */
export interface PlanLimits {
  readonly schemas: readonly string[]
  readonly maxRows: number
  readonly maxConditions: number
}
