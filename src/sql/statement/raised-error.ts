/**
 * Raises our own failures in SQL, so that the transaction cannot commit, and recognises them. The
 * SQL reads a setting that does not exist. Its name contains a secret of this process, the kind of
 * the failure, and perhaps a number.
 */
import { randomBytes } from 'node:crypto'
import type { DatabaseError } from '../../errors/database-error.ts'
import {
  constant,
  parameter,
  sharedParameter,
  sql,
  type Fragment,
  type RenderedSql,
  type Slot
} from '../../fragment/fragment.ts'
import type { ValuePath } from '../../plan/nodes.ts'
import { textAtError } from './error-place.ts'

/** The beginning of the names, which cannot be guessed. */
const PREFIX = `oneflight.${randomBytes(10).toString('hex')}_`

/** A name; see raiseBytes. */
const RAISED = new RegExp(`${PREFIX}(?:rows_)?([a-z]+)(?::([0-9a-f]+))?`)

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
 * - `value`: a value does not fit its type; see ValueIssue
 * - `ambiguous`: several rows match where one is required
 * - `duplicate`: several rows of `values` have the same key; the value is the position of one
 * - `function`: a function was replaced since the types of its parameters were read
 * - `types`: the type of a column has changed since it was read
 * - `refused`: the batch is refused; see refuseStatement
 * - `busy`, `taken`: the idempotency key is in use or was used; see claimStatement
 */
export type RaisedKind = PlainKind | NumberKind | 'bytes' | 'value'

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

export interface RaisedError {
  readonly kind: RaisedKind
  /** A number, for kinds that have one. */
  readonly value: number
  /** For `value`: the value that does not fit, and the reason. */
  readonly issue?: ValueIssue
}

/** A value that does not fit its column. */
export interface ValueIssue {
  /**
   * - `list`: `type` takes one value, and this is an array or an object
   * - `array`: `type` takes an array, and this is an object, a number or a boolean
   * - `json`: `type` is a composite, and this is an array or an object
   * - `dimension`: this is the first element of an array of JSON, and a list; see WriteProblem
   * - `type`: the type of this parameter of a function is not known
   * - `null`: this is the JSON null, and `type` is neither json nor jsonb
   * - `key`: this is NULL, and a part of a key
   * - `$append`: the current value is not an array
   * - `$merge`: the current value or the operand is not a jsonb object
   */
  readonly problem:
    | 'list'
    | 'array'
    | 'json'
    | 'dimension'
    | 'type'
    | 'null'
    | 'key'
    | '$append'
    | '$merge'
  /** It is the operand of a condition, or a key. */
  readonly isCompared?: boolean | undefined
  /** The path of the operand of a condition in its operation. */
  readonly at?: ValuePath | null | undefined
  /** The row in `values` (or ''), the column, and the path into the value. */
  readonly path: readonly string[]
  readonly type?: string
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

/** Raises a failure with a number, an expression. */
export function raiseNumber (kind: NumberKind, value: Fragment): Fragment {
  return raiseText(kind, sql`cast(${value} as pg_catalog.text)`)
}

/**
 * Raises `value`. The issue is given, or is an expression with its JSON as text. It is encoded in
 * hexadecimal digits, so no translation of the error message can cut it.
 */
export function raiseIssue (issue: ValueIssue | Fragment): Fragment {
  if (!('problem' in issue)) {
    return raiseText(
      'value',
      sql`pg_catalog.encode(pg_catalog.convert_to(${issue}, 'UTF8'), 'hex')`
    )
  }
  const digits = Buffer.from(JSON.stringify(issue)).toString('hex')
  return readSetting(parameter(`${PREFIX}value:${digits}`))
}

/**
 * The operators name their schema: with a search_path, a user could create an operator that fits
 * better and disables the failure.
 */
function raiseText (kind: NumberKind | 'value', text: Fragment): Fragment {
  return readSetting(sql`${nameOf('')}::pg_catalog.text operator(pg_catalog.||) ${
    constant(`${kind}:`)
  } operator(pg_catalog.||) ${text}`)
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
 */
export function readRaised (error: DatabaseError): RaisedError | undefined {
  const { code, message, routine, where } = error
  if (code === '42883' || code === '42725') return readMissingOperator(error)
  // A condition of compareLimits, and not a function that fails in the same way.
  if (code === '42804') return routine === 'analyzeCTE' && where === undefined ? TYPES : undefined
  if (code !== '42704') return undefined
  // A condition of buildParsedCheck: an array has no array type.
  if (routine === 'enforce_generic_type_consistency') return TYPES
  const found = RAISED.exec(message)
  if (found === null) return undefined
  const [, kind, text = ''] = found as unknown as [string, RaisedKind, string?]
  return kind === 'value'
    ? { kind, value: 0, issue: JSON.parse(Buffer.from(text, 'hex').toString()) as ValueIssue }
    : { kind, value: Number(text) }
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
  const path = ['', column.replaceAll('""', '"')]
  return { kind: 'value', value: 0, issue: { problem: problem as '$append' | '$merge', path } }
}
