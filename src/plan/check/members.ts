/**
 * Reads the members of an operation and checks them against the schema of its kind.
 */
import type { TSchema } from '@sinclair/typebox'
import {
  ignoredMembers,
  memberKinds,
  operations,
  type OperationKind
} from '../../../schemas/operation.ts'
import { has, type Json, type JsonObject } from '../../json/parse.ts'
import { checkSchema } from './check-schema.ts'
import type { PlanContext } from '../context.ts'
import { describeUnknown } from './describe.ts'

/** An operation of the request. `kind` decides which schema its members must match. */
export interface OperationSource {
  readonly operation: JsonObject
  readonly kind: OperationKind
  readonly context: PlanContext
}

const KINDS = Object.keys(operations).join(', ')

/** What other systems call an insert with `on_conflict`. */
const UPSERTS = /^(?:upsert|merge|replace)$/i
const UPSERT =
  ' An upsert is an "insert" with "on_conflict": {"columns": ["id"], "do": "update"}.'

/** Reads `op`; returns undefined after an issue. */
export function readKind (
  operation: JsonObject,
  context: PlanContext
): OperationKind | undefined {
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
 * because `wheer` would read the whole table. A member of another kind is refused too, except for
 * `ignoredMembers`.
 */
export function checkMembers (
  operation: JsonObject,
  op: OperationKind | undefined,
  context: PlanContext
): void {
  for (const name of Object.keys(operation)) {
    const kinds = memberKinds.get(name)
    if (kinds === undefined) {
      context.addIssue('member_unknown', [name], describeUnknownMember(name, op))
    } else if (op !== undefined && !kinds.includes(op) && !isIgnored(name, op, operation)) {
      context.addIssue('member_invalid', [name], describeForeignMember(name, op, operation))
    }
  }
}

function describeUnknownMember (name: string, op: OperationKind | undefined): string {
  const members = op === undefined ? memberKinds.keys() : Object.keys(operations[op].properties)
  return describeUnknown('member', name, [...members])
}

/** Such a member has no effect, unless it is a mistake. */
function isIgnored (name: string, op: OperationKind, operation: JsonObject): boolean {
  return ignoredMembers.has(name) && findUser(name, op, operation) === undefined
}

function describeForeignMember (name: string, op: OperationKind, operation: JsonObject): string {
  const user = findUser(name, op, operation)
  const kinds = memberKinds.get(name) as readonly OperationKind[]
  return user === undefined
    ? `"${name}" is a member of ${kinds.join(' and ')}, not of ${op}.`
    : `"${name}" must be inside "${user}".`
}

/** Finds a member of which the client expects that it uses an ignored one beside it. */
function findUser (name: string, op: OperationKind, operation: JsonObject): string | undefined {
  if (!ignoredMembers.has(name)) return undefined
  if (op === 'insert' && name === 'where' && has(operation, 'from')) return 'from'
  if (op === 'insert' && name === 'set' && has(operation, 'from')) {
    return has(operation, 'on_conflict') ? 'on_conflict' : 'columns'
  }
  return has(operation, 'on_conflict') ? 'on_conflict' : undefined
}

/**
 * Returns a required member without checking its shape; undefined after an issue, whose message
 * ends with `hint`.
 */
export function requireMember (
  { operation, context }: Pick<OperationSource, 'operation' | 'context'>,
  name: string,
  hint?: string
): Json | undefined {
  if (has(operation, name)) return operation[name]
  const message = `"${name}" is required.${hint === undefined ? '' : ` ${hint}`}`
  return context.addIssue('member_missing', [name], message)
}

/** Returns an optional member that matches its schema; undefined if absent or after an issue. */
export function readMember (
  { operation, kind, context }: OperationSource,
  name: string
): Json | undefined {
  if (!has(operation, name)) return undefined
  const value = operation[name] as Json
  const properties: Readonly<Record<string, TSchema>> = operations[kind].properties
  return checkSchema(properties[name] as TSchema, value, { context, path: [name] })
    ? value
    : undefined
}
