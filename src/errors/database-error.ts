/**
 * The fields we use of an ErrorResponse (protocol docs, "Error and Notice Message Fields").
 */
export interface DatabaseError {
  readonly code: string
  readonly message: string
  readonly severity?: string
  /** The severity in the language of the server. A pooler may send only this one, in English. */
  readonly severity_local?: string
  readonly routine?: string
  readonly detail?: string
  readonly hint?: string
  readonly constraint_name?: string
  /** Position in the text of the statement; missing for an error inside a function. */
  readonly position?: string
  /** Position in the text of a statement inside a function. */
  readonly internal_position?: string
  /** Context: the parameter that could not be converted, or the functions that were running. */
  readonly where?: string
  /** Text of the statement, added by attempt.ts. */
  readonly query?: string
}

/** The number of the parameter that could not be converted, from 1. */
export function parameterAtError ({ where = '' }: Partial<DatabaseError>): number | undefined {
  // The context of a parameter is one line: `unnamed portal parameter $1`, after one with the JSON
  // if that is malformed. That of a function has several lines or no `$`.
  const lines = where.split('\n')
  const isOfJson = lines.length === 2 && lines[0]?.includes('JSON') === true
  const context = isOfJson ? lines[1] as string : where
  const number = /^[^\n$]*\$([0-9]+)\b[^\n]*$/.exec(context)?.[1]
  return number === undefined ? undefined : Number(number)
}
