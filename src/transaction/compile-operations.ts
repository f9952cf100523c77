/**
 * Compiles the operations of a batch: each to the plain form, or to the general one if it has none.
 * The statements of a shape are compiled once and filled with the values of each batch.
 */
import { once, type PlannedBatch } from '../plan/batch-planner.ts'
import type { Plan } from '../plan/nodes.ts'
import {
  compile,
  compileQueryPlans,
  type CompileOptions,
  type Statement
} from '../sql/compile.ts'
import { compilePlain, compilePlainQueryPlans, type PlainStatement } from '../sql/plain.ts'
import { createTemplate, fillTemplate, type Template } from '../sql/template.ts'
import {
  sessionPlaceholders,
  TemplateCache,
  withSession,
  type DatabaseNumber
} from './template-cache.ts'

/** An operation as it is sent. */
export type OperationStatement = Statement | PlainStatement

export type FindTypes = Required<Pick<CompileOptions, 'findColumns' | 'findFunction'>>
type Options =
  & CompileOptions
  & FindTypes
  & DatabaseNumber
  & { readonly plainForm?: boolean }

type OperationTemplate = Template<OperationStatement>

/** Undefined: the statement depends on the values. */
const cache = new TemplateCache<ReadonlyArray<OperationTemplate | undefined>>(
  templates => templates
)

export function compileOperations (
  batch: PlannedBatch,
  options: Options
): readonly OperationStatement[] {
  const { outline, named, values, plan } = batch
  if (values === undefined) return compilePlan(plan(), options)
  const alone = once(() =>
    named === true
      ? fillStatements(batch, compile(plan(), options))
      : compilePlan(plan(), options)
  )
  const { findColumns, findFunction } = options
  const types = [
    ...outline.tables.map(findColumns),
    ...outline.operations.map(({ kind, table }) => kind === 'call' && findFunction(table))
  ]
  const templates = cache.find(outline, { ...options, types }, () =>
    createTemplates(batch, { ...options, session: sessionPlaceholders(values.length) })
  )
  const allValues = withSession(values, options.session)
  return templates.map((template, i) =>
    (template && fillTemplate(template, allValues)) ?? alone()[i] as OperationStatement
  )
}

/** The same with value checks. Each request has statements of its own. */
export function compileChecked (
  batch: PlannedBatch,
  options: Options & { readonly restoreSession: boolean }
): readonly OperationStatement[] {
  const plan = batch.plan()
  const checked = { ...options, checkValues: true }
  return fillStatements(
    batch,
    options.distributed === true
      ? compile(plan, checked)
      : compilePlan(plan, checked)
  )
}

function compilePlan (plan: Plan, options: Options): readonly OperationStatement[] {
  const general = once(() => compile(plan, options))
  return compileForms(plan, options).map((statement, i) => statement ?? general()[i] as Statement)
}

/** The statements of a plan in the plain form; undefined: it has none. */
function compileForms (
  plan: Plan,
  options: Options
): ReadonlyArray<PlainStatement | undefined> {
  return options.plainForm === false
    ? plan.operations.map(() => undefined)
    : compilePlain(plan, options)
}

/** In the general form, a value of a named batch is always the whole of a parameter. */
function createTemplates (
  { outline, named = false }: PlannedBatch,
  options: Options
): ReadonlyArray<OperationTemplate | undefined> {
  const general = once(() => compile(outline, options))
  return compileForms(outline, options).map((statement, i) =>
    (statement && createTemplate(statement)) ??
      (named ? createTemplate(general()[i] as Statement) : undefined)
  )
}

/** Compiles what returns the query plans of a batch. */
export function compilePlans (
  batch: PlannedBatch,
  options: Pick<Options, 'maxRows' | 'distributed'> & FindTypes
): readonly Statement[] {
  const plan = batch.plan()
  const general = once(() => fillStatements(batch, compileQueryPlans(plan, options)))
  if (options.distributed === true) return general()
  const { named, values = [] } = batch
  return compilePlainQueryPlans(plan, options).map((statement, i) => {
    const filled = named
      ? fillTemplate(createTemplate(statement) as Template<Statement>, values)
      : statement
    return filled ?? general()[i] as Statement
  })
}

/** Fills the values of a named batch into statements that were compiled for one request. */
function fillStatements<Filled extends OperationStatement> (
  { named = false, values = [] }: PlannedBatch,
  statements: readonly Filled[]
): readonly Filled[] {
  return named
    ? statements.map(statement =>
      fillTemplate(createTemplate(statement) as Template<Filled>, values) as Filled
    )
    : statements
}
