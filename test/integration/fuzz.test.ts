/**
 * Sends invalid data of every kind: bytes, JSON, almost valid batches, headers and wrong framing.
 * Each response is a valid error envelope and not a 5xx. It states that nothing was committed,
 * which is true, and the next valid request succeeds. `PROPERTY_RUNS=50000` runs more cases,
 * `SEED=n` repeats a run.
 */
import { Value } from '@sinclair/typebox/value'
import fc, { type Arbitrary } from 'fast-check'
import t, { type Test } from 'tap'
import { BatchAnswer } from '../../schemas/batch.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import { arbitraryTrial } from '../support/model/arbitrary-batch.ts'
import { digitsOf, readRaw } from '../support/model/raw-json.ts'
import { modelReset, modelSchema } from '../support/model/tables.ts'
import { dial, speak, type WireAnswer } from '../support/network/wire.ts'
import { propertyRuns } from '../support/runs.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'
import { bearer } from '../support/shorthand.ts'

const runs = propertyRuns(400, 1200)
const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const timeout = 60_000 + runs * 50
t.setTimeout(4 * timeout)

const weighted = <T>(...rows: ReadonlyArray<readonly [number, Arbitrary<T>]>): Arbitrary<T> =>
  fc.oneof(...rows.map(([weight, arbitrary]) => ({ weight, arbitrary })))
const toBuffer = (text: string): Buffer => Buffer.from(text)
const bytesUpTo = (maxLength: number, minLength = 0): Arbitrary<Buffer> =>
  fc.uint8Array({ minLength, maxLength }).map(bytes => Buffer.from(bytes))

// Bodies
// ------------------------------------------------------------

const names = [
  '__proto__', 'constructor', 'toString', '', 'a"b', 'a.b', 'a\u0000b', 'x'.repeat(63),
  'x'.repeat(64), 'ä'.repeat(32), "id'; drop table shelves; --", 'ctid', 'doc->', 'doc->>a->b',
  '->a', 'doc->99999999999', 'id', 'code', 'op', 'where', 'not', 'and', '$col', '$value', '$inc',
  '$nope', 'eq', 'in', 'any', 'fts', 'cs', 'match', 'limit', 'lock', 'expect', 'when', '$first',
  'exists', 'not_exists', 'on', 'table', '*', 'fn', 'cast', 'distinct', 'having', 'after', 'answer',
  'from', '$from', 'columns', 'with', 'one', 'function', 'args'
]
const strings = [
  '$o0', '$o0.', '$o0..id', '$o0.*', '$o0.*.id', '$o0.0', '$o0.0.id', '$o0.0.id.x', '$o0.00.id',
  '$o0.-1.id', '$o0.99999999999999999999.id', '$o7.0.id', '$o9.0.id', '$o0.0.constructor', '$',
  '$$', '$$$o0.id', '$o0.0.\u0000', '\ud800', '\udc00x', '\uffff', '\u2028', '\u202e', '\ufeff',
  '😀', '(', '\\', '%\\', '[', '{1,', '[1,2)', 'infinity', 'NaN', '294277-01-01', '0001-01-01 BC',
  "'", '"', ';', '\n', ' ', 'x'.repeat(70_000), 'select', 'pg_authid', 'pg_catalog.pg_authid',
  'public.shelves', 'shelves; drop table shelves'
]
const numbers = [
  '-0', '1e400', '-1e400', '1e-400', '1e131071', '1e131073', '1e999999999',
  '99999999999999999999999999999999999999999', '0.1e-16383', '1.5', '-1', '2147483648',
  '9223372036854775808', '1E+2'
]
const nested = fc.tuple(
  fc.constantFrom(['[', ']'], ['{"a":', '}'], ['{"not":', '}'], ['{"and":[', ']}']),
  fc.constantFrom(2, 9, 11, 99, 101, 300)
).map(([[open = '', close = ''], depth]): unknown =>
  JSON.parse(`${open.repeat(depth)}1${close.repeat(depth)}`)
)
const junk: Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, 0, 1, [], {}, [[]], [{}], [null]),
  fc.constantFrom(...names, ...strings),
  fc.constantFrom(...numbers).map(readRaw),
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.jsonValue({ maxDepth: 3 }),
  nested
)

