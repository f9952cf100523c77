/**
 * `oneflight run`: one batch to a running service, its answer to people or to the next program. In
 * charge of the exit code: 0 committed, 1 nothing is, 3 nobody knows. The batch is not looked at
 * before it is sent; the service does that.
 */
import { validateHeaderValue } from 'node:http'
import type { ErrorObject } from '../../schemas/error.ts'
import { indentJson } from '../json/source.ts'
import { readAnswer, type Result } from './response.ts'
import { UsageError } from './arguments.ts'
import { describeFaults, readBatchText, type BatchText } from './batch.ts'
import { commands, type OptionItem, type RunOptions } from './commands.ts'
import { readBytes, readInput } from './input.ts'
import { send, type Loss, type Message } from './send.ts'
import { renderTable } from './table.ts'
import { count, visible } from './text.ts'
import type { CliContext } from './context.ts'

/**
 * Sends `file` and prints the answer. Resolves with the exit code; throws a UsageError when there
 * is nothing to be sent.
 */
export async function run (
  options: RunOptions,
  file: string,
  { env, stdin, stdout, stderr }: CliContext
): Promise<number> {
  if (options.table === true && options.json === true) {
    throw new UsageError('--table and --json are two forms of one answer: take one')
  }
  const message = {
    url: readUrl(options, env),
    headers: await readHeaders(options, env),
    timeoutMs: readTimeout(options, env)
  }
  const input = await readInput(file, stdin)
  const batch = readBatchText(input)
  const tables = options.table ?? (options.json !== true && stdout.isTTY === true)
  const tell = (line: string): void => {
    stderr.write(`${visible(line)}\n`)
  }

  const answer = await send({ ...message, body: input.bytes })
  if ('reason' in answer) return judge(answer)
  const verdict = readAnswer(answer)
  if (verdict.kind === 'foreign') {
    return judge({
      sent: true,
      status: undefined,
      reason: `what answered ${answer.status} is not the service`
    })
  }
  if (!tables) stdout.write(answer.body)
  const timing = answer.headers['server-timing']
  if (options.timing === true && timing !== undefined) tell(`Server-Timing: ${String(timing)}`)
  if (verdict.kind === 'refused') {
    for (const line of describeError(verdict.error, batch)) tell(line)
    return verdict.error.committed === 'unknown' ? 3 : 1
  }
  if (tables) {
    stdout.write(
      verdict.results().map(result =>
        renderResult(result, batch, { explain: options.explain === true, columns: stdout.columns })
      ).join('\n')
    )
  }
  if (options['dry-run'] === true) tell('oneflight: a dry run: nothing is committed')
  if (answer.headers['idempotent-replayed'] === 'true') {
    tell('oneflight: the batch was applied before, and this is the answer of that time')
  }
  return 0

  /** What there is to say without an answer. What commits nothing is never in doubt. */
  function judge ({ sent, status, reason }: Loss): number {
    const harmless = !sent ||
      [options['dry-run'], options['read-only'], options.explain].includes(true)
    const outcome = harmless
      ? 'nothing is committed'
      : status === 200
        ? 'the batch is committed, but its answer is lost'
        : 'it is not known whether the batch is committed'
    tell(`oneflight: ${message.url.href}: ${reason}: ${outcome}`)
    return harmless ? 1 : 3
  }
}

/** One line for each thing that is known, the last of which says what became of the batch. */
function describeError (error: ErrorObject, batch: BatchText): readonly string[] {
  const {
    code,
    message,
    errors,
    sqlstate,
    constraint,
    detail,
    hint,
    committed,
    retryable,
    request_id: requestId
  } = error
  const more = Object.entries({ sqlstate, constraint, detail, hint }).flatMap(([name, text]) =>
    text === undefined ? [] : [`  ${name}: ${text}`]
  )
  const outcome = committed === 'unknown'
    ? 'it is not known whether the batch is committed'
    : 'nothing is committed'
  return [
    ...errors === undefined ? [] : [`oneflight: ${code}: ${message}`],
    ...describeFaults(error, batch).map(line =>
      errors === undefined ? `oneflight: ${line}` : `  ${line}`
    ),
    ...more,
    `  ${outcome}; request ${requestId}${
      retryable === true ? '; the same batch may succeed when it is sent again' : ''
    }`
  ]
}

