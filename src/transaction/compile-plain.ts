/**
 * Compiles the plain form of a batch. The statements of a shape are compiled once and filled with
 * the values of each batch.
 */
import type { PlannedBatch } from '../plan/batch-planner.ts'
import type { Plan, TableName } from '../plan/nodes.ts'
import { textPlaceholder } from '../plan/shape.ts'
import { columnTypesStatement, type ColumnTypes } from '../sql/column-types.ts'
import {
  compilePlain,
  linkOperations,
  type PlainOptions,
  type PlainStatement
} from '../sql/plain.ts'
import { createTemplate, fillTemplate, type Template } from '../sql/template.ts'
import type { PlainBatch } from './compiled-batch.ts'

type Options = Omit<PlainOptions, 'columns'>
type Columns = PlainOptions['columns']

export function compilePlainBatch (
  batch: PlannedBatch,
  options: Options,
  columnTypes: ColumnTypes
): PlainBatch {
  const { operations } = batch.outline
  const columns = operations.map(({ table }) => columnTypes.lookup(table))
  return {
    ...compileStatements(batch, { ...options, columns }),
    columnTypes: columns.includes(undefined)
      ? columnTypesStatement(findUnknownTables(batch.outline, columns))
      : undefined,
    remember: text => columnTypes.remember(text),
    forget: () => operations.forEach(({ table }) => columnTypes.forget(table))
  }
}

function findUnknownTables ({ operations }: Plan, columns: Columns): readonly TableName[] {
  const unknown = operations.filter((_, i) => columns[i] === undefined)
  return [...new Map(unknown.map(({ table }) => [JSON.stringify(table), table])).values()]
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
  options: PlainOptions
): Pick<PlainBatch, 'statements' | 'links'> {
  if (values === undefined) {
    return { statements: compilePlain(plan(), options), links: linkOperations(outline) }
  }
  const { statements, links } = findTemplate(outline, values.length, options)
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
function findTemplate (outline: Plan, values: number, options: PlainOptions): PlainTemplate {
  const { minimal, keep, columns } = options
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
