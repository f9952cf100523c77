/**
 * Failures of ours that are raised in SQL, so that COMMIT never runs: a cast that cannot succeed, with a marker in it that
 * no request can know. They are recognised by this marker alone.
 */
import { randomUUID } from 'node:crypto'
import { constant, parameter, sharedParameter, sql, type Fragment } from './fragment.ts'

const secret = `oneflight-${randomUUID()}`
const secretText = sql`${sharedParameter(`${secret}:`)}::pg_catalog.text`
const raised = new RegExp(`${secret}:([a-z]+):(\\d+)`)

/** As they stand in statements. */
const words = {
  rows: constant('rows:'),
  row: constant('row:'),
  column: constant('column:'),
  expect: constant('expect:'),
  lists: constant('lists:'),
  session: constant('session:'),
  busy: constant('busy:'),
  taken: constant('taken:')
}

/**
 * `rows`: more rows than allowed · `expect`: another number than expected · `row`: a row that is referred to is missing · `lists`: too many lists are
 * read of so many rows; the value is the number of rows. `column`: one that is referred to is missing; the value is its position in the
 * publisher's list. `session`: it was changed, see sameSession. `busy`, `taken`: the idempotency key, see claimStatement. The values of these mean nothing.
 */
export type MarkerKind = keyof typeof words
export interface Marker { readonly kind: MarkerKind, readonly value: number }

/**
 * An expression of type text that fails with the marker when it is evaluated. `value` is an integer expression that is no constant. By operators that no
 * search_path can replace: who makes one that fits better would switch the failure off.
 */
export function raise (kind: MarkerKind, value: Fragment): Fragment {
  return sql`cast(cast(${secretText} operator(pg_catalog.||) ${words[kind]} operator(pg_catalog.||) cast(${value} as pg_catalog.text) as pg_catalog.int4) as pg_catalog.text)`
}

/** What every operation of a batch must find in its session. */
export interface Bearings { readonly role: string, readonly claims: string }

/**
 * A condition that is true, or fails with the marker `session`: a trigger or function can have taken another role, or changed the claims or how text
 * and numbers are written. No column stands in it, so it is looked at before any row is. Role and claims are held against parameters, for settings
 * could be changed along, and all of it by operators that no search_path can replace.
 */
export function sameSession ({ role, claims }: Bearings): Fragment {
  const same = sql`pg_catalog.current_setting('role') operator(pg_catalog.=) ${parameter(role)}
    and pg_catalog.current_setting('request.jwt.claims') operator(pg_catalog.=) ${parameter(claims)}
    and pg_catalog.current_setting('client_encoding') operator(pg_catalog.=) 'UTF8'
    and pg_catalog.current_setting('extra_float_digits') operator(pg_catalog.=) '1'`
  return sql`case when ${same} then true else ${raise('session', sql`pg_backend_pid()`)} is null end`
}

/** The marker in the message of a PostgreSQL error, if it is one of ours. */
export function readMarker (error: { readonly code: string, readonly message: string }): Marker | undefined {
  const found = error.code === '22P02' ? raised.exec(error.message) : null
  return found === null ? undefined : { kind: found[1] as MarkerKind, value: Number(found[2]) }
}
