/**
 * Failures of ours that are raised in SQL, so that COMMIT never runs: a cast that cannot succeed,
 * with a marker in it that no request can know. They are recognised by this marker alone.
 */
import { randomUUID } from 'node:crypto'
import {
  constant,
  fixed,
  join,
  parameter,
  sharedParameter,
  sql,
  type Fragment
} from './fragment.ts'

const secret = `oneflight-${randomUUID()}`
const secretText = sql`${sharedParameter(`${secret}:`)}::pg_catalog.text`
const raised = new RegExp(`${secret}:([a-z]+):([0-9a-f]+)`)

/** As they stand in statements. */
const words = {
  rows: constant('rows:'),
  row: constant('row:'),
  column: constant('column:'),
  expect: constant('expect:'),
  lists: constant('lists:'),
  order: constant('order:'),
  session: constant('session:'),
  value: constant('value:'),
  busy: constant('busy:'),
  taken: constant('taken:')
}

/**
 * `rows`: more rows than allowed · `expect`: another number than expected · `row`: a row that is
 * referred to is missing · `lists`: too many lists are read of so many rows; the value is the
 * number of rows. `column`: one that is referred to is missing; the value is its position in the
 * publisher's list. `session`: it was changed, see sameSession. `order`: the order of inserted
 * rows is lost, see checkOrder. `inspect`: values have to be looked at more closely, `value`: one
 * does not fit, see inspect.ts. `busy`, `taken`: the idempotency key, see claimStatement.
 */
export type MarkerKind = keyof typeof words | 'inspect'

/** `value` is a number where the kind says so; `fault` says which value does not fit, and why. */
export interface Marker {
  readonly kind: MarkerKind
  readonly value: number
  readonly fault?: ValueFault
}

/**
 * A value that does not fit its column. `member`: the composite `type` has no such member ·
 * `list`: `type` takes one value, and this is an array or an object · `null`: `type` is neither
 * json nor jsonb, and the JSON null is meant · `$append`: the current value is not an array ·
 * `$merge`: the current value or the operand is not a jsonb object. `path`: the row in `values` (''
 * elsewhere), the column, and the way into the value.
 */
export interface ValueFault {
  readonly problem: 'member' | 'list' | 'null' | '$append' | '$merge'
  readonly path: readonly string[]
  readonly type?: string
}

/**
 * An expression of type text that fails with the marker when it is evaluated. `value` is an integer
 * expression that is no constant. By operators that no search_path can replace: who makes one that
 * fits better would switch the failure off.
 */
export function raise (kind: keyof typeof words, value: Fragment): Fragment {
  return sql`cast(cast(${secretText} operator(pg_catalog.||) ${
    words[kind]
  } operator(pg_catalog.||) cast(${value} as pg_catalog.text) as pg_catalog.int4)
    as pg_catalog.text)`
}

/**
 * The same with a text, the JSON of a `ValueFault`: in hexadecimal digits, so that no translation
 * of the message can end it.
 */
export function raiseText (kind: 'value', text: Fragment): Fragment {
  return raise(kind, sql`pg_catalog.encode(pg_catalog.convert_to(${text}, 'UTF8'), 'hex')`)
}

/** No such setting exists, and its name cannot be guessed. */
const missingSetting = `oneflight.inspect_${randomUUID().replaceAll('-', '')}`

/**
 * Fails with the marker `inspect`. It is part of statements that hardly ever fail, so it is one
 * function.
 */
export const raiseInspection: Fragment = sql`pg_catalog.current_setting(${
  sharedParameter(missingSetting)
})`

/** What every operation of a batch must find in its session. */
export interface SessionIdentity {
  readonly role: string
  readonly claims: string
}

/** Settings that decide how values are written, as the session of every batch has them. */
const formats = [
  ['client_encoding', 'UTF8'],
  ['TimeZone', 'UTC'],
  ['DateStyle', 'ISO, YMD'],
  ['IntervalStyle', 'postgres'],
  ['bytea_output', 'hex'],
  ['extra_float_digits', '1']
] as const

const isSet = ([name, value]: readonly [string, string]): Fragment =>
  sql`pg_catalog.current_setting(${constant(name)}) operator(pg_catalog.=) ${constant(value)}`
