/**
 * Builds the query of `from`, and what joins an update or a delete to its rows.
 */
import {
  empty,
  identifier,
  join,
  sql,
  whereAll,
  type Fragment
} from '../../fragment/fragment.ts'
import type {
  PlanNode,
  RowsSource,
  Source,
  SourceField,
  DeleteNode,
  Join,
  UpdateNode
} from '../../plan/nodes.ts'
import { sourceOf } from '../../plan/source.ts'
import { raise } from '../statement/raised-error.ts'
import { tableName } from '../statement/table.ts'
import type { FindColumns, TableColumns } from '../values/column-types.ts'
import { SOURCE_ROW, comparableValue, typeOfOutput, type RowColumns } from '../values/column.ts'
import { typeOfCast } from '../values/sources.ts'
import { expectFewRows } from '../values/typed-json.ts'
import type { TypedValues, WrittenField } from '../values/typed-values.ts'
import { buildConditions } from './filter.ts'
import { outputValue } from './output.ts'
import { buildRows } from './select.ts'

/** The columns of the rows of `from`. */
export function sourceColumns (node: PlanNode, findColumns: FindColumns): RowColumns {
  const source = sourceOf(node)
  return {
    row: SOURCE_ROW,
    typeOf: name =>
      source && typeOfOutput(source.output, name, column =>
        source.kind === 'table'
          ? findColumns(source.table)?.get(column)?.type
          : typeOfField(source, column, findColumns(node.table))
      )
  }
}

function typeOfField (
  { fields }: RowsSource,
  name: string,
  columns: TableColumns | undefined
): ReturnType<RowColumns['typeOf']> {
  const { type } = fields.find(field => field.name === name) as SourceField
  return typeof type === 'string' ? typeOfCast(type) : columns?.get(type.path.column)?.type
}

/** Builds the query whose rows have the columns of the source. */
export function buildSource (source: Source, values: TypedValues): Fragment {
  if (source.kind === 'rows') return buildRowsQuery(source, values)
  const inner = values.ofTable(source.table)
  return buildRows(source, inner, { source: tableName(source.table), row: empty })
}

function buildRowsQuery (source: RowsSource, values: TypedValues): Fragment {
  const { output, groupBy } = source
  const field = (name: string): Fragment => sql`r.${identifier(name)}`
  const columns = output.map(column => {
    const value = column.path === undefined ? sql`*` : field(column.path.column)
    return sql`${outputValue(column, value)} as ${identifier(column.name)}`
  })
  const groups = groupBy.length === 0
    ? empty
    : sql` group by ${join(groupBy.map(({ column }) => field(column)))}`
  return sql`select ${join(columns)} from (${
    buildSourceRows(source, values)
  }) as r${groups}`
}

/** Builds the query of the rows of a parameter. Each value is written in the type that it meets. */
function buildSourceRows ({ fields, document }: RowsSource, values: TypedValues): Fragment {
  const written = fields.map(({ name, path, type }): WrittenField => {
    if (typeof type === 'string') {
      return { name, column: path.column, as: 'value', stored: true, type: typeOfCast(type) }
    }
    const { path: { column, resultType }, as } = type
    const field = { name, column, member: path.column, as, stored: true } as const
    if (resultType === 'column') return field
    return { ...field, type: typeOfCast(resultType === 'json' ? 'jsonb' : 'text') }
  })
  return sql`select * from ${values.buildRows(document, written).from}${expectFewRows}`
}

type Target = Pick<UpdateNode | DeleteNode, 'table' | 'join' | 'where'>

interface JoinParts {
  /** The rows of `from` after the word: ` from (…) as f`. Empty without a join. */
  readonly source: Fragment
  /** Conditions on a row of the table. */
  readonly conditions: readonly Fragment[]
  /** The condition that no row of the table matches several rows of `from`. */
  readonly unambiguous: readonly Fragment[]
}

/** Builds the parts of a statement whose table is `t`. `word`: what precedes the rows of `from`. */
export function buildJoin (target: Target, values: TypedValues, word: Fragment): JoinParts {
  const { table, join: joined, where } = target
  const own = buildConditions(where, values)
  if (joined === undefined) return { source: empty, conditions: own, unambiguous: [] }
  const query = buildSource(joined.source, values)
  // Rows of a parameter are read once. A table must stay in the join, for the planner to order it.
  const source = joined.source.kind === 'rows'
    ? values.needs.addRows(query)
    : sql`(${query})`
  const rows = sql`${source} as ${SOURCE_ROW}`
  const conditions = [...own, ...buildOn(joined, values)]
  const check = {
    rows: sql`${tableName(table)} as ${values.row}`,
    source: rows,
    where: whereAll(conditions)
  }
  const unambiguous = values.explain ? [] : [checkPairs(check)]
  return { source: sql` ${word} ${rows}`, conditions, unambiguous }
}

function buildOn ({ on }: Join, { row, source }: TypedValues): readonly Fragment[] {
  return on.map(([column, path]) =>
    sql`${row}.${identifier(column)} = ${comparableValue(path, source)}`
  )
}

/**
 * Builds a condition that is true, or raises `ambiguous` if a row of the table matches several rows
 * of `from`, of which PostgreSQL would use any. That is so if there are more pairs of rows than
 * rows of the table in a pair. To compare these numbers needs no key of the rows, and both queries
 * can use the indexes that the update uses. The condition contains no column of the update, so
 * PostgreSQL evaluates it once, before it updates a row.
 */
function checkPairs (
  { rows, source, where }: Readonly<Record<'rows' | 'source' | 'where', Fragment>>
): Fragment {
  return sql`case when (select count(*) from ${rows}, ${source}${where})
    operator(pg_catalog.>) (select count(*) from ${rows} where exists (
      select from ${source}${where})) then ${raise('ambiguous')} is null else true end`
}
