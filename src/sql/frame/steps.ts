/**
 * The statements of one attempt, in the order in which they are sent:
 *
 *     BEGIN                                            unless sql.begin has sent it
 *     claim of the idempotency key                     with a key; on Citus also two_phase_commit
 *     settings of workers                              on Citus
 *     session
 *     operation 1 … n                                  the session again after each one that can
 *                                                      run code, except for the last
 *     SET CONSTRAINTS ALL IMMEDIATE                    with a key, and in a dry run
 *     login role, answers stored, role                 with a key
 *     COMMIT                                           in a dry run: ROLLBACK
 *
 * If an operation can run code, the end is COMMIT AND CHAIN, reset of the connection, COMMIT.
 *
 * Where operations are sent one by one, the steps before them are sent first, then those of each
 * operation, and last those after them.
 */
import { renderTraceparent, type Trace } from '../../../schemas/http.ts'
import { identifier } from '../../fragment/fragment.ts'
import type { ConnectionFacts, FunctionCall } from '../../postgres/facts.ts'
import type { Statement } from '../statement/statement.ts'
import { runsCode, type CompiledBatch, type TransactionMode } from './compiled-batch.ts'
import {
  claimStatement,
  loginRoleStatement,
  storeStatement,
  twoPhaseStatement
} from './idempotency.ts'
import { encodingStatement, setRoleStatement } from './session.ts'

/**
 * What a statement belongs to: the index of an operation; `session`: BEGIN or the session before
 * the operations; `commit`: the end after them; `key`: a statement about the idempotency key.
 */
export type Place = number | 'session' | 'commit' | 'key'

export interface Step {
  readonly statement: Statement
  readonly place: Place
  /**
   * What its answer means; undefined: only whether it succeeded counts. `part`: that of an
   * operation which is sent alone, in one or more statements. `again`: the session is set again.
   */
  readonly answer?: 'begin' | 'claim' | 'session' | 'operation' | 'part' | 'again'
}

const checkConstraints: Statement = {
  text: 'set constraints all immediate',
  parameters: [],
  prepare: true
}

/** The options of BEGIN. All are explicit: a trigger may have changed default_transaction_*. */
export function beginOptions ({ isolation, access }: TransactionMode): string {
  return `isolation level ${isolation} ${access} not deferrable`.replaceAll('-', ' ')
}

/** Returns the steps before the operations. `begin`: with BEGIN. */
export function buildStart (
  { session, workerSession, key, mode }: CompiledBatch,
  connection: ConnectionFacts,
  begin: boolean
): readonly Step[] {
  const beginning = { text: `begin ${beginOptions(mode)}`, parameters: [], prepare: true }
  const claim = key && claimStatement(key, { serializable: mode.isolation === 'serializable' })
  return [
    ...begin ? [{ statement: beginning, place: 'session', answer: 'begin' } as const] : [],
    ...claim === undefined
      ? []
      : [
          { statement: claim, place: 'key', answer: 'claim' } as const,
          ...workerSession === undefined
            ? []
            : [{ statement: twoPhaseStatement, place: 'key' } as const]
        ],
    // Before the session, because it writes search_path in another way.
    ...(workerSession?.(connection) ?? []).map(statement =>
      ({ statement, place: 'session' }) as const),
    { statement: session(connection), place: 'session', answer: 'session' }
  ]
}

/** Returns the steps of all operations. */
export function buildOperations (
  batch: CompiledBatch,
  connection: ConnectionFacts
): readonly Step[] {
  const steps = batch.operations().map((statement, place) =>
    ({ statement, place, answer: 'operation' }) as const)
  return withSessions(steps, true, () => againSteps(batch, connection))
}

/** Returns the steps of one operation, which is sent alone. */
export function buildParts (
  statements: readonly Statement[],
  place: number,
  batch: CompiledBatch,
  connection: ConnectionFacts
): readonly Step[] {
  const steps = statements.map(statement => ({ statement, place, answer: 'part' }) as const)
  return withSessions(steps, place === batch.count - 1, () => againSteps(batch, connection))
}

/** Sets the session again after each step that can run code. `isEnd`: not after the last one. */
function withSessions (
  steps: readonly Step[],
  isEnd: boolean,
  createAgain: () => ReadonlyArray<Omit<Step, 'place'>>
): readonly Step[] {
  if (!steps.some(({ statement }) => statement.runsCode)) return steps
  const again = createAgain()
  return steps.flatMap((step, i) => {
    const isLast = isEnd && i === steps.length - 1
    const { statement, place } = step
    return statement.runsCode === true && !isLast
      ? [step, ...again.map(one => ({ ...one, place }))]
      : [step]
  })
}

