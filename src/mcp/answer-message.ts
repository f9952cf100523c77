/**
 * Answers one message with the SDK of the Model Context Protocol, as JSON and without a session.
 */
import {
  createMcpHandler,
  isLegacyRequest,
  Server,
  WebStandardStreamableHTTPServerTransport,
  type CallToolResult,
  type Tool
} from '@modelcontextprotocol/server'
import type { JsonObject } from '../json/parse.ts'

interface ToolHandlers {
  readonly version: string
  list(): readonly Tool[]
  /** Runs a tool, and never throws. */
  call(name: string): Promise<CallToolResult>
}

/** Those before these have arrays of messages. The SDK adds 2026-07-28. */
const VERSIONS = ['2025-11-25', '2025-06-18']

const instructions =
  'Each tool runs a reviewed batch of operations on a database as one transaction: all of it is ' +
  'applied, or nothing. Every result has "committed". Before you call a tool that changes data, ' +
  'choose a random idempotency_key. If you do not get the result of a call, repeat it with the ' +
  'same arguments and the same key: it is applied once. After an error, follow "repair".'

/** `headers`: those of the request that the protocol defines. */
export async function answerMessage (
  message: JsonObject,
  headers: Readonly<Record<string, string>>,
  handlers: ToolHandlers
): Promise<Response> {
  const server = createServer(handlers)
  // The SDK does not use the URL. It reads the body only without `parsedBody`.
  const request = new Request('http://localhost/mcp', {
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/json',
      // For the older protocol it would otherwise be an error to accept only JSON.
      accept: 'application/json, text/event-stream'
    }
  })
  const body = { parsedBody: message }
  if (await isLegacyRequest(request, message)) {
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
    await server.connect(transport)
    return await transport.handleRequest(request, body)
  }
  // A subscription would be a stream without end.
  const handler = createMcpHandler(() => server, { legacy: 'reject', maxSubscriptions: 0 })
  return await handler.fetch(request, body)
}

function createServer ({ version, list, call }: ToolHandlers): Server {
  const server = new Server({ name: 'oneflight', version }, {
    capabilities: { tools: {} },
    supportedProtocolVersions: VERSIONS,
    instructions
  })
  server.setRequestHandler('tools/list', () => ({ tools: [...list()] }))
  server.setRequestHandler('tools/call', ({ params }) => call(params.name))
  return server
}
