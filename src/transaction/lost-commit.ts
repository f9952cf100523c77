/**
 * Finds out whether a transaction was committed if its connection was lost after COMMIT was sent:
 * from the idempotency key of the batch, or from the id of the transaction. It never guesses.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import type { DatabaseError } from '../errors/database-error.ts'
import { SqlState } from '../errors/sqlstates.ts'
import {
  query,
  queryRaw,
  type Backend,
  type Connection,
  terminateBackend
} from '../postgres/connection.ts'
import { withConnection, type ConnectionPool } from '../postgres/pool.ts'
import { mayCommit, type CompiledBatch } from '../sql/frame/compiled-batch.ts'
import { answerText, waitText, type Key } from '../sql/frame/idempotency.ts'
import {
  addEpoch,
  CONFIRM_REPLICATED,
  FAIL_ON_STANDBY,
  statusText,
  type TransactionStatus,
  type TransactionId
} from '../sql/frame/server-state.ts'
import type { Lost, Committed } from './outcome.ts'

/**
 * `rows lost`: the transaction is committed, but its rows were lost. `rolled back`: it is not in
 * the database and never will be, or it changes nothing. `absent`: it is not in the database yet,
 * but the server may still receive it. A batch with a key can be run again anyway.
 */
export type Verdict =
  | Pick<Committed, 'kind' | 'rows' | 'txid'>
  | { readonly kind: 'rows lost' | 'rolled back' | 'absent' | 'unknown' }

/** A batch that was lost, and the server process that ran it. */
interface LostCommit {
  readonly batch: CompiledBatch
  readonly lost: Lost
  readonly backend: Backend | undefined
}

/** Pause between two lookups. */
const PAUSE_MS = 20

/**
 * Routines in which COMMIT fails on Citus although it may have committed: the only worker that was
 * changed has committed and its answer was lost, or the coordinator goes down while it waits for
 * the workers.
 */
const UNCERTAIN_ROUTINES: ReadonlySet<string | undefined> = new Set([
  'ErrorIfPostCommitFailedShardPlacements',
  'FinishConnectionIO',
  'WaitForAllConnections'
])

/** Whether an error of COMMIT leaves open whether the transaction is committed. */
export function isCommitUncertain ({ routine }: DatabaseError): boolean {
  return UNCERTAIN_ROUTINES.has(routine)
}

/** Looks the outcome up until `until`, a time of performance.now(). Does not reject. */
export async function resolveLostCommit (
  pool: ConnectionPool,
  commit: LostCommit,
  until: number
): Promise<Verdict> {
  const { batch: { mode, key, writes }, lost: { rolledBack, transactionId } } = commit
  if (!mayCommit(mode) || writes === false || rolledBack) return { kind: 'rolled back' }
  if (key === undefined && transactionId === undefined) return { kind: 'unknown' }
  const find = async (connection: Connection): Promise<Verdict | undefined> => {
    const verdict = key === undefined
      ? await findById(connection, transactionId as TransactionId, commit)
      : await findByKey(connection, key, commit)
    const isCommitted = verdict?.kind === 'committed' || verdict?.kind === 'rows lost'
    if (isCommitted) await query(connection, CONFIRM_REPLICATED)
    return verdict
  }
  return await searchUntil(pool, until, find) ?? { kind: 'unknown' }
}

/** Repeats a search until it finds something; undefined: it has not found anything by `until`. */
export async function searchUntil<Result> (
  pool: ConnectionPool,
  until: number,
  find: (connection: Connection) => Promise<Result | undefined>
): Promise<Result | undefined> {
  do {
    // Without a connection, or when it is lost as well, the server may be about to restart.
    const found = await withConnection(pool, until, find).catch(() => undefined)
    if (found !== undefined) return found
    await delay(PAUSE_MS)
  } while (performance.now() < until)
  return undefined
}

/**
 * Looks the answer up by the key. First the lost server process has to end, so that it reads
 * nothing later. Then the lookup waits for the request that holds the key. undefined: to be tried
 * again.
 */
async function findByKey (
  connection: Connection,
  key: Key,
  { lost: { keyClaimed, times }, backend }: LostCommit
): Promise<Verdict | undefined> {
  if (backend !== undefined && await terminateBackend(connection, backend)) return undefined
  await query(connection, waitText(key))
  // An answer of this batch may have expired since it started. One that had expired before is the
  // answer of an earlier request.
  const secondsAgo = (performance.now() - (times.begun as number)) / 1000
  const stored = await readAnswer(connection, key, secondsAgo)
  if (stored?.differs === 'nothing' && stored.live) {
    return { kind: 'committed', rows: stored.rows, txid: stored.txid }
  }
  // A standby may not have received the key yet.
  await query(connection, FAIL_ON_STANDBY)
  // Another request has the key, or none has it.
  return { kind: keyClaimed || backend !== undefined ? 'rolled back' : 'absent' }
}

/** What is stored under a key. */
export interface StoredAnswer {
  /** What differs from the request that stored it: the claims, the request itself, or nothing. */
  readonly differs: 'claims' | 'request' | 'nothing'
  /** It had not expired at the given time. */
  readonly live: boolean
  readonly rows: readonly Buffer[]
  /** The id of the transaction that stored it, with its epoch. */
  readonly txid: string
  /** Whether a failover could lose it, until CONFIRM_REPLICATED has run. */
  readonly isSynchronous: boolean
  /** Short hashes of the claims of its owner; `{}` if an earlier version stored it. */
  readonly eachClaim: string
}

/** Reads what is stored under the key, as of `secondsAgo`; undefined: nothing. */
export async function readAnswer (
  connection: Connection,
  key: Key,
  secondsAgo = 0
): Promise<StoredAnswer | undefined> {
  const rows = await queryRaw(connection, answerText(key, secondsAgo))
  const [first] = rows
  return first && {
    differs: String(first[0]) as StoredAnswer['differs'],
    live: String(first[1]) === 't',
    rows: rows.map(([, , answer]) => answer as Buffer),
    txid: addEpoch(String(first[3]), String(first[4])),
    eachClaim: String(first[5] ?? '{}'),
    isSynchronous: String(first[6]) === 't'
  }
}

/** Looks the transaction up by its id. undefined: it still runs. */
async function findById (
  connection: Connection,
  id: TransactionId,
  { batch: { count }, lost: { rows } }: LostCommit
): Promise<Verdict | undefined> {
  const { status, same } = await readStatus(connection, id)
  if (status === 'aborted') {
    // The only worker of a transaction of Citus commits before the coordinator, which then crashed,
    // or lost the worker's answer.
    return { kind: connection.engine === 'citus' ? 'unknown' : 'rolled back' }
  }
  if (status !== 'committed') return undefined
  // After a crash, or on another server, the id may belong to another transaction (measured: 5 of
  // 5).
  if (same !== 't') return { kind: 'unknown' }
  return rows.length === count
    ? { kind: 'committed', rows, txid: id.xid }
    : { kind: 'rows lost' }
}

async function readStatus (
  connection: Connection,
  id: TransactionId
): Promise<TransactionStatus> {
  try {
    const rows = await query<TransactionStatus>(connection, statusText(id))
    return rows[0] as TransactionStatus
  } catch (error) {
    // The server crashed and does not know the id, so the transaction was never durable.
    if (
      error instanceof postgres.PostgresError && error.code === SqlState.invalid_parameter_value
    ) {
      return { status: 'aborted', same: null }
    }
    throw error
  }
}
