/**
 * Operands → SQL. A literal is a parameter without a type, so PostgreSQL reads it as the column's own type; only for places in jsonb,
 * whose type is known, it is written.
 */
import type { ColumnPath, List, Literal, Operand, Single } from '../plan/nodes.ts'
import { columnValue, comparableValue, tableName, typedDocument, typedList, typedReference, type Target } from './column.ts'
import { arrayText, constant, empty, parameter, sql, type Fragment } from './fragment.ts'
import { referenceText } from './reference.ts'

/** Where an operand stands: what it is compared with and whether it must be written as a constant (see `constant`). */
export interface Meeting extends Target { readonly constants?: boolean }

/** One value in the type of what it meets. */
export function single (operand: Single, meeting: Meeting): Fragment {
  switch (operand.kind) {
    case 'literal': return literal(operand, meeting)
    case 'reference': return typedReference(operand, meeting)
    case 'document': return typedDocument(operand, meeting)
    case 'column': return comparableValue(operand.path, operand.of === 'row' ? sql`t` : sql`excluded`)
  }
}

/** A text, e.g. a key of jsonb. */
export function singleText (operand: Single): Fragment {
  return operand.kind === 'reference' ? referenceText(operand) : sql`${parameter((operand as Literal).text)}::text`
}

/** An array in the array type of what it meets: the literals of a list, then its references, as far as there are any. */
export function arrays ({ literals, references }: List, meeting: Meeting): readonly Fragment[] {
  const parts: Fragment[] = []
  if (literals.length > 0) parts.push(literalArray(literals, meeting))
  if (references !== undefined) parts.push(typedList(references, meeting))
  return parts
}

/** `null`, `not null`, `true` … */
export function keyword (word: Extract<Operand, { kind: 'keyword' }>['word']): Fragment {
  switch (word) {
    case null: return sql`null`
    case 'not_null': return sql`not null`
    case 'unknown': return sql`unknown`
    default: return word ? sql`true` : sql`false`
  }
}

/** The arguments of to_tsquery and its like. */
export function searchArguments ({ query, config }: Extract<Operand, { kind: 'search' }>): Fragment {
  return sql`${configuration(config)}${singleText(query)}`
}

/**
 * What full text searches of a column: a tsvector itself, anything else as text in the given configuration. Which of the two it is the planner
 * finds out and not the execution, so that an index on the column or on to_tsvector(…) is used: as a tsvector `1 ` reads `'1'`, and all of
 * the condition is constant.
 */
export function searchDocument (path: ColumnPath, { table }: Target, config: string | undefined): Fragment {
  const value = columnValue(path, sql`t`)
  if (path.gives === 'json') return sql`to_tsvector(${configuration(config)}(${value})::jsonb)`
  if (path.gives === 'text') return sql`to_tsvector(${configuration(config)}${value})`
  const example = columnValue(path, sql`(null::${tableName(table)})`)
  return sql`case when coalesce(${example}, '1 ')::text = '''1''' then ${value}::tsvector else to_tsvector(${configuration(config)}${value}::text) end`
}

function configuration (config: string | undefined): Fragment {
  return config === undefined ? empty : sql`${parameter(config)}::regconfig, `
}

function literal ({ text, json }: Literal, { path, constants = false }: Meeting): Fragment {
  if (constants) return constant(text)
  return path.gives === 'json' ? sql`${parameter(json)}::jsonb` : parameter(text)
}

function literalArray (literals: readonly Literal[], { path, constants = false }: Meeting): Fragment {
  if (path.gives === 'json') return sql`${parameter(arrayText(literals.map(({ json }) => json)))}::jsonb[]`
  const texts = arrayText(literals.map(({ text }) => text))
  return constants ? constant(texts) : parameter(texts)
}
