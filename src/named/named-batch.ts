/**
 * A batch that is stored with the service: planned once, and run with the parameters of a request.
 */
import type { Issue, ParameterIssue } from '../../schemas/error.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import {
  isDeep,
  isObject,
  parseInPieces,
  type Json,
  type JsonObject,
  type Pieces
} from '../json/parse.ts'
import { maxIssuesLength, shorten } from '../plan/check/issues.ts'
import type { PlannedBatch } from '../plan/plan-batch.ts'
import { toDoubles } from './numbers.ts'
import type { Parameters } from './parameters.ts'
import type { PathIssue } from './schema-parts.ts'
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

/** The named batches that the identity of a request may run. */
export interface NamedAccess<Request> {
  list(request: Request): readonly NamedBatch[]
  /**
   * Returns the batch, which becomes that of the request. Throws `batch_unknown`, or
   * `role_forbidden` if it is not for the role.
   */
  find(request: Request, name: string): NamedBatch
}

/** Reads the parameters of a request. Throws `body_invalid` for a body that is no JSON object. */
export function * readParameters (body: Buffer): Pieces<JsonObject> {
  const values = yield * parseInPieces(body)
  if (!isObject(values)) {
    throw failure('body_invalid', 'The body must be a JSON object of parameters.')
  }
  return values
}

/** Checks and plans parameters. Throws what checkParameters throws. */
export function * planNamed (
  named: NamedBatch,
  given: JsonObject,
  bytes: number
): Pieces<PlannedBatch> {
  const values = yield * checkParameters(named, given, bytes)
  yield
  return named.planner.plan(values)
}

/**
 * Checks the parameters of a body of this many bytes and returns them by position. Throws
 * `params_invalid` with every issue.
 */
export function * checkParameters (
  { parameters, planner }: NamedBatch,
  values: JsonObject,
  bytes: number
): Pieces<readonly Json[]> {
  if (isDeep(values)) refuse([{ path: [], message: 'The parameters are nested too deeply.' }])
  const doubles = toDoubles(values)
  yield
  refuse(parameters.check(values, { first: bytes > MAX_LISTED_BODY, doubles }))
  const all = parameters.read(values)
  refuse(planner.findIssues(all))
  return all
}

/**
 * For a larger body, only the first issue is looked for: Ajv creates an object for each issue
 * before any is listed (500 000 of a body of 1 MiB, in a second).
 */
const MAX_LISTED_BODY = 65_536

/** Throws `params_invalid` if there are issues. */
export function refuse (issues: Iterable<PathIssue>): void {
  const refused = describeIssues(issues)
  if (refused !== undefined) throw refused
}

/**
 * Returns `params_invalid` if there are issues. It lists them up to the size of a response. `line`:
 * that of an upload which has them.
 */
export function describeIssues (
  issues: Iterable<PathIssue>,
  line?: number
): Failure | undefined {
  const listed: ParameterIssue[] = []
  let length = 0
  let isCut = false
  for (const issue of issues) {
    const path = [...issue.path]
    const message = shorten(issue.message)
    length += JSON.stringify([path, message]).length
    isCut = length > maxIssuesLength && listed.length > 0
    if (isCut) break
    listed.push({ path, message })
  }
  const [first] = listed
  if (first === undefined) return undefined
  const count = isCut ? `more than ${listed.length}` : listed.length
  const errors = listed as unknown as Issue[]
  if (line === undefined) {
    const several = `The parameters have ${count} issues; see "errors".`
    return failure('params_invalid', count === 1 ? first.message : several, { errors })
  }
  const several = `Line ${line} has ${count} issues; see "errors".`
  const message = count === 1 ? `Line ${line}: ${first.message}` : several
  return failure('params_invalid', message, { errors, line })
}
