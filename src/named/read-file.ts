/**
 * Reads the file of a named batch: bytes → NamedBatch, or all of its faults with their positions.
 */
import { basename } from 'node:path'
import { Value } from '@sinclair/typebox/value'
import type { Batch } from '../../schemas/batch.ts'
import { batchName, NamedBatchFile, paramsId } from '../../schemas/named-batch.ts'
import type { Issue } from '../../schemas/error.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import { describeIssue, describeOperation, describePath } from '../errors/issue-text.ts'
import { offsetOf, parseJsonText, positionOf } from '../json/json-text.ts'
import { isDeep, isObject, parseJson, type Json } from '../json/parse.ts'
import type { BatchLimits } from '../plan/read-batch.ts'
import { validateBody } from '../plan/validate-body.ts'
import type { NamedBatch } from './named-batch.ts'
import { readParameters } from './parameters.ts'
import { PlanCache, RequestPlanner } from './request-planner.ts'

type Path = ReadonlyArray<string | number>

/** What is wrong at a place of the file. */
interface Fault {
  readonly path: Path
  readonly message: string
}

/** A batch, or its faults: `order.json:3:5: operation 1 (items): …`. */
export type ReadFile =
  | { readonly batch: NamedBatch }
  | { readonly faults: readonly string[] }

/** `name`: that of the file, as faults show it. */
export function readNamedBatch (
  name: string,
  bytes: Buffer,
  limits: BatchLimits,
  plans = new PlanCache()
): ReadFile {
  const id = basename(name, '.json')
  if (!batchName.test(id)) {
    return { faults: [`${name}: The name of the file must match ${batchName.source}.json.`] }
  }
  const text = bytes.toString()
  const { root, error } = parseJsonText(text)
  const describe = ({ path, message }: Fault): string => {
    const offset = error ?? (root === undefined ? 0 : offsetOf(root, path))
    const { line, column } = positionOf(text, offset)
    return `${name}:${line}:${column}: ${message}`
  }
  const read = readContent({ name: id, bytes }, limits, plans)
  return 'faults' in read ? { faults: read.faults.map(describe) } : { batch: read }
}

function readContent (
  { name, bytes }: { readonly name: string, readonly bytes: Buffer },
  limits: BatchLimits,
  plans: PlanCache
): NamedBatch | { readonly faults: readonly Fault[] } {
  const file = tryTo(() => parseJson(bytes))
  if ('failure' in file) return { faults: [describeJson(file.failure)] }
  const content = file.result
  const wrong = findShapeFaults(content)
  if (wrong.length > 0) return { faults: wrong }
  const { description, roles, params, operations } = content as unknown as NamedBatchFile
  const parameters = readParameters(params as Json | undefined, limits.maxWork)
  if (Array.isArray(parameters)) {
    return {
      faults: parameters.map(({ path, message }) => ({ path: ['params', ...path], message }))
    }
  }
  const declared = parameters as NamedBatch['parameters']
  const problem = validateBody(operations, limits.maxOps) ?? findReservedId(operations as Batch)
  if (problem !== undefined) return { faults: describeFailure(problem) }
  const planner = tryTo(() =>
    new RequestPlanner({ name, operations: operations as Batch }, limits, {
      known: declared.known,
      plans
    }))
  if ('failure' in planner) return { faults: describeFailure(planner.failure) }
  return {
    name,
    description,
    roles: roles && new Set(roles),
    schema: params === undefined ? {} : declared.schema,
    parameters: declared,
    planner: planner.result
  }
}

function findShapeFaults (content: Json): readonly Fault[] {
  if (!isObject(content)) {
    return [{ path: [], message: 'The file must be a JSON object with "operations".' }]
  }
  if (isDeep(content)) return [{ path: [], message: 'The file is nested too deeply.' }]
  return [...Value.Errors(NamedBatchFile, content)].map(({ path, message }) => {
    const steps = path.split('/').slice(1).map(step => /^\d+$/.test(step) ? Number(step) : step)
    return { path: steps, message: `"${describePath(steps)}": ${message}.` }
  })
}

/** References to it would be ambiguous. */
function findReservedId (operations: Batch): Failure | undefined {
  const index = operations.findIndex(({ id }) => id === paramsId)
  if (index < 0) return undefined
  return failure('id_duplicate', `The id "${paramsId}" is reserved for the parameters.`, {
    op: paramsId,
    index
  })
}

/** The faults of a batch, with paths from the root of the file. */
function describeFailure ({ code, message, details: { errors, op, index } }: Failure): Fault[] {
  if (errors !== undefined) {
    return (errors as readonly Issue[]).map(issue =>
      ({ path: ['operations', issue.index, ...issue.path], message: describeIssue(issue) }))
  }
  const place = { op, index: index ?? 0 }
  return typeof index === 'number'
    ? [{ path: ['operations', index], message: `${describeOperation(place)}: ${code}: ${message}` }]
    : [{ path: ['operations'], message: `${code}: ${message}` }]
}

function describeJson ({ message }: Failure): Fault {
  return { path: [], message: message.replaceAll('The body', 'The file') }
}

/** Returns what the function returns, or the failure that it throws. */
function tryTo<Result> (
  run: () => Result
): { readonly result: Result } | { readonly failure: Failure } {
  try {
    return { result: run() }
  } catch (error) {
    return { failure: error as Failure }
  }
}
