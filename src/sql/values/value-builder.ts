/**
 * What conditions and assignments need to write values. Those that meet the columns of a table are
 * built by typed-values.ts, those that meet output columns by output-values.ts.
 */
import type { Fragment } from '../../fragment/fragment.ts'
import type { JsonDocument, Reference, RowsSource, TableName } from '../../plan/nodes.ts'
import type { RowColumns } from './column.ts'
import type { TypedAs, TypedPath } from './typed-json.ts'

/** `stored`: the value is assigned, and not only compared. */
export interface ReferenceOptions {
  readonly stored: boolean
  readonly as?: TypedAs
}

export interface ValueBuilder extends RowColumns {
  /** The table whose columns the values meet. */
  readonly table: TableName
  /** The columns of the rows of `from`, of builders for statements that can have it. */
  readonly source?: RowColumns

  /** Builds values that meet columns of another table, whose row gets a name of its own. */
  ofTable(table: TableName): ValueBuilder

  /** Registers that a parameter takes its type from a column. */
  addParameterType(column: string): void

  /** Builds the value, row or list of a reference in the type of a column path. */
  buildReference(reference: Reference, path: TypedPath, options: ReferenceOptions): Fragment

  /** Builds the value of a reference as text. */
  buildReferenceText(reference: Reference): Fragment

  /** Builds JSON in the type of a column path. */
  buildJson(document: JsonDocument, path: TypedPath): Fragment

  /** Builds a JSON array as an array of the type of a column path. */
  buildList(document: JsonDocument, path: TypedPath): Fragment

  /**
   * Builds the JSON null in the type of a column path. For a type other than json and jsonb that is
   * NULL, or with `refuse` a failure (`value`).
   */
  buildJsonNull(path: TypedPath, options: { readonly refuse: boolean }): Fragment
}

/** Builds the values of a statement that changes its table, perhaps with rows of `from`. */
export interface ChangeBuilder extends ValueBuilder {
  /** Whether the statement is for Citus. */
  readonly distributed: boolean

  readonly source: RowColumns

  /** Whether clients see the plan of the statement, so it contains no markers. */
  readonly explain: boolean

  /** Returns a query as a source of rows. */
  addSource(query: Fragment): Fragment

  /** Returns the rows of a parameter as a source of rows. */
  buildSourceRows(source: RowsSource): Fragment

  /** Returns conditions, which contain no column of the table, where they are evaluated once. */
  evaluateOnce(conditions: readonly Fragment[]): readonly Fragment[]
}
