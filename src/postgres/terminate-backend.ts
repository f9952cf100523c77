/**
 * Ends the process of the server behind a connection that was given up. PostgreSQL hears of it
 * late, or, where the network is silent, not before TCP gives up; until then it keeps the locks of
 * half a flight.
 */
import { query, type Backend, type Connection } from './connection.ts'

/**
 * Whether the process is still there; it is told to end. Not one that may be at COMMIT where there
 * are synchronous standbys: it would end its wait for them, and what was acknowledged to nobody but
 * us could be lost with the server.
 */
export async function terminateBackend (
  connection: Connection,
  { pid, started }: Backend
): Promise<boolean> {
  const rows = await query(
    connection,
    `
    select case when pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.=)
      '' or state operator(pg_catalog.~) '^idle' then pg_catalog.pg_terminate_backend(pid) end
    from pg_catalog.pg_stat_get_activity(${pid}) where extract(epoch
      from backend_start)::pg_catalog.text operator(pg_catalog.=) '${started}'`
  )
  return rows.length > 0
}
