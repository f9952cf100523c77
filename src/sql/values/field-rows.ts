/**
 * Builds the rows of a JSON array of objects, whose members are fields with types of their own: the
 * rows of a bulk update, and those of a parameter.
 */
import { casts } from '../../../schemas/cast.ts'
import { fill, sql, whereAll, type Fragment } from '../../fragment/fragment.ts'
import type {
  JsonDocument,
  RowsSource,
  SourceField,
  TableName,
  UncertainColumn
} from '../../plan/nodes.ts'
import { nullRow } from '../statement/table.ts'
import { pathLabel, typeExample } from './typed-json.ts'
import { verifyDocument, type CheckedMember } from './value-checks.ts'

/** What the rows need from a builder. */
export interface RowsBuilder {
  readonly table: TableName
  readonly checkValues: boolean

  /** Builds JSON, in which PostgreSQL replaces the references with their values. */
  buildDocument(document: JsonDocument): Fragment

  checkStoredRows(columns: readonly UncertainColumn[]): readonly Fragment[]

  /** Builds a query that converts a JSON array of objects to rows of the types of `examples`. */
  buildTypedRows(json: Fragment, examples: readonly Fragment[]): Fragment
}

interface FieldRows {
  readonly document: JsonDocument
  /** A NULL of the type of each field, see typeExample. Their names are those of ROW(…). */
  readonly examples: readonly Fragment[]
  /** The fields whose type may be unable to store a value. */
  readonly uncertain: ReadonlyArray<readonly [UncertainColumn, CheckedMember]>
  /** The positions of the rows in the request. */
  readonly positions: readonly number[]
  /** Conditions on the row `x`. */
  readonly conditions?: readonly Fragment[]
}

/** Builds the query of the rows, with the types of their fields. */
export function buildFieldRows (
  { document, examples, uncertain, positions, conditions = [] }: FieldRows,
  ctes: RowsBuilder
): Fragment {
  const json = ctes.buildDocument(document)
  const verified = ctes.checkValues
    ? verifyDocument(json, uncertain.map(([, member]) => member), {
      positions,
      from: sql`, json_populate_record(${nullRow(ctes.table)}, '{}') as n`
    })
    : json
  const all = [...ctes.checkStoredRows(uncertain.map(([column]) => column)), ...conditions]
  return sql`select x.* from (${ctes.buildTypedRows(verified, examples)}) as x${whereAll(all)}`
}

/** Builds the query of the rows of a parameter. */
export function buildSourceRows (
  { fields, document, uncertainColumns, data }: RowsSource,
  ctes: RowsBuilder
): Fragment {
  const uncertain = fields.flatMap(field => {
    const column = uncertainColumns.find(({ column }) => column === field.name)
    if (column === undefined || isDifference(field)) return []
    const { name: member, path } = field
    return [[column, { member, example: exampleOf(field, ctes), label: pathLabel(path) }] as const]
  })
  const examples = fields.map(field => exampleOf(field, ctes))
  const positions = data.map((_, i) => i)
  return buildFieldRows({ document, examples, uncertain, positions }, ctes)
}

function isDifference ({ type }: SourceField): boolean {
  return typeof type === 'object' && type.as === 'difference'
}

function exampleOf ({ type }: SourceField, { table }: RowsBuilder): Fragment {
  return typeof type === 'string'
    ? sql`null::${fill(casts[type], {})}`
    : typeExample(type.path, table, type.as)
}
