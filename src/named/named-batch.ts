/**
 * A batch that is stored with the service: planned once, and run with the parameters of a request.
 */
import { failure, type Failure } from '../errors/catalogue.ts'
import { didYouMean } from '../errors/suggestion.ts'
import { isDeep, isObject, parseJson, type JsonObject } from '../json/parse.ts'
import { shorten } from '../plan/check/issues.ts'
import type { PlannedBatch } from '../plan/plan-batch.ts'
import { refuse } from './issues.ts'
import type { Parameters } from './parameters.ts'
import type { RequestPlanner } from './request-planner.ts'

export interface NamedBatch {
  readonly name: string
  readonly description: string | undefined
  /** The roles that may run it; undefined: all. */
  readonly roles: ReadonlySet<string> | undefined
  /** The JSON Schema of the parameters, with references by path; empty: it has none. */
  readonly schema: JsonObject
  readonly parameters: Parameters
  /** In its statements, the values of parameters are placeholders. */
  readonly planner: RequestPlanner
}

/** The batches of BATCHES_DIR, by name. */
export type NamedBatches = ReadonlyMap<string, NamedBatch>

/** Returns `batch_unknown` with the name that may have been meant, of those that may be run. */
export function unknownBatch (name: string, known: readonly string[]): Failure {
  const help = didYouMean(name, known)
  return failure('batch_unknown', `There is no named batch "${shorten(name)}".${help}`)
}

/** Reads the parameters of a request. Throws `body_invalid` for a body that is no JSON object. */
export function readParameters (body: Buffer): JsonObject {
  const values = parseJson(body)
  if (!isObject(values)) {
    throw failure('body_invalid', 'The body must be a JSON object of parameters.')
  }
  return values
}

/** Checks and plans the parameters of a body of this many bytes. Throws `params_invalid`. */
export function planNamed (
  { parameters, planner }: NamedBatch,
  values: JsonObject,
  bytes: number
): PlannedBatch {
  if (isDeep(values)) refuse([{ path: [], message: 'The parameters are nested too deeply.' }])
  refuse(parameters.check(values, bytes > MAX_LISTED_BODY))
  const all = parameters.read(values)
  refuse(planner.findIssues(all))
  return planner.plan(all)
}

/**
 * For a larger body, only the first issue is looked for: Ajv creates an object for each issue
 * before any is listed (500 000 of a body of 1 MiB, in a second).
 */
const MAX_LISTED_BODY = 65_536
