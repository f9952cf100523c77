/**
 * Builds the HTTP request of `oneflight run` from its options and the environment.
 */
import { validateHeaderValue } from 'node:http'
import { UsageError } from './arguments.ts'
import { commands, type OptionItem, type RunOptions } from './commands.ts'
import type { CliContext } from './context.ts'
import { readBytes } from './input.ts'
import type { HttpRequest } from './send.ts'

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