type Path = ReadonlyArray<string | number>
const isTree = (node: unknown): node is object =>
  typeof node === 'object' && node !== null && digitsOf(node) === undefined

/** The paths of all nodes below the root. */
function pathsOf (node: unknown, path: Path = []): readonly Path[] {
  const below = isTree(node)
    ? Object.entries(node).flatMap(([key, value]) =>
      pathsOf(value, [...path, Array.isArray(node) ? Number(key) : key])
    )
    : []
  return path.length === 0 ? below : [path, ...below]
}

/** Returns the tree with one node replaced or removed. */
function replaceNode (
  node: unknown,
  [step, ...rest]: Path,
  change: (key: string, value: unknown) => ReadonlyArray<readonly [string, unknown]>
): unknown {
  if (!isTree(node) || step === undefined) return node
  const entries = Object.entries(node).flatMap(([key, value]) =>
    key !== String(step)
      ? [[key, value] as const]
      : rest.length === 0
        ? change(key, value)
        : [[key, replaceNode(value, rest, change)] as const]
  )
  return Array.isArray(node) ? entries.map(([, value]) => value) : Object.fromEntries(entries)
}

interface Mutation {
  readonly at: number
  readonly from: number
  readonly how: string
  readonly value: unknown
  readonly name: string
}
const mutation: Arbitrary<Mutation> = fc.record({
  at: fc.nat(),
  from: fc.nat(),
  how: fc.constantFrom('value', 'value', 'rename', 'delete', 'wrap', 'twice', 'swap', 'add'),
  value: junk,
  name: fc.oneof(fc.constantFrom(...names), fc.string({ unit: 'binary', maxLength: 5 }))
})

function mutate (tree: unknown, { at, from, how, value, name }: Mutation): unknown {
  const all = pathsOf(tree)
  const pick = (number: number): Path => all[number % all.length] ?? []
  const path = pick(at)
  const other = pick(from).reduce(
    (node: unknown, step) => (node as Record<string | number, unknown>)[step],
    tree
  )
  return replaceNode(tree, path, (key, old) => {
    switch (how) {
      case 'value':
        return [[key, value]]
      case 'rename':
        return [[name, old]]
      case 'delete':
        return []
      case 'wrap':
        return [[key, name === '' ? [old] : { [name]: old }]]
      case 'twice':
        return [[key, old], [name, old]]
      case 'swap':
        return [[key, other]]
      default:
        return [[key, isTree(old) && !Array.isArray(old) ? { ...old, [name]: value } : value]]
    }
  })
}

const pieces = [
  '\\u0000', '\\ud800', '\\u', '"', ',', ':', '{', '}', '[', ']', '\ufeff', '//', 'NaN',
  '"id":"o0",', '-', '1e', '\\', '\0', '\n', '\u00a0'
]
/**
 * Bytes of which up to four, among the first of this number, are replaced by one of the pieces or
 * by any bytes.
 */
const withInsertion = (
  texts: Arbitrary<Buffer>,
  pieces: readonly Buffer[],
  within = Infinity
): Arbitrary<Buffer> =>
  fc.tuple(
    texts,
    fc.nat(),
    fc.nat({ max: 4 }),
    fc.oneof(fc.constantFrom(...pieces), bytesUpTo(3))
  ).map(([bytes, at, cut, piece]) => {
    const place = at % Math.min(bytes.length + 1, within)
    return Buffer.concat([bytes.subarray(0, place), piece, bytes.subarray(place + cut)])
  })

