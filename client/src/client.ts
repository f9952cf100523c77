/**
 * The client: options, and a batch from its function to its result.
 */
import { writeBatch } from './batch.ts'
import type { AnyDatabase } from './database.ts'
import { readPreferences, readServerTiming, requestHeaders } from './headers.ts'
import { parseAnswer } from './numbers.ts'
import type { Batch } from './operation.ts'
import type { BatchOptions, BatchResult, ClientOptions, DataOf, Shape } from './options.ts'
import { randomId } from './random.ts'
import { invalid } from './reference.ts'
import { send, type Sending } from './send.ts'
import type { Numbers } from './values.ts'
import { idempotencyKey } from './words.ts'

/** A client of one service, for one caller. It has no state: make as many as you like. */
export interface Client<
  Database,
  Schema extends string = 'public',
  Mode extends Numbers = 'number'
> {
  /**
   * Runs the operations that `build` calls, in their order, as one transaction. What `build`
   * returns names them: an object of operations is answered as an object of rows. Rejects with
   * OneflightError; then nothing has happened, unless `committed` is `'unknown'`.
   */
  batch<const Returned extends Shape, const Options extends BatchOptions = BatchOptions>(
    build: (batch: Batch<Database, Schema, Mode>) => Returned,
    options?: Options
  ): Promise<BatchResult<DataOf<Returned, Options>>>
}

/**
 * A client of the service at `url`. `Database` is what `supabase gen types typescript` or
 * kysely-codegen write, or an interface of tables written by hand; `Schema` is the one whose tables
 * need no schema in their names, the first one of the service's `DB_SCHEMAS`.
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
      const { body, selects, arrange } = writeBatch(build)
      const sending = prepare({ client, options, body, selects })
      const { data, headers, attempts } = await send(sending)
      return {
        data: arrange(data) as never,
        requestId: headers.get('x-request-id') ?? options.requestId,
        idempotencyKey: sending.idempotencyKey,
        replayed: headers.get('idempotent-replayed') === 'true',
        preferenceApplied: readPreferences(headers.get('preference-applied')),
        serverTiming: readServerTiming(headers.get('server-timing')),
        attempts,
        headers
      }
    }
  }
}

interface Prepared {
  readonly client: ClientOptions
  readonly options: BatchOptions
  readonly body: string
  readonly selects: boolean
}

/** Options with their defaults. What can commit nothing needs no key. */
function prepare ({ client, options, body, selects }: Prepared): Sending {
  const common = { ...client, ...options }
  const harmless = selects || options.dryRun === true || options.readOnly === true ||
    options.explain === true
  const key = options.idempotencyKey ??
    (common.idempotency === false || harmless ? undefined : randomId())
  if (key !== undefined && !idempotencyKey.test(key)) {
    throw invalid(
      'An idempotency key has 1 to 255 visible ASCII characters, no space, and does not ' +
        'begin with a quotation mark.'
    )
  }
  const { attempts = 5, minDelay = 100, maxDelay = 5000 } = common.retry === false
    ? { attempts: 1 }
    : common.retry ?? {}
  return {
    url: String(client.url),
    // Looked up for each batch, so that a fetch which is put into its place later is used.
    fetch: client.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    headers: requestHeaders(client, options, key),
    body,
    token: client.token,
    idempotencyKey: key,
    requestId: options.requestId,
    harmless,
    parse: text => parseAnswer(text, client.numbers ?? 'number'),
    signal: options.signal,
    timeout: common.timeout ?? 60_000,
    attemptTimeout: common.attemptTimeout ?? 35_000,
    attempts,
    minDelay,
    maxDelay
  }
}
