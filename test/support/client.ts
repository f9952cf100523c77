/** Creates the typed client for a service under test, or with a fake fetch. */
import {
  createClient,
  OneflightError,
  type Client,
  type ClientOptions,
  type Fetch
} from '../../client/src/index.ts'
import { token, type ServiceUnderTest } from './service.ts'

type Options = Partial<Omit<ClientOptions, 'numbers'>>

/** Creates a client for the service, as `oneflight_user`, with short pauses between retries. */
export function useClient<Database> (
  service: Pick<ServiceUnderTest, 'url'>,
  options: Options = {}
): Client<Database> {
  return createClient<Database>(optionsFor(service, options))
}

/** The same, with numbers as bigint, without loss. */
export function useExactClient<Database> (
  service: Pick<ServiceUnderTest, 'url'>,
  options: Options = {}
): Client<Database, 'public', 'bigint'> {
  return createClient<Database>({ ...optionsFor(service, options), numbers: 'bigint' })
}

/** A kept connection would delay every stop of the service by its grace period. */
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

export interface RecordedRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly signal: AbortSignal
}

export type MakeResponse = (request: RecordedRequest) => Response | Promise<Response>

/**
 * Creates a fetch that returns these responses in order and repeats the last one. It records all
 * requests.
 */
export function fakeFetch (
  responses: readonly MakeResponse[]
): { readonly fetch: Fetch, readonly asked: RecordedRequest[] } {
  const asked: RecordedRequest[] = []
  return {
    asked,
    fetch: async (url, { headers, body, signal }) => {
      const request = {
        url,
        headers: headers as Record<string, string>,
        body: body as string,
        signal: signal as AbortSignal
      }
      const respond = responses[Math.min(asked.push(request), responses.length) - 1] as MakeResponse
      return respond(request)
    }
  }
}

/** A client that receives these responses, without pauses between retries, and its requests. */
export function fakeClient<Database> (responses: readonly MakeResponse[], options: Options = {}) {
  const { fetch, asked } = fakeFetch(responses)
  const retry = { minDelay: 0, maxDelay: 0 }
  const client = createClient<Database>({ url: 'http://127.0.0.1:9/', fetch, retry, ...options })
  return { client, asked }
}

/** The error of the client with which `sent` fails. */
export async function failure (sent: Promise<unknown>): Promise<OneflightError> {
  const error = await sent.then(() => new Error('it succeeded'), (error: unknown) => error)
  if (error instanceof OneflightError) return error
  throw error
}

/** Creates a successful response with these rows, by operation id. */
export function rows (
  data: object,
  headers: Readonly<Record<string, string>> = {}
): () => Response {
  return () =>
    Response.json({ error: null, data }, { headers: { 'x-request-id': 'fake', ...headers } })
}

export function refusal (
  status: number,
  error: object,
  headers: Readonly<Record<string, string>> = {}
): () => Response {
  const common = { type: 'service_error', message: 'No.', committed: false, request_id: 'fake' }
  return () => Response.json({ error: { ...common, ...error }, data: null }, { status, headers })
}
