/**
 * Describes a table or a column that does not exist, with the name that may have been meant.
 */
import { aggregateNames } from '../../schemas/operation.ts'
import { didYouMean, suggest } from '../errors/suggestion.ts'
import type { NamedPart } from '../plan/plan.ts'
import type { TableName } from '../plan/nodes.ts'
import type { Suggestions } from './look-up.ts'

/**
 * `Table "stocks" does not exist in schema "public". Did you mean "stock"?` `schemas`: DB_SCHEMAS.
 */
export function describeName (
  { table, column }: NamedPart,
  suggestions: Suggestions,
  schemas: readonly string[]
): string {
  if (column === undefined) return describeTable(table, suggestions.tables ?? [], schemas)
  // SQL for an aggregate instead of a column.
  const help = AGGREGATE_CALL.test(column)
    ? ' An aggregate is an object such as {"fn": "count"}.'
    : didYouMean(column, suggestions.columns ?? [])
  return `Table "${table.name}" has no column "${column}".${help}`
}

function describeTable (
  table: TableName,
  tables: readonly TableName[],
  schemas: readonly string[]
): string {
  const other = schemas.length === 1
    ? ''
    : ' For a table of another schema, write <schema>.<table>.'
  const near = suggestTable(table, tables, schemas[0])
  const help = near === undefined ? other : ` Did you mean "${near}"?`
  return `Table "${table.name}" does not exist in schema "${table.schema}".${help}`
}

/** Where the mistake in a call of an unknown function is, and what may be meant instead. */
export function adviseCall (
  called: TableName,
  { functions = [] }: Suggestions,
  schemas: readonly string[]
): { readonly path: readonly [string], readonly help: string } {
  const near = suggestTable(called, functions, schemas[0])
  return functions.some(({ schema, name }) => schema === called.schema && name === called.name)
    ? { path: ['args'], help: '. A function of this name has other parameters.' }
    : { path: ['function'], help: near === undefined ? '' : `. Did you mean "${near}"?` }
}

/** A table of another schema with this name, or one of the same schema with a similar name. */
function suggestTable (
  { schema, name }: TableName,
  tables: readonly TableName[],
  first: string | undefined
): string | undefined {
  const names = tables.filter(table => table.schema === schema).map(({ name }) => name)
  const near = suggest(name, names)
  const found = tables.find(table => table.name === name) ??
    (near === undefined ? undefined : { schema, name: near })
  if (found === undefined) return undefined
  return found.schema === first ? found.name : `${found.schema}.${found.name}`
}

const AGGREGATE_CALL = new RegExp(`^(?:${aggregateNames.join('|')})\\s*\\(`, 'i')
