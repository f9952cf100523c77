/**
 * Garbage of every kind: bytes, JSON, batches that are nearly right, headers, and framing that
 * lies. Whatever comes, the answer is the envelope of the contract and no 5xx, it says that nothing
 * was committed and nothing is, and the next proper request is served. `PROPERTY_RUNS=50000` runs
 * more, `SEED=n` the same again.
 */
import { Value } from '@sinclair/typebox/value'
import fc, { type Arbitrary } from 'fast-check'
import t, { type Test } from 'tap'
import { BatchAnswer } from '../../schemas/batch.ts'
import { ErrorEnvelope } from '../../schemas/error.ts'
import {
  arbitraryTrial,
  digitsOf,
  modelReset,
  modelSchema,
  readRaw
} from '../support/model/arbitrary-batch.ts'
import { propertyRuns } from '../support/runs.ts'
import { token, useService, type ServiceUnderTest } from '../support/service.ts'
import { dial, type WireAnswer } from '../support/network/wire.ts'

const runs = propertyRuns(800, 2000)
const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const timeout = 60_000 + runs * 50
t.setTimeout(2 * timeout)

// Bodies
// ------------------------------------------------------------

const names = [
  '__proto__',
  'constructor',
  'toString',
  '',
  'a"b',
  'a.b',
  'a\u0000b',
  'x'.repeat(63),
  'x'.repeat(64),
  'ä'.repeat(32),
  "id'; drop table shelves; --",
  'ctid',
  'doc->',
  'doc->>a->b',
  '->a',
  'doc->99999999999',
  'id',
  'code',
  'op',
  'where',
  'not',
  'and',
  '$col',
  '$value',
  '$inc',
  '$nope',
  'eq',
  'in',
  'any',
  'fts',
  'cs',
  'match',
  'limit',
  'lock',
  'expect'
]
const strings = [
  '$o0',
  '$o0.',
  '$o0..id',
  '$o0.*',
  '$o0.*.id',
  '$o0.0',
  '$o0.0.id',
  '$o0.0.id.x',
  '$o0.00.id',
  '$o0.-1.id',
  '$o0.99999999999999999999.id',
  '$o7.0.id',
  '$o9.0.id',
  '$o0.0.constructor',
  '$',
  '$$',
  '$$$o0.id',
  '$o0.0.\u0000',
  '\ud800',
  '\udc00x',
  '\uffff',
  '\u2028',
  '\u202e',
  '\ufeff',
  '😀',
  '(',
  '\\',
  '%\\',
  '[',
  '{1,',
  '[1,2)',
  'infinity',
  'NaN',
  '294277-01-01',
  '0001-01-01 BC',
  "'",
  '"',
  ';',
  '\n',
  ' ',
  'x'.repeat(70_000),
  'select',
  'pg_authid',
  'pg_catalog.pg_authid',
  'public.shelves',
  'shelves; drop table shelves'
]
const numbers = [
  '-0',
  '1e400',
  '-1e400',
  '1e-400',
  '1e131071',
  '1e131073',
  '1e999999999',
  '99999999999999999999999999999999999999999',
  '0.1e-16383',
  '1.5',
  '-1',
  '2147483648',
  '9223372036854775808',
  '1E+2'
]
const nested = fc.tuple(
  fc.constantFrom('[', '{"a":', '{"not":', '{"and":['),
  fc.constantFrom(2, 9, 11, 99, 101, 300)
).map(([open, depth]): unknown =>
  JSON.parse(
    `${open.repeat(depth)}1${
      open.replace(/[^{[]/g, '').split('').reverse().map(one => one === '[' ? ']' : '}').join('')
        .repeat(depth)
    }`
  )
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

/** The way to every node below the root. */
function ways (node: unknown, way: Path = []): readonly Path[] {
  const below = isTree(node)
    ? Object.entries(node).flatMap(([key, value]) =>
      ways(value, [...way, Array.isArray(node) ? Number(key) : key])
    )
    : []
  return way.length === 0 ? below : [way, ...below]
}

/** The tree with another node, or none, in one place. */
function replaced (
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
        : [[key, replaced(value, rest, change)] as const]
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
  const all = ways(tree)
  const pick = (number: number): Path => all[number % all.length] ?? []
  const way = pick(at)
  const other = pick(from).reduce(
    (node: unknown, step) => (node as Record<string | number, unknown>)[step],
    tree
  )
  return replaced(tree, way, (key, old) => {
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
  '\\u0000',
  '\\ud800',
  '\\u',
  '"',
  ',',
  ':',
  '{',
  '}',
  '[',
  ']',
  '\ufeff',
  '//',
  'NaN',
  '"id":"o0",',
  '-',
  '1e',
  '\\',
  '\0',
  '\n',
  '\u00a0'
]
const spliced = (texts: Arbitrary<string>): Arbitrary<Buffer> =>
  fc.tuple(
    texts,
    fc.nat(),
    fc.nat({ max: 3 }),
    fc.oneof(
      fc.constantFrom(...pieces).map(piece => Buffer.from(piece)),
      fc.uint8Array({ maxLength: 3 }).map(bytes => Buffer.from(bytes))
    )
  )
    .map(([text, at, cut, piece]) => {
      const bytes = Buffer.from(text)
      const place = at % (bytes.length + 1)
      return Buffer.concat([bytes.subarray(0, place), piece, bytes.subarray(place + cut)])
    })

const proper = arbitraryTrial.map(({ operations }) => operations)
const mutated = fc.tuple(proper, fc.array(mutation, { minLength: 1, maxLength: 3 })).map((
  [batch, mutations]
) => JSON.stringify(mutations.reduce<unknown>(mutate, batch)))
const body: Arbitrary<Buffer> = fc.oneof(
  { arbitrary: mutated.map(text => Buffer.from(text)), weight: 10 },
  { arbitrary: spliced(proper.map(batch => JSON.stringify(batch))), weight: 2 },
  { arbitrary: fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)), weight: 1 },
  {
    arbitrary: fc.constantFrom('[', '{"a":', '[{"id":').map(open =>
      Buffer.from(open.repeat(100_000))
    ),
    weight: 1
  },
  { arbitrary: junk.map(value => Buffer.from(JSON.stringify(value))), weight: 1 },
  {
    arbitrary: fc.array(
      fc.oneof(
        junk,
        fc.dictionary(
          fc.constantFrom('id', 'op', 'table', 'values', 'set', 'where', ...names),
          junk
        )
      ),
      { maxLength: 4 }
    ).map(value => Buffer.from(JSON.stringify(value))),
    weight: 2
  }
)

// Requests
// ------------------------------------------------------------

const authorization = `Bearer ${token({ role: 'oneflight_user' })}`
/** Anything that one line of a header can hold. */
const line = fc.oneof(
  fc.array(fc.integer({ min: 32, max: 255 }).filter(code => code !== 127), { maxLength: 20 }).map(
    codes => String.fromCharCode(...codes)
  ),
  fc.constantFrom(
    '',
    ' ',
    ',',
    ';',
    '=',
    '"',
    '"a',
    '\t',
    'x'.repeat(300),
    'x'.repeat(5000),
    'a'.repeat(20_000),
    '\u00e4',
    '\\'
  )
)
const values: Readonly<Record<string, readonly string[]>> = {
  'content-type': [
    'application/json',
    'application/json; charset=utf-8',
    'application/json; charset=latin1',
    'text/plain',
    'application/json, application/json',
    'multipart/form-data',
    'application/jsonx',
    ';',
    '__proto__'
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
    `Bearer ${token({ role: 'oneflight_user', exp: 1 })}`,
    `Bearer ${token({ role: 'pg_read_all_data' })}`,
    `Bearer ${token({ role: 'oneflight_nobody' })}`,
    `Bearer ${token({ role: { a: 1 } })}`,
    `Bearer ${token({ role: 'a\u0000b' })}`
  ],
  prefer: [
    'tx=rollback',
    'tx=rollback, return=minimal',
    'handling=strict',
    'handling=strict, tx=x',
    'isolation=serializable',
    'access=read-only',
    'return=minimal;x',
    'tx="rollback"',
    'tx==',
    '=',
    'respond-async, wait=10',
    '__proto__=1',
    'constructor'
  ],
  'idempotency-key': [
    'k',
    '"k"',
    '"k',
    'k k',
    '"\\"',
    '""',
    'x'.repeat(255),
    'x'.repeat(256),
    '1;a=1',
    '"k";a=1'
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
const field: Arbitrary<Field> = fc.oneof(
  {
    arbitrary: fc.constantFrom(...Object.keys(values)).chain(name =>
      fc.tuple(
        spelled(name),
        fc.oneof({ arbitrary: fc.constantFrom(...values[name] as readonly string[]), weight: 5 }, {
          arbitrary: line,
          weight: 2
        })
      )
    ),
    weight: 8
  },
  {
    arbitrary: fc.tuple(
      fc.constantFrom('x-a', '__proto__', 'constructor', 'cookie', 'a'.repeat(300)),
      line
    ),
    weight: 1
  }
)

/** The fields of a proper request, some of them in other words, left out, or said twice. */
const fields: Arbitrary<readonly Field[]> = fc.tuple(
  fc.array(field, { minLength: 1, maxLength: 3 }),
  fc.subarray(['content-type', 'authorization'], { minLength: 1 }),
  fc.boolean()
).map(([odd, kept, twice]) => {
  const said = new Set(odd.map(([name]) => name.toLowerCase()))
  const usual = [['content-type', 'application/json'], ['authorization', authorization]] as const
  return [...usual.filter(([name]) => kept.includes(name) && (twice || !said.has(name))), ...odd]
})
const usualFields: readonly Field[] = [['content-type', 'application/json'], [
  'authorization',
  authorization
]]

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

const whole: Arbitrary<Sent> = fc.oneof(
  { arbitrary: body.map(body => framed('POST / HTTP/1.1', usualFields, body)), weight: 8 },
  {
    arbitrary: fc.tuple(fields, proper).map(([fields, batch]) =>
      framed('POST / HTTP/1.1', fields, Buffer.from(JSON.stringify(batch)))
    ),
    weight: 4
  },
  {
    arbitrary: fc.tuple(fields, body).map(([fields, body]) =>
      framed('POST / HTTP/1.1', fields, body)
    ),
    weight: 1
  },
  {
    arbitrary: fc.tuple(
      fc.constantFrom('GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'POST', 'TRACE', 'QUERY'),
      fc.constantFrom(
        '/',
        '//',
        '/?',
        '/?a=%zz',
        '/%zz',
        '/%00',
        '/x',
        '/../',
        '*',
        '/health',
        '/metrics',
        '/__proto__',
        'http://x/',
        '/' + 'x'.repeat(3000)
      ),
      proper
    )
      .map(([method, target, batch]) =>
        framed(`${method} ${target} HTTP/1.1`, usualFields, Buffer.from(JSON.stringify(batch)))
      ),
    weight: 1
  }
)

const chunk = (data: Buffer, size = data.length.toString(16)): Buffer =>
  Buffer.concat([Buffer.from(`${size}\r\n`), data, Buffer.from('\r\n')])
type Lie = (bytes: Buffer) => { readonly fields: readonly Field[], readonly bytes: Buffer }
/** How a body is announced, mostly not as it is. */
const lies: Arbitrary<Lie> = fc.oneof(
  fc.constantFrom(
    ...['-1', '0x10', '+5', '1e1', '', '5, 5', '99999999999999999999', '1048577', '0', '1'].map(
      (length): Lie => bytes => ({ fields: [['content-length', length]], bytes })
    )
  ),
  fc.integer({ min: -30, max: 30 }).map((more): Lie => bytes => ({
    fields: [['content-length', String(Math.max(0, bytes.length + more))]],
    bytes
  })),
  fc.constantFrom<Lie>(
    bytes => ({ fields: [], bytes }),
    bytes => ({
      fields: [['transfer-encoding', 'chunked']],
      bytes: Buffer.concat([chunk(bytes), chunk(Buffer.alloc(0))])
    }),
    bytes => ({ fields: [['content-length', '5'], ['Content-Length', '6']], bytes }),
    bytes => ({
      fields: [['transfer-encoding', 'chunked'], ['content-length', String(bytes.length)]],
      bytes: Buffer.concat([chunk(bytes), chunk(Buffer.alloc(0))])
    })
  ),
  fc.tuple(
    fc.constantFrom(
      'chunked',
      'CHUNKED',
      'gzip, chunked',
      'chunked, chunked',
      'identity',
      'xchunked',
      ''
    ),
    fc.constantFrom<string | undefined>(
      undefined,
      '-1',
      'zz',
      'ffffffffffffffffff',
      '1',
      '0',
      '',
      '5;a=b',
      ' 5'
    ),
    fc.boolean()
  )
    .map(([encoding, size, ended]): Lie => bytes => ({
      fields: [['transfer-encoding', encoding]],
      bytes: Buffer.concat([chunk(bytes, size), ended ? chunk(Buffer.alloc(0)) : Buffer.alloc(0)])
    }))
)
const lying: Arbitrary<Buffer> = fc.oneof(
  {
    arbitrary: fc.tuple(proper, lies).map(([batch, lie]) => {
      const { fields, bytes } = lie(Buffer.from(JSON.stringify(batch)))
      return bytesOf({
        start: 'POST / HTTP/1.1',
        fields: [['host', 'x'], ...usualFields, ['prefer', 'tx=rollback'], ...fields],
        body: bytes
      })
    }),
    weight: 4
  },
  {
    arbitrary: fc.tuple(
      whole,
      fc.nat(),
      fc.nat({ max: 4 }),
      fc.oneof(
        fc.constantFrom('\r\n', '\r', '\n', '\0', ':', ' ', '\r\n\r\n', '\x7f', '\u00ff').map(
          text => Buffer.from(text, 'latin1')
        ),
        fc.uint8Array({ maxLength: 3 }).map(bytes => Buffer.from(bytes))
      )
    ).map(([sent, at, cut, piece]) => {
      const bytes = bytesOf(sent)
      const place = at % Math.min(bytes.length, 400)
      return Buffer.concat([bytes.subarray(0, place), piece, bytes.subarray(place + cut)])
    }),
    weight: 3
  },
  {
    arbitrary: fc.tuple(whole, fc.nat()).map(([sent, at]) =>
      bytesOf(sent).subarray(0, 1 + at % bytesOf(sent).length)
    ),
    weight: 1
  },
  {
    arbitrary: fc.uint8Array({ minLength: 1, maxLength: 300 }).map(bytes => Buffer.from(bytes)),
    weight: 1
  }
)

// What must hold
// ------------------------------------------------------------

const dump =
  `select md5(string_agg(row, E'\\n' order by row)) as rows from (select 'shelves ' || to_json(s)
    as row from shelves as s
  union all select 'boxes ' || to_json(b) from boxes as b union all select 'links ' || to_json(l)
    from links as l) as all_rows`
const show = (value: unknown): string => JSON.stringify(value).slice(0, 1500)

/** What is wrong with an answer that is none of a proper request. */
function wrong ({ status, headers, body, text }: WireAnswer): string | undefined {
  const id = headers['x-request-id']
  if (id === undefined || !/^[A-Za-z0-9._:/+=@-]{1,128}$/.test(id)) return 'no safe request id'
  if (status >= 500) return 'a 5xx'
  if (status === 200) {
    return Value.Check(BatchAnswer, body) || text === '{"ok":true}'
      ? undefined
      : 'a 200 out of shape'
  }
  if (!Value.Check(ErrorEnvelope, body)) return 'no envelope'
  if (headers['content-type'] !== 'application/json; charset=utf-8') return 'another media type'
  return body.error.committed === false && body.error.request_id === id
    ? undefined
    : 'it does not say that nothing was committed, or has two ids'
}

interface Watch {
  /** Fails for an answer that is wrong, and for tables that changed without a 200. */
  judge(answers: readonly WireAnswer[], sent: Buffer): Promise<void>
  readonly seen: Readonly<Record<string, number>>
}

async function watch ({ database: { sql } }: ServiceUnderTest): Promise<Watch> {
  await sql.unsafe(modelReset)
  const look = async (): Promise<unknown> => (await sql.unsafe(dump))[0]?.['rows']
  const before = await look()
  const seen: Record<string, number> = {}
  return {
    seen,
    async judge (answers, sent) {
      for (const answer of answers) {
        const code = String(answer.body?.error?.code ?? answer.status)
        seen[code] = (seen[code] ?? 0) + 1
        const fault = wrong(answer)
        if (fault !== undefined) {
          throw new Error(`${fault}: ${show(answer)}\nto ${show(sent.toString('latin1'))}`)
        }
      }
      if (
        answers.some(({ status, headers }) =>
          status === 200 && headers['x-request-id'] !== 'following' &&
          headers['preference-applied'] !== 'tx=rollback'
        )
      ) await sql.unsafe(modelReset)
      else if (await look() !== before) {
        throw new Error(
          `the tables changed although ${show(answers)}\nto ${show(sent.toString('latin1'))}`
        )
      }
    }
  }
}

const following = bytesOf(
  framed('POST / HTTP/1.1', [...usualFields, ['x-request-id', 'following'], [
    'connection',
    'close'
  ]], Buffer.from('[{"id":"s","op":"select","table":"links"}]'))
)

/** What is answered until the server ends the connection. */
async function exchange (url: string, bytes: Buffer): Promise<readonly WireAnswer[]> {
  const line = await dial(url)
  line.send(bytes)
  return (await line.end()).filter(({ status }) => status >= 200)
}

/** What is answered first, and what else comes when the client then ends the connection. */
async function exchangeLie (url: string, bytes: Buffer): Promise<readonly WireAnswer[]> {
  const line = await dial(url)
  line.send(bytes)
  for (let n = 1; (await line.answers(n)).every(({ status }) => status < 200); n++);
  line.socket.end()
  return (await line.end()).filter(({ status }) => status >= 200)
}

async function stillServes (t: Test, service: ServiceUnderTest): Promise<void> {
  const { status, body } = await service.post([{
    id: 's',
    op: 'select',
    table: 'links',
    columns: [{ fn: 'count' }]
  }])
  t.strictSame(
    [status, body.data],
    [200, { s: [{ count: 2 }] }],
    'a proper request is served as ever'
  )
}

t.test(
  'property: whole requests of garbage are answered, and so is the proper request behind each',
  { timeout },
  async t => {
    const service = await useService(t, {
      schema: modelSchema,
      keys: true,
      env: { LOG_LEVEL: 'warn' }
    })
    const { judge, seen } = await watch(service)
    await fc.assert(
      fc.asyncProperty(whole, async sent => {
        const bytes = bytesOf(sent)
        const answers = await exchange(service.url, Buffer.concat([bytes, following]))
        await judge(answers, bytes)
        const [first, second] = answers
        const served = second?.headers['x-request-id'] === 'following' && second.status === 200 &&
          answers.length === 2
        if (
          first === undefined ||
          !(served || (first.headers['connection'] === 'close' && answers.length === 1))
        ) throw new Error(`answers ${show(answers)}\nto ${show(bytes.toString('latin1'))}`)
      }),
      { numRuns: runs, seed }
    )
    t.comment(JSON.stringify(seen))
    t.ok(Object.keys(seen).length > 20, `${Object.keys(seen).length} kinds of answers`)
    t.same(
      service.log.filter(({ level }) => (level as number) >= 50),
      [],
      'nothing is logged as a fault of the service'
    )
    await stillServes(t, service)
  }
)

t.test(
  'property: framing that lies and bytes that are no HTTP are answered in time',
  { timeout },
  async t => {
    // What was announced and never comes is waited for as long, so many are sent at once.
    const service = await useService(t, {
      schema: modelSchema,
      env: {
        LOG_LEVEL: 'warn',
        REQUEST_TIMEOUT_MS: '2000',
        QUEUE_SIZE: '100',
        QUEUE_TIMEOUT_MS: '2000'
      }
    })
    const { judge, seen } = await watch(service)
    await fc.assert(
      fc.asyncProperty(fc.array(lying, { minLength: 40, maxLength: 80 }), async lies => {
        const answers = await Promise.all(
          lies.map(async bytes =>
            exchangeLie(service.url, bytes).catch((error: unknown) => {
              throw new Error(`${String(error)}\nto ${show(bytes.toString('latin1'))}`)
            })
          )
        )
        await judge(answers.flat(), Buffer.concat(lies))
      }),
      { numRuns: Math.max(2, Math.ceil(runs / 500)), seed }
    )
    t.comment(JSON.stringify(seen))
    for (const code of ['http_malformed', 'body_invalid', 'request_timeout']) {
      t.ok(
        (seen[code] ?? 0) > 0,
        `${seen[code]} times ${code}`
      )
    }
    t.same(
      service.log.filter(({ level }) => (level as number) >= 50),
      [],
      'nothing is logged as a fault of the service'
    )
    await stillServes(t, service)
  }
)
