/**
 * Builds the INSERT of an insert whose rows come from a query.
 */
import { identifier, integer, join, sql, whereAll, type Fragment } from '../../fragment/fragment.ts'
import type { InsertNode, InsertQuery } from '../../plan/nodes.ts'
import { buildGate } from '../statement/gate.ts'
import { raise } from '../statement/marker.ts'
import { tableName } from '../statement/table.ts'
import { SOURCE_ROW } from '../values/column.ts'
import type { ChangeBuilder } from '../values/value-builder.ts'
import { buildNewValue } from './assignment.ts'
import { buildSource } from './source.ts'

interface InsertOptions {
  /** The values of `columns`, which are the same for all rows. */
  readonly values: readonly Fragment[]
  /** Further conditions. */
  readonly also: readonly Fragment[]
  /** The clause of buildConflictClause. */
  readonly conflict: Fragment
}

const COMMA = sql`, `

/** The number of a row of the query. No column that is read has a name with an arrow. */
const NUMBER = identifier('->')

/**
 * Builds the statement without `returning`. PostgreSQL inserts the rows in the order of the query,
 * which fails if it has too many: with `on conflict`, not all of them would be counted afterwards.
 */
export function buildQueryInsert (
  { table, query, when }: Pick<InsertNode, 'table' | 'when'> & { readonly query: InsertQuery },
  builder: ChangeBuilder,
  { values, also, conflict }: InsertOptions
): Fragment {
  const { columns, computed, source, maxRows } = query
  const names = [...columns, ...computed.map(({ column }) => column)].map(identifier)
  const computedValues = computed.map(assignment => buildNewValue(assignment, builder))
  const rows = builder.addSource(sql`select q.*, pg_catalog.row_number() over () as ${NUMBER}
    from (${buildSource(source, builder)}) as q limit ${integer(maxRows + 1)}`)
  const conditions = [...also, ...buildGate({ when }), ...checkNumber(maxRows, builder)]
  return sql`insert into ${tableName(table)} as t (${join(names, COMMA)}) select ${
    join([...values, ...computedValues], COMMA)
  } from ${rows} as ${SOURCE_ROW}${whereAll(conditions)}${conflict}`
}

function checkNumber (maxRows: number, { explain }: ChangeBuilder): readonly Fragment[] {
  if (explain) return []
  return [sql`case when ${SOURCE_ROW}.${NUMBER} > ${integer(maxRows)}
    then ${raise('rows')} is null else true end`]
}
