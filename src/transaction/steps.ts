/**
 * The statements of one attempt, in the order in which they are sent.
 *
 *     claim of the idempotency key                     with a key
 *     session
 *     operation 1 … n                                  each followed by the session, if restored
 *     SET CONSTRAINTS ALL IMMEDIATE, login role,       with a key
 *     answers stored, session
 *     COMMIT AND CHAIN                                 in a dry run: SET CONSTRAINTS ALL IMMEDIATE,
 *                                                      ROLLBACK AND CHAIN
 */
import type { Statement } from '../sql/compile.ts'
import { claimStatement, releaseStatement, storeStatement, type Key } from '../sql/idempotency.ts'
import type { AttemptBatch, TransactionMode } from './compiled-batch.ts'
import type { Place } from './outcome.ts'

export interface Step {
  readonly statement: Statement
  readonly place: Place
  /**
   * The command tag that PostgreSQL returns on success. Such a statement is sent by the simple
   * protocol: with the extended one, 79 of 282 batches that failed while backends were terminated
   * had in fact committed.
   */
  readonly tag?: string
  /** The answer carries no information. */
  readonly ignoreAnswer?: boolean
}

/**
 * The end of a transaction: statements with the command tag of success. A COMMIT of a failed
 * transaction returns the tag ROLLBACK and no error. The tag of ROLLBACK shows nothing, but SET
 * CONSTRAINTS before it is refused in a failed transaction.
 */
const END = {
  commit: [['commit and chain', 'COMMIT']],
  rollback: [
    ['set constraints all immediate', 'SET CONSTRAINTS'],
    ['rollback and chain', 'ROLLBACK']
  ]
} as const satisfies Record<
  TransactionMode['tx'],
  ReadonlyArray<readonly [text: string, tag: string]>
>

const setEncoding = unprepared("select pg_catalog.set_config('client_encoding', 'UTF8', true)")

/** The steps of an attempt; `session` is the session statement for its connection. */
export function buildSteps (batch: AttemptBatch, session: Statement): readonly Step[] {
  const { comment = '' } = batch
  const steps = buildPlainSteps(batch, session)
  if (comment === '') return steps
  return steps.map(step => ({
    ...step,
    statement: { ...step.statement, text: step.statement.text + comment, prepare: false }
  }))
}

function buildPlainSteps (
  { operations, variant, key, mode }: AttemptBatch,
  session: Statement
): readonly Step[] {
  const restore = variant?.restoreSession === true ? restoreSteps(session) : []
  return [
    ...(key === undefined ? [] : [{ statement: claimStatement(key), place: 'key' } as const]),
    { statement: session, place: 'session' },
    ...operations.flatMap((
      statement,
      place
    ): readonly Step[] => [{ statement, place }, ...restore]),
    ...(key === undefined ? [] : storeSteps(key, operations.length, session)),
    ...END[mode.tx].map(([text, tag]): Step => ({
      statement: unprepared(text),
      place: 'commit',
      tag
    }))
  ]
}

/**
 * Sets the session again. Nothing is prepared, because what changes the session may also have
 * replaced a prepared statement. The encoding comes first: the parameters of the rest are read in
 * it.
 */
function restoreSteps (session: Statement): readonly Step[] {
  return [setEncoding, { ...session, prepare: false }].map((statement): Step => ({
    statement,
    place: 'session',
    ignoreAnswer: true
  }))
}

/**
 * Stores the results as the login role. Deferred constraints are checked before: until PostgreSQL
 * 17 their triggers run under the current role. The session is set again for triggers that are
 * deferred a second time, to COMMIT.
 */
function storeSteps (key: Key, operations: number, session: Statement): readonly Step[] {
  const [[text, tag]] = END.rollback
  return [
    { statement: unprepared(text), place: 'commit', tag },
    { statement: releaseStatement, place: 'key', ignoreAnswer: true },
    { statement: storeStatement(key, operations), place: 'key', ignoreAnswer: true },
    { statement: { ...session, prepare: false }, place: 'key', ignoreAnswer: true }
  ]
}

function unprepared (text: string): Statement {
  return { text, parameters: [], prepare: false }
}
