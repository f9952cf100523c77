/**
 * Metrics: their names, labels, units and exact counts. No client can create label values. And the
 * access log: one line for each request, with its request id, and without any text from the client
 * or the database.
 */
import Fastify from 'fastify'
import t from 'tap'
import metrics from '../../plugins/metrics.ts'
import requestLog from '../../plugins/request-log.ts'
import type { Observer } from '../../src/transaction/decorators.ts'
import { useDatabase } from '../support/database/database.ts'
import { ask, token, useService, SECRET, type ServiceUnderTest } from '../support/service.ts'
import { insert, select, update } from '../support/operations.ts'
import { on, shopSchema } from '../support/shorthand.ts'
import { until } from '../support/until.ts'
import { useProxy } from '../support/network/proxy.ts'
import { request, speak } from '../support/network/wire.ts'

const schema = `${shopSchema}
  create table deferred (id int primary key, twin int unique deferrable initially deferred);
  create view slow as select pg_sleep(0.1)::text as x;
  create function odd () returns trigger language plpgsql as $$ begin raise sqlstate 'XY123';
    end $$;
  create table odd (id int);
  create trigger odd before insert on odd for each row execute function odd();
  grant all on deferred, slow, odd to oneflight_user;`

const database = await useDatabase(t, { schema })

/**
 * The samples of transactions and operations, by name and sorted labels. Of histograms, only
 * `_count`.
 */
async function scrape ({ adminUrl }: ServiceUnderTest): Promise<Record<string, number>> {
  const { text } = await ask(`${adminUrl}/metrics`)
  const samples = text.split('\n').map(line =>
    /^(service_(?:txn|op)_\w+?)\{(.*)\} (\S+)$/.exec(line)
  ).filter(match => match !== null)
  const sorted = (labels: string): string => labels.split(',').sort().join(',')
  return Object.fromEntries(
    samples
      .filter(([, name]) => !/_(bucket|sum)$/.test(name as string))
      .map(([, name, labels, value]) => [`${name}{${sorted(labels as string)}}`, Number(value)])
  )
}

const op = (op: string, outcome: string, n: number): Record<string, number> => ({
  [`service_op_count{op="${op}",outcome="${outcome}"}`]: n,
  [`service_op_duration_milliseconds_count{op="${op}",outcome="${outcome}"}`]: n
})
const txn = (role: string, outcome: string, n: number): Record<string, number> => ({
  [`service_txn_count{outcome="${outcome}",role="${role}"}`]: n,
  [`service_txn_duration_milliseconds_count{outcome="${outcome}",role="${role}"}`]: n
})
const exception = (op: string, table: string): Record<string, number> => ({
  [`service_op_exceptions{op="${op}",table="${table}"}`]: 1
})

const negative = update('n', 'stock', { set: { qty: -1 }, where: { sku: { eq: 'pear' } } })
const user = 'oneflight_user'

t.test('transactions and operations are counted by outcome', async t => {
  const service = await useService(t, { ...on(database), env: { ANON_ROLE: 'oneflight_anon' } })
  type Counts = Record<string, number>
  const rows: ReadonlyArray<
    readonly [title: string, batch: unknown, role: string | null, status: number, counts: Counts]
  > = [
    ['committed', [
      insert('i', 'stock', [{ sku: 'fig', qty: 1 }, { sku: 'nut', qty: 1 }]),
      select('s', 'stock'),
      select('t', 'stock'),
      { id: 'd', op: 'delete', table: 'public.stock', where: { sku: { eq: 'fig' } } }
    ], user, 200, {
      ...txn(user, 'ok', 1),
      ...op('insert', 'ok', 1),
      ...op('select', 'ok', 2),
      ...op('delete', 'ok', 1)
    }],
    ['failed in the middle', [
      select('a', 'stock'),
      negative,
      select('b', 'stock'),
      { id: 'd', op: 'delete', table: 'stock', all: true }
    ], user, 400, {
      ...txn(user, 'error', 1),
      ...op('select', 'ok', 1),
      ...op('update', 'error', 1),
      ...exception('update', 'public.stock')
    }],
    ['failed at COMMIT', [
      insert('i', 'deferred', [{ id: 1, twin: 1 }, { id: 2, twin: 1 }]),
      select('s', 'stock')
    ], user, 409, { ...txn(user, 'error', 1), ...op('insert', 'ok', 1), ...op('select', 'ok', 1) }],
    ['no privilege', [select('s', 'customers')], null, 401, {
      ...txn('oneflight_anon', 'error', 1),
      ...op('select', 'error', 1),
      ...exception('select', 'public.customers')
    }],
    ['no such table', [select('a', 'stock'), select('s', 'made_up')], user, 404, {
      ...txn(user, 'error', 1),
      ...op('select', 'ok', 1),
      ...op('select', 'error', 1),
      ...exception('select', 'other')
    }],
    ['a role that the database rejects', [select('s', 'stock')], 'made_up', 403, {
      ...txn('other', 'error', 1)
    }],
    ['a role rejected by its name', [select('s', 'stock')], 'pg_monitor', 403, {}],
    ['invalid operations', [{ id: 'a', op: 'made_up', table: 'made_up' }], user, 422, {}]
  ]
  let before = await scrape(service)
  t.same(before, {})
  for (const [title, batch, role, status, counts] of rows) {
    t.equal((await service.post(batch, { role })).status, status, title)
    const after = await scrape(service)
    const added = Object.entries(after).map(([name, n]) => [name, n - (before[name] ?? 0)] as const)
    t.same(Object.fromEntries(added.filter(([, n]) => n !== 0)), counts, title)
    before = after
  }
})

