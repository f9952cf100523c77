/**
 * The operations of a plan, after validation and before they become SQL. Nodes are readonly and
 * have a `kind`.
 */
import type { CastName } from '../../schemas/cast.ts'
import type { ModifierName } from '../../schemas/modifier.ts'
import type { Aggregate, LockMode, LockWait } from '../../schemas/operation.ts'
import type { OperatorName } from '../../schemas/operator.ts'
import type { Json } from '../json/parse.ts'
import type { Parameter } from './parameter.ts'

/** The path of a value in its operation: members, and positions in lists. */
export type ValuePath = ReadonlyArray<string | number>

export interface TableName {
  readonly schema: string
  readonly name: string
}

/** A column, or a path into its JSON: `data->items->0->>sku`. Numbers are array positions. */
export interface ColumnPath {
  readonly column: string
  readonly keys: ReadonlyArray<string | number>
  /** The type of the result: that of the column, jsonb (`->`) or text (`->>`). */
  readonly resultType: 'column' | 'json' | 'text'
}

/**
 * A reference to the result of an earlier operation; `source` is its index. `$op.row.column` is one
 * value, `$op.row` is a row as JSON (`column` is undefined), and `$op.*.column` is a list: the
 * values of a column in all rows.
 */
export interface Reference {
  readonly kind: 'reference'
  readonly source: number
  readonly row: number | '*'
  readonly column: string | undefined
  /** `$first`: the references after this one. The first counts whose row exists. */
  readonly otherwise?: readonly Reference[]
  /** `$params.name`: a parameter of a named batch, and not the result of an operation. */
  readonly parameter?: Parameter
}

/**
 * A value of the request, or its position among the values of each batch that has the plan. With
 * `references`, strings stand for parameters in the value; see readNumber.
 */
export type Given =
  | {
    readonly value: Json,
    readonly references?: readonly Reference[],
    readonly position?: undefined
  }
  | { readonly position: number }

/** A value of the request that contains no references; strings are unescaped. */
export type Literal = Given & { readonly kind: 'literal' }

/** JSON in which strings stand for the references; see readNumber. */
export interface JsonDocument {
  readonly kind: 'document'
  readonly value: Json
  readonly references: readonly Reference[]
}

/** One stored value: a literal, a reference, or JSON that contains references. */
export type Cell = Literal | Reference | JsonDocument

/** Rows: a list of objects of columns, or as a whole the reference to a value of the batch. */
export interface StoredJson extends JsonDocument {
  /** Whether a statement takes the rows together, as arrays or JSON, and not one by one. */
  readonly inBulk: boolean
}

/** A column of the current row, of the row proposed for insertion (`excluded`), or of `from`. */
export interface ColumnOperand {
  readonly kind: 'column'
  readonly path: ColumnPath
  readonly of: 'row' | 'excluded' | 'source'
}

/** A list of scalars and references, or a single reference to a list. */
export interface List {
  readonly kind: 'list'
  readonly of: Literal | JsonDocument
}

/** SQL's NULL. The document `null` is different: the JSON null, which json and jsonb can store. */
export interface Null { readonly kind: 'null' }

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
  /** The path of the operand in its operation. */
  readonly at?: ValuePath
}

/** Whether another table has (or, negated, has no) row that matches this one. */
export interface Exists {
  readonly kind: 'exists'
  readonly negated: boolean
  readonly table: TableName
  /** Columns of that table, each with the column that it equals. */
  readonly on: ReadonlyArray<readonly [column: string, outer: string]>
  readonly where: readonly Predicate[]
}

export type Predicate =
  | Condition
  | Exists
  | { readonly kind: 'and' | 'or', readonly of: readonly Predicate[] }
  | { readonly kind: 'not', readonly of: Predicate }

/**
 * An output column. Without `path` it is `count(*)` or `inserted`. Without `path`, `aggregate` and
 * `inserted` it stands for all columns of the table.
 */
