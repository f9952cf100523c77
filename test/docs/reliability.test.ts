/**
 * Tests docs/operations/reliability.md: the curl commands return the printed responses, the client
 * retries as described, and the tables have the codes, variables and defaults of the service.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, STATUS_CODES, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { configItems } from '../../schemas/config.ts'
import { catalogue } from '../../src/errors/catalogue.ts'
import { conditions } from '../../src/errors/conditions.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'
import { codeBlocks, compact, type CodeBlock } from '../support/docs/markdown.ts'
import { token, type ServiceUnderTest } from '../support/service.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const page = read('docs/operations/reliability.md')
const blocks = codeBlocks(page)

/** A token for the customer of the token that `npm run dev` prints. */
const bearer = (): string => token(CUSTOMER)

const useShop = (t: Test): Promise<ServiceUnderTest> => useShopService(t, { keys: true })

const CURL =
  /^curl -i http:\/\/127\.0\.0\.1:4000 ((?:-H (?:'[^']*'|"[^"]*") )+)-d @(examples\/[a-z-]+\.json)$/

/** Reads headers and file from a curl command. Throws an Error for any other command. */
function readCurl (
  line: string
): { readonly headers: Record<string, string>, readonly file: string } {
  const [, sent = '', file = ''] = CURL.exec(line.replace(/\s*\\\n\s*/g, ' ')) ?? []
  if (file === '') throw new Error(`unexpected curl command: ${line}`)
  const headers: Record<string, string> = {}
  for (const [, name = '', value = ''] of sent.matchAll(/-H ['"](.*?): (.*?)['"] /g)) {
    headers[name.toLowerCase()] = value.replace('$ONEFLIGHT_TOKEN', bearer())
  }
  return { headers, file }
}

t.test('the curl commands return the printed responses', async t => {
  const service = await useShop(t)
  const lines = blocks.flatMap((block, i) =>
    block.language === 'sh' ? [[block, blocks[i + 1], blocks[i + 2]] as const] : []
  )
  t.equal(lines.length, 4)
  for (const [line, head, answer] of lines) {
    const { headers, file } = readCurl(line.text)
    const { status, headers: sent, text } = await service.post(read(file), { role: null, headers })
    const name = `${headers['idempotency-key']} ${headers['prefer'] ?? ''} ${file}`
    const [first, ...printed] = (head as CodeBlock).text.split('\n')
    t.equal(`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, first, name)
    for (const [header = '', value] of printed.map(line => line.split(': '))) {
      t.equal(sent.get(header), value, `${name}, ${header}`)
    }
    t.equal(
      sent.has('idempotent-replayed'),
      printed.some(line => line.startsWith('Idempotent-Replayed')),
      `${name}, replayed or not`
    )
    t.equal(compact(text), compact((answer as CodeBlock).text), name)
  }
  const [counted] = await service.database.sql`select count(*)::int as transfers from transfers`
  t.same(counted, { transfers: 1 }, 'exactly one command transfers money')
})

interface Received {
  readonly key: string
  readonly body: string
}
/**
 * How the gateway handles one attempt. `lost`: it forwards the request and drops the response.
 * `unknown`: it forwards the request and returns commit_unknown.
 */
type Behaviour = 'lost' | 'unknown' | 'refused' | 'garbled' | 'busy' | 'forwarded'

/**
 * Starts a gateway between client and service that treats each attempt as `behaviours` says and
 * forwards all later ones.
 */
async function useGateway (
  t: Test,
  service: ServiceUnderTest,
  behaviours: readonly Behaviour[]
): Promise<{ readonly url: string, readonly received: readonly Received[] }> {
  const received: Received[] = []
  const forward = async (request: IncomingMessage, body: string) => {
    const { authorization = '', 'idempotency-key': key = '' } = request.headers
    return service.post(body, {
      role: null,
      headers: { authorization, 'idempotency-key': String(key) }
    })
  }
  const error = (code: string, more: object = {}): string =>
    JSON.stringify({ error: { code, committed: false, ...more }, data: null })
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const behaviour = behaviours[received.length] ?? 'forwarded'
    received.push({ key: String(request.headers['idempotency-key']), body })
    response.setHeader('connection', 'close')
    if (behaviour === 'lost') {
      await forward(request, body)
      response.destroy()
    } else if (behaviour === 'refused') {
      response.writeHead(503, { 'retry-after': '1' }).end(error('overloaded'))
    } else if (behaviour === 'unknown') {
      await forward(request, body)
      response.writeHead(500).end(error('commit_unknown', { committed: 'unknown' }))
    } else if (behaviour === 'garbled') response.writeHead(502).end('<html>Bad Gateway</html>')
    else if (behaviour === 'busy') {
      response.writeHead(409).end(error('idempotency_key_in_progress', { retryable: true }))
    } else {
      const { status, text } = await forward(request, body)
      response.writeHead(status).end(text)
    }
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}

t.test('the example client retries safely', async t => {
  const service = await useShop(t)
  const file = `${
    t.testdir({ 'send.mjs': blocks.find(({ language }) => language === 'js')?.text ?? '' })
  }/send.mjs`
  const { send } = await import(pathToFileURL(file).href) as {
    send: (url: string, token: string, body: string, key?: string) => Promise<string>
  }
  const transfer = read('examples/transfer.json')
  const transfers = async (): Promise<unknown> =>
    (await service.database.sql`select count(*)::int as n from transfers`)[0]?.['n']

  await t.test('it repeats the request until the outcome is known; it is applied once', async t => {
    const behaviours = ['refused', 'unknown', 'lost', 'garbled', 'busy', 'lost'] as const
    const { url, received } = await useGateway(t, service, behaviours)
    const answer = await send(url, bearer(), transfer)
    t.match(JSON.parse(answer), { error: null, data: { transfer: [{ amount: 25 }] } })
    t.equal(received.length, behaviours.length + 1)
    t.equal(new Set(received.map(({ key, body }) => `${key} ${body}`)).size, 1)
    t.equal(await transfers(), 1)
  })

  await t.test('it does not repeat a request after a final error', async t => {
    const { url, received } = await useGateway(t, service, [])
    await t.rejects(send(url, bearer(), transfer.replaceAll('25', '1000')), {
      code: 'expectation_failed',
      op: 'from',
      committed: false
    })
    t.equal(received.length, 1)
    t.equal(await transfers(), 1)
  })

  await t.test('it uses a new key for each call', async t => {
    const { url, received } = await useGateway(t, service, [])
    await send(url, bearer(), transfer)
    await send(url, bearer(), transfer)
    t.equal(new Set(received.map(({ key }) => key)).size, 2)
    t.equal(await transfers(), 3)
  })
})

/** Returns the cells of the table whose header begins with `head`, by row. */
function tableOf (head: string): ReadonlyArray<readonly string[]> {
  const [, , ...rows] =
    page.slice(page.indexOf(`\n| ${head} |`) + 1).split('\n\n')[0]?.split('\n') ?? []
  return rows.map(row => row.split('|').slice(1, -1).map(cell => cell.trim()))
}

/** Words in backticks. */
const quoted = (text: string): readonly string[] =>
  Array.from(text.matchAll(/`([^`]+)`/g), ([, word]) => word as string)

t.test('the table of retries lists every code that may be retried, with its status', async t => {
  const rows = tableOf('Status and code')
  const known = new Map<string, number | undefined>([
    ...Array.from(conditions.values(), name => [name, undefined] as const),
    ...Object.entries(catalogue).map(([code, { status }]) => [code, status] as const)
  ])
  const named = new Map(
    rows.flatMap(([first = '']) => quoted(first).map(code => [code, first] as const))
  )
  t.not(named.size, 0)
  for (const [code, cell] of named) {
    t.ok(known.has(code), code)
    const status = known.get(code)
    if (status !== undefined) {
      t.match(cell, new RegExp(`\\b${status}\\b`), `${code} has status ${status}`)
    }
  }
  const expected = Object.entries(catalogue).filter(([, { status }]) =>
    status >= 500 || status === 409 || status === 408
  )
  for (const [code] of expected) t.ok(named.has(code), `${code} is in the table`)
  const statuses = new Set(
    rows.flatMap(([first = '']) => first.match(/\b[45]\d\d\b/g) ?? []).map(Number)
  )
  for (const [code, { status }] of Object.entries(catalogue)) {
    t.ok(statuses.has(status) || code === 'client_closed_request', `${code}, ${status}`)
  }
})

t.test('the named variables exist and have the printed defaults', async t => {
  const items = new Map<string, unknown>(configItems.map(([name, item]) => [name, item.default]))
  for (const [wait = '', variable = '', shown = ''] of tableOf('Wait')) {
    const [name = ''] = quoted(variable)
    if (name.toUpperCase() === name) t.equal(quoted(shown)[0], String(items.get(name)), wait)
  }
  const otherVariables = ['DATABASE_URL', 'MIGRATE_DATABASE_URL']
  const named = new Set(page.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g))
  const ours = [...named].filter(name =>
    /^(?:MAX|POOL|QUEUE|STATEMENT|LOCK|IDLE|REQUEST|SHUTDOWN|PREPARED|IDEMPOTENCY|DATABASE|MIGRATE)_/
      .test(name)
  )
  t.not(ours.length, 0)
  for (const name of ours) t.ok(items.has(name) || otherVariables.includes(name), name)
})

t.test('links to sections of the page and named files are valid', async t => {
  const anchors = new Set(
    Array.from(
      page.matchAll(/^#+ (.*)$/gm),
      ([, heading = '']) => heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-')
    )
  )
  const targets = [
    ...page.matchAll(/\]\(#([^)]+)\)/g),
    ...read('README.md').matchAll(/\]\(docs\/operations\/reliability\.md#([^)]+)\)/g)
  ].map(([, anchor]) => anchor as string)
  t.not(targets.length, 0)
  for (const anchor of targets) t.ok(anchors.has(anchor), anchor)
  const files = [
    'README.md',
    'deploy/migrate.sql',
    'deploy/shop.sql',
    'examples/transfer.json',
    'examples/order.json'
  ]
  for (const path of files) t.doesNotThrow(() => read(path), path)
})
