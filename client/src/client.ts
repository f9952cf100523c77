/**
 * The client: applies the options, sends a batch and returns its result.
 */
import { writeBatch, writeParameters } from './batch.ts'
import type { AnyDatabase } from './database.ts'
import { NDJSON, readPreferences, readServerTiming, requestHeaders } from './headers.ts'
import { parseAnswer, parseRow } from './numbers.ts'
import type { Batch, HasResult } from './operation.ts'
import type {
  AnyBatches,
  BatchOptions,
  BatchResult,
  ClientOptions,
  DataOf,
  NamedData,
  NamedRow,
  ParamsOf,
  Shape,
  StreamOptions,
  UploadOptions
} from './options.ts'
import { randomId } from './random.ts'
import { invalid } from './reference.ts'
import { send, type PreparedBatch } from './send.ts'
import { readRows } from './stream.ts'
import type { Numbers } from './values.ts'
import { canReplay, createBody, type UploadRows } from './upload.ts'
import { idempotencyKey } from './words.ts'

/** A client of one service, for one caller. It is stateless and cheap to create. */
export interface Client<
  Database,
  Schema extends string = 'public',
  Mode extends Numbers = 'number',
  Batches = AnyBatches
> {
  /**
   * Runs the operations that `build` calls, in their order, as one transaction. `data` has the
   * shape of its return value: an object of operations becomes an object of their rows. Rejects
   * with OneflightError. Nothing is applied then, unless `committed` is `'unknown'`.
   */
  batch<const Returned extends Shape, const Options extends BatchOptions = BatchOptions>(
    build: (batch: Batch<Database, Schema, Mode>) => Returned,
    options?: Options
  ): Promise<BatchResult<DataOf<Returned, Options>>>
  /**
   * Runs a named batch of the service with these parameters. `data` has the results by operation
   * id. Rejects as `batch` does, and with `params_invalid` if a parameter is invalid.
   */
  run<Name extends keyof Batches & string, const Options extends BatchOptions = BatchOptions>(
    name: Name,
    params: ParamsOf<Batches, Name>,
    options?: Options
  ): Promise<BatchResult<NamedData<Batches, Name, Options, Mode>>>
  /**
   * Reads the rows of one select while PostgreSQL reads them, more than a response may have. The
   * request is sent when the first row is requested. Each loop sends it again. Throws as `batch`
   * does, also between two rows: the rows before count only if the loop ends without an error.
   */
  stream<Row>(
    build: (batch: Batch<Database, Schema, Mode>) => HasResult<readonly Row[]>,
    options?: StreamOptions
  ): AsyncIterable<Row>
  /** Reads the rows of a named batch that is one select. */
  stream<Name extends keyof Batches & string>(
    name: Name,
    params: ParamsOf<Batches, Name>,
    options?: StreamOptions
  ): AsyncIterable<NamedRow<Batches, Name, Mode>>
  /**
   * Sends rows to a named batch, one JSON object a line, while they are read. The service must have
   * `MAX_UPLOAD_ROWS`. The rows of an array or of a function are read again for each attempt; those
   * of another iterable are sent once, without retries. Rejects as `run` does, also with what the
   * source of the rows throws; then nothing is applied.
   */
  upload<Name extends keyof Batches & string, const Options extends UploadOptions = UploadOptions>(
    name: Name,
    rows: UploadRows,
    options?: Options
  ): Promise<BatchResult<NamedData<Batches, Name, Options, Mode>>>
}

/** Without `strict`, every type contains null, and the types of rows become `{}`. */
type Strict = undefined extends string
  ? { readonly 'oneflight-client needs "strict": true in tsconfig.json': true }
  : unknown

/**
 * Creates a client of the service at `url`. `Database` is the output of
 * `oneflight types --database`, `supabase gen types typescript` or kysely-codegen, or your own
 * interface of tables. `Schema` is the first schema of the service's `DB_SCHEMAS`. Tables of this
 * schema can be named without it. `Batches` is the output of `oneflight types`.
 */
export function createClient<
  Database = AnyDatabase,
  Schema extends string = 'public',
  Batches = AnyBatches
> (
  options: Strict & ClientOptions & { readonly numbers: 'bigint' }
): Client<Database, Schema, 'bigint', Batches>
export function createClient<
  Database = AnyDatabase,
  Schema extends string = 'public',
  Batches = AnyBatches
