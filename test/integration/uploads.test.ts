/**
 * Tests uploads: rows of a named batch, one JSON object a line or CSV. They do the same as the
 * parameters in one JSON object, the first faulty line is named, and a client that is slow or gone
 * holds neither memory nor a connection to the database.
 */
import { once } from 'node:events'
import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { untilBlocked } from '../support/database/hold.ts'
import * as op from '../support/operations.ts'
import { bearer, failed, nowhere, on, postBatch } from '../support/shorthand.ts'
import { ask, expectReplay, useService, type Answer, type ServiceUnderTest }
  from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `
  create table readings (id bigint primary key, sensor text default 'none', value numeric,
    day date, info jsonb, tags text[], source text);
  create table pairs (a int, b int);`

const reading = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    sensor: { type: ['string', 'null'], maxLength: 10 },
    value: { type: 'number' },
    day: { type: 'string' },
    info: true,
    tags: { type: 'array', items: { type: 'string' } },
    source: true
  },
  required: ['id'],
  additionalProperties: false
}
const list = { type: 'array', items: reading }
const nullable = { ...reading.properties, value: { type: ['number', 'null'] } }
const paramsOf = (items: object, more: object = {}, required = ['items']): object =>
  ({ type: 'object', properties: { items, ...more }, required })
const insert = op.insert('in', 'readings', '$params.items' as never, { returning: [] })
const scalars = {
  source: { type: 'string', default: 'none' },
  factor: { type: 'number', maximum: 1e30, default: 1 },
  count: { type: 'integer', default: 0 },
  keep: { type: 'boolean', default: true },
  maybe: { type: ['integer', 'null'], default: null },
  any: { default: 1 },
  list: { type: 'array', default: [] },
  either: { type: ['integer', 'string'], default: 1 }
}
const from = op.insert('in', 'readings', undefined, {
  from: { param: 'items' },
  columns: {
    id: { $col: 'id' },
    sensor: { $col: 'sensor' },
    value: { $col: 'value' },
    info: { $col: 'info' },
    source: '$params.source',
    tags: ['$params.factor', '$params.count']
  },
  returning: []
})
const batches = {
  load: { params: paramsOf(list), operations: [insert] },
  from: { params: paramsOf({ $ref: '#/$defs/list' }, scalars), operations: [from] },
  ids: {
    params: paramsOf(list),
    operations: [op.insert('in', 'readings', '$params.items' as never, { returning: ['id'] })]
  },
  null: {
    params: paramsOf({ ...list, items: { ...reading, properties: nullable } }), operations: [insert]
  },
  few: { params: paramsOf({ ...list, minItems: 2, maxItems: 3 }), operations: [insert] },
  unique: { params: paramsOf({ ...list, uniqueItems: true }), operations: [insert] },
  halves: {
    params: paramsOf({
      ...list, items: { type: 'object', properties: { id: true }, additionalProperties: false }
    }),
    operations: [{ ...from, columns: { id: { $col: 'id' } } }]
  },
  missing: { params: paramsOf(list), operations: [{ ...insert, table: 'nowhere' }] },
  none: { operations: [{ id: 's', op: 'select', table: 'pairs' }] },
  value: {
    params: paramsOf(list),
    operations: [insert, op.insert('v', 'readings', [{ id: 1, info: '$params.items' }])]
  },
  two: {
    params: paramsOf(list, { others: list }, ['items', 'others']),
    operations: [insert, { ...insert, id: 'more', values: '$params.others' }]
  }
}
// The reference is resolved in the same way as in a JSON request.
Object.assign(batches.from.params, { $defs: { list } })

const type = { 'content-type': 'application/x-ndjson' }
const csv = { 'content-type': 'text/csv; charset=utf-8' }
const service = await useService(t, {
  schema,
  keys: true,
  batches,
  env: {
    MAX_UPLOAD_ROWS: '100000',
    MAX_ROWS: '1000',
    MAX_BODY_BYTES: '150000',
    MAX_STREAM_ROWS: '1000',
    EXPLAIN: 'on'
  }
})
const { sql } = service.database
const readAll = (): Promise<readonly unknown[]> =>
  sql`select r::text from readings as r order by id`.then(rows => rows.map(({ r }) => r as string))

const upload = (
  name: string,
  lines: string | readonly unknown[],
  headers: Readonly<Record<string, string>> = {}
): Promise<Answer> =>
  service.run(name, typeof lines === 'string' ? lines : lines.map(writeLine).join('\n'), {
    headers: { ...type, ...headers }
  })

