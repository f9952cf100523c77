/**
 * What Citus needs beside statements that are sent one by one: the session of a batch is set on the
 * workers as well, and what Citus would do wrong is refused.
 */
import { isJoining } from '../../../schemas/modifier.ts'
import type { Failure } from '../../errors/catalogue.ts'
import { fromDatabase } from '../../errors/postgres.ts'
import { SqlState } from '../../errors/sqlstates.ts'
import {
  sql,
  type Fragment,
  identifier,
  join,
  render,
  requestConstant
} from '../../fragment/fragment.ts'
import { flattenConditions } from '../../plan/filter.ts'
import { assignmentsOf } from '../../plan/find-value.ts'
import type { Condition, Exists, InsertNode, PlanNode } from '../../plan/nodes.ts'
import { isAllColumns, isMarked } from '../../plan/output.ts'
import type { Plan } from '../../plan/plan.ts'
import { changesKey } from '../../plan/separate.ts'
import { FIXED_SETTINGS, type ConnectionFacts } from '../../postgres/facts.ts'
import type { TransactionMode } from '../frame/compiled-batch.ts'
import { searchPath, type Session, type SessionDefaults } from '../frame/session.ts'
import type { Statement } from '../statement/statement.ts'
import type { FindColumns } from '../values/column-types.ts'
import type { FindFunction } from '../values/function-types.ts'

/**
 * Returns the failure for something that Citus cannot do, or would do wrong. `place`: the
 * operation; undefined: the transaction.
 */
function notOnCitus (message: string, place?: Pick<PlanNode, 'id' | 'index'>): Failure {
  return fromDatabase({ code: SqlState.feature_not_supported, message }, {
    op: place?.id ?? null,
    index: place?.index ?? null
  })
}

interface CitusBatch {
  readonly mode: TransactionMode
  readonly isUpload: boolean
  readonly minimal: boolean
  readonly findColumns: FindColumns
  readonly findFunction: FindFunction
}

/** Refuses what Citus would accept and do wrong. */
export function refuseOnCitus (plan: Plan, batch: CitusBatch): void {
  const { mode: { isolation }, findColumns } = batch
  if (isolation !== 'read-committed') {
    throw notOnCitus(`Citus cannot keep isolation=${isolation}: its nodes have no common snapshot.`)
  }
  for (const node of plan.operations) {
    const problem = findProblem(node, plan, batch)
    if (problem !== undefined) throw notOnCitus(problem, node)
  }
  const view = plan.tables.find(table => findColumns(table)?.inlines)
  if (view === undefined) return
  const { schema, name } = view
  throw notOnCitus(
    `Citus would read no rows of view "${name}", because PostgreSQL inlines a function of it. ` +
      'Declare the function volatile.',
    plan.operations.find(({ table }) => table.schema === schema && table.name === name)
  )
}

function findProblem (
  node: PlanNode,
  plan: Plan,
  { findFunction, ...batch }: CitusBatch
): string | undefined {
  // $append and $merge are checked by functions that Citus does not run on workers.
  const refused = assignmentsOf(node).find(({ modifier }) => isJoining(modifier))
  if (refused !== undefined) {
    return `Citus cannot run "${refused.modifier}" on column "${refused.column}". Read the ` +
      'value, and set it as a whole.'
  }
  switch (node.kind) {
    case 'call':
      return findFunction(node.table)?.variants.some(({ isInlined }) => isInlined) === true
        ? INLINED
        : undefined
    case 'select': {
      const { having, order, output } = node
      return having.length > 0 && order.length > 0 && output?.some(isAllColumns) === true
        ? 'Citus loses the order of a select with "having" and all columns. Name the columns.'
        : undefined
    }
    case 'insert':
      return findInsertProblem(node, plan, batch)
    default:
      return undefined
  }
}