const both = sql` and `
const formatsAreSet = fixed(join(formats.map(isSet), both))
const readingIsSet = fixed(sql`${isSet(formats[0])} and ${isSet(formats[1])}`)
const setFormats = fixed(
  join(
    formats.map(([name, value]) =>
      sql`pg_catalog.set_config(${constant(name)}, ${constant(value)}, true) is not null`
    ),
    both
  )
)

/** Setting of a transaction with the search_path that its session was given. */
export const SEARCH_PATH = 'oneflight.search_path'

/**
 * What an operation checks of its session, for which a look at a setting costs about 1.3 us, two or
 * three percent of a plain operation. So not everything is looked at each time:
 * - Before every operation but the first, which follows the session scope: what must never be
 *   wrong, not even until a later trigger puts it right (the role, the claims), and what decides
 *   how most values are read (the encoding, the time zone).
 * - At the end of the last operation (`formatsKept`, `searchPathKept`): whatever else decides how
 *   values were read and written.
 */

/**
 * A condition that is true, or fails with the marker `session`: a trigger or function can have
 * taken another role, or changed the claims or how text and times are read. It contains no column,
 * so it is evaluated before any row is. Role and claims are compared with parameters, because
 * settings could be changed too, and everything is compared by operators that no search_path can
 * replace.
 */
export function sameSession ({ role, claims }: SessionIdentity): Fragment {
  const same = sql`pg_catalog.current_setting('role') operator(pg_catalog.=) ${parameter(role)}
    and pg_catalog.current_setting('request.jwt.claims') operator(pg_catalog.=) ${parameter(claims)}
    and ${readingIsSet}`
  return sql`case when ${same} then true
    else ${raise('session', sql`pg_catalog.pg_backend_pid()`)} is null end`
}

/** Whether values are still written as they have to be. */
export const formatsKept: Fragment = formatsAreSet

/** Whether the search_path is still the one of the session. */
export const searchPathKept: Fragment = fixed(
  sql`(pg_catalog.current_setting('search_path') operator(pg_catalog.=)
    pg_catalog.current_setting(${constant(SEARCH_PATH)}, true)) is true`
)

/**
 * A value, after the settings that decide how it is written were set again where they had changed.
 * The names of tables and functions in it depend on search_path, which stays as it is after
 * RESET ALL: that also forgets which one the session was given.
 */
export function writeAsSet (value: Fragment): Fragment {
  return sql`case when case when ${formatsAreSet} and ${searchPathKept} then true
    else ${setFormats} and ${setSearchPath} end then ${value} end`
}

const setSearchPath = fixed(sql`pg_catalog.set_config('search_path', coalesce(
  nullif(pg_catalog.current_setting(${constant(SEARCH_PATH)}, true), ''),
  pg_catalog.current_setting('search_path')), true) is not null`)

/** What is read of an error to find a marker. */
export interface MarkedError {
  readonly code: string
  readonly message: string
  /** Where in the text of the statement the error is, in characters from 1. */
  readonly position?: string
  /** The text of the statement; postgres.js adds it. */
  readonly query?: string
}

/** The marker in a PostgreSQL error, if it is one of ours. */
export function readMarker (error: MarkedError): Marker | undefined {
  if (error.code === '42883' || error.code === '42725') return readMissingOperator(error)
  if (error.code === '42704' && error.message.includes(missingSetting)) {
    return { kind: 'inspect', value: 0 }
  }
  const found = error.code === '22P02' ? raised.exec(error.message) : null
  if (found === null) return undefined
  const [, kind, text = ''] = found
  if (kind !== 'value') return { kind: kind as MarkerKind, value: Number(text) }
  return { kind, value: 0, fault: JSON.parse(Buffer.from(text, 'hex').toString()) as ValueFault }
}

/** The operator of $append and $merge, as modifier.ts writes it. */
const joining =
  /^operator\(pg_catalog\.\|\|\) \/\* (\$append|\$merge) \*\/ [a-z ]+ t\."((?:""|[^"])+)"/

/**
 * The type of a column that is computed by $append or $merge does not have their operator, or
 * ("char") could be cast to several that do.
 */
function readMissingOperator ({ position, query = '' }: MarkedError): Marker | undefined {
  if (position === undefined) return undefined
  // Characters of PostgreSQL, some of which are two of JavaScript.
  const found = joining.exec([...query].slice(Number(position) - 1).join(''))
  if (found === null) return undefined
  const [, problem, column = ''] = found
  const path = ['', column.replaceAll('""', '"')]
  return { kind: 'value', value: 0, fault: { problem: problem as '$append' | '$merge', path } }
}
