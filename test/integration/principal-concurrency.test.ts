/**
 * Tests PRINCIPAL_CONCURRENCY: a principal with too many batches is refused before the body is
 * read, others are not, and every end of a batch frees its place. A request that cannot run takes
 * no connection from others: it is refused before it has one, and is not retried.
 */
import t, { type Test } from 'tap'
import { holdRow } from '../support/database/hold.ts'
import { dial, request } from '../support/network/wire.ts'
import { ask, useService, type ServiceUnderTest } from '../support/service.ts'
import { bearer, failed, headersOfBatch } from '../support/shorthand.ts'
import { select, update } from '../support/operations.ts'
import { until } from '../support/until.ts'

const schema = `
  create table slots (id int primary key, n int not null default 0);
  insert into slots values (0), (1);
  grant all on slots to oneflight_user, oneflight_other, oneflight_anon`
const touch = [update('t', 'slots', { set: { n: { $inc: 1 } }, where: { id: { eq: 0 } } })]
const read = [select('s', 'slots')]
const busy = failed(429, 'principal_busy', {
  type: 'service_error', committed: false, retryable: true
})
const limit = { PRINCIPAL_CONCURRENCY: '1', ANON_ROLE: 'oneflight_anon' }

const as = (claims: object): { readonly headers: { readonly authorization: string } } =>
  ({ headers: { authorization: bearer(claims) } })

t.test('a principal has this number of batches', async t => {
  const service = await useService(t, {
    schema,
    env: { ...limit, PRINCIPAL_CONCURRENCY: '2' },
    batches: { read: { operations: read } }
  })
  const row = await holdRow(service.database)
  const one = { sub: 'one', iss: 'a' }
  const running = [service.post(touch, as(one)), service.post(touch, as(one))]
  await row.awaited(2)

  const line = await dial(service.url)
  const headers = headersOfBatch({ authorization: bearer(one), 'content-length': '100' })
  line.send(request('POST', '/', headers))
  t.match(await line.answers(1), [{ ...busy, headers: { 'retry-after': '1' } }],
    'refused although no byte of the body was sent')
  line.socket.destroy()
  t.match(await service.run('read', {}, as(one)), busy, 'a named batch')

  for (const [name, claims] of Object.entries({
    'another subject': { ...one, sub: 'two' },
    'another issuer': { ...one, iss: 'b' },
    'another role': { ...one, role: 'oneflight_other' },
    'no subject': {},
    'a subject that is no text': { sub: 1 }
  })) t.match(await service.post(read, as(claims)), { status: 200 }, name)
  t.match(await service.post(read, { role: null }), { status: 200 }, 'no token')

  await row.free()
  t.match(await Promise.all(running), [{ status: 200 }, { status: 200 }])
  t.match(await service.post(read, as(one)), { status: 200 })
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.match(text, /^service_error_count\{code="principal_busy"\} 2$/m)
})

t.test('those without a subject share a place', async t => {
  const service = await useService(t, { schema, env: limit })
  const row = await holdRow(service.database)
  const running = [service.post(touch), service.post(touch, { role: null })]
  await row.awaited(2)
  t.match(await service.post(read, as({ jti: 'x' })), busy)
  t.match(await service.post(read, { role: null }), busy)
  await row.free()
  await Promise.all(running)
})

async function isFree (t: Test, service: ServiceUnderTest, name: string): Promise<void> {
  await until(async () => (await service.post(read)).status === 200)
  t.pass(name)
}

t.test('every end of a batch frees its place', async t => {
  const service = await useService(t, { schema, env: { ...limit, MAX_BODY_BYTES: '1000' } })
  for (const [body, status, code] of [
    ['[', 400, 'body_invalid'],
    ['[]', 400, 'body_empty'],
    [JSON.stringify([select('s', 'nowhere')]), 404, 'undefined_table'],
    [JSON.stringify([select('s', 'x'.repeat(1000))]), 413, 'body_too_large']
  ] as const) {
    t.match(await service.post(body), failed(status, code))
    await isFree(t, service, code)
  }
  const line = await dial(service.url)
  line.send(request('POST', '/', headersOfBatch({ 'content-length': '100' }), '['))
  await until(async () => (await service.post(read)).status === 429)
  line.socket.destroy()
  await isFree(t, service, 'the client has gone before it sent the body')
})

t.test('a batch counts until its transaction has ended, without its client, too', async t => {
  const service = await useService(t, { schema, env: limit })
  const row = await holdRow(service.database)
  const line = await dial(service.url)
  const body = JSON.stringify(touch)
  line.send(request('POST', '/', headersOfBatch(), body))
  await row.awaited()
  line.socket.destroy()
  // The service reads the end of the connection before it has read all of these.
  for (let i = 0; i < 10; i++) t.match(await service.post(read), busy)
  await row.free()
  await isFree(t, service, 'after the transaction')
})

t.test('a later hook that refuses frees the place', async t => {
  const service = await useService(t, {
    schema,
    env: { ...limit, POOL_SIZE: '1', QUEUE_SIZE: '0' }
  })
  const row = await holdRow(service.database)
  const running = service.post(touch, as({ sub: 'one' }))
  await row.awaited()
  for (let i = 0; i < 3; i++) t.match(await service.post(read), failed(503, 'overloaded'))
  await row.free()
  t.match(await running, { status: 200 })
})
