/**
 * Checks on Citus that the rows of an insert come from one shard, which returns them in the order
 * of its values. Several shards return them in any order.
 */
import type { PlanNode } from '../plan/nodes.ts'
import type { Check } from './checks.ts'
import { needsOneShard } from './citus.ts'
import { constant, render, sql } from './fragment.ts'
import { raise } from './marker.ts'
import type { Shape } from './operation-cte.ts'
import { tableName } from './table.ts'

/**
 * Fails if PostgreSQL inlines a function that is called: Citus then does not see that its tables
 * are distributed, and reads the empty tables of the coordinator. Or fails if rows of `r` may be
 * of several shards: they differ in the distribution column, or do not have it. Tables that are
 * not distributed have no such column, and their rows are on one server.
 */
export function buildShardCheck (node: PlanNode, shape: Shape): readonly Check[] {
  if (node.kind === 'call') {
    const inlined = sql`(select exists (select from pg_catalog.pg_proc as f
      join pg_catalog.pg_namespace as n on n.oid operator(pg_catalog.=) f.pronamespace
      join pg_catalog.pg_language as l on l.oid operator(pg_catalog.=) f.prolang
      where n.nspname operator(pg_catalog.=) ${constant(node.table.schema)}
        and f.proname operator(pg_catalog.=) ${constant(node.table.name)}
        and l.lanname operator(pg_catalog.=) 'sql' and f.proretset
        and f.provolatile operator(pg_catalog.<>) 'v'))`
    return [{ when: inlined, then: raise('shards') }]
  }
  if (node.kind !== 'insert' || shape === 'nothing' || !needsOneShard(node)) return []
  const table = constant(render(tableName(node.table)).text)
  const name = sql`select pg_catalog.column_to_column_name(logicalrelid, partkey) as name
    from pg_catalog.pg_dist_partition
    where logicalrelid operator(pg_catalog.=) ${table}::pg_catalog.regclass`
  const values = sql`select r.row operator(pg_catalog.->>) d.name as value
    from r, (${name}) as d where d.name is not null`
  const several = sql`(select pg_catalog.count(distinct s.value) operator(pg_catalog.>) 1
    or pg_catalog.count(s.value) operator(pg_catalog.<) pg_catalog.count(*) from (${values}) as s)`
  return [{ when: several, then: raise('shards') }]
}
