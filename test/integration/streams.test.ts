/**
 * Rows that are streamed as newline-delimited JSON: every line but the last is a row, and the last
 * one says how it ended.
 */
import type { IncomingMessage } from 'node:http'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { countSessions, untilSessions } from '../support/database/hold.ts'
import * as op from '../support/operations.ts'
import { gauge, postUnread, token, useService, type ServiceUnderTest } from '../support/service.ts'
import { createClient, OneflightError } from '../../client/src/index.ts'
import { useClient, useExactClient } from '../support/client.ts'
import { arbitraryTrial } from '../support/model/arbitrary-batch.ts'
import { modelReset, modelSchema } from '../support/model/tables.ts'
import { propertyRuns } from '../support/runs.ts'
import { headersOfBatch, on, postBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const MAX_STREAM_ROWS = 100_000

/** `failing` fails at its row 20 000, `formats` changes how times are written. */
const schema = `
  create table parents (id int primary key, name text, data json, at timestamptz);
  create table children (parent int references parents, n int);
  insert into parents select i, 'name ' || i, E'{"a":\\r\\n [1,\\r 2]}', '2026-01-01'
    from generate_series(1, 1000) i;
  insert into children select i % 3 + 1, i from generate_series(1, 9) i;
  create view endless as select i, repeat('x', 1000) as text from generate_series(1, 50000) i;
  create view failing as select i, 1 / (20000 - i) as x from generate_series(1, 25000) i;
  create function format() returns text language plpgsql as $$ begin
    perform set_config('datestyle', 'German', true); return 'changed'; end $$;
  create view formats as select i, case i when 5000 then format() end as x, now() as at
    from generate_series(1, 9000) i;
  create view no_formats as select 1 as x where format() is null;
  create function write() returns int language sql as
    $$ insert into children values (1, 1) returning n $$;
  create function count_parents() returns int stable language sql as
    $$ select count(*)::int from parents $$;
  create view writing as select write() as n;
  create view large as select i, repeat('y', 300000) as text from generate_series(1, 3) i;`

const env = { MAX_ROWS: '10', MAX_STREAM_ROWS: String(MAX_STREAM_ROWS) }
const batches = {
  some: {
    params: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] },
    operations: [op.select('found', 'parents', {
      columns: ['id'],
      where: { id: { lte: '$params.id' } },
      order: [{ id: 'asc' }]
    })]
  },
  add: {
    params: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    operations: [op.insert('o', 'children', [{ n: '$params.n' }])]
  }
}
const service = await useService(t, { schema, env, batches, keys: true })
const { database } = service

