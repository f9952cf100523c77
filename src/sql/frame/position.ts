/**
 * Positions in the write-ahead log: what a standby has to replay until it shows a commit.
 */

/**
 * Returns the position after everything that was committed so far. It counts what is inserted and
 * not yet on disk, because `synchronous_commit` may be off. At the beginning of a page it is the
 * end of the page before: PostgreSQL skips the header of the page, and so is ahead of every record.
 * It runs as the login role, so it names all operators with their schema.
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
