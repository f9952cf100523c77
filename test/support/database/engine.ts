/**
 * Runs batches of plain SQL on a pool without HTTP, for tests that inject a fault at an exact
 * moment.
 */
import type { Test } from 'tap'
import { defaultPreferences } from '../../../schemas/prefer.ts'
import { parseDatabaseUrl } from '../../../src/config/database-url.ts'
import { ConnectionPool, type PoolOptions } from '../../../src/postgres/pool.ts'
import type { CompiledBatch } from '../../../src/sql/frame/compiled-batch.ts'
import {
  sessionAgainStatement,
  sessionStatement,
  type SessionDefaults
} from '../../../src/sql/frame/session.ts'
import type { Statement } from '../../../src/sql/statement/statement.ts'
import { executeBatch } from '../../../src/transaction/execute.ts'
import type { BatchOutcome } from '../../../src/transaction/outcome.ts'
import { until } from '../until.ts'

export interface Engine {
  readonly pool: ConnectionPool
  /** The errors of opening connections so far. */
  readonly openFailures: readonly unknown[]
  /** Runs statements with one column each as oneflight_user. The deadline is 5 s by default. */
  run(texts: readonly string[], deadlineMs?: number): Promise<BatchOutcome>
}

/** Creates a pool, by default with one connection. The end of `t` closes it. */
export function useEngine (t: Test, url: string, options: Partial<PoolOptions> = {}): Engine {
  const openFailures: unknown[] = []
  const pool = new ConnectionPool({
    target: parseDatabaseUrl(url),
    size: 1,
    queueSize: 100,
    queueTimeoutMs: 20_000,
    batchTimeoutMs: 30_000,
    onOpenFailed: reason => openFailures.push(reason),
    ...options
  })
  t.teardown(() => pool.close())
  return {
    pool,
    openFailures,
    run: (texts, deadlineMs = 5000) =>
      executeBatch(pool, plainBatch(texts), { deadline: performance.now() + deadlineMs })
  }
}

/** Waits until the idle connection was quiet for so long that the next batch sends BEGIN first. */
export async function untilQuiet ({ pool }: Engine): Promise<void> {
  const connection = await pool.acquire(performance.now() + 5000)
  await until(() => performance.now() - connection.socket.heardAt > 100)
  pool.release(connection)
}

/** Returns the batch with `from` replaced by `to` in its session statement. */
export function alterSession (batch: CompiledBatch, from: string, to: string): CompiledBatch {
  const change = (session: Statement): Statement => {
    if (!session.text.includes(from)) throw new Error(`no "${from}" in the session statement`)
    return { ...session, text: session.text.replace(from, to) }
  }
  return { ...batch, session: connection => change(batch.session(connection)) }
}

export const sessionDefaults: SessionDefaults = {
  schemas: ['public'],
  statementTimeoutMs: 15_000,
  lockTimeoutMs: 15_000,
  idleTimeoutMs: 15_000
}

/**
 * Creates a batch of statements without parameters. Its session statement asks for the transaction
 * id.
 */
export function plainBatch (texts: readonly string[]): CompiledBatch {
  const session = {
    role: 'oneflight_user',
    claims: '{"role":"oneflight_user"}',
    requestId: 'test',
    writes: true
  }
  return {
    role: session.role,
    session: connection => sessionStatement(session, sessionDefaults, connection),
    sessionAgain: connection => sessionAgainStatement(session, sessionDefaults, connection),
    writes: true,
    count: texts.length,
    operations: () => texts.map(text => ({ text, parameters: [], prepare: true, runsCode: true })),
    mode: defaultPreferences,
    maxBytes: 2 ** 26
  }
}
