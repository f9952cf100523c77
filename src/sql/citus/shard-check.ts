/**
 * Checks on Citus what it would do otherwise than PostgreSQL, which only the catalogue or the rows
 * show.
 */
import { constant, render, sql, type Fragment } from '../../fragment/fragment.ts'
import type { PlanNode, TableName } from '../../plan/nodes.ts'
import type { Check } from '../statement/checks.ts'
import { raise } from '../statement/marker.ts'
import { tableName } from '../statement/table.ts'
import { needsOneShard } from './citus.ts'

/**
 * Fails with the marker `shards` if a call reads no rows, or an insert returns them unordered.
 * `row`: a row of `r` as JSON.
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
      and f.proname operator(pg_catalog.=) ${constant(name)}
      and l.lanname operator(pg_catalog.=) 'sql' and f.proretset
      and f.provolatile operator(pg_catalog.<>) 'v'))`
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
