/**
 * `oneflight run`: sends one batch to a running service and prints the response. The batch is not
 * validated first: the service does that. Exit codes: 0 committed, 1 not committed, 3 unknown.
 */
import type { ErrorObject } from '../../schemas/error.ts'
import { UsageError } from './arguments.ts'
import type { RunOptions } from './commands.ts'
import { describeIssues, readBatchText, type BatchText, readInput } from './input.ts'
import { buildRequest, readResponse, type Result, send, type LostResponse } from './request.ts'
import { renderQueryPlan, renderTable } from './result.ts'
import { type CliContext, showProgress, count, endLine, visible } from './terminal.ts'

/** Sends `file` and prints the response. Resolves with the exit code; throws a UsageError. */
export async function run (
  options: RunOptions,
  file: string,
  { env, stdin, stdout, stderr }: CliContext
): Promise<number> {
  if (options.table === true && options.json === true) {
    throw new UsageError('--table and --json cannot be used together')
  }
  const request = await buildRequest(options, env)
  const input = await readInput(file, stdin)
  const tables = options.table ?? (options.json !== true && stdout.isTTY === true)
  const log = (line: string): void => {
    stderr.write(`${visible(line)}\n`)
  }
  const lost = (loss: LostResponse): number => {
    const { outcome, code } = judgeLoss(loss, options)
    log(`oneflight: ${request.url.href}: ${loss.reason}: ${outcome}`)
    return code
  }

  const stopProgress = showProgress(stderr, 'waiting for the response')
  const answer = await send({ ...request, body: input.bytes })
  stopProgress()
  if ('reason' in answer) return lost(answer)
  const response = readResponse(answer)
  if (response.kind === 'foreign') {
    const reason = `response with status ${answer.status} is not from oneflight`
    return lost({ sent: true, status: undefined, reason })
  }
  const batch = readBatchText(input)
  if (!tables) stdout.write(endLine(answer.body))
  const timing = answer.headers['server-timing']
  if (options.timing === true && timing !== undefined) log(`Server-Timing: ${String(timing)}`)
  if (response.kind === 'error') {
    for (const line of describeError(response.error, batch)) log(line)
    return response.error.committed === 'unknown' ? 3 : 1
  }
  if (tables) {
    // Some terminals report a width of 0.
    const columns = stdout.columns === 0 ? 80 : stdout.columns
    const style = { explain: options.explain === true, columns }
    const results = response.results()?.map(result => renderResult(result, batch, style))
    stdout.write(results?.join('\n') ?? endLine(answer.body))
  }
  if (options['dry-run'] === true) log('oneflight: dry run: nothing was committed')
  if (answer.headers['idempotent-replayed'] === 'true') {
    log('oneflight: replayed: an earlier request with this idempotency key committed the batch')
  }
  return 0
}

function judgeLoss (
  { sent, status }: LostResponse,
  options: RunOptions
): { readonly outcome: string, readonly code: number } {
  if (!sent || [options['dry-run'], options['read-only'], options.explain].includes(true)) {
    return { outcome: 'nothing was committed', code: 1 }
  }
  return {
    outcome: status === 200
      ? 'the batch was committed, but its response was lost'
      : 'it is unknown whether the batch was committed',
    code: 3
  }
}

/** One line per fact. The last one states whether the batch was committed. */
function describeError (error: ErrorObject, batch: BatchText): readonly string[] {
  const { code, message, errors, sqlstate, constraint, detail, hint } = error
  const fields = Object.entries({ sqlstate, constraint, detail, hint }).flatMap(([name, text]) =>
    text === undefined ? [] : [`  ${name}: ${text}`]
  )
  const issues = describeIssues(error, batch)
  return [
    ...errors === undefined
      ? issues.map(line => `oneflight: ${line}`)
      : [`oneflight: ${code}: ${message}`, ...issues.map(line => `  ${line}`)],
    ...fields,
    describeOutcome(error)
  ]
}

function describeOutcome ({ committed, request_id: requestId, retryable }: ErrorObject): string {
  const outcome = committed === 'unknown'
    ? 'it is unknown whether the batch was committed'
    : 'nothing was committed'
  const retry = retryable === true ? '; a retry may succeed' : ''
  return `  ${outcome}; request ${requestId}${retry}`
}

function renderResult (
  { id, source, rows }: Result,
  batch: BatchText,
  { explain, columns }: { readonly explain: boolean, readonly columns: number | undefined }
): string {
  const { title, silent } = batch.operation(id)
  const head = visible(`${id}: ${title}`)
  if (explain) {
    return `${head}\n${visible(renderQueryPlan(source) ?? `${source}\n`, { lines: true })}`
  }
  return `${head}${silent ? '' : `, ${count(rows.length, 'row')}`}\n${renderTable(rows, columns)}`
}
