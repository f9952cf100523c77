/**
 * The role of a transaction, held against the one it began with: a trigger or function can take another, and later operations of
 * the batch would run under it.
 */
import { constant, sql, type Fragment } from './fragment.ts'
import { raise } from './marker.ts'

/** Name of the setting that keeps the role that the transaction began with. */
export const roleSetting = 'oneflight.role'

/** A condition that is true, or fails with the marker `role`. No column stands in it, so it is looked at before anything else of its statement. */
export function sameRole (): Fragment {
  return sql`case when current_setting('role') = current_setting(${constant(roleSetting)}) then true else ${raise('role', sql`pg_backend_pid()`)} is null end`
}
