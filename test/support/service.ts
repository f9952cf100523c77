/**
 * Runs the whole service in the process of the test, on its own database, and sends requests over
 * HTTP. Nothing is mocked.
 */
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { Writable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { Value } from '@sinclair/typebox/value'
import { pino } from 'pino'
import type { Test } from 'tap'
import { BatchAnswer } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import { readConfig } from '../../src/config/config.ts'
import type { NamedBatches } from '../../src/named/named-batch.ts'
import { openBatchSet, type BatchSet, readNamedBatch } from '../../src/named/read-files.ts'
import { batchLimits, type BatchLimits } from '../../src/plan/check/read-batch.ts'
import type { AppOptions } from '../../src/server/app.ts'
import { type Service, startService } from '../../src/server/service.ts'
import { useDatabase, type Database } from './database/database.ts'
import { makeKeyTable } from './database/key-table.ts'
import { modeEnvironment, SECRET, testEnvironment, token } from './environment.ts'
import { until } from './until.ts'

export { SECRET, testEnvironment, token }

/** An HTTP response. `text` is the body, `body` the parsed JSON (numbers rounded by JavaScript). */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: any
}

export interface ServiceUnderTest extends Service {
  readonly database: Database
  /** The log lines so far. */
  readonly log: ReadonlyArray<Readonly<Record<string, unknown>>>
  /**
   * Posts a batch. A string is sent as it is, other values as JSON. The role is `oneflight_user` by
   * default; null sends no token.
   */
  post(batch: unknown, options?: PostOptions): Promise<Answer>
  /** Starts another service on the same database. */
  useAnother(t: Test, options?: UseServiceOptions): Promise<ServiceUnderTest>
  /** Posts the parameters of a named batch. */
  run(name: string, parameters: unknown, options?: PostOptions): Promise<Answer>
}

interface PostOptions {
  readonly role?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

export interface UseServiceOptions {
  /** SQL that creates the schema, once per file; see useDatabase. */
  readonly schema?: string
  /** Creates the database; useDatabase by default. */
  readonly provide?: (t: Test, options: { readonly schema: string }) => Promise<Database>
  /** Environment variables. They override those of `testEnvironment`. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether to create the table of idempotency keys. */
  readonly keys?: boolean
  /** Replaces the login URL, for example by one that leads through a proxy. */
  readonly databaseUrl?: (loginUrl: string) => string
  /** Returns DATABASE_REPLICA_URL for a login URL. */
  readonly replicaUrl?: (loginUrl: string) => string
  /** Creates spans; none by default. */
  readonly tracerProvider?: AppOptions['tracerProvider']
  /** Named batches instead of those of BATCHES_DIR: the content of each file, by name. */
  readonly batches?: Readonly<Record<string, unknown>>
}

/** Starts the service. The end of `t` stops it. */
export async function useService (
  t: Test,
  {
    schema,
    provide = useDatabase,
    env = {},
    keys = false,
    databaseUrl = url => url,
    replicaUrl,
    tracerProvider,
    batches
  }: UseServiceOptions = {}
): Promise<ServiceUnderTest> {
  const database = await provide(t, { schema: schema ?? '' })
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
    ...modeEnvironment(),
    ...replicaUrl === undefined ? {} : { DATABASE_REPLICA_URL: replicaUrl(database.loginUrl) },
    ...env
  })
  const service = await startService({
    ...settings,
    batches: openBatches(batches, settings.config),
    logger: pino({ level: settings.config.LOG_LEVEL }, sink),
    tracerProvider
  })
  t.teardown(() => service.stop())
  const send = async (
    path: string,
    body: unknown,
    { role = 'oneflight_user', headers = {} }: PostOptions = {}
  ): Promise<Answer> => {
    const answer = await postText(`${service.url}${path}`, {
      'content-type': 'application/json',
      ...(role === null ? {} : { authorization: `Bearer ${token({ role })}` }),
      ...headers
    }, typeof body === 'string' ? body : JSON.stringify(body))
    checkSchema(answer)
    return answer
  }
  return {
    ...service,
    database,
    log,
    useAnother: async (t, options) => useService(t, { ...options, provide: async () => database }),
    post: async (batch, options) => send('', batch, options),
    run: async (name, parameters, options) => send(`/batches/${name}`, parameters, options)
  }
}

function openBatches (
  files: UseServiceOptions['batches'],
  config: Config
): Pick<BatchSet, 'current'> {
  if (files !== undefined) {
    const batches = readBatches(files, batchLimits(config))
    return { current: () => batches }
  }
  return openBatchSet(config)
}

