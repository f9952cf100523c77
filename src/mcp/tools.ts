/**
 * Named batches as tools of the Model Context Protocol: what `tools/list` returns, what the
 * arguments of a call contain, and what a model reads when a call fails.
 */
import type { Tool } from '@modelcontextprotocol/server'
import { maxKeyLength } from '../../schemas/http.ts'
import type { ParameterIssue, Issue } from '../../schemas/error.ts'
import {
  failure,
  type Failure,
  type FailureCode,
  type FailureDetails
} from '../errors/catalogue.ts'
import { toErrorObject } from '../errors/envelope.ts'
import { has, type JsonObject } from '../json/parse.ts'
import type { NamedBatch } from '../named/named-batch.ts'
import { toDoubles } from '../named/numbers.ts'
import type { PlanNode } from '../plan/nodes.ts'
import { inlineReferences } from './inline-references.ts'

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
      destructiveHint: batch.planner.planOfFile.operations.some(isDestructive),
      openWorldHint: false
    }
  }
  tools.set(batch, tool)
  return tool
}

/** A parameter that `properties` does not contain is always refused. */
function describeArguments (batch: NamedBatch): Tool['inputSchema'] {
  const schema = inlineReferences(toDoubles(batch.schema) as JsonObject)
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
  return planner.planOfFile.operations.every(({ kind }) => kind === 'select')
}

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

// Tells a model how a call failed, so that it can repair the call: the error object of the HTTP
// API, and what to do next.

interface CallFacts {
  readonly requestId: string
  readonly verbose: boolean
  readonly hasKey: boolean
}

/** JSON text: `{"committed": false, "error": {"code": …, "message": …, "repair": …}}`. */
export function describeFailure (
  failure: Failure,
  { requestId, verbose, hasKey }: CallFacts
): string {
  const { committed, ...error } = toErrorObject(failure, requestId, verbose)
  const repair = findRepair(failure, error.retryable, hasKey)
  return JSON.stringify({ committed, error: { ...error, repair } })
}

const SAME_KEY = 'Repeat this call with the same arguments and the same idempotency_key'

const repairs: Partial<Readonly<Record<FailureCode, string>>> = {
  params_invalid: 'Correct the arguments at each path in "errors", and call the tool again.',
  batch_unknown: 'List the tools again, and call one of them.',
  role_forbidden: 'List the tools again, and call one of them. This one is for other roles.',
  idempotency_key_in_progress: `The first call is still running. ${SAME_KEY} in a few seconds.`,
  idempotency_key_invalid:
    'If you did not get the result of an earlier call with this idempotency_key, its change may ' +
    'have been made: read the data with another tool first. Leave idempotency_key out only for ' +
    'a change that no earlier call was to make, and do not repeat a call without result.'
}

// An agent that repeats a call with another key applies its change twice.
const reuses: Readonly<Record<NonNullable<FailureDetails['differs']>, string>> = {
  request:
    'A call with this idempotency_key was committed, with other arguments or preferences. First ' +
    'find out what it changed: repeat it with its arguments to get its result, or read the data ' +
    'with another tool. If that is the change that you intend, it is made: stop. Only for a ' +
    'change in addition to it, choose a new idempotency_key.',
  claims:
    'A call with this idempotency_key was committed, with a token of other claims. If it was ' +
    'your call, its change is made: do not make it again, not with another idempotency_key ' +
    'either. To get its result, repeat the call with the same arguments, the same ' +
    'idempotency_key and a token with the same claims. Otherwise read the data with another tool.'
}

const UNKNOWN_WITH_KEY = `${SAME_KEY}: the change is applied once, and you get its result.`
const UNKNOWN_WITHOUT_KEY =
  'The change may have been made. Read the data with another tool before you repeat this call.'
const AGAIN = 'Nothing was changed. Call the tool again with the same arguments in a few seconds.'
const AGAIN_WITH_KEY = `This call changed nothing. ${SAME_KEY} in a few seconds.`
const OTHER_DATA =
  'Nothing was changed. The data does not allow this call, and the same call fails again. Read ' +
  'the data, correct the arguments, and call the tool again.'
const FORBIDDEN = 'Nothing was changed. The role may not do this: do not repeat the call.'
const REPORT = 'Nothing was changed. Report the request_id to the operator.'

function findRepair (
  { code, committed, status, details: { differs } }: Failure,
  retryable: boolean | undefined,
  hasKey: boolean
): string {
  if (committed === 'unknown') return hasKey ? UNKNOWN_WITH_KEY : UNKNOWN_WITHOUT_KEY
  const repair = differs === undefined ? repairs[code as FailureCode] : reuses[differs]
  if (repair !== undefined) return repair
  if (retryable === true || status === 504) return hasKey ? AGAIN_WITH_KEY : AGAIN
  if (status === 401 || status === 403) return FORBIDDEN
  return status >= 500 ? REPORT : OTHER_DATA
}
