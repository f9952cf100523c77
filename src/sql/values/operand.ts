/**
 * Builds the operands of conditions and assignments.
 */
import type { JoiningName } from '../../../schemas/modifier.ts'
import type { Type } from '../../catalogue/type.ts'
import {
  type Fragment,
  empty,
  requestConstant,
  sql
} from '../../fragment/fragment.ts'
import { textOf, type Json } from '../../json/parse.ts'
import { listDocument, readNumber, readWhole } from '../../plan/document.ts'
import type { ColumnPath, List, Literal, Operand, Single, ValuePath } from '../../plan/nodes.ts'
import type { Parameter } from '../../plan/parameter.ts'
import { arrayText } from '../../plan/value-text.ts'
import { operandListSlot, operandSlot, plainSlot } from '../statement/slot.ts'
import { type RowColumns, columnValue, comparableValue } from './column.ts'
import type { TypedAs, TypedPath } from './typed-json.ts'
import type { TypedValues } from './typed-values.ts'
import { delimiterOf, isCut, isObjectName, kindOf, nameWritten } from './value-type.ts'

/** Columns that values meet: those of a table, or the output columns of a select. */
export interface ComparedColumns extends RowColumns {
  /** Registers that a parameter takes its type from a column. */
  addParameterType(column: string): void

  /** A path with the type of its column, which is that of the table, or an expression. */
  typed(path: ColumnPath): TypedPath
}

// A literal is a parameter without a cast, so PostgreSQL gives it the type of the column. Only
// paths into jsonb, whose type is known, composites and names of objects need a cast.

export interface OperandContext {
  readonly values: TypedValues
  /** By default the columns of the table of `values`. */
  readonly columns?: ComparedColumns
  /** The column path that the operand is compared with or assigned to. */
  readonly path: ColumnPath
  /** The path of an operand of a condition in its operation. */
  readonly at?: ValuePath | undefined
  /** Writes literals as constants; see `requestConstant`. */
  readonly constants?: boolean
  /** Whether the operand is assigned, and not only compared. */
  readonly stored?: boolean
  readonly as?: TypedAs
  /** The modifier that joins the operand to the value of the column. */
  readonly joins?: JoiningName | undefined
}

/**
 * The path whose type a pattern has. PostgreSQL reads the literal of a pattern as text, also for
 * types that would cut it, or drop the blanks at its end.
 */
export function pathOfPattern (
  path: ColumnPath,
  { values, columns }: { readonly values: TypedValues, readonly columns: ComparedColumns }
): ColumnPath {
  if (path.resultType !== 'column') return path
  const { column, example } = columns.typed(path)
  columns.addParameterType(column)
  const type = example === undefined ? values.targetType(column) : undefined
  const isText = type === undefined || isCut(type) || isObjectName(type)
  return isText ? { ...path, resultType: 'text' } : path
}

/** Builds one value of the type of the column path. */
export function buildValue (operand: Single, context: OperandContext): Fragment {
  const { values, columns = values, stored = false, as = 'value', joins, at } = context
  switch (operand.kind) {
    case 'null':
      return sql`null`
    case 'literal':
      return buildLiteral(operand, context)
    case 'reference':
      return values.buildReference(operand, columns.typed(context.path), { stored, as, at })
    case 'document': {
      const path = columns.typed(context.path)
      if (operand.value === null) return values.buildJsonNull(path, { refuse: !stored, at })
      const whole = readWhole(operand)
      if (whole !== undefined && (joins === undefined || whole.parameter === undefined)) {
        return values.buildReference(whole, path, { stored, at })
      }
      return values.buildJson(operand, path, { stored, joins, at })
    }
    case 'column': {
      const { path, of } = operand
      // A path into json that is stored stays json.
      const isCopied = stored && joins === undefined && as === 'value'
      const read = isCopied ? columnValue : comparableValue
      switch (of) {
        case 'row':
          return read(path, columns)
        case 'source':
          return as === 'difference'
            ? values.buildDifference(path, context.path)
            : read(path, values.source)
        case 'excluded':
          return read(path, values.proposed, sql`excluded`)
      }
    }
  }
}

/** Builds a text, for example a key of jsonb. */
export function buildText (operand: Single, values: TypedValues): Fragment {
  return operand.kind === 'reference'
    ? values.buildReferenceText(operand)
    : sql`${plainSlot(operand as Literal, 'text')}::text`
}

/**
 * Builds the literals and references of a list as one array of the type of the column path. With
 * one array, PostgreSQL computes the column that it is compared with once per row.
 */
export function buildArray ({ of: list }: List, context: OperandContext): Fragment {
  const { values, columns = values, path, at } = context
  const typed = columns.typed(path)
  const type = path.resultType === 'column' ? columns.typeOf(path.column) : undefined
  // Others are converted from JSON: an array of arrays has no type, and that of composites is not
  // known. Citus cannot convert to the type of an expression.
  const kind = kindOf(type)
  const isKnown = type !== undefined || (values.plain && typed.example !== undefined)
  const isText = path.resultType !== 'column' ||
    (isKnown && kind !== 'array' && kind !== 'composite')
  const literals = literalsOf(list)
  const all = list.kind === 'document' ? list.references : []
  const given = all.flatMap(({ parameter }) =>
    parameter === undefined || !isText ? [] : [parameter])
  const givenPart = literals === undefined && given.length === 0
    ? undefined
    : buildGivenArray({ literals, given, type }, context)
  if (list.kind === 'literal' || given.length === all.length) return givenPart as Fragment
  const read = readWhole(list) === undefined
    ? listDocument(all.filter(({ parameter }) => parameter === undefined || !isText))
    : list
  const referencePart = values.buildList(read, typed, at)
  const array = givenPart === undefined
    ? referencePart
    // The subquery runs once. Without it, array_cat would run for each row.
    : sql`(select pg_catalog.array_cat(${givenPart}, ${referencePart}))`
  // Without `array[…]` it would be a subquery after `any`, whose rows are compared; `any` reads an
  // array of arrays like their elements. With COALESCE instead, no condition on a table with row
  // level security would use an index: PostgreSQL does not know that it reveals nothing (measured:
  // 3 ms instead of 0.1).
  return sql`array[${array}]`
}

