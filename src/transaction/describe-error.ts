/**
 * Puts errors of PostgreSQL into the words of the request: its table, columns and operators, and
 * no alias of our statements.
 */
import { operators, type Operator, type OperatorName } from '../../schemas/operator.ts'
import { quote } from '../errors/catalogue.ts'
import { parameterAtError, type DatabaseError } from '../errors/database-error.ts'
import { NO_BINARY_INPUT, quotedText } from '../errors/postgres.ts'
import { isValueError, SqlState } from '../errors/sqlstates.ts'
import { render } from '../fragment/fragment.ts'
import { flattenConditions } from '../plan/filter.ts'
import {
  assignmentsOf,
  findModifier,
  findValue,
  type KnownValues,
  type ValuePlace
} from '../plan/find-value.ts'
import type {
  CallNode,
  Condition,
  Exists,
  PlanNode,
  Predicate,
  SelectNode,
  ValuePath
} from '../plan/nodes.ts'
import { sourceOf } from '../plan/source.ts'
import { columnAtError, columnBeforeError, textAtError } from '../sql/statement/error-place.ts'
import { tableName } from '../sql/statement/table.ts'
import { isPath } from '../sql/values/column.ts'
import type { Suggestions } from './look-up.ts'

/** The operation that failed. */
interface ErrorContext {
  readonly node: PlanNode
  /** The place of a value that PostgreSQL refuses. */
  readonly place: ValuePlace | undefined
  readonly suggestions: Suggestions
}

/** Describes the error of an operation. `message` is that of PostgreSQL, as it may be sent. */
export function describeError (
  error: DatabaseError,
  message: string,
  context: ErrorContext
): string {
  const { node } = context
  const column = columnAtError(error)
  switch (error.code) {
    case SqlState.undefined_column:
      return describeColumn(column, message, node)
    case SqlState.ambiguous_column:
      // An output column has the name of a column of the table, which "*" returns too.
      return column === undefined
        ? message
        : `"*" contains a column "${column}" already; rename the other one with "as".`
    case SqlState.grouping_error:
      // An aggregate where none is allowed: `t."count"` is also count(t).
      return error.routine === 'check_agglevels_and_constraints'
        ? describeColumn(column, message, node)
        : describeGroup(column)
    case SqlState.undefined_function:
      return describeFunction(error, message, node)
    case SqlState.generated_always:
      return `${message}. ${LEAVE_OUT}`
    case SqlState.datatype_mismatch:
      // An assigned value of another type is reported with the column that it is assigned to.
      return column !== undefined && error.routine === 'coerce_to_boolean'
        ? `${placeName({ column }, node)}: ${message}`
        : message
    case SqlState.invalid_column_reference:
      return error.routine === NO_ARBITER
        ? `Table "${node.table.name}" has no unique index with exactly these columns. For a ` +
          'partial index, write its condition as "index_where".'
        : message
    case SqlState.feature_not_supported:
      return describeRule(error, message, node)
    default:
      return isValueError(error.code) ? describeRefused(error, message, context) : message
  }
}

/** The routine that finds no index for the columns of `on_conflict`. */
const NO_ARBITER = 'infer_arbiter_indexes'

/** The path of the columns or the constraint of `on_conflict` for which there is no index. */
export function findTarget (
  { routine = '', where }: DatabaseError,
  node: PlanNode
): readonly string[] | undefined {
  const target = node.kind === 'insert' ? node.conflict?.target : undefined
  if (target === undefined || where !== undefined) return undefined
  return [NO_ARBITER, 'get_relation_constraint_attnos'].includes(routine)
    ? ['on_conflict', 'constraint' in target ? 'constraint' : 'columns']
    : undefined
}

const LEAVE_OUT = 'Leave the column out: the database sets it.'

/**
 * PostgreSQL's hint without the aliases of our statement: `Perhaps you meant to reference the
 * column "t.sku".`
 */