export interface OutputColumn {
  readonly name: string
  readonly path: ColumnPath | undefined
  readonly aggregate: Aggregate['fn'] | undefined
  /** The type that the value is converted to, before it is aggregated. */
  readonly cast?: CastName | undefined
  /** Whether the aggregate reads equal values only once. */
  readonly distinct?: boolean
  /**
   * Set if the column shows whether the row is new, in an insert with `on_conflict`. `always`: all
   * returned rows are new. `unless updated`: some may be updated rows.
   */
  readonly inserted?: 'always' | 'unless updated' | undefined
}

/** How many rows an operation must affect or return; both limits are inclusive. */
export interface Expectation {
  readonly min: number
  readonly max: number
}

/** How many rows the earlier operation `source` must have affected or returned. */
export interface RowCondition {
  readonly source: number
  readonly rows: Expectation
}

/** What the nodes of all kinds have. */
export interface OperationNode {
  readonly index: number
  readonly id: string
  readonly table: TableName
  /** Undefined: the whole row. */
  readonly output: readonly OutputColumn[] | undefined
  readonly expect: Expectation | undefined
  /** Whether the response has the number of rows instead of the rows. */
  readonly answersCount?: boolean
  /** The operation is skipped unless all of them hold. */
  readonly when: readonly RowCondition[]
}

/**
 * Rows of an insert that name the same columns; other columns take their defaults. `positions` are
 * the ascending positions of the rows in `values`; none if the plan does not contain the rows.
 */
export interface RowGroup {
  readonly columns: readonly string[]
  readonly positions: readonly number[]
  readonly rows: StoredJson
}

/** A new value; a plain one is a `$value`. `operand`: undefined for a modifier that takes none. */
export interface Assignment {
  readonly column: string
  readonly modifier: ModifierName
  readonly operand: Single | undefined
}

export interface ConflictNode {
  readonly target: { readonly columns: readonly string[], readonly where: readonly Predicate[] } | {
    readonly constraint: string
  }
  /** Undefined: the existing row stays unchanged. */
  readonly update:
    | {
      readonly set: readonly Assignment[]
      /** `set` was not sent: it has all inserted columns that are not known to be the key. */
      readonly isDefault: boolean
      readonly where: readonly Predicate[]
    }
    | undefined
}

/**
 * An insert has more than one group only if rows name different columns. It has none if its rows
 * come from a query.
 */
export interface InsertNode extends OperationNode {
  readonly kind: 'insert'
  readonly groups: readonly RowGroup[]
  readonly query?: InsertQuery | undefined
  readonly conflict: ConflictNode | undefined
}

/** A query whose rows are inserted. The values can use its columns. */
export interface InsertQuery {
  readonly source: Source
  readonly set: readonly Assignment[]
  /** The maximum number of rows. */
  readonly maxRows: number
}

export interface UpdateNode extends OperationNode {
  readonly kind: 'update'
  readonly set: readonly Assignment[]
  readonly join?: Join | undefined
  readonly where: readonly Predicate[]
}

/**
 * A value that each row of a bulk update has: a part of its key (without `modifier`), a new value
 * (`$value`), or the operand of another modifier.
 */
export interface RowField {
  /** The member of the rows: the column, or the name that `key` gives it (`as`). */
  readonly name: string
  readonly column: string
  readonly modifier: ModifierName | undefined
}

/**
 * Rows of a bulk update that change the same columns in the same way. `computed` are new values
 * that are the same for each of them. `positions` are the positions of the rows in `values`; none
 * if the plan does not contain the rows.
 */
export interface BulkUpdateGroup {
  readonly fields: readonly RowField[]
  readonly computed: readonly Assignment[]
  readonly positions: readonly number[]
  readonly rows: StoredJson
}

/** An update with a row of values for each key. All groups have the same key columns. */
export interface BulkUpdateNode extends OperationNode {
  readonly kind: 'bulk_update'
  readonly groups: readonly BulkUpdateGroup[]
  readonly where: readonly Predicate[]
}

