/**
 * Tests idempotency keys over HTTP: a batch is applied exactly once, its response is replayed byte
 * for byte, and a key belongs to one principal.
 *
 * Checks the header, concurrent requests, what frees a key, what is stored and for how long, and
 * triggers that try to forge a response. test/chaos cuts connections at every moment,
 * test/unit/auth/key-owner.test.ts tests the principal.
 */
import { readFile } from 'node:fs/promises'
import type { Sql } from 'postgres'
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { startKeyPruner } from '../../src/transaction/prune-keys.ts'
import { LOGIN_ROLE, useDatabase, type Database } from '../support/database/database.ts'
import { holdRow } from '../support/database/hold.ts'
import {
  CLAIMS,
  holdUntilWritten,
  isIdle,
  untilAlone,
  messageTypes,
  readSentBatch,
  useProxy,
  type Proxy
} from '../support/network/proxy.ts'
import {
  ask,
  makeKeyTable,
  token,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { until } from '../support/until.ts'
import { dial, request, speak } from '../support/network/wire.ts'

const schema = `
  create table slots (id int primary key, n numeric not null default 0);
  insert into slots select generate_series(0, 9);
  create table entries (id int generated always as identity primary key,
    n numeric not null check (n >= 0), note text unique);
  create table late (id int primary key, slot int references slots deferrable initially deferred);
  create table secret (id int);
  create table orders (id int primary key, code text);
  create function refuse() returns trigger language plpgsql as $$ begin raise exception
    using errcode = new.code, message = 'refused'; end $$;
  create trigger refuse before insert on orders for each row execute function refuse();
  create view nap as select pg_sleep(5)::text as slept;
  grant all on slots, entries, late, orders, nap to oneflight_user, oneflight_other,
    oneflight_anon;`

/** Inserts one row each time it is applied. */
const entry = (n = 1): object[] => [{ id: 'e', op: 'insert', table: 'entries', values: [{ n }] }]
/** Waits while another session holds the slot. */
const touch = (slot = 0): object[] => [...entry(), {
  id: 's',
  op: 'update',
  table: 'slots',
  set: { n: { $inc: 1 } },
  where: { id: { eq: slot } }
}]

type Post = (
  key: string,
  batch: unknown,
  headers?: Readonly<Record<string, string>>
) => Promise<Answer>
const poster = ({ post }: ServiceUnderTest): Post => (key, batch, headers = {}) =>
  post(batch, { headers: { 'idempotency-key': key, ...headers } })

type Claims = Readonly<Record<string, unknown>>

/** Sends an entry with the key `k` and a token with these claims; without claims no token. */
const send = (
  { post }: ServiceUnderTest,
  claims: Claims | undefined,
  batch: unknown = entry()
): Promise<Answer> =>
  post(batch, {
    role: null,
    headers: {
      'idempotency-key': 'k',
      ...claims === undefined ? {} : { authorization: `Bearer ${token(claims)}` }
    }
  })

const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true'
const applied = async ({ sql }: Pick<Database, 'sql'>): Promise<number> =>
  (await sql`select from entries`).length
const keys = async ({ sql }: Pick<Database, 'sql'>): Promise<readonly string[]> =>
  (await sql`select key from oneflight.idempotency_keys order by key`).map(({ key }) =>
    key as string
  )

function refused (t: Test, response: Answer, status: number, code: string, name: string): void {
  t.match(
    response,
    { status, body: { error: { code, committed: false }, data: null } },
    `${name}: ${response.text.slice(0, 300)}`
  )
  t.notOk(response.headers.has('idempotent-replayed'), name)
}

async function metric ({ adminUrl }: ServiceUnderTest, pattern: RegExp): Promise<number> {
  const lines = (await ask(`${adminUrl}/metrics`)).text.split('\n').filter(line =>
    pattern.test(line)
  )
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}
const transactions = (service: ServiceUnderTest): Promise<number> =>
  metric(service, /^service_txn_count\{/)

// The header
// ------------------------------------------------------------

const raw = (
  fields: string,
  body = JSON.stringify(entry()),
  more: Readonly<Record<string, string>> = {}
): Buffer =>
  Buffer.from(
    request('POST', '/', {
      authorization: `Bearer ${token({ role: 'oneflight_user' })}`,
      'content-type': 'application/json',
      connection: 'close',
      ...more
    }, body).replace('\r\n', `\r\n${fields}\r\n`),
    'latin1'
  )

t.test('the header: valid values denote these keys', async t => {
  const service = await useService(t, { schema, keys: true })
  const visible = Array.from(
    { length: 0x7f - 0x21 },
    (_, i) => String.fromCharCode(0x21 + i)
  ).join('')
  const rows: ReadonlyArray<readonly [sent: string, key: string]> = [
    ['abc', 'abc'],
    ['"abc"', 'abc'],
    ['!', '!'],
    ['~', '~'],
    ['\\', '\\'],
    ['a"b', 'a"b'],
    ['a"', 'a"'],
    ['a,b', 'a,b'],
    ['abc;a=1', 'abc;a=1'],
    ["'abc'", "'abc'"],
    [`!${visible}`, `!${visible}`],
    ['"a\\"b"', 'a"b'],
    ['"a\\\\b"', 'a\\b'],
    ['"\\\\\\""', '\\"'],
    ['" "', ' '],
    ['" a, b; c=d "', ' a, b; c=d '],
    ['  \t abc \t ', 'abc'],
    ['x'.repeat(255), 'x'.repeat(255)],
    [`"${'x'.repeat(255)}"`, 'x'.repeat(255)],
    [`"${'\\"'.repeat(255)}"`, '"'.repeat(255)],
    ['7d4f4e0c-6a5e-4b06-9a39-0f2b8c2f4a10', '7d4f4e0c-6a5e-4b06-9a39-0f2b8c2f4a10'],
    ["$1'; drop table entries; --".replaceAll(' ', '+'), "$1';+drop+table+entries;+--"]
  ]
  for (const [sent, key] of rows) {
    await service.database.sql`truncate oneflight.idempotency_keys`
    t.match(await speak(service.url, raw(`Idempotency-Key: ${sent}`)), [{ status: 200 }], sent)
    t.same(await keys(service.database), [key], sent)
  }
  t.equal(await applied(service.database), rows.length)
})

t.test('the header: a key in quotes is the same key', async t => {
  const service = await useService(t, { schema, keys: true })
  const responses = []
  for (const sent of ['a\\b', '"a\\\\b"', 'a\\b']) {
    responses.push(...await speak(service.url, raw(`Idempotency-Key: ${sent}`)))
  }
  t.same(responses.map(({ status, headers }) => [status, headers['idempotent-replayed']]), [
    [200, undefined],
    [200, 'true'],
    [200, 'true']
  ])
  t.equal(new Set(responses.map(({ text }) => text)).size, 1)
  t.equal(await applied(service.database), 1)
})

t.test('the header: any other value is rejected, and nothing is applied', async t => {
  const service = await useService(t, { schema, keys: true })
  const rows = [
    '',
    ' ',
    '""',
    'a b',
    'a\tb',
    '"',
    '"abc',
    '"abc"x',
    'x'.repeat(256),
    `"${'x'.repeat(256)}"`,
    `"${'\\\\'.repeat(256)}"`,
    '"abc";a=1',
    '"abc"; a',
    '"abc", "def"',
    '"abc","abc"',
    '"a"b"',
    '"a\\b"',
    '"a\\"',
    '"a\\',
    '"a\tb"',
    'ä',
    '"ä"',
    '\xe4',
    '"\xe4"',
    '\x80',
    '\xff',
    Buffer.from('ключ').toString('latin1'),
    Buffer.from('"😀"').toString('latin1')
  ].map(value => `Idempotency-Key: ${value}`)
  rows.push(
    'Idempotency-Key: a\r\nIdempotency-Key: a',
    'Idempotency-Key: a\r\nidempotency-key: b',
    'Idempotency-Key: a\r\nX: y\r\nIDEMPOTENCY-KEY:',
    'Idempotency-Key: "a"\r\nIdempotency-Key: a'
  )
  for (const fields of rows) {
    const responses = await speak(service.url, raw(fields))
    t.match(responses, [{
      status: 400,
      body: {
        error: { type: 'request_error', code: 'idempotency_key_invalid', committed: false },
        data: null
      }
    }], fields)
    t.equal(responses.length, 1)
  }
  t.same(await keys(service.database), [])
  t.equal(await applied(service.database), 0)
})

t.test('the header: checked after the token and before the body', async t => {
  const service = await useService(t, { schema, keys: true })
  const bad = 'Idempotency-Key: "'
  const rows: ReadonlyArray<
    readonly [more: Readonly<Record<string, string>>, status: number, code: string]
  > = [
    [{ 'content-type': 'text/plain' }, 415, 'content_type_unsupported'],
    [{ authorization: 'Bearer x' }, 401, 'token_invalid'],
    [{ prefer: 'handling=strict, tx=now' }, 400, 'prefer_invalid'],
    [{}, 400, 'idempotency_key_invalid'],
    [{ prefer: 'tx=rollback' }, 400, 'idempotency_key_invalid'],
    [{ prefer: 'access=read-only' }, 400, 'idempotency_key_invalid']
  ]
  for (const [more, status, code] of rows) {
    t.match(await speak(service.url, raw(bad, 'no JSON', more)), [{
      status,
      body: { error: { code } }
    }], code)
  }
  // Rejected by its headers: no byte of the body was sent.
  const line = await dial(service.url)
  line.send(
    raw(bad, undefined, { 'content-length': '100' }).toString('latin1').replace(
      /\r\n\r\n[^]*$/,
      '\r\n\r\n'
    )
  )
  t.match(await line.answers(1), [{
    status: 400,
    body: { error: { code: 'idempotency_key_invalid' } }
  }])
  line.socket.destroy()
})

// Exactly once
// ------------------------------------------------------------

t.test('a repeated request gets the same bytes, and nothing is applied', async t => {
  const service = await useService(t, { schema, keys: true })
  const post = poster(service)
  const prefer = { prefer: 'isolation=repeatable-read, foo=bar' }
  const first = await post('k', entry(), { ...prefer, 'x-request-id': 'first' })
  t.match(first, { status: 200, body: { error: null, data: { e: [{ id: 1, n: 1 }] } } })
  t.notOk(first.headers.has('idempotent-replayed'))
  await service.database.sql`update entries set n = 7`
  for (const id of ['second', 'third']) {
    const again = await post('k', entry(), { ...prefer, 'x-request-id': id })
    t.equal(again.status, 200)
    t.equal(again.text, first.text)
    t.ok(isReplay(again))
    for (const name of ['content-type', 'content-length', 'preference-applied']) {
      t.equal(again.headers.get(name), first.headers.get(name), name)
    }
    t.equal(first.headers.get('preference-applied'), 'isolation=repeatable-read')
    t.equal(again.headers.get('x-request-id'), id)
  }
  t.equal(await applied(service.database), 1)
  t.equal(await transactions(service), 1, 'a replay runs no transaction')
  t.equal(await metric(service, /^service_op_count\{/), 1)
  t.equal(await metric(service, /^service_txn_retry_count/), 0)
  t.equal((await post('l', entry(), prefer)).body.data.e[0].id, 2, 'another key is another batch')
})

t.test('of twenty concurrent requests with a key one is applied, the others get 409', async t => {
  const service = await useService(t, { schema, keys: true, env: { QUEUE_SIZE: '100' } })
  const post = poster(service)
  const slot = await holdRow(service.database)
  const first = post('k', touch())
  await slot.awaited()
  for (const response of await Promise.all(Array.from({ length: 19 }, () => post('k', touch())))) {
    t.match(response, {
      status: 409,
      body: {
        error: {
          type: 'request_error',
          code: 'idempotency_key_in_progress',
          retryable: true,
          committed: false
        }
      }
    })
  }
  t.match(await post('k', entry()), {
    status: 409,
    body: { error: { code: 'idempotency_key_in_progress' } }
  }, 'another batch with the key gets the same error')
  t.equal((await post('l', entry())).status, 200, 'another key does not wait')
  await slot.free()
  const { status, text } = await first
  t.equal(status, 200)
  const replays = await Promise.all(Array.from({ length: 20 }, () => post('k', touch())))
  t.same(
    replays.map(response => [response.status, isReplay(response), response.text]),
    Array(20).fill([200, true, text])
  )
  t.equal(await applied(service.database), 2)
  t.same(await service.database.sql`select n::int from slots where id = 0`, [{ n: 1 }])
  t.equal(await transactions(service), 2)
})

t.test('a batch is applied once, at every isolation level and by any instance', async t => {
  const one = await useService(t, { schema, keys: true })
  // Another instance on the same database.
  const other = await useService(t, { schema, databaseUrl: () => one.database.loginUrl })
  for (const isolation of ['read-committed', 'repeatable-read', 'serializable']) {
    const prefer = { prefer: `isolation=${isolation}` }
    for (let round = 0; round < 8; round++) {
      const key = `${isolation} ${round}`.replace(' ', '_')
      const send = (service: ServiceUnderTest): Promise<Answer> =>
        poster(service)(key, touch(round % 10), prefer)
      const responses = await Promise.all(
        Array.from({ length: 8 }, (_, i) => send(i % 2 === 0 ? one : other))
      )
      t.same(
        responses.filter(({ status, body }) =>
          status !== 200 && !(status === 409 && body.error.code === 'idempotency_key_in_progress')
        ).map(({ text }) => text),
        [],
        key
      )
      const fresh = responses.filter(response => response.status === 200 && !isReplay(response))
      t.equal(fresh.length, 1, key)
      const successful = responses.filter(({ status }) => status === 200)
      const repeated = [await send(one), await send(other)]
      const texts = new Set([...successful, ...repeated].map(({ text }) => text))
      t.equal(texts.size, 1, 'all successful responses are equal')
    }
  }
  t.equal(await applied(one.database), 24)
  t.same(await one.database.sql`select sum(n)::int as n from slots`, [{ n: 24 }])
})

t.test('serialization failures and deadlocks are retried with their key', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { POOL_SIZE: '6', QUEUE_SIZE: '100' }
  })
  const post = poster(service)
  await service.database.sql.unsafe(
    `alter database ${service.database.name} set deadlock_timeout = '10ms'`
  )
  const move = (
    ...slots: number[]
  ): object[] => [
    ...entry(),
    ...slots.map((id, i) => ({
      id: `s${i}`,
      op: 'update',
      table: 'slots',
      set: { n: { $inc: 1 } },
      where: { id: { eq: id } }
    }))
  ]
  // As many transactions as possible have started before one of them continues.
  const slots = await holdRow(service.database, 'select from slots')
  const posts = Array.from(
    { length: 24 },
    (_, i) =>
      post(`k${i}`, i % 2 === 0 ? move(1, 2, 3) : move(3, 2, 1), {
        prefer: `isolation=${i % 3 === 0 ? 'read-committed' : 'serializable'}`
      })
  )
  await slots.awaited(6)
  await slots.free()
  const responses = await Promise.all(posts)
  const done = responses.filter(({ status }) => status === 200).length
  const unexpected = responses.filter(({ status, body }) =>
    status !== 200 && body.error.retryable !== true
  )
  t.same(unexpected.map(({ text }) => text), [])
  t.same(await service.database.sql`select n::int from slots where id = 1`, [{ n: done }])
  t.equal(await applied(service.database), done)
  t.equal((await keys(service.database)).length, done)
  t.not(await metric(service, /^service_txn_retry_count\{/), 0, 'some transactions were retried')
})

// Another request
// ------------------------------------------------------------

t.test('the same key with another request is rejected, and nothing is applied', async t => {
  const service = await useService(t, { schema, keys: true })
  const post = poster(service)
  const text = JSON.stringify(entry())
  const first = await post('k', text)
  t.equal(first.status, 200)
  const rows: ReadonlyArray<
    readonly [name: string, body: string, headers?: Readonly<Record<string, string>>]
  > = [
    ['another number', JSON.stringify(entry(2))],
    ['white space', `${text} `],
    [
      'members in another order',
      JSON.stringify([{ op: 'insert', id: 'e', table: 'entries', values: [{ n: 1 }] }])
    ],
    ['an escape', text.replace('entries', 'entrie\\u0073')],
    ['one operation more', JSON.stringify([...entry(), { id: 's', op: 'select', table: 'slots' }])],
    ['counts', text, { prefer: 'return=minimal' }],
    ['isolation', text, { prefer: 'isolation=serializable' }]
  ]
  for (const [name, body, headers] of rows) {
    refused(t, await post('k', body, headers), 422, 'idempotency_key_reused', name)
  }
  t.match((await post('k', `${text} `)).body.error, { type: 'request_error', retryable: undefined })
  t.equal(await applied(service.database), 1)
  t.equal(await transactions(service), 1)

  const same: ReadonlyArray<readonly [name: string, headers: Readonly<Record<string, string>>]> = [
    ['request id', { 'x-request-id': 'other' }],
    ['media type', { 'content-type': 'application/json; charset=utf-8' }],
    ['explicit defaults', { prefer: 'tx=commit, isolation=read-committed, return=representation' }],
    ['an unknown preference, and lenient handling', {
      prefer: 'respond-async, handling=lenient'
    }],
    ['strict handling', { prefer: 'handling=strict' }]
  ]
  for (const [name, headers] of same) {
    const response = await post('k', text, headers)
    t.match([response.status, isReplay(response), response.text], [200, true, first.text], name)
  }
})

t.test('an invalid batch is reported before the key is checked', async t => {
  const service = await useService(t, { schema, keys: true })
  const post = poster(service)
  t.equal((await post('k', entry())).status, 200)
  refused(t, await post('k', '[]'), 400, 'body_empty', 'empty')
  refused(
    t,
    await post('k', [{ id: 'a', op: 'drop', table: 'entries' }]),
    422,
    'validation_failed',
    'unknown'
  )
})

// Failed batches
// ------------------------------------------------------------

t.test('a batch that fails frees its key, whatever the error is', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { LOCK_TIMEOUT_MS: '100', MAX_ROWS: '5' }
  })
  const hasty = await useService(t, {
    schema,
    databaseUrl: () => service.database.loginUrl,
    env: { STATEMENT_TIMEOUT_MS: '1000' }
  })
  const post = poster(service)
  const { sql } = service.database
  await sql`insert into entries (n, note) values (0, 'taken')`
  const slot = await holdRow(service.database)
  const [good] = entry() as [object]
  const then = (operation: object): object[] => [good, { id: 'x', ...operation }]
  const rows: ReadonlyArray<
    readonly [batch: unknown, status: number, code: string, role?: string]
  > = [
    [then({ op: 'insert', table: 'entries', values: [{ n: -1 }] }), 400, 'check_violation'],
    [
      then({ op: 'insert', table: 'entries', values: [{ n: 1, note: 'taken' }] }),
      409,
      'unique_violation'
    ],
    [
      then({ op: 'insert', table: 'late', values: [{ id: 1, slot: 99 }] }),
      409,
      'foreign_key_violation'
    ],
    [
      then({ op: 'select', table: 'slots', where: { id: { eq: 1 } }, expect: 3 }),
      412,
      'expectation_failed'
    ],
    [then({ op: 'select', table: 'slots' }), 422, 'rows_limit'],
    [
      then({ op: 'select', table: 'slots', where: { id: { eq: '$e.1.id' } } }),
      422,
      'reference_row_missing'
    ],
    [
      then({ op: 'select', table: 'slots', where: { id: { eq: '$e.0.nothing' } } }),
      422,
      'reference_column_missing'
    ],
    [then({ op: 'select', table: 'nowhere' }), 404, 'undefined_table'],
    [then({ op: 'select', table: 'secret' }), 403, 'insufficient_privilege'],
    [then({ op: 'insert', table: 'orders', values: [{ id: 1, code: 'PT418' }] }), 418, 'PT418'],
    [
      then({ op: 'insert', table: 'orders', values: [{ id: 1, code: '40001' }] }),
      409,
      'serialization_failure'
    ],
    [
      then({ op: 'insert', table: 'orders', values: [{ id: 1, code: 'XX000' }] }),
      500,
      'internal_error'
    ],
    [then({ op: 'select', table: 'nap' }), 504, 'query_canceled'],
    [then((touch() as [object, object])[1]), 409, 'lock_not_available'],
    [entry(), 403, 'role_denied', 'nobody_knows_this_role'],
    [then({ op: 'insert', table: 'entries', values: [{ n: '$y.0.n' }] }), 422, 'validation_failed'],
    ['[', 400, 'body_invalid']
  ]
  for (const [i, [batch, status, code, role = 'oneflight_user']] of rows.entries()) {
    const headers = { 'idempotency-key': `k${i}` }
    // Twice, because a failure is not stored and replayed.
    for (const time of ['first', 'second']) {
      refused(
        t,
        await (code === 'query_canceled' ? hasty : service).post(batch, { role, headers }),
        status,
        code,
        `${code}, ${time} time`
      )
    }
    t.same(await keys(service.database), [], 'no key is kept')
    t.equal(await applied(service.database), 1, 'nothing is applied')
    const next = await service.post(entry(), { headers })
    t.match(
      [next.status, isReplay(next)],
      [200, false],
      `${code}: the key is free for another batch`
    )
    await sql`delete from entries where note is null`
    await sql`truncate oneflight.idempotency_keys`
  }
  const deferred = await post('d', rows[2]?.[0])
  t.match(deferred.body.error, {
    type: 'execution_error',
    op: null,
    index: null,
    sqlstate: '23503',
    constraint: 'late_slot_fkey'
  }, 'the error of a deferred constraint names no operation')
  await slot.free()
})

