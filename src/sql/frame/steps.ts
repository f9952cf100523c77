/**
 * The statements of one attempt, in the order in which they are sent:
 *
 *     BEGIN                                            unless sql.begin has sent it
 *     claim of the idempotency key                     with a key; on Citus also two_phase_commit
 *     settings of workers                              on Citus
 *     session
 *     operation 1 … n                                  each followed by the session, if restored
 *     SET CONSTRAINTS ALL IMMEDIATE                    with a key, and in a dry run
 *     login role, answers stored, role                 with a key
 *     COMMIT AND CHAIN                                 in a dry run: ROLLBACK AND CHAIN
 *     reset of the connection, COMMIT
 *
 * With a key, an attempt that restores the session waits for its results before it stores them:
 * RESET ALL removes the settings in which operations keep them.
 */
import { renderTraceparent, type Trace } from '../../../schemas/http.ts'
import { identifier } from '../../fragment/fragment.ts'
import type { ConnectionFacts, FunctionCall } from '../../postgres/facts.ts'
import type { Statement } from '../statement/statement.ts'
import type { AttemptBatch, TransactionMode } from './compiled-batch.ts'
import {
  claimStatement,
  loginRoleStatement,
  storeKeptStatement,
  storeReceivedStatement,
  twoPhaseStatement,
  type Key
} from './idempotency.ts'
import { setRoleStatement } from './session.ts'

/**
 * What a statement belongs to: the index of an operation; `session`: BEGIN or the session before
 * the operations; `commit`: the end after them; `key`: a statement about the idempotency key.
 */
export type Place = number | 'session' | 'commit' | 'key'

export interface Step {
  readonly statement: Statement
  readonly place: Place
  /** What its answer means; undefined: only whether it succeeded counts. */
  readonly answer?: 'begin' | 'claim' | 'session' | 'operation'
}

/**
 * The end of a transaction and its command tag on success. It goes by the simple protocol: with the
 * extended one, 79 of 282 batches that failed while backends were terminated had in fact committed.
 * A COMMIT of a failed transaction returns the tag ROLLBACK and no error. AND CHAIN keeps a
 * pooler from giving the connection to another client before it is reset.
 */
export const END = {
  commit: { text: 'commit and chain', tag: 'COMMIT' },
  rollback: { text: 'rollback and chain', tag: 'ROLLBACK' }
} as const satisfies Record<TransactionMode['tx'], object>

const checkConstraints = unprepared('set constraints all immediate')
const setEncoding = unprepared("select pg_catalog.set_config('client_encoding', 'UTF8', true)")

/** The options of BEGIN. All are explicit: a trigger may have changed default_transaction_*. */
export function beginOptions ({ isolation, access }: TransactionMode): string {
  return `isolation level ${isolation} ${access} not deferrable`.replaceAll('-', ' ')
}

/** Whether the results of the operations must be received before they are stored. */
export function storesReceived ({ key, variant }: AttemptBatch): boolean {
  return key !== undefined && variant?.restoreSession === true
}

/** Returns the steps before the end, or before `buildReceivedSteps`. `begin`: with BEGIN. */
export function buildSteps (
  batch: AttemptBatch,
  connection: ConnectionFacts,
  begin: boolean
): readonly Step[] {
  const beginning = { text: `begin ${beginOptions(batch.mode)}`, parameters: [], prepare: true }
  return addComment(batch, [
    ...begin ? [{ statement: beginning, place: 'session', answer: 'begin' } as const] : [],
    ...buildBatchSteps(batch, connection)
  ])
}

/** Returns the steps that store received results, for `storesReceived`. */
export function buildReceivedSteps (
  batch: AttemptBatch,
  results: readonly Buffer[]
): readonly Step[] {
  const store = storeReceivedStatement(batch.key as Key, results)
  return addComment(batch, [
    { statement: setEncoding, place: 'key' },
    ...storeSteps(store, batch)
  ])
}

function addComment ({ comment = '' }: AttemptBatch, steps: readonly Step[]): readonly Step[] {
  if (comment === '') return steps
  return steps.map(step => ({
    ...step,
    statement: { ...step.statement, text: step.statement.text + comment, prepare: false }
  }))
}

/**
 * Returns the statement that sets the session again. Without the facts of the server, it relies on
 * nothing that was set before.
 */
function sessionAgain ({ session }: AttemptBatch, connection: ConnectionFacts): Statement {
  return { ...session({ ...connection, server: undefined }), prepare: false }
}

function buildBatchSteps (
  batch: AttemptBatch,
  connection: ConnectionFacts
): readonly Step[] {
  const { session, workerSession, variant, key, mode, count } = batch
  const onWorkers = workerSession?.(connection) ?? []
  const restore = variant?.restoreSession === true
    ? restoreSteps([...onWorkers, sessionAgain(batch, connection)])
    : []
  return [
    ...key === undefined
      ? []
      : [
          {
            statement: claimStatement(key, { serializable: mode.isolation === 'serializable' }),
            place: 'key',
            answer: 'claim'
          } as const,
          ...workerSession === undefined
            ? []
            : [{ statement: twoPhaseStatement, place: 'key' } as const]
        ],
    // Before the session, because it writes search_path in another way.
    ...onWorkers.map(statement => ({ statement, place: 'session' }) as const),
    { statement: session(connection), place: 'session', answer: 'session' },
    ...batch.operations().flatMap((statement, place): readonly Step[] => [
      { statement, place, answer: 'operation' },
      ...restore
    ]),
    ...key === undefined && mode.tx === 'commit'
      ? []
      : [{ statement: checkConstraints, place: 'commit' } as const],
    ...key === undefined || storesReceived(batch)
      ? []
      : storeSteps(storeKeptStatement(key, count), batch)
  ]
}

