/**
 * Compiles the plain form of a batch. The statements of a shape are compiled once and filled with
 * the values of each batch.
 */
import type { PlannedBatch } from '../plan/batch-planner.ts'
import type { Plan, TableName } from '../plan/nodes.ts'
import { textPlaceholder } from '../plan/shape.ts'
import { columnTypesStatement, type ColumnTypes, type TableColumns } from '../sql/column-types.ts'
import {
  compilePlain,
  linkOperations,
  type PlainOptions,
  type PlainStatement
} from '../sql/plain.ts'
import { createTemplate, fillTemplate, type Template } from '../sql/template.ts'
import type { PlainBatch } from './compiled-batch.ts'

type Options = Omit<PlainOptions, 'findColumns'>
/** The columns of the tables of a plan; undefined: they are not known. */
type Columns = ReadonlyArray<TableColumns | undefined>

export function compilePlainBatch (
  batch: PlannedBatch,
  options: Options,
  columnTypes: ColumnTypes
): PlainBatch {
  const { tables } = batch.outline
  const findColumns = (table: TableName): TableColumns | undefined => columnTypes.lookup(table)
  const columns = tables.map(findColumns)
  return {
    ...compileStatements(batch, { ...options, findColumns }, columns),
    columnTypes: columns.includes(undefined)
      ? columnTypesStatement(tables.filter((_, i) => columns[i] === undefined))
      : undefined,
    remember: text => columnTypes.remember(text),
    forget: () => tables.forEach(table => columnTypes.forget(table))
  }
}

/** The statements of a shape. */
interface PlainTemplate {
  /** When the types of these columns are read again, the statements are compiled again. */
  readonly columns: Columns
  /** undefined: the operation has no plain form. */
  readonly statements: ReadonlyArray<Template<PlainStatement> | undefined>
  readonly links: readonly number[]
}

function compileStatements (
  { outline, values, plan }: PlannedBatch,
  options: PlainOptions,
  columns: Columns
): Pick<PlainBatch, 'statements' | 'links'> {
  if (values === undefined) {
    return { statements: compilePlain(plan(), options), links: linkOperations(outline) }
  }
  const { statements, links } = findTemplate(outline, values.length, { options, columns })
  const { role, claims } = options.session
  const allValues = [...values, role, claims]
  return {
    statements: statements.map(template => template && fillTemplate(template, allValues)),
    links
  }
}

/** By outline, and by what else changes the statements. */
const templates = new WeakMap<Plan, Map<string, PlainTemplate>>()

/** `values`: their number. The role and the claims of the batch follow them. */
function findTemplate (
  outline: Plan,
  values: number,
  { options, columns }: { readonly options: PlainOptions, readonly columns: Columns }
): PlainTemplate {
  const { minimal, keep } = options
  const variant = JSON.stringify([minimal, keep])
  const ofOutline = templates.get(outline) ?? new Map<string, PlainTemplate>()
  const known = ofOutline.get(variant)
  if (known?.columns.every((of, i) => of === columns[i]) === true) return known
  const session = { role: textPlaceholder(values), claims: textPlaceholder(values + 1) }
  const created = {
    columns,
    statements: compilePlain(outline, { ...options, session })
      .map(statement => statement && createTemplate(statement)),
    links: linkOperations(outline)
  }
  ofOutline.set(variant, created)
  templates.set(outline, ofOutline)
  return created
}