t.test('a request that exceeds its deadline frees its key', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { LOCK_TIMEOUT_MS: '60000', REQUEST_TIMEOUT_MS: '6000' }
  })
  const post = poster(service)
  const slot = await holdRow(service.database)
  refused(t, await post('k', touch()), 504, 'deadline_exceeded', 'late')
  await slot.awaited(0)
  await slot.free()
  const next = await post('k', touch())
  t.match([next.status, isReplay(next)], [200, false])
  t.equal(await applied(service.database), 1)
})

// Principals
// ------------------------------------------------------------

t.test('keys of different principals are independent', async t => {
  const service = await useService(t, { schema, keys: true, env: { ANON_ROLE: 'oneflight_anon' } })
  const role = 'oneflight_user'
  const later = Math.floor(Date.now() / 1000) + 7200
  const now = Math.floor(Date.now() / 1000)
  const people: ReadonlyArray<
    readonly [name: string, claims: Claims | undefined, renewed: Claims | undefined]
  > = [
    ['a subject', { role, sub: 'a' }, {
      role,
      sub: 'a',
      exp: later,
      iat: now,
      nbf: now,
      jti: 'x',
      auth_time: now,
      sid: 'x'
    }],
    ['another subject', { role, sub: 'b' }, { role, sub: 'b', jti: 'y' }],
    ['another issuer', { role, sub: 'a', iss: 'https://one.example' }, {
      role,
      sub: 'a',
      iss: 'https://one.example',
      sid: 'y'
    }],
    ['one more issuer', { role, sub: 'a', iss: 'https://two.example' }, {
      sub: 'a',
      iss: 'https://two.example',
      role
    }],
    ['another role', { role: 'oneflight_other', sub: 'a' }, { role: 'oneflight_other', sub: 'a' }],
    ['no subject', { role }, { role, exp: later, iat: now, jti: 'z' }],
    ['no subject, a claim', { role, user_id: 1 }, { user_id: 1, role, exp: later }],
    ['no subject, another value of the claim', { role, user_id: 2 }, {
      role,
      user_id: 2,
      nbf: now
    }],
    ['no subject, the value as text', { role, user_id: '2' }, { role, user_id: '2' }],
    ['an empty subject', { role, sub: '', user_id: 1 }, { role, sub: '', user_id: 1 }],
    ['the anonymous role with a token', { role: 'oneflight_anon' }, {
      role: 'oneflight_anon',
      exp: later
    }],
    ['anonymous', undefined, undefined]
  ]
  const responses = new Map<string, string>()
  for (const [name, claims] of people) {
    const response = await send(service, claims)
    t.match([response.status, isReplay(response)], [200, false], name)
    responses.set(name, response.text)
  }
  t.equal(new Set(responses.values()).size, people.length)
  for (const [name, , renewed] of people) {
    const response = await send(service, renewed)
    t.match(
      [response.status, isReplay(response), response.text],
      [200, true, responses.get(name)],
      `${name}, with another token`
    )
  }
  t.equal(await applied(service.database), people.length)
  const rows = await service.database
    .sql`select distinct length(principal) as principal, length(claims) as claims,
      length(fingerprint) as request from oneflight.idempotency_keys`
  t.same(rows, [{ principal: 32, claims: 32, request: 32 }], 'only hashes are stored')
})

