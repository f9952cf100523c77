/**
 * Builds rows that are stored from their JSON.
 */
import {
  identifier,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import type { Reference, RowGroup } from '../../plan/nodes.ts'
import type { Parameter } from '../../plan/parameter.ts'
import { findReferences } from '../../plan/stored-values.ts'
import { buildRecordset } from './typed-json.ts'
import type { TypedValues, WrittenField, WrittenRows } from './typed-values.ts'
import { nameWritten } from './value-type.ts'

/** Rows that are stored. */
export interface StoredRows {
  /** What follows FROM; its rows are `x`. */
  readonly from: Fragment
  /** The values of the columns. */
  readonly stored: readonly Fragment[]
}

/** `<value> as "column", …` */
export function nameStored (columns: readonly string[], stored: readonly Fragment[]): Fragment {
  const values = columns.map((name, i) => sql`${stored[i] as Fragment} as ${identifier(name)}`)
  return join(values, sql`, `)
}

/**
 * Finds the columns whose value is the same reference in all rows. Returns none if the rows contain
 * other references.
 */
function findSame ({ columns, positions, rows }: RowGroup): ReadonlyMap<string, Reference> {
  const same = new Map<string, Reference>()
  const { references } = rows
  // By far most rows have none.
  if (references.length === 0) return same
  for (const column of columns) {
    const all = findReferences(rows, column) ?? []
    const [first] = all
    if (first === undefined || all.length < positions.length) continue
    const isSame = all.every(({ source, row, column, otherwise, parameter }) =>
      source === first.source && row === first.row && column === first.column &&
      otherwise === undefined && parameter === first.parameter
    )
    if (isSame) same.set(column, first)
  }
  return same.size * positions.length === references.length ? same : new Map<string, Reference>()
}

/**
 * Builds rows that are stored from their JSON. A reference that is the value of a column in all
 * rows is written once, so the JSON is one parameter. If a column has a type without a name here,
 * PostgreSQL takes the types of all from the table.
 */
export function buildStoredRows (
  group: RowGroup,
  values: TypedValues
): StoredRows {
  const { columns, positions, rows } = group
  const same = findSame(group)
  const own = columns.filter(column => !same.has(column))
  const fields = toFields(own)
  const written = values.writeRows(rows, fields, positions)
  const { document, boxed } = written
  const json = same.size === 0
    ? buildRows(group, written, values)
    : parameter(document.pieces.join('null'))
  const types = own.map(column => boxed.has(column)
    ? sql`pg_catalog.json`
    : nameWritten(values.typeOf(column)))
  const stored = columns.map(column => {
    const reference = same.get(column)
    if (reference !== undefined) {
      const stored = values.storedReference(reference, column, { row: positions[0] })
      return sql`(select ${stored})`
    }
    const value = sql`x.${identifier(column)}`
    return boxed.has(column) ? values.unbox(value, column) : value
  })
  if (types.every(type => type !== undefined)) {
    for (const column of own) values.addParameterType(column)
    const typed = own.map((column, i) => sql`${identifier(column)} ${types[i] as Fragment}`)
    const from = own.length === 0
      ? sql`pg_catalog.json_array_elements(${json}::pg_catalog.json) as x`
      : buildRecordset(json, typed)
    return { from, stored }
  }
  const typed = values.converter.buildFieldRows({
    json: sql`${json}::pg_catalog.json`,
    fields: fields.map(field => [field.name, values.exampleOf(field, written)])
  })
  return { from: sql`(${typed}) as x`, stored }
}

function toFields (columns: readonly string[]): readonly WrittenField[] {
  return columns.map(column => ({ name: column, column, as: 'value', stored: true }))
}

/** Builds the rows of a group as JSON. */
function buildRows (
  { columns, rows: { objects, references: [of] } }: RowGroup,
  written: WrittenRows,
  values: TypedValues
): Fragment {
  return objects === undefined
    ? values.buildParameterRows(of?.parameter as Parameter, toFields(columns))
    : values.buildRows(written)
}
