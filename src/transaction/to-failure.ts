/**
 * What a flight that did not commit means to the caller: landing → failure, with the operation it
 * belongs to.
 */
import { Failure, failure, type FailureDetails } from '../errors/catalogue.ts'
import { fromDatabase } from '../errors/postgres.ts'
import type { Expectation, Plan, PlanNode, ReferenceUse } from '../plan/nodes.ts'
import { columnsRead, listsRead } from '../sql/compile.ts'
import { readMarker, type Marker, type ValueFault } from '../sql/marker.ts'
import type { AttemptOutcome } from './attempt.ts'

type FailedLanding = Extract<AttemptOutcome, { kind: 'failed' }>

export interface ToFailureOptions {
  readonly anonymous: boolean
  readonly verbose: boolean
  readonly maxRows: number
}

/**
 * The failure that a landing stands for, and the operation that metrics count as failed (undefined:
 * none of them).
 */
export function toFailure (
  { error, at }: FailedLanding,
  plan: Plan,
  options: ToFailureOptions
): { failure: Failure, operation: number | undefined } {
  if (error instanceof Failure) {
    return { failure: error, operation: typeof at === 'number' ? at : undefined }
  }
  if (at === 'session') {
    // 22023: there is no such role, 42501: it may not be taken. One answer for both, or it would
    // tell which roles exist.
    const denied = error.code === '22023' || error.code === '42501'
    return {
      failure: denied
        ? failure('role_denied')
        : fromDatabase(error, { op: null, index: null, ...options }),
      operation: undefined
    }
  }
  if (at === 'commit' || at === 'key') {
    return {
      failure: fromDatabase(error, { op: null, index: null, ...options }),
      operation: undefined
    }
  }
  const marker = readMarker(error)
  if (marker !== undefined) return explainMarker(marker, at, plan, options)
  return { failure: fromDatabase(error, { ...placeOf(plan, at), ...options }), operation: at }
}

function explainMarker (
  marker: Marker,
  at: number,
  plan: Plan,
  { maxRows }: ToFailureOptions
): { failure: Failure, operation: number } {
  if (marker.kind === 'rows') {
    const message = `The operation returned or changed more than ${maxRows} rows.`
    return { failure: failure('rows_limit', message, final(plan, at)), operation: at }
  }
  if (marker.kind === 'value') {
    return {
      failure: failure('value_invalid', describeFault(marker.fault as ValueFault), final(plan, at)),
      operation: at
    }
  }
  if (marker.kind === 'session') {
    return {
      failure: failure(
        'internal',
        'An earlier operation changed the session, and it could not be put back.',
        placeOf(plan, at)
      ),
      operation: at
    }
  }
  if (marker.kind === 'order') {
    const message = 'A trigger reset the settings of the session: the order of the rows is lost.'
    return { failure: failure('internal', message, final(plan, at)), operation: at }
  }
  if (marker.kind === 'expect') {
    return {
      failure: failure(
        'expectation_failed',
        describeExpectation(plan, at, marker.value),
        final(plan, at)
      ),
      operation: at
    }
  }
  const readings = plan.referenceUses.get(at) as readonly ReferenceUse[]
  const { op: source } = placeOf(plan, at)
  if (marker.kind === 'lists') {
    const lists = listsRead(readings)
    const { reader } = lists[0] as ReferenceUse
    const message =
      `"${source}" returned ${marker.value} rows; ${lists.length} lists of them are too much.`
    return { failure: failure('rows_limit', message, final(plan, reader)), operation: reader }
  }
  const { reader, reference } = (marker.kind === 'row'
    ? missingRow(readings, marker.value)
    : missingColumn(readings, marker.value)) as ReferenceUse
  const [code, message] = marker.kind === 'column'
    ? [
        'reference_column_missing',
      `"${source}" returned no column "${String(reference.column)}".`
      ] as const
    : [
        'reference_row_missing',
        reference.row === '*'
          ? `"${source}" returned no rows; a condition with the empty list would meet every row.`
          : `"${source}" returned ${marker.value} ${
          marker.value === 1 ? 'row' : 'rows'
        }; the row that was referred to is not among them.`
      ] as const
  return { failure: failure(code, message, final(plan, reader)), operation: reader }
}

function missingRow (readings: readonly ReferenceUse[], rows: number): ReferenceUse | undefined {
  return readings.find(reading => reading.rows > rows)
}

function missingColumn (
  readings: readonly ReferenceUse[],
  position: number
): ReferenceUse | undefined {
  const column = columnsRead(readings)[position - 1]
  return readings.find(({ reference }) => reference.column === column)
}

function describeExpectation (plan: Plan, index: number, rows: number): string {
  const { min, max } = (plan.operations[index] as PlanNode).expect as Expectation
  const expected = min === max
    ? String(min)
    : max === Infinity
      ? `at least ${min}`
      : min === 0
        ? `at most ${max}`
        : `${min} to ${max}`
  return `Expected ${expected} ${
    expected.endsWith(' 1') || expected === '1' ? 'row' : 'rows'
  }, met ${rows}.`
}

/** Which value does not fit, why, and what to write instead. */
function describeFault ({ problem, path, type = '' }: ValueFault): string {
  const [row = '', column = '', ...steps] = path
  const missing = problem === 'member' ? steps.pop() : undefined
  const inside = steps.length === 0 ? '' : `, at ${steps.join('.')}`
  const place = `${row === '' ? 'Column' : `Row ${row} of values, column`} "${column}"${inside}`
  switch (problem) {
    case 'member':
      return `${place}: the type ${type} has no member "${missing}".`
    case 'list':
      return `${place}: the type ${type} takes one value, not an array or an object. ` +
        'To store JSON text, send it as a string.'
    case 'null':
      return `${place}: only json and jsonb hold the JSON null. ` +
        'To ask for NULL, write {"is": null}.'
    case '$append':
      return `${place}: $append needs an array, and there is none. ` +
        'To replace what is there, set the value itself.'
    case '$merge':
      return `${place}: $merge needs a jsonb column that holds an object, ` +
        'and an object to merge. To replace what is there, set the value itself.'
  }
}

/** The failures that this file names are the batch's own: sending it again changes nothing. */
function final (plan: Plan, index: number): FailureDetails {
  return { ...placeOf(plan, index), retryable: false }
}

function placeOf (plan: Plan, index: number): { op: string, index: number } {
  return { op: (plan.operations[index] as PlanNode).id, index }
}
