/**
 * Builds rows that are stored from their JSON.
 */
import {
  empty,
  identifier,
  join,
  parameter,
  sql,
  whereAll,
  type Fragment
} from '../../fragment/fragment.ts'
import { toPath } from '../../plan/name.ts'
import type { JsonDocument, Reference, RowGroup, StoredJson } from '../../plan/nodes.ts'
import { unusedName } from '../statement/table.ts'
import { jsonNullRows } from './documents.ts'
import { buildRecordset } from './typed-json.ts'
import type { TypedValues, WrittenField } from './typed-values.ts'

/** Rows that are stored. */
export interface StoredRows {
  /** What follows FROM; its rows are `x`. */
  readonly from: Fragment
  /** The values of the columns. */
  readonly stored: readonly Fragment[]
  readonly checks: readonly Fragment[]
}

/** `<value> as "column", …` */
export function nameStored (columns: readonly string[], stored: readonly Fragment[]): Fragment {
  const values = columns.map((name, i) => sql`${stored[i] as Fragment} as ${identifier(name)}`)
  return join(values, sql`, `)
}

/**
 * Finds the columns whose value is the same reference in all rows. Returns none if the rows contain
 * other references. `rows`: their number.
 */
function findSame (
  { document, uncertainColumns }: StoredJson,
  rows: number
): ReadonlyMap<string, Reference> {
  const same = new Map<string, Reference>()
  for (const { column, references } of uncertainColumns) {
    const first = references[0]?.reference
    if (first === undefined || references.length < rows || first.otherwise !== undefined) continue
    const isSame = references.every(({ reference: { source, row, column, ...rest } }) =>
      source === first.source && row === first.row && column === first.column &&
      rest.otherwise === undefined && rest.parameter === first.parameter
    )
    if (isSame) same.set(column, first)
  }
  return same.size * rows === document.references.length ? same : new Map<string, Reference>()
}

/**
 * Builds rows that are stored from their JSON. A reference that is the value of a column in all
 * rows is written once, so the JSON is one parameter. If a column has a type without a name here,
 * PostgreSQL reads the rows as those of the table.
 */
export function buildStoredRows (group: RowGroup, values: TypedValues): StoredRows {
  const built = values.checkValues ? verifyRows(group, values) : readRows(group, values)
  return values.distributed ? collectRows(group.columns, built, values) : built
}

/** Rows as a CTE: the coordinator of Citus computes it. */
export function collectRows (
  columns: readonly string[],
  { from, stored, checks }: StoredRows,
  values: TypedValues
): StoredRows {
  const names = columns.map(identifier)
  const query = sql`select ${nameStored(columns, stored)} from ${from}${whereAll(checks)}`
  return {
    from: sql`${values.needs.addRows(query)} as x`,
    stored: names.map(name => sql`x.${name}`),
    checks: []
  }
}

function readRows ({ columns, positions, rows }: RowGroup, values: TypedValues): StoredRows {
  const { document, uncertainColumns } = writeRows({ columns, positions, rows }, values)
  values.meetAll(uncertainColumns)
  const same = findSame(rows, positions.length)
  const json = same.size === 0
    ? buildRows(columns, document, values)
    : parameter(document.pieces.join('null'))
  const own = columns.filter(column => !same.has(column))
  const types = own.map(column => values.nameOf(column))
  const stored = columns.map(column => {
    const reference = same.get(column)
    return reference === undefined
      ? sql`x.${identifier(column)}`
      : sql`(select ${values.storedReference(reference, column)})`
  })
  const uncertain = uncertainColumns.filter(({ column }) => !same.has(column))
    .map(checked => ({ ...checked, isHidden: values.areHidden(checked.column, checked) }))
  if (types.every(type => type !== undefined)) {
    for (const column of own) values.addParameterType(column)
    const typed = own.map((column, i) => sql`${identifier(column)} ${types[i] as Fragment}`)
    // A reference may have been the JSON null.
    const inexact = uncertain.filter(({ column, shape, references }) =>
      references.length > 0 || !values.isExact(column, shape)
    )
    const from = own.length === 0
      ? sql`pg_catalog.json_array_elements(${json}::pg_catalog.json) as x`
      : buildRecordset(json, typed)
    return { from, stored, checks: values.converter.checkColumns(inexact) }
  }
  const from = sql`${values.buildTableRows(sql`${json}::pg_catalog.json`, own)} as x`
  return { from, stored, checks: values.converter.checkColumns(uncertain) }
}

function writeRows (
  { columns, rows, positions }: RowGroup,
  values: TypedValues
): Pick<StoredJson, 'document' | 'uncertainColumns'> {
  return values.writeRows(rows, toFields(columns), positions)
}

function toFields (columns: readonly string[]): readonly WrittenField[] {
  return columns.map(column => ({ name: column, column, as: 'value', stored: true }))
}

/** Builds the rows of a document as JSON. */
function buildRows (
  columns: readonly string[],
  document: JsonDocument,
  values: TypedValues
): Fragment {
  const { references: [reference], pieces } = document
  const of = pieces.every(piece => piece === '') ? reference?.parameter : undefined
  return of?.rows === undefined
    ? values.buildDocument(document)
    : values.buildParameterRows(of, toFields(columns))
}

/** The same with value checks. A reference may have been the JSON null. */
function verifyRows ({ columns, positions, rows }: RowGroup, values: TypedValues): StoredRows {
  const { document, uncertainColumns } = writeRows({ columns, positions, rows }, values)
  values.meetAll(uncertainColumns)
  const number = identifier(unusedName(columns))
  const members = uncertainColumns.map(({ column }) => ({
    member: column,
    example: sql`n.${identifier(column)}`,
    label: column
  }))
  const sent = buildRows(columns, document, values)
  const json = values.converter.verifyRows(sent, members, positions)
  const stored = columns.map(column => {
    const value = sql`x.${identifier(column)}`
    const references = uncertainColumns.find(({ column: name }) => name === column)?.references
    return references === undefined || references.length === 0
      ? value
      : sql`case when x.${number} = any (${jsonNullRows(references)})
          then ${values.buildJsonNull(toPath(column), { refuse: false })} else ${value} end`
  })
  const read = columns.map(column => sql`r.${identifier(column)}, `)
  const query = sql`select ${join(read, empty)}pg_catalog.row_number() over () as ${number}
    from ${values.buildTableRows(json, columns)} as r`
  return { from: sql`${values.needs.computeFirst(query)} as x`, stored, checks: [] }
}
