/**
 * Builds the call of a function as a source of rows.
 */
import { baseOf, type Type } from '../../catalogue/type.ts'
import {
  AND,
  constant,
  empty,
  identifier,
  join,
  render,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { readGiven } from '../../plan/document.ts'
import type { Argument, CallNode, JsonDocument, Literal, TableName } from '../../plan/nodes.ts'
import { plainSlot, slot } from '../statement/slot.ts'
import { raise } from '../statement/raised-error.ts'
import { tableName } from '../statement/table.ts'
import { findOnly, findParameters, isOnly, versionOf, VOID } from './function-types.ts'
import type { StatementNeeds } from './statement-needs.ts'
import { isJsonType } from './value-type.ts'
import { compareWrittenType } from './written-types.ts'

/** What arguments need of TypedValues. */
export interface ArgumentBuilder {
  readonly needs: StatementNeeds
  /** Builds JSON in a type that is named. `label`: where an error says that it is. */
  convertDocument(
    document: JsonDocument,
    type: Fragment,
    options: { readonly tree: Type, readonly label: string }
  ): Fragment
}

/**
 * Builds a query whose rows are those of `select * from f(…)`, and none for a function that
 * returns nothing. The alias is the name of the function, because PostgreSQL names the column of a
 * scalar after it.
 */
export function buildCall (node: CallNode, values: ArgumentBuilder): Fragment {
  const { table } = node
  const name = identifier(table.name)
  const { findFunction, plain } = values.needs.facts
  const variants = findFunction(table)
  const only = variants && !plain ? findOnly(variants, node) : undefined
  const find = variants === undefined ? () => [] : findParameters(variants, node)
  const built = node.args.map(argument => buildArgument(node, argument, { values, find }))
  const list = built.toSorted((a, b) => Number(a.variadic) - Number(b.variadic))
    .map(({ argument }) => argument)
  const returnsRow = sql`pg_catalog.pg_typeof(${name})::pg_catalog.oid operator(pg_catalog.<>) ${
    VOID
  }`
  const isCurrent = only === undefined
    ? variants && hasVersion(table, variants.version)
    : isOnly(table, only)
  const conditions = [
    ...only?.isVoid === false ? [] : [returnsRow],
    ...built.flatMap(({ refusal }) => refusal === undefined ? [] : [sql`${refusal} is null`]),
    ...built.flatMap(({ same = [] }) => same).map(condition =>
      sql`case when ${condition} then true else ${raise('types')} is null end`),
    ...isCurrent === undefined
      ? []
      : [sql`case when ${isCurrent} then true else ${raise('function')} is null end`]
  ]
  return sql`(select ${name}.* from ${tableName(table)}(${join(list)}) as ${name}
    where ${join(conditions, AND)})`
}

/** A row of NULLs of the types that the function returns. It is not called for that. */
export function nullRowOfCall (node: CallNode, values: ArgumentBuilder): Fragment {
  return sql`(select n.* from (select) as one left join ${buildCall(node, values)} as n on false)`
}

/**
 * A condition that no function of the name was created, replaced or dropped. The version belongs to
 * the text: what was prepared before calls the function of another version.
 */
function hasVersion ({ schema, name }: TableName, version: string): Fragment {
  return sql`${versionOf(constant(schema), constant(name))} operator(pg_catalog.=) ${
    constant(version)
  }`
}

interface ArgumentContext {
  readonly values: ArgumentBuilder
  /** Finds the parameters that can take an argument; none if their types are not known. */
  readonly find: ReturnType<typeof findParameters>
}

interface BuiltArgument {
  readonly argument: Fragment
  /** PostgreSQL requires it to be the last one. */
  readonly variadic: boolean
  /** An expression that fails: the value cannot be converted. */
  readonly refusal?: Fragment
  /** Conditions that the parts of its type are those that were read. */
  readonly same?: readonly Fragment[]
}

/**
 * Builds an argument. PostgreSQL converts a literal to the type of the parameter, and chooses the
 * function by it. JSON and references are converted to the type in the catalogue. If there are
 * several, PostgreSQL decides about JSON as about a literal, and references are refused.
 */
function buildArgument (
  node: CallNode,
  [name, value]: readonly [name: string, value: Argument],
  { values, find }: ArgumentContext
): BuiltArgument {
  const found = find(name)
  const variadic = found.some(parameter => parameter.variadic)
  const write = (value: Fragment): Fragment =>
    sql`${variadic ? sql`variadic ` : empty}${identifier(name)} => ${value}`
  const types = new Set(found.map(({ type = empty }) => render(type).text))
  const [first] = found
  const { type, tree } = types.size === 1 && first !== undefined ? first : UNKNOWN
  const isWritten = tree !== undefined && canWrite(tree)
  const same = type === undefined || tree === undefined || values.needs.facts.plain
    ? []
    : compareWrittenType(tree, type)
  if (value.kind !== 'document') {
    const text = (literal: Literal): Fragment => isWritten
      ? slot(literal, tree, { column: name })
      : plainSlot(literal, 'text', { column: name })
    const constant = value.kind === 'null' ? sql`null` : text(value)
    // Otherwise it stays a literal, by which PostgreSQL chooses the function.
    const isTyped = type !== undefined && node.when.length > 0
    const argument = isTyped ? hideFromPlanner(node, sql`${constant}::${type}`) : constant
    return { argument: write(argument), variadic }
  }
  const given = readGiven(value)
  if (type !== undefined && isWritten && given !== undefined) {
    const text = slot(given, tree, { column: name })
    return { argument: write(hideFromPlanner(node, sql`${text}::${type}`)), variadic, same }
  }
  if (type !== undefined && tree !== undefined) {
    const converted = values.convertDocument(value, type, { tree, label: name })
    return { argument: write(hideFromPlanner(node, converted)), variadic, same }
  }
  const isRead = value.references.some(({ parameter }) => parameter?.isRead === true)
  if (given !== undefined && !isRead) {
    return { argument: write(plainSlot(given, 'text')), variadic }
  }
  return {
    argument: write(sql`null::${first?.type ?? sql`pg_catalog.text`}`),
    variadic,
    refusal: values.needs.raiseIssue({ column: name, issue: { problem: 'type', path: [] } })
  }
}

const UNKNOWN = { type: undefined, tree: undefined }

/** Whether a value of the request is written in the type of its parameter. */
function canWrite (type: Type): boolean {
  const base = baseOf(type)
  return base.kind === 'array'
    ? canWrite(base.element)
    : base.kind !== 'unknown' && !isJsonType(base)
}

/**
 * PostgreSQL runs an IMMUTABLE function with constant arguments while it plans the statement, and
 * does not know yet that the call is skipped. For the planner, a subquery is not a constant.
 */
function hideFromPlanner ({ when }: CallNode, argument: Fragment): Fragment {
  return when.length === 0 ? argument : sql`(select ${argument})`
}
