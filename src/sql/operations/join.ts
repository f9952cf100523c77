/**
 * Builds the conditions of an update or a delete, and what joins it to the rows of `from`.
 */
import { identifier, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { DeleteNode, Join, UpdateNode } from '../../plan/nodes.ts'
import { raise } from '../statement/marker.ts'
import { tableName } from '../statement/table.ts'
import { columnValue, SOURCE_ROW } from '../values/column.ts'
import type { ChangeBuilder } from '../values/value-builder.ts'
import { buildWhere } from './filter.ts'
import { buildSource } from './source.ts'

type Target = Pick<UpdateNode | DeleteNode, 'table' | 'join' | 'where'>

interface JoinParts {
  /** The rows of `from`: `(…) as f`. Empty without a join. */
  readonly source: readonly Fragment[]
  /** Builds ` where …` with further conditions. */
  readonly where: (conditions: readonly Fragment[]) => Fragment
  /** Builds the condition that no row of the table meets several rows. */
  readonly unambiguous: () => readonly Fragment[]
}

/** Builds the parts of a statement whose table is `t`. */
export function buildJoin (target: Target, values: ChangeBuilder): JoinParts {
  const { table, join: joined, where } = target
  if (joined === undefined) {
    return {
      source: [],
      where: also => buildWhere(where, values, { also }),
      unambiguous: () => []
    }
  }
  const rows = sql`${values.addSource(buildSource(joined.source, values))} as ${SOURCE_ROW}`
  const pairs = buildWhere(where, values, { also: buildOn(joined, values) })
  const check = {
    rows: sql`${tableName(table)} as ${values.row}`,
    source: rows,
    where: pairs
  }
  return {
    source: [rows],
    where: conditions => join([pairs, ...conditions], sql` and `),
    unambiguous: () => values.explain ? [] : [checkPairs(check)]
  }
}

function buildOn ({ on }: Join, { row, source }: ChangeBuilder): readonly Fragment[] {
  return on.map(([column, path]) =>
    sql`${row}.${identifier(column)} = ${columnValue(path, source)}`
  )
}

/**
 * Builds a condition that is true, or fails with the marker `ambiguous` if a row of the table meets
 * several rows, of which PostgreSQL would take any. That is so if there are more pairs of rows than
 * rows in a pair. To compare these numbers needs no key of the rows, and both queries can use the
 * indexes that the update uses. The condition contains no column of the update, so PostgreSQL
 * evaluates it once, before it updates a row.
 */
function checkPairs (
  { rows, source, where }: Readonly<Record<'rows' | 'source' | 'where', Fragment>>
): Fragment {
  return sql`case when (select count(*) from ${rows}, ${source}${where})
    operator(pg_catalog.>) (select count(*) from ${rows} where exists (
      select from ${source}${where})) then ${raise('ambiguous')} is null else true end`
}
