/**
 * Compiles the general form of a batch. The statements of a named batch are compiled once and
 * filled with the parameters of each request.
 */
import type { PlannedBatch } from '../plan/batch-planner.ts'
import type { Values } from '../plan/shape.ts'
import { compile, type CompileOptions, type Statement } from '../sql/compile.ts'
import { createTemplate, fillTemplate, type Template } from '../sql/template.ts'
import {
  sessionPlaceholders,
  TemplateCache,
  withSession,
  type DatabaseNumber
} from './template-cache.ts'

export type FindTypes = Required<Pick<CompileOptions, 'findColumns' | 'findFunction'>>
type Options =
  & Pick<CompileOptions, 'session' | 'maxRows' | 'maxBytes' | 'minimal' | 'keep' | 'distributed'>
  & FindTypes
  & DatabaseNumber

const cache = new TemplateCache<ReadonlyArray<Template<Statement>>>(templates => templates)

export function compileGeneral (
  { outline, named = false, values = [], plan }: PlannedBatch,
  options: Options
): readonly Statement[] {
  if (!named) return compile(plan(), options)
  const { findColumns, findFunction } = options
  const types = [
    ...outline.tables.map(findColumns),
    ...outline.operations.map(({ kind, table }) => kind === 'call' && findFunction(table))
  ]
  const templates = cache.find(outline, { ...options, types }, () =>
    createTemplates(compile(outline, { ...options, session: sessionPlaceholders(values.length) }))
  )
  return fillTemplates(templates, withSession(values, options.session))
}

/** Fills the values of a named batch into statements that were compiled for one request. */
export function fillStatements (
  { named = false, values = [] }: PlannedBatch,
  statements: readonly Statement[]
): readonly Statement[] {
  return named ? fillTemplates(createTemplates(statements), values) : statements
}

/** In the general form, a value of a named batch is always the whole of a parameter. */
function createTemplates (
  statements: readonly Statement[]
): ReadonlyArray<Template<Statement>> {
  return statements.map(statement => createTemplate(statement) as Template<Statement>)
}

function fillTemplates (
  templates: ReadonlyArray<Template<Statement>>,
  values: Values
): readonly Statement[] {
  return templates.map(template => fillTemplate(template, values) as Statement)
}
