/**
 * SQLSTATEs by PostgreSQL's condition names, and their classes.
 */
import { conditions, type ConditionName } from './conditions.ts'

/** SQLSTATE by condition name. Of several with the same name, it is the first. */
export const SqlState = Object.fromEntries(
  [...conditions].reverse().map(([code, name]) => [name, code])
) as Readonly<Record<ConditionName, string>>

/** The first two characters of an SQLSTATE, by the name of the class. */
export const SqlStateClass = {
  cardinality_violation: '21',
  connection_exception: '08',
  data_exception: '22',
  feature_not_supported: '0A',
  insufficient_resources: '53',
  invalid_authorization_specification: '28',
  invalid_grantor: '0L',
  invalid_role_specification: '0P',
  plpgsql_error: 'P0',
  program_limit_exceeded: '54',
  syntax_error_or_access_rule_violation: '42',
  with_check_option_violation: '44'
} as const

/** The class of an SQLSTATE: `22` for `22P02`. */
export function classOf (sqlstate: string): string {
  return sqlstate.slice(0, 2)
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
  return classOf(sqlstate) === SqlStateClass.data_exception || sqlstate === SqlState.syntax_error
}