export function describeHint ({ code, hint, position }: DatabaseError): string | undefined {
  // The hint of PostgreSQL is "Use OVERRIDING SYSTEM VALUE to override."
  if (code === SqlState.generated_always) return LEAVE_OUT
  return position === undefined
    ? hint
    : hint?.replaceAll(/(["«„“‘「])(?:t\d*|x|n|o|c|excluded|\*SELECT\*)\./g, '$1')
}

/**
 * The statement that gives a role what an operation without privileges needs, or what PostgreSQL
 * misses if that is not a privilege on the table or function itself.
 */
export function describeGrant (
  { code, message, routine }: DatabaseError,
  node: PlanNode,
  { role, anonymous }: { readonly role: string, readonly anonymous: boolean }
): string | undefined {
  if (code !== SqlState.insufficient_privilege || !privilegeChecks.has(routine)) return undefined
  const object = render(tableName(node.table)).text
  const privileges = node.kind === 'call'
    ? `EXECUTE ON FUNCTION ${object}`
    : `SELECT${findPrivileges(node)} ON ${object}`
  const grant = message.split(' ').includes(node.table.name)
    ? `run GRANT ${privileges} TO ${quote(role)}`
    : `grant ${quote(role)} what PostgreSQL names: ${message}`
  return anonymous
    ? `no token was sent. Send one; if requests without a token may do this, ${grant}`
    : `a privilege is missing: ${grant}`
}

/** The routines that miss a privilege. Errors of policies have the same code. */
const privilegeChecks: ReadonlySet<string | undefined> = new Set([
  'aclcheck_error', 'nextval_internal'
])

/** The privileges that an operation needs in addition to SELECT. */
function findPrivileges (node: Exclude<PlanNode, CallNode>): string {
  switch (node.kind) {
    case 'insert':
      return node.conflict?.update === undefined ? ', INSERT' : ', INSERT, UPDATE'
    case 'select':
      return node.lock === undefined ? '' : ', UPDATE'
    case 'delete':
      return ', DELETE'
    default:
      return ', UPDATE'
  }
}

/**
 * PostgreSQL rewrites no statement in WITH or with RETURNING by a rule, except a DO INSTEAD with
 * RETURNING. Its message speaks of the statement.
 */
function describeRule (
  { routine, where }: DatabaseError,
  message: string,
  { table: { schema, name } }: PlanNode
): string {
  return routine === 'RewriteQuery' && where === undefined
    ? `Table "${schema}.${name}" has a rule (CREATE RULE) for this change, which an operation ` +
      'cannot run. Replace the rule by a trigger, or write to another table.'
    : message
}

/**
 * The result of a function has no such column. A table lacks one only if the name is that of a
 * function or a system column which the row does not have.
 */
function describeColumn (
  column: string | undefined,
  message: string,
  { kind, table }: PlanNode
): string {
  if (column === undefined) return message
  return kind === 'call'
    ? `The result of "${table.name}" has no column "${column}".`
    : `There is no column "${column}".`
}

function describeGroup (column: string | undefined): string {
  const name = column === undefined
    ? 'Every column of "columns" and "order"'
    : `Column "${column}"`
  return `${name} must be in "group_by" or in an aggregate ("fn").`
}

/** A function or an operator that does not exist for the type of the column. */
function describeFunction (error: DatabaseError, message: string, node: PlanNode): string {
  if (error.routine === NO_BINARY_INPUT) {
    return `${message}. PostgreSQL needs it to convert JSON to a domain over this type. Write ` +
      'the value as a string in the form of PostgreSQL, such as "{…}" for an array or "(…)" for ' +
      'a composite.'
  }
  const column = columnAtError(error) ?? columnBeforeError(error)
  if (column === undefined) return message
  const text = textAtError(error)
  if (isPath(text)) {
    return `Column "${column}" has no path: paths go into json, jsonb, arrays and composites, ` +
      'and in results of functions only into json and jsonb.'
  }
  const aggregate = /^(\w+)\(/.exec(text)?.[1]
  const name = aggregate ?? findOperator(error, node)?.name
  return name === undefined
    ? `${placeName({ column }, node)}: ${message}`
    : `"${name}" does not work with column "${column}": ${message}${patternHelp(name)}`
}

const operatorsByName: ReadonlyMap<string, Operator> = new Map(Object.entries(operators))

/** What to use instead of a pattern operator. */
const patternHelp = (name: string): string =>
  operatorsByName.get(name)?.pattern === true
    ? '. A pattern matches only text; use "eq", "in" or "between" for other types.'
    : ''

/** An operator or a modifier of the request. */
interface FoundOperator {
  readonly name: string
  readonly column: string
  /** The path of the operand; undefined: that of a new value of the column. */
  readonly at?: ValuePath | undefined
  /** Whether no condition on a column of another table has the same name and operator. */
  readonly isCertain: boolean
}

/** The operator of the request that stands where the error is, or the modifier. */
export function findOperator (error: DatabaseError, node: PlanNode): FoundOperator | undefined {
  const column = columnAtError(error) ?? columnBeforeError(error)
  if (column === undefined) return undefined
  const text = textAtError(error)
  const [condition, ...others] = conditionsOf(node)
    .filter(part => part.kind === 'condition')
    .filter(part => part.column.column === column && text.startsWith(symbolOf(part.operator)))
  if (condition !== undefined) {
    const { operator: name, at } = condition
    const isCertain = others.every(other => filterOf(other) === filterOf(condition))
    return { name, column, at, isCertain }
  }
  const assignment = assignmentsOf(node).find(assignment =>
    assignment.column === column && assignment.modifier !== '$value')
  return assignment && { name: assignment.modifier, column, isCertain: true }
}

/** Operators that read their operand only when a row is compared, by how they refuse it. */
const lateOperators: ReadonlyMap<string, readonly OperatorName[]> = new Map([
  [SqlState.invalid_regular_expression, ['match', 'imatch']],
  [SqlState.invalid_escape_sequence, ['like', 'ilike']],
  [SqlState.syntax_error, ['fts']]
])

/** The only condition that can refuse its operand in this way, outside of any function. */
export function findLateOperand (
  { code, position, where }: DatabaseError,
  node: PlanNode
): ValuePlace & { readonly at: ValuePath } | undefined {
  if (position !== undefined || where !== undefined) return undefined
  const names = lateOperators.get(code) ?? []
  const [condition, ...others] = conditionsOf(node)
    .filter(part => part.kind === 'condition')
    .filter(part => names.includes(part.operator))
  if (condition?.at === undefined || others.length > 0) return undefined
  return { column: condition.column.column, at: condition.at }
}

/** The path of the filter that contains a condition. */
function filterOf ({ at = [] }: Condition): string {
  const length = Math.max(at.lastIndexOf('where'), at.lastIndexOf('having'))
  return JSON.stringify(at.slice(0, length))
}

/** The SQL between the column and the operand. */
function symbolOf (operator: OperatorName): string {
  return operators[operator].sql.split(/ ?<\w+> ?/)[1] as string
}

function conditionsOf (node: PlanNode): ReadonlyArray<Condition | Exists> {
  const source = sourceOf(node)
  return flattenConditions([
    ...ownPredicates(node),
    ...source?.kind === 'table' ? predicatesOf(source) : []
  ])
}

function ownPredicates (node: PlanNode): readonly Predicate[] {
  if (node.kind === 'select') return predicatesOf(node)
  if (node.kind !== 'insert') return node.where
  const { target, update } = node.conflict ?? {}
  return [
    ...(target !== undefined && 'where' in target ? target.where : []),
    ...(update?.where ?? [])
  ]
}

function predicatesOf (
  { where, having, nested }: Pick<SelectNode, 'where' | 'having' | 'nested'>
): readonly Predicate[] {
  return [...where, ...having, ...nested?.reads.flatMap(predicatesOf) ?? []]
}

function describeRefused (
  error: DatabaseError,
  message: string,
  context: ErrorContext
): string {
  const { node, place } = context
  const form = formHelp(error)
  if (place === undefined) {
    return form === undefined ? message : `${message}. ${form}`
  }
  const labels = context.suggestions.labels?.[place.column]
  const help = modifierHelp(node, place) ?? form ?? (labels && describeLabels(labels)) ??
    jsonHelp(error, node, place)
  return `${placeName(place, node)}: ${message}${help === undefined ? '' : `. ${help}`}`
}

/** Maximum number of labels that a message lists. */
const MAX_LABELS = 20

function describeLabels (labels: readonly string[]): string {
  const more = labels.length > MAX_LABELS ? ` and ${labels.length - MAX_LABELS} more` : ''
  const listed = labels.slice(0, MAX_LABELS).map(label => JSON.stringify(label))
  return `Allowed: ${listed.join(', ')}${more}.`
}

/** Routines of PostgreSQL that read the text of an array. */
const ARRAY_ROUTINES: ReadonlySet<string | undefined> = new Set([
  'array_in',
  'ArrayCount',
  'ReadArrayStr',
  'ReadArrayDimensions',
  'ReadArrayToken'
])

/** The form of a value that PostgreSQL reads as the text of an array or a composite. */
function formHelp ({ code, routine }: DatabaseError): string | undefined {
  if (code !== SqlState.invalid_text_representation) return undefined
  if (ARRAY_ROUTINES.has(routine)) return 'Write an array, for example ["apple"].'
  return routine === 'record_in'
    ? 'Write an object with the members of the type, for example {"x": 1}.'
    : undefined
}

/** Routines of PostgreSQL that refuse the text of JSON, in versions 14 and 15, and later. */
const JSON_ROUTINES: ReadonlySet<string | undefined> = new Set([
  'json_ereport_error',
  'json_errsave_error'
])

/** What to write for a string that is not the text of JSON, as an operand or an argument. */
function jsonHelp (
  { routine }: DatabaseError,
  { kind }: PlanNode,
  { at }: ValuePlace
): string | undefined {
  if (!JSON_ROUTINES.has(routine) || (at === undefined && kind !== 'call')) return undefined
  const example = at === undefined ? '"\\"apple\\""' : '{"$value": "apple"}'
  return `It is read as the text of JSON. For a string of JSON, write ${example}.`
}

/** Finds the stored value that PostgreSQL cannot convert, by its text. */
export function findStored (
  error: DatabaseError,
  node: PlanNode,
  known: KnownValues
): ValuePlace | undefined {
  // Another context is that of a function, whose values are not those of the request.
  if (error.where !== undefined && parameterAtError(error) === undefined) return undefined
  const text = quotedText(error.message)
  return text === undefined ? undefined : findValue(node, text, known)
}

/** What to write instead of a modifier in `values`. There it is data, which jsonb can store. */
export function modifierHelp (node: PlanNode, place: ValuePlace): string | undefined {
  const modifier = findModifier(node, place)
  if (modifier === '$first') {
    return 'In "values", $first takes references only: {"$first": ["$found.0.id"]}.'
  }
  return modifier === undefined
    ? undefined
    : `The modifier ${modifier} works only in "set"; "values" takes the value itself${
      modifier === '$now' ? ', such as "now"' : ''
    }.`
}

/** The name of a place in messages. `steps`: the path into its value. */
export function placeName (
  { column, row, member = column }: ValuePlace & { readonly member?: string | undefined },
  node: PlanNode,
  steps: ReadonlyArray<string | number> = []
): string {
  const inside = steps.length === 0 ? '' : `, at ${steps.join('.')}`
  if (node.kind === 'call' && node.args.some(([name]) => name === column)) {
    return `Argument "${column}"${inside}`
  }
  if (row === undefined) return `Column "${column}"${inside}`
  return sourceOf(node)?.kind === 'rows'
    ? `Row ${row} of from, member "${member}"${inside}`
    : `Row ${row} of values, column "${column}"${inside}`
}
