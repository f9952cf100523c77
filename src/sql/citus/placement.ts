/**
 * Where Citus runs a statement: on a worker as a whole, or on the coordinator.
 */
import type { OperatorName } from '../../../schemas/operator.ts'
import { empty, type Fragment, constant, render, sql } from '../../fragment/fragment.ts'
import type { PlanNode, Predicate, TableName } from '../../plan/nodes.ts'
import type { Plan } from '../../plan/plan.ts'
import type { Check } from '../statement/checks.ts'
import { raise } from '../statement/raised-error.ts'
import { tableName } from '../statement/table.ts'
import type { FindColumns } from '../values/column-types.ts'
import type { StatementContext } from '../values/context.ts'
import { fence, needsOneShard, notOnCitus } from './citus.ts'

/**
 * Whether Citus may run the statement on a worker as a whole: it neither reads nor writes settings
 * of operations, and a worker can check its types. An insert would not run there as a whole. The
 * operation must have been built.
 */
export function isPushedDown (
  node: PlanNode,
  { uses, counted, requirements, keep = false, needs, references }: StatementContext
): boolean {
  return isForOneTable(node) && node.when.length === 0 && uses.length === 0 && !counted &&
    requirements === undefined && !keep && needs.rows === 0 &&
    needs.checksByName && !references.readsSettings
}

function isForOneTable (node: PlanNode): boolean {
  switch (node.kind) {
    case 'select':
      return node.nested === undefined
    case 'update':
    case 'delete':
      return node.join === undefined && !mayContradict(node.where)
    default:
      return false
  }
}

/** Conditions by which Citus selects shards, also inside of `not`. */
const SELECTING: ReadonlySet<OperatorName> = new Set(['eq', 'neq', 'in', 'nin'])

/**
 * Whether conditions may contradict each other in the distribution column, which is not known here:
 * they compare a column twice. Citus then finds no shard, and fails to run a change together with
 * its result ("could not find valid entry for shard 0"). On the coordinator it changes no rows.
 */
function mayContradict (where: readonly Predicate[]): boolean {
  const compared = selectingColumns(where, new Map())
  return new Set(compared).size < compared.length
}

/**
 * The columns of conditions that select shards. A column of another table counts as the column that
 * it equals, which `names` contains.
 */
function selectingColumns (
  predicates: readonly Predicate[],
  names: ReadonlyMap<string, string>
): readonly string[] {
  const nameOf = (column: string): string => names.get(column) ?? column
  return predicates.flatMap((predicate): readonly string[] => {
    switch (predicate.kind) {
      case 'condition':
        return SELECTING.has(predicate.operator) ? [nameOf(predicate.column.column)] : []
      case 'exists': {
        const { on, where } = predicate
        return selectingColumns(where, new Map(on.map(([inner, outer]) => [inner, nameOf(outer)])))
      }
      case 'not':
        return selectingColumns([predicate.of], names)
      default:
        return selectingColumns(predicate.of, names)
    }
  })
}

export function buildFence (node: PlanNode, context: StatementContext): Fragment {
  return context.distributed && !isPushedDown(node, context) ? fence : empty
}

// Checks for cases in which Citus would behave differently from PostgreSQL, and which only the
// catalogue or the rows show.

/**
 * Raises `shards` if a call would read no rows, or an insert would return them unordered. `row`: a
 * row of `r` as JSON.
 */
export function buildShardCheck (
  node: PlanNode,
  { returnsRows, row }: { readonly returnsRows: boolean, readonly row: Fragment }
): readonly Check[] {
  if (node.kind === 'call') return [{ when: isInlined(node.table), then: raise('shards') }]
  if (node.kind !== 'insert' || !returnsRows || !needsOneShard(node)) return []
  return [{ when: hasSeveralShards(node.table, row), then: raise('shards') }]
}

/**
 * Whether PostgreSQL may make the function a part of the statement. Citus then does not see that
 * its tables are distributed, and reads the empty tables of the coordinator.
 */
function isInlined ({ schema, name }: TableName): Fragment {
  return sql`(select exists (select from pg_catalog.pg_proc as f
    join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) f.pronamespace
    join pg_catalog.pg_language as l on l.oid operator(pg_catalog.=) f.prolang
    where n.nspname operator(pg_catalog.=) ${constant(schema)}
      and f.proname operator(pg_catalog.=) ${constant(name)} and ${inlined}))`
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

/** Refuses views whose rows Citus would not read, because PostgreSQL inlines their functions. */
export function refuseInlined (
  { tables, operations }: Plan,
  findColumns: FindColumns
): void {
  const view = tables.find(table => findColumns(table)?.inlines)
  if (view === undefined) return
  const { schema, name } = view
  throw notOnCitus(
    `Citus would read no rows of view "${name}", because PostgreSQL inlines a function of it. ` +
      'Declare the function volatile.',
    operations.find(({ table }) => table.schema === schema && table.name === name)
  )
}

/**
 * Whether rows of `r` may be of several shards, which return them in any order: they differ in the
 * distribution column, or do not have it. Tables that are not distributed have no such column, and
 * their rows are on one server.
 */
function hasSeveralShards (inserted: TableName, row: Fragment): Fragment {
  const table = constant(render(tableName(inserted)).text)
  const name = sql`select pg_catalog.column_to_column_name(logicalrelid, partkey) as name
    from pg_catalog.pg_dist_partition
    where logicalrelid operator(pg_catalog.=) ${table}::pg_catalog.regclass`
  const values = sql`select ${row} operator(pg_catalog.->>) d.name as value
    from r, (${name}) as d where d.name is not null`
  return sql`(select pg_catalog.count(distinct s.value) operator(pg_catalog.>) 1
    or pg_catalog.count(s.value) operator(pg_catalog.<) pg_catalog.count(*) from (${values}) as s)`
}