interface StreamOptions {
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a batch that accepts a stream, and returns the response before its body. */
async function open (
  { url }: Pick<ServiceUnderTest, 'url'>,
  batch: unknown,
  { path = '', headers = {} }: StreamOptions = {}
): Promise<IncomingMessage> {
  const accepting = { ...headersOfBatch(), accept: 'application/x-ndjson', ...headers }
  return await postUnread(`${url}${path}`, accepting, JSON.stringify(batch))
}

interface Streamed {
  readonly status: number | undefined
  readonly type: string | undefined
  readonly rows: ReadonlyArray<Readonly<Record<string, unknown>>>
  /** The last line. */
  readonly end: { readonly error: Readonly<Record<string, unknown>> | null, readonly data: unknown }
}

async function read (response: IncomingMessage): Promise<Streamed> {
  const text = Buffer.concat(await Array.fromAsync(response)).toString()
  const type = response.headers['content-type']
  const texts = type === json.type ? [text] : text.trimEnd().split(/[\r\n]/)
  const lines = texts.map(line => JSON.parse(line))
  return {
    status: response.statusCode,
    type,
    rows: lines.slice(0, -1),
    end: lines.at(-1)
  }
}

async function stream (
  batch: unknown,
  options?: StreamOptions & { readonly to?: ServiceUnderTest }
): Promise<Streamed> {
  return await read(await open(options?.to ?? service, batch, options))
}

/** A response that is no stream. */
const json = { type: 'application/json; charset=utf-8', rows: [] }

const success = (rows: readonly object[], count = rows.length, id = 'o') => ({
  status: 200,
  type: 'application/x-ndjson',
  rows,
  end: { error: null, data: { [id]: count } }
})

const untilFree = (of: ServiceUnderTest): Promise<unknown> =>
  until(async () => await gauge(of, 'service_pool_connections_busy') === 0)

t.test('every line but the last is a row', async t => {
  const order = [{ id: 'asc' }]
  t.strictSame(
    await stream([op.select('o', 'parents', { order, limit: 2 })]),
    success([1, 2].map(id => ({
      id,
      name: `name ${id}`,
      data: { a: [1, 2] },
      at: '2026-01-01T00:00:00+00:00'
    })))
  )
  t.strictSame(
    await stream([op.select('o', 'parents', {
      columns: ['id'],
      order,
      limit: 2,
      with: {
        children: {
          table: 'children',
          on: { parent: 'id' },
          columns: ['n'],
          order: [{ n: 'asc' }]
        }
      }
    })]),
    success([
      { id: 1, children: [{ n: 3 }, { n: 6 }, { n: 9 }] },
      { id: 2, children: [{ n: 1 }, { n: 4 }, { n: 7 }] }
    ])
  )
  const { rows, end } = await stream([op.select('o', 'parents', { columns: ['id'], order })])
  t.strictSame(rows, Array.from({ length: 1000 }, (_, i) => ({ id: i + 1 })))
  t.strictSame(end, { error: null, data: { o: 1000 } }, 'more than MAX_ROWS')
  const large = await stream([op.select('o', 'large', { order: [{ i: 'asc' }] })])
  t.same(large.rows.map(({ i, text }) => [i, (text as string).length]), [
    [1, 300_000], [2, 300_000], [3, 300_000]
  ])
})

t.test('property: a stream has the rows of the response', async t => {
  const model = await useService(t, { schema: modelSchema, env: { MAX_STREAM_ROWS: '100' } })
  await model.database.sql.unsafe(modelReset)
  const runs = propertyRuns(50, 300)
  let compared = 0
  await fc.assert(
    fc.asyncProperty(arbitraryTrial, async ({ operations }) => {
      for (const { when, lock, expect, answer, ...select } of operations) {
        if (select.op !== 'select') continue
        const { status, body } = await model.post([select])
        const { rows, end } = await stream([select], { to: model })
        if (status === 200) {
          const all = body.data[select.id]
          t.same(end, { error: null, data: { [select.id]: all.length } })
          const { order = [] } = select as { readonly order?: readonly object[] }
          // PostgreSQL may return rows that are equal in `order` in another order.
          const [streamed, expected] = [rows, all].map(rows => ({
            rows: rows.map((row: object) => JSON.stringify(row)).sort(),
            order: rows.map((row: Readonly<Record<string, unknown>>) =>
              order.flatMap(Object.keys).map(name => row[name]))
          }))
          t.same(streamed, expected, JSON.stringify(select))
          compared += rows.length
        } else t.equal(end.error?.['code'], body.error.code, JSON.stringify(select))
      }
    }),
    { numRuns: runs }
  )
  t.ok(compared > runs / 2, `${compared} rows`)
})

/** Values of Accept, and whether a batch that can be streamed is. */
const accepts: ReadonlyArray<readonly [accept: string, streams: boolean]> = [
  ['*/*', false], ['application/x-ndjson2', false],
  ['Application/X-NDJSON ; Q=0.5', true],
  ['application/x-ndjson;charset=utf-8, text/html;q=0.9', true],
  // The same weight.
  ['application/x-ndjson, */*', false],
  ['application/json;q=0.5, application/x-ndjson;q=0.50', false],
  // Weights.
  ['application/x-ndjson;q=0.2, application/json;q=0.1, */*', true],
  ['application/x-ndjson;q=0', false],
  // The most specific range counts.
  ['application/json;q=0.1, application/*', true],
  ['*/*;q=0, application/*;q=0.1', false],
  // Malformed weights, quoted strings.
  ['application/x-ndjson;q=x', false],
  ['application/x-ndjson, application/json;q=2', true],
  ['text/html;a="b, application/x-ndjson, c"', false],
  ['text/html;a="never closed, application/x-ndjson', false],
  [',, application/x-ndjson,', true]
]

t.test('the header Accept chooses between JSON and a stream', async t => {
  const batch = [op.select('o', 'parents', { columns: ['id'], limit: 1 })]
  for (const [accept, streams] of accepts) {
    const answer = await stream(batch, { headers: { accept } })
    t.strictSame(
      answer,
      streams
        ? success([{ id: 1 }])
        : { ...json, status: 200, end: { error: null, data: { o: [{ id: 1 }] } } },
      accept
    )
  }
})

t.test('several headers count as one', async t => {
  const batch = [op.select('o', 'parents', { limit: 1 })]
  const ask = async (...lines: readonly string[]): Promise<string | undefined> =>
    (await stream(batch, { headers: { accept: lines as never } })).type
  t.equal(await ask('application/json', 'application/x-ndjson'), json.type)
  t.equal(await ask('application/json;q=0.5', 'application/x-ndjson'), 'application/x-ndjson')
})

t.test('what cannot be streamed is refused with its reason', async t => {
  const select = op.select('o', 'parents', { limit: 1 })
  const off = await useService(t, on(database))
  const explaining = await useService(t, { ...on(database), env: { ...env, EXPLAIN: 'on' } })
  const rows: ReadonlyArray<readonly [
    reason: RegExp, batch: unknown, more?: StreamOptions & { readonly to?: ServiceUnderTest }
  ]> = [
    [/one select/, [select, op.select('p', 'parents', { limit: 1 })]],
    [/one select/, [op.call('o', 'count_parents', {})]],
    [/one select/, { n: 1 }, { path: '/batches/add', headers: { prefer: 'tx=rollback' } }],
    [/"lock"/, [op.select('o', 'parents', { lock: 'update', limit: 1 })]],
    [/"expect"/, [op.select('o', 'parents', { expect: 1, limit: 1 })]],
    [/"answer": "count"/, [op.select('o', 'parents', { answer: 'count', limit: 1 })]],
    [/return=minimal/, [select], { headers: { prefer: 'return=minimal' } }],
    [/Prefer: explain/, [select], { to: explaining, headers: { prefer: 'explain' } }],
    [/Idempotency-Key/, [select], { headers: { 'idempotency-key': 'x' } }],
    [/MAX_STREAM_ROWS=0/, [select], { to: off }]
  ]
  for (const [reason, batch, more] of rows) {
    const refused = {
      status: 406,
      type: 'application/json; charset=utf-8',
      end: { error: { code: 'not_streamable', message: reason }, data: null }
    }
    t.match(await stream(batch, more), refused, String(reason))
    const headers = { ...more?.headers, accept: 'application/x-ndjson, application/json;q=0, */*' }
    t.match(await stream(batch, { ...more, headers }), refused, String(reason))
    for (const accept of ['application/json;q=0.1', '*/*;q=0.1']) {
      const either = { ...more?.headers, accept: `application/x-ndjson, ${accept}` }
      t.match(
        await stream(batch, { ...more, headers: either }),
        { status: 200, type: json.type, rows: [], end: { error: null } },
        `${reason} and ${accept}`
      )
    }
  }
})

t.test('a batch that is sent as JSON instead is not read-only', async t => {
  const accept = 'application/x-ndjson, application/json;q=0.5'
  const insert = op.insert('o', 'children', [{ n: 77 }])
  t.match(await stream([insert], { headers: { accept } }), {
    status: 200, end: { data: { o: [{ n: 77 }] } }
  })
  t.match(await stream({ id: 2 }, { path: '/batches/some', headers: { accept } }), {
    type: 'application/x-ndjson'
  })
  t.match(await stream({ n: 78 }, { path: '/batches/add', headers: { accept } }), {
    status: 200, type: json.type, end: { data: { o: [{ n: 78 }] } }
  })
  t.equal((await database.sql`delete from children where n in (77, 78)`).count, 2)
})

t.test('an error before the first row has its status', async t => {
  const rows: ReadonlyArray<readonly [status: number, code: string, batch: readonly object[]]> = [
    [404, 'undefined_table', [op.select('o', 'nothing')]],
    [403, 'read_only_sql_transaction', [op.select('o', 'writing')]]
  ]
  for (const [status, code, batch] of rows) {
    t.match(await stream(batch), { status, end: { error: { code }, data: null } }, code)
  }
})

t.test('an error after the first row is the last line', async t => {
  const { status, rows, end } = await stream([op.select('o', 'failing')])
  t.equal(status, 200)
  t.match(end, {
    error: { code: 'division_by_zero', op: 'o', index: 0, committed: false },
    data: null
  })
  t.strictSame(rows.map(({ i }) => i), rows.map((_, i) => i + 1), 'rows before it, in order')
  t.ok(rows.length > 0 && rows.length < 20_000)
  await until(() => service.log.some(line => line['code'] === 'division_by_zero'))
  t.match(service.log.find(line => line['code'] === 'division_by_zero'), { status: 200, index: 0 })
})

t.test('a select has too many rows', async t => {
  const few = await useService(t, { ...on(database), env: { ...env, MAX_STREAM_ROWS: '999' } })
  const { rows, end } = await stream([op.select('o', 'parents')], { to: few })
  t.equal(rows.length, 999)
  t.match(end, {
    error: { code: 'rows_limit', op: 'o', index: 0, message: /than 999 rows/, retryable: false }
  })
  const limited = await stream([op.select('o', 'parents', { limit: 999 })], { to: few })
  t.same(limited.end, { error: null, data: { o: 999 } })
})

t.test('one row is too large', async t => {
  const small = await useService(t, {
    ...on(database),
    env: { ...env, MAX_RESPONSE_BYTES: '65536' }
  })
  await database.sql.unsafe(`create view huge as select i, repeat('z', 17000000 * (i / 9000)) as x
    from generate_series(1, 9000) i`)
  const { end } = await stream([op.select('o', 'huge')], { to: small })
  t.match(end, { error: { code: 'response_too_large', retryable: false } })
  await untilFree(small)
})

t.test('a function changes the formats while rows are read', async t => {
  const error = { code: 'session_changed', op: 'o', committed: false }
  t.match((await stream([op.select('o', 'formats')])).end, { error, data: null })
  const { status, end } = await stream([op.select('o', 'no_formats')])
  t.match({ status, end }, { status: 400, end: { error } }, 'without a row')
})

/** A service for which the rows of `endless` are more than all buffers on the way take. */
async function useSlow (
  t: Test,
  more: Readonly<Record<string, string>> = {}
): Promise<ServiceUnderTest> {
  return await useService(t, { ...on(database), env: { ...env, POOL_SIZE: '2', ...more } })
}

const endless = [op.select('o', 'endless')]

/** The number of backends that read `endless` and have done so for `ms`. */
const countReading = (ms = 0): Promise<number> =>
  countSessions(database, `state = 'active' and query like '%"endless"%'
    and now() - query_start >= '${ms} ms'`)

/** Resolves when PostgreSQL waits for a client that does not read. */
const untilBlocked = (): Promise<unknown> =>
  untilSessions(database, 1, "wait_event = 'ClientWrite'")

t.test('PostgreSQL waits while the client does not read', async t => {
  const slow = await useSlow(t)
  const response = await open(slow, endless)
  response.pause()
  await untilBlocked()
  t.test('half of the connections stream, and the others run batches', async t => {
    t.match(await stream(endless, { to: slow }), {
      status: 503,
      end: { error: { code: 'overloaded', message: /stream/, retryable: true } }
    })
    t.equal((await slow.post([op.select('o', 'parents', { limit: 1 })])).status, 200)
  })
  const { rows, end } = await read(response)
  t.equal(rows.length, 50_000)
  t.same(end, { error: null, data: { o: 50_000 } })
  await untilFree(slow)
  const [first] = (await stream([op.select('o', 'endless', { limit: 1 })], { to: slow })).rows
  t.match(first, { i: 1 }, 'another stream may begin')
})

t.test('a client that does not read in time is disconnected', async t => {
  const slow = await useSlow(t, { REQUEST_TIMEOUT_MS: '2000' })
  const response = await open(slow, endless)
  response.pause()
  await until(() => slow.log.some(line => line['code'] === 'deadline_exceeded'))
  await untilFree(slow)
  await t.rejects(read(response), 'the response has no end')
})

t.test('a client that leaves frees its connection', async t => {
  const slow = await useSlow(t)
  const response = await open(slow, endless)
  response.pause()
  await untilBlocked()
  response.destroy()
  await untilFree(slow)
  await until(async () => await countReading() === 0)
  t.equal((await stream([op.select('o', 'endless', { limit: 9 })], { to: slow })).rows.length, 9)
})

t.test('a lost connection is the last line, and no row is sent twice', async t => {
  const slow = await useSlow(t)
  const response = await open(slow, endless)
  response.pause()
  await untilBlocked()
  await database.sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and query like '%"endless"%' and pid <> pg_backend_pid()`
  const { rows, end } = await read(response)
  t.match(end, { error: { code: /connection_failure|database_unavailable|admin_shutdown/ } })
  t.strictSame(rows.map(({ i }) => i), rows.map((_, i) => i + 1))
})

t.test('the time limits hold', async t => {
  const slow = await useSlow(t, { STATEMENT_TIMEOUT_MS: '1000' })
  const response = await open(slow, endless)
  response.pause()
  await untilBlocked()
  await until(async () => await countReading() === await countReading(1500))
  t.match((await read(response)).end, { error: { code: 'query_canceled' } })
})

t.test('rows are streamed with COMPRESSION=on', async t => {
  const compressing = await useService(t, { ...on(database), env: { ...env, COMPRESSION: 'on' } })
  const { text } = await postBatch(compressing.url, [op.select('o', 'parents')], {
    accept: 'application/x-ndjson', 'accept-encoding': 'gzip'
  })
  t.equal(text.trimEnd().split('\n').length, 1001)
})

interface Tables {
  parents: { id: number, name: string }
  failing: { i: number, x: number }
}
interface Batches {
  some: { params: { id: number }, result: { found: Array<{ id: number }> } }
}

/** The rows, and the error that ended them. */
async function collect (
  rows: AsyncIterable<object>
): Promise<{ readonly rows: readonly object[], readonly error: OneflightError | undefined }> {
  const all: object[] = []
  try {
    for await (const row of rows) all.push(row)
    return { rows: all, error: undefined }
  } catch (error) {
    if (!(error instanceof OneflightError)) throw error
    return { rows: all, error }
  }
}

t.test('the client reads a stream as an async iterable', async t => {
  const client = useClient<Tables>(service)
  const rows = client.stream(b =>
    b.select('parents', { columns: ['id'], order: [{ id: 'asc' }] })
  )
  const all = Array.from({ length: 1000 }, (_, i) => ({ id: i + 1 }))
  t.same(await collect(rows), { rows: all })
  t.same(await collect(rows), { rows: all }, 'each loop sends the request')
  const named = createClient<Tables, 'public', Batches>({
    url: service.url,
    token: token({ role: 'oneflight_user' })
  })
  t.same(await collect(named.stream('some', { id: 2 })), { rows: [{ id: 1 }, { id: 2 }] })
  const exact = useExactClient<Tables>(service)
  t.same(
    await collect(exact.stream(b => b.select('parents', { columns: ['id'], limit: 1 }))),
    { rows: [{ id: 1n }] }
  )
  const none = client.stream(b => b.select('parents', { where: { id: { eq: 0 } } }))
  t.same(await collect(none), { rows: [] })
})

t.test('the client throws the error of a stream', async t => {
  const client = useClient<Tables>(service)
  const { rows, error } = await collect(client.stream(b => b.select('failing').as('f')))
  t.ok(rows.length > 0)
  t.match(error, { code: 'division_by_zero', op: 'f', committed: false, requestId: /./ })
  const late = await collect(client.stream(b => b.select('nothing' as 'failing')))
  t.match(late, { rows: [], error: { code: 'undefined_table', status: 404 } })
  t.throws(() => client.stream(() => ({}) as never), { code: 'batch_invalid' })
})

t.test('the client leaves a stream', async t => {
  const slow = await useSlow(t)
  const client = useClient<{ endless: { i: number } }>(slow)
  for await (const { i } of client.stream(b => b.select('endless'))) if (i === 2) break
  await untilFree(slow)
  const controller = new AbortController()
  const rows = client.stream(b => b.select('endless'), { signal: controller.signal })
  await t.rejects(async () => {
    for await (const { i } of rows) if (i === 2) controller.abort()
  }, { code: 'aborted', committed: false })
  await untilFree(slow)
  const aborted = client.stream(b => b.select('endless'), { signal: AbortSignal.abort() })
  t.match(await collect(aborted), { rows: [], error: { code: 'aborted' } })
})

t.test('a cut stream is an error for the client', async t => {
  const headers = { 'content-type': 'application/x-ndjson' }
  const end = '{"error":null,"data":{"o":1}}\n'
  type Case = readonly [body: string | ReadableStream, code: string | undefined, rows: number]
  const cases: readonly Case[] = [
    [`{"id":1}\n${end}`, undefined, 1],
    ['{"id":1}\n{"id":2}\n', 'answer_invalid', 1],
    [`{"id":1}\n{"id":2}\n${end}`, 'answer_invalid', 2],
    ['{"error":null,"data":{}}\n', 'answer_invalid', 0],
    ['', 'answer_invalid', 0],
    [new ReadableStream({
      start (controller) {
        controller.enqueue(Buffer.from('{"id":1}\n{"id":2}\n'))
        controller.error(new Error('reset'))
      }
    }), 'network_error', 0]
  ]
  for (const [body, code, count] of cases) {
    const client = useClient<Tables>({ url: 'http://127.0.0.1:9' }, {
      fetch: async () => new Response(body, { headers })
    })
    const { rows, error } = await collect(client.stream(b => b.select('parents')))
    t.equal(error?.code, code, String(body))
    t.equal(rows.length, count, String(body))
    if (error !== undefined) t.match(error, { committed: false, retryable: true })
  }
  const client = useClient<Tables>({ url: 'http://127.0.0.1:9' }, {
    retry: false,
    fetch: async () => Response.json({ error: null, data: { o: [{ id: 1 }] } })
  })
  t.match(await collect(client.stream(b => b.select('parents'))), {
    rows: [],
    error: { code: 'answer_invalid', message: /not from the service/ }
  })
})
