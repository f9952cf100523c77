/**
 * `POST /mcp`: named batches as tools of the Model Context Protocol (MCP=on). Each request is one
 * message and has its own token; there are no sessions and no streams.
 */
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CallToolResult } from '@modelcontextprotocol/server'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify'
import type { Config } from '../../schemas/config.ts'
import { mcpHeaders } from '../../schemas/http.ts'
import { Failure, failure } from '../../src/errors/catalogue.ts'
import { writeCanonically } from '../../src/json/canonical.ts'
import type { JsonObject } from '../../src/json/parse.ts'
import { answerMessage } from '../../src/mcp/answer-message.ts'
import { readMessage } from '../../src/mcp/message.ts'
import { describeFailure, readArguments, toTool } from '../../src/mcp/tools.ts'
import { planNamed } from '../../src/named/named-batch.ts'
import type { PlannedBatch } from '../../src/plan/plan-batch.ts'
import type { SetIdempotencyKey } from '../hooks/idempotency-key.ts'
import type { NamedAccess } from '../hooks/named-batches.ts'
import { readOutcome, renderBody, sendBody, type Answer } from './respond.ts'
import type { BatchRunner, Exchange } from './run-request.ts'

interface McpOptions {
  readonly config: Config
  readonly runner: BatchRunner
  readonly access: NamedAccess
  readonly setKey: SetIdempotencyKey
  readonly onRequest: onRequestHookHandler[]
}

const { version } = createRequire(import.meta.url)('oneflight/package.json') as {
  readonly version: string
}

export async function mcp (
  app: FastifyInstance,
  { config, runner, access, setKey, onRequest }: McpOptions
): Promise<void> {
  const verbose = config.ERROR_VERBOSITY === 'verbose'
  const run = async (
    exchange: Exchange,
    name: string,
    given: JsonObject
  ): Promise<readonly Buffer[]> => {
    const { request, reply, bytes } = exchange
    const batch = access.find(request, name)
    const { parameters, key } = readArguments(batch, given)
    if (key !== undefined || request.idempotencyKey !== undefined) {
      // The id of a message and the notation of its arguments differ when a call is repeated.
      setKey(request, writeCanonically(parameters), key)
    }
    const planned = (): PlannedBatch => planNamed(batch, parameters, bytes.length)
    return renderRows(reply, await runner.run(exchange, planned))
  }
  const hooks = [requireOrigin(config), ...onRequest]
  app.post('/mcp', { onRequest: hooks }, async (request, reply) => {
    const exchange = await runner.receive(request, reply)
    using work = exchange.work
    const { envelope, given } = readMessage(exchange.bytes)
    await work.next()
    /** The rows that replace ROWS in the text of the result; undefined: it has no ROWS. */
    let rows: readonly Buffer[] | undefined
    /** An unexpected error, which the SDK must not catch. */
    let fault: unknown
    const response = await answerMessage(envelope, headersOf(request), {
      version,
      list: () => access.list(request).map(toTool),
      async call (name) {
        try {
          rows = await run(exchange, name, given)
          return toResult(ROWS)
        } catch (error) {
          if (error instanceof Failure) return toErrorResult(error, request, verbose)
          fault = error
          return toResult('')
        }
      }
    })
    if (fault !== undefined) throw fault
    const text = await response.text()
    reply.code(response.status)
    return text === '' ? reply.send('') : sendBody(reply, await insertRows(text, rows))
  })
}

/**
 * Requests of web pages of other origins are refused, as the protocol requires. Their preflight is
 * refused as well, but a page may have the host name of the service (DNS rebinding).
 */
function requireOrigin ({ CORS_ORIGINS: origins = [] }: Config): onRequestHookHandler {
  return ({ headers: { origin } }, _reply, done) => {
    const isAllowed = origin === undefined || origins.includes('*') || origins.includes(origin)
    done(isAllowed ? undefined : failure('origin_forbidden'))
  }
}

function headersOf ({ headers }: FastifyRequest): Readonly<Record<string, string>> {
  return Object.fromEntries(mcpHeaders.flatMap(name => {
    const value = headers[name]
    return typeof value === 'string' ? [[name, value]] : []
  }))
}

/** The text of a result until insertRows replaces it. It has no character that JSON escapes. */
const ROWS = randomBytes(24).toString('base64url')

function toErrorResult (
  error: Failure,
  request: FastifyRequest,
  verbose: boolean
): CallToolResult {
  request.access.failure = error
  request.preferenceApplied = ''
  const hasKey = request.idempotencyKey !== undefined
  const text = describeFailure(error, { requestId: request.id, verbose, hasKey })
  return { ...toResult(text), isError: true }
}

function toResult (text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

/** `{"committed": true, "data": {…}}`, or throws the failure. */
function renderRows (reply: FastifyReply, answer: Answer): readonly Buffer[] {
  const { rows, replayed } = readOutcome(reply, answer)
  const note = replayed === true ? `"replayed":true,"note":${JSON.stringify(REPLAYED)},` : ''
  const head = `{"committed":${answer.result.mayCommit},${note}"data":{`
  return renderBody(answer.plan, rows, head)
}

const REPLAYED =
  'This is the result of an earlier call with this idempotency_key: its change is made. Nothing ' +
  'was done now. Only for a change in addition to it, choose a new idempotency_key.'

/** 1 MiB is escaped in about 4 ms. */
const CHUNK = 1024 * 1024

/** Puts rows into the message of the SDK, as JSON within a string of JSON. */
async function insertRows (
  message: string,
  rows: readonly Buffer[] = []
): Promise<readonly Buffer[]> {
  const [before, after = ''] = message.split(ROWS)
  const pieces: Buffer[] = [Buffer.from(before as string)]
  for (const piece of rows) {
    for (let start = 0; start < piece.length; start += CHUNK) {
      if (start > 0) await nextTurn()
      pieces.push(escape(piece.subarray(start, start + CHUNK)))
    }
  }
  return [...pieces, Buffer.from(after)]
}

/** As latin1, a byte beyond ASCII is a character that is not escaped. */
function escape (text: Buffer): Buffer {
  return Buffer.from(JSON.stringify(text.toString('latin1')).slice(1, -1), 'latin1')
}
