/**
 * Tests `/reference` of the admin server: the page, the requests that it forwards to the main
 * server, the requests that it does not forward, the errors without a main server, and, if Chromium
 * is installed, sending a batch in a browser.
 */
import { createServer, type AddressInfo } from 'node:net'
import { pino } from 'pino'
import t from 'tap'
import { exampleBatch } from '../../schemas/batch.ts'
import { freePort } from '../../scripts/dev/port.ts'
import { readConfig } from '../../src/config/config.ts'
import { buildAdmin, type AdminOptions } from '../../src/server/admin.ts'
import { useDatabase } from '../support/database/database.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'
import { useListener } from '../support/network/listen.ts'
import { browserProgram, openBrowser, tryBatch } from '../support/process/browser.ts'
import { needs } from '../support/process/programs.ts'
import { useRestartableService } from '../support/process/restartable-service.ts'
import { ask, SECRET, token, useService, type Answer } from '../support/service.ts'
import { headersOfBatch, shopSchema as schema } from '../support/shorthand.ts'

// The browser and the processes take time to start.
t.setTimeout(120_000)

const select = '[{"id":"s","op":"select","table":"stock"}]'

const adminOptions: Omit<AdminOptions, 'config' | 'main'> = {
  logger: pino({ level: 'silent' }),
  batches: () => new Map(),
  scrape: async () => ({ text: '', type: 'text/plain' }),
  notReadyReason: async () => undefined
}

const send = (
  adminUrl: string,
  body: string,
  headers: Readonly<Record<string, string>> = {}
): Promise<Answer> =>
  ask(`${adminUrl}/reference/try/`, { method: 'POST', body, headers: headersOfBatch(headers) })

