/**
 * What a statement knows about the columns whose values it writes. It collects the types on which
 * it depends.
 */
import { sql, type Fragment } from '../../fragment/fragment.ts'
import type { Cell, ColumnPath, UncertainColumn } from '../../plan/nodes.ts'
import { isList, isNested } from '../../plan/value-text.ts'
import {
  NUMBER_OIDS,
  isJsonType,
  type ColumnType,
  type LiteralType,
  type TableColumns
} from './column-types.ts'
import { SYSTEM_COLUMNS, type ColumnKind } from './column.ts'
import type { StatementNeeds } from './statement-needs.ts'
import type { TypedAs, TypedPath } from './typed-json.ts'

export type DataCell = Extract<Cell, { readonly kind: 'data' }>

/** Whether a value has a text that PostgreSQL reads exactly. */
export function canWrite ({ value }: DataCell, { isArray }: LiteralType): boolean {
  return !isNested(value) || (isArray && isList(value))
}

/** Whether the difference of two values has the same type. */
export function isNumber ({ oid }: ColumnType): boolean {
  return NUMBER_OIDS.has(oid)
}

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

  kindOf (column: string): ColumnKind | undefined {
    return this.#columns.get(column)?.kind
  }

  /** Registers that a parameter takes its type from a column. */
  addParameterType (column: string): void {
    const check = this.#columns.get(column)?.check
    if (check !== undefined) this.needs.addTypeCheck(check)
    else if (!SYSTEM_COLUMNS.has(column)) this.needs.hasUnknownTypes = true
  }

  /**
   * The columns of a unique constraint; none if they are not known. A worker of Citus has other
   * constraints, so nothing is known of them there.
   */
  keyOf (constraint: string): readonly string[] {
    const key = this.needs.facts.distributed ? undefined : this.#columns.uniqueKeys?.get(constraint)
    if (key === undefined) return []
    this.needs.addKeyCheck(key)
    return key.columns
  }

  /** The type of a path is that of the column. */
  typed (path: ColumnPath): TypedPath {
    return path
  }

  /** Whether the catalogue has the column. */
  has (column: string): boolean {
    return this.#columns.has(column)
  }

  /** The type of a column that a value meets; that of an expression is not known. */
  typeOf (column: string, expression?: Fragment): ColumnType | undefined {
    if (expression !== undefined) return undefined
    const type = this.#columns.get(column)?.type
    if (type !== undefined) this.addParameterType(column)
    return type
  }

  /** Another type, which PostgreSQL reads from a text of the request. */
  literalOf (column: string): LiteralType | undefined {
    return this.#columns.get(column)?.literal
  }

  isHstore (column: string): boolean {
    return this.#columns.get(column)?.isHstore === true
  }

  /** The delimiter of the values of a column in an array. */
  delimiterOf (column: string): string {
    return this.#columns.get(column)?.delimiter ?? ','
  }

  /** Whether PostgreSQL reads the JSON text of an array as a value: `["2026-01-01"]` as a date. */
  isTime (column: string): boolean {
    return this.#columns.get(column)?.isTime === true
  }

  /** Whether PostgreSQL reads a stored text by the modifier of the column's type. */
  isReadByModifier (column: string): boolean {
    return this.#columns.get(column)?.isReadByModifier === true
  }

  /** Whether PostgreSQL reads JSON as a row of the table with these columns. */
  takeJson (columns: readonly string[]): boolean {
    return !columns.some(column => this.#columns.get(column)?.isTextDomain)
  }

  /**
   * Returns the type in which PostgreSQL reads JSON for a column path exactly, or undefined if no
   * such type has a name here. `shape`: that of JSON that is not a scalar.
   */
  fieldType (
    { path: { column, resultType }, as }: {
      readonly path: ColumnPath
      readonly as: TypedAs | 'text'
    },
    shape: UncertainColumn['shape'] | undefined
  ): Fragment | undefined {
    if (resultType === 'json') return sql`pg_catalog.jsonb`
    if (as === 'text' || resultType === 'text') {
      return shape === undefined || as === 'text' ? sql`pg_catalog.text` : undefined
    }
    const type = this.typeOf(column)
    if (as === 'difference') return type !== undefined && isNumber(type) ? type.sql : undefined
    if (!this.isExact(column, shape)) return undefined
    this.addParameterType(column)
    return this.nameOf(column)
  }

  /** Whether PostgreSQL reads JSON of this shape exactly, in the type that nameOf returns. */
  isExact (column: string, shape: UncertainColumn['shape'] | undefined): boolean {
    const { type, literal } = this.#columns.get(column) ?? {}
    return shape === undefined || (type !== undefined && isJsonType(type)) ||
      (shape === 'list' && literal?.isArray === true)
  }

  /** The type of a column without length or precision; undefined: it has no name here. */
  nameOf (column: string): Fragment | undefined {
    const { type, literal } = this.#columns.get(column) ?? {}
    return (type ?? literal)?.sql
  }

  /** Whether each value of these rows can be written as an expression. */
  canWriteCells (cells: ReadonlyArray<ReadonlyMap<string, Cell>>): boolean {
    return cells.every(row => [...row].every(([column, cell]) => this.#canWriteCell(column, cell)))
  }

  #canWriteCell (column: string, cell: Cell): boolean {
    if (cell.kind !== 'data') return true
    const { type, literal } = this.#columns.get(column) ?? {}
    if (type !== undefined) return isJsonType(type) || !isNested(cell.value)
    return literal !== undefined && canWrite(cell, literal)
  }
}
