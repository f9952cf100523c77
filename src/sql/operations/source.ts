/**
 * Builds the query of `from`.
 */
import { empty, identifier, join, sql, type Fragment } from '../../fragment/fragment.ts'
import type { PlanNode, RowsSource, Source, SourceField } from '../../plan/nodes.ts'
import { sourceOf } from '../../plan/source.ts'
import { tableName } from '../statement/table.ts'
import type { FindColumns } from '../values/column-types.ts'
import { kindOfOutput, SOURCE_ROW, type ColumnKind, type RowColumns } from '../values/column.ts'
import type { ChangeBuilder } from '../values/value-builder.ts'
import { outputValue } from './output.ts'
import { buildRows } from './select.ts'

/** The columns of the rows of `from`. */
export function sourceColumns (node: PlanNode, findColumns?: FindColumns): RowColumns {
  const source = sourceOf(node)
  return {
    row: SOURCE_ROW,
    kindOf: name =>
      source && kindOfOutput(source.output, name, column =>
        source.kind === 'table'
          ? findColumns?.(source.table)?.kinds.get(column)
          : kindOfField(source, column, findColumns?.(node.table)?.kinds)
      )
  }
}

function kindOfField (
  { fields }: RowsSource,
  name: string,
  kinds: ReadonlyMap<string, ColumnKind> | undefined
): ColumnKind | undefined {
  const { type } = fields.find(field => field.name === name) as SourceField
  if (typeof type === 'object') return kinds?.get(type.path.column)
  return type.startsWith('json') ? 'json' : undefined
}

/** Builds the query whose rows have the columns of the source. */
export function buildSource (source: Source, values: ChangeBuilder): Fragment {
  if (source.kind === 'rows') return buildRowsQuery(source, values)
  const inner = values.ofTable(source.table)
  return buildRows({ ...source, after: undefined, lock: undefined }, inner, {
    source: tableName(source.table),
    row: empty
  })
}

function buildRowsQuery (source: RowsSource, values: ChangeBuilder): Fragment {
  const { output, groupBy } = source
  const field = (name: string): Fragment => sql`r.${identifier(name)}`
  const columns = output.map(column => {
    const value = column.path === undefined ? sql`*` : field(column.path.column)
    return sql`${outputValue(column, value)} as ${identifier(column.name)}`
  })
  const groups = groupBy.length === 0
    ? empty
    : sql` group by ${join(groupBy.map(({ column }) => field(column)), sql`, `)}`
  return sql`select ${join(columns, sql`, `)} from ${
    values.buildSourceRows(source)
  } as r${groups}`
}