const validBatch = arbitraryTrial.map(({ operations }) => operations)
const validBody = validBatch.map(batch => toBuffer(JSON.stringify(batch)))
const mutated = fc.tuple(validBatch, fc.array(mutation, { minLength: 1, maxLength: 3 })).map(
  ([batch, mutations]) => JSON.stringify(mutations.reduce<unknown>(mutate, batch))
)
const member = fc.constantFrom('id', 'op', 'table', 'values', 'set', 'where', ...names)
const body: Arbitrary<Buffer> = weighted(
  [10, mutated.map(toBuffer)],
  [2, withInsertion(validBody, pieces.map(toBuffer))],
  [1, bytesUpTo(200)],
  [1, fc.constantFrom('[', '{"a":', '[{"id":').map(open => Buffer.from(open.repeat(100_000)))],
  [1, junk.map(value => toBuffer(JSON.stringify(value)))],
  [
    2,
    fc.array(fc.oneof(junk, fc.dictionary(member, junk)), { maxLength: 4 })
      .map(value => toBuffer(JSON.stringify(value)))
  ]
)

// Requests
// ------------------------------------------------------------

const authorization = bearer()
/** Any value that a header can have. */
const headerValue = fc.oneof(
  fc.array(fc.integer({ min: 32, max: 255 }).filter(code => code !== 127), { maxLength: 20 }).map(
    codes => String.fromCharCode(...codes)
  ),
  fc.constantFrom(
    '', ' ', ',', ';', '=', '"', '"a', '\t', 'x'.repeat(300), 'x'.repeat(5000), 'a'.repeat(20_000),
    '\u00e4', '\\'
  )
)
const values: Readonly<Record<string, readonly string[]>> = {
  'content-type': [
    'application/json', 'application/json; charset=utf-8', 'application/json; charset=latin1',
    'text/plain', 'application/json, application/json', 'multipart/form-data', 'application/jsonx',
    ';', '__proto__'
  ],
  authorization: [
    authorization,
    authorization.slice(0, -1),
    `${authorization}.x`,
    'Bearer',
    'Bearer ',
    'Bearer a.b.c',
    'Basic eDp4',
    authorization.toLowerCase(),
    `${authorization}, ${authorization}`,
    bearer({ exp: 1 }),
    ...['pg_read_all_data', 'oneflight_nobody', { a: 1 }, 'a\u0000b'].map(role => bearer({ role }))
  ],
  prefer: [
    'tx=rollback', 'tx=rollback, return=minimal', 'handling=strict', 'tx=x',
    'isolation=serializable', 'access=read-only', 'return=minimal;x', 'tx="rollback"', 'tx==', '=',
    'respond-async, wait=10', '__proto__=1', 'constructor'
  ],
  'idempotency-key': [
    'k', '"k"', '"k', 'k k', '"\\"', '""', 'x'.repeat(255), 'x'.repeat(256), '1;a=1', '"k";a=1'
  ],
  'x-request-id': ['mine', 'x'.repeat(128), 'x'.repeat(129), 'a b', 'a,b', '<script>', '{}'],
  'content-encoding': ['gzip', 'identity', ''],
  expect: ['100-continue', 'x', '200-ok'],
  host: ['', 'x', 'x/y', '[::1]'],
  accept: ['text/html', '*/*'],
  'x-forwarded-for': ['1.2.3.4'],
  upgrade: ['websocket', 'h2c'],
  trailer: ['x'],
  range: ['bytes=0-1']
}
type Field = readonly [name: string, value: string]
const spelled = (name: string): Arbitrary<string> =>
  fc.constantFrom(name, name.toUpperCase(), name.replace(/^./, letter => letter.toUpperCase()))
const otherName = fc.constantFrom('x-a', '__proto__', 'constructor', 'cookie', 'a'.repeat(300))
const field: Arbitrary<Field> = weighted(
  [
    8,
    fc.constantFrom(...Object.keys(values)).chain(name => {
      const known = fc.constantFrom(...values[name] as readonly string[])
      return fc.tuple(spelled(name), weighted([5, known], [2, headerValue]))
    })
  ],
  [1, fc.tuple(otherName, headerValue)]
)

