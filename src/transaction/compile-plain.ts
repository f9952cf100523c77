/**
 * Compiles the plain form of a batch. The statements of a shape are compiled once and filled with
 * the values of each batch.
 */
import type { PlannedBatch } from '../plan/batch-planner.ts'
import type { TableName } from '../plan/nodes.ts'
import { columnTypesStatement, type ColumnTypes, type TableColumns } from '../sql/column-types.ts'
import {
  compilePlain,
  linkOperations,
  type PlainOptions,
  type PlainStatement
} from '../sql/plain.ts'
import { createTemplate, fillTemplate, type Template } from '../sql/template.ts'
import type { PlainBatch } from './compiled-batch.ts'
import {
  sessionPlaceholders,
  TemplateCache,
  withSession,
  type DatabaseNumber
} from './template-cache.ts'

type Options = Omit<PlainOptions, 'findColumns'> & DatabaseNumber
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
interface PlainTemplates {
  /** undefined: the operation has no plain form. */
  readonly statements: ReadonlyArray<Template<PlainStatement> | undefined>
  readonly links: readonly number[]
}

const cache = new TemplateCache<PlainTemplates>(({ statements }) => statements)

function compileStatements (
  { outline, values, plan }: PlannedBatch,
  options: Options & PlainOptions,
  columns: Columns
): Pick<PlainBatch, 'statements' | 'links'> {
  if (values === undefined) {
    return { statements: compilePlain(plan(), options), links: linkOperations(outline) }
  }
  const { statements, links } = cache.find(outline, { ...options, types: columns }, () => ({
    statements: compilePlain(outline, { ...options, session: sessionPlaceholders(values.length) })
      .map(statement => statement && createTemplate(statement)),
    links: linkOperations(outline)
  }))
  const allValues = withSession(values, options.session)
  return {
    statements: statements.map(template => template && fillTemplate(template, allValues)),
    links
  }
}
