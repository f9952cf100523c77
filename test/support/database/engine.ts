/**
 * The engine without HTTP: a pool on a test database and flights of plain SQL, for faults that need
 * an exact moment.
 */
import type { Test } from 'tap'
import { defaultPreferences } from '../../../schemas/prefer.ts'
import { parseDatabaseUrl } from '../../../src/config/database-url.ts'
import type { CompiledBatch } from '../../../src/transaction/compiled-batch.ts'
import { executeBatch } from '../../../src/transaction/execute.ts'
import type { BatchOutcome } from '../../../src/transaction/outcome.ts'
import { createPool, type ConnectionPool, type PoolOptions } from '../../../src/postgres/pool.ts'
import type { Statement } from '../../../src/sql/compile.ts'
import { sessionStatement } from '../../../src/sql/session.ts'

export interface Engine {
  readonly pool: ConnectionPool
  /** Why connections could not be opened, so far. */
  readonly openFailures: readonly unknown[]
  /**
   * Flies statements that answer one column each, as oneflight_user; a deadline of 5 s unless said
   * otherwise.
   */
  run(texts: readonly string[], deadlineMs?: number): Promise<BatchOutcome>
}

/** A pool of one connection unless said otherwise; it is closed at the end of `t`. */
export function useEngine (t: Test, url: string, options: Partial<PoolOptions> = {}): Engine {
  const openFailures: unknown[] = []
  const pool = createPool({
    target: parseDatabaseUrl(url),
    size: 1,
    queueSize: 100,
    queueTimeoutMs: 20_000,
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

/** The same batch with another piece in the text of its session statement. */
export function alterSession (batch: CompiledBatch, from: string, to: string): CompiledBatch {
  const change = (session: Statement): Statement => {
    if (!session.text.includes(from)) throw new Error(`no "${from}" in the session scope`)
    return { ...session, text: session.text.replace(from, to) }
  }
  return { ...batch, session: connection => change(batch.session(connection)) }
}

/** A batch of statements without parameters, in a session that asks for the transaction's id. */
export function plainBatch (texts: readonly string[], statementTimeoutMs = 15_000): CompiledBatch {
  return {
    role: 'oneflight_user',
    session: () =>
      sessionStatement(
        {
          role: 'oneflight_user',
          claims: '{"role":"oneflight_user"}',
          requestId: 'test',
          writes: true
        },
        { schemas: ['public'], statementTimeoutMs, lockTimeoutMs: 15_000, idleTimeoutMs: 15_000 }
      ),
    operations: texts.map(text => ({ text, parameters: [], prepare: true })),
    mode: defaultPreferences
  }
}
