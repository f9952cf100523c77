/**
 * What became of a transaction whose connection was lost after its end had been sent. In charge of
 * asking whoever can know: the key of the batch, or the id of the transaction. It never guesses;
 * what nobody can tell is unknown.
 */
import { setTimeout as delay } from 'node:timers/promises'
import postgres from 'postgres'
import { answerText, waitText, type Key } from '../sql/idempotency.ts'
import { terminateBackend } from '../postgres/terminate-backend.ts'
import { mayCommit, type CompiledBatch, type LostOutcome, type TransactionId } from './attempt.ts'
import {
  query,
  queryRaw,
  withTimeout,
  type Backend,
  type Connection
} from '../postgres/connection.ts'
import type { ConnectionPool } from '../postgres/pool.ts'
import { millisecondsUntil } from '../postgres/timer.ts'

/**
 * `committed`: with the answers of its operations. `gone`: it was committed, and its answers are
 * lost. `refuted`: nothing of it is in the database, nor ever will be. `absent`: nothing of it is
 * there, and it may still be on its way; with its key it can be flown again all the same.
 */
export type Verdict = { readonly kind: 'committed', readonly rows: readonly Buffer[] } | {
  readonly kind: 'gone' | 'refuted' | 'absent' | 'unknown'
}

/** A flight that was lost, and the process of the server that it was on. */
export interface LostCommit {
  readonly flight: CompiledBatch
  readonly landing: LostOutcome
  readonly backend: Backend | undefined
}

/** Between two questions. */
const PAUSE_MS = 20

/** Finds out until `until`, a time of performance.now(). Does not reject. */
export async function resolveLostCommit (
  pool: ConnectionPool,
  { flight, landing, backend }: LostCommit,
  until: number
): Promise<Verdict> {
  if (!mayCommit(flight.mode) || landing.refuted) return { kind: 'refuted' }
  const { key } = flight
  const { id } = landing
  if (key === undefined && id === undefined) return { kind: 'unknown' }
  const ask = (connection: Connection): Promise<Verdict | undefined> =>
    key === undefined
      ? askById(connection, id as TransactionId, flight, landing)
      : askByKey(connection, key, landing, backend)
  do {
    // No connection, or one that was lost as well: the server may be about to come back.
    const verdict = await withConnection(pool, until, ask).catch(() => undefined)
    if (verdict !== undefined) return verdict
    await delay(PAUSE_MS)
  } while (performance.now() < until)
  return { kind: 'unknown' }
}

async function withConnection<Answer> (
  pool: ConnectionPool,
  until: number,
  ask: (connection: Connection) => Promise<Answer>
): Promise<Answer> {
  const connection = await pool.acquire(until, { aside: true })
  return withTimeout(millisecondsUntil(until), connection, ask).finally(() =>
    pool.release(connection)
  )
}

/**
 * By the key. The process that was lost has to end first, so that nothing it has not read yet can
 * follow; then whoever runs under the key is waited for. undefined: to be asked again.
 */
async function askByKey (
  connection: Connection,
  key: Key,
  { claimed, times }: LostOutcome,
  backend: Backend | undefined
): Promise<Verdict | undefined> {
  if (backend !== undefined && await terminateBackend(connection, backend)) return undefined
  await query(connection, waitText(key))
  // What the flight stored may have expired since; what had expired when it took off is an earlier
  // request's.
  const takeOff = times[0] as number
  const stored = await readAnswer(connection, key, (performance.now() - takeOff) / 1000)
  if (stored?.same === true && stored.live) return { kind: 'committed', rows: stored.rows }
  // It may not have heard of the key yet.
  await query(connection, NOT_ON_STANDBY)
  // Another request has the key, or nobody.
  return { kind: claimed || backend !== undefined ? 'refuted' : 'absent' }
}

/** Fails on a standby: to be asked again. */
const NOT_ON_STANDBY =
  'select 1 operator(pg_catalog./) (not pg_catalog.pg_is_in_recovery())::pg_catalog.int4'

/**
 * What is stored under a key, for the `same` request or another one; `live`: it had not expired at
 * the time in question.
 */
export interface StoredAnswer {
  readonly same: boolean
  readonly live: boolean
  readonly rows: readonly Buffer[]
}

/** What is stored under the key; undefined: nothing. */
export async function readAnswer (
  connection: Connection,
  key: Key,
  secondsAgo = 0
): Promise<StoredAnswer | undefined> {
  const rows = await queryRaw(connection, answerText(key, secondsAgo))
  const [first] = rows
  return first &&
    {
      same: String(first[0]) === 't',
      live: String(first[1]) === 't',
      rows: rows.map(([, , answer]) => answer as Buffer)
    }
}

/** By the id of the transaction. undefined: it still runs. */
async function askById (
  connection: Connection,
  id: TransactionId,
  { operations }: CompiledBatch,
  { rows }: LostOutcome
): Promise<Verdict | undefined> {
  const { status, same } = await inquire(connection, id)
  if (status === 'aborted') return { kind: 'refuted' }
  if (status !== 'committed') return undefined
  // After a crash of the server, or on another one, the id may be another transaction's (measured:
  // 5 of 5).
  if (same !== 't') return { kind: 'unknown' }
  return rows.length === operations.length ? { kind: 'committed', rows } : { kind: 'gone' }
}

/**
 * The state of a transaction; null on a standby, which may not have heard of it yet. `same`:
 * whether this is the server that carried it out, and it has not crashed since, which would have
 * begun its statistics anew.
 */
async function inquire (
  connection: Connection,
  { xid, server, at }: TransactionId
): Promise<{ readonly status: string | null, readonly same: string | null }> {
  const seconds = (time: string): string => `extract(epoch from ${time})`
  const text = `
    select case when not pg_catalog.pg_is_in_recovery() then
      pg_catalog.pg_xact_status('${xid}'::pg_catalog.xid8) end as status,
      ${
    seconds('pg_catalog.pg_postmaster_start_time()')
  }::pg_catalog.text operator(pg_catalog.=) '${server}'
        and exists (select from pg_catalog.pg_stat_wal where ${
    seconds('stats_reset')
  } operator(pg_catalog.<) '${at}') as same`
  try {
    const rows = await query<{ status: string | null, same: string | null }>(connection, text)
    return rows[0] as { status: string | null, same: string | null }
  } catch (error) {
    if (error instanceof postgres.PostgresError && error.code === IN_THE_FUTURE) {
      return { status: 'aborted', same: null }
    }
    throw error
  }
}

/**
 * invalid_parameter_value of pg_xact_status: a server that crashed has not heard of the id, so
 * nothing of it was ever durable.
 */
const IN_THE_FUTURE = '22023'