> (
  options: Strict & ClientOptions & { readonly numbers?: 'number' }
): Client<Database, Schema, 'number', Batches>
export function createClient (client: ClientOptions): Client<AnyDatabase, string, Numbers> {
  return {
    async batch (
      build: (batch: Batch<AnyDatabase, string, Numbers>) => unknown,
      options: BatchOptions = {}
    ) {
      const { body, onlySelects, arrange } = writeBatch(build)
      const result = await post({ client, options, url: String(client.url), body, onlySelects })
      return { ...result, data: arrange(result.data) as never }
    },
    async run (name: string, params: unknown, options: BatchOptions = {}) {
      const url = urlOfBatch(String(client.url), name)
      const body = writeParameters(name, params)
      return await post({ client, options, url, body, onlySelects: false }) as never
    },
    stream (
      source: string | ((batch: Batch<AnyDatabase, string, Numbers>) => unknown),
      ...more: readonly unknown[]
    ) {
      const options = more[typeof source === 'string' ? 1 : 0] as StreamOptions | undefined
      const request = typeof source === 'string'
        ? { url: urlOfBatch(String(client.url), source), body: writeParameters(source, more[0]) }
        : { url: String(client.url), body: writeBatch(source).body }
      const prepared = prepare({
        client,
        options: options ?? {},
        onlySelects: true,
        streams: true,
        ...request
      })
      return { [Symbol.asyncIterator]: () => readRows(prepared) as AsyncGenerator<never> }
    },
    async upload (name: string, rows: UploadRows, { params, ...options }: UploadOptions = {}) {
      const url = addParameters(urlOfBatch(String(client.url), name), params)
      const body = () => createBody(name, rows)
      const once = canReplay(rows) ? {} : { retry: false as const }
      return await post({
        client,
        options: { ...options, ...once },
        url,
        body,
        onlySelects: false
      }) as never
    }
  }
}

function addParameters (url: string, params: UploadOptions['params'] = {}): string {
  const [before, fragment] = url.split(/(?=#)/, 2) as [string, string?]
  const query = Object.entries(params)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`)
  if (query.length === 0) return url
  return `${before}${before.includes('?') ? '&' : '?'}${query.join('&')}${fragment ?? ''}`
}

/** Appends the path of a named batch. The URL may have a path and a query. */
function urlOfBatch (url: string, name: string): string {
  const [path] = /^[^?#]*/.exec(url) as unknown as readonly [string]
  const end = path.endsWith('/') ? path.slice(0, -1) : path
  return `${end}/batches/${encodeURIComponent(name)}${url.slice(path.length)}`
}

/** Sends a request. Resolves with the results by operation id. */
async function post (
  options: PrepareOptions
): Promise<BatchResult<Readonly<Record<string, unknown>>>> {
  const prepared = prepare(options)
  const { data, headers, attempts } = await send(prepared)
  return {
    data,
    requestId: headers.get('x-request-id') ?? options.options.requestId,
    idempotencyKey: prepared.idempotencyKey,
    replayed: headers.get('idempotent-replayed') === 'true',
    txid: headers.get('oneflight-txid') ?? undefined,
    xid: readNumber(headers.get('oneflight-xid')),
    position: headers.get('oneflight-position') ?? undefined,
    preferenceApplied: readPreferences(headers.get('preference-applied')),
    serverTiming: readServerTiming(headers.get('server-timing')),
    attempts,
    headers
  }
}

/** A proxy may remove the header. */
function readNumber (text: string | null): number | undefined {
  return text === null ? undefined : Number(text)
}

interface PrepareOptions {
  readonly client: ClientOptions
  readonly options: BatchOptions
  readonly url: string
  readonly body: PreparedBatch['body']
  readonly onlySelects: boolean
  readonly streams?: boolean
}

/** Applies the default options. A batch that cannot commit anything gets no idempotency key. */
function prepare (
  { client, options, url, body, onlySelects, streams = false }: PrepareOptions
): PreparedBatch {
  const common = { ...client, ...options }
  const commitsNothing = onlySelects || options.dryRun === true || options.readOnly === true ||
    options.explain === true
  const key = options.idempotencyKey ??
    (common.idempotency === false || commitsNothing ? undefined : randomId())
  if (key !== undefined && !idempotencyKey.test(key)) {
    throw invalid(
      'An idempotency key must have 1 to 255 visible ASCII characters without spaces, and must ' +
        'not begin with a quotation mark.'
    )
  }
  const { attempts = 5, minDelay = 100, maxDelay = 5000 } = common.retry === false
    ? { attempts: 1 }
    : common.retry ?? {}
  return {
    url,
    // Read for each batch, so that a later replacement of the global fetch takes effect.
    fetch: client.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    headers: {
      ...requestHeaders(client, options, {
        idempotencyKey: key,
        accept: streams ? NDJSON : undefined
      }),
      ...typeof body === 'function' && { 'content-type': NDJSON }
    },
    body,
    token: client.token,
    idempotencyKey: key,
    requestId: options.requestId,
    commitsNothing,
    streams,
    parse: text => (streams ? parseRow : parseAnswer)(text, client.numbers ?? 'number'),
    signal: options.signal,
    timeout: common.timeout ?? 60_000,
    attemptTimeout: common.attemptTimeout ?? 35_000,
    attempts,
    minDelay,
    maxDelay
  }
}
