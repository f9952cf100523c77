/**
 * Finds the column that an error of PostgreSQL is about. PostgreSQL reports a position in the
 * statement, or the number of a parameter that it could not convert. Nothing is read from the
 * message, which depends on lc_messages.
 */

/** The members of a PostgreSQL error that name a place in the statement. */
export interface PlacedError {
  /** The position of the error in the statement, in characters from 1. */
  readonly position?: string
  /** The context: `unnamed portal parameter $1 = '...'`, or the functions that were running. */
  readonly where?: string
  /** The text of the statement, added by attempt.ts. */
  readonly query?: string
}

/** The text of the statement from the position of the error; '' without a position. */
export function textAtError ({ position, query = '' }: PlacedError): string {
  // PostgreSQL counts characters; some of them are two UTF-16 units.
  return position === undefined ? '' : [...query].slice(Number(position) - 1).join('')
}

/** The aliases of a table, of its new values, of a row of NULLs and of the output. */
const COLUMN_AT_ERROR = new RegExp(
  String.raw`^\(*(?:\w+\((?:distinct )?\(*)?(?:(?:t\d*|x|n|o|excluded)\.)?` +
    String.raw`"((?:[^"]|"")+)"(?!\.)`
)

/**
 * The column at the position of the error, if its name is there: `t."sku"`, or in an aggregate
 * `sum(t."sku")`. In our statements all names of a request are quoted, and no alias is.
 */
export function columnAtError (error: PlacedError): string | undefined {
  return unquote(COLUMN_AT_ERROR.exec(textAtError(error))?.[1])
}

/**
 * The table, as SQL, of the column at the position of the error; undefined for the table of the
 * operation. Other tables have numbered aliases.
 */
export function tableAtError (error: PlacedError): string | undefined {
  const alias = /^\(*(?:\w+\()?(t\d+)\./.exec(textAtError(error))?.[1]
  if (alias === undefined) return undefined
  const named = new RegExp(`("(?:[^"]|"")+"\\."(?:[^"]|"")+") as ${alias}\\b`)
  return named.exec(error.query as string)?.[1]
}

/** The last column of the table, of a row of NULLs, or in `on_conflict.index_where`. */
const COLUMN_BEFORE_ERROR = /.*(?:\b(?:t\d*|n|o)\.|\bwhere |\band |\bor |\()"((?:[^"]|"")+)"(?!\.)/s

/** The column that stands last before the error: the one that an operator compares or computes. */
export function columnBeforeError (error: PlacedError): string | undefined {
  return unquote(COLUMN_BEFORE_ERROR.exec(textBeforeError(error))?.[1])
}

function textBeforeError ({ position, where = '', query = '' }: PlacedError): string {
  if (position !== undefined) return [...query].slice(0, Number(position) - 1).join('')
  // The context of a function has several lines or no `$`.
  const parameter = /^[^\n]*(\$[0-9]+)\b[^\n]*$/.exec(where)?.[1]
  return parameter === undefined
    ? ''
    : query.slice(0, query.search(new RegExp(`\\${parameter}(?![0-9])`)))
}

function unquote (name: string | undefined): string | undefined {
  return name?.replaceAll('""', '"')
}
