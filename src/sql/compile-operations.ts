/**
 * Compiles the operations of a batch. The statements of a shape are compiled once and filled with
 * the values of each batch.
 */
import { once, type PlannedBatch } from '../plan/batch-planner.ts'
import { compile, compileQueryPlans, type CompileOptions } from './compile.ts'
import type { Statement } from './statement/statement.ts'
import { createTemplate, fillTemplate, type Template } from './statement/template.ts'
import {
  sessionPlaceholders,
  TemplateCache,
  withSession,
  type DatabaseNumber
} from './template-cache.ts'

export type FindTypes = Required<Pick<CompileOptions, 'findColumns' | 'findFunction'>>
type Options = CompileOptions & FindTypes & DatabaseNumber

/** Undefined: the statement depends on the values. */
const cache = new TemplateCache<ReadonlyArray<Template<Statement> | undefined>>(
  templates => templates
)

export function compileOperations (
  batch: PlannedBatch,
  options: Options
): readonly Statement[] {
  const { outline, values, plan } = batch
  if (values === undefined) return compile(plan(), options)
  const alone = once(() => fillStatements(batch, compile(plan(), options)))
  const { findColumns, findFunction } = options
  const types = [
    ...outline.tables.map(findColumns),
    ...outline.operations.map(({ kind, table }) => kind === 'call' && findFunction(table))
  ]
  const templates = cache.find(outline, { ...options, types }, () =>
    compile(outline, { ...options, session: sessionPlaceholders(values.length) })
      .map(createTemplate)
  )
  const allValues = withSession(values, options.session)
  return templates.map((template, i) =>
    (template && fillTemplate(template, allValues)) ?? alone()[i] as Statement
  )
}

/** The same with value checks. Each request has statements of its own. */
export function compileChecked (
  batch: PlannedBatch,
  options: Options & { readonly restoreSession: boolean }
): readonly Statement[] {
  return fillStatements(batch, compile(batch.plan(), { ...options, checkValues: true }))
}

/** Compiles what returns the query plans of a batch. */
export function compilePlans (
  batch: PlannedBatch,
  options: Pick<Options, 'maxRows' | 'distributed'> & FindTypes
): readonly Statement[] {
  return fillStatements(batch, compileQueryPlans(batch.plan(), options))
}

/** Fills the values of a named batch into statements that were compiled for one request. */
function fillStatements (
  { named = false, values = [] }: PlannedBatch,
  statements: readonly Statement[]
): readonly Statement[] {
  return named
    ? statements.map(statement =>
      fillTemplate(createTemplate(statement) as Template<Statement>, values) as Statement
    )
    : statements
}