function findInsertProblem (
  node: InsertNode,
  { referenceUses }: Plan,
  { minimal, isUpload }: Pick<CitusBatch, 'minimal' | 'isUpload'>
): string | undefined {
  const { groups, conflict, answersCount, output, index } = node
  if (isMarked(node)) return 'Citus cannot tell which rows are "inserted".'
  if (flattenConditions(conflict?.update?.where ?? []).some(isExists)) {
    return 'Citus cannot look into another table in "where" of "on_conflict". Read it first, and ' +
      'use "when".'
  }
  const hidden = minimal || answersCount === true || output?.length === 0
  const isOne = groups.length === 0 || (groups.length === 1 && groups[0]?.positions.length === 1)
  return (isUpload || (changesKey(node) && !isOne)) && (!hidden || referenceUses.has(index))
    ? UNORDERED
    : undefined
}

const UNORDERED = 'Citus returns the rows of an upload, and of an insert whose "on_conflict" ' +
  'changes the key, in any order. Use "returning": [].'

/** Why a function is refused; see `isInlined`. */
const INLINED = 'Citus would read no rows of distributed tables in this function: it is ' +
  'written in SQL, returns a set and is not volatile. Declare it volatile, or write it in PL/pgSQL.'

function isExists ({ kind }: Condition | Exists): boolean {
  return kind === 'exists'
}

/** Whether the function `f` in the language `l` may become a part of the statement. */
const inlined = sql`l.lanname operator(pg_catalog.=) 'sql' and f.proretset
  and f.provolatile operator(pg_catalog.<>) 'v'`

/**
 * Whether the relation `c` is a view over such a function, or over a view over one, and so on. What
 * the rule of a view names is in pg_depend.
 */
export const inlinesFunction = sql`(c.relkind operator(pg_catalog.=) 'v' and exists (
  with recursive v (class, oid) as (
    select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, c.oid
    union
    select d.refclassid, d.refobjid from v
      join pg_catalog.pg_rewrite as r on r.ev_class operator(pg_catalog.=) v.oid
        and v.class operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
      join pg_catalog.pg_depend as d on d.objid operator(pg_catalog.=) r.oid
        and d.classid operator(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
  )
  select from v
    join pg_catalog.pg_proc as f on f.oid operator(pg_catalog.=) v.oid
      and v.class operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
    join pg_catalog.pg_language as l on l.oid operator(pg_catalog.=) f.prolang
    where ${inlined}))`

/**
 * Builds the statements that set on workers what policies and values depend on. Settings made by
 * `set_config` stay on the coordinator; Citus repeats only SET LOCAL on every worker of the
 * transaction. These are utility statements, so no function can replace them. Workers also apply
 * the settings of the role, because Citus logs in there as the role; only the timeouts override
 * them.
 */
export function workerSettings (
  session: Session,
  defaults: SessionDefaults,
  facts: Pick<ConnectionFacts, 'roleSettings' | 'extraSchemas'>
): readonly Statement[] {
  const ofRole = new Map(facts.roleSettings.get(session.role))
  const timeout = (name: string, milliseconds: number): readonly [string, string] =>
    [name, ofRole.get(name) ?? String(milliseconds)]
  const values: ReadonlyArray<readonly [name: string, value: string]> = [
    timeout('statement_timeout', defaults.statementTimeoutMs),
    timeout('lock_timeout', defaults.lockTimeoutMs),
    ['request.jwt.claims', session.claims],
    ['request.id', session.requestId],
    // Citus sets the encoding of its connections to workers itself.
    ...FIXED_SETTINGS.filter(([name]) => name !== 'client_encoding')
  ]
  return [
    sql`set local citus.propagate_set_commands to local`,
    // Without it, selects would read on workers outside of the transaction and its settings.
    sql`set local citus.select_opens_transaction_block to on`,
    sql`set local role ${identifier(session.role)}`,
    sql`set local search_path to ${searchPath(defaults, facts)}`,
    ...values.map(([name, value]) =>
      sql`set local ${settingName(name)} to ${requestConstant(value)}`
    ),
    sql`set local citus.propagate_set_commands to none`
  ].map(statement => ({ ...render(statement), prepare: false }))
}

function settingName (name: string): Fragment {
  return join(name.split('.').map(identifier), sql`.`)
}