/**
 * Sets the session again. Nothing is prepared, because what changes the session may also have
 * replaced a prepared statement. The encoding comes first: the parameters of the rest are read in
 * it.
 */
function restoreSteps (session: readonly Statement[]): readonly Step[] {
  return [setEncoding, ...session].map(statement => ({ statement, place: 'session' }))
}

/**
 * Stores the results as the login role. Deferred constraints were checked before: until PostgreSQL
 * 17 their triggers run under the current role. The role is set again for triggers that are
 * deferred a second time, to COMMIT.
 */
function storeSteps (store: Statement, { role }: AttemptBatch): readonly Step[] {
  return [loginRoleStatement, store, setRoleStatement(identifier(role))]
    .map(statement => ({ statement, place: 'key' }))
}

/**
 * Undoes what a trigger can leave behind in a session, however its transaction ended: settings,
 * temporary tables, values of sequences, cursors WITH HOLD, LISTEN, advisory locks, and the role,
 * which RESET ALL keeps. DISCARD ALL would also forget our prepared statements, and is not allowed
 * in a transaction.
 */
const RESET = 'set session authorization default; reset all; discard temp; discard sequences; ' +
  'close all; unlisten *'

/** Behind a pooler other clients get the connection. */
const FORGET_PREPARED = '; deallocate all'

/**
 * Fails if a statement was prepared in SQL; the connection is then closed. Such a statement may
 * have the name of one of ours, and would run instead with the privileges of another principal or
 * of the login role. Runs in a transaction of its own, so that the reset is committed.
 */
const REFUSE_PREPARED =
  'select 1 / (1 - from_sql::int) from pg_catalog.pg_prepared_statement() where from_sql'

/**
 * Releases advisory locks: pg_advisory_unlock_all (pg_proc.dat). As a statement it would cost the
 * server 30 us, because it is planned each time.
 */
const UNLOCK_ALL: FunctionCall = { oid: 2892 }

/** A text by the simple protocol, or the call of a function without arguments. */
type EndPart = string | FunctionCall

/** What decides how a connection is reset. */
interface ResetFacts extends Pick<ConnectionFacts, 'server'> {
  readonly prepares: boolean
}

/**
 * Returns what resets a connection. Nothing of it is prepared: it runs as the login role, and a
 * function may have replaced a prepared statement.
 */
export function buildReset ({ prepares, server }: ResetFacts): readonly [string, ...EndPart[]] {
  if (server?.release !== undefined) return [`${RESET}; commit`, server.release]
  if (server !== undefined) return [`${RESET}; commit; ${REFUSE_PREPARED}`, UNLOCK_ALL]
  const reset = `${RESET}; select pg_catalog.pg_advisory_unlock_all()`
  return [prepares ? `${reset}; commit; ${REFUSE_PREPARED}` : `${reset}${FORGET_PREPARED}; commit`]
}

/**
 * Whether the end and the reset are one text, of which nothing runs after a COMMIT that fails. It
 * saves the server an answer. A pooler may not understand such a text.
 */
export function endsWithReset (
  { returnsPosition = false }: AttemptBatch,
  { server }: ResetFacts
): boolean {
  return server !== undefined && !returnsPosition
}

/** Returns what ends a transaction, and then what resets the connection. */
export function buildEnd (
  batch: AttemptBatch,
  connection: ResetFacts
): readonly [string, ...EndPart[]] {
  const { mode, comment = '' } = batch
  const end = END[mode.tx].text
  const [reset, ...calls] = buildReset(connection)
  return endsWithReset(batch, connection)
    ? [`${end}; ${reset}${comment}`, ...calls]
    : [`${end}${comment}`, reset, ...calls]
}

function unprepared (text: string): Statement {
  return { text, parameters: [], prepare: false }
}

// Writes a comment at the end of a statement that connects PostgreSQL's log to a request, in the
// format of sqlcommenter (https://google.github.io/sqlcommenter/spec/). Only here do request
// headers become SQL text.

/**
 * Returns the comment with a space before it. Keys are in alphabetical order. Values are
 * percent-encoded, so they cannot close the value or the comment.
 */
export function commentOn (requestId: string, trace: Trace | undefined): string {
  const tags = [
    tag('request_id', requestId),
    ...trace === undefined ? [] : [tag('traceparent', renderTraceparent(trace))]
  ]
  return ` /*${tags.join(',')}*/`
}

function tag (name: string, value: string): string {
  // encodeURIComponent does not encode these, which could close a quoted value or a comment.
  const text = encodeURIComponent(value).replace(
    /['*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )
  return `${name}='${text}'`
}
