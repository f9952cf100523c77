/**
 * The client: applies the options, sends a batch and returns its result.
 */
import { writeBatch } from './batch.ts'
import type { AnyDatabase } from './database.ts'
import { readPreferences, readServerTiming, requestHeaders } from './headers.ts'
import { parseAnswer } from './numbers.ts'
import type { Batch } from './operation.ts'
import type { BatchOptions, BatchResult, ClientOptions, DataOf, Shape } from './options.ts'
import { randomId } from './random.ts'
import { invalid } from './reference.ts'
import { send, type PreparedBatch } from './send.ts'
import type { Numbers } from './values.ts'
import { idempotencyKey } from './words.ts'

/** A client of one service, for one caller. It is stateless and cheap to create. */
export interface Client<
  Database,
  Schema extends string = 'public',
  Mode extends Numbers = 'number'
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
}

/**
 * Creates a client of the service at `url`. `Database` is the output of
 * `supabase gen types typescript` or kysely-codegen, or your own interface of tables. `Schema` is
 * the first schema of the service's `DB_SCHEMAS`. Tables of this schema can be named without it.
 */
export function createClient<Database = AnyDatabase, Schema extends string = 'public'> (
  options: ClientOptions & { readonly numbers: 'bigint' }
): Client<Database, Schema, 'bigint'>
export function createClient<Database = AnyDatabase, Schema extends string = 'public'> (
  options: ClientOptions & { readonly numbers?: 'number' }
): Client<Database, Schema>
export function createClient (client: ClientOptions): Client<AnyDatabase, string, Numbers> {
  return {
    async batch (
      build: (batch: Batch<AnyDatabase, string, Numbers>) => unknown,
      options: BatchOptions = {}
    ) {
      const { body, onlySelects, arrange } = writeBatch(build)
      const prepared = prepare({ client, options, body, onlySelects })
      const { data, headers, attempts } = await send(prepared)
      return {
        data: arrange(data) as never,
        requestId: headers.get('x-request-id') ?? options.requestId,
        idempotencyKey: prepared.idempotencyKey,
        replayed: headers.get('idempotent-replayed') === 'true',
        preferenceApplied: readPreferences(headers.get('preference-applied')),
        serverTiming: readServerTiming(headers.get('server-timing')),
        attempts,
        headers
      }
    }
  }
}

interface PrepareOptions {
  readonly client: ClientOptions
  readonly options: BatchOptions
  readonly body: string
  readonly onlySelects: boolean
}

/** Applies the default options. A batch that cannot commit anything gets no idempotency key. */
function prepare ({ client, options, body, onlySelects }: PrepareOptions): PreparedBatch {
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
    url: String(client.url),
    // Read for each batch, so that a later replacement of the global fetch takes effect.
    fetch: client.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    headers: requestHeaders(client, options, key),
    body,
    token: client.token,
    idempotencyKey: key,
    requestId: options.requestId,
    commitsNothing,
    parse: text => parseAnswer(text, client.numbers ?? 'number'),
    signal: options.signal,
    timeout: common.timeout ?? 60_000,
    attemptTimeout: common.attemptTimeout ?? 35_000,
    attempts,
    minDelay,
    maxDelay
  }
}