/** A string is a line as it is. */
function writeLine (line: unknown): string {
  return typeof line === 'string' ? line : JSON.stringify(line)
}

t.beforeEach(async () => {
  await sql`truncate readings`
})

t.test('an upload stores what the same rows store as JSON', async t => {
  const lines = [
    '{"id": 9007199254740993, "sensor": "é𝄞\\u00e9\\n", "value": 1.10, "info": {"a": [1.10]}}',
    '{"id":2,"sensor":null,"value":12345678901234567890.123,"info":"$in.0.id"}\r',
    '{"info":[1,[2]],"value":-0,"sensor":"$params.x","id":3}'
  ]
  for (const [name, more] of [['load', ''], ['from', ',"source":"a b&c","factor":2.50']] as const) {
    const query = more === '' ? name : `${name}?source=a+b%26c&&factor=2.50`
    const answer = await upload(query, `${lines.join('\n')}\n`)
    t.match(answer, { status: 200, text: '{"error":null,"data":{"in":[]}}' })
    const stored = await readAll()
    t.equal(stored.length, 3)
    await sql`truncate readings`
    t.equal((await service.run(name, `{"items":[${lines.join()}]${more}}`)).status, 200)
    t.strictSame(stored, await readAll())
    await sql`truncate readings`
  }
  const spaced = '\n{"id":1}\n\r\n\n{"id":2}\r\n\r'
  t.match(await upload('load', spaced), { status: 200, body: { data: { in: [] } } })
  t.equal((await readAll()).length, 2, 'an empty line is not a row')
  await sql`truncate readings`
  t.match(await upload('load', '\n\n{"id":1}\n\r\n{"id":"x"}\n'), {
    status: 422, body: { error: { line: 5, errors: [{ path: ['items', 1, 'id'] }] } }
  })
  t.match(await upload('load', `\n{"id":1}\n\n${'x'.repeat(200_000)}`), {
    status: 400, body: { error: { line: 4 } }
  })
  t.match(await upload('load', ''), { status: 200, body: { data: { in: [] } } })
  t.strictSame(await readAll(), [], 'no rows')
})

t.test('100 000 rows are one transaction', async t => {
  const lines = Array.from({ length: 100_000 }, (_, id) => `{"id":${id},"sensor":"s","value":1}`)
  t.match(await upload('load', lines, { prefer: 'return=minimal' }), {
    status: 200, body: { data: { in: 100_000 } }
  })
  t.match(
    await sql`select count(*)::int, count(distinct xmin::text)::int as transactions from readings`,
    [{ count: 100_000, transactions: 1 }]
  )
  t.match(await upload('load', [...lines, '{"id":-1}']), {
    status: 422, body: { error: { code: 'params_invalid', line: 100_001 } }
  })
})

t.test('rows that are returned are limited as ever', async t => {
  const lines = Array.from({ length: 1001 }, (_, id) => ({ id }))
  t.match(await upload('ids', lines), failed(422, 'rows_limit', {
    message: /more than 1000 rows, or .* than 100000\.$/
  }))
  t.match(await upload('ids', lines, { prefer: 'return=minimal' }), {
    body: { data: { in: 1001 } }
  })
  t.match(await service.run('load', { items: lines }), { status: 422 }, 'as JSON')
  t.match(await upload('ids', lines.slice(0, 2), { prefer: 'explain' }), {
    status: 200, body: { data: { in: [{}] } }
  })
})

