/**
 * Statements that look up a transaction after its connection was lost, and positions in the
 * write-ahead log. They run as the login role, so they name all functions and operators with their
 * schema.
 */

/** Identifies a transaction after its connection was lost. All values are text from PostgreSQL. */
export interface TransactionId {
  readonly xid: string
  /** When the server was started, in seconds of its clock. */
  readonly serverStarted: string
  /** A time before the transaction was committed, in seconds of the server's clock. */
  readonly reportedAt: string
}

/**
 * Completes the id of a transaction, of which a row keeps 32 bits (`xmin`). `next` is the next id,
 * in 64 bits. The result is the last id before it with these bits: PostgreSQL cannot tell older
 * ones apart either, and a row of a key expires long before.
 */
export function addEpoch (xmin: string, next: string): string {
  const age = BigInt.asUintN(32, BigInt(next) - BigInt(xmin))
  return String(BigInt(next) - age)
}

/** The columns of statusText. */
export type TransactionStatus = Readonly<Record<
  /** null on a standby, which may not have received the transaction yet. */
  | 'status'
  /** 't': the server that ran it, without a crash since (a crash resets its statistics). */
  | 'same',
  string | null
>>

/** Returns a statement that looks a transaction up by its id. */
export function statusText ({ xid, serverStarted, reportedAt }: TransactionId): string {
  const seconds = (time: string): string => `extract(epoch from ${time})`
  const started = seconds('pg_catalog.pg_postmaster_start_time()')
  return `
    select case when not pg_catalog.pg_is_in_recovery() then
        pg_catalog.pg_xact_status('${xid}'::pg_catalog.xid8) end as status,
      ${started}::pg_catalog.text operator(pg_catalog.=) '${serverStarted}'
        and exists (select from pg_catalog.pg_stat_wal
          where ${seconds('stats_reset')} operator(pg_catalog.<) '${reportedAt}') as same`
}

/**
 * A transaction whose COMMIT waits until the synchronous standbys, if there are any, have what was
 * committed before. Transactions see what is committed on the server itself, also while its own
 * COMMIT still waits, or was interrupted by a crash.
 */
export const CONFIRM_REPLICATED = `select case
  when pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.<>) ''
  then pg_catalog.pg_logical_emit_message(true, 'oneflight', '') end`

/** Divides by zero on a standby. */
export const FAIL_ON_STANDBY =
  'select 1 operator(pg_catalog./) (not pg_catalog.pg_is_in_recovery())::pg_catalog.int4'

/**
 * Returns the position after everything that was committed so far. It counts what is inserted and
 * not yet on disk, because `synchronous_commit` may be off. Directly behind the header of a page,
 * it returns the end of the page before: PostgreSQL has already skipped the header, so its own
 * position is ahead of every record.
 */
export const POSITION = `select (p.lsn operator(pg_catalog.-)
  case when p.used operator(pg_catalog.=) any ('{24,40}') then p.used else 0 end)::pg_catalog.text
  as position
  from (select i.lsn, (i.lsn operator(pg_catalog.-) '0/0'::pg_catalog.pg_lsn)
    operator(pg_catalog.%) pg_catalog.current_setting('wal_block_size')::pg_catalog.numeric as used
    from (select pg_catalog.pg_current_wal_insert_lsn() as lsn) as i) as p`

/**
 * Returns whether a server shows what was committed at a position; a primary shows everything.
 * `position` must match positionPattern.
 */
export function isAtPosition (position: string): string {
  return `select not pg_catalog.pg_is_in_recovery() or coalesce(pg_catalog.pg_last_wal_replay_lsn()
    operator(pg_catalog.>=) '${position}'::pg_catalog.pg_lsn, false) as reached`
}
