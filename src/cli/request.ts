/**
 * The HTTP request of `oneflight run`: built from its options and the environment, sent, and its
 * response interpreted.
 */
import { validateHeaderValue, request as requestHttp, type IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { buffer } from 'node:stream/consumers'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { BatchAnswer } from '../../schemas/batch.ts'
import { ErrorObject } from '../../schemas/error.ts'
import { childrenOf, membersOf, parseJsonText, sourceOf, type JsonNode } from '../json/json-text.ts'
import { tryParse } from '../json/try-parse.ts'
import { UsageError } from './arguments.ts'
import { commands, type OptionItem, type RunOptions } from './commands.ts'
import { readBytes } from './input.ts'
import type { Row } from './result.ts'
import type { CliContext } from './terminal.ts'

const MAX_SECONDS = 86_400

/** Builds the request without its body. Throws a UsageError for an invalid option. */
export async function buildRequest (
  options: RunOptions,
  env: CliContext['env']
): Promise<Omit<HttpRequest, 'body'>> {
  return {
    url: readUrl(options, env),
    headers: await buildHeaders(options, env),
    timeoutMs: readTimeout(options, env)
  }
}

function readUrl (options: RunOptions, env: CliContext['env']): URL {
  const text = valueOf('url', options, env) as string
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError(`invalid --url "${text}" (expected an http:// or https:// URL)`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('--url must not contain a user or password: the service expects a token')
  }
  return url
}

function readTimeout (options: RunOptions, env: CliContext['env']): number {
  const text = valueOf('timeout', options, env) as string
  const seconds = /^\d{1,5}(?:\.\d{1,3})?$/.test(text) ? Number(text) : 0
  if (seconds === 0 || seconds > MAX_SECONDS) {
    throw new UsageError(
      `invalid --timeout "${text}" (expected seconds: more than 0, at most ${MAX_SECONDS})`
    )
  }
  return Math.round(seconds * 1000)
}

async function buildHeaders (
  options: RunOptions,
  env: CliContext['env']
): Promise<Record<string, string>> {
  const token = await readToken(options, env)
  const headers = Object.entries({
    authorization: token === undefined ? undefined : `Bearer ${token}`,
    prefer: buildPreferences(options),
    'idempotency-key': options['idempotency-key'],
    'x-request-id': options['request-id']
  }).filter((header): header is [string, string] => header[1] !== undefined)
  for (const [name, value] of headers) checkHeader(name, value)
  return Object.fromEntries(headers)
}

/**
 * `handling=strict`: a service that does not know a preference must not run the batch without it.
 */
function buildPreferences (options: RunOptions): string {
  return [
    'handling=strict',
    ...options['dry-run'] === true ? ['tx=rollback'] : [],
    ...options['read-only'] === true ? ['access=read-only'] : [],
    ...options.isolation === undefined ? [] : [`isolation=${options.isolation}`],
    ...options.explain === true ? ['explain'] : [],
    ...options.timing === true ? ['timing'] : []
  ].join(', ')
}

/** The token without surrounding white space; undefined when there is none. */
async function readToken (
  options: RunOptions,
  env: CliContext['env']
): Promise<string | undefined> {
  const { token, 'token-file': file } = options
  if (token !== undefined && file !== undefined) {
    throw new UsageError('--token and --token-file cannot be used together')
  }
  const text = file === undefined
    ? valueOf('token', options, env)
    : (await readBytes(file)).toString()
  return text?.trim() || undefined
}

/** The message does not contain the value: it may be a token. */
function checkHeader (name: string, value: string): void {
  try {
    validateHeaderValue(name, value)
  } catch {
    throw new UsageError(`invalid character in the value of the ${name} header`)
  }
}

/** The option, else its environment variable, else its default. An empty variable is unset. */
function valueOf (
  name: 'url' | 'token' | 'timeout',
  options: RunOptions,
  env: CliContext['env']
): string | undefined {
  const { env: variable = '', default: fallback } = commands.run.options[name] as OptionItem
  return options[name] ?? (env[variable] || fallback)
}

interface HttpRequest {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly timeoutMs: number
}

interface HttpResponse {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** No response, or an incomplete one. */
export interface LostResponse {
  /** The service may have received the batch. */
  readonly sent: boolean
  /** Status of the incomplete response. */
  readonly status: number | undefined
  readonly reason: string
}

/** Posts a batch on a new connection. Never rejects. */
export async function send (
  { url, headers, body, timeoutMs }: HttpRequest
): Promise<HttpResponse | LostResponse> {
  const signal = AbortSignal.timeout(timeoutMs)
  let [sent, status]: [boolean, number | undefined] = [false, undefined]
  try {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const secure = url.protocol === 'https:'
    const options = {
      method: 'POST',
      agent: false,
      signal,
      headers: { ...headers, 'content-type': 'application/json', 'content-length': body.length }
    }
    const sending = (secure ? requestHttps : requestHttp)(url, options, resolve)
    sending.on('error', reject).on(
      'socket',
      socket =>
        socket.once(secure ? 'secureConnect' : 'connect', () => {
          sent = true
        })
    )
    sending.end(body)
    const response = await promise
    status = response.statusCode as number
    return { status, headers: response.headers, body: await buffer(response) }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    // The error of several addresses that all refuse has a code, but no message.
    return {
      sent,
      status,
      reason: signal.aborted ? `no response within ${timeoutMs / 1000} s` : message || String(code)
    }
  }
}

export interface Result {
  readonly id: string
  /** JSON text as it was sent. */
  readonly source: string
  readonly rows: readonly Row[]
}

export type BatchResponse =
  /** `results` returns undefined when the values nest too deep to be split into rows. */
  | { readonly kind: 'results', results(): readonly Result[] | undefined }
  | { readonly kind: 'error', readonly error: ErrorObject }
  /** Not sent by the service, but by a proxy for example. */
  | { readonly kind: 'foreign' }

/** The members of an error that are read. A later version may send more. */
const AnyError = Type.Object({
  error: Type.Pick(ErrorObject, ['code', 'message', 'committed', 'request_id'])
})

export function readResponse ({ status, body }: HttpResponse): BatchResponse {
  const text = body.toString()
  const value = tryParse(text)
  if (status === 200 && Value.Check(BatchAnswer, value)) {
    return { kind: 'results', results: () => readResults(text) }
  }
  return status !== 200 && Value.Check(AnyError, value)
    ? { kind: 'error', error: value.error as ErrorObject }
    : { kind: 'foreign' }
}

function readResults (text: string): readonly Result[] | undefined {
  const root = parseJsonText(text)
  if (root === undefined) return undefined
  const { data } = Object.fromEntries(membersOf(root)) as { data: JsonNode }
  return membersOf(data).map(([id, rows]) => ({
    id,
    source: sourceOf(text, rows),
    rows: childrenOf(rows).map(row =>
      new Map(membersOf(row).map(([name, value]) => [name, sourceOf(text, value)]))
    )
  }))
}
