/**
 * Reads the members of an operation and checks them against the schema of its kind.
 */
import type { TSchema } from '@sinclair/typebox'
import {
  ignoredMembers,
  memberKinds,
  operations,
  type OperationKind
} from '../../schemas/operation.ts'
import { has, type Json, type JsonObject } from '../json/parse.ts'
import { checkShape } from './check-shape.ts'
import type { PlanContext } from './context.ts'
import { describeUnknown } from './describe.ts'

/** An operation of the request. `kind` decides which schema its members must match. */
export interface OperationSource {
  readonly operation: JsonObject
  readonly kind: OperationKind
  readonly context: PlanContext
}

/** Reads `op`; returns undefined after an issue. */
export function readKind (
  operation: JsonObject,
  context: PlanContext
): OperationKind | undefined {
  const op = requireMember({ operation, context }, 'op')
  if (op === undefined) return undefined
  if (typeof op !== 'string') {
    return context.addIssue('member_invalid', ['op'], '"op" must be a string.')
  }
  if (!Object.hasOwn(operations, op)) {
    return context.addIssue(
      'op_unknown',
      ['op'],
      `"op" must be one of ${Object.keys(operations).join(', ')}.`
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
    } else if (op !== undefined && !kinds.includes(op) && !isIgnored(name, operation)) {
      context.addIssue(
        'member_invalid',
        [name],
        ignoredMembers.has(name)
          ? `"${name}" must be inside "on_conflict".`
          : `"${name}" is a member of ${kinds.join(' and ')}, not of ${op}.`
      )
    }
  }
}

function describeUnknownMember (name: string, op: OperationKind | undefined): string {
  const members = op === undefined ? memberKinds.keys() : Object.keys(operations[op].properties)
  return describeUnknown('member', name, [...members])
}

/** Beside `on_conflict` such a member is a mistake: the client expects the conflict to use it. */
function isIgnored (name: string, operation: JsonObject): boolean {
  return ignoredMembers.has(name) && !has(operation, 'on_conflict')
}

/** Returns a required member without checking its shape; undefined after an issue. */
export function requireMember (
  { operation, context }: Pick<OperationSource, 'operation' | 'context'>,
  name: string
): Json | undefined {
  if (has(operation, name)) return operation[name]
  return context.addIssue('member_missing', [name], `"${name}" is required.`)
}

/** Returns an optional member that matches its schema; undefined if absent or after an issue. */
export function readMember (
  { operation, kind, context }: OperationSource,
  name: string
): Json | undefined {
  if (!has(operation, name)) return undefined
  const value = operation[name] as Json
  const properties: Readonly<Record<string, TSchema>> = operations[kind].properties
  return checkShape(properties[name] as TSchema, value, { context, path: [name] })
    ? value
    : undefined
}