/** A fault of a body: its media type, the number of its line, the message, the paths of issues. */
type Fault = readonly [
  body: string | Buffer, line: number, message: RegExp, ...paths: Array<readonly unknown[]>
]
const row = '{"id":1,"sensor":"s"}'
const faults: Readonly<Record<'json' | 'csv', readonly Fault[]>> = {
  json: [
    [`${row}\n{"id":2\n0`, 2, /it is not valid JSON: unexpected end at column 8\.$/],
    [`${row}\n{"id":2,"id":3}\n0`, 2, /duplicate key "id"/],
    [`${row}\n\ufeff{"id":2}`, 2, /byte order mark/],
    [`${row}\n{"id":2,"sensor":"${'x'.repeat(150_000)}"}`, 2, /more than 150000 bytes/],
    [Buffer.from(`${row}\n{"id":2,"sensor":"\xff"}`, 'latin1'), 2, /it is not valid UTF-8\.$/],
    [`${row}\n{"id":2,"info":${'['.repeat(101)}${']'.repeat(101)}}`, 2, /nested too deeply/,
      ['items', 1]],
    [`${row}\n{"sensor":"s"}\n0`, 2, /"id" is required\./, ['items', 1, 'id']],
    [`${row}\n{"id":2,"other":1}`, 2, /"other" is unknown\./, ['items', 1, 'other']],
    [`${row}\n{"id":"2","value":"3"}`, 2, /has 2 issues/, ['items', 1, 'id'],
      ['items', 1, 'value']],
    [`${row}\n{"id":2,"value":3}`, 2, /must have the columns of the first row: id, sensor\.$/,
      ['items', 1]]
  ],
  csv: [
    ['id,sensr\n1,a', 1, /"sensr".*Columns: id, sensor/, ['items']],
    ['id,id\n1,2', 1, /names "id" twice/, ['items']],
    ['id,tags\n1,2', 1, /"tags" cannot be sent as CSV/, ['items']],
    ['id\n1\n2\nx\n4\n', 4, /"id" must be an integer/, ['items', 2, 'id']],
    ['id,value\n1,x', 2, /"value" must be a number/, ['items', 0, 'value']],
    ['id,sensor\n1,"a\r\nb\rc\r"\n\n2,"\r\n"\nx,c', 7, /int/, ['items', 2, 'id']],
    ['id,\n1,2', 1, /names ""/, ['items']],
    ['id,sensor\n,"\r\n",3\n', 3, /more or fewer fields/],
    ['id,sensor\n1,a\n2\n', 3, /more or fewer fields than the header/],
    ['id,sensor\n1,a"b\n', 2, /must be quoted as a whole/],
    ['id,sensor\n1,"a"b\n', 2, /must end with its quote/],
    ['id,sensor\n1,"ab\n', 2, /not closed/],
    ['id,sensor\n1,a\0b\n', 2, /U\+0000/],
    [Buffer.from('id,sensor\n1,a\n2,\xe9\n', 'latin1'), 3, /not UTF-8/],
    [`id,sensor\n1,${'a'.repeat(200_000)}\n`, 2, /MAX_BODY_BYTES/]
  ]
}

t.test('the first faulty line is named', async t => {
  for (const [kind, list] of Object.entries(faults)) {
    for (const [body, line, message, ...paths] of list) {
      const headers = kind === 'csv' ? csv : type
      const answer = await postBatch(`${service.url}/batches/load`, body, headers)
      const isRead = paths.length > 0
      t.match(answer, failed(isRead ? 422 : 400, isRead ? 'params_invalid' : 'body_invalid', {
        line, message, committed: false
      }), String(message))
      t.match(answer.body.error.message, isRead ? /^Line \d/ : /^Line \d+ cannot be read: /)
      const { errors = [] } = answer.body.error
      t.strictSame(errors.map(({ path }: { path: unknown }) => path), paths, String(message))
    }
  }
  t.same(await readAll(), [])
  t.match(await upload('from', '{"id":1}\n{"id":2,"value":3}'), { status: 200 }, 'NULL in `from`')
  t.strictSame((await readAll()).length, 2)
})

t.test('a value that its column would change is refused with its line', async t => {
  const rows = [{ id: 1, day: '2026-01-02' }, { id: 2, day: '2026-01-02T10:00' }]
  t.match(await upload('load', rows), failed(422, 'value_invalid', {
    message: 'Line 2, "day": date holds no time of day.',
    path: ['items', 1, 'day'],
    line: 2,
    retryable: false
  }))
  t.match(await upload('halves', [{ id: 1 }, { id: 2.5 }]), {
    body: { error: { code: 'value_invalid', path: ['items', 1, 'id'], line: 2 } }
  })
  t.match(await upload('missing', [{ id: 1 }]), failed(404, 'undefined_table'))
  t.equal((await readAll()).length, 0)
})

