/**
 * Names of the transaction settings in which operations leave data for later statements.
 */
import { randomUUID } from 'node:crypto'
import {
  constant,
  empty,
  fixed,
  join,
  parameter,
  sql,
  type Fragment
} from '../../fragment/fragment.ts'
import { raise } from './raised-error.ts'

const ANSWER = `oneflight.answer_${randomUUID().replaceAll('-', '')}`

/**
 * The setting that holds a shared result of operation `index`; `position` is its position among
 * those of the operation. The name has the index and not the id: setting names ignore case and
 * operation ids do not.
 */
export function sharedSetting (index: number, position: number): string {
  return `oneflight.r${index}_${position}`
}

/** The setting that holds the number of rows of operation `index`. */
export function countSetting (index: number): string {
  return `oneflight.c${index}`
}

/** The setting that lists which shared values of operation `index` are the JSON null. */
export function jsonNullsSetting (index: number | ''): string {
  return `oneflight.n${index}`
}

/**
 * The setting that holds the result of operation `index` until it is stored with the idempotency
 * key of its batch. Its name cannot be guessed.
 */
export function answerSetting (index: number): string {
  return `${ANSWER}_${index}`
}

// Checks that the session of a batch is unchanged. A look at a setting costs about 1.3 us, two or
// three percent of a simple operation, so not every setting is checked each time:
// - Before every operation but the first: the role and the claims, which must never be wrong, and
// the settings that control how most values are read (encoding, time zone, search_path, NULL in
// arrays).
// - At the end of the last operation: all settings that control how values are written
// (`formatsUnchanged`).

/** The role and the claims that every operation of a batch must run with. */
export interface SessionIdentity {
  readonly role: string
  readonly claims: string
}

/** Selects run in the transaction on workers; see citus.ts. */
const selectsInTransaction =
  sql` and pg_catalog.current_setting('citus.select_opens_transaction_block')
    operator(pg_catalog.=) 'on'`

/** Settings that control the text form of values, with their value in every batch. */
const FORMATS = [
  ['client_encoding', 'UTF8'],
  ['TimeZone', 'UTC'],
  ['DateStyle', 'ISO, YMD'],
  ['IntervalStyle', 'postgres'],
  ['bytea_output', 'hex'],
  ['extra_float_digits', '1']
] as const

const AND = sql` and `
const isSet = ([name, value]: readonly [string, string]): Fragment =>
  sql`pg_catalog.current_setting(${constant(name)}) operator(pg_catalog.=) ${constant(value)}`
const inputFormatsAreSet = fixed(
  join([FORMATS[0], FORMATS[1], ['array_nulls', 'on'] as const].map(isSet), AND)
)
const setFormats = fixed(
  join(
    FORMATS.map(([name, value]) =>
      sql`pg_catalog.set_config(${constant(name)}, ${constant(value)}, true) is not null`
    ),
    AND
  )
)

/** The transaction setting that holds the search_path of the batch. */
export const SEARCH_PATH = 'oneflight.search_path'

/** A condition: the search_path is still that of the batch. */
const searchPathUnchanged: Fragment = fixed(
  sql`(pg_catalog.current_setting('search_path') operator(pg_catalog.=)
    pg_catalog.current_setting(${constant(SEARCH_PATH)}, true)) is true`
)

/**
 * A condition that is true, or raises `session`: a trigger or function has changed
 * the role, the claims, or how text and times are read. It contains no column, so PostgreSQL
 * evaluates it before it reads any row. Role and claims are parameters, because a function could
 * also change settings that hold them. The operators name their schema, so no search_path can
 * replace them.
 */
export function sessionUnchanged (
  { role, claims }: SessionIdentity,
  { distributed }: { readonly distributed: boolean }
): Fragment {
  const same = sql`pg_catalog.current_setting('role') operator(pg_catalog.=) ${parameter(role)}
    and pg_catalog.current_setting('request.jwt.claims') operator(pg_catalog.=) ${parameter(claims)}
    and ${inputFormatsAreSet} and ${searchPathUnchanged}${
      distributed ? selectsInTransaction : empty
    }`
  return sql`case when ${same} then true
    else ${raise('session')} is null end`
}

/** A condition: values still have the text form of the batch. */
export const formatsUnchanged: Fragment = fixed(join(FORMATS.map(isSet), AND))

const setSearchPath = fixed(sql`pg_catalog.set_config('search_path', coalesce(
  nullif(pg_catalog.current_setting(${constant(SEARCH_PATH)}, true), ''),
  pg_catalog.current_setting('search_path')), true) is not null`)

/**
 * A value that is written with the formats of the batch: sets them again first if they have
 * changed. The names of tables and functions in a value depend on search_path. After RESET ALL it
 * stays as it is, because RESET ALL also removes the setting that holds the one of the batch.
 */
export function withSessionFormats (value: Fragment): Fragment {
  return sql`case when case when ${formatsUnchanged} and ${searchPathUnchanged} then true
    else ${setFormats} and ${setSearchPath} end then ${value} end`
}
