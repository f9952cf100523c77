/**
 * Plans `having`: a filter of the rows that a select returns. Its conditions name output columns.
 */
import type { JsonObject } from '../json/parse.ts'
import type { Place } from './context.ts'
import { planFilter, type ReadColumn } from './filter.ts'
import { readPath } from './name.ts'
import type { ColumnPath, OutputColumn, Predicate } from './nodes.ts'
import { isAllColumns, isUnchanged } from './output.ts'

/** Plans a filter whose shape is valid. */
export function planHaving (
  filter: JsonObject,
  output: readonly OutputColumn[],
  place: Place
): readonly Predicate[] {
  const allColumns = output.some(isAllColumns)
  const types = new Map(output.map(column => [column.name, resultTypeOf(column)]))
  const read: ReadColumn = (text, { context, path }) => {
    const resultType = types.get(text)
    if (resultType !== undefined) return { column: text, keys: [], resultType }
    const found = readPath(text)
    if (!allColumns && (found.keys.length === 0 || !types.has(found.column))) {
      context.addIssue(
        'member_invalid',
        path,
        `"${text}" is not in "columns". Output columns: ${[...types.keys()].join(', ')}.`
      )
    }
    return found
  }
  return planFilter(filter, place, { read })
}

/** The type of the values of an output column. An aggregate has a type of its own. */
export function resultTypeOf (column: OutputColumn): ColumnPath['resultType'] {
  if (isUnchanged(column)) return column.path.resultType
  const cast = column.aggregate === undefined ? column.cast : undefined
  if (cast === 'json' || cast === 'jsonb') return 'json'
  return cast === 'text' ? 'text' : 'column'
}
