/**
 * Tests COMPRESSION=on: which responses are compressed, that their content stays the same, and what
 * a failed compression says about COMMIT.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { buffer } from 'node:stream/consumers'
import zlib from 'node:zlib'
import t, { type Test } from 'tap'
import { postUnread, useService, type ServiceUnderTest } from '../support/service.ts'
import { headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'
import * as op from '../support/operations.ts'

const schema = `create table words (n int generated always as identity, word text);
  insert into words (word) select md5(n::text) from generate_series(1, 9000) n;`

const service = await useService(t, { schema, keys: true, env: { COMPRESSION: 'on' } })
const { useAnother } = service

interface Raw {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The body as it was sent. */
  readonly bytes: Buffer
}

const read = (limit: number): string =>
  JSON.stringify([{ id: 'w', op: 'select', table: 'words', order: [{ n: 'asc' }], limit }])

/** Sends a batch. The body of the response is not decoded, as fetch would do. */
async function post (
  body: string,
  headers: Readonly<Record<string, string>> = {},
  { url }: Pick<ServiceUnderTest, 'url'> = service
): Promise<Raw> {
  const response = await postUnread(url, headersOfBatch(headers), body)
  const bytes = await buffer(response)
  return { status: Number(response.statusCode), headers: response.headers, bytes }
}

const gzip = { 'accept-encoding': 'gzip' }

t.test('without COMPRESSION, nothing is compressed', async t => {
  const { headers, bytes } = await post(read(1000), gzip, await useAnother(t))
  t.match(headers, { 'content-encoding': undefined, vary: undefined })
  t.equal(Number(headers['content-length']), bytes.length)
})

t.test('responses are compressed from 10 KiB on, with the same content', async t => {
  const rows = [
    // A large response is compressed while it is sent, so its length is not known.
    [9000, 'gzip', 'gzip', 'chunked'],
    [9000, 'br', 'br', 'chunked'],
    [1000, 'gzip, deflate, br, zstd', 'br', undefined],
    [1000, 'gzip;q=0', undefined, undefined],
    [100, 'gzip', undefined, undefined]
  ] as const
  const decoders = { gzip: zlib.gunzipSync, br: zlib.brotliDecompressSync }
  for (const [limit, accepted, encoding, transfer] of rows) {
    const plain = await post(read(limit))
    const encodings = { 'accept-encoding': accepted }
    const { status, headers, bytes } = await post(read(limit), encodings)
    t.equal(status, 200)
    t.equal(headers['content-encoding'], encoding, `${limit} ${accepted}`)
    t.equal(headers.vary, encoding === undefined ? undefined : 'accept-encoding')
    t.equal(headers['transfer-encoding'], transfer)
    if (transfer === undefined) t.equal(Number(headers['content-length']), bytes.length)
    const decoded = encoding === undefined ? bytes : decoders[encoding](bytes)
    t.ok(decoded.equals(plain.bytes), 'the same content')
    t.ok(encoding === undefined || bytes.length < plain.bytes.length)
    t.same(
      [plain.headers['content-encoding'], Number(plain.headers['content-length'])],
      [undefined, plain.bytes.length],
      'without Accept-Encoding'
    )
  }
  t.match(await post('[]', { 'content-encoding': 'gzip' }), { status: 415 })
})

t.test('a stored response and an error are compressed, too', async t => {
  const headers = { ...gzip, 'idempotency-key': 'k' }
  const first = await post(read(1000), headers)
  const again = await post(read(1000), headers)
  t.match(again, { status: 200, headers: { 'idempotent-replayed': 'true' } })
  t.ok(again.bytes.equals(first.bytes))
  const invalid = JSON.stringify(
    Array.from({ length: 100 }, (_, i) => ({ id: `o${i}`, op: 'select', table: 1 }))
  )
  const refused = await post(invalid, gzip)
  t.match(refused, { status: 422, headers: { 'content-encoding': 'gzip' } })
  t.match(JSON.parse(zlib.gunzipSync(refused.bytes).toString()), {
    error: { code: 'validation_failed', request_id: refused.headers['x-request-id'] }
  })
})

t.test('a client that disconnects releases the memory of its response', async t => {
  // Room for one response.
  const limits = { MAX_BODY_BYTES: '1000', MAX_BYTES_IN_FLIGHT: '600000' }
  const service = await useAnother(t, { env: { COMPRESSION: 'on', ...limits } })
  for (let i = 0; i < 5; i++) {
    const headers = headersOfBatch({ ...gzip, 'x-request-id': `gone-${i}` })
    const response = await postUnread(service.url, headers, read(9000))
    response.destroy()
    await until(() => service.log.some(line => line['request_id'] === `gone-${i}`))
  }
  t.match(await post(read(9000), gzip, service), { status: 200 })
  t.same(service.log.filter(({ level }) => level === 50), [])
})

/** Makes gzip fail until the end of `t`, as without memory. */
function breakGzip (t: Test): void {
  const { gzipSync } = zlib
  t.teardown(() => {
    zlib.gzipSync = gzipSync
  })
  zlib.gzipSync = () => {
    throw new RangeError('no memory')
  }
}

t.test('a failed compression reports whether the batch committed', async t => {
  breakGzip(t)
  // A service takes the functions of zlib when it starts.
  const service = await useAnother(t, { env: { COMPRESSION: 'on' } })
  const insert = JSON.stringify([op.insert('w', 'words', [{ word: 'x'.repeat(20_000) }])])
  for (
    const [prefer, code, committed] of [
      ['tx=commit', 'commit_unknown', 'unknown'],
      ['tx=rollback', 'internal', false]
    ] as const
  ) {
    const { status, headers, bytes } = await post(insert, { ...gzip, prefer }, service)
    t.equal(status, 500)
    t.equal(headers['content-encoding'], undefined)
    t.match(JSON.parse(bytes.toString()), { error: { code, committed }, data: null }, prefer)
  }
  t.match(await service.database.sql`select count(*)::int as n from words`, [{ n: 9001 }])
})
