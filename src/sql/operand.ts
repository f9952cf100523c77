/**
 * Operands → SQL. A literal is a parameter without a type, so PostgreSQL reads it as the column's own type; only for places in jsonb,
 * whose type is known, it is written.
 */
import type { ColumnPath, List, Literal, Operand, Single } from '../plan/nodes.ts'
import { columnValue, comparableValue } from './column.ts'
import { arrayText, constant, empty, parameter, sql, type Fragment } from './fragment.ts'
import { documentJson, referenceJson, referenceText } from './reference.ts'
import { tableName, type Scope } from './scope.ts'

/** Where an operand stands: what it is compared with or assigned to, and whether it must be written as a constant (see `constant`). */
export interface Meeting { readonly scope: Scope, readonly path: ColumnPath, readonly constants?: boolean }

/** One value in the type of what it meets. */
export function single (operand: Single, meeting: Meeting): Fragment {
  const { scope, path } = meeting
  switch (operand.kind) {
    case 'literal': return literal(operand, meeting)
    case 'reference': return scope.typed(referenceJson(operand, scope), path)
    case 'document': return scope.typed(documentJson(operand, scope), path)
    case 'column': return comparableValue(operand.path, operand.of === 'row' ? sql`t` : sql`excluded`)
  }
}

/** A text, e.g. a key of jsonb. */
export function singleText (operand: Single, scope: Scope): Fragment {
  return operand.kind === 'reference' ? referenceText(operand, scope) : sql`${parameter((operand as Literal).text)}::text`
}

/** An array in the array type of what it meets: the literals of a list, then its references, as far as there are any. */
export function arrays ({ literals, references }: List, meeting: Meeting): readonly Fragment[] {
  const parts: Fragment[] = []
  if (literals.length > 0) parts.push(literalArray(literals, meeting))
  // Without `coalesce` it would be a query after `any`, whose rows are compared.
  if (references !== undefined) parts.push(sql`coalesce(${meeting.scope.typed(documentJson(references, meeting.scope), meeting.path, true)})`)
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
export function searchArguments ({ query, config }: Extract<Operand, { kind: 'search' }>, scope: Scope): Fragment {
  return sql`${configuration(config)}${singleText(query, scope)}`
}

/**
 * What full text searches of a column: a tsvector itself, anything else as text in the given configuration. Which of the two it is the planner
 * finds out and not the execution, so that an index on the column or on to_tsvector(…) is used: as a tsvector `1 ` reads `'1'`, and all of
 * the condition is constant.
 */
export function searchDocument (path: ColumnPath, { table }: Scope, config: string | undefined): Fragment {
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
