/**
 * What differs in the SQL for Citus, which runs parts of a statement on workers:
 * - A statement for one shard goes to its worker as a whole. A fence keeps statements on the
 *   coordinator that share results, read settings or check rows.
 * - Rows of distributed tables have the types of their shards, so they are columns or JSON here,
 *   and never a value of the type of the table.
 * - Rows come back shard by shard. Rows whose order matters are inserted by one statement each.
 * - The session of a batch is set on the workers as well.
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
import type { Assignment, Condition, Exists, InsertNode, PlanNode } from '../../plan/nodes.ts'
import { ALL_COLUMNS, isAllColumns, isMarked } from '../../plan/output.ts'
import { FIXED_SETTINGS, type ConnectionFacts } from '../../postgres/facts.ts'
import { searchPath, type Session, type SessionDefaults } from '../frame/session.ts'
import type { Statement } from '../statement/statement.ts'

/** A local relation: a query that reads it is completed on the coordinator. */
export const fence: Fragment = sql`, (select 1 as one from pg_catalog.pg_am limit 1) as fence`

/**
 * Returns the failure for something that Citus cannot do, or would do wrong. `place`: the
 * operation; undefined: the transaction.
 */
export function notOnCitus (message: string, place?: Pick<PlanNode, 'id' | 'index'>): Failure {
  return fromDatabase({ code: SqlState.feature_not_supported, message }, {
    op: place?.id ?? null,
    index: place?.index ?? null,
    anonymous: false,
    verbose: false
  })
}

interface DistributeOptions {
  /** MAX_ROWS. A statement reads one row more, to find out whether there are too many. */
  readonly maxRows: number
  /** Whether only the number of its rows is needed. */
  readonly onlyCounts?: boolean
}

/**
 * Returns the operation as Citus can run it: with `*` where it returns whole rows, and with a limit
 * for a select. From several shards, Citus merges a subquery without a limit into the conversion to
 * JSON, which then loses the order and names columns `f1`, `f2`, ….
 */
export function distributeNode (
  node: PlanNode,
  { maxRows, onlyCounts = false }: DistributeOptions
): PlanNode {
  const output = node.output ?? [{ name: ALL_COLUMNS, path: undefined, aggregate: undefined }]
  // Their checks are functions that Citus does not run on workers.
  const refused = assignmentsOf(node).find(({ modifier }) => isJoining(modifier))
  if (refused !== undefined) {
    throw notOnCitus(
      `Citus cannot run "${refused.modifier}" on column "${refused.column}". Read the value, and ` +
        'set it as a whole.',
      node
    )
  }
  switch (node.kind) {
    case 'call':
      return node
    case 'select': {
      const { limit = maxRows + 1, nested, having, order } = node
      if (having.length > 0 && order.length > 0 && output.some(isAllColumns)) {
        throw notOnCitus(
          'Citus loses the order of a select with "having" and all columns. Name the columns.',
          node
        )
      }
      if (nested === undefined) return { ...node, output, limit }
      // PostgreSQL does not compute nested rows that nothing reads.
      return onlyCounts ? { ...node, output, limit, nested: undefined } : { ...node, limit }
    }
    case 'insert':
      if (isMarked(node)) throw notOnCitus('Citus cannot tell which rows are "inserted".', node)
      if (flattenConditions(node.conflict?.update?.where ?? []).some(isExists)) {
        throw notOnCitus(
          'Citus cannot look into another table in "where" of "on_conflict". Read it first, and ' +
            'use "when".',
          node
        )
      }
      if (updatesOnConflict(node) && node.groups.length > 1) {
        throw notOnCitus(
          'Citus does not notice rows with the same key in several statements. Name the same ' +
            'columns in all rows.',
          node
        )
      }
      return { ...node, output, ...keepOrder(node, maxRows) }
    default:
      return { ...node, output }
  }
}

function isExists ({ kind }: Condition | Exists): boolean {
  return kind === 'exists'
}

/** The query of an insert keeps its order only with a limit, like that of a select. */
function keepOrder ({ query }: InsertNode, maxRows: number): Pick<InsertNode, 'query'> {
  if (query?.source.kind !== 'table') return { query }
  const { source } = query
  return { query: { ...query, source: { ...source, limit: source.limit ?? maxRows + 1 } } }
}

/** The computed values that an operation assigns to columns of distributed rows. */
function assignmentsOf (node: PlanNode): readonly Assignment[] {
  switch (node.kind) {
    case 'update':
      return node.computed
    case 'bulk_update':
      return node.groups.flatMap(({ computed }) => computed)
    case 'insert':
      return node.conflict?.update?.set ?? []
    default:
      return []
  }
}

/** Whether an insert may store several rows, which Citus then returns in another order. */
export function storesSeveral (node: InsertNode): boolean {
  const { groups } = node
  return groups.reduce((sum, { positions }) => sum + positions.length, 0) > 1 ||
    hasUncountedRows(node)
}

/**
 * Whether an insert stores the rows of a parameter. Its statement is the same for any number of
 * rows.
 */
function hasUncountedRows ({ groups }: InsertNode): boolean {
  return groups.some(({ rows: { cells, document: { references } } }) =>
    cells === undefined && references[0]?.parameter?.rows !== undefined
  )
}

/**
 * Up to this many rows are inserted by a statement each. The time grows with the square of their
 * number (measured: 10 rows 15 ms, 100 rows 0.6 s).
 */
const MAX_SEPARATE_ROWS = 20

/**
 * Whether an insert that returns its rows is one statement, so that all of them must be on one
 * shard, which returns them in their order.
 */
export function needsOneShard (node: InsertNode): boolean {
  const [group, ...more] = node.groups
  return group !== undefined && more.length === 0 &&
    (group.positions.length > MAX_SEPARATE_ROWS || hasUncountedRows(node) ||
      // Of rows with the same key, PostgreSQL refuses the second only in one statement.
      (group.positions.length > 1 && updatesOnConflict(node)))
}

function updatesOnConflict ({ conflict }: InsertNode): boolean {
  return conflict?.update !== undefined
}

/** The message of the raised error `shards` for an insert; see buildShardCheck. */
export const SEVERAL_SHARDS = 'Citus does not return the rows of several shards in their order. ' +
  `Insert at most ${MAX_SEPARATE_ROWS} rows (one with "do": "update"), or rows with the same ` +
  'value of the distribution column, which "returning" must contain, or use "returning": [].'

/** The message of `shards` for a call; see buildShardCheck. */
export const INLINED = 'Citus would read no rows of distributed tables in this function: it is ' +
  'written in SQL, returns a set and is not volatile. Declare it volatile, or write it in PL/pgSQL.'

/** Returns the row of `from` as JSON, without its last column `position`, an integer. */
export function withoutPosition (from: Fragment, position: Fragment): Fragment {
  const json = sql`pg_catalog.to_json(${from}.*)::pg_catalog.text`
  const length = sql`pg_catalog.length(${from}.${position}::pg_catalog.text)`
  // The text ends with `,"->":<number>}`.
  return sql`(pg_catalog.left(${json}, -7 - ${length}) operator(pg_catalog.||) '}')::json`
}

// Sets on the workers of Citus what policies and values depend on. Settings made by `set_config`
// stay on the coordinator; Citus repeats only SET LOCAL on every worker of the transaction.

/**
 * Builds the statements that set on workers what policies and values depend on. They are utility
 * statements, so no function can replace them. Workers also apply the settings of the role, because
 * Citus logs in there as the role; only the timeouts override them.
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
