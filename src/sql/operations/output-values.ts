/**
 * Builds values that are compared with output columns of a select. The row `o` has these columns.
 */
import { sql, type Fragment } from '../../fragment/fragment.ts'
import type {
  ColumnPath,
  JsonDocument,
  OutputColumn,
  Reference,
  TableName
} from '../../plan/nodes.ts'
import { isUnchanged } from '../../plan/output.ts'
import { tableName } from '../statement/table.ts'
import { comparableValue, kindOfOutput, type ColumnKind } from '../values/column.ts'
import type { ReferenceOptions, ValueBuilder } from '../values/operand.ts'
import type { TypedPath } from '../values/typed-json.ts'
import { outputValue } from './output.ts'

export class OutputValues implements ValueBuilder {
  readonly table: TableName
  readonly row: Fragment = sql`o`
  /** The builder of the values that meet the columns of the table. */
  readonly #values: ValueBuilder
  readonly #output: readonly OutputColumn[]

  constructor (values: ValueBuilder, output: readonly OutputColumn[]) {
    this.table = values.table
    this.#values = values
    this.#output = output
  }

  ofTable (table: TableName): ValueBuilder {
    return this.#values.ofTable(table)
  }

  kindOf (column: string): ColumnKind | undefined {
    return kindOfOutput(this.#output, column, name => this.#values.kindOf(name))
  }

  addParameterType (column: string): void {
    const found = this.#find(column)
    // No output column has this name, so it is a column of the table (`*`).
    const name = found === undefined ? column : found.path?.column
    if (name !== undefined) this.#values.addParameterType(name)
  }

  buildReference (reference: Reference, path: ColumnPath, options: ReferenceOptions): Fragment {
    return this.#values.buildReference(reference, this.#typed(path), options)
  }

  buildReferenceText (reference: Reference): Fragment {
    return this.#values.buildReferenceText(reference)
  }

  buildJson (document: JsonDocument, path: ColumnPath): Fragment {
    return this.#values.buildJson(document, this.#typed(path))
  }

  buildList (document: JsonDocument, path: ColumnPath): Fragment {
    return this.#values.buildList(document, this.#typed(path))
  }

  buildJsonNull (path: ColumnPath, options: { readonly refuse: boolean }): Fragment {
    return this.#values.buildJsonNull(this.#typed(path), options)
  }

  #find (name: string): OutputColumn | undefined {
    return this.#output.find(column => column.name === name)
  }

  /** A path with the type of an output column: the column that it returns, or its expression. */
  #typed (path: ColumnPath): TypedPath {
    const column = path.resultType === 'column' ? this.#find(path.column) : undefined
    if (column === undefined) return path
    if (isUnchanged(column)) return column.path
    const value = column.path === undefined
      ? sql`*`
      : comparableValue(column.path, this.#values, sql`t`)
    const expression = outputValue(column, value)
    return { ...path, example: sql`(select ${expression} from ${tableName(this.table)} as t)` }
  }
}