t.test('a type that changes after the rows have arrived is a conflict', async t => {
  const rows = [{ id: 1, value: 1.25 }]
  t.match(await upload('load', rows), { status: 200 }, 'types are known')
  let answer: Promise<Answer> | undefined
  await sql.begin(async tx => {
    await tx`alter table readings alter column value type numeric(6, 2)`
    answer = upload('load', [{ id: 2, value: 1.125 }])
    await untilBlocked(service.database)
  })
  t.match(await answer, failed(409, 'serialization_failure', { retryable: true }))
  t.match(await upload('load', [{ id: 2, value: 1.125 }]), {
    body: { error: { code: 'value_invalid', line: 1 } }
  })
  t.strictSame(await readAll(), ['(1,none,1.25,,,,)'])
  await sql`alter table readings alter column value type numeric`
  t.match(await upload('load', [{ id: 2, value: 1.125 }]), {
    status: 409, body: { error: { code: 'serialization_failure', retryable: true } }
  }, 'its type was refusing the value')
  t.match(await upload('load', [{ id: 2, value: 1.125 }]), { status: 200 })
})

t.test('the number of rows is that of the schema', async t => {
  const rows = [1, 2, 3, 4].map(id => ({ id }))
  t.match(await upload('few', rows.slice(0, 1)), {
    status: 422,
    body: { error: { message: '"items" has 1 rows; at least 2 are required.' } }
  })
  t.match(await upload('few', rows), {
    status: 422,
    body: { error: { line: 4, message: /There is a further row; at most 3 rows are allowed\./ } }
  })
  t.match(await upload('few', rows.slice(1)), { status: 200 })
})

t.test('the query has the other parameters, in their types', async t => {
  const row = '{"id":1}'
  t.match(await upload('from?count=12&factor=1e400&keep=false&maybe=3', row), { status: 422 })
  t.match(await upload('from?count=9007199254740993&factor=-1.50&keep=false&maybe=3', row), {
    status: 200
  })
  t.match(await sql`select tags from readings`, [{ tags: ['-1.50', '9007199254740993'] }])
  const cases = {
    'count=1.5': '"count" must be an integer.',
    'count=+1': '"count" must be a number as JSON writes it, for example 2.50.',
    'keep=1': '"keep" must be true or false.',
    'source=a&source=b': '"source" is given more than once.',
    'source=%00': '"source" contains U+0000, which PostgreSQL cannot store.',
    'source=%ff': 'The query has an invalid percent-encoding.',
    items: '"items" is sent as the body.',
    'other=1': 'There is no parameter "other". Parameters: items, source, factor, count, keep, ' +
      'maybe, any, list, either.',
    'any=1': /^"any" cannot be sent in the query: .* Send all parameters as application\/json\.$/,
    'list=1': /^"list" cannot be sent in the query/,
    'either=1': /^"either" cannot be sent in the query/
  }
  for (const [query, message] of Object.entries(cases)) {
    const { status, body } = await upload(`from?${query}`, 'never read')
    t.match({ status, ...body.error }, { status: 422, code: 'params_invalid', message }, query)
    t.notOk('line' in body.error)
  }
})

t.test('a batch that cannot take an upload says why', async t => {
  const cases = {
    none: 'The batch "none" has no parameter whose rows it uses.',
    two: 'The batch "two" uses the rows of several parameters: items, others.',
    value: 'The batch "value" uses "items" also as a value.',
    unique: 'The rows of "items" cannot be checked one by one, because of "uniqueItems" in ' +
      '"params".'
  }
  for (const [name, message] of Object.entries(cases)) {
    t.match((await upload(name, '{}')).body.error, {
      code: 'content_type_unsupported',
      message: `${message} Send its parameters as application/json.`
    })
  }
  t.match(await upload('gone', '{}'), { status: 404 })
  t.match(await service.post('{}', { headers: type }), { status: 415 }, 'a batch without a name')
  const gzip = { 'content-encoding': 'gzip' }
  t.match(await upload('load', '{}', gzip), { status: 415 })
  const latin = { 'content-type': 'application/x-ndjson; charset=latin1' }
  t.match(await upload('load', '{}', latin), { status: 415 })
})

t.test('a repeated key returns the response', async t => {
  const key = { 'idempotency-key': 'upload' }
  const first = await upload('from?source=a', '{"id":1}', key)
  const again = await upload('from?source=a', '{"id":1}', key)
  expectReplay(t, again, first)
  const others = { 'from?source=b': '{"id":1}', 'from?source=a': '{"id":1 }' }
  for (const [name, body] of Object.entries(others)) {
    t.match((await upload(name, body, key)).body.error, { code: 'idempotency_key_reused' })
  }
  t.equal((await readAll()).length, 1)
})

