/**
 * Operands → SQL. A literal is a parameter without a type, so PostgreSQL reads it as the column's
 * own type; only for places in jsonb, whose type is known, it is written.
 */
import { isValue, shapeOfReference } from '../plan/document.ts'
import type { ColumnPath, List, Literal, Operand, Reference, Single } from '../plan/nodes.ts'
import { columnValue, comparableValue } from './column.ts'
import {
  arrayText,
  constant,
  empty,
  identifier,
  parameter,
  sql,
  type Fragment
} from './fragment.ts'
import { documentJson, isJsonNull, referenceJson, referenceText } from './reference.ts'
import type { CteBuilder } from './cte-builder.ts'

/**
 * Where an operand is used: what it is compared with, or (`stored`) assigned to, and whether it
 * must be written as a constant (see `constant`).
 */
export interface Meeting {
  readonly scope: CteBuilder
  readonly path: ColumnPath
  readonly constants?: boolean
  readonly stored?: boolean
}

/** One value in the type of what it meets. */
export function single (operand: Single, meeting: Meeting): Fragment {
  const { scope, path, stored = false } = meeting
  switch (operand.kind) {
    case 'null':
      return sql`null`
    case 'literal':
      return literal(operand, meeting)
    case 'reference':
      return typedReference(operand, meeting)
    case 'document': {
      if (operand.pieces[0] === 'null') return scope.jsonNull(path, { refused: !stored })
      const { references: [reference], shape } = operand
      if (reference !== undefined && operand.pieces.every(piece => piece === '')) {
        return typedReference(reference, meeting)
      }
      return scope.typed(documentJson(operand, scope), path, 'value', shape)
    }
    case 'column':
      return comparableValue(operand.path, operand.of === 'row' ? sql`t` : sql`excluded`)
  }
}

/** A number that is added to what it meets. */
export function difference (operand: Single, meeting: Meeting): Fragment {
  const { scope, path } = meeting
  if (operand.kind === 'reference') {
    return scope.typed(referenceJson(operand, scope), path, 'difference')
  }
  const column = sql`t.${identifier(path.column)}`
  return sql`coalesce(case when false then ${column} - ${column} end, ${single(operand, meeting)})`
}

/**
 * The value, row or list that a reference means. A value that is only compared may be any JSON,
 * because it is not stored, and the JSON null counts as NULL: both are published alike.
 */
function typedReference (reference: Reference, { scope, path, stored = false }: Meeting): Fragment {
  const compared = isValue(reference) && !stored
  const shape = compared ? 'scalar' : shapeOfReference(reference)
  const value = scope.typed(referenceJson(reference, scope), path, 'value', shape)
  if (!scope.careful || compared || !isValue(reference)) return value
  return sql`coalesce(${value}, ${scope.jsonNull(path, { when: isJsonNull(reference) })})`
}

/** A text, e.g. a key of jsonb. */
export function singleText (operand: Single, scope: CteBuilder): Fragment {
  return operand.kind === 'reference'
    ? referenceText(operand, scope)
    : sql`${parameter((operand as Literal).text)}::text`
}

/**
 * An array in the array type of what it meets: the literals of a list and its references. They are
 * one array, so the column they are compared with is computed once for each row.
 */
export function array ({ literals, references }: List, meeting: Meeting): Fragment {
  const written = literals.length === 0 ? undefined : literalArray(literals, meeting)
  if (references === undefined) return written as Fragment
  const { scope, path } = meeting
  const read = scope.list(documentJson(references, scope), path)
  // Without `coalesce` it would be a query after `any`, whose rows are compared.
  if (written === undefined) return sql`coalesce(${read})`
  // In a query of its own, which runs once: as a filter it would be computed for each row.
  return sql`coalesce((select pg_catalog.array_cat(${written}, ${read})))`
}

/** `null`, `not null`, `true` … */
export function keyword (word: Extract<Operand, { kind: 'keyword' }>['word']): Fragment {
  switch (word) {
    case null:
      return sql`null`
    case 'not_null':
      return sql`not null`
    case 'unknown':
      return sql`unknown`
    default:
      return word ? sql`true` : sql`false`
  }
}

/** The arguments of to_tsquery and its like. */
export function searchArguments (
  { query, config }: Extract<Operand, { kind: 'search' }>,
  scope: CteBuilder
): Fragment {
  return sql`${configuration(config)}${singleText(query, scope)}`
}

/**
 * What full text searches of a column: a tsvector itself, anything else as text in the given
 * configuration. Which of the two it is the planner finds out, so that an index on the column or on
 * to_tsvector(…) is used: as a tsvector `1` reads `'1'`. The column stands where nothing is ever
 * computed, so a computed column is called once for each row.
 */
export function searchDocument (path: ColumnPath, config: string | undefined): Fragment {
  const value = columnValue(path, sql`t`)
  const as = configuration(config)
  if (path.gives === 'json') return sql`to_tsvector(${as}(${value})::jsonb)`
  if (path.gives === 'text') return sql`to_tsvector(${as}${value})`
  const isVector = sql`coalesce(case when false then ${value} end, '1')::text = '''1'''`
  return sql`case when ${isVector} then ${value}::tsvector
    else to_tsvector(${as}${value}::text) end`
}

function configuration (config: string | undefined): Fragment {
  return config === undefined ? empty : sql`${parameter(config)}::regconfig, `
}

function literal ({ text, json }: Literal, { scope, path, constants = false }: Meeting): Fragment {
  if (constants) return constant(text)
  if (path.gives === 'column') scope.meets(path.column)
  return path.gives === 'json' ? sql`${parameter(json)}::jsonb` : parameter(text)
}

function literalArray (
  literals: readonly Literal[],
  { scope, path, constants = false }: Meeting
): Fragment {
  if (path.gives === 'json') {
    return sql`${parameter(arrayText(literals.map(({ json }) => json)))}::jsonb[]`
  }
  const texts = arrayText(literals.map(({ text }) => text))
  if (constants) return constant(texts)
  if (path.gives === 'column') scope.meets(path.column)
  return parameter(texts)
}