const usualFields: readonly Field[] = [
  ['content-type', 'application/json'],
  ['authorization', authorization]
]

/** The headers of a valid request, some of them changed, missing or repeated. */
const fields: Arbitrary<readonly Field[]> = fc.tuple(
  fc.array(field, { minLength: 1, maxLength: 3 }),
  fc.subarray(['content-type', 'authorization'], { minLength: 1 }),
  fc.boolean()
).map(([odd, kept, twice]) => {
  const names = new Set(odd.map(([name]) => name.toLowerCase()))
  return [
    ...usualFields.filter(([name]) => kept.includes(name) && (twice || !names.has(name))),
    ...odd
  ]
})

interface Sent {
  readonly start: string
  readonly fields: readonly Field[]
  readonly body: Buffer
}
const bytesOf = ({ start, fields, body }: Sent): Buffer =>
  Buffer.concat([
    Buffer.from(
      `${start}\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
      'latin1'
    ),
    body
  ])
const framed = (start: string, fields: readonly Field[], body: Buffer): Sent => ({
  start,
  fields: [['host', 'x'], ...fields, ['content-length', String(body.length)]],
  body
})

const post = (fields: readonly Field[], body: Buffer): Sent =>
  framed('POST / HTTP/1.1', fields, body)
const methods = ['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'POST', 'TRACE', 'QUERY']
const targets = [
  ...['/', '//', '/?', '/?a=%zz', '/%zz', '/%00', '/x', '/../', '*', '/health', '/metrics'],
  ...['/__proto__', 'http://x/', `/${'x'.repeat(3000)}`]
]
const wellFramed: Arbitrary<Sent> = weighted(
  [8, body.map(body => post(usualFields, body))],
  [4, fc.tuple(fields, validBody).map(([fields, body]) => post(fields, body))],
  [1, fc.tuple(fields, body).map(([fields, body]) => post(fields, body))],
  [
    1,
    fc.tuple(fc.constantFrom(...methods), fc.constantFrom(...targets), validBody)
      .map(([method, target, body]) => framed(`${method} ${target} HTTP/1.1`, usualFields, body))
  ]
)

const chunk = (data: Buffer, size = data.length.toString(16)): Buffer =>
  Buffer.concat([Buffer.from(`${size}\r\n`), data, Buffer.from('\r\n')])
type Framing = (bytes: Buffer) => { readonly fields: readonly Field[], readonly bytes: Buffer }
const chunked = (bytes: Buffer): Buffer => Buffer.concat([chunk(bytes), chunk(Buffer.alloc(0))])
const lengths = ['-1', '0x10', '+5', '1e1', '', '5, 5', '99999999999999999999', '1048577', '0', '1']
const encodings =
  ['chunked', 'CHUNKED', 'gzip, chunked', 'chunked, chunked', 'identity', 'xchunked', '']
const chunkSizes = [undefined, '-1', 'zz', 'ffffffffffffffffff', '1', '0', '', '5;a=b', ' 5']
/** Ways to announce a body. Most of them contradict the body. */
const framings: Arbitrary<Framing> = fc.oneof(
  fc.constantFrom(...lengths).map((length): Framing => bytes =>
    ({ fields: [['content-length', length]], bytes })),
  fc.integer({ min: -30, max: 30 }).map((more): Framing => bytes =>
    ({ fields: [['content-length', String(Math.max(0, bytes.length + more))]], bytes })),
  fc.constantFrom<Framing>(
    bytes => ({ fields: [], bytes }),
    bytes => ({ fields: [['transfer-encoding', 'chunked']], bytes: chunked(bytes) }),
    bytes => ({ fields: [['content-length', '5'], ['Content-Length', '6']], bytes }),
    bytes => ({
      fields: [['transfer-encoding', 'chunked'], ['content-length', String(bytes.length)]],
      bytes: chunked(bytes)
    })
  ),
  fc.tuple(fc.constantFrom(...encodings), fc.constantFrom(...chunkSizes), fc.boolean())
    .map(([encoding, size, ended]): Framing => bytes => ({
      fields: [['transfer-encoding', encoding]],
      bytes: Buffer.concat([chunk(bytes, size), ended ? chunk(Buffer.alloc(0)) : Buffer.alloc(0)])
    }))
)
const headPieces = ['\r\n', '\r', '\n', '\0', ':', ' ', '\r\n\r\n', '\x7f', '\u00ff'].map(text =>
  Buffer.from(text, 'latin1')
)
const misframed: Arbitrary<Buffer> = weighted(
  [
    4,
    fc.tuple(validBody, framings).map(([body, framing]) => {
      const { fields, bytes } = framing(body)
      return bytesOf({
        start: 'POST / HTTP/1.1',
        fields: [['host', 'x'], ...usualFields, ['prefer', 'tx=rollback'], ...fields],
        body: bytes
      })
    })
  ],
  [3, withInsertion(wellFramed.map(bytesOf), headPieces, 400)],
  [
    1,
    fc.tuple(wellFramed, fc.nat()).map(([sent, at]) =>
      bytesOf(sent).subarray(0, 1 + at % bytesOf(sent).length)
    )
  ],
  [1, bytesUpTo(300, 1)]
)

// Assertions
// ------------------------------------------------------------

const dump =
  `select md5(string_agg(row, E'\\n' order by row)) as rows from (select 'shelves ' || to_json(s)
    as row from shelves as s
  union all select 'boxes ' || to_json(b) from boxes as b union all select 'links ' || to_json(l)
    from links as l) as all_rows`
const show = (value: unknown): string => JSON.stringify(value).slice(0, 1500)

/** Returns what is wrong with the response to an invalid request, or undefined. */
function findDefect ({ status, headers, body, text }: WireAnswer): string | undefined {
  const id = headers['x-request-id']
  if (id === undefined || !/^[A-Za-z0-9._:/+=@-]{1,128}$/.test(id)) return 'no safe request id'
  if (status >= 500) return 'a 5xx'
  if (status === 200) {
    return Value.Check(BatchAnswer, body) || text === '{"ok":true}'
      ? undefined
      : 'a 200 with an invalid body'
  }
  if (!Value.Check(ErrorEnvelope, body)) return 'no error envelope'
  if (headers['content-type'] !== 'application/json; charset=utf-8') return 'another content type'
  return body.error.committed === false && body.error.request_id === id
    ? undefined
    : 'committed is not false, or the request ids differ'
}

interface ResponseCheck {
  /** Throws if a response is wrong, or if tables changed without a 200. */
  check(responses: readonly WireAnswer[], sent: Buffer): Promise<void>
  readonly seen: Readonly<Record<string, number>>
}

async function startCheck ({ database: { sql } }: ServiceUnderTest): Promise<ResponseCheck> {
  await sql.unsafe(modelReset)
  const readTables = async (): Promise<unknown> => (await sql.unsafe(dump))[0]?.['rows']
  const before = await readTables()
  const seen: Record<string, number> = {}
  return {
    seen,
    async check (responses, sent) {
      for (const response of responses) {
        const code = String(response.body?.error?.code ?? response.status)
        seen[code] = (seen[code] ?? 0) + 1
        const defect = findDefect(response)
        if (defect !== undefined) {
          throw new Error(`${defect}: ${show(response)}\nto ${show(sent.toString('latin1'))}`)
        }
      }
      const committed = responses.some(({ status, headers }) =>
        status === 200 && headers['x-request-id'] !== 'following' &&
        headers['preference-applied'] !== 'tx=rollback'
      )
      if (committed) await sql.unsafe(modelReset)
      else if (await readTables() !== before) {
        throw new Error(
          `the tables changed after ${show(responses)}\nto ${show(sent.toString('latin1'))}`
        )
      }
    }
  }
}

const following = bytesOf(framed(
  'POST / HTTP/1.1',
  [...usualFields, ['x-request-id', 'following'], ['connection', 'close']],
  Buffer.from('[{"id":"s","op":"select","table":"links"}]')
))

/** Returns the responses until the server ends the connection. */
const exchange = async (url: string, bytes: Buffer): Promise<readonly WireAnswer[]> =>
  (await speak(url, bytes)).filter(({ status }) => status >= 200)

/** Returns the responses. The client ends the connection after the first final one. */
async function exchangeMisframed (url: string, bytes: Buffer): Promise<readonly WireAnswer[]> {
  const line = await dial(url, bytes)
  for (let n = 1; (await line.answers(n)).every(({ status }) => status < 200); n++);
  line.socket.end()
  return (await line.end()).filter(({ status }) => status >= 200)
}

/** Asserts that no internal error was logged, and that a valid request succeeds. */
async function assertServes (t: Test, service: ServiceUnderTest): Promise<void> {
  const errors = service.log.filter(({ level }) => (level as number) >= 50)
  t.same(errors, [], 'no internal error is logged')
  const count = { id: 's', op: 'select', table: 'links', columns: [{ fn: 'count' }] }
  const { status, body } = await service.post([count])
  t.strictSame([status, body.data], [200, { s: [{ count: 2 }] }], 'a valid request succeeds')
}

t.test('property: each invalid request gets a response, the next one succeeds', {
  timeout
}, async t => {
  const env = { LOG_LEVEL: 'warn' }
  const service = await useService(t, { schema: modelSchema, keys: true, env })
  const { check, seen } = await startCheck(service)
  await fc.assert(
    fc.asyncProperty(wellFramed, async sent => {
      const bytes = bytesOf(sent)
      const responses = await exchange(service.url, Buffer.concat([bytes, following]))
      await check(responses, bytes)
      const [first, second] = responses
      const served = second?.headers['x-request-id'] === 'following' && second.status === 200 &&
        responses.length === 2
      if (
        first === undefined ||
        !(served || (first.headers['connection'] === 'close' && responses.length === 1))
      ) throw new Error(`responses ${show(responses)}\nto ${show(bytes.toString('latin1'))}`)
    }),
    { numRuns: runs, seed }
  )
  t.comment(JSON.stringify(seen))
  t.ok(Object.keys(seen).length > 15, `${Object.keys(seen).length} kinds of responses`)
  await assertServes(t, service)
})

t.test('property: misframed requests and bytes that are not HTTP get a response in time', {
  timeout
}, async t => {
  // The service waits REQUEST_TIMEOUT_MS for announced bytes that never come, so many requests
  // are sent at once.
  const waits = { REQUEST_TIMEOUT_MS: '2000', QUEUE_SIZE: '100', QUEUE_TIMEOUT_MS: '2000' }
  const env = { LOG_LEVEL: 'warn', ...waits }
  const service = await useService(t, { schema: modelSchema, env })
  const { check, seen } = await startCheck(service)
  await fc.assert(
    fc.asyncProperty(fc.array(misframed, { minLength: 40, maxLength: 80 }), async requests => {
      const responses = await Promise.all(
        requests.map(async bytes =>
          exchangeMisframed(service.url, bytes).catch((error: unknown) => {
            throw new Error(`${String(error)}\nto ${show(bytes.toString('latin1'))}`)
          })
        )
      )
      await check(responses.flat(), Buffer.concat(requests))
    }),
    { numRuns: Math.max(2, Math.ceil(runs / 500)), seed }
  )
  t.comment(JSON.stringify(seen))
  for (const code of ['http_malformed', 'body_invalid', 'request_timeout']) {
    t.ok((seen[code] ?? 0) > 0, `${seen[code]} times ${code}`)
  }
  await assertServes(t, service)
})