t.test('the page is self-contained', async t => {
  const { adminUrl } = await useService(t)
  const short = await ask(`${adminUrl}/reference`, { redirect: 'manual' })
  t.same([short.status, short.headers.get('location')], [301, '/reference/'])
  const page = await ask(`${adminUrl}/reference/`)
  t.equal(page.status, 200)
  t.equal(page.headers.get('content-type'), 'text/html; charset=utf-8')
  t.match(
    page.text,
    /<title>Oneflight<\/title>[^]*src="js\/scalar\.js"[^]*"url": "\/openapi\.json"/
  )
  t.match(page.text, "requestBuilder.baseUrl = '/reference/try'", 'requests are forwarded')
  t.notMatch(page.text, /https?:|src="\/\//, 'no external resources')
  const policy = page.headers.get('content-security-policy')?.split('; ') ?? []
  const rules = [
    "default-src 'none'",
    "connect-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ]
  for (const rule of rules) t.ok(policy.includes(rule), rule)
  t.match(policy.at(-1), /^script-src 'self' 'sha256-[A-Za-z0-9+/]{43}='$/)
  const script = await ask(`${adminUrl}/reference/js/scalar.js`)
  t.same([script.status, script.headers.get('content-type')], [
    200,
    'text/javascript; charset=utf-8'
  ])
  t.ok(script.text.length > 1_000_000 && script.text.includes('createApiReference'))
})

t.test('batches and responses are forwarded unchanged', async t => {
  const { adminUrl, url, post } = await useService(t, {
    schema,
    keys: true,
    env: { MAX_BODY_BYTES: '100000', CORS_ORIGINS: '*' }
  })
  const direct = await post(select)
  const answer = await send(adminUrl, select, {
    'x-request-id': 'mine',
    prefer: 'return=minimal',
    origin: adminUrl
  })
  t.same([
    answer.status,
    answer.headers.get('x-request-id'),
    answer.headers.get('preference-applied')
  ], [200, 'mine', 'return=minimal'])
  t.same(answer.body, { error: null, data: { s: direct.body.data.s.length } })
  t.same(
    [...answer.headers.keys()].filter(name => name.startsWith('access-control-')),
    [],
    'no other origin can read the response'
  )
  t.equal((await send(adminUrl, select)).text, direct.text)

  const insert = '[{"id":"o","op":"insert","table":"stock","values":[{"sku":"fig","qty":1}]}]'
  for (const replayed of [null, 'true']) {
    const stored = await send(adminUrl, insert, { 'idempotency-key': 'once' })
    t.same([stored.status, stored.headers.get('idempotent-replayed')], [200, replayed])
  }
  const rejected = [
    [401, 'token_invalid', select, { authorization: 'Basic eDp5' }],
    [413, 'body_too_large', `"${'x'.repeat(200_000)}"`, {}]
  ] as const
  for (const [status, code, body, headers] of rejected) {
    const refused = await send(adminUrl, body, headers)
    t.same([refused.status, refused.body.error.code], [status, code])
  }
  const withoutBody = await ask(`${adminUrl}/reference/try/`, { method: 'POST' })
  t.equal(withoutBody.status, 415, 'a request without a body is rejected')
  const health = await ask(`${adminUrl}/reference/try/health`)
  t.same([health.status, health.text], [200, '{"ok":true}'])

  const unknown = [
    ['POST', '/reference/try'],
    ['POST', '/reference/try/other'],
    ['POST', '/reference/try//'],
    ['GET', '/reference/try/openapi.json'],
    ['OPTIONS', '/reference/try/'],
    ['POST', '/reference/try/health']
  ] as const
  for (const [method, path] of unknown) {
    t.equal((await ask(adminUrl + path, { method })).status, 404, `${method} ${path}`)
  }
  t.equal((await ask(`${adminUrl}/openapi.json`)).headers.get('access-control-allow-origin'), null)
  t.equal((await ask(`${url}/reference/`)).status, 404, 'the main server does not serve the page')
})

t.test('a large response is forwarded completely', async t => {
  const { adminUrl, post, database } = await useService(t, { schema, env: { MAX_ROWS: '100000' } })
  await database
    .sql`insert into stock (sku, qty) select 'sku-' || n, n from generate_series(1, 20000) n`
  const answer = await send(adminUrl, select)
  t.equal(answer.status, 200)
  t.ok(answer.text.length > 500_000)
  t.equal(answer.text, (await post(select)).text)
})

t.test('the document names the URL of the main server', async t => {
  const config = readConfig({
    DATABASE_URL: 'postgres://app@127.0.0.1:1/shop',
    JWT_SECRET: SECRET,
    HTTP_PORT: '4321'
  }).config
  let address: string | undefined
  const main = () => address === undefined ? undefined : { address, port: 4000 }
  const admin = buildAdmin({ ...adminOptions, config, main })
  t.teardown(() => admin.close())
  const rows = [
    ['10.1.2.3', 'one:9568', 'http://10.1.2.3:4000'],
    ['::1', 'one:9568', 'http://[::1]:4000'],
    ['0.0.0.0', 'one:9568', 'http://one:4000'],
    ['::', 'one', 'http://one:4000'],
    ['::', '[::1]:9568', 'http://[::1]:4000'],
    [undefined, 'one:9568', 'http://127.0.0.1:4321']
  ] as const
  for (const [own, host, url] of rows) {
    address = own
    const document = await admin.inject({ url: '/openapi.json', headers: { host } })
    t.same(document.json().servers, [{ url }])
  }
})

t.test('an unreachable or unresponsive main server yields 502', async t => {
  const config =
    readConfig({ DATABASE_URL: 'postgres://app@127.0.0.1:1/shop', JWT_SECRET: SECRET }).config
  const unresponsive = createServer(socket => {
    socket.once('data', () => socket.destroy())
  })
  await useListener(t, unresponsive)
  const servers: ReadonlyArray<readonly [main: AdminOptions['main'], message: RegExp]> = [
    [() => undefined, /request was not sent/],
    [() => ({ address: '127.0.0.1', port: closed }), /request was not sent/],
    [() => ({ address: '::1', port: closed }), /request was not sent/],
    [() => unresponsive.address() as AddressInfo, /It is unknown whether/]
  ]
  for (const [main, message] of servers) {
    const admin = buildAdmin({ ...adminOptions, config, main })
    const adminUrl = await admin.listen({ host: '127.0.0.1', port: 0 })
    const answer = await send(adminUrl, select)
    t.equal(answer.status, 502)
    t.match(answer.body, { ok: false, error: 'main server', message })
    await admin.close()
  }
})

const closed = await freePort()

t.test('the page works with several processes', async t => {
  const database = await useDatabase(t, { schema })
  const { adminUrl, url, ready } = await useRestartableService(t, {
    DATABASE_URL: database.loginUrl,
    WORKERS: '2',
    POOL_SIZE: '2'
  })
  await ready()
  t.equal((await send(adminUrl, select)).status, 200)
  const [own, main] = await Promise.all(
    [adminUrl, url].map(async base => (await ask(`${base}/openapi.json`)).body as object)
  )
  t.same(own, { ...main, servers: [{ url }] })
  t.equal((await ask(`${adminUrl}/reference/`)).status, 200)
})

/**
 * Reads all data that the page stored in the browser. It is JavaScript text, because the types of
 * browsers are not available here.
 */
const readStores = `(async () => {
  const stores = [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie]
  for (const { name } of await indexedDB.databases()) {
    const database = await new Promise(resolve => {
      const request = indexedDB.open(name)
      request.onsuccess = () => resolve(request.result)
    })
    for (const store of database.objectStoreNames) {
      stores.push(name + '.' + store + ' ' + await new Promise(resolve => {
        const request = database.transaction(store).objectStore(store).getAll()
        request.onsuccess = () => resolve(JSON.stringify(request.result))
      }))
    }
  }
  return stores
})()`

t.test(...needs('a batch can be sent in a browser', { Chromium: browserProgram }), async t => {
  const env = { MAX_STREAM_ROWS: '1000', MAX_UPLOAD_ROWS: '1000', API_TABLES: 'on' }
  const { adminUrl, url, database: { sql } } = await useShopService(t, { env })
  const browser = await openBrowser()
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  const requests: string[] = []
  const messages: string[] = []
  page.on('request', request => requests.push(request.url()))
  page.on('console', message => {
    if (['error', 'warning'].includes(message.type())) messages.push(message.text())
  })
  page.on('pageerror', error => messages.push(error.message))

  await page.goto(`${adminUrl}/reference`)
  // Clients use the main server. The page's own requests go to the admin server.
  await page.getByText(`curl ${url}/`).first().waitFor()
  const shown = await page.locator('body').innerText()
  t.match(shown, /Health check/)
  t.match(shown, /The example uses the tables of the sample shop/, 'other databases have others')

  const bearer = token(CUSTOMER)
  const answer = await tryBatch(page, adminUrl, { token: bearer })
  t.equal(answer.status(), 200)
  t.same(JSON.parse(answer.request().postData() ?? ''), exampleBatch, 'the example batch is sent')
  t.match(await answer.json(), {
    error: null,
    data: { order: [{ id: 2, status: 'open' }], paid: [{ id: 2, status: 'paid' }] }
  })
  await page.getByText('"paid"').last().waitFor()
  t.same(await sql`select id::int, status, owner from orders where id > 1`, [{
    id: 2,
    status: 'paid',
    owner: 'corner-shop'
  }])
  const named = await tryBatch(page, adminUrl, { token: bearer, path: '/batches/take-job' })
  t.same([named.status(), await named.json()], [200, {
    error: null,
    data: { next: 1, job: [{ id: 2, task: { mail: 'invoice', order: 1 }, attempts: 1 }] }
  }])
  await page.getByText('"attempts"').last().waitFor()
  t.same(messages, [])
  t.same(
    requests.filter(url => !url.startsWith(`${adminUrl}/`) && !/^(?:data|blob):/.test(url)),
    [],
    'no request leaves the machine'
  )
  t.match(await page.locator('body').innerText(), /Bakery/)
  const stored = await page.evaluate(readStores)
  t.notOk(JSON.stringify(stored).includes(bearer), 'the browser does not store the token')
})
