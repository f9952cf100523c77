/**
 * Raises our own failures in SQL, so that the transaction cannot commit, and recognises them. The
 * SQL reads a setting that does not exist, or casts a text that is not a number. The name or the
 * text contains a secret of this process.
 */
import { randomBytes, randomUUID } from 'node:crypto'
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

const SECRET = `oneflight-${randomUUID()}`
const RAISED = new RegExp(`${SECRET}:([a-z]+):([0-9a-f]+)`)
const secretText = sql`${sharedParameter(`${SECRET}:`)}::pg_catalog.text`

/** The kinds with a number or a text. */
type NumberKind =
  'row' | 'column' | 'absent' | 'expect' | 'lists' | 'value' | 'duplicate' | 'session'

const SETTING_KINDS = [
  'rows',
  'order',
  'reset',
  'ambiguous',
  'function',
  'types',
  'refused',
  'busy',
  'taken'
] as const
type SettingKind = typeof SETTING_KINDS[number]

/** The other kinds, as settings that do not exist. Their names cannot be guessed. */
const SETTINGS: ReadonlyMap<SettingKind, string> = new Map(
  SETTING_KINDS.map(kind => [kind, `oneflight.${kind}_${randomBytes(10).toString('hex')}`])
)

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
export type RaisedKind = NumberKind | SettingKind | 'bytes' | 'missing'

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

/**
 * An expression of type text that fails when it is evaluated. It is a single function call: many
 * statements contain it, few fail, and PostgreSQL prepares each call at every execution.
 */
export function raise (kind: SettingKind | 'bytes'): Fragment {
  return raised.get(kind) as Fragment
}

const names = new Map([...SETTINGS].map(([kind, name]) => [kind, sharedParameter(name)]))

/**
 * The end of the setting for `bytes`. Its name begins with that for `rows`, so it needs no
 * parameter of its own.
 */
const BYTES = '_bytes'

const raised: ReadonlyMap<SettingKind | 'bytes', Fragment> = new Map([
  ...[...names].map(([kind, name]) =>
    [kind, sql`pg_catalog.current_setting(${name})`] as const
  ),
  ['bytes', sql`pg_catalog.current_setting(
    ${names.get('rows') as Fragment}::pg_catalog.text operator(pg_catalog.||) ${constant(BYTES)})`]
])

/** The beginning of a setting that does not exist. */
const MISSING = `oneflight.missing_${randomBytes(10).toString('hex')}_`

/** Raises `missing` for an operation, in the same text for each. See raise. */
export function raiseMissing (source: number): Fragment {
  return sql`pg_catalog.current_setting(${sharedParameter(`${MISSING}${source}`)})`
}

/**
 * Raises a failure with a number. `value` is an integer expression; it must not be a constant,
 * which PostgreSQL would evaluate during planning. The operators name their schema: with a
 * search_path, a user could create an operator that fits better and disables the failure.
 */
export function raiseNumber (kind: NumberKind, value: Fragment): Fragment {
  return sql`cast(cast(${secretText} operator(pg_catalog.||) ${
    constant(`${kind}:`)
  } operator(pg_catalog.||) cast(${value} as pg_catalog.text) as pg_catalog.int4)
    as pg_catalog.text)`
}

/**
 * Raises a failure with a text, the JSON of a `ValueIssue`. It is encoded in hexadecimal digits, so
 * no translation of the error message can cut it.
 */
export function raiseText (kind: 'value', text: Fragment): Fragment {
  return raiseNumber(kind, sql`pg_catalog.encode(pg_catalog.convert_to(${text}, 'UTF8'), 'hex')`)
}

/** Raises an issue that is known when the statement is compiled. */
export function raiseIssue (issue: ValueIssue): Fragment {
  return raiseText('value', parameter(JSON.stringify(issue)))
}

const SECRETS: ReadonlySet<unknown> = new Set([`${SECRET}:`, ...SETTINGS.values()])

/** Replaces the secrets of raised errors among the parameters of a statement that a client sees. */
export function hideSecrets (
  { text, parameters }: RenderedSql<string | null | Slot>
): RenderedSql<string | null | Slot> {
  return {
    text,
    parameters: parameters.map(value => SECRETS.has(value) ? 'oneflight.check' : value)
  }
}

/**
 * Returns the raised error in an error of PostgreSQL; undefined if the service did not raise it.
 */
export function readRaised (error: DatabaseError): RaisedError | undefined {
  if (error.code === '42883' || error.code === '42725') return readMissingOperator(error)
  if (error.code === '42704') return readMissingSetting(error)
  if (error.code === '42804') return readOtherLimit(error)
  const found = error.code === '22P02' ? RAISED.exec(error.message) : null
  if (found === null) return undefined
  const [, kind, text = ''] = found
  if (kind !== 'value') return { kind: kind as RaisedKind, value: Number(text) }
  return { kind, value: 0, issue: JSON.parse(Buffer.from(text, 'hex').toString()) as ValueIssue }
}

/** A condition of compareLimits, and not a function that fails in the same way. */
function readOtherLimit ({ routine, where }: DatabaseError): RaisedError | undefined {
  const isOurs = routine === 'analyzeCTE' && where === undefined
  return isOurs ? { kind: 'types', value: 0 } : undefined
}

function readMissingSetting ({ message, routine }: DatabaseError): RaisedError | undefined {
  // A condition of buildParsedCheck: an array has no array type.
  if (routine === 'enforce_generic_type_consistency') return { kind: 'types', value: 0 }
  const [, source] = message.split(MISSING)
  if (source !== undefined) return { kind: 'missing', value: Number.parseInt(source) }
  const found = [...SETTINGS].find(([, name]) => message.includes(name))
  if (found === undefined) return undefined
  const [kind, name] = found
  return { kind: message.includes(name + BYTES) ? 'bytes' : kind, value: 0 }
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
  if (TYPE_OPERATOR.test(text)) return { kind: 'types', value: 0 }
  const found = JOIN_OPERATOR.exec(text)
  if (found === null) return undefined
  const [, problem, column = ''] = found
  const path = ['', column.replaceAll('""', '"')]
  return { kind: 'value', value: 0, issue: { problem: problem as '$append' | '$merge', path } }
}
