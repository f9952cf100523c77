/**
 * SQLSTATEs by PostgreSQL's condition names.
 */
import { conditions, type ConditionName } from './conditions.ts'

/** SQLSTATE by condition name. Of several with the same name, it is the first. */
export const SqlState = Object.fromEntries(
  [...conditions].reverse().map(([code, name]) => [name, code])
) as Readonly<Record<ConditionName, string>>

/** The class of an SQLSTATE, as the SQLSTATE of its general condition: `22000` for `22P02`. */
export function classOf (sqlstate: string): string {
  return `${sqlstate.slice(0, 2)}000`
}

/** The table, or the schema it is in, does not exist. */
export function isUndefinedTable (sqlstate: string): boolean {
  return sqlstate === SqlState.undefined_table || sqlstate === SqlState.invalid_schema_name
}

/**
 * A value does not fit its type: class 22, or the syntax error of a full text query. The message
 * of such an error quotes the value.
 */
export function isValueError (sqlstate: string): boolean {
  return classOf(sqlstate) === SqlState.data_exception || sqlstate === SqlState.syntax_error
}
