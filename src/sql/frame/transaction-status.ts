/**
 * Statements that look a transaction up after its connection was lost. They run as the login role,
 * so they name all functions and operators with their schema.
 */

/** Identifies a transaction after its connection was lost. All values are text from PostgreSQL. */
export interface TransactionId {
  readonly xid: string
  /** When the server was started, in seconds of its clock. */
  readonly serverStarted: string
  /** A time before the transaction was committed, in seconds of the server's clock. */
  readonly reportedAt: string
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

/** Divides by zero on a standby. */
export const FAIL_ON_STANDBY =
  'select 1 operator(pg_catalog./) (not pg_catalog.pg_is_in_recovery())::pg_catalog.int4'
