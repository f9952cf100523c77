/**
 * The whole service in the test's own process, on a database of its own, spoken to over HTTP.
 *
 * In charge of: starting and stopping it, tokens, and the log as lines.
 * Refuses to: mock anything.
 */
import { readFile } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { Value } from '@sinclair/typebox/value'
import { pino } from 'pino'
import type { Test } from 'tap'
import { BatchAnswer } from '../../schemas/batch.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import type { AppOptions } from '../../src/server/app.ts'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { readConfig } from '../../src/config/config.ts'
import { signToken } from '../../src/auth/sign-token.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { startService, type Service } from '../../src/server/service.ts'
import { LOGIN_ROLE, useDatabase, type Database } from './database/database.ts'
import { until } from './until.ts'

export const SECRET = 'a secret of the test suite, more than 32 bytes'

/** What a service of a test is started with, beside its database. */
export const testEnvironment = {
  HTTP_PORT: '0',
  ADMIN_HTTP_PORT: '0',
  JWT_SECRET: SECRET,
  POOL_SIZE: '4',
  // A test that is not about the queue does not fail where the machine is busy.
  QUEUE_TIMEOUT_MS: '20000',
  // Nobody has to look away.
  SHUTDOWN_DELAY_MS: '0'
} as const

/**
 * An answer over HTTP. `body` is the parsed JSON (numbers rounded by JavaScript), `text` the bytes
 * as text.
 */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: any
}

export interface ServiceUnderTest extends Service {
  readonly database: Database
  /** Log lines so far. */
  readonly log: ReadonlyArray<Readonly<Record<string, unknown>>>
  /**
   * Posts a batch: JSON text as it is, anything else stringified. Role `oneflight_user` unless said
   * otherwise; null sends no token.
   */
  post(
    batch: unknown,
    options?: { readonly role?: string | null, readonly headers?: Readonly<Record<string, string>> }
  ): Promise<Answer>
}

export interface UseServiceOptions {
  /** SQL that makes the database, once per file; see useDatabase. */
  readonly schema?: string
  /** Environment variables beside DATABASE_URL, and in the place of those of `testEnvironment`. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether the table of idempotency keys is there. */
  readonly keys?: boolean
  /** Replaces the login URL, e.g. by one that leads through a proxy. */
  readonly databaseUrl?: (loginUrl: string) => string
  /** DATABASE_REPLICA_URL, from the login URL. */
  readonly replicaUrl?: (loginUrl: string) => string
  /** Who makes spans; nobody unless said otherwise. */
  readonly tracerProvider?: AppOptions['tracerProvider']
}

/** Starts the service; it is stopped at the end of `t`. */
export async function useService (
  t: Test,
  { schema, env = {}, keys = false, databaseUrl = url => url, replicaUrl, tracerProvider }:
  UseServiceOptions = {}
): Promise<ServiceUnderTest> {
  const database = await useDatabase(t, schema === undefined ? {} : { schema })
  if (keys) await makeKeyTable(database)
  const log: Array<Record<string, unknown>> = []
  const sink = new Writable({
    write (chunk: Buffer, _encoding, done) {
      for (const line of chunk.toString().trim().split('\n')) {
        log.push(JSON.parse(line) as Record<string, unknown>)
      }
      done()
    }
  })
  const settings = readConfig({
    DATABASE_URL: databaseUrl(database.loginUrl),
    ...testEnvironment,
    ...replicaUrl === undefined ? {} : { DATABASE_REPLICA_URL: replicaUrl(database.loginUrl) },
    ...env
  })
  const service = await startService({
    ...settings,
    logger: pino({ level: settings.config.LOG_LEVEL }, sink),
    tracerProvider
  })
  t.teardown(() => service.stop())
  return {
    ...service,
    database,
    log,
    async post (batch, { role = 'oneflight_user', headers = {} } = {}) {
      const answer = await ask(service.url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(role === null ? {} : { authorization: `Bearer ${token({ role })}` }),
          ...headers
        },
        body: typeof batch === 'string' ? batch : JSON.stringify(batch)
      })
      checkShape(answer)
      return answer
    }
  }
}

/** Runs deploy/migrate.sql for the login role of the tests. */
export async function makeKeyTable ({ url }: Pick<Database, 'url'>): Promise<void> {
  await migrate(
    parseDatabaseUrl(url),
    await readFile(new URL('../../deploy/migrate.sql', import.meta.url), 'utf8'),
    LOGIN_ROLE
  )
}

/** Until the end of `t` no answer to a batch can be made, as when it is too large for a buffer. */
export function forbidAnswers (t: Test): void {
  const { concat } = Buffer
  t.teardown(() => {
    Buffer.concat = concat
  })
  Buffer.concat = (list, length) => {
    if (String(list[0]).startsWith('{"error":null')) throw new RangeError('too large')
    return concat(list, length)
  }
}

/** One request. */
export async function ask (url: string, init?: RequestInit): Promise<Answer> {
  // A connection that is kept alive would make every stop wait for its grace.
  const response = await fetch(url, { ...init, headers: { connection: 'close', ...init?.headers } })
  const text = await response.text()
  const json = response.headers.get('content-type')?.startsWith('application/json') === true &&
    text !== ''
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: json ? JSON.parse(text) : undefined
  }
}

/**
 * The answer to a batch must have the shape that schemas/ describes, whatever a test looks for in
 * it.
 */
function checkShape ({ status, body, text }: Answer): void {
  if (!Value.Check(status === 200 ? BatchAnswer : ErrorEnvelope, body)) {
    throw new Error(`an answer of status ${status} out of shape: ${text.slice(0, 500)}`)
  }
}

/** Resolves when a GET of `url` is answered 200. */
export async function answering (url: string): Promise<void> {
  await until(async () => (await ask(url)).status === 200)
}

/** Resolves when the main server takes no connection any more. */
export async function refusing ({ url }: Pick<ServiceUnderTest, 'url'>): Promise<void> {
  await until(() => ask(`${url}/nothing`).then(() => false, () => true))
}

/** A gauge of the service as a scrape says it, of the pools that of the primary. */
export async function gauge (
  { adminUrl }: Pick<ServiceUnderTest, 'adminUrl'>,
  name: string
): Promise<number> {
  return Number(
    new RegExp(`^${name}(?:\\{server="primary"\\})? (\\d+)$`, 'm').exec(
      (await ask(`${adminUrl}/metrics`)).text
    )?.[1]
  )
}

/** An HS256 token that expires in an hour; a claim that is undefined is left out. */
export function token (claims: Readonly<Record<string, unknown>>, secret = SECRET): string {
  return signToken({ exp: Math.floor(Date.now() / 1000) + 3600, ...claims }, secret)
}