/** The claims of one subject in a tenant. */
const member = (tenant: string, more: Claims = {}): Claims => ({
  role: 'oneflight_user',
  sub: 'a',
  app_metadata: { tenant },
  ...more
})

t.test('a tenant does not get the response of another tenant with its subject', async t => {
  const service = await useService(t, { schema, keys: true })
  t.equal((await send(service, member('bakery'))).status, 200)
  for (const batch of [entry(), entry(2)]) {
    const other = await send(service, member('corner-shop'), batch)
    refused(t, other, 422, 'idempotency_key_reused', 'the other tenant')
    t.match(other.body.error, { message: /token had other claims.* was committed/ })
  }
  t.match((await send(service, member('bakery'), entry(2))).body.error, {
    code: 'idempotency_key_reused',
    message: /different body/
  })
  t.ok(isReplay(await send(service, member('bakery'))))
  t.equal(await applied(service.database), 1)
  t.equal(await transactions(service), 1)
})

t.test('while a request with a key runs, one with other claims gets 409', async t => {
  const service = await useService(t, { schema, keys: true })
  const slot = await holdRow(service.database)
  const first = send(service, member('bakery'), touch())
  await slot.awaited()
  const other = (): Promise<Answer> => send(service, member('corner-shop'), touch())
  refused(t, await other(), 409, 'idempotency_key_in_progress', 'running')
  await slot.free()
  t.equal((await first).status, 200)
  refused(t, await other(), 422, 'idempotency_key_reused', 'committed')
})

