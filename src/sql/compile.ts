/**
 * Compiles a plan to SQL, one statement for each operation. Values are parameters with the types of
 * their columns, and names are quoted identifiers. No other part of a request becomes SQL text.
 *
 * The types may have changed since they were read. Each statement therefore compares them with the
 * catalogue before it reads a row. If one differs, the batch runs again with new types.
 */
import type { Failure } from '../errors/catalogue.ts'
import { fromDatabase } from '../errors/postgres.ts'
import { SqlState } from '../errors/sqlstates.ts'
import {
  empty,
  integer,
  join,
  renderSlots,
  sql,
  whereAll,
  type Fragment
} from '../fragment/fragment.ts'
import type { PlanNode } from '../plan/nodes.ts'
import { answersOnlyCount } from '../plan/output.ts'
import type { Plan } from '../plan/plan.ts'
import type { CompileOptions, StatementContext } from './values/context.ts'
import { buildOperation } from './operations/operation.ts'
import { toPlain } from './operations/plain.ts'
import {
  operationTimes,
  rowPartOf,
  type BuiltOperation,
  findSeparate
} from './operations/output.ts'
import { sourceColumns } from './operations/source.ts'
import {
  buildAggregated,
  buildDirect,
  buildPlain,
  buildStreamed,
  requiredRows,
  type Body
} from './result.ts'
import { canRunCode } from './operations/runs-code.ts'
import { hideSecrets } from './statement/raised-error.ts'
import { SharedResults } from './statement/shared-results.ts'
import type { CompiledStatement } from './statement/statement.ts'
import { buildWhen } from './statement/when.ts'
import { References, type Earlier } from './values/references.ts'
import { findSources } from './values/sources.ts'
import { StatementNeeds, type StatementFacts } from './values/statement-needs.ts'
import { TypedValues } from './values/typed-values.ts'

/** The protocol counts parameters in 16 bits. */
const MAX_PARAMETERS = 65_533

/**
 * Returns the statements of a plan, in the order of its operations. Throws
 * `program_limit_exceeded`, PostgreSQL's own condition, if an operation needs too many parameters.
 */
export function compile (
  plan: Plan,
  options: CompileOptions
): readonly CompiledStatement[] {
  const results = new SharedResults(plan)
  const { plain = false, explain = false } = options
  const { findColumns, findFunction } = options
  const { operations } = plan
  const facts = { plain, explain, findColumns, findFunction }
  const sources = findSources(plan, findColumns)
  const separate = explain || plain ? NONE : findSeparate(plan, options)
  const earlier = { results, sources, separate }
  const names = Map.groupBy(plan.names, ({ index }) => index)
  // What an operation shares is known when those that read it have been compiled.
  return operations.toReversed().map(planned => {
    const uses = plan.referenceUses.get(planned.index) ?? []
    const node = plain ? toPlain(planned, options) : planned
    const contextOf = (node: PlanNode): StatementContext => ({
      ...options,
      ...facts,
      minimal: answersOnlyCount(node, options.minimal),
      uses,
      shared: results.of(node.index),
      counted: plan.counted.has(node.index),
      requirements: plan.requirements.get(node.index),
      ...createBuilders(node, earlier, facts),
      separate: separate.has(node.index),
      runsCode: canRunCode(node, names.get(node.index) ?? [], options),
      operations: operations.length
    })
    if (explain) return explainOperation({ ...node, when: [] }, { ...contextOf(node), ...ALONE })
    const compileNode = (node: PlanNode): CompiledStatement | undefined =>
      compileOperation(node, contextOf(node))
    const statement = compileNode(node) ?? compileNode(inBulk(node))
    if (statement === undefined) throw tooManyParameters(node)
    return statement
  }).reverse()
}

/** The same operation with the rows of each group together, which takes fewer parameters. */
function inBulk (node: PlanNode): PlanNode {
  if (!('groups' in node)) return node
  const groups = node.groups.map(group => ({ ...group, rows: { ...group.rows, inBulk: true } }))
  return { ...node, groups } as PlanNode
}

const NONE: ReadonlySet<number> = new Set()

function createBuilders (
  node: PlanNode,
  earlier: Earlier,
  facts: Omit<StatementFacts, 'source' | 'call'>
): Pick<StatementContext, 'hasColumn' | 'needs' | 'references' | 'values'> {
  const call = node.kind === 'call' ? node : undefined
  const source = sourceColumns(node, facts.findColumns)
  const needs = new StatementNeeds({ source, call, ...facts })
  const references = new References(earlier, needs)
  return {
    hasColumn: column => earlier.sources.get(node.index)?.has(column) === true,
    needs,
    references,
    values: new TypedValues(node.table, references, needs)
  }
}

/**
 * Explains only what the operation does to its table; the conversion to JSON and the checks are the
 * same for every operation. A plan shows the parameters of its query, so they contain no secrets of
 * raised errors.
 */
function explainOperation (node: PlanNode, context: StatementContext): CompiledStatement {
  const operation = buildOperation(node, rowPartOf(node, false), context)
  const statement = sql`explain (format json) ${buildCtes(operation, context)}select * from ${
    operation.rows
  } limit ${integer(context.maxRows + 1)}`
  return { ...hideSecrets(renderSlots(statement)), prepare: false }
}

/** The context of an operation whose rows no other operation reads. */
const ALONE = { uses: [], shared: [], counted: false, requirements: undefined } as const

/** Builds `with … `, or nothing. It is called last, because building the other parts adds CTEs. */
function buildCtes (
  { ctes }: Pick<BuiltOperation, 'ctes'>,
  { references, needs }: StatementContext
): Fragment {
  const all = [...references.sourceCtes(), ...needs.rowCtes(), ...ctes]
  return all.length === 0 ? empty : sql`with ${join(all)} `
}

/** Returns undefined if the statement has more parameters than the protocol can count. */
function compileOperation (
  node: PlanNode,
  context: StatementContext
): CompiledStatement | undefined {
  const { needs, separate, plain = false, streamed = false } = context
  const build = plain
    ? buildPlain
    : streamed ? buildStreamed : separate ? buildDirect : buildAggregated
  const body: Body = build(node, context)
  const conditions = plain
    ? []
    : [
        ...needs.typeChecks(),
        ...node.kind === 'select' ? [] : requiredRows(node, context),
        ...needs.conditions,
        ...computedFirst(node)
      ]
  const from = body.from(whereAll(conditions))
  const statement = renderSlots(
    sql`${buildCtes(body, context)}select ${body.result}${
      body.end === undefined ? operationTimes : empty
    }${body.settings ?? empty} from ${from}${body.end ?? empty}`
  )
  if (statement.parameters.length > MAX_PARAMETERS) return undefined
  return {
    ...statement,
    prepare: statement.unique !== true && !needs.hasUnknownTypes,
    refused: needs.refused,
    issues: needs.issues,
    separateRows: separate || streamed || plain,
    runsCode: context.runsCode
  }
}

function tooManyParameters ({ id, index }: PlanNode): Failure {
  const message =
    `The operation is too large: its values and conditions need more than ${MAX_PARAMETERS} ` +
    'parameters.'
  return fromDatabase({ code: SqlState.program_limit_exceeded, message }, { op: id, index })
}

/**
 * The conditions of `when` of a select or a call. Operations that change rows have them in their
 * own CTEs.
 */
function computedFirst (node: PlanNode): readonly Fragment[] {
  return node.kind === 'select' || node.kind === 'call' ? buildWhen(node) : []
}
