/**
 * Builds operands. A literal is a parameter without a cast, so PostgreSQL gives it the type of the
 * column. Only paths into jsonb, whose type is known, need a cast.
 */
import { isValue, shapeOfReference } from '../plan/document.ts'
import type { ColumnPath, List, Literal, Operand, Reference, Single } from '../plan/nodes.ts'
import { columnValue, comparableValue } from './column.ts'
import type { CteBuilder } from './cte-builder.ts'
import {
  arrayText,
  constant,
  empty,
  identifier,
  parameter,
  sql,
  type Fragment
} from './fragment.ts'
import { buildDocument, isJsonNull, referenceJson, referenceText } from './reference.ts'

export interface OperandContext {
  readonly ctes: CteBuilder
  /** The column path that the operand is compared with or assigned to. */
  readonly path: ColumnPath
  /** Writes literals as constants; see `constant`. */
  readonly constants?: boolean
  /** Whether the operand is assigned, and not only compared. */
  readonly stored?: boolean
}

/** Builds one value of the type of the column path. */
export function buildValue (operand: Single, context: OperandContext): Fragment {
  const { ctes, path, stored = false } = context
  switch (operand.kind) {
    case 'null':
      return sql`null`
    case 'literal':
      return buildLiteral(operand, context)
    case 'reference':
      return buildReference(operand, context)
    case 'document': {
      if (operand.pieces[0] === 'null') return ctes.addJsonNull(path, { refuse: !stored })
      const { references: [reference], shape } = operand
      if (reference !== undefined && operand.pieces.every(piece => piece === '')) {
        return buildReference(reference, context)
      }
      return ctes.addValue(buildDocument(operand, ctes), path, { shape })
    }
    case 'column':
      return comparableValue(operand.path, operand.of === 'row' ? sql`t` : sql`excluded`)
  }
}

/** Builds a value that is added to the column. */
export function buildDifference (operand: Single, context: OperandContext): Fragment {
  const { ctes, path } = context
  if (operand.kind === 'reference') {
    return ctes.addValue(referenceJson(operand, ctes), path, { as: 'difference' })
  }
  const column = sql`t.${identifier(path.column)}`
  const value = buildValue(operand, context)
  return sql`coalesce(case when false then ${column} - ${column} end, ${value})`
}

/**
 * Builds the value, row or list of a reference. A value that is only compared needs no check,
 * because it is not stored. There the JSON null counts as NULL; published rows do not distinguish
 * them.
 */
function buildReference (
  reference: Reference,
  { ctes, path, stored = false }: OperandContext
): Fragment {
  const compared = isValue(reference) && !stored
  const shape = compared ? 'scalar' : shapeOfReference(reference)
  const value = ctes.addValue(referenceJson(reference, ctes), path, { shape })
  if (!ctes.checkValues || compared || !isValue(reference)) return value
  return sql`coalesce(${value}, ${ctes.addJsonNull(path, { when: isJsonNull(reference) })})`
}

/** Builds a text, for example a key of jsonb. */
export function buildText (operand: Single, ctes: CteBuilder): Fragment {
  return operand.kind === 'reference'
    ? referenceText(operand, ctes)
    : sql`${parameter((operand as Literal).text)}::text`
}

/**
 * Builds the literals and references of a list as one array of the type of the column path. With
 * one array, PostgreSQL computes the column that it is compared with once per row.
 */
export function buildArray ({ literals, references }: List, context: OperandContext): Fragment {
  const constantPart = literals.length === 0 ? undefined : buildLiteralArray(literals, context)
  if (references === undefined) return constantPart as Fragment
  const { ctes, path } = context
  const referencePart = ctes.addList(buildDocument(references, ctes), path)
  // Without `coalesce` it would be a subquery after `any`, whose rows are compared.
  if (constantPart === undefined) return sql`coalesce(${referencePart})`
  // The subquery runs once. Without it, array_cat would run for each row.
  return sql`coalesce((select pg_catalog.array_cat(${constantPart}, ${referencePart})))`
}

/** Builds the operand of `is`: `null`, `not null`, `true` … */
export function buildKeyword (word: Extract<Operand, { kind: 'keyword' }>['word']): Fragment {
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

/** Builds the arguments of to_tsquery and similar functions. */
export function buildSearchArguments (
  { query, config }: Extract<Operand, { kind: 'search' }>,
  ctes: CteBuilder
): Fragment {
  return sql`${configurationArgument(config)}${buildText(query, ctes)}`
}

/**
 * Builds the document that a full-text search reads: a tsvector itself, any other type as text in
 * the given configuration. The planner decides between the two, so an index on the column or on
 * to_tsvector(…) can be used: as a tsvector, `1` reads `'1'`. That expression is never computed, so
 * a computed column is called once per row.
 */
export function buildSearchDocument (path: ColumnPath, config: string | undefined): Fragment {
  const value = columnValue(path, sql`t`)
  const argument = configurationArgument(config)
  if (path.resultType === 'json') return sql`to_tsvector(${argument}(${value})::jsonb)`
  if (path.resultType === 'text') return sql`to_tsvector(${argument}${value})`
  const isVector = sql`coalesce(case when false then ${value} end, '1')::text = '''1'''`
  return sql`case when ${isVector} then ${value}::tsvector
    else to_tsvector(${argument}${value}::text) end`
}

function configurationArgument (config: string | undefined): Fragment {
  return config === undefined ? empty : sql`${parameter(config)}::regconfig, `
}

function buildLiteral (
  { text, json }: Literal,
  { ctes, path, constants = false }: OperandContext
): Fragment {
  if (constants) return constant(text)
  if (path.resultType === 'column') ctes.addParameterType(path.column)
  return path.resultType === 'json' ? sql`${parameter(json)}::jsonb` : parameter(text)
}

function buildLiteralArray (
  literals: readonly Literal[],
  { ctes, path, constants = false }: OperandContext
): Fragment {
  if (path.resultType === 'json') {
    return sql`${parameter(arrayText(literals.map(({ json }) => json)))}::jsonb[]`
  }
  const texts = arrayText(literals.map(({ text }) => text))
  if (constants) return constant(texts)
  if (path.resultType === 'column') ctes.addParameterType(path.column)
  return parameter(texts)
}