t.test('claims of IDEMPOTENCY_IGNORED_CLAIMS may differ between requests', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { IDEMPOTENCY_IGNORED_CLAIMS: 'session_id, app_metadata.tenant' }
  })
  const first = await send(service, member('bakery', { session_id: 1 }))
  const again = await send(service, member('corner-shop', { session_id: 2 }))
  t.match([again.status, again.text, isReplay(again)], [200, first.text, true])
  const other = await send(service, member('bakery', { email: 'a@corner.shop' }))
  refused(t, other, 422, 'idempotency_key_reused', 'another claim')
})

t.test('with IDEMPOTENCY_SCOPE, tenants have keys of their own', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { IDEMPOTENCY_SCOPE: 'app_metadata.tenant' }
  })
  const people = [member('bakery'), member('corner-shop'), { role: 'oneflight_user', sub: 'a' }]
  const slot = await holdRow(service.database)
  const first = send(service, people[0], touch())
  await slot.awaited()
  const others = [await send(service, people[1]), await send(service, people[2])]
  await slot.free()
  const responses = [await first, ...others]
  t.same(responses.map(response => [response.status, isReplay(response)]), Array(3).fill([
    200,
    false
  ]))
  for (const [i, claims] of people.entries()) {
    const again = await send(service, claims, i === 0 ? touch() : entry())
    t.match([again.text, isReplay(again)], [responses[i]?.text, true])
  }
  t.equal(await applied(service.database), 3)
})

t.test('a key that an earlier version stored without claims is honoured', async t => {
  const service = await useService(t, { schema, keys: true })
  const { sql } = service.database
  const first = await send(service, member('bakery'))
  await sql`update oneflight.idempotency_keys set claims = null`
  for (const claims of [member('bakery'), member('bakery', { email: 'a@corner.shop' })]) {
    const again = await send(service, claims)
    t.match([again.status, again.text, isReplay(again)], [200, first.text, true])
  }
  const other = await send(service, member('bakery'), entry(2))
  refused(t, other, 422, 'idempotency_key_reused', 'another body')

  // Once it has expired, the claims of the next request are stored.
  await sql`update oneflight.idempotency_keys set expires_at = now()`
  t.notOk(isReplay(await send(service, member('corner-shop'))))
  t.ok(isReplay(await send(service, member('corner-shop'))))
  refused(t, await send(service, member('bakery')), 422, 'idempotency_key_reused', 'taken over')
})

t.test('an expired key is taken over with the claims of the new request', async t => {
  const service = await useService(t, { schema, keys: true })
  t.equal((await send(service, member('bakery'))).status, 200)
  await service.database.sql`update oneflight.idempotency_keys set expires_at = now()`
  const next = await send(service, member('corner-shop'))
  t.match([next.status, isReplay(next)], [200, false])
  t.ok(isReplay(await send(service, member('corner-shop'))))
  refused(t, await send(service, member('bakery')), 422, 'idempotency_key_reused', 'the first')
  t.equal(await applied(service.database), 2)
})

t.test('a key needs claims that can be compared', async t => {
  const service = await useService(t, { schema, keys: true })
  const nested = JSON.parse(`${'['.repeat(101)}${']'.repeat(101)}`) as unknown
  const deep = await send(service, member('bakery', { nested }))
  refused(t, deep, 400, 'idempotency_key_invalid', 'nested')
  const odd = await send(service, member('bakery', { name: '\0' }))
  t.match([odd.status, isReplay(odd)], [200, false], 'U+0000 in a claim')
  t.equal(await applied(service.database), 1)
})

t.test('a principal does not wait for another one with the same key', async t => {
  const service = await useService(t, { schema, keys: true })
  const slot = await holdRow(service.database)
  const as = (sub: string, batch: object[]): Promise<Answer> =>
    send(service, { role: 'oneflight_user', sub }, batch)
  const first = as('a', touch())
  await slot.awaited()
  t.equal((await as('b', entry())).status, 200, 'another principal with the same key')
  await slot.free()
  t.equal((await first).status, 200)
})

// Expiry
// ------------------------------------------------------------

t.test('a key is kept for IDEMPOTENCY_TTL and is free afterwards', async t => {
  const service = await useService(t, { schema, keys: true, env: { IDEMPOTENCY_TTL: '1s' } })
  const post = poster(service)
  const { sql } = service.database
  // Counted from when the key was stored, some time after the transaction began.
  const isKept = async (key: string, time: string): Promise<void> => {
    t.same(
      await sql`select expires_at - created_at >= ${time}::interval
        as least, expires_at - created_at < ${time}::interval + interval '1 min' as most
        from oneflight.idempotency_keys where key = ${key}`,
      [{ least: true, most: true }],
      time
    )
  }
  t.equal((await post('k', entry())).status, 200)
  await isKept('k', '00:00:01')
  await until(async () =>
    (await sql`select from oneflight.idempotency_keys where expires_at > now()`).length === 0
  )
  const next = await post('k', entry(2))
  t.match(
    [next.status, isReplay(next), next.body.data?.e?.[0]?.n],
    [200, false, 2],
    'another batch, because the key has expired'
  )
  t.equal(await applied(service.database), 2)
  for (const [ttl, time] of [['24h', '24:00'], ['30m', '00:30'], ['7d', '168:00']] as const) {
    const other = await useService(t, {
      schema,
      databaseUrl: () => service.database.loginUrl,
      env: ttl === '24h' ? {} : { IDEMPOTENCY_TTL: ttl }
    })
    t.equal((await poster(other)(ttl, entry())).status, 200)
    await isKept(ttl, time)
  }
})

t.test('an expired key that is not deleted yet is taken over by one request', async t => {
  const service = await useService(t, { schema, keys: true })
  const post = poster(service)
  const { sql } = service.database
  const prefers = ['read-committed', 'repeatable-read', 'serializable'].map(level => ({
    prefer: `isolation=${level}`
  }))
  for (const [i, prefer] of prefers.entries()) {
    t.equal((await post('k', entry(), prefer)).status, 200)
    await sql`update oneflight.idempotency_keys set expires_at = now()`
    const before = await applied(service.database)
    const responses = await Promise.all(
      Array.from({ length: 12 }, () => post('k', entry(i), prefer))
    )
    const unexpected = responses.filter(({ status }) => ![200, 409].includes(status))
    t.same(unexpected.map(({ text }) => text), [])
    t.equal(responses.filter(response => response.status === 200 && !isReplay(response)).length, 1)
    t.equal(await applied(service.database) - before, 1)
    t.same(await keys(service.database), ['k'])
    const [row] = await sql`select created_at < expires_at as whole, cardinality(answer)
        as answers, expires_at > now() as alive from oneflight.idempotency_keys`
    t.same(row, { whole: true, answers: 1, alive: true })
    await sql`truncate oneflight.idempotency_keys`
  }
})

t.test('a failed take-over leaves the expired key free', async t => {
  const service = await useService(t, { schema, keys: true })
  const post = poster(service)
  t.equal((await post('k', entry(1))).status, 200)
  await service.database.sql`update oneflight.idempotency_keys set expires_at = now()`
  refused(t, await post('k', entry(-1)), 400, 'check_violation', 'take-over')
  const again = await post('k', entry(1))
  t.match([again.status, isReplay(again)], [200, false], 'the expired response is not replayed')
})

const insertRows = (sql: Sql, count: number, ttl: string): Promise<unknown> =>
  sql.unsafe(`
  insert into oneflight.idempotency_keys select sha256(i::text::bytea), '${ttl} ' || i, '', '{}',
    now(), now() + interval '${ttl}' from generate_series(1, ${count}) as i`)

