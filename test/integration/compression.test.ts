/**
 * Tests COMPRESSION=on: which responses are compressed, that their content stays the same, and what
 * a failed compression says about COMMIT.
 */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { once } from 'node:events'
import zlib from 'node:zlib'
import t, { type Test } from 'tap'
import { token, useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `create table words (n int generated always as identity, word text);
  insert into words (word) select md5(n::text) from generate_series(1, 9000) n;
  grant all on words to oneflight_user;`

interface Raw {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The body as it was sent. */
  readonly bytes: Buffer
}

const read = (limit: number): string =>
  JSON.stringify([{ id: 'w', op: 'select', table: 'words', order: [{ n: 'asc' }], limit }])

/** Sends a batch and does not decode the response, as fetch would. */
async function post (
  { url }: ServiceUnderTest,
  body: string,
  headers: Readonly<Record<string, string>> = {}
): Promise<Raw> {
  const request = httpRequest(url, {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${token({ role: 'oneflight_user' })}`,
      ...headers
    }
  })
  request.end(body)
  const [response] = await once(request, 'response')
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { status: response.statusCode, headers: response.headers, bytes: Buffer.concat(chunks) }
}

const gzip = { 'accept-encoding': 'gzip' }

t.test('without COMPRESSION, nothing is compressed', async t => {
  const service = await useService(t, { schema })
  const { headers, bytes } = await post(service, read(1000), gzip)
  t.match(headers, { 'content-encoding': undefined, vary: undefined })
  t.equal(Number(headers['content-length']), bytes.length)
})

t.test('responses are compressed from 10 KiB on, with the same content', async t => {
  const service = await useService(t, { schema, env: { COMPRESSION: 'on' } })
  const rows = [
    // A large response is compressed while it is sent, so its length is not known.
    [9000, 'gzip', 'gzip', 'chunked'],
    [9000, 'br', 'br', 'chunked'],
    [1000, 'gzip', 'gzip', undefined],
    [1000, 'gzip, deflate, br, zstd', 'br', undefined],
    [1000, 'br;q=0.1, gzip', 'gzip', undefined],
    [1000, 'deflate', undefined, undefined],
    [1000, 'identity', undefined, undefined],
    [1000, 'gzip;q=0', undefined, undefined],
    [1000, '', undefined, undefined],
    [100, 'gzip', undefined, undefined]
  ] as const
  const decoders = { gzip: zlib.gunzipSync, br: zlib.brotliDecompressSync }
  for (const [limit, accepted, encoding, transfer] of rows) {
    const plain = await post(service, read(limit))
    const { status, headers, bytes } = await post(service, read(limit), {
      'accept-encoding': accepted
    })
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
  t.match(await post(service, '[]', { 'content-encoding': 'gzip' }), { status: 415 })
})

t.test('a stored response and an error are compressed, too', async t => {
  const service = await useService(t, { schema, keys: true, env: { COMPRESSION: 'on' } })
  const headers = { ...gzip, 'idempotency-key': 'k' }
  const first = await post(service, read(1000), headers)
  const again = await post(service, read(1000), headers)
  t.match(again, { status: 200, headers: { 'idempotent-replayed': 'true' } })
  t.ok(again.bytes.equals(first.bytes))
  const invalid = JSON.stringify(
    Array.from({ length: 100 }, (_, i) => ({ id: `o${i}`, op: 'select', table: 1 }))
  )
  const refused = await post(service, invalid, gzip)
  t.match(refused, { status: 422, headers: { 'content-encoding': 'gzip' } })
  t.match(JSON.parse(zlib.gunzipSync(refused.bytes).toString()), {
    error: { code: 'validation_failed', request_id: refused.headers['x-request-id'] }
  })
})

t.test('a client that disconnects releases the memory of its response', async t => {
  const service = await useService(t, {
    schema,
    // Room for one response.
    env: { COMPRESSION: 'on', MAX_BODY_BYTES: '1000', MAX_BYTES_IN_FLIGHT: '600000' }
  })
  for (let i = 0; i < 5; i++) {
    const request = httpRequest(service.url, {
      method: 'POST',
      agent: false,
      headers: {
        ...gzip,
        'content-type': 'application/json',
        authorization: `Bearer ${token({ role: 'oneflight_user' })}`,
        'x-request-id': `gone-${i}`
      }
    })
    request.on('error', () => {})
    request.end(read(9000))
    const [response] = await once(request, 'response')
    response.destroy()
    await until(() => service.log.some(line => line['request_id'] === `gone-${i}`))
  }
  t.match(await post(service, read(9000), gzip), { status: 200 })
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
  const service = await useService(t, { schema, env: { COMPRESSION: 'on' } })
  const insert = JSON.stringify([{
    id: 'w',
    op: 'insert',
    table: 'words',
    values: [{ word: 'x'.repeat(20_000) }]
  }])
  for (
    const [prefer, code, committed] of [
      ['tx=commit', 'commit_unknown', 'unknown'],
      ['tx=rollback', 'internal', false]
    ] as const
  ) {
    const { status, headers, bytes } = await post(service, insert, { ...gzip, prefer })
    t.equal(status, 500)
    t.equal(headers['content-encoding'], undefined)
    t.match(JSON.parse(bytes.toString()), { error: { code, committed }, data: null }, prefer)
  }
  t.match(await service.database.sql`select count(*)::int as n from words`, [{ n: 9001 }])
})
