/**
 * Turns the outcome of a batch that failed into the failure that the client gets.
 */
import {
  Failure,
  failure,
  type FailureCode,
  type FailureDetails,
  quote,
  refuse,
  withReason
} from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { fromDatabase } from '../errors/postgres.ts'
import { isValueError, SqlState } from '../errors/sqlstates.ts'
import type { Issue } from '../../schemas/error.ts'
import type { Json } from '../json/parse.ts'
import type { ValuePlace } from '../plan/find-value.ts'
import type { Expectation, PlanNode } from '../plan/nodes.ts'
import type { Plan, ReferenceUse, Requirement, Requirements } from '../plan/plan.ts'
import type { Place } from '../sql/frame/steps.ts'
import { columnBeforeError, sharedAtError } from '../sql/statement/error-place.ts'
import type { RaisedError } from '../sql/statement/raised-error.ts'
import { FORMAT_NAMES } from '../sql/statement/settings.ts'
import { columnsRead, listsRead } from '../sql/statement/shared-results.ts'
import type { RefusedHere, SlotPlace } from '../sql/statement/slot.ts'
import { isUniqueKey, type ColumnTypes } from '../sql/values/column-types.ts'
import { refusesText } from '../values/write.ts'
import {
  describeError,
  describeGrant,
  describeHint,
  findLateOperand,
  findOperator,
  findStored,
  findTarget
} from './describe-error.ts'
import { adviseCall, describeName } from './describe-name.ts'
import { isMissingFunction, lookUp, type LookUpOptions } from './look-up.ts'
import type { Failed } from './outcome.ts'
import { referenceReader, rowsOfResults } from './read-reference.ts'
import { findRow, type FoundRow, type KnownRows } from './find-row.ts'
import { describeRefusedValues, pathOf, pathOfStored } from './refused-values.ts'

export interface FailureOptions {
  /** The role of the batch. */
  readonly role: string
  readonly anonymous: boolean
  readonly verbose: boolean
}

interface ToFailureOptions extends FailureOptions, LookUpOptions {
  readonly maxRows: number
  /** Maximum rows of an operation that returns none; undefined: `maxRows`. */
  readonly maxChanged?: number | undefined
  readonly maxBytes: number
  readonly columnTypes: Pick<ColumnTypes, 'lookup'>
  /** The values of the batch, by their positions. */
  readonly values?: readonly Json[] | undefined
}

export async function toFailure (
  outcome: Failed,
  plan: Plan,
  { values, ...options }: ToFailureOptions
): Promise<Failure> {
  const { error, at, refusal } = outcome
  if (error instanceof Failure) return error
  if (refusal?.kind === 'values') return describeRefusedValues(refusal.values, plan)
  const suggestions = await lookUp(outcome, plan, options)
  if (refusal?.kind === 'name') {
    const { name, index } = refusal
    const describe = (): string => describeName(name, suggestions, options.schemas)
    const place = { ...placeOf(plan, index), path: name.path }
    return fromDatabase(error, { ...place, describe, ...options })
  }
  if (outcome.raised?.kind === 'reset') return resultsLost(at, plan)
  if (typeof at !== 'number') return describeOutside(error, at, options)
  const raised = outcome.raised ?? readMissingColumn(error, plan.referenceUses.get(at))
  if (raised !== undefined) return describeRaised(raised, { plan, at, ...options })
  const node = plan.operations[at] as PlanNode
  if (isMissingFunction(error, node)) {
    const { path, help } = adviseCall(node.table, suggestions, options.schemas)
    const describe = (message: string): string => `${message}${help}`
    const { position, ...unplaced } = error
    return fromDatabase(unplaced, { ...placeOf(plan, at), path, describe, ...options })
  }
  // Only an upload may change more rows.
  const columns = options.columnTypes.lookup(node.table)
  const found = findPlace(outcome, node, {
    values,
    isUpload: options.maxChanged !== undefined,
    refusesText: column => refusesText(columns?.get(column)?.type),
    mayBeReferred: names => columns === undefined || isUniqueKey(columns, names)
  })
  const place = {
    ...placeOf(plan, at),
    path: found.path,
    describe: (message: string) => {
      const described = describeError(error, message, { node, ...found, suggestions })
      const { row, place } = found
      return row === undefined || row.isOnly || place !== undefined
        ? described
        : `Row ${row.position} of values: ${described}`
    },
    hint: describeHint(error)
  }
  const failed = fromDatabase(error, { ...place, ...options })
  const grant = describeGrant(error, node, options)
  return grant === undefined ? failed : withReason(failed, grant)
}

interface FoundPlace {
  readonly row: FoundRow | undefined
  readonly place: ValuePlace | undefined
  readonly path: Issue['path'] | undefined
}

