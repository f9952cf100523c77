/**
 * The SQLSTATEs that the service acts on, by PostgreSQL's condition name. conditions.ts maps every
 * code to its name; a test compares the two.
 */

/** SQLSTATE by condition name: only the ones in use. */
export const SqlState = {
  admin_shutdown: '57P01',
  ambiguous_column: '42702',
  ambiguous_function: '42725',
  cannot_coerce: '42846',
  cannot_connect_now: '57P03',
  character_not_in_repertoire: '22021',
  check_violation: '23514',
  configuration_limit_exceeded: '53400',
  connection_failure: '08006',
  crash_shutdown: '57P02',
  datatype_mismatch: '42804',
  datetime_field_overflow: '22008',
  deadlock_detected: '40P01',
  exclusion_violation: '23P01',
  feature_not_supported: '0A000',
  foreign_key_violation: '23503',
  grouping_error: '42803',
  insufficient_privilege: '42501',
  internal_error: 'XX000',
  io_error: '58030',
  invalid_datetime_format: '22007',
  invalid_parameter_value: '22023',
  invalid_schema_name: '3F000',
  duplicate_prepared_statement: '42P05',
  invalid_sql_statement_name: '26000',
  invalid_text_representation: '22P02',
  lock_not_available: '55P03',
  null_value_not_allowed: '22004',
  not_null_violation: '23502',
  object_not_in_prerequisite_state: '55000',
  program_limit_exceeded: '54000',
  query_canceled: '57014',
  read_only_sql_transaction: '25006',
  restrict_violation: '23001',
  serialization_failure: '40001',
  syntax_error: '42601',
  undefined_column: '42703',
  undefined_function: '42883',
  undefined_object: '42704',
  undefined_table: '42P01',
  unique_violation: '23505',
  untranslatable_character: '22P05'
} as const

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
