/**
 * Which anomalies each isolation level of PostgreSQL allows on one server.
 *
 * Jepsen checks PostgreSQL for serializability at `serializable` and for snapshot isolation at
 * `repeatable read` (https://jepsen.io/analyses/postgresql-12.3). This check also demands the
 * order of real time, because one server gives it: a transaction that starts after an answer gets a
 * snapshot that includes the answered transaction.
 *
 * - At `read committed`, each statement has a new snapshot. Along every `ww`, `wr` and `rt` edge
 *   the commits follow each other, so there is no cycle of these. The same holds for `rw` after
 *   `rt`: such a read has a snapshot later than the answer (`stale-read`).
 * - At `repeatable read`, `ww`, `wr` and `rt` edges lead from a commit to a later snapshot, and
 *   `rw` edges from a snapshot to a later commit. Therefore every cycle has two `rw` edges in a row
 *   (G2-item, write skew). This proof treats `rt` like `wr`.
 * - At `serializable`, PostgreSQL rolls back one of the transactions with two `rw` edges in a row
 *   whose last one commits first. By the same proof every cycle has such a pair, also a cycle with
 *   `rt` edges. Therefore no cycle at all is allowed.
 */
import { findCycles } from './cycles.ts'
import { buildGraph } from './graph.ts'
import { readTransactions, type HistoryEvent } from './history.ts'
import { findListAnomalies, orderVersions, type Anomaly } from './versions.ts'

export type Level = 'read-committed' | 'repeatable-read' | 'serializable'

const writeSkew = ['G2-item', 'G2-item-realtime']

const allowedAt: Readonly<Record<Level, readonly string[]>> = {
  'read-committed': [
    ...writeSkew,
    'G-single',
    'G-single-realtime',
    'G-nonadjacent',
    'G-nonadjacent-realtime',
    'lost-update'
  ],
  'repeatable-read': writeSkew,
  serializable: []
}

export interface Verdict {
  readonly forbidden: readonly Anomaly[]
  readonly allowed: readonly Anomaly[]
}

export function checkHistory (history: readonly HistoryEvent[], level: Level): Verdict {
  const transactions = readTransactions(history)
  const versions = orderVersions(transactions)
  const anomalies = [
    ...findListAnomalies(transactions, versions),
    ...findCycles(buildGraph(versions))
  ]
  const isAllowed = ({ type }: Anomaly): boolean => allowedAt[level].includes(type)
  return {
    forbidden: anomalies.filter(anomaly => !isAllowed(anomaly)),
    allowed: anomalies.filter(isAllowed)
  }
}