t.test('the OpenAPI document names the media type', async t => {
  const { paths } = (await ask(`${service.url}/openapi.json`)).body
  const typesOf = (name: string): unknown =>
    Object.keys(paths[`/batches/${name}`].post.requestBody.content)
  t.strictSame(['load', 'from', 'two', 'none'].map(typesOf), [
    ['application/json', 'application/x-ndjson', 'text/csv'],
    ['application/json', 'application/x-ndjson', 'text/csv'],
    ['application/json'],
    ['application/json']
  ])
  const { schema } = paths['/batches/load'].post.requestBody.content['application/x-ndjson']
  t.match(schema.description, /^At most 100000 rows of `items`, one JSON object a line\./)
})

t.test('the log names the batch and not the query', async t => {
  await upload('from?source=secret', '{"id":1}')
  const [line] = service.log.slice(-1)
  t.match(line, { path: '/batches/from', batch: 'from', operations: 1, status: 200 })
  t.notMatch(JSON.stringify(line), /secret/)
})

interface Sending {
  readonly sent: ClientRequest
  readonly answer: Promise<{ readonly message: IncomingMessage, readonly body: any }>
}

/** Begins a request, whose body comes in chunks by default. */
function begin (
  { url }: ServiceUnderTest,
  headers: Readonly<Record<string, string | number>> = { 'transfer-encoding': 'chunked' }
): Sending {
  const sent = request(`${url}/batches/load`, {
    method: 'POST',
    agent: false,
    headers: { ...type, authorization: bearer(), ...headers }
  })
  sent.on('error', () => {})
  const answer = once(sent, 'response').then(async ([message]: IncomingMessage[]) =>
    ({ message: message as IncomingMessage, body: await json(message as IncomingMessage) }))
  answer.catch(() => {})
  return { sent, answer }
}

t.test('a faulty line is answered before the rest of the body', async t => {
  const { sent, answer } = begin(service)
  sent.write(`{"id":"x"}\n${'{"id":2}\n'.repeat(10_000)}`)
  const { message, body } = await answer
  t.match({ status: message.statusCode, ...body.error }, { status: 422, line: 1 })
  t.equal(message.headers.connection, 'close')
  sent.destroy()
})

t.test('limits of a service', async t => {
  const small = await useService(t, {
    schema,
    batches,
    env: {
      MAX_UPLOAD_ROWS: '100',
      MAX_BODY_BYTES: '1000',
      MAX_BYTES_IN_FLIGHT: '3500',
      POOL_SIZE: '1',
      REQUEST_TIMEOUT_MS: '2000'
    }
  })
  const run = (lines: string, headers = {}): Promise<Answer> =>
    small.run('load', lines, { headers: { ...type, ...headers } })
  await limitsOfBytes(t, small, run)
  await slowClients(t, small, run)
})

type Run = (lines: string, headers?: object) => Promise<Answer>

async function limitsOfBytes (t: Test, small: ServiceUnderTest, run: Run): Promise<void> {
  const tooLarge = {
    code: 'body_too_large',
    message: 'The upload has more than 3500 bytes. Divide its rows.'
  }
  const lines = `{"id":1,"sensor":null}${' '.repeat(900)}\n`
  t.match((await run(lines.repeat(4))).body.error, tooLarge)
  const { sent, answer } = begin(small)
  sent.end(lines.replace('1', '2').repeat(4))
  t.match((await answer).body.error, tooLarge, 'in chunks')
  // More than MAX_BODY_BYTES: the client waits for the headers to be accepted.
  const expecting = begin(small, { expect: '100-continue', 'content-length': 2 * lines.length })
  expecting.sent.flushHeaders()
  await once(expecting.sent, 'continue')
  expecting.sent.end(lines + lines.replace('1', '2'))
  t.match(await expecting.answer, { message: { statusCode: 200 } })
  await small.database.sql`truncate readings`
}

async function slowClients (t: Test, small: ServiceUnderTest, run: Run): Promise<void> {
  const probe = async (lines: string): Promise<number | undefined> => {
    const { sent, answer } = begin(small)
    sent.end(lines)
    return (await answer).message.statusCode
  }
  // What has arrived counts, and MAX_BODY_BYTES before that.
  const line = `{"id":1}${' '.repeat(900)}\n`
  const slow = begin(small)
  slow.sent.write(line.repeat(3))
  await until(async () => await probe('{"id":0') === 503)
  t.match(await run('{"id":2}'), { status: 200 }, 'there is room for a small one')
  t.match(await small.post([op.select('s', 'pairs')]), { status: 200 }, 'the connection is free')
  slow.sent.destroy()
  await until(async () => await probe('{"id":4}') === 200)
  const [one, other] = [begin(small), begin(small)]
  for (const { sent } of [one, other]) sent.write(line)
  await until(async () => await probe('{"id":0') === 400)
  one.sent.write(line.repeat(2))
  t.match((await one.answer).body.error, { code: 'overloaded', retryable: true, committed: false })
  t.match((await other.answer).body.error, { code: 'request_timeout' })
  t.strictSame(await small.database.sql`select id::int from readings order by id`
    .then(rows => rows.map(({ id }) => id as number)), [2, 4])
}

