/**
 * Calls tools of a service under test: with the client of the SDK, or with messages as text.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { Test } from 'tap'
import { ask, token, type Answer, type ServiceUnderTest } from './service.ts'

type Served = Pick<ServiceUnderTest, 'url'>

export interface ConnectOptions {
  /** `legacy`: the protocol before 2026-07-28. */
  readonly mode?: 'legacy' | 'auto'
  readonly claims?: object
}

/** Connects the client of the SDK. The end of `t` closes it. */
export async function connectAgent (
  t: Test,
  { url }: Served,
  { mode = 'auto', claims = { role: 'oneflight_user' } }: ConnectOptions = {}
): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  const authorization = `Bearer ${token({ ...claims })}`
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), {
    requestInit: { headers: { authorization, connection: 'close' } }
  }))
  t.teardown(() => client.close())
  return client
}

/** The result of a tool: its text, and the JSON of the text. */
export interface ToolAnswer {
  readonly isError: boolean
  readonly text: string
  readonly value: any
}

export async function callTool (
  client: Client,
  name: string,
  given: Record<string, unknown> = {}
): Promise<ToolAnswer> {
  const { content, isError = false } = await client.callTool({ name, arguments: given })
  const [{ text } = { text: '' }] = content as ReadonlyArray<{ readonly text: string }>
  return { isError, text, value: JSON.parse(text) }
}

/** A call as JSON text, with the JSON text of its arguments and of its id. */
export function writeCall (name: string, given: string, id = '1'): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}",` +
    `"arguments":${given}}}`
}

export interface SendOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly role?: string | null
}

/** Sends a body to /mcp as it is. `role` null: without a token. */
export async function sendMessage (
  { url }: Served,
  body?: string,
  { method = 'POST', headers = {}, role = 'oneflight_user' }: SendOptions = {}
): Promise<Answer> {
  return await ask(`${url}/mcp`, {
    method,
    headers: {
      'content-type': 'application/json',
      ...role === null ? {} : { authorization: `Bearer ${token({ role })}` },
      ...headers
    },
    ...body === undefined ? {} : { body }
  })
}

export function readText ({ body }: Answer): string {
  return body.result.content[0].text
}