/**
 * Returns the steps after the operations. `results`: those that are stored with the key; by default
 * the operations have kept them.
 */
export function buildFinish (
  batch: CompiledBatch,
  results: number | readonly string[] = batch.count
): readonly Step[] {
  const { key, mode } = batch
  return [
    ...key === undefined && mode.tx === 'commit'
      ? []
      : [{ statement: checkConstraints, place: 'commit' } as const],
    ...key === undefined ? [] : storeSteps(storeStatement(key, results), batch)
  ]
}

/**
 * Sets the session again. The encoding comes first if parameters are not ASCII, because they are
 * read in it. What fails belongs to the operation before.
 */
function againSteps (
  { sessionAgain, workerSession }: CompiledBatch,
  connection: ConnectionFacts
): ReadonlyArray<Omit<Step, 'place'>> {
  const again = sessionAgain(connection)
  const onWorkers = workerSession?.(connection) ?? []
  const isAscii = again.parameters.every(text => typeof text === 'string' && ASCII.test(text))
  return [
    ...isAscii ? [] : [{ statement: encodingStatement, answer: 'again' } as const],
    ...onWorkers.map(statement => ({ statement })),
    { statement: again, answer: 'again' }
  ]
}

const ASCII = /^[\0-\x7f]*$/

/**
 * Stores the results as the login role. Deferred constraints were checked before: until PostgreSQL
 * 17 their triggers run under the current role. The role is set again for triggers that are
 * deferred a second time, to COMMIT.
 */
function storeSteps (store: Statement, { role }: CompiledBatch): readonly Step[] {
  return [loginRoleStatement, store, setRoleStatement(identifier(role))]
    .map(statement => ({ statement, place: 'key' }))
}

/**
 * Undoes what code can leave behind in a session, however its transaction ended: settings,
 * temporary tables, values of sequences, cursors WITH HOLD, LISTEN, and the role, which RESET ALL
 * keeps. DISCARD ALL would also forget our prepared statements, and is not allowed in a
 * transaction.
 */
const RESET = 'set session authorization default; reset all; discard temp; discard sequences; ' +
  'close all; unlisten *'

/** Behind a pooler, which may not know FunctionCall, other clients get the connection as well. */
const RESET_SHARED = `${RESET}; select pg_catalog.pg_advisory_unlock_all(); deallocate all; commit`

/**
 * Releases advisory locks: pg_advisory_unlock_all (pg_proc.dat). As a statement it would cost the
 * server 30 us, because it is planned each time.
 */
const UNLOCK_ALL: FunctionCall = { oid: 2892 }

/** A text by the simple protocol, or the call of a function without arguments. */
type EndPart = string | FunctionCall

/** What decides how a connection is reset: whether it belongs to the service alone. */
type ResetFacts = Pick<ConnectionFacts, 'server'>

/**
 * Returns what resets a connection. Nothing of it is prepared: code may have deallocated the
 * prepared statements.
 */
export function buildReset ({ server }: ResetFacts): readonly [string, ...EndPart[]] {
  return server === undefined ? [RESET_SHARED] : [`${RESET}; commit`, UNLOCK_ALL]
}

/**
 * Whether the end follows the operations without a Sync, which saves the server an answer, and
 * whether the reset, if there is one, is in the same text as the end. Nothing of that text runs
 * after a COMMIT that fails. A pooler may not understand either.
 */
export function isJoined (
  { returnsPosition = false }: CompiledBatch,
  { server }: ResetFacts
): boolean {
  return server !== undefined && !returnsPosition
}

/**
 * Returns what ends a transaction, and then what resets the connection. The end goes by the simple
 * protocol: with the extended one, 79 of 282 batches that failed while backends were terminated had
 * in fact committed. AND CHAIN keeps a pooler from giving the connection to another client before
 * it is reset.
 */
export function buildEnd (
  batch: CompiledBatch,
  connection: ResetFacts
): readonly [string, ...EndPart[]] {
  const { mode: { tx }, comment = '' } = batch
  if (!runsCode(batch)) return [`${tx}${comment}`]
  const [reset, ...calls] = buildReset(connection)
  return isJoined(batch, connection)
    ? [`${tx} and chain; ${reset}${comment}`, ...calls]
    : [`${tx} and chain${comment}`, reset, ...calls]
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
