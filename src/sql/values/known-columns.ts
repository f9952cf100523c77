/**
 * What a statement knows about the columns whose values it writes. It collects the types on which
 * it depends.
 */
import type { Type } from '../../catalogue/type.ts'
import type { ColumnPath } from '../../plan/nodes.ts'
import { differenceType, factorType } from '../../values/write.ts'
import type { Column, TableColumns } from './column-types.ts'
import { SYSTEM_COLUMNS } from './column.ts'
import type { StatementNeeds } from './statement-needs.ts'
import type { TypedAs, TypedPath } from './typed-json.ts'
import { withoutLimits } from './value-type.ts'

/** The columns of a function are not known, nor are those of a table that does not exist. */
export const NO_COLUMNS: TableColumns = new Map()

export class KnownColumns {
  readonly needs: StatementNeeds
  readonly #columns: TableColumns

  /** `columns`: undefined if they are not known. */
  constructor (columns: TableColumns | undefined, needs: StatementNeeds) {
    this.#columns = columns ?? NO_COLUMNS
    this.needs = needs
    if (columns === undefined) needs.hasUnknownTypes = true
  }

  typeOf (column: string): Type | undefined {
    return this.#columns.get(column)?.type
  }

  /** Registers that a parameter takes its type from a column. */
  addParameterType (column: string): void {
    const known = this.#columns.get(column)
    if (known !== undefined) this.needs.addColumn(known)
    else if (!SYSTEM_COLUMNS.has(column)) this.needs.hasUnknownTypes = true
  }

  /**
   * The columns of a unique constraint; none if they are not known. A plain statement cannot check
   * them.
   */
  keyOf (constraint: string): readonly string[] {
    const key = this.needs.facts.plain ? undefined : this.#columns.uniqueKeys?.get(constraint)
    if (key === undefined) return []
    this.needs.addKeyCheck(key)
    return key.columns
  }

  /** The type of a path is that of the column. */
  typed (path: ColumnPath): TypedPath {
    return path
  }

  /** The type in which a reference is read that meets a column; undefined: it is not known. */
  targetType (column: string, as: TypedAs = 'value'): Type | undefined {
    const own = this.typeOf(column)
    const type = own && typeAs(own, as)
    if (type !== undefined) this.addParameterType(column)
    return type
  }

  /**
   * The type in which values of a column are written; undefined: it is not known. `stored`: with
   * its length and precision. Registers that the statement depends on it.
   */
  writtenType (
    column: string,
    { as = 'value', stored }: { readonly as?: TypedAs | undefined, readonly stored: boolean }
  ): Type | undefined {
    const known = this.#columns.get(column)
    const type = known && typeAs(known.type, as)
    if (type === undefined) return undefined
    this.needs.addWritten(known as Column, stored)
    return stored ? type : withoutLimits(type)
  }
}

function typeAs (type: Type, as: TypedAs): Type | undefined {
  switch (as) {
    case 'difference':
      return differenceType(type)
    case 'factor':
      return factorType(type)
    default:
      return type
  }
}