t.test('uploads are off by default', async t => {
  const off = await useService(t, { ...nowhere, batches })
  t.match(await off.run('load', '{"id":1}', { headers: type }), {
    status: 415, body: { error: { code: 'content_type_unsupported' } }
  })
})

t.test('CSV stores what the same rows store as JSON', async t => {
  const quoted = '"a ""b"",\r\nc"'
  const body = `sensor,id,value\r\n${quoted},9007199254740993,1.10\r\n,2,\r\n"",3,-0\n\né𝄞,4,1e2`
  const rows = [
    '{"sensor":"a \\"b\\",\\r\\nc","id":9007199254740993,"value":1.10}',
    '{"sensor":null,"id":2,"value":null}',
    '{"sensor":"","id":3,"value":-0}',
    '{"sensor":"é𝄞","id":4,"value":1e2}'
  ]
  const { run } = service
  for (const text of [body, `\uFEFF${body}\r\n`]) {
    t.match(await run('null', text, { headers: csv }), { status: 200, body: { data: { in: [] } } })
    const stored = await readAll()
    await sql`truncate readings`
    t.equal((await run('null', `{"items":[${rows.join()}]}`)).status, 200)
    t.strictSame(stored, await readAll())
    t.equal(stored.length, 4)
    await sql`truncate readings`
  }
  t.equal((await run('load', 'id\n', { headers: csv })).status, 200, 'a header without rows')
  for (const nothing of ['', '\uFEFF', '\n', '\r\n\n']) {
    t.match(await run('load', nothing, { headers: csv }), failed(400, 'body_invalid', {
      line: 1,
      message: 'Line 1 cannot be read: the header is missing; it names the columns of the rows.'
    }), JSON.stringify(nothing))
  }
})

t.test('the header of CSV can be announced', async t => {
  const send = (type: string): Promise<Answer> =>
    service.run('load', 'id\n1\n', {
      headers: { 'content-type': type, prefer: 'tx=rollback, return=minimal' }
    })
  for (const type of [
    'text/csv;header="present"', 'TEXT/CSV; Header=Present ',
    'text/csv; header=present; charset="UTF-8"', 'text/csv; header=present;'
  ]) t.match(await send(type), { status: 200, body: { data: { in: 1 } } }, type)
  for (const type of ['text/csv; header=absent', 'text/csv; charset=utf-8; header="absent"']) {
    t.match(await send(type), failed(415, 'content_type_unsupported', {
      message: /^CSV must have a header, .* `Content-Type: text\/csv; header=present`\.$/
    }), type)
  }
  for (const type of [
    'text/csv; header', 'text/csv; header=present; charset=latin1',
    'application/x-ndjson; header=present', 'text/csv; header=present; header=present',
    'text/csv, text/csv; header=present', 'text/csv; header="present'
  ]) {
    t.match(await send(type), failed(415, 'content_type_unsupported', {
      message: /^The body must be sent with/
    }), type)
  }
})

t.test('an upload is not streamed', async t => {
  t.match(await upload('load', [{ id: 1 }], { accept: 'application/x-ndjson' }), {
    status: 406, body: { error: { code: 'not_streamable', message: /an upload/ } }
  })
  t.same(await readAll(), [])
})

t.test('rows as JSON are limited, not only their CSV', async t => {
  const name = 'a'.repeat(60)
  const properties = { [name]: { type: 'integer' } }
  const items = { type: 'object', properties, additionalProperties: false }
  const limited = await useService(t, {
    ...on(service.database),
    batches: { load: { params: paramsOf({ type: 'array', items }), operations: [insert] } },
    env: { MAX_UPLOAD_ROWS: '10000', MAX_BODY_BYTES: '3125' }
  })
  const answer = await limited.run('load', `${name}\n${'1\n'.repeat(2000)}`, { headers: csv })
  t.match(answer, { status: 413, body: { error: { code: 'body_too_large', message: /as JSON/ } } })
})
