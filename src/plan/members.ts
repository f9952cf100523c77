/**
 * Members of an operation: which there are, and whether they have the shape of their schema.
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
import type { PlanContext } from './nodes.ts'

/** `op`; undefined when a fault was found. */
export function planKind (operation: JsonObject, findings: PlanContext): OperationKind | undefined {
  const op = present(operation, 'op', findings)
  if (op === undefined) return undefined
  if (typeof op !== 'string') {
    return findings.fault('member_invalid', ['op'], 'op must be a string.')
  }
  if (!Object.hasOwn(operations, op)) {
    return findings.fault(
      'op_unknown',
      ['op'],
      `op must be one of ${Object.keys(operations).join(', ')}.`
    )
  }
  return op as OperationKind
}

/**
 * What nobody defined is refused: `wheer` would read the whole table. What belongs to another kind
 * is refused as well, `limit` of a delete, except for the three members that have always been
 * ignored there.
 */
export function checkMembers (
  operation: JsonObject,
  op: OperationKind | undefined,
  findings: PlanContext
): void {
  for (const name of Object.keys(operation)) {
    const kinds = memberKinds.get(name)
    if (kinds === undefined) {
      findings.fault('member_unknown', [name], `There is no member "${name}".`)
    } else if (op !== undefined && !kinds.includes(op) && !isIgnored(name, operation)) {
      findings.fault(
        'member_invalid',
        [name],
        ignoredMembers.has(name)
          ? `${name} stands beside on_conflict; what it says belongs inside of it.`
          : `${name} belongs to ${kinds.join(' and ')}, not to ${op}.`
      )
    }
  }
}

/** Beside `on_conflict` they are no leftovers: somebody thinks that the conflict looks at them. */
function isIgnored (name: string, operation: JsonObject): boolean {
  return ignoredMembers.has(name) && !has(operation, 'on_conflict')
}

/** A member that has to be there; its shape is not looked at. */
export function present (
  operation: JsonObject,
  name: string,
  findings: PlanContext
): Json | undefined {
  if (has(operation, name)) return operation[name]
  return findings.fault('member_missing', [name], `${name} is required.`)
}

/**
 * A member that is there and has the shape of its schema; any other is noted, a missing one too.
 */
export function required (
  operation: JsonObject,
  name: string,
  schema: Schema,
  findings: PlanContext
): Json | undefined {
  return present(operation, name, findings) === undefined
    ? undefined
    : optional(operation, name, schema, findings)
}

/** A member that is there and has the shape of its schema; one that has not is noted. */
export function optional (
  operation: JsonObject,
  name: string,
  { properties }: Schema,
  findings: PlanContext
): Json | undefined {
  if (!has(operation, name)) return undefined
  const value = operation[name] as Json
  return checkShape(properties[name] as TSchema, value, [name], findings) ? value : undefined
}

interface Schema {
  readonly properties: Readonly<Record<string, TSchema>>
}
