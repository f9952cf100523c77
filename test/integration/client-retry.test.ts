/**
 * Tests which requests the client retries and what it reports about the commit, and `client.run`,
 * which runs a named batch. Some tests use the service with lost responses, others use fake
 * responses.
 */
import { createServer } from 'node:http'
import { once } from 'node:events'
import t from 'tap'
import {
  createClient,
  $,
  type Batch,
  type BatchOptions,
  type OneflightError
} from '../../client/src/index.ts'
import { failure, fakeClient, fakeFetch, refusal, rows, useClient } from '../support/client.ts'
import { listen } from '../support/network/listen.ts'
import { token, useService } from '../support/service.ts'
import * as op from '../support/operations.ts'
import { until } from '../support/until.ts'

interface Database {
  stock: { sku: string, qty: number }
}

const schema =
  'create table stock (sku text primary key, qty int not null check (qty >= 0)); ' +
  'create table t (id bigint, data jsonb)'
const write = (b: Batch<Database>) => ({ stock: b.insert('stock', { sku: 'apple', qty: 1 }) })
const read = (b: Batch<Database>) => ({ stock: b.select('stock') })
const fast = { minDelay: 0, maxDelay: 0 }

const add = {
  params: {
    type: 'object',
    properties: { id: { type: 'integer' }, data: true, qty: { type: 'integer', minimum: 1 } },
    required: ['id', 'data']
  },
  operations: [op.insert('added', 't', [{ id: '$params.id', data: '$params.data' }], { expect: 1 })]
}

const service = await useService(t, { schema, keys: true, batches: { add } })
const { sql } = service.database

t.beforeEach(async () => {
  await sql`truncate stock`
})

const fake = fakeClient<Database>

const networkError = (code?: string) => (): never => {
  throw new TypeError('fetch failed', {
    cause: Object.assign(new Error('x'), code === undefined ? {} : { code })
  })
}

const overloaded = refusal(503, { code: 'overloaded' }, { 'retry-after': '0' })
const commitUnknown = refusal(500, { code: 'commit_unknown', committed: 'unknown' })
const inProgress = refusal(409, {
  type: 'request_error', code: 'idempotency_key_in_progress', retryable: true
})

