/**
 * Raises our own failures in SQL, so that the transaction cannot commit, and recognises them. The
 * SQL reads a setting that does not exist. Its name contains a secret of this process, the kind of
 * the failure, and perhaps a number.
 */
import { randomBytes } from 'node:crypto'
import type { DatabaseError } from '../../errors/database-error.ts'
import {
  constant,
  sharedParameter,
  sql,
  type Fragment,
  type RenderedSql,
  type Slot
} from '../../fragment/fragment.ts'
import { textAtError } from './error-place.ts'
import type { RefusedHere } from './slot.ts'

/** The beginning of the names, which cannot be guessed. */
const PREFIX = `oneflight.${randomBytes(10).toString('hex')}_`

/** A name; see raiseBytes. */
const RAISED = new RegExp(String.raw`${PREFIX}(?:rows_)?([a-z]+)(?::(\d+)(?:\.(\d+))?)?`)

/**
 * - `rows`: more rows than allowed
 * - `bytes`: the rows are larger than allowed; see buildSizeCheck
 * - `expect`: a number of rows other than expected
 * - `row`: a referenced row is missing
 * - `missing`: the same, noticed by the operation that refers to it; the value is the index of the
 *   operation that has no row
 * - `column`: a referenced column is missing; the value is its position in `columnsRead`
 * - `absent`: a row that the operation reads does not exist; the value is the position of the
 *   requirement, from 1, see buildRequirements
 * - `lists`: too many lists are read from this many rows; the value is the number of rows
 * - `order`: the order of inserted rows is lost; see buildOrderCheck
 * - `session`: code of the database changed a setting; the value is its number in FORMAT_NAMES,
 *   from 1
 * - `reset`: code of the database reset the settings that hold the results of operations
 * - `value`: a value does not fit its type; the value is the number of the issue in the statement
 * - `ambiguous`: several rows match where one is required
 * - `duplicate`: several rows of `values` have the same key; the value is the position of one
 * - `function`: a function was replaced since the types of its parameters were read
 * - `types`: the type of a column has changed since it was read
 * - `refused`: the batch is refused; see refuseStatement
 * - `busy`, `taken`: the idempotency key is in use or was used; see claimStatement
 */
type RaisedKind = PlainKind | NumberKind | 'bytes'

type PlainKind =
  | 'rows'
  | 'order'
  | 'reset'
  | 'ambiguous'
  | 'function'
  | 'types'
  | 'refused'
  | 'busy'
  | 'taken'

/** The kinds with a number. */
type NumberKind =
  | 'row'
  | 'missing'
  | 'column'
  | 'absent'
  | 'expect'
  | 'lists'
  | 'duplicate'
  | 'session'
  | 'value'

export interface RaisedError {
  readonly kind: RaisedKind
  /** A number, for kinds that have one. */
  readonly value: number
  /** For `value`: the value that does not fit, and the reason. */
  readonly issue?: RefusedHere
}

/** The parameter with the name of a failure: a statement has each of them once. */
function nameOf (failure: string): Fragment {
  return sharedParameter(`${PREFIX}${failure}`)
}

/**
 * Raises a failure, perhaps with a number. It is an expression of type text that fails when it is
 * evaluated, and not when it is planned: the function is STABLE. It is a single function call: many
 * statements contain it, few fail, and PostgreSQL prepares each call at every execution.
 */
export function raise (kind: PlainKind | NumberKind, value?: number): Fragment {
  return readSetting(nameOf(value === undefined ? kind : `${kind}:${value}`))
}

/** Raises `bytes` by the name of `rows` and an end, so it needs no parameter of its own. */
export function raiseBytes (): Fragment {
  return readSetting(
    sql`${nameOf('rows')}::pg_catalog.text operator(pg_catalog.||) '_bytes'`
  )
}

/**
 * Raises a failure with a number, an expression. The operators name their schema: with a
 * search_path, a user could create an operator that fits better and disables the failure.
 */
export function raiseNumber (kind: NumberKind, value: Fragment): Fragment {
  return readSetting(sql`${nameOf('')}::pg_catalog.text operator(pg_catalog.||) ${
    constant(`${kind}:`)
  } operator(pg_catalog.||) cast(${value} as pg_catalog.text)`)
}

/**
 * Raises `value` with the number of an issue. `position`: that of the row of a key, or of an
 * element of a list; an expression.
 */
export function raiseIssue (issue: number, position?: Fragment): Fragment {
  return position === undefined
    ? raise('value', issue)
    : raiseNumber('value', sql`${constant(`${issue}.`)} operator(pg_catalog.||) cast(${
      position
    } as pg_catalog.text)`)
}

function readSetting (name: Fragment): Fragment {
  return sql`pg_catalog.current_setting(${name})`
}

/** Replaces the names of failures among the parameters of a statement that a client sees. */
export function hideSecrets (
  { text, parameters }: RenderedSql<string | null | Slot>
): RenderedSql<string | null | Slot> {
  return {
    text,
    parameters: parameters.map(value =>
      typeof value === 'string' && value.startsWith(PREFIX) ? 'oneflight.check' : value)
  }
}

/** A type is no longer the one that was read. */
const TYPES: RaisedError = { kind: 'types', value: 0 }

/**
 * Returns the raised error in an error of PostgreSQL; undefined if the service did not raise it.
 * `issues`: those of the statement.
 */
export function readRaised (
  error: DatabaseError,
  issues: readonly RefusedHere[] = []
): RaisedError | undefined {
  const { code, message, routine, where } = error
  if (code === '42883' || code === '42725') return readMissingOperator(error)
  // A condition of compareLimits, and not a function that fails in the same way.
  if (code === '42804') return routine === 'analyzeCTE' && where === undefined ? TYPES : undefined
  if (code !== '42704') return undefined
  // A condition of buildParsedCheck: an array has no array type.
  if (routine === 'enforce_generic_type_consistency') return TYPES
  const found = RAISED.exec(message)
  if (found === null) return undefined
  const [, kind, number = '', position] =
    found as unknown as [string, RaisedKind, string?, string?]
  const value = Number(number)
  return kind === 'value'
    ? { kind, value, issue: placeIssue(issues[value] as RefusedHere, position) }
    : { kind, value }
}

function placeIssue (refused: RefusedHere, position: string | undefined): RefusedHere {
  if (position === undefined) return refused
  const { issue } = refused
  return issue.problem === 'key'
    ? { ...refused, row: Number(position) }
    : { ...refused, issue: { ...issue, path: [...issue.path, Number(position)] } }
}

/** The operator of a condition of buildParsedCheck. */
const TYPE_OPERATOR = /^operator\(pg_catalog\.=\)\s+(?:pg_catalog\.array_fill\()?\(null::/

/** The operator of $append and $merge, as schemas/modifier.ts writes it. */
const JOIN_OPERATOR =
  /^operator\(pg_catalog\.\|\|\) \/\* (\$append|\$merge) \*\/ [a-z ]+ t\."((?:""|[^"])+)"/

/**
 * Recognises a type that is no longer the one that was read, and the failure of $append or $merge
 * for a column whose type does not have their operator, or can be cast to several types that have
 * it ("char").
 */
function readMissingOperator (error: DatabaseError): RaisedError | undefined {
  const text = textAtError(error)
  if (TYPE_OPERATOR.test(text)) return TYPES
  const found = JOIN_OPERATOR.exec(text)
  if (found === null) return undefined
  const [, problem, column = ''] = found
  const issue = { problem: problem as '$append' | '$merge', path: [] }
  return { kind: 'value', value: 0, issue: { column: column.replaceAll('""', '"'), issue } }
}
