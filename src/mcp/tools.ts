/**
 * Named batches as tools of the Model Context Protocol: what `tools/list` returns, and what the
 * arguments of a call contain.
 */
import type { Tool } from '@modelcontextprotocol/server'
import { maxKeyLength } from '../../schemas/http.ts'
import type { ParameterIssue, Issue } from '../../schemas/error.ts'
import { failure } from '../errors/catalogue.ts'
import { has, type JsonObject } from '../json/parse.ts'
import type { NamedBatch } from '../named/named-batch.ts'
import { toDoubles } from '../named/numbers.ts'
import type { PlanNode } from '../plan/nodes.ts'

/** The argument of a tool that is the idempotency key of its call. */
const KEY = 'idempotency_key'

const keyPattern = new RegExp(`^[ -~]{1,${maxKeyLength}}$`)

const keySchema = {
  type: 'string',
  minLength: 1,
  maxLength: maxKeyLength,
  pattern: '^[ -~]+$',
  description:
    'Identifies this one change. Choose a new random value, such as a UUID, for each change that ' +
    'you intend. Repeat the same value only when you repeat a call whose result you did not get, ' +
    'with the same arguments: the change is then applied once, and you get its result.'
} as const

/** The tools of batches, as long as these exist. */
const tools = new WeakMap<NamedBatch, Tool>()

export function toTool (batch: NamedBatch): Tool {
  const known = tools.get(batch)
  if (known !== undefined) return known
  const { name, description } = batch
  const tool: Tool = {
    name,
    ...description === undefined ? {} : { description },
    inputSchema: describeArguments(batch),
    annotations: {
      readOnlyHint: isReadOnly(batch),
      destructiveHint: batch.planner.genericPlan.operations.some(isDestructive),
      openWorldHint: false
    }
  }
  tools.set(batch, tool)
  return tool
}

/** A parameter that `properties` does not contain is always refused. */
function describeArguments (batch: NamedBatch): Tool['inputSchema'] {
  const schema = toDoubles(batch.schema) as JsonObject
  const properties = {
    ...schema['properties'] as JsonObject | undefined,
    ...takesKey(batch) ? { [KEY]: keySchema } : {}
  }
  return { ...schema, type: 'object', properties, additionalProperties: false }
}

/** A parameter with the name of the key is a parameter: then a call has no key in its arguments. */
function takesKey (batch: NamedBatch): boolean {
  return !isReadOnly(batch) && !batch.parameters.known.has(KEY)
}

/** Whether no operation changes data. A function may do anything. */
function isReadOnly ({ planner }: NamedBatch): boolean {
  return planner.genericPlan.operations.every(({ kind }) => kind === 'select')
}

/** Whether an operation may change or delete rows that exist. */
function isDestructive (operation: PlanNode): boolean {
  return operation.kind === 'insert'
    ? operation.conflict?.update !== undefined
    : operation.kind !== 'select'
}

export interface Arguments {
  readonly parameters: JsonObject
  /** undefined: the call has none. */
  readonly key: string | undefined
}

/** Takes the key from the arguments of a call. Throws `params_invalid` if it is no key. */
export function readArguments (batch: NamedBatch, given: JsonObject): Arguments {
  if (!takesKey(batch) || !has(given, KEY)) return { parameters: given, key: undefined }
  const { [KEY]: key, ...parameters } = given
  if (typeof key !== 'string' || !keyPattern.test(key)) {
    const message = `"${KEY}" must be a string of 1 to ${maxKeyLength} printable ASCII characters.`
    const issues: readonly ParameterIssue[] = [{ path: [KEY], message }]
    throw failure('params_invalid', message, { errors: issues as unknown as Issue[] })
  }
  return { parameters, key }
}