/** Reads the content of files of named batches, by name. */
export function readBatches (
  files: NonNullable<UseServiceOptions['batches']>,
  limits: BatchLimits
): NamedBatches {
  return new Map(
    Object.entries(files).map(([name, content]) => {
      const read = readNamedBatch(`${name}.json`, Buffer.from(JSON.stringify(content)), limits)
      if ('issues' in read) throw new Error(read.issues.join('\n'))
      return [name, read.batch]
    })
  )
}

/** Makes the encoding of successful responses fail until the end of `t`, as for too large ones. */
export function forbidAnswers (t: Test): void {
  const from = Buffer.from as (content: unknown, ...more: readonly unknown[]) => Buffer
  t.intercept(Buffer, 'from', {
    value: (content: unknown, ...more: readonly unknown[]) => {
      if (typeof content === 'string' && /^\{"(?:error":null|committed":true)/.test(content)) {
        throw new RangeError('too large')
      }
      return from.call(Buffer, content, ...more)
    }
  })
}

/** Removes the pauses before retries until the end of `t`. */
export function retryAtOnce (t: Test): void {
  t.intercept(Math, 'random', { value: () => 0 })
}

export async function ask (url: string, init?: RequestInit): Promise<Answer> {
  // A kept connection would delay every stop of the service by its grace period.
  const response = await fetch(url, { ...init, headers: { connection: 'close', ...init?.headers } })
  return toAnswer(response, await response.text())
}

/** Posts a text, in a third of the processor time that fetch takes. */
async function postText (
  ...request: Parameters<typeof postUnread>
): Promise<Answer> {
  const response = await postUnread(...request)
  const answered = new Headers()
  for (let i = 0; i < response.rawHeaders.length; i += 2) {
    answered.append(response.rawHeaders[i] as string, response.rawHeaders[i + 1] as string)
  }
  const status = response.statusCode as number
  return toAnswer({ status, headers: answered }, await readText(response))
}

/** Posts a text. Returns the response as soon as its headers arrive. */
export async function postUnread (
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string
): Promise<IncomingMessage> {
  const bytes = Buffer.from(body) // a text would be sent as UTF-8 together with the headers
  const sent = request(url, {
    method: 'POST',
    agent: false,
    headers: { 'content-length': bytes.length, ...headers }
  })
  // A response may come before the end of the request, and the end of the connection after it.
  sent.on('error', () => {})
  sent.end(bytes)
  const [response] = await once(sent, 'response') as [IncomingMessage]
  return response.on('error', () => {})
}

function toAnswer (
  { status, headers }: Pick<Answer, 'status' | 'headers'>,
  text: string
): Answer {
  const json = headers.get('content-type')?.startsWith('application/json') === true && text !== ''
  return { status, headers, text, body: json ? JSON.parse(text) : undefined }
}

/** Checks that a response has the shape that schemas/ describes. */
function checkSchema ({ status, body, text }: Answer): void {
  if (!Value.Check(status === 200 ? BatchAnswer : ErrorEnvelope, body)) {
    const start = text.slice(0, 500)
    throw new Error(`response with status ${status} does not match its schema: ${start}`)
  }
}

/** Asserts that a response is the stored one of an earlier request. */
export function expectReplay (t: Test, again: Answer, first: Answer, name = 'replay'): void {
  t.same([again.status, again.headers.get('idempotent-replayed')], [200, 'true'], name)
  t.ok(again.text === first.text, `${name}: the same bytes`)
}

/** Resolves when a GET of `url` returns 200. */
export async function answering (url: string): Promise<void> {
  await until(async () => (await ask(url)).status === 200)
}

/** Resolves when the main server accepts no more connections. */
export async function refusing ({ url }: Pick<ServiceUnderTest, 'url'>): Promise<void> {
  await until(() => ask(`${url}/nothing`).then(() => false, () => true))
}

/** Returns a gauge from /metrics. Gauges of pools are those of the primary. */
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

/** The numbers of retries by reason, without those that are 0. */
export async function retriesOf (
  { adminUrl }: Pick<ServiceUnderTest, 'adminUrl'>
): Promise<Readonly<Record<string, number>>> {
  const { text } = await ask(`${adminUrl}/metrics`)
  const counts = text.matchAll(/^service_txn_retry_count\{reason="(\w+)"\} (\d+)/gm)
  return Object.fromEntries(
    [...counts].map(([, reason, count]) => [reason as string, Number(count)])
  )
}
