/**
 * Finds the column that an error of PostgreSQL is about. PostgreSQL reports a position in the
 * statement, or the number of a parameter that it could not convert. Nothing is read from the
 * message, which depends on lc_messages.
 */
import { parameterAtError, type DatabaseError } from '../../errors/database-error.ts'

/** The members of an error that name a place in the statement. */
type PlacedError = Pick<DatabaseError, 'position' | 'where' | 'query'>

/** The text of the statement from the position of the error; '' without a position. */
export function textAtError ({ position, query = '' }: PlacedError): string {
  return position === undefined ? '' : query.slice(unitOf(query, Number(position) - 1))
}

/** Converts a position in characters, as PostgreSQL counts, to UTF-16 units. */
function unitOf (text: string, character: number): number {
  if (!/[\ud800-\udbff]/.test(text)) return character
  let unit = 0
  for (let i = 0; i < character; i++) {
    unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1
  }
  return unit
}

/**
 * A quoted column behind one of our aliases: of a table, new values, a row of NULLs, the output, or
 * a computed column that is called once.
 */
const COLUMN_AT_ERROR = new RegExp(
  String.raw`^\(*(?:\w+\((?:distinct )?\(*)?(?:(?:t\d*|x|n|o|c|excluded)\.)?` +
    String.raw`"((?:[^"]|"")+)"(?!\.)`
)

/**
 * The column at the position of the error, if its name is there: `t."sku"`, or in an aggregate
 * `sum(t."sku")`. In our statements all names of a request are quoted, and no alias is.
 */
export function columnAtError (error: PlacedError): string | undefined {
  return unquote(COLUMN_AT_ERROR.exec(textAtError(error))?.[1])
}

/** A column of the rows that later operations read; see sharedExpression. */
const SHARED_AT_ERROR = /^r\.row\)\."((?:[^"]|"")+)"/

/** The column at the position of the error that only later operations read. */
export function sharedAtError (error: PlacedError): string | undefined {
  return unquote(SHARED_AT_ERROR.exec(textAtError(error))?.[1])
}

/** What stands before a column of the table, of a row of NULLs, or in `on_conflict.index_where`. */
const BEFORE_COLUMN = /(?:\b(?:t\d*|n|o|c)\.|\bwhere |\band |\bor |\()$/

/** More characters than an alias and a word of SQL have. */
const MAX_CONTEXT = 16

/** The column that stands last before the error: the one that an operator compares or computes. */
export function columnBeforeError (error: PlacedError): string | undefined {
  const text = textBeforeError(error)
  // A value that `set` of `on_conflict` assigns has no type of its own on Citus.
  const column = findNames(text).findLast(({ start, end, isQualified }) =>
    !isQualified && (text.slice(end) === ' = ' ||
      BEFORE_COLUMN.test(text.slice(Math.max(0, start - MAX_CONTEXT), start)))
  )
  return unquote(column && text.slice(column.start + 1, column.end - 1))
}

/** A name in quotes, with its schema if there is one. */
interface QuotedName {
  readonly start: number
  readonly end: number
  readonly isQualified: boolean
}

/** A constant, E'…', or a name with its schema if it has one. A quote in a name is doubled. */
const QUOTED = /'[^'\\]*(?:\\.?[^'\\]*)*(?:'|$)|"(?:[^"]|"")*"((?:\."(?:[^"]|"")*")*)/gs

/** The names of a statement, found in one pass over it. */
function findNames (query: string): readonly QuotedName[] {
  return [...query.matchAll(QUOTED)]
    .filter(([text]) => text.startsWith('"'))
    .map(({ 0: text, 1: more, index }) =>
      ({ start: index, end: index + text.length, isQualified: more !== '' })
    )
}

function textBeforeError (error: PlacedError): string {
  const { position, query = '' } = error
  if (position !== undefined) return query.slice(0, unitOf(query, Number(position) - 1))
  const parameter = parameterAtError(error)
  return parameter === undefined
    ? ''
    : query.slice(0, query.search(new RegExp(`\\$${parameter}(?![0-9])`)))
}

function unquote (name: string | undefined): string | undefined {
  return name?.replaceAll('""', '"')
}