t.test('only expired keys are deleted in the background', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const { sql } = database
  await insertRows(sql, 2500, '-2 days')
  await insertRows(sql, 5, '1 hour')
  const held = await sql.reserve()
  await held.unsafe(
    "begin; select from oneflight.idempotency_keys where key = '-2 days 1' for update"
  )
  const refusals: unknown[] = []
  const start = () =>
    startKeyPruner({
      target: parseDatabaseUrl(database.loginUrl),
      everyMs: 10,
      onRefused: reason => refusals.push(reason.code)
    })
  const pruner = start()
  const expired = async (): Promise<number> =>
    (await sql`select from oneflight.idempotency_keys where expires_at <= now() - interval '1 day'`)
      .length
  await until(async () => await expired() === 1)
  t.comment('the pruner does not wait for a locked row')
  await held.unsafe('rollback')
  held.release()
  await until(async () => await expired() === 0)
  t.equal((await keys(database)).length, 5)

  await sql.unsafe(`revoke delete on oneflight.idempotency_keys from ${LOGIN_ROLE}`)
  await until(() => refusals.length > 0)
  await insertRows(sql, 3, '-3 days')
  await sql.unsafe(`grant delete on oneflight.idempotency_keys to ${LOGIN_ROLE}`)
  await until(async () => await expired() === 0)
  t.same(refusals, ['42501'], 'reported once')

  // The pruner stops even while it waits for a lock.
  const lock = await sql.reserve()
  await lock.unsafe('begin; lock table oneflight.idempotency_keys in access exclusive mode')
  await until(async () =>
    (await sql`select from pg_stat_activity where datname = ${database.name}
      and usename = ${LOGIN_ROLE} and wait_event_type = 'Lock'`)
      .length === 1
  )
  await pruner.close()
  await lock.unsafe('rollback')
  lock.release()
  const sessions = async (): Promise<number> =>
    (await sql`select from pg_stat_activity where datname = ${database.name}
      and usename = ${LOGIN_ROLE}`)
      .length
  await until(async () => await sessions() === 0)
  await sql`drop schema oneflight cascade`
  const other = start()
  t.teardown(() => other.close())
  for (let i = 0; i < 3; i++) {
    await until(async () => await sessions() === 1)
    await until(async () => await sessions() === 0)
  }
  await other.close()
  t.same(refusals, ['42501'], 'a missing table is not reported')
})

t.test('the service deletes expired keys at start without delaying requests', async t => {
  const file = await readFile(new URL('../../deploy/migrate.sql', import.meta.url), 'utf8')
  const service = await useService(t, {
    schema: `${schema}${file.replaceAll(':"login_role"', LOGIN_ROLE)};
      insert into oneflight.idempotency_keys values ('a', 'old', 'f', '{1}',
        now() - interval '2 days', now() - interval '1 day'), ('a', 'new', 'f', '{1}', now(),
        now() + interval '1 day')`
  })
  await until(async () => (await keys(service.database)).length === 1)
  t.same(await keys(service.database), ['new'])

  const { sql } = service.database
  const lock = await sql.reserve()
  await lock.unsafe('begin; lock table oneflight.idempotency_keys in access exclusive mode')
  const other = await useService(t, { schema, databaseUrl: () => service.database.loginUrl })
  await until(async () =>
    (await sql`select from pg_stat_activity where datname = ${service.database.name}
      and usename = ${LOGIN_ROLE} and wait_event_type = 'Lock'`)
      .length === 1
  )
  t.equal((await other.post(entry())).status, 200)
  await other.stop()
  await lock.unsafe('rollback')
  lock.release()
})

// Without the table
// ------------------------------------------------------------

t.test('keys are refused while the table or a privilege is missing, without a restart', async t => {
  const service = await useService(t, { schema })
  const { database } = service
  const post = poster(service)
  const refusal = async (name: string): Promise<void> => {
    const response = await post('k', entry())
    refused(t, response, 400, 'idempotency_key_invalid', name)
    t.match(response.body.error, {
      type: 'request_error',
      message: /oneflight\.idempotency_keys.*npm run migrate/,
      sqlstate: undefined
    }, name)
    t.equal(await applied(database), 0, name)
  }
  // More often than the pool has connections and than a statement runs before it is prepared.
  for (let i = 0; i < 6; i++) await refusal('no table')
  t.equal(await transactions(service), 0)
  t.equal(
    (await service.post([{ id: 's', op: 'select', table: 'slots' }])).status,
    200,
    'without a key'
  )
  t.equal((await post('k', entry(), { prefer: 'tx=rollback' })).status, 200, 'a dry run')
  t.equal(
    (await post('k', [{ id: 's', op: 'select', table: 'slots' }], { prefer: 'access=read-only' }))
      .status,
    200,
    'read-only'
  )
  await database.sql.unsafe(
    'create schema oneflight; create table oneflight.idempotency_keys (key text)'
  )
  await refusal('another table of that name')
  await database.sql.unsafe('drop schema oneflight cascade')
  await makeKeyTable(database)
  await database.sql.unsafe('alter table oneflight.idempotency_keys drop column claims')
  await refusal('the table of an earlier version')
  await makeKeyTable(database)
  const privileges = [
    ['usage', 'schema oneflight'],
    ['select', 'oneflight.idempotency_keys'],
    ['insert', 'oneflight.idempotency_keys'],
    ['update', 'oneflight.idempotency_keys']
  ]
  for (const [right, object] of privileges) {
    await database.sql.unsafe(`revoke ${right} on ${object} from ${LOGIN_ROLE}`)
    await refusal(`no ${right}`)
    await database.sql.unsafe(`grant ${right} on ${object} to ${LOGIN_ROLE}`)
  }
  t.match((await post('k', entry())).status, 200)
  t.ok(isReplay(await post('k', entry())))
  t.equal(await applied(database), 1)
})

t.test('a read-only default of the database does not count as a missing table', async t => {
  const service = await useService(t, { schema, keys: true })
  await service.database.sql.unsafe(
    `alter role ${LOGIN_ROLE} in database ${service.database.name} set ` +
      'default_transaction_read_only = on'
  )
  t.teardown(() =>
    service.database.sql.unsafe(
      `alter role ${LOGIN_ROLE} in database ${service.database.name} reset ` +
        'default_transaction_read_only'
    )
  )
  t.equal(
    (await poster(service)('k', entry())).status,
    200,
    'the transaction sets its own access mode'
  )
})

// Dry runs and read-only batches
// ------------------------------------------------------------

t.test('dry runs and read-only batches store no key and replay nothing', async t => {
  const service = await useService(t, { schema, keys: true })
  const post = poster(service)
  for (const prefer of ['tx=rollback', 'access=read-only', 'tx=rollback, access=read-only']) {
    const batch = prefer.startsWith('access') || prefer.includes(',')
      ? [{ id: 's', op: 'select', table: 'slots', where: { id: { eq: 0 } } }]
      : entry()
    for (let i = 0; i < 2; i++) {
      const response = await post('k', batch, { prefer })
      t.match([response.status, isReplay(response)], [200, false], prefer)
    }
  }
  t.same(await keys(service.database), [])
  const first = await post('k', entry())
  t.equal(first.status, 200)
  const dry = await post('k', entry(), { prefer: 'tx=rollback' })
  t.match([dry.status, isReplay(dry)], [200, false], 'with a key that has a stored response')
  t.not(dry.text, first.text)
  t.equal((await post('k', entry())).text, first.text)
  t.equal(await applied(service.database), 1)
  const slot = await holdRow(service.database)
  const running = post('l', touch())
  await slot.awaited()
  t.equal(
    (await post('l', entry(), { prefer: 'tx=rollback' })).status,
    200,
    'with a key that is in progress'
  )
  await slot.free()
  t.equal((await running).status, 200)
})

t.test('a batch of selects that may write is stored like any other', async t => {
  const service = await useService(t, { schema, keys: true })
  const select = [{ id: 's', op: 'select', table: 'slots', where: { id: { eq: 1 } } }]
  const first = await poster(service)('k', select)
  await service.database.sql`update slots set n = 5`
  const again = await poster(service)('k', select)
  t.match([again.text, isReplay(again)], [first.text, true])
})

// The response
// ------------------------------------------------------------

