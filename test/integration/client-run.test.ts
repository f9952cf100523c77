/**
 * Tests `client.run`, which runs a named batch: the request, the results, retries and errors.
 */
import t from 'tap'
import { $, createClient, OneflightError } from '../../client/src/index.ts'
import * as op from '../support/operations.ts'
import { fakeFetch, rows, useClient } from '../support/client.ts'
import { useService } from '../support/service.ts'

const add = {
  params: {
    type: 'object',
    properties: { id: { type: 'integer' }, data: true, qty: { type: 'integer', minimum: 1 } },
    required: ['id', 'data']
  },
  operations: [op.insert('added', 't', [{ id: '$params.id', data: '$params.data' }], { expect: 1 })]
}
const schema = 'create table t (id bigint, data jsonb); grant all on t to oneflight_user'

const service = await useService(t, { schema, keys: true, batches: { add } })
// The URL may end with a slash.
const client = useClient({ url: `${service.url}/` })

const failureOf = async (promise: Promise<unknown>): Promise<OneflightError> => {
  const error: unknown = await promise.then(() => undefined, (error: unknown) => error)
  if (error instanceof OneflightError) return error
  throw error
}

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

t.test('invalid parameters and names have the errors of the service', async t => {
  const invalid = await failureOf(client.run('add', { id: 'x', data: 1, qty: 0 }))
  t.match(invalid, {
    code: 'params_invalid', type: 'validation_error', status: 422, committed: false, attempts: 1
  })
  t.same(invalid.errors.map(({ path }) => path), [['id'], ['qty']])
  t.ok(invalid.errors.every(({ message, op }) => message !== '' && op === undefined))
  t.match(await failureOf(client.run('none', {})), { code: 'batch_unknown', status: 404 })
})

t.test('the path of the batch follows the URL of the service', async t => {
  const urls = [
    ['http://127.0.0.1:9', 'http://127.0.0.1:9/batches/a%2Fb'],
    ['http://127.0.0.1:9/', 'http://127.0.0.1:9/batches/a%2Fb'],
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

t.test('a lost response is retried with the same key and body', async t => {
  const lose = (): never => {
    throw new TypeError('lost')
  }
  const { fetch, asked } = fakeFetch([lose, rows({ n: 1 })])
  const client = createClient({ url: 'http://x', fetch, retry: { minDelay: 1, maxDelay: 1 } })
  const { data, attempts } = await client.run('a', { x: 1n, none: undefined })
  t.same([data, attempts], [{ n: 1 }, 2])
  t.same(asked.map(({ body }) => body), ['{"x":1}', '{"x":1}'])
  t.equal(new Set(asked.map(({ headers }) => headers['idempotency-key'])).size, 1)
})

t.test('parameters that JSON cannot represent are refused', async t => {
  const { fetch, asked } = fakeFetch([])
  const client = createClient({ url: 'http://x', fetch })
  const refused = [
    [{ x: NaN }, 'batch "a": x is NaN, which JSON cannot represent.'],
    [{ x: $.inc(1) }, /^batch "a": x is \$\.inc/]
  ] as const
  for (const [params, message] of refused) {
    t.match(await failureOf(client.run('a', params)), { code: 'batch_invalid', message })
  }
  const { fetch: other } = fakeFetch([rows({})])
  const errors: Array<Promise<OneflightError>> = []
  await createClient({ url: 'http://x', fetch: other }).batch(b => {
    const operation = b.select('t')
    errors.push(failureOf(client.run('a', { x: operation.row(0) })))
    return operation
  })
  t.equal((await errors[0])?.message, 'batch "a": x does not accept a reference.')
  t.same(asked, [])
})