t.test('units and labels in the Prometheus format', async t => {
  const service = await useService(t, on(database))
  await service.post([select('s', 'slow')])
  await service.post([negative])
  const { text, headers } = await ask(`${service.adminUrl}/metrics`)
  t.equal(headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  // The duration of the request is in seconds. A larger number for one of its operations shows that
  // these durations are in milliseconds.
  const sum = (name: string, labels: string): number =>
    Number(new RegExp(`^${name}_sum\\{.*${labels}.*\\} (.*)$`, 'm').exec(text)?.[1])
  const op = sum('service_op_duration_milliseconds', 'outcome="ok"')
  t.ok(op > 10 * sum('http_request_duration_seconds', 'status_code="200"'))
  t.ok(sum('service_txn_duration_milliseconds', 'outcome="ok"') >= op)
  t.match(text, /^service_pool_waiting\{server="primary"\} 0$/m)
  // A connection stays busy after the response, until the statements after COMMIT have ended.
  await until(async () =>
    /^service_pool_connections_busy\{server="primary"\} 0$[^]*^service_pool_connections_idle\{server="primary"\} [1-4]$/m
      .test((await ask(`${service.adminUrl}/metrics`)).text)
  )
  t.match(text, /^process_cpu_seconds_total /m)
})

t.test('error responses are counted by code', async t => {
  const service = await useService(t, on(database))
  await service.post([select('s', 'stock')])
  await service.post([negative])
  await service.post([negative])
  await service.post([])
  await service.post([insert('i', 'odd', [{ id: 1 }])])
  await ask(`${service.url}/made_up`)
  const counts = async (): Promise<object> =>
    Object.fromEntries(
      (await ask(`${service.adminUrl}/metrics`)).text.matchAll(
        /^service_error_count\{code="(\w+)"\} (\d+)$/gm
      ).map(([, code, n]) => [code, Number(n)])
    )
  // A response is counted after it was sent, so the client may be faster.
  await until(async () => Object.keys(await counts()).length === 4)
  t.same(await counts(), { check_violation: 2, body_empty: 1, other: 1, not_found: 1 })
})

t.test('the number of names of tables and batches in labels is limited', async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(requestLog)
  await app.register(metrics)
  const observer = app.getDecorator<Observer>('observer')
  for (let i = 0; i <= 1100; i++) {
    observer.batch({
      role: 'r',
      outcome: 'error',
      since: 0,
      ms: 1,
      sessionMs: 0,
      operations: [{
        id: 's',
        op: 'select',
        table: `public.t${i % 1050}`,
        outcome: 'error',
        since: 0,
        ms: 1
      }]
    }, `b${i % 210}`)
  }
  const { text } = await observer.scrape()
  const tables = [
    ...text.matchAll(/^service_op_exceptions\{op="select",table="([^"]*)"\} (\d+)$/gm)
  ].map(([, table, count]) => [table, Number(count)] as const)
  t.equal(tables.length, 1001)
  t.same(Object.fromEntries(tables)['other'], 50)
  t.same(Object.fromEntries(tables)['public.t7'], 2, 'names seen earlier keep their label')
  for (const metric of ['service_batch_count', 'service_batch_op_count']) {
    const batches = Array.from(
      text.matchAll(new RegExp(`^${metric}\\{batch="([^"]*)",outcome="error"\\} (\\d+)$`, 'gm')),
      ([, batch, count]) => [batch, Number(count)] as const
    )
    t.equal(batches.length, 201)
    t.same(Object.fromEntries(batches)['other'], 50)
  }
})

const failingSchema = `${shopSchema}
  create function fail (word text) returns text language plpgsql as $$
    begin raise exception 'hush-message' using detail = 'hush-detail', hint = 'hush-hint'; end $$;
  create view failing as select fail('x') as x;
  grant all on failing to oneflight_user;`

const linesOf = ({ log }: ServiceUnderTest, id: string): ServiceUnderTest['log'] =>
  log.filter(line => line['request_id'] === id)