t.test('replays of every kind of response are byte-identical', async t => {
  const service = await useService(t, {
    keys: true,
    env: { MAX_BODY_BYTES: '2000000' },
    schema: `${schema}
      create table anything (i int8, n numeric, f float8, t text, j json, b jsonb, a text[],
        at timestamptz, x bytea);
      insert into anything values
        (9007199254740993, 1.10, 'NaN', 'NULL', '{"a" : 1.10,  "a":2}', '{"b": -0, "c": [1e400]}',
          '{NULL,"",null,"a\\"b"}', 'infinity', '\\x00ff'),
        (-9223372036854775808, -0.00, '-Infinity', E'{"}\\\\,\\'\\n\\t\\u2028
          \\U0001F600', 'null', 'null', '{}', '2026-01-01 00:00:00.123456+00', ''),
        (null, 1e-30, 1e300, '', '"\\u00e9"', '""', null, null, null);
      create table "Ünï" ("__proto__" text, "a b" text);
      grant all on anything, "Ünï" to oneflight_user`
  })
  const post = poster(service)
  const huge = `1${'0'.repeat(400)}.50`
  const rows: ReadonlyArray<
    readonly [name: string, batch: unknown, headers?: Readonly<Record<string, string>>]
  > = [
    ['values', [{ id: 'a', op: 'select', table: 'anything' }]],
    ['no rows', [{ id: 'a', op: 'select', table: 'anything', where: { t: { eq: 'nowhere' } } }]],
    ['no columns', [{
      id: 'a',
      op: 'update',
      table: 'slots',
      set: { n: 1 },
      where: { id: { eq: 1 } },
      returning: []
    }]],
    [
      'digits',
      `[{"id":"a","op":"insert","table":"anything","values":[{"n":${huge}},{"n":-0},` +
      '{"n":1.10},{"f":"Infinity"}]}]'
    ],
    [
      'names',
      '[{"id":"__proto__","op":"insert","table":"Ünï","values":[{"__proto__":"x","a ' +
      'b":"\\ud83d\\ude00\\u0001"}]},{"id":"toString","op":"select","table":"Ünï"}]'
    ],
    [
      'a hundred operations',
      Array.from(
        { length: 100 },
        (_, i) => ({
          id: `o${i}`,
          op: 'select',
          table: 'slots',
          where: { id: { lt: i % 10 } },
          order: [{ id: 'asc' }]
        })
      )
    ],
    ['a megabyte', [{
      id: 'a',
      op: 'insert',
      table: 'anything',
      values: [{ t: '"\\é'.repeat(200_000) }]
    }, { id: 'b', op: 'select', table: 'anything', where: { t: { like: '"%' } } }]],
    ['counts', [...entry(), { id: 's', op: 'select', table: 'slots' }], {
      prefer: 'return=minimal'
    }],
    ['counts of nothing', [{ id: 's', op: 'delete', table: 'slots', where: { id: { eq: 77 } } }], {
      prefer: 'return=minimal'
    }]
  ]
  for (const [name, batch, headers] of rows) {
    const key = `"${name}"`
    const first = await post(key, batch, headers)
    t.equal(first.status, 200, `${name} ${first.text.slice(0, 300)}`)
    const again = await post(key, batch, headers)
    t.ok(again.text === first.text, `${name}: the same bytes`)
    t.match([again.status, isReplay(again), again.headers.get('preference-applied')], [
      200,
      true,
      first.headers.get('preference-applied')
    ], name)
    const [row] = await service.database
      .sql`select cardinality(answer) as n from oneflight.idempotency_keys where key = ${name}`
    t.equal(row?.['n'], Object.keys(first.body.data).length, `${name}: one text for each operation`)
  }
  t.match((await post('"counts"', rows[7]?.[1], rows[7]?.[2])).body.data, { e: 1, s: 10 })
  t.ok((await post('digits', rows[3]?.[1])).text.includes(`"n":${huge}`))
})

t.test('keys work without prepared statements', async t => {
  const service = await useService(t, { schema, keys: true, env: { PREPARED_STATEMENTS: 'off' } })
  const post = poster(service)
  for (const key of ['a', 'b', 'c', 'd']) {
    const responses = [await post(key, entry()), await post(key, entry())]
    t.same(
      responses.map(response => [response.status, isReplay(response)]),
      [[200, false], [200, true]]
    )
    t.equal(responses[0]?.text, responses[1]?.text)
  }
  t.equal(await applied(service.database), 4)
})

// Lost connections
// ------------------------------------------------------------

