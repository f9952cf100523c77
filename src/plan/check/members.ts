/**
 * Checks the members of an operation against the schemas of its kind.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import {
  ignoredMembers,
  InsertedParameter,
  JoinedParameter,
  memberKinds,
  operations,
  type OperationKind
} from '../../../schemas/operation.ts'
import { has, isObject, type Json, type JsonObject } from '../../json/parse.ts'
import type { Place, PlanContext } from '../context.ts'
import { checkSchema } from './check-schema.ts'
import { describeUnknown } from './describe.ts'

/** The members that match their schemas; those that are missing or invalid are undefined. */
export type Members<Kind extends OperationKind> = Partial<Static<typeof operations[Kind]>>

const KINDS = Object.keys(operations).join(', ')

/** What other systems call an insert with `on_conflict`. */
const UPSERTS = /^(?:upsert|merge|replace)$/i
const UPSERT =
  ' An upsert is an "insert" with "on_conflict": {"columns": ["id"], "do": "update"}.'

/** Reads `op`; returns undefined after an issue. */
export function readKind (context: PlanContext): OperationKind | undefined {
  const { operation } = context
  if (!has(operation, 'op')) {
    return context.addIssue('member_missing', ['op'], `"op" is required: one of ${KINDS}.`)
  }
  const { op } = operation
  if (typeof op !== 'string') {
    return context.addIssue('member_invalid', ['op'], '"op" must be a string.')
  }
  if (!Object.hasOwn(operations, op)) {
    return context.addIssue(
      'op_unknown',
      ['op'],
      `"op" must be one of ${KINDS}.${UPSERTS.test(op) ? UPSERT : ''}`
    )
  }
  return op as OperationKind
}

/**
 * Adds an issue for every member that the operation must not have. An unknown member is refused
 * because `wheer` would read the whole table. A member that only other kinds have is refused too,
 * unless it is one of `ignoredMembers` and has no effect.
 */
export function checkNames (kind: OperationKind | undefined, context: PlanContext): void {
  const { operation } = context
  for (const name of Object.keys(operation)) {
    const kinds = memberKinds.get(name)
    if (kinds === undefined) {
      const known = kind === undefined
        ? [...memberKinds.keys()]
        : Object.keys(operations[kind].properties)
      const message = name === 'schema'
        ? adviseSchema(operation)
        : describeUnknown('member', name, known)
      context.addIssue('member_unknown', [name], message)
    } else if (kind !== undefined && !kinds.includes(kind)) {
      const user = findUser(name, kind, operation)
      if (user === undefined && ignoredMembers.has(name)) continue
      const message = user === undefined
        ? `"${name}" is a member of ${kinds.join(' and ')}, not of ${kind}.`
        : `"${name}" must be inside "${user}".`
      context.addIssue('member_invalid', [name], message)
    }
  }
}

/** What to write instead of `schema`, which other interfaces have beside the table. */
function adviseSchema (operation: JsonObject): string {
  const word = operation['op'] === 'call' ? 'function' : 'table'
  const [schema, name] = [['schema', '<schema>'], [word, `<${word}>`]].map(([member, other]) => {
    const value = operation[member as string]
    return typeof value === 'string' && /^\w{1,63}$/.test(value) ? value : other
  })
  return 'Unknown member "schema". ' +
    `Write the schema before the ${word}: "${word}": "${schema}.${name}".`
}

/** Returns the member that probably should contain an ignored one: `from` for `where` beside it. */
function findUser (name: string, kind: OperationKind, operation: JsonObject): string | undefined {
  if (!ignoredMembers.has(name)) return undefined
  if (kind === 'insert' && name === 'where' && has(operation, 'from')) return 'from'
  if (kind === 'insert' && name === 'set' && has(operation, 'from')) {
    return has(operation, 'on_conflict') ? 'on_conflict' : 'columns'
  }
  return has(operation, 'on_conflict') ? 'on_conflict' : undefined
}

/** Members that are checked where they are planned. */
const checkedLater: ReadonlySet<string> = new Set([
  'id',
  'op',
  'table',
  'function',
  'values',
  'set',
  'on_conflict'
])

/** Members that an update cannot have beside `key`. */
export const besideKey = {
  set: '"set" and "key" exclude each other; the new values are in "values".',
  from: '"from" and "key" exclude each other.',
  all: '"all" and "key" exclude each other; the keys choose the rows.'
}

/** Checks all members of an operation against their schemas. Returns those that are valid. */
export function checkMembers<Kind extends OperationKind> (
  kind: Kind,
  context: PlanContext
): Members<Kind> {
  const { operation } = context
  const isBulkUpdate = kind === 'update' && has(operation, 'key')
  const isLater = (name: string): boolean =>
    checkedLater.has(name) || (kind === 'insert' && name === 'columns') ||
    (isBulkUpdate && Object.hasOwn(besideKey, name))
  const properties = Object.entries<TSchema>(operations[kind].properties)
  return Object.fromEntries(
    properties.filter(([name, schema]) =>
      has(operation, name) && !isLater(name) && checkMember(name, schema, kind, context)
    ).map(([name]) => [name, operation[name]])
  ) as Members<Kind>
}

function checkMember (
  name: string,
  schema: TSchema,
  kind: OperationKind,
  context: PlanContext
): boolean {
  const value = context.operation[name] as Json
  const place = { context, path: [name] }
  if (name === 'columns' || name === 'returning') return checkColumns(schema, value, place)
  // Only named batches have parameters.
  const { parameters } = context.batch
  if (name !== 'from' || parameters === undefined || !isObject(value) || !has(value, 'param')) {
    return checkSchema(schema, value, place)
  }
  return checkSchema(kind === 'insert' ? InsertedParameter : JoinedParameter, value, place)
}

/** Checks a list of columns. `inserted`, which needs `on_conflict`, has a message of its own. */
function checkColumns (schema: TSchema, value: Json, place: Place): boolean {
  const { context, path } = place
  const { operation } = context
  const isAllowed = operation['op'] === 'insert' && has(operation, 'on_conflict')
  const isMisplaced = (column: Json): boolean => isObject(column) && column['fn'] === 'inserted'
  if (isAllowed || !Array.isArray(value) || !value.some(isMisplaced)) {
    return checkSchema(schema, value, place)
  }
  for (const [i, column] of (value as readonly Json[]).entries()) {
    if (!isMisplaced(column)) continue
    const message = '"inserted" works only in "returning" of an insert with "on_conflict".'
    context.addIssue('member_invalid', [...path, i, 'fn'], message)
  }
  // Finds the issues of the other columns.
  checkSchema(schema, value.map((column: Json) => isMisplaced(column) ? '*' : column), place)
  return false
}

/**
 * Returns a required member without checking its shape; undefined after an issue, whose message
 * ends with `hint`.
 */
export function requireMember (
  name: string,
  context: PlanContext,
  hint?: string
): Json | undefined {
  if (has(context.operation, name)) return context.operation[name]
  const message = `"${name}" is required.${hint === undefined ? '' : ` ${hint}`}`
  return context.addIssue('member_missing', [name], message)
}