export interface DeleteNode extends OperationNode {
  readonly kind: 'delete'
  readonly join?: Join | undefined
  readonly where: readonly Predicate[]
}

/** The rows that an update or a delete is joined to. */
export interface Join {
  readonly source: Source
  /** Columns of the table, each with the column of the source that it equals. */
  readonly on: ReadonlyArray<readonly [column: string, source: ColumnPath]>
}

/** A query whose rows an operation uses (`from`). Its output has the columns that are used. */
export type Source = TableSource | RowsSource

interface TableSource extends Query {
  readonly kind: 'table'
  readonly table: TableName
  readonly output: readonly OutputColumn[]
}

/** Rows of a parameter. The columns of the query are `fields`. */
export interface RowsSource extends Pick<Query, 'groupBy'> {
  readonly kind: 'rows'
  readonly output: readonly OutputColumn[]
  readonly fields: readonly SourceField[]
  /** The rows, as objects of fields. */
  readonly document: JsonDocument
}

/** A value that each row of a parameter has. */
export interface SourceField {
  readonly name: string
  /** The member of the row, or a path into it. */
  readonly path: ColumnPath
  /** The type of the value: that of a cast, or that of what the value meets. */
  readonly type: CastName | Meeting
}

/**
 * The column that a value meets, that is, is compared with or stored in. The value takes its type.
 * `as` is how the value is read; see TypedAs.
 */
export interface Meeting {
  readonly path: ColumnPath
  readonly as: 'value' | 'difference' | 'factor'
}

/** Which rows of a table or a function are returned, and in which order. */
export interface Query {
  readonly where: readonly Predicate[]
  /** Whether equal rows of the output are returned once. */
  readonly distinct: boolean
  /** Conditions on columns of the output. */
  readonly having: readonly Predicate[]
  readonly groupBy: readonly ColumnPath[]
  readonly order: readonly SortKey[]
  /** Numbers of rows. */
  readonly limit: Given | undefined
  readonly offset: Given | undefined
}

export interface SelectNode extends OperationNode, Query {
  readonly kind: 'select'
  /** Where the rows begin, for each element of `order`. Undefined: at the first row. */
  readonly after?: readonly PageStart[] | undefined
  readonly lock?: { readonly mode: LockMode, readonly wait: LockWait | undefined } | undefined
  readonly nested?: NestedReads | undefined
}

/** Rows of other tables that become members of each row. */
export interface NestedReads {
  readonly reads: readonly NestedRead[]
  /** The maximum number of rows of all levels together. */
  readonly maxRows: number
}

/** The rows of another table that belong to a row, as its member `name`. */
export interface NestedRead extends Query, Pick<Exists, 'table' | 'on'> {
  readonly name: string
  /** The member is one row or NULL, and not an array. */
  readonly one: boolean
  readonly output: readonly OutputColumn[] | undefined
  readonly nested: NestedReads | undefined
}

/** A call of the function that `table` names. */
export interface CallNode extends OperationNode, Query {
  readonly kind: 'call'
  readonly args: ReadonlyArray<readonly [parameter: string, value: Argument]>
}

export type Argument = Literal | JsonDocument | Null

/** One element of the order, and the value after which the rows of a page begin. */
export interface PageStart {
  readonly path: ColumnPath
  readonly descending: boolean
  /** Whether NULL comes before all values. */
  readonly nullsFirst: boolean
  readonly value: Literal | Reference | Null
  /** The path of the value in its operation. */
  readonly at: ValuePath
}

/** `by` is a column or the name of an aggregate or a cast in the output. */
export interface SortKey {
  readonly by: ColumnPath | string
  readonly direction: 'asc' | 'desc' | undefined
  readonly nulls: 'first' | 'last' | undefined
}

export type PlanNode =
  InsertNode | UpdateNode | BulkUpdateNode | DeleteNode | SelectNode | CallNode