/** The elements of a list that are no references; undefined: there are only references. */
function literalsOf (list: List['of']): Literal | undefined {
  if (list.kind === 'literal' || list.references.length === 0) return { ...list, kind: 'literal' }
  const values = ([list.value].flat() as readonly Json[])
    .filter(item => readNumber(item) === undefined)
  return values.length === 0 ? undefined : { kind: 'literal', value: values }
}

/** Builds the operand of `is`: `null`, `not null`, `true` … */
export function buildKeyword (word: Extract<Operand, { kind: 'keyword' }>['word']): Fragment {
  return KEYWORDS[`${word}`]
}

const KEYWORDS = {
  null: sql`null`,
  not_null: sql`not null`,
  unknown: sql`unknown`,
  true: sql`true`,
  false: sql`false`
}

/** Builds the arguments of to_tsquery and similar functions. */
export function buildSearchArguments (
  { query, config }: SearchOperand,
  { values, ...place }: OperandContext
): Fragment {
  return sql`${configurationArgument(config, place)}${buildText(query, values)}`
}

type SearchOperand = Extract<Operand, { kind: 'search' }>
type ConditionPlace = Pick<OperandContext, 'path' | 'at'>

/**
 * Builds the document that a full-text search reads: a tsvector itself, the strings in JSON, and
 * any other type as text, each in the given configuration. The planner finds out whether a column
 * is a tsvector, so an index on the column or on to_tsvector(…) can be used: only as a tsvector,
 * the text `1` becomes `'1'`. The column in that test is never computed, so a computed column is
 * called once per row.
 */
export function buildSearchDocument (
  { config }: SearchOperand,
  { path, at }: ConditionPlace,
  columns: RowColumns
): Fragment {
  const value = columnValue(path, columns)
  const argument = configurationArgument(config, { path, at })
  if (path.resultType === 'json') return sql`to_tsvector(${argument}(${value})::jsonb)`
  const isJson = path.resultType === 'column' && kindOf(columns.typeOf(path.column)) === 'json'
  if (path.resultType === 'text' || isJson) return sql`to_tsvector(${argument}${value})`
  const isVector = sql`coalesce(case when false then ${value} end, '1')::text = '''1'''`
  return sql`case when ${isVector} then ${value}::tsvector
    else to_tsvector(${argument}${value}::text) end`
}

function configurationArgument (
  config: string | undefined,
  { path: { column }, at }: ConditionPlace
): Fragment {
  if (config === undefined) return empty
  const place = { column, isCompared: true, at: at && [...at, 'config'] }
  return sql`${operandSlot({ value: config }, undefined, place)}::regconfig, `
}

function buildLiteral (
  literal: Literal,
  { values, columns = values, path, constants = false, stored = false, as, at }: OperandContext
): Fragment {
  if (constants) return requestConstant(textOf(constantOf(literal)))
  if (stored) return values.buildCell(literal, path.column, { as })
  if (path.resultType === 'json') return sql`${plainSlot(literal, 'json')}::jsonb`
  const place = { column: path.column, isCompared: true, at }
  if (path.resultType === 'text') return operandSlot(literal, undefined, place)
  columns.addParameterType(path.column)
  const type = columns.typeOf(path.column)
  return nameOperand(operandSlot(literal, type, place), type)
}

/**
 * PostgreSQL would read a composite that is compared as a row without a type, and the name of an
 * object, as of regclass, as an OID.
 */
function nameOperand (operand: Fragment, type: Type | undefined, many = empty): Fragment {
  const isNamed = kindOf(type) === 'composite' || isObjectName(type)
  const name = isNamed ? nameWritten(type) : undefined
  return name === undefined ? operand : sql`${operand}::${name}${many}`
}

interface GivenList {
  readonly literals: Literal | undefined
  readonly given: readonly Parameter[]
  readonly type: Type | undefined
}

/** Builds the values of a list that the batch contains. */
function buildGivenArray (
  { literals, given, type }: GivenList,
  { values, columns = values, path, constants = false, at }: OperandContext
): Fragment {
  const { column, resultType } = path
  const delimiter = delimiterOf(type)
  if (constants) {
    const texts = (constantOf(literals as Literal) as readonly Json[]).map(item => textOf(item))
    return requestConstant(arrayText(texts, delimiter))
  }
  const isPath = resultType === 'json'
  const parts = [
    ...literals === undefined ? [] : [{ given: literals, isList: true, isJson: isPath }],
    ...given.map(given =>
      ({ given, isList: given.isList, isJson: isPath || kindOf(type) === 'json' }))
  ]
  if (resultType === 'column') columns.addParameterType(column)
  const array = operandListSlot(parts, type, { column, isCompared: true, at, delimiter })
  return isPath ? sql`${array}::jsonb[]` : nameOperand(array, type, sql`[]`)
}

/** The value of a literal that is written as a constant. The plan contains it. */
function constantOf (literal: Literal): Exclude<Json, null> {
  return (literal as { readonly value: Exclude<Json, null> }).value
}