/** A title, and the rows; of `--explain` the plan. */
function renderResult (
  { id, source, rows }: Result,
  batch: BatchText,
  { explain, columns }: { readonly explain: boolean, readonly columns: number | undefined }
): string {
  const { title, silent } = batch.operation(id)
  const head = visible(`${id}: ${title}`)
  if (explain) return `${head}\n${visible(indentJson(source), { lines: true })}\n`
  return `${head}${silent ? '' : `, ${count(rows.length, 'row')}`}\n${renderTable(rows, columns)}`
}

function readUrl (options: RunOptions, env: CliContext['env']): URL {
  const text = valueOf('url', options, env) as string
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError(
      `--url takes an address that begins with http:// or https://, not "${text}"`
    )
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('--url takes no user and no password: the service knows tokens alone')
  }
  return url
}

const MAX_SECONDS = 86_400

function readTimeout (options: RunOptions, env: CliContext['env']): Message['timeoutMs'] {
  const text = valueOf('timeout', options, env) as string
  const seconds = /^\d{1,5}(?:\.\d{1,3})?$/.test(text) ? Number(text) : 0
  if (seconds === 0 || seconds > MAX_SECONDS) {
    throw new UsageError(
      `--timeout takes seconds, more than 0 and at most ${MAX_SECONDS}, not "${text}"`
    )
  }
  return Math.round(seconds * 1000)
}

async function readHeaders (
  options: RunOptions,
  env: CliContext['env']
): Promise<Record<string, string>> {
  const token = await readToken(options, env)
  const headers = Object.entries({
    authorization: token === undefined ? undefined : `Bearer ${token}`,
    prefer: writePreferences(options),
    'idempotency-key': options['idempotency-key'],
    'x-request-id': options['request-id']
  }).filter((header): header is [string, string] => header[1] !== undefined)
  for (const [name, value] of headers) checkHeader(name, value)
  return Object.fromEntries(headers)
}

/**
 * `handling=strict`: a service that does not know a preference must not run the batch without it.
 */
function writePreferences (options: RunOptions): string {
  return [
    'handling=strict',
    ...options['dry-run'] === true ? ['tx=rollback'] : [],
    ...options['read-only'] === true ? ['access=read-only'] : [],
    ...options.isolation === undefined ? [] : [`isolation=${options.isolation}`],
    ...options.explain === true ? ['explain'] : [],
    ...options.timing === true ? ['timing'] : []
  ].join(', ')
}

/** Without the white space around it that files end with; undefined: none is sent. */
async function readToken (
  options: RunOptions,
  env: CliContext['env']
): Promise<string | undefined> {
  const { token, 'token-file': file } = options
  if (token !== undefined && file !== undefined) {
    throw new UsageError('--token and --token-file both name a token: take one')
  }
  const text = file === undefined
    ? valueOf('token', options, env)
    : (await readBytes(file)).toString()
  return text?.trim() || undefined
}

/** Never shows the value: it may be a token. */
function checkHeader (name: string, value: string): void {
  try {
    validateHeaderValue(name, value)
  } catch {
    throw new UsageError(
      `the value of the header ${name} holds a character that no header may hold`
    )
  }
}

/**
 * What the option says, else its variable (an empty one counts as unset), else what stands in
 * commands.ts.
 */
function valueOf (
  name: 'url' | 'token' | 'timeout',
  options: RunOptions,
  env: CliContext['env']
): string | undefined {
  const { env: variable = '', otherwise } = commands.run.options[name] as OptionItem
  return options[name] ?? (env[variable] || otherwise)
}
