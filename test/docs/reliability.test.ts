/**
 * docs/operations/reliability.md: its curl lines answer as printed, its client repeats as it says,
 * and its tables name codes, variables and defaults as they are.
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
import { codeBlocks, compact, type CodeBlock } from '../support/docs/markdown.ts'
import { token, type ServiceUnderTest } from '../support/service.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const page = read('docs/operations/reliability.md')
const blocks = codeBlocks(page)

/** The token that `npm run dev` prints is of this customer. */
const bearer = (): string => token(CUSTOMER)

const useShop = (t: Test): Promise<ServiceUnderTest> => useShopService(t, { keys: true })

const CURL =
  /^curl -i http:\/\/127\.0\.0\.1:4000 ((?:-H (?:'[^']*'|"[^"]*") )+)-d @(examples\/[a-z-]+\.json)$/

/** What a curl line sends. */
function readCurl (
  line: string
): { readonly headers: Record<string, string>, readonly file: string } {
  const [, sent = '', file = ''] = CURL.exec(line.replace(/\s*\\\n\s*/g, ' ')) ?? []
  if (file === '') throw new Error(`not understood: ${line}`)
  const pairs = [...sent.matchAll(/-H ['"](.*?): (.*?)['"] /g)].map((
    [, name = '', value = '']
  ) => [name.toLowerCase(), value.replace('$TOKEN', bearer())])
  return { headers: Object.fromEntries(pairs) as Record<string, string>, file }
}

t.test('the curl lines', async t => {
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
      `${name}, whether it is a replay`
    )
    t.equal(compact(text), compact((answer as CodeBlock).text), name)
  }
  t.same(await service.database.sql`select count(*)::int as transfers from transfers`, [{
    transfers: 1
  }], 'one of them moved money')
})

interface Seen {
  readonly key: string
  readonly body: string
}
/**
 * What stands between client and service does with one try. `lost`: the batch is carried out, and
 * its answer does not come. `unknown`: another one does.
 */
type Fate = 'lost' | 'unknown' | 'refused' | 'garbled' | 'busy' | 'through'

/**
 * Something between client and service that meets each try with its fate; after these all go
 * through.
 */
async function useGateway (
  t: Test,
  service: ServiceUnderTest,
  fates: readonly Fate[]
): Promise<{ readonly url: string, readonly seen: readonly Seen[] }> {
  const seen: Seen[] = []
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
    const fate = fates[seen.length] ?? 'through'
    seen.push({ key: String(request.headers['idempotency-key']), body })
    response.setHeader('connection', 'close')
    if (fate === 'lost') {
      await forward(request, body)
      response.destroy()
    } else if (fate === 'refused') {
      response.writeHead(503, { 'retry-after': '1' }).end(error('overloaded'))
    } else if (fate === 'unknown') {
      await forward(request, body)
      response.writeHead(500).end(error('commit_unknown', { committed: 'unknown' }))
    } else if (fate === 'garbled') response.writeHead(502).end('<html>Bad Gateway</html>')
    else if (fate === 'busy') {
      response.writeHead(409).end(error('idempotency_key_in_progress', { retryable: true }))
    } else {
      const answer = await forward(request, body)
      response.writeHead(answer.status).end(answer.text)
    }
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

t.test('the client', async t => {
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

  await t.test('repeats the same until it is answered, and it happens once', async t => {
    const fates: readonly Fate[] = ['refused', 'unknown', 'lost', 'garbled', 'busy', 'lost']
    const { url, seen } = await useGateway(t, service, fates)
    const answer = await send(url, bearer(), transfer)
    t.match(JSON.parse(answer), { error: null, data: { transfer: [{ amount: 25 }] } })
    t.equal(seen.length, fates.length + 1)
    t.equal(new Set(seen.map(({ key, body }) => `${key} ${body}`)).size, 1)
    t.equal(await transfers(), 1)
  })

  await t.test('gives up at once when the answer is final', async t => {
    const { url, seen } = await useGateway(t, service, [])
    await t.rejects(send(url, bearer(), transfer.replaceAll('25', '1000')), {
      code: 'expectation_failed',
      op: 'from',
      committed: false
    })
    t.equal(seen.length, 1)
    t.equal(await transfers(), 1)
  })

  await t.test('takes another key for another intent', async t => {
    const { url, seen } = await useGateway(t, service, [])
    await send(url, bearer(), transfer)
    await send(url, bearer(), transfer)
    t.equal(new Set(seen.map(({ key }) => key)).size, 2)
    t.equal(await transfers(), 3)
  })
})

/** The rows of the table whose head begins with `head`, cell by cell. */
function tableOf (head: string): ReadonlyArray<readonly string[]> {
  const [, , ...rows] =
    page.slice(page.indexOf(`\n| ${head} |`) + 1).split('\n\n')[0]?.split('\n') ?? []
  return rows.map(row => row.split('|').slice(1, -1).map(cell => cell.trim()))
}

/** Words in backticks. */
const quoted = (text: string): readonly string[] =>
  Array.from(text.matchAll(/`([^`]+)`/g), ([, word]) => word as string)

t.test('the table of retries names each code that may be worth one, and its status', async t => {
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
      t.match(cell, new RegExp(`\\b${status}\\b`), `${code} is answered ${status}`)
    }
  }
  const wanted = Object.entries(catalogue).filter(([, { status }]) =>
    status >= 500 || status === 409 || status === 408
  )
  for (const [code] of wanted) t.ok(named.has(code), `${code} is in the table`)
  const statuses = new Set(
    rows.flatMap(([first = '']) => first.match(/\b[45]\d\d\b/g) ?? []).map(Number)
  )
  for (const [code, { status }] of Object.entries(catalogue)) {
    t.ok(statuses.has(status) || code === 'client_closed_request', `${code}, ${status}`)
  }
})

t.test('deadlines and other variables are as they are', async t => {
  const items = new Map<string, unknown>(configItems.map(([name, item]) => [name, item.default]))
  for (const [wait = '', variable = '', shown = ''] of tableOf('Wait')) {
    const [name = ''] = quoted(variable)
    if (name.toUpperCase() === name) t.equal(quoted(shown)[0], String(items.get(name)), wait)
  }
  const elsewhere = ['DATABASE_URL', 'MIGRATE_DATABASE_URL']
  const named = new Set(page.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g))
  const ours = [...named].filter(name =>
    /^(?:MAX|POOL|QUEUE|STATEMENT|LOCK|IDLE|REQUEST|SHUTDOWN|PREPARED|IDEMPOTENCY|DATABASE|MIGRATE)_/
      .test(name)
  )
  t.not(ours.length, 0)
  for (const name of ours) t.ok(items.has(name) || elsewhere.includes(name), name)
})

t.test('what the page points to is there, and what the README points to on it', async t => {
  const anchors = new Set(
    Array.from(
      page.matchAll(/^#+ (.*)$/gm),
      ([, heading = '']) => heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-')
    )
  )
  const targets = [/\]\(#([^)]+)\)/g, /\]\(docs\/operations\/reliability\.md#([^)]+)\)/g].flatMap((link, i) =>
    Array.from(
      (i === 0 ? page : read('README.md')).matchAll(link),
      ([, anchor]) => anchor as string
    )
  )
  t.not(targets.length, 0)
  for (const anchor of targets) t.ok(anchors.has(anchor), anchor)
  const known = new Set([
    'README.md',
    'deploy/migrate.sql',
    'deploy/shop.sql',
    'examples/transfer.json',
    'examples/order.json'
  ])
  for (const path of known) t.doesNotThrow(() => read(path), path)
})
