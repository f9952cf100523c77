/**
 * `oneflight check --database`: describes what PostgreSQL refuses in the database of DATABASE_URL.
 */
import { isReservedRole } from '../../schemas/token.ts'
import type { DatabaseSettings } from '../config/config.ts'
import type { Failure } from '../errors/catalogue.ts'
import type { DatabaseError } from '../errors/database-error.ts'
import { withoutValues } from '../errors/postgres.ts'
import type { Plan } from '../plan/plan.ts'
import { ConnectionPool } from '../postgres/pool.ts'
import { Compiler } from '../sql/compiler.ts'
import { checkBatch } from '../transaction/check-batch.ts'
import { batchSettings } from '../transaction/run-batch.ts'
import { UsageError } from './arguments.ts'
import type { CheckOptions } from './commands.ts'
import { describeIssues, type BatchText } from './input.ts'

export type DatabaseCheck = ReturnType<typeof openDatabaseCheck>

/** Connects with the first check. Throws a UsageError when the role is missing or reserved. */
export function openDatabaseCheck (
  { config, database: target }: DatabaseSettings,
  { role = config.ANON_ROLE }: CheckOptions
) {
  if (role === undefined) throw new UsageError('--database requires --role')
  if (isReservedRole(role)) throw new UsageError(`role "${role}" is reserved by PostgreSQL`)
  if (role === target.user) throw new UsageError(`"${role}" is the login role of DATABASE_URL`)
  let reason: string | undefined
  const pool = new ConnectionPool({
    target,
    size: 1,
    // The next operation waits for the connection while it is reset.
    queueSize: 1,
    queueTimeoutMs: config.REQUEST_TIMEOUT_MS,
    batchTimeoutMs: config.REQUEST_TIMEOUT_MS,
    prepares: config.PREPARED_STATEMENTS === 'on',
    extraSchemas: config.DB_EXTRA_SEARCH_PATH.filter(schema => !config.DB_SCHEMAS.includes(schema)),
    onOpenFailed: error => {
      reason = withoutValues(error as DatabaseError)
    }
  })
  const settings = { ...batchSettings(config), verbose: true }
  const options = {
    pool,
    compiler: new Compiler(settings),
    role,
    settings,
    timeoutMs: config.REQUEST_TIMEOUT_MS
  }
  return {
    /**
     * Resolves with one line per issue. Throws a UsageError when the database or the role
     * cannot be used.
     */
    async check (plan: Plan, text: BatchText): Promise<readonly string[]> {
      try {
        const issues = await checkBatch(plan, options)
        return issues.flatMap(issue => describe(issue, text))
      } catch (error) {
        const why = reason ?? (error as Failure).reason ?? (error as Failure).message
        throw new UsageError(`cannot check against the database: ${why}`)
      }
    },
    close: (): Promise<void> => pool.close()
  }
}

function describe ({ code, message, details }: Failure, text: BatchText): readonly string[] {
  const { index, path } = details
  const position = path && text.locate([index as number, ...path])
  return describeIssues({ code, message, ...details }, text, position)
}