/** Finds the row that violates a constraint, or the value that PostgreSQL refuses. */
function findPlace (
  { error, place: ofParameter, rows = [] }: Failed,
  node: PlanNode,
  given: Pick<KnownRows, 'values' | 'isUpload' | 'refusesText' | 'mayBeReferred'>
): FoundPlace {
  const known = { ...given, readReference: referenceReader(rowsOfResults(rows)) }
  const row = findRow(error, node, known)
  const ofRow = row && ['values', row.position]
  if (error.code === SqlState.undefined_function) {
    const operator = findOperator(error, node)
    const path = operator?.isCertain === true ? pathOf(node, operator) : undefined
    return { row, place: undefined, path }
  }
  if (!isValueError(error.code)) {
    const path = ofRow ?? findTarget(error, node) ?? ofParameter?.at
    return { row, place: undefined, path: path?.slice() }
  }
  const { column, isArray = false }: Partial<SlotPlace> = ofParameter ?? {}
  if (ofParameter !== undefined && !isArray) {
    return { row, place: ofParameter, path: pathOf(node, ofParameter) }
  }
  const compared = isArray ? undefined : columnBeforeError(error)
  if (compared !== undefined) {
    return { row, place: { column: compared }, path: ofRow }
  }
  const place = findStored(error, node, { row: row?.position, column, ...known }) ?? ofParameter
  const late = place === undefined ? findLateOperand(error, node) : undefined
  if (late !== undefined) return { row, place: late, path: [...late.at] }
  return { row, place, path: (place && pathOfStored(node, place)) ?? ofRow }
}

/**
 * Recognizes the error for a column that the rows do not have and that only later operations read.
 */
function readMissingColumn (
  error: DatabaseError,
  uses: readonly ReferenceUse[] = []
): RaisedError | undefined {
  const column = error.code === SqlState.undefined_column ? sharedAtError(error) : undefined
  const value = columnsRead(uses).findIndex(name => name === column) + 1
  return value === 0 ? undefined : { kind: 'column', value }
}

/** Describes an error that belongs to no operation. */
export function describeOutside (
  error: DatabaseError,
  at: Place,
  options: FailureOptions
): Failure {
  // Reasons for the log. The response is the same: otherwise it would tell which roles exist.
  if (at === 'session' && error.code === SqlState.invalid_parameter_value) {
    return refuse('role_denied', 'the role does not exist')
  }
  if (at === 'session' && error.code === SqlState.insufficient_privilege) {
    const reason = 'the role is not granted to the login role. If tokens may have it, and it is ' +
      `no superuser, run GRANT ${quote(options.role)} TO <login role>`
    return refuse('role_denied', reason)
  }
  return fromDatabase(error, { op: null, index: null, ...options })
}

interface RaisedContext extends Pick<ToFailureOptions, 'maxRows' | 'maxChanged' | 'maxBytes'> {
  readonly plan: Plan
  /** The operation that raised it. */
  readonly at: number
}

/** Describes what a statement of the service found; see src/sql/statement/raised-error.ts. */
function describeRaised (raised: RaisedError, context: RaisedContext): Failure {
  const { plan, at, maxBytes } = context
  const node = plan.operations[at] as PlanNode
  const place = placeOf(plan, at)
  const fail = (code: FailureCode, message: string, more?: Pick<FailureDetails, 'path'>): Failure =>
    failFinally({ ...place, ...more }, code, message)
  switch (raised.kind) {
    case 'rows':
      return fail('rows_limit', describeRows(node, context))
    case 'bytes':
      return responseTooLarge(maxBytes, place)
    case 'value':
      return describeRefusedValues([{ ...raised.issue as RefusedHere, index: at }], plan)
    case 'session':
      return fail('session_changed', describeChange(FORMAT_NAMES[raised.value - 1] as string))
    case 'function':
      return failure('internal', 'The function was replaced in each attempt.', place)
    case 'order':
      return fail('session_changed', 'A trigger reset the settings of the session: the order of ' +
        'the rows, or which of them are new, is lost. Reset single settings instead.')
    case 'duplicate':
      return fail('key_duplicate', `Row ${raised.value} of "values" has the same key as an ` +
        'earlier row.', { path: ['values', raised.value] })
    case 'ambiguous':
      return fail('rows_ambiguous', describeAmbiguity(node))
    case 'expect':
      return fail(
        'expectation_failed',
        `Expected ${describeRange(node.expect as Expectation)}, matched ${raised.value}.`,
        { path: ['expect'] }
      )
    case 'absent':
      return describeAbsent(raised, context)
    case 'missing': {
      const missing = { plan, at: raised.value, reader: at }
      return describeReference({ kind: 'row', value: 0 }, missing)
    }
    default:
      return describeReference(raised, context)
  }
}

function describeChange (name: string): string {
  const setting = name.toLowerCase()
  return `A function or trigger changed the setting ${name}, on which the values of the ` +
    `operation depend. Restore it when the function ends: ALTER FUNCTION … SET ${setting} ` +
    'FROM CURRENT.'
}

