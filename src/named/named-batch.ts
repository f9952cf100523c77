/**
 * A batch that is stored with the service: planned once, and run with the parameters of a request.
 */
import type { Issue, ParameterIssue } from '../../schemas/error.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import { isDeep, isObject, parseJson, type JsonObject } from '../json/parse.ts'
import type { PlannedBatch } from '../plan/batch-planner.ts'
import type { ParameterFault, Parameters } from './parameters.ts'
import type { RequestPlanner } from './request-planner.ts'

export interface NamedBatch {
  readonly name: string
  readonly description: string | undefined
  /** The roles that may run it; undefined: all. */
  readonly roles: ReadonlySet<string> | undefined
  /** The JSON Schema of the parameters. */
  readonly schema: JsonObject
  readonly parameters: Parameters
  /** In its statements, the values of parameters are placeholders. */
  readonly planner: RequestPlanner
}

/** The batches of BATCHES_DIR, by name. */
export type NamedBatches = ReadonlyMap<string, NamedBatch>

/**
 * Reads the parameters of a request. Throws `body_invalid` for a body that is no JSON object, and
 * `params_invalid` with every fault.
 */
export function readNamedRequest (
  { parameters, planner }: NamedBatch,
  body: Buffer
): PlannedBatch {
  const values = parseJson(body)
  if (!isObject(values)) {
    throw failure('body_invalid', 'The body must be a JSON object of parameters.')
  }
  if (isDeep(values)) throw refuse([{ path: [], message: 'The parameters are nested too deeply.' }])
  const invalid = parameters.check(values)
  if (invalid.length > 0) throw refuse(invalid)
  const all = parameters.read(values)
  const faults = planner.findFaults(all)
  if (faults.length > 0) throw refuse(faults)
  return planner.plan(all)
}

/** Maximum number of faults that a response lists. */
const MAX_FAULTS = 1000

function refuse (faults: readonly ParameterFault[]): Failure {
  const [first] = faults
  const message = faults.length === 1
    ? first?.message
    : `The parameters have ${faults.length} faults; see "errors".`
  const errors = faults.slice(0, MAX_FAULTS).map(({ path, message }) =>
    ({ path: [...path], message })) satisfies readonly ParameterIssue[]
  return failure('params_invalid', message, { errors: errors as unknown as Issue[] })
}
