/**
 * The typed client against a service under test, and the types of the data of
 * docs/reference/language.md.
 *
 * In charge of: clients that close their connections, and a fetch that is made of answers.
 * Refuses to: know what the client does.
 */
import {
  createClient,
  type Client,
  type ClientOptions,
  type ColumnType,
  type Fetch,
  type Generated,
  type Json
} from '../../client/src/index.ts'
import { token, type ServiceUnderTest } from './service.ts'

/**
 * The tables of docs/reference/language.md as kysely-codegen would write them, with columns that
 * are answered as JSON.
 */
export interface LanguageDatabase {
  customers: { id: Generated<number>, name: string, email: string | null, city: Generated<string> }
  orders: {
    id: Generated<number>,
    customer_id: number,
    status: Generated<'open' | 'paid' | 'shipped'>,
    total: Generated<number>,
    paid: Generated<number>,
    placed: string | null,
    tags: Generated<string[]>,
    data: Generated<Json>
  }
  stock: { sku: string, qty: number, sold: Generated<number>, counted_at: string | null }
  bookings: { id: Generated<number>, room: string, during: string }
  articles: {
    id: Generated<number>,
    title: string,
    body: string,
    words: ColumnType<string, never, never>
  }
}

type Options = Partial<Omit<ClientOptions, 'numbers'>>

/**
 * A client of the service under test, as `oneflight_user`, that waits for no pause longer than it
 * must.
 */
export function useClient<Database> (
  service: Pick<ServiceUnderTest, 'url'>,
  options: Options = {}
): Client<Database> {
  return createClient<Database>(optionsFor(service, options))
}

/** The same, with numbers without loss. */
export function useExactClient<Database> (
  service: Pick<ServiceUnderTest, 'url'>,
  options: Options = {}
): Client<Database, 'public', 'bigint'> {
  return createClient<Database>({ ...optionsFor(service, options), numbers: 'bigint' })
}

/** A connection that is kept alive would make every stop of the service wait for its grace. */
function optionsFor (
  { url }: Pick<ServiceUnderTest, 'url'>,
  options: Options
): Options & Pick<ClientOptions, 'url'> {
  return {
    url,
    token: token({ role: 'oneflight_user' }),
    headers: { connection: 'close' },
    retry: { minDelay: 1, maxDelay: 5 },
    ...options
  }
}

/** One request of the client. */
export interface Asked {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: AbortSignal
}

/** Makes the answer to a request. */
export type MakeAnswer = (asked: Asked) => Response | Promise<Response>

/**
 * A fetch that gives these answers, one after the other; the last one again and again. What was
 * asked is kept.
 */
export function fakeFetch (
  answers: readonly MakeAnswer[]
): { readonly fetch: Fetch, readonly asked: Asked[] } {
  const asked: Asked[] = []
  return {
    asked,
    fetch: async (url, { headers, body, signal }) => {
      const one = {
        url,
        headers: headers as Record<string, string>,
        body: body as string,
        signal: signal as AbortSignal
      }
      const answer = answers[Math.min(asked.push(one), answers.length) - 1] as MakeAnswer
      return answer(one)
    }
  }
}

/** An answer of the service with these rows, by the ids of the batch. */
export function rows (
  data: object,
  headers: Readonly<Record<string, string>> = {}
): () => Response {
  return () =>
    new Response(JSON.stringify({ error: null, data }), {
      headers: { 'content-type': 'application/json', 'x-request-id': 'fake', ...headers }
    })
}

/** A refusal of the service. */
export function refusal (
  status: number,
  error: object,
  headers: Readonly<Record<string, string>> = {}
): () => Response {
  const envelope = {
    error: {
      type: 'service_error',
      message: 'No.',
      committed: false,
      request_id: 'fake',
      ...error
    },
    data: null
  }
  return () =>
    new Response(JSON.stringify(envelope), {
      status,
      headers: { 'content-type': 'application/json', ...headers }
    })
}