/** A function reset all settings, and with them the results that are kept in some. */
function resultsLost (at: Place, plan: Plan): Failure {
  const place = typeof at === 'number' ? placeOf(plan, at) : { op: null, index: null }
  return failFinally(
    place,
    'session_changed',
    'A function or trigger ran RESET ALL, which also removes the results of the operations. ' +
      'Reset single settings instead.'
  )
}

function describeRows ({ kind }: PlanNode, { maxRows, maxChanged }: RaisedContext): string {
  if (kind === 'select' || kind === 'call') {
    const next = kind === 'select' ? ', and the next ones with "order" and "after"' : ''
    return `The operation returned more than ${maxRows} rows (MAX_ROWS). ` +
      `Read fewer with "limit"${next}.`
  }
  return maxChanged === undefined
    ? `The operation returned or changed more than ${maxRows} rows (MAX_ROWS). ` +
      'Divide them among several operations.'
    : `The operation returned more than ${maxRows} rows, or changed more than ${maxChanged}.`
}

/** A failure of the batch itself: to send it again changes nothing. */
function failFinally (place: FailureDetails, code: FailureCode, message: string): Failure {
  return failure(code, message, { ...place, retryable: false })
}

export function responseTooLarge (maxBytes: number, place: FailureDetails): Failure {
  const message = `The response has more than ${maxBytes} bytes (MAX_RESPONSE_BYTES). ` +
    'Return fewer rows or columns.'
  return failFinally(place, 'response_too_large', message)
}

const EMPTY_LIST = 'a condition with an empty list would match every row'

/** Describes a failure that was found by the operation that reads the missing row. */
function describeAbsent (raised: RaisedError, { plan, at }: RaisedContext): Failure {
  const requirements = plan.requirements.get(at) as Requirements
  const { anyOf } = [...requirements.values()][raised.value - 1] as Requirement
  const missing = anyOf.map(({ reference: { source, row } }) => {
    const { op } = placeOf(plan, source)
    return row === '*'
      ? `"${op}" returned no rows; ${EMPTY_LIST}`
      : `"${op}" returned no row ${row}`
  })
  const { path } = anyOf[0] as ReferenceUse
  const place = { ...placeOf(plan, at), path: [...path] }
  return failFinally(place, 'reference_row_missing', `${missing.join(', and ')}.`)
}

function describeAmbiguity ({ kind }: PlanNode): string {
  switch (kind) {
    case 'bulk_update':
      return 'Several rows have the same key of "values". Add columns to "key", or conditions to ' +
        '"where".'
    case 'update':
      return 'A row meets several rows of "from". Group them with "group_by", or add columns to ' +
        '"on" or conditions.'
    default:
      return 'A member with "one" has several rows. Remove "one", or choose a row by "order" and ' +
        '"limit": 1.'
  }
}

/**
 * Describes a failure that the operation `at` raised, but that belongs to one that reads its rows:
 * `reader`, by default the first for which it matters.
 */
function describeReference (
  { kind, value }: RaisedError,
  { plan, at, reader }: Pick<RaisedContext, 'plan' | 'at'> & { readonly reader?: number }
): Failure {
  const uses = plan.referenceUses.get(at) as readonly ReferenceUse[]
  const { op: source } = placeOf(plan, at)
  const fail = ({ reader, path }: ReferenceUse, code: FailureCode, message: string): Failure =>
    failFinally({ ...placeOf(plan, reader), path: [...path] }, code, message)
  if (kind === 'lists') {
    const lists = listsRead(uses)
    const message = `"${source}" returned ${value} rows; ` +
      `${lists.length} references to lists of them are too many.`
    return fail(lists[0] as ReferenceUse, 'rows_limit', message)
  }
  if (kind === 'column') {
    const column = columnsRead(uses)[value - 1]
    const use = uses.find(({ reference }) => reference.column === column) as ReferenceUse
    const message = `"${source}" returned no column "${String(column)}". If this is ` +
      'no reference, double its first $.'
    return fail(use, 'reference_column_missing', message)
  }
  const use = uses.find(use => use.checked && use.rows > value &&
    (reader === undefined || use.reader === reader)) as ReferenceUse
  const { row } = use.reference
  const skipped = value === 0 && (plan.operations[at] as PlanNode).when.length > 0
    ? ' or was skipped'
    : ''
  const message = row === '*'
    ? `"${source}" returned no rows${skipped}; ${EMPTY_LIST}.`
    : `"${source}" returned ${countRows(value)}${skipped}; there is no row ${row}.`
  return fail(use, 'reference_row_missing', message)
}

function describeRange ({ min, max }: Expectation): string {
  if (min === max) return countRows(min)
  if (max === Infinity) return `at least ${countRows(min)}`
  return min === 0 ? `at most ${countRows(max)}` : `${min} to ${countRows(max)}`
}

function countRows (count: number): string {
  return `${count} ${count === 1 ? 'row' : 'rows'}`
}

function placeOf (plan: Plan, index: number): { op: string, index: number } {
  return { op: (plan.operations[index] as PlanNode).id, index }
}