t.test('a lost response is requested again, and the batch is applied once', async t => {
  const keys: string[] = []
  const bodies: string[] = []
  const client = useClient<Database>(service, {
    fetch: async (url, init) => {
      const { 'idempotency-key': key = '' } = init.headers as Record<string, string>
      keys.push(key)
      bodies.push(init.body as string)
      const response = await fetch(url, init)
      return keys.length < 3 ? networkError()() : response
    }
  })
  const { data, attempts, replayed, idempotencyKey } = await client.batch(write)
  t.same(data.stock, [{ sku: 'apple', qty: 1 }])
  t.match({ attempts, replayed }, { attempts: 3, replayed: true })
  t.same([new Set(keys).size, new Set(bodies).size], [1, 1], 'the same request')
  t.equal(idempotencyKey, keys[0])
  t.match(keys[0], /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.same(await sql`select count(*)::int as n from stock`, [{ n: 1 }])

  const key = { idempotencyKey: idempotencyKey as string }
  const again = await client.batch(write, key)
  t.match(again, { data, replayed: true, attempts: 1 }, 'the same key replays the response')
  const other = await failure(client.batch(b => b.insert('stock', { sku: 'pear', qty: 1 }), key))
  const reused = { code: 'idempotency_key_reused', differs: 'request', committed: false }
  t.match(other, { ...reused, attempts: 1 })
})

t.test('a refused connection is reported as not committed and retried', async t => {
  const free = createServer()
  const closed = `http://127.0.0.1:${await listen(free)}/`
  free.close()
  await once(free, 'close')
  const refused = await failure(useClient<Database>({ url: closed }, { retry: false }).batch(write))
  t.match(refused, {
    code: 'network_error',
    committed: false,
    retryable: true,
    attempts: 1,
    message: /ECONNREFUSED/
  }, 'certainly nothing was sent')

  let attempts = 0
  const client = useClient<Database>(service, {
    idempotency: false,
    fetch: (url, init) => fetch(++attempts === 1 ? closed : url, init)
  })
  t.match(
    await client.batch(write),
    { attempts: 2, idempotencyKey: undefined, replayed: false },
    'so it is retried without a key, too'
  )
})

t.test('without the table of keys the error states what to do', async t => {
  const service = await useService(t, { schema })
  t.match(await failure(useClient<Database>(service).batch(write)), {
    code: 'idempotency_key_invalid',
    status: 400,
    committed: false,
    attempts: 1,
    message: /npm run migrate.*idempotency: false/
  })
  t.match(
    await useClient<Database>(service).batch(read),
    { data: { stock: [] } },
    'a read-only batch has no key'
  )
  t.match(await useClient<Database>(service, { idempotency: false }).batch(write), {
    idempotencyKey: undefined
  })
})

t.test('transient errors are retried', async t => {
  const transient = Object.entries({
    503: overloaded,
    'a conflict': refusal(409, {
      type: 'execution_error',
      code: 'serialization_failure',
      retryable: true
    }),
    'an unknown commit': commitUnknown,
    408: refusal(408, { type: 'request_error', code: 'request_timeout' }),
    'no response': networkError(),
    'half a response': () =>
      new Response('{"error":null,"da', { headers: { 'content-type': 'application/json' } }),
    "a proxy's 502": () => new Response('<html>', { status: 502, statusText: 'Bad Gateway' }),
    "a gateway's 429": () => new Response('', { status: 429 })
  })
  for (const [name, first] of transient) {
    const { client, asked } = fake([first, rows({ stock: [] })])
    t.match(await client.batch(write), { data: { stock: [] }, attempts: 2 }, name)
    t.equal(asked[0]?.headers['idempotency-key'], asked[1]?.headers['idempotency-key'])
  }
})

t.test('permanent errors, and unknown outcomes without a key, are not retried', async t => {
  const withoutKey = { idempotency: false }
  const html = new Headers({ 'content-type': 'text/html; charset=utf-8' })
  const answer = (text: string | null, init: ResponseInit = {}) => () => new Response(text, init)
  const invalid = { code: 'answer_invalid', committed: 'unknown' }
  const cases: ReadonlyArray<
    readonly [name: string, answer: () => Response, options: BatchOptions, expected: object]
  > = [
    [
      'an invalid batch',
      refusal(422, {
        type: 'validation_error',
        code: 'validation_failed',
        errors: [{ op: 'stock', index: 0, code: 'set_empty', path: ['set'], message: 'No.' }]
      }),
      {},
      { code: 'validation_failed', committed: false, errors: [{ code: 'set_empty' }] }
    ],
    ['no response', networkError(), withoutKey, {
      code: 'network_error',
      committed: 'unknown',
      retryable: true,
      status: undefined,
      cause: TypeError
    }],
    [
      "a proxy's 502", answer('<html>', { status: 502, headers: html }), withoutKey,
      { ...invalid, status: 502, message: /502, text\/html, 6 characters/ }
    ],
    [
      "a proxy's 404", answer('{}', { status: 404 }), withoutKey,
      { ...invalid, committed: false, status: 404 }
    ],
    [
      'an empty response', answer(null, { status: 504, statusText: 'Gateway Timeout' }), withoutKey,
      { ...invalid, message: /504 Gateway Timeout, no content type, 0 characters/ }
    ],
    ['another server', answer('{"ok":true}'), withoutKey, { ...invalid, status: 200 }],
    [
      'an unknown commit', commitUnknown, withoutKey,
      { code: 'commit_unknown', committed: 'unknown', retryable: true }
    ]
  ]
  for (const [name, answer, options, expected] of cases) {
    const { client, asked } = fake([answer, rows({ stock: [] })])
    const error = await failure(client.batch(write, options))
    t.match(error, { name: 'OneflightError', attempts: 1, ...expected }, name)
    t.equal(asked.length, 1, name)
  }
})

t.test('the outcome of a batch that writes nothing is never unknown', async t => {
  const cases = [
    ['selects', read, {}],
    ['a dry run', write, { dryRun: true }],
    ['read only', write, { readOnly: true }],
    ['a plan', write, { explain: true }]
  ] as const
  for (const [name, build, options] of cases) {
    const { client, asked } = fake([networkError()])
    t.match(await failure(client.batch(build, options)), {
      code: 'network_error',
      committed: false,
      attempts: 5,
      idempotencyKey: undefined
    }, name)
    t.same(
      [asked.length, asked.some(({ headers }) => 'idempotency-key' in headers)],
      [5, false],
      name
    )
  }
})

t.test('an unknown outcome stays unknown until a response settles it', async t => {
  const expired = refusal(401, { type: 'request_error', code: 'token_expired' })
  const cases = [
    ['still running', inProgress, 'unknown'],
    ['an expired token', expired, 'unknown'],
    ['connection refused', networkError('ECONNREFUSED'), 'unknown'],
    [
      'executed and failed', refusal(409, { type: 'execution_error', code: 'unique_violation' }),
      false
    ],
    [
      'the key of a batch that differs, or of this one with another token',
      refusal(422, { type: 'request_error', code: 'idempotency_key_reused' }), 'unknown'
    ]
  ] as const
  for (const [name, second, committed] of cases) {
    const { client } = fake([networkError(), second], { retry: { ...fast, attempts: 2 } })
    t.equal((await failure(client.batch(write))).committed, committed, name)
  }
})

t.test('attempts, pauses and the total time are limited', async t => {
  for (const [retry, attempts] of [[fast, 5], [{ ...fast, attempts: 2 }, 2], [false, 1]] as const) {
    const { client, asked } = fake([overloaded], { retry })
    t.match(await failure(client.batch(write)), {
      code: 'overloaded',
      status: 503,
      attempts,
      retryable: true
    })
    t.equal(asked.length, attempts)
  }
  const { client } = fake([overloaded])
  t.match(
    await failure(client.batch(write, { retry: false })),
    { attempts: 1 },
    'the option of a batch overrides the option of the client'
  )

  const later = fake([refusal(503, { code: 'overloaded' }, { 'retry-after': '120' })])
  t.match(
    await failure(later.client.batch(write)),
    { attempts: 1, retryAfter: 120_000 },
    'a pause that would end after the deadline is not started'
  )

  const silent = () => new Promise<Response>(() => {})
  const slow = fake([silent], { attemptTimeout: 5, retry: { ...fast, attempts: 2 } })
  t.match(await failure(slow.client.batch(write)), {
    code: 'timeout',
    committed: 'unknown',
    attempts: 2
  })
  t.ok(slow.asked.every(({ signal }) => signal.aborted), 'every request was aborted')
  const over = fake([silent], { timeout: 2 })
  t.match(await failure(over.client.batch(write)), {
    code: 'timeout',
    committed: 'unknown',
    attempts: 1
  }, 'after the total timeout there is no further attempt')
  const endless = fake([rows({ stock: [] })], { timeout: Infinity, attemptTimeout: Infinity })
  t.match(await endless.client.batch(write), { attempts: 1 })
})

t.test('an abort signal ends the batch before, during and between attempts', async t => {
  const early = fake([rows({ stock: [] })])
  const before = await failure(early.client.batch(write, { signal: AbortSignal.abort('enough') }))
  t.match(before, { code: 'aborted', committed: false, attempts: 0, cause: 'enough' })
  t.equal(early.asked.length, 0, 'nothing was sent')

  const controller = new AbortController()
  const during = fake([() => {
    controller.abort('enough')
    return new Promise<Response>(() => {})
  }])
  t.match(await failure(during.client.batch(write, { signal: controller.signal })), {
    code: 'aborted',
    committed: 'unknown',
    attempts: 1,
    cause: 'enough'
  })
  t.ok(during.asked[0]?.signal.aborted)

  const pausing = new AbortController()
  const paused = fake([refusal(503, { code: 'overloaded' }, { 'retry-after': '30' })])
  const waiting = failure(paused.client.batch(write, { signal: pausing.signal }))
  await until(() => paused.asked.length === 1)
  pausing.abort('enough')
  t.match(await waiting, { code: 'aborted', committed: false, attempts: 1 })
  t.equal(paused.asked.length, 1)
})

t.test('an expired token is renewed once, and token errors are reported', async t => {
  const tokens = [token({ role: 'oneflight_user', exp: 1 }), token({ role: 'oneflight_user' })]
  let asked = 0
  const client = useClient<Database>(service, { token: async () => tokens[asked++] })
  t.match(await client.batch(write), { attempts: 2 }, 'an expired token is requested again')

  const expired = useClient<Database>(service, { token: () => tokens[0] })
  t.match(
    await failure(expired.batch(read)),
    { code: 'token_expired', status: 401, attempts: 2 },
    'only once'
  )

  const broken = fake([rows({})], {
    token: () => {
      throw new Error('no session')
    }
  })
  t.match(await failure(broken.client.batch(write)), {
    code: 'token_unavailable',
    committed: false,
    attempts: 0,
    message: /no session/,
    cause: Error
  })

  // eslint-disable-next-line prefer-promise-reject-errors
  const thrown = fake([rows({})], { token: async () => Promise.reject('no session') })
  t.match(await failure(thrown.client.batch(write)), {
    code: 'token_unavailable',
    message: /no session/
  })
  const slow = fake([rows({})], { token: () => new Promise(() => {}), timeout: 5 })
  t.match(await failure(slow.client.batch(write)), {
    code: 'timeout',
    committed: false,
    attempts: 0
  })
})

// The URL may end with a slash.
const client = useClient({ url: `${service.url}/` })

t.test('a named batch runs once per key', async t => {
  const params = { id: 9007199254740993n, data: { a: '$added.0.id', when: new Date(0) } }
  const first = await client.run('add', params)
  const { idempotencyKey } = first
  t.match(idempotencyKey, /^[0-9a-f-]{36}$/)
  t.same([first.replayed, first.attempts], [false, 1])
  t.same(first.data, {
    added: [{
      id: Number(9007199254740993n), data: { a: '$added.0.id', when: '1970-01-01T00:00:00.000Z' }
    }]
  })
  const again = await client.run('add', params, { idempotencyKey: idempotencyKey as string })
  t.same([again.replayed, again.data], [true, first.data])
  const dry = await client.run('add', { id: 1, data: 1 }, { dryRun: true, return: 'minimal' })
  t.same([dry.data, dry.idempotencyKey], [{ added: 1 }, undefined])
  t.same(await service.database.sql`select id::text from t`, [{ id: '9007199254740993' }])
})

t.test('a named batch: invalid parameters and names have the errors of the service', async t => {
  const invalid = await failure(client.run('add', { id: 'x', data: 1, qty: 0 }))
  t.match(invalid, {
    code: 'params_invalid', type: 'validation_error', status: 422, committed: false, attempts: 1
  })
  t.same(invalid.errors.map(({ path }) => path), [['id'], ['qty']])
  t.ok(invalid.errors.every(({ message, op }) => message !== '' && op === undefined))
  t.match(await failure(client.run('none', {})), { code: 'batch_unknown', status: 404 })
})

t.test('the path of a named batch follows the URL of the service', async t => {
  const urls = [
    [new URL('http://127.0.0.1:9'), 'http://127.0.0.1:9/batches/a%2Fb'],
    ['https://x.example/api?tenant=1', 'https://x.example/api/batches/a%2Fb?tenant=1'],
    ['/db/', '/db/batches/a%2Fb']
  ] as const
  for (const [url, path] of urls) {
    const { fetch, asked } = fakeFetch([rows({})])
    await createClient({ url, fetch }).run('a/b', {})
    t.same(asked.map(({ url }) => url), [path])
  }
})

t.test('parameters of a named batch that JSON cannot represent are refused', async t => {
  const { fetch } = fakeFetch([rows({})])
  const client = createClient({ url: 'http://x', fetch })
  const refused: Array<readonly [Promise<OneflightError>, string | RegExp]> = [
    [failure(client.run('a', { x: NaN })), 'batch "a": x is NaN, which JSON cannot represent.'],
    [failure(client.run('a', { x: $.inc(1) })), /^batch "a": x is \$\.inc/]
  ]
  await client.batch(b => {
    const operation = b.select('t')
    const sent = failure(client.run('a', { x: operation.row(0) }))
    refused.push([sent, 'batch "a": x does not accept a reference.'])
    return operation
  })
  for (const [error, message] of refused) {
    t.match(await error, { code: 'batch_invalid', message })
  }
})
