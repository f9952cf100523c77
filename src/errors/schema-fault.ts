/**
 * Tells faults of the schema from mistakes of a request. A function, trigger or policy that names
 * what does not exist fails with the same SQLSTATE as a request that does.
 */
import { parameterAtError, type DatabaseError } from './database-error.ts'
import { classOf, SqlState } from './sqlstates.ts'

/**
 * Whether code of the database is faulty: it cannot be parsed or planned, reads a record that has
 * no value, or calls itself without end. What it raises by RAISE is a message to the client.
 */
export function isSchemaFault (error: DatabaseError): boolean {
  const { code, routine } = error
  if (routine === 'exec_stmt_raise') return false
  // Policies and views that read themselves. They are part of the statement, without a context.
  if (code === SqlState.invalid_object_definition) return true
  return isFaulty(code) && isInsideFunction(error)
}

function isFaulty (code: string): boolean {
  return codes.has(code) ||
    (classOf(code) === SqlState.syntax_error_or_access_rule_violation &&
      code !== SqlState.insufficient_privilege)
}

const codes: ReadonlySet<string> = new Set([
  SqlState.invalid_schema_name,
  SqlState.object_not_in_prerequisite_state,
  SqlState.statement_too_complex
])

/**
 * Whether the error has the context of a function. A parameter has one, too, and what Citus passes
 * on from a worker.
 */
function isInsideFunction (error: DatabaseError): boolean {
  const { position, internal_position: internal, where, routine } = error
  if (internal !== undefined) return true
  return position === undefined && where !== undefined && routine !== 'ReportResultError' &&
    parameterAtError(error) === undefined
}

/**
 * The function in which an error was raised, as the context names it in every language:
 * `name(types)` for PL/pgSQL, `name` for SQL. Texts of statements are skipped: they may contain
 * values.
 */
export function findFunction ({ where = '' }: DatabaseError): string | undefined {
  for (const line of where.slice(0, MAX_CONTEXT).split('\n')) {
    const signature = line.includes('PL/pgSQL') ? SIGNATURE.exec(line)?.[0] : undefined
    const name = signature ?? QUOTED_NAME.exec(line)?.[1]
    if (name !== undefined) return name
  }
  return undefined
}

/** The context of a recursion has thousands of lines. */
const MAX_CONTEXT = 10_000

const NAME = String.raw`(?:[\p{L}_][\p{L}\p{N}_$]{0,62}|"[^"]{1,126}")`

const SIGNATURE = new RegExp(String.raw`(?<![\p{L}\p{N}_$".])(?:${NAME}\.)?${NAME}\([^()]*\)`, 'u')

/** A statement contains spaces, or ends with its quote. */
const QUOTED_NAME = /["«»„“‘「]\s?([^\s"«»„“”‘’「」();']{1,63})\s?["«»“”’」](?!$)/