t.test('each request is logged as one line without text of the client', async t => {
  const service = await useService(t, { schema: failingSchema })
  const authorization = `Bearer ${token({ role: 'oneflight_user' })}`
  const post = (body: string, headers: Readonly<Record<string, string>> = {}) =>
    request('POST', '/?hush=query', {
      authorization,
      'content-type': 'application/json',
      connection: 'close',
      ...headers
    }, body)
  const close = { connection: 'close' }
  const rows: ReadonlyArray<
    readonly [bytes: string, status: number, code: string | undefined, line?: object]
  > = [
    [
      post('[{"id":"s","op":"select","table":"stock"},{"id":"t","op":"select","table":"stock"}]'),
      200, undefined, { method: 'POST', path: '/', role: 'oneflight_user', operations: 2 }
    ],
    [request('GET', '/nothing?hush', close), 404, 'not_found', { path: '/nothing' }],
    [request('GET', '/%hush', close), 400, 'http_malformed'],
    ['hush\r\n\r\n', 400, 'http_malformed'],
    [post('[]', { expect: 'hush' }), 417, 'expectation_unsupported'],
    [post('["hush', { 'content-type': 'hush/hush' }), 415, 'content_type_unsupported'],
    [post('["hush', { authorization: 'Bearer hush' }), 401, 'token_invalid'],
    [post('[{"id":"hush"},{"id":"hush"}]'), 400, 'id_duplicate', { index: 1 }],
    [
      post(
        '[{"id":"a","op":"select","table":"stock"},{"id":"hush","op":"insert",' +
          '"table":"stock","values":[{"sku":"x","qty":"hush"}]}]'
      ),
      400, 'invalid_text_representation', { index: 1 }
    ],
    [
      post('[{"id":"hush","op":"select","table":"failing"}]'),
      400, 'raise_exception', { sqlstate: 'P0001', index: 0, operations: 1 }
    ]
  ]
  const before = service.log.length
  for (const [bytes, status, code, more] of rows) {
    const [answer] = await speak(service.url, bytes)
    const id = answer?.headers['x-request-id'] ?? ''
    await until(() => linesOf(service, id).length > 0)
    t.equal(answer?.status, status)
    const line = { level: 30, msg: 'request completed', status, code, ...more }
    t.match(linesOf(service, id), [line])
    t.equal(linesOf(service, id).length, 1)
  }
  const others = new Set(['connected to the database'])
  const lines = service.log.slice(before).filter(({ msg }) => !others.has(String(msg)))
  t.equal(lines.length, rows.length)
  const text = JSON.stringify(service.log)
  t.notMatch(text, /hush/)
  t.notOk(text.includes(authorization.slice(7, 40)))
  t.notOk(text.includes(SECRET))
})

t.test('failures of the service are logged at level error', async t => {
  const service = await useService(t, {
    schema: failingSchema,
    databaseUrl: url => url.replace(/@[^/]+/, '@127.0.0.1:1')
  })
  const answer = await service.post('[{"id":"s","op":"select","table":"stock"}]', {
    headers: { 'x-request-id': 'mine' }
  })
  t.equal(answer.status, 503)
  await until(() => linesOf(service, 'mine').length > 0)
  t.match(linesOf(service, 'mine'), [{
    level: 50,
    status: 503,
    code: 'database_unavailable',
    operations: 1
  }])
  t.match(service.log.filter(({ level }) => level === 40), [{
    msg: 'could not connect to the database',
    reason: /ECONNREFUSED/
  }])
  t.notMatch(JSON.stringify(service.log), /:login@/)
})

t.test('health probes are logged at level debug, changes of health at warn and info', async t => {
  const { loginUrl } = await useDatabase(t, { schema: failingSchema })
  const proxy = await useProxy(t, loginUrl)
  const service = await useService(t, {
    schema: failingSchema, env: { LOG_LEVEL: 'debug' }, databaseUrl: proxy.through
  })
  const probe = async (id: string): Promise<number> =>
    (await ask(`${service.url}/health`, { headers: { 'x-request-id': id } })).status
  await until(async () => await probe('up') === 200)
  proxy.open = false
  proxy.cut()
  await until(async () => await probe('down') === 503)
  t.equal(await probe('down'), 503)
  proxy.open = true
  await until(async () => await probe('up again') === 200)
  const changes = service.log.filter(({ msg }) => String(msg).startsWith('health check'))
  t.match(changes, [
    { level: 40, msg: 'health check of the database failed', reason: String },
    { level: 30, msg: 'health check of the database succeeded again' }
  ])
  t.notMatch(JSON.stringify(changes), /:login@/)
  await service.stop()
  const lines = service.log.filter(({ path }) => path === '/health')
  t.same([...new Set(lines.map(({ level }) => level))], [20])
  t.same([...new Set(lines.map(({ status }) => status))], [200, 503])
})