const terminate = async ({ sql, name }: Database): Promise<readonly unknown[]> =>
  await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}
    and usename = ${LOGIN_ROLE} and wait_event_type = 'Lock'`

t.test('a batch whose backend is terminated is retried and applied once', async t => {
  const service = await useService(t, { schema, keys: true })
  const slot = await holdRow(service.database)
  const sent = poster(service)('k', touch())
  await slot.awaited()
  await terminate(service.database)
  await until(async () => await metric(service, /^service_txn_retry_count\{reason="lost"\}/) === 1)
  await slot.awaited()
  await slot.free()
  const response = await sent
  t.match([response.status, isReplay(response)], [200, false])
  t.equal(await applied(service.database), 1)
  t.ok(isReplay(await poster(service)('k', touch())))
})

t.test('a batch whose backend is terminated again and again fails and is not applied', async t => {
  const service = await useService(t, { schema, keys: true })
  const slot = await holdRow(service.database)
  const sent = poster(service)('k', touch())
  const done = sent.then(() => true)
  let kills = 0
  do kills += (await terminate(service.database)).length
  while (!await Promise.race([done, false]))
  refused(t, await sent, 503, 'database_unavailable', 'lost')
  t.ok(kills >= 2)
  t.equal(await metric(service, /^service_txn_retry_count\{reason="lost"\}/), 1)
  await slot.free()
  const next = await poster(service)('k', touch())
  t.match([next.status, isReplay(next)], [200, false])
  t.equal(await applied(service.database), 1)
})

t.test('if the response to COMMIT is lost, the rows come from the stored key', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const proxy = await useProxy(t, database.loginUrl)
  const service = await useService(t, {
    schema,
    databaseUrl: () => proxy.through(database.loginUrl),
    env: { POOL_SIZE: '1' }
  })
  const post = poster(service)
  t.equal((await post('warm', entry())).status, 200)
  const cases: ReadonlyArray<readonly [name: string, deliver: Proxy['deliver']]> = [
    ['no response', ({ sent, held }) => sent.includes(CLAIMS) ? 0 : held.length],
    [
      'all but the response to COMMIT',
      ({ held }) => held.includes('COMMIT\0') ? held.indexOf('COMMIT\0') - 5 : held.length
    ]
  ]
  for (const [i, [name, deliver]] of cases.entries()) {
    await until(async () => await metric(service, /^service_pool_lanes_busy\{/) === 0)
    proxy.deliver = deliver
    const sent = post(name.replaceAll(' ', '-'), entry(5))
    await until(async () => (await database.sql`select from entries where n = 5`).length === i + 1)
    proxy.deliver = ({ held }) => held.length
    proxy.cut()
    const response = await sent
    const n: unknown = response.body.data?.e?.[0]?.n
    t.match([response.status, isReplay(response), n], [200, false, 5], name)
    const again = await post(name.replaceAll(' ', '-'), entry(5))
    t.match([again.text, isReplay(again)], [response.text, true], name)
  }
  t.equal(await applied(database), 3)
  t.equal(await metric(service, /^service_txn_retry_count\{reason="lost"\}/), 0)
})

t.test('a batch that never reaches the server behind a pooler is retried', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const proxy = await useProxy(t, database.loginUrl)
  const keyData = Buffer.from([0x4b, 0, 0, 0, 12])
  proxy.deliver = ({ held }) => {
    // Like a pooler, report a process id that is not the one of the backend.
    const at = held.indexOf(keyData)
    if (at >= 0) held.writeInt32BE(2 ** 30, at + keyData.length)
    return held.length
  }
  const service = await useService(t, {
    schema,
    databaseUrl: () => proxy.through(database.loginUrl),
    env: { POOL_SIZE: '1' }
  })
  const post = poster(service)
  proxy.forward = ({ client, sent }) => {
    if (!sent.includes(CLAIMS)) return true
    proxy.forward = () => true
    client.destroy()
    return false
  }
  const response = await post('lost', entry(5))
  t.match([response.status, isReplay(response), response.body.data?.e?.[0]?.n], [200, false, 5])
  t.equal(await applied(database), 1)
  t.equal(await metric(service, /^service_txn_retry_count\{reason="lost"\}/), 1)
})

t.test('a batch with a key takes no more round trips than one without', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  const proxy = await useProxy(t, database.loginUrl)
  const service = await useService(t, {
    schema,
    databaseUrl: () => proxy.through(database.loginUrl),
    env: { POOL_SIZE: '1' }
  })
  await untilAlone(proxy)
  // The first batch that names a table reads the types of its columns.
  await service.post([{ id: 's', op: 'select', table: 'entries' }])
  // The proxy withholds responses until the pipeline was sent completely. A client that waited for
  // a response in between would hang.
  holdUntilWritten(proxy)
  const chain = (length: number): object[] =>
    Array.from(
      { length },
      (_, i) =>
        i === 0
          ? (entry() as [object])[0]
          : {
              id: `o${i}`,
              op: 'select',
              table: 'entries',
              where: { id: { eq: i === 1 ? '$e.0.id' : `$o${i - 1}.0.id` } }
            }
    )
  for (const length of [1, 10, 100]) {
    for (const time of ['first', 'second', 'third']) {
      await until(() => isIdle(proxy))
      proxy.record()
      t.equal((await poster(service)(`${length}${time}`, chain(length))).status, 200)
      await until(() => proxy.bursts.length > 1 && isIdle(proxy))
      const { begin, pipeline } = readSentBatch(proxy)
      // BEGIN, the claim, the role, the settings, the operations, SET CONSTRAINTS; release, storage
      // and session again; COMMIT and reset. A look at the prepared statements if the principal has
      // changed.
      const least = length + (begin === undefined ? 4 : 3)
      t.match(
        messageTypes(pipeline),
        new RegExp(`^(P?BEH?){${least},${least + 1}}(P?BE){4}SQQ$`),
        `${length} operations, ${time} time`
      )
    }
  }
})

// Hostile triggers
// ------------------------------------------------------------

t.test('token roles have no privileges on stored responses', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { DB_SCHEMAS: 'public,oneflight' }
  })
  const post = poster(service)
  t.equal((await post('k', entry())).status, 200)
  const rows: readonly object[] = [
    { op: 'select' },
    { op: 'delete', all: true },
    { op: 'update', set: { key: 'x' }, all: true },
    {
      op: 'insert',
      values: [{ principal: '\\x00', key: 'x', fingerprint: '\\x00', expires_at: 'infinity' }]
    }
  ]
  for (const headers of [{}, { 'idempotency-key': 'l' }]) {
    for (const operation of rows) {
      const response = await service.post([...entry(), {
        id: 'x',
        table: 'oneflight.idempotency_keys',
        ...operation
      }], { headers })
      refused(t, response, 403, 'insufficient_privilege', JSON.stringify(operation))
    }
  }
  t.same(await keys(service.database), ['k'])
  t.equal(await applied(service.database), 1)
})

/**
 * `leave` executes a given command after each row. `evil` shadows everything that statements about
 * keys use and records who called it. Its types match better than those of the originals.
 */
const hostile = `${schema}
  create table leave (command text);
  create function leave() returns trigger language plpgsql as $$ begin execute new.command;
    return null; end $$;
  create trigger leave after insert on leave for each row execute function leave();
  create table seen (who text, what text);
  create schema evil;
  create function evil.note(what text) returns void language sql as $$ insert into public.seen
    values (current_user::text, what) $$;
  create function evil.set_config(text, text, boolean) returns text language plpgsql as $$
    begin perform evil.note('set_config'); return $2; end $$;
  create function evil.current_setting(text, boolean) returns text language plpgsql as $$
    begin perform evil.note('current_setting'); return '[{"forged":true}]'; end $$;
  create function evil.current_setting(text) returns text language plpgsql as $$
    begin perform evil.note('current_setting'); return '[{"forged":true}]'; end $$;
  create function evil.unnest(text[]) returns setof text language plpgsql as $$
    begin perform evil.note('unnest'); return query select 'x'; end $$;
  create function evil.decode(text, text) returns bytea language plpgsql as $$
    begin perform evil.note('decode'); return ''; end $$;
  create function evil.now() returns timestamptz language plpgsql as $$
    begin perform evil.note('now'); return 'infinity'; end $$;
  create function evil.pg_backend_pid() returns int language plpgsql as $$
    begin perform evil.note('pg_backend_pid'); return 1; end $$;
  create function evil.pg_advisory_unlock_all() returns void language plpgsql as $$
    begin perform evil.note('pg_advisory_unlock_all'); end $$;
  create function evil.pg_prepared_statement() returns table (from_sql boolean) language plpgsql
    as $$ begin perform evil.note('pg_prepared_statement'); end $$;
  create function evil.texts(text, text) returns boolean language plpgsql as $$
    begin perform evil.note('operator on text'); return true; end $$;
  create function evil.bytes(bytea, bytea) returns boolean language plpgsql as $$
    begin perform evil.note('operator on bytea'); return true; end $$;
  create function evil.joined(text, int) returns text language plpgsql as $$
    begin perform evil.note('operator ||'); return '1'; end $$;
  create function evil.divided(int, int) returns int language plpgsql as $$
    begin perform evil.note('operator /'); return 1; end $$;
  create operator evil.= (function = evil.texts, leftarg = text, rightarg = text);
  create operator evil.<> (function = evil.texts, leftarg = text, rightarg = text);
  create operator evil.= (function = evil.bytes, leftarg = bytea, rightarg = bytea);
  create operator evil.<> (function = evil.bytes, leftarg = bytea, rightarg = bytea);
  create operator evil.|| (function = evil.joined, leftarg = text, rightarg = int);
  create operator evil./ (function = evil.divided, leftarg = int, rightarg = int);
  create table evil.idempotency_keys (principal bytea, key text, fingerprint bytea, answer text[],
    created_at timestamptz, expires_at timestamptz, claims bytea);
  create table evil.pg_prepared_statements (name text, from_sql boolean);
  create table guarded (id int);
  create function evil.late() returns trigger language plpgsql as $$ begin
    perform evil.note('deferred ' || new.id);
    if new.id > 1 then set constraints all deferred; insert into public.guarded values (new.id - 1);
      end if;
    return null;
  end $$;
  create constraint trigger late after insert on guarded deferrable initially deferred
    for each row execute function evil.late();
  grant all on leave, guarded to oneflight_user;
  grant insert on seen to public;
  grant usage, create on schema evil to public;
  grant all on all tables in schema evil to public;`

const leave = (command: string, id = 'l'): object => ({
  id,
  op: 'insert',
  table: 'leave',
  values: [{ command }]
})
const callers = async ({ sql }: Database): Promise<readonly string[]> =>
  (await sql`select distinct who from seen order by who`).map(({ who }) => who as string)

t.test('no statement of the service uses an object of a hostile search_path', async t => {
  const service = await useService(t, { schema: hostile, keys: true, env: { POOL_SIZE: '1' } })
  const post = poster(service)
  const { sql } = service.database
  const path = "set_config('search_path', 'evil, pg_temp, pg_catalog, public', false)"
  // Prove that the traps work.
  await sql.begin(async sql => {
    await sql.unsafe('set local search_path = evil, pg_temp, pg_catalog, public')
    await sql.unsafe(
      "select current_setting('x', true), decode('', 'hex') = '', 'a'::text <> 'b'::text, " +
        "set_config('a.b', '', true), now(), 1 / 1, 'a'::text || 1, unnest(array['a'::text])"
    )
  })
  t.equal((await sql`select distinct what from seen`).length, 9)
  await sql`truncate seen`
  const temporary =
    'create temp table idempotency_keys (principal bytea, key text, fingerprint bytea, ' +
    'answer text[], created_at timestamptz, expires_at timestamptz, claims bytea)'
  const attacks = [
    [`select ${path}`],
    [`${temporary}; select ${path}`],
    [`${temporary} on commit drop`],
    [`do $do$ begin perform ${path}; perform set_config('role', 'oneflight_user', false); end $do$`]
  ]
  for (const [i, commands] of attacks.entries()) {
    const batch = [...entry(), ...commands.map(command => leave(command))]
    const first = await post(`k${i}`, batch)
    t.equal(first.status, 200, first.text)
    const again = await post(`k${i}`, batch)
    t.match([again.text, isReplay(again)], [first.text, true], commands.join())
    t.equal((await post(`l${i}`, entry())).status, 200, 'the next batch')
  }
  t.notOk(
    (await callers(service.database)).includes(LOGIN_ROLE),
    JSON.stringify(await sql`select * from seen`)
  )
  t.same(await sql`select * from evil.idempotency_keys`, [])
  t.equal(await applied(service.database), 8)
})

t.test('deferred triggers run under the role of the batch', async t => {
  const service = await useService(t, { schema: hostile, keys: true })
  // The trigger defers the next of three rows again, past the check of the constraints.
  const batch = [...entry(), { id: 'g', op: 'insert', table: 'guarded', values: [{ id: 3 }] }]
  t.equal((await poster(service)('k', batch)).status, 200)
  t.same(
    await service.database.sql`select * from seen order by what`,
    [1, 2, 3].map(id => ({ who: 'oneflight_user', what: `deferred ${id}` }))
  )
  t.ok(isReplay(await poster(service)('k', batch)))
  t.equal((await service.database.sql`select * from seen`).length, 3)
})

t.test('after settings are overwritten, the response is correct or the batch fails', async t => {
  const service = await useService(t, { schema: hostile, keys: true, env: { POOL_SIZE: '1' } })
  const post = poster(service)
  const everything = (value: string): string =>
    `do $do$ declare r record; begin
    for r in select name, boot_val from pg_settings where context in ('user',
      'superuser') and name not like 'log%' loop
      begin perform set_config(r.name, ${value}, false); exception when others then null; end;
    end loop; end $do$`
  const rows: ReadonlyArray<readonly [name: string, command: string]> = [
    ['reset all', 'reset all'],
    ['every setting to its default', everything('r.boot_val')],
    ['every setting to 1', everything("'1'")],
    ['every setting to an empty text', everything("''")],
    [
      'guessed settings',
      "do $do$ begin perform set_config('oneflight.answer_0', 'x', false); perform " +
      "set_config('oneflight.r0', '[{\"forged\":1}]', false); end $do$"
    ],
    ['deallocate all', 'deallocate all'],
    ['transaction settings', 'set transaction read only']
  ]
  for (const [i, [name, command]] of rows.entries()) {
    const placements = [
      ['last', [...entry(), leave(command)]],
      ['first', [leave(command), ...entry()]]
    ] as const
    for (const [place, batch] of placements) {
      const key = `k${i}${place}`
      const before = await applied(service.database)
      const first = await post(key, batch)
      t.comment(`${name}, ${place}: ${first.status} ${String(first.body.error?.code)}`)
      if (first.status === 200) {
        t.match(first.body.data, { l: [{ command }], e: [{ n: 1 }] }, name)
        const again = await post(key, batch)
        t.match([again.text, isReplay(again)], [first.text, true], `${name}, ${place}`)
        t.equal(await applied(service.database), before + 1, name)
      } else {
        t.match(first.body.error.committed, false, name)
        t.equal(await applied(service.database), before, name)
        t.notOk((await keys(service.database)).includes(key), name)
      }
      const next = await post(`l${i}${place}`, entry())
      t.equal(next.status, 200, `the batch after ${name}: ${next.text}`)
    }
  }
  const reset = [leave('reset all')]
  const [first, again] = [await post('reset', reset), await post('reset', reset)]
  t.match(first, { status: 200, body: { data: { l: [{ command: 'reset all' }] } } })
  t.match([again.text, isReplay(again)], [first.text, true])
})

t.test('a policy that casts the claims does not fail after RESET ALL', async t => {
  const claim = "(current_setting('request.jwt.claims')::json ->> 'role')"
  const service = await useService(t, {
    schema: `create table own (id int, note text, owner text default ${claim});
      alter table own enable row level security;
      create policy p on own using (owner = ${claim}) with check (owner = ${claim});
      create table log (id int primary key, word text);
      create function resets() returns trigger language plpgsql
        as $$ begin reset all; return null; end $$;
      create trigger resets after insert on log for each row execute function resets();
      create function reset_all() returns int language plpgsql
        as $$ begin reset all; return 1; end $$;
      insert into own values (1, 'é', 'oneflight_user'), (2, 'x', 'other');
      grant all on own, log to oneflight_user;`,
    keys: true,
    env: { POOL_SIZE: '1' }
  })
  const rows = [{ id: 1, note: 'é', owner: 'oneflight_user' }]
  const select = { id: 's', op: 'select', table: 'own' }
  const call = { id: 'c', op: 'call', function: 'reset_all' }
  let id = 0
  const insert = (): object =>
    ({ id: 'l', op: 'insert', table: 'log', values: [{ id: ++id, word: 'ü' }] })
  const logged = (): object => [{ id, word: 'ü' }]
  const cases: ReadonlyArray<readonly [create: () => object[], data: () => object]> = [
    [() => [call, select], () => ({ c: [{ reset_all: 1 }], s: rows })],
    [() => [insert(), select], () => ({ l: logged(), s: rows })],
    [() => [select, call], () => ({ s: rows, c: [{ reset_all: 1 }] })],
    [() => [select, insert()], () => ({ s: rows, l: logged() })],
    [() => [insert()], () => ({ l: logged() })]
  ]
  for (const [i, [create, data]] of cases.entries()) {
    for (const attempt of [1, 2, 3]) {
      const { status, body } = await service.post(create())
      t.match([status, body], [200, { error: null, data: data() }], `case ${i}, ${attempt}`)
      const headers = { 'idempotency-key': `${i}-${attempt}` }
      const batch = create()
      const first = await service.post(batch, { headers })
      t.match([first.status, first.body.data], [200, data()], `case ${i}, ${attempt}, with a key`)
      const again = await service.post(batch, { headers })
      t.match([again.text, isReplay(again)], [first.text, true], `case ${i}, ${attempt}, replay`)
    }
  }
  const count = async (): Promise<number> =>
    Number((await service.database.sql`select count(*) from log`)[0]?.['count'])
  t.equal(await count(), id, 'each batch is applied once')
  const taken = { id: 'd', op: 'insert', table: 'log', values: [{ id: 1, word: 'x' }] }
  for (const headers of [undefined, { 'idempotency-key': 'taken' }]) {
    const answer = await service.post([insert(), select, taken], { headers: headers ?? {} })
    refused(t, answer, 409, 'unique_violation', 'the last operation')
  }
  t.equal(await count(), id - 2, 'a failure applies nothing')
  t.notOk((await keys(service.database)).includes('taken'))
})

t.test('a role cannot find out where responses are kept', async t => {
  const service = await useService(t, { schema: hostile, keys: true })
  const look =
    `insert into seen select name, 'setting' from pg_settings where name like 'oneflight%'
    union all select query, 'query' from pg_stat_activity where pid = pg_backend_pid() union all
      select current_query(), 'query'
    union all select statement, 'statement' from pg_prepared_statements`
  for (let i = 0; i < 4; i++) {
    t.equal((await poster(service)(`k${i}`, [...entry(), leave(look)])).status, 200)
  }
  const found = await service.database.sql`select who, what from seen`
  t.not(found.length, 0)
  t.same(
    found.filter(({ who, what }) => what === 'setting' || /oneflight\.answer_/.test(who as string)),
    []
  )
})

/** Backends that run batches, without those that look up lost batches. */
const backends = async ({ sql, name }: Database): Promise<readonly number[]> =>
  (await sql`select pid from pg_stat_activity where datname = ${name} and usename = ${LOGIN_ROLE}
    and query !~ 'pg_terminate_backend|pg_advisory_xact_lock|idempotency_keys|pg_is_in_recovery'`)
    .map(({ pid }) => pid as number)

t.test("statements prepared under the service's names never run as the login role", async t => {
  const service = await useService(t, { schema: hostile, keys: true, env: { POOL_SIZE: '1' } })
  const post = poster(service)
  // With as many parameters as the original, so that the statement would run.
  const replace = `do $do$ declare r record; begin
    for r in select name, array_to_string(parameter_types, ', ') as types
      from pg_prepared_statements loop
      execute format('deallocate %I', r.name);
      execute
        format(
          'prepare %I%s as insert into public.seen values (current_user::text, ''prepared'') '
          'returning null',
          r.name, case r.types when '' then '' else '(' || r.types || ')' end);
    end loop; end $do$`
  for (let i = 0; i < 3; i++) {
    // Prepare statements of every kind.
    for (let j = 0; j < 3; j++) t.equal((await post(`${i}-${j}`, entry())).status, 200)
    const before = await backends(service.database)
    t.match(await post(`${i}-replaced`, [leave(replace), ...entry()]), {
      status: 200,
      body: { data: { e: [{ n: 1 }] } }
    })
    for (let j = 0; j < 3; j++) t.equal((await post(`${i}-${j}-after`, entry())).status, 200)
    // The effect of the changed result on postgres.js shows after the connection was idle.
    const left = async (): Promise<readonly number[]> =>
      (await backends(service.database)).filter(pid => before.includes(pid))
    await until(async () => (await left()).length === 0)
    t.same(await left(), [], 'the connection was replaced')
  }
  t.same(await callers(service.database), [], 'no such statement was committed')
  t.equal(await applied(service.database), 21)
  const again = await post('0-0', entry())
  t.match([again.status, isReplay(again)], [200, true])
})

t.test('a missing DELETE privilege is logged once and does not block requests', async t => {
  const database = await useDatabase(t, { schema })
  await makeKeyTable(database)
  await database.sql.unsafe(`revoke delete on oneflight.idempotency_keys from ${LOGIN_ROLE}`)
  const service = await useService(t, { schema, databaseUrl: () => database.loginUrl })
  await until(() =>
    service.log.some(({ msg }) => msg === 'could not delete expired idempotency keys')
  )
  t.match(service.log.filter(({ msg }) => msg === 'could not delete expired idempotency keys'), [{
    level: 40,
    sqlstate: '42501'
  }])
  t.equal((await service.post(entry(), { headers: { 'idempotency-key': 'a' } })).status, 200)
})
