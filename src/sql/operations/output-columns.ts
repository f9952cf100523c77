/**
 * The output columns of a select, as `having` compares them. The row `o` has these columns.
 */
import { sql, type Fragment } from '../../fragment/fragment.ts'
import type { ColumnPath, OutputColumn } from '../../plan/nodes.ts'
import { isUnchanged } from '../../plan/output.ts'
import { tableName } from '../statement/table.ts'
import { comparableValue, kindOfOutput, type ColumnKind } from '../values/column.ts'
import type { ComparedColumns } from '../values/operand.ts'
import type { TypedPath } from '../values/typed-json.ts'
import type { TypedValues } from '../values/typed-values.ts'
import { outputValue } from './output.ts'

export class OutputColumns implements ComparedColumns {
  readonly row: Fragment = sql`o`
  /** The builder of the values that meet the columns of the table. */
  readonly #values: TypedValues
  readonly #output: readonly OutputColumn[]

  constructor (values: TypedValues, output: readonly OutputColumn[]) {
    this.#values = values
    this.#output = output
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

  #find (name: string): OutputColumn | undefined {
    return this.#output.find(column => column.name === name)
  }

  /** The type is that of the column that an output column returns, or of its expression. */
  typed (path: ColumnPath): TypedPath {
    const column = path.resultType === 'column' ? this.#find(path.column) : undefined
    if (column === undefined) return path
    if (isUnchanged(column)) return column.path
    const values = this.#values
    const value = column.path === undefined ? sql`*` : comparableValue(column.path, values, sql`t`)
    const expression = outputValue(column, value)
    return { ...path, example: sql`(select ${expression} from ${tableName(values.table)} as t)` }
  }
}
