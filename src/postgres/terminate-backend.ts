/**
 * Terminates the server process of a lost connection. PostgreSQL notices the loss late: where the
 * network is silent, not before TCP times out. Until then the process keeps the locks of a
 * transaction that arrived in part.
 */
import { query, type Backend, type Connection } from './connection.ts'

/**
 * Terminates a backend and returns whether it still existed. With synchronous standbys, only a
 * backend that is idle or waits for the rest of a batch is terminated: another one may wait for the
 * standbys in COMMIT. The termination would stop that wait, and the commit could be lost with the
 * server. Before Sync a backend that waits for the service has the state active.
 */
export async function terminateBackend (
  connection: Connection,
  { pid, started }: Backend
): Promise<boolean> {
  const rows = await query(
    connection,
    `
    select case when pg_catalog.current_setting('synchronous_standby_names') operator(pg_catalog.=)
      '' or state operator(pg_catalog.~) '^idle' or wait_event operator(pg_catalog.=) 'ClientRead'
      then pg_catalog.pg_terminate_backend(pid) end
    from pg_catalog.pg_stat_get_activity(${pid}) where extract(epoch
      from backend_start)::pg_catalog.text operator(pg_catalog.=) '${started}'`
  )
  return rows.length > 0
}
