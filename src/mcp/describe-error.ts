/**
 * Tells a model how a call failed, so that it can repair the call: the error object of the HTTP
 * API, and what to do next.
 */
import type { Failure, FailureCode } from '../errors/catalogue.ts'
import { toErrorObject } from '../errors/envelope.ts'

export interface CallFacts {
  readonly requestId: string
  /** ERROR_VERBOSITY=verbose. */
  readonly verbose: boolean
  /** Whether the call has an idempotency key. */
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
  idempotency_key_reused:
    'Another call with this idempotency_key was committed. To get its result, repeat that call ' +
    'with its arguments. For a further change, choose a new idempotency_key.',
  idempotency_key_invalid: 'Leave idempotency_key out, and do not repeat a call without result.'
}

const UNKNOWN_WITH_KEY = `${SAME_KEY}: the change is applied once, and you get its result.`
const UNKNOWN_WITHOUT_KEY =
  'The change may have been made. Read the data with another tool before you repeat this call.'
const AGAIN = 'Nothing was changed. Call the tool again with the same arguments in a few seconds.'
const OTHER_DATA =
  'Nothing was changed. The data does not allow this call, and the same call fails again. Read ' +
  'the data, correct the arguments, and call the tool again.'
const FORBIDDEN = 'Nothing was changed. The role may not do this: do not repeat the call.'
const REPORT = 'Nothing was changed. Report the request_id to the operator.'

/** What a model should do after a failure. */
function findRepair (
  { code, committed, status }: Failure,
  retryable: boolean | undefined,
  hasKey: boolean
): string {
  if (committed === 'unknown') return hasKey ? UNKNOWN_WITH_KEY : UNKNOWN_WITHOUT_KEY
  const repair = repairs[code as FailureCode]
  if (repair !== undefined) return repair
  if (retryable === true || status === 504) return AGAIN
  if (status === 401 || status === 403) return FORBIDDEN
  return status >= 500 ? REPORT : OTHER_DATA
}
