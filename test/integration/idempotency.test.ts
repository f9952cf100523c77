/**
 * Tests idempotency keys over HTTP: a batch is applied exactly once, its response is replayed byte
 * for byte, and a key belongs to one principal. test/experiments cuts connections at every moment,
 * test/unit/auth/key-owner.test.ts tests the principal, idempotency-edge-cases.test.ts the triggers
 * that attack keys.
 */
import type { Sql } from 'postgres'
import t, { type Test } from 'tap'
import { parseDatabaseUrl } from '../../src/config/database-url.ts'
import { startKeyPruner } from '../../src/transaction/prune-keys.ts'
import { LOGIN_ROLE, useDatabase, type Database } from '../support/database/database.ts'
import { holdRow, untilSessions } from '../support/database/hold.ts'
import { makeKeyTable } from '../support/database/key-table.ts'
import { CLAIMS, useProxy, type Proxy } from '../support/network/proxy.ts'
import { request, speak } from '../support/network/wire.ts'
import {
  ask,
  expectReplay,
  retryAtOnce,
  token,
  useService,
  type Answer,
  type ServiceUnderTest
} from '../support/service.ts'
import { isTaken } from '../support/runs.ts'
import { failed, headersOfBatch } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const schema = `
  create table slots (id int primary key, n numeric not null default 0);
  insert into slots select generate_series(0, 9);
  create table entries (id int generated always as identity primary key,
    n numeric not null check (n >= 0), note text unique);
  create table late (id int primary key, slot int references slots deferrable initially deferred);
  create table orders (id int primary key, code text);
  create function refuse() returns trigger language plpgsql as $$ begin raise exception
    using errcode = new.code, message = 'refused'; end $$;
  create trigger refuse before insert on orders for each row execute function refuse();
  create table "Ünï" ("__proto__" text, "a b" text);
  grant all on slots, entries, late, orders, "Ünï" to oneflight_user, oneflight_other,
    oneflight_anon;`

const service = await useService(t, {
  schema,
  keys: true,
  env: { ANON_ROLE: 'oneflight_anon', QUEUE_SIZE: '100', MAX_BODY_BYTES: '2000000' }
})
const { useAnother, database: { sql } } = service

t.beforeEach(async () => {
  await sql`truncate entries, late, oneflight.idempotency_keys restart identity`
  await sql`update slots set n = 0`
})

type Headers = Readonly<Record<string, string>>

/** Inserts one row each time it is applied. */
const entry = (n = 1): object[] => [{ id: 'e', op: 'insert', table: 'entries', values: [{ n }] }]
const increment = (slot: number, id = 's'): object =>
  ({ id, op: 'update', table: 'slots', set: { n: { $inc: 1 } }, where: { id: { eq: slot } } })
/** Waits while another session holds the slot. */
const touch = (slot = 0): object[] => [...entry(), increment(slot)]
const read = (where: object): object[] => [{ id: 's', op: 'select', table: 'slots', where }]

const poster = ({ post }: ServiceUnderTest) =>
  (key: string, batch: unknown, headers: Headers = {}): Promise<Answer> =>
    post(batch, { headers: { 'idempotency-key': key, ...headers } })
const post = poster(service)

type Claims = Readonly<Record<string, unknown>>

/** Sends an entry with the key `k` and a token with these claims; without claims no token. */
const send = (
  claims: Claims | undefined,
  batch: unknown = entry(),
  to: ServiceUnderTest = service
): Promise<Answer> => {
  const authorization = claims === undefined ? {} : { authorization: `Bearer ${token(claims)}` }
  return to.post(batch, { role: null, headers: { 'idempotency-key': 'k', ...authorization } })
}

const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true'
const applied = async (of: Pick<Database, 'sql'> = service.database): Promise<number> =>
  (await of.sql`select from entries`).length
const keys = async (of: Pick<Database, 'sql'> = service.database): Promise<readonly string[]> =>
  (await of.sql`select key from oneflight.idempotency_keys order by key`).map(({ key }) =>
    key as string
  )
const expire = () => sql`update oneflight.idempotency_keys set expires_at = now()`

function expectFresh (t: Test, response: Answer, name = 'fresh'): void {
  t.match([response.status, isReplay(response)], [200, false], name)
}

function refused (t: Test, response: Answer, status: number, code: string, name = code): void {
  t.match(response, failed(status, code, { committed: false }), `${name}: ${response.text}`)
  t.notOk(response.headers.has('idempotent-replayed'), name)
}

async function metric ({ adminUrl }: ServiceUnderTest, pattern: RegExp): Promise<number> {
  const { text } = await ask(`${adminUrl}/metrics`)
  return text.split('\n').filter(line => pattern.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

const TRANSACTIONS = /^service_txn_count\{/
const LOST = /^service_txn_retry_count\{reason="lost"\}/

/** Returns a function that returns how much a metric has grown since. */
async function startCount (pattern: RegExp, of = service): Promise<() => Promise<number>> {
  const before = await metric(of, pattern)
  return async () => await metric(of, pattern) - before
}

const raw = (fields: string, body = JSON.stringify(entry())): Buffer => {
  const text = request('POST', '/', headersOfBatch({ connection: 'close' }), body)
    .replace('\r\n', `\r\n${fields}\r\n`)
  return Buffer.from(text, 'latin1')
}
const invalidKey =
  failed(400, 'idempotency_key_invalid', { type: 'request_error', committed: false })

t.test('the header: valid values denote these keys, also in quotes', async t => {
  const visible = Array.from({ length: 0x7f - 0x21 }, (_, i) => String.fromCharCode(0x21 + i))
    .join('')
  const rows: ReadonlyArray<readonly [key: string, ...sent: readonly string[]]> = [
    ['abc', 'abc', '"abc"', '  \t abc \t '],
    ['a"b', 'a"b', '"a\\"b"'],
    [`!${visible}`, `!${visible}`],
    ['x'.repeat(255), 'x'.repeat(255), `"${'x'.repeat(255)}"`],
    ['"'.repeat(255), `"${'\\"'.repeat(255)}"`]
  ]
  for (const [key, ...forms] of rows) {
    await sql`truncate oneflight.idempotency_keys`
    const quoted = `"${key.replaceAll(/["\\]/g, '\\$&')}"`
    const texts = new Set<string>()
    for (const [i, sent] of [...forms, quoted].entries()) {
      const [response] = await speak(service.url, raw(`Idempotency-Key: ${sent}`))
      t.match(response, { status: 200 }, sent)
      t.equal(response?.headers['idempotent-replayed'], i === 0 ? undefined : 'true', sent)
      texts.add(response?.text ?? '')
    }
    t.equal(texts.size, 1, key)
    t.same(await keys(), [key], key)
  }
  t.equal(await applied(), rows.length)
})

t.test('the header: any other value is rejected, and nothing is applied', async t => {
  const values = [
    '', '""', 'a b', '"abc', '"abc"x', 'x'.repeat(256), `"${'\\\\'.repeat(256)}"`, '"abc";a=1',
    '"a\\b"', '"a\\', '"a\tb"', '\xe4'
  ].map(value => `Idempotency-Key: ${value}`)
  const repeated = 'Idempotency-Key: a\r\nidempotency-key: a'
  for (const fields of [...values, repeated]) {
    const responses = await speak(service.url, raw(fields))
    t.match(responses, [invalidKey], fields)
    t.equal(responses.length, 1)
  }
  t.same(await keys(), [])
  t.equal(await applied(), 0)
})

t.test('a repeated request gets the same bytes, and nothing is applied', async t => {
  const prefer = { prefer: 'isolation=repeatable-read, foo=bar' }
  const counts = await Promise.all(
    [TRANSACTIONS, /^service_op_count\{/, /^service_txn_retry_count/].map(one => startCount(one))
  )
  const first = await post('k', entry(), { ...prefer, 'x-request-id': 'first' })
  t.match(first, { status: 200, body: { error: null, data: { e: [{ id: 1, n: 1 }] } } })
  t.equal(first.headers.get('preference-applied'), 'isolation=repeatable-read')
  await sql`update entries set n = 7`
  const again = await post('k', entry(), { ...prefer, 'x-request-id': 'second' })
  expectReplay(t, again, first)
  for (const name of ['content-type', 'content-length', 'preference-applied']) {
    t.equal(again.headers.get(name), first.headers.get(name), name)
  }
  t.equal(again.headers.get('x-request-id'), 'second')
  t.equal(await applied(), 1)
  t.same(await Promise.all(counts.map(count => count())), [1, 1, 0], 'a replay runs no transaction')
  t.equal((await post('l', entry(), prefer)).body.data.e[0].id, 2, 'another key is another batch')
})

t.test('of twenty concurrent requests with a key one is applied, the others get 409', async t => {
  const transactions = await startCount(TRANSACTIONS)
  const slot = await holdRow(service.database)
  const first = post('k', touch())
  await slot.awaited()
  for (const response of await Promise.all(Array.from({ length: 19 }, () => post('k', touch())))) {
    refused(t, response, 409, 'idempotency_key_in_progress')
    t.match(response.body.error, { type: 'request_error', retryable: true })
  }
  refused(t, await post('k', entry()), 409, 'idempotency_key_in_progress', 'another batch')
  t.equal((await post('l', entry())).status, 200, 'another key does not wait')
  await slot.free()
  expectFresh(t, await first)
  for (const replay of await Promise.all(Array.from({ length: 20 }, () => post('k', touch())))) {
    expectReplay(t, replay, await first)
  }
  t.equal(await applied(), 2)
  t.same(await sql`select n::int from slots where id = 0`, [{ n: 1 }])
  t.equal(await transactions(), 2)
})

t.test('a repeated request that fails on its own rows gets the stored response', async t => {
  // At this level nothing looks for the key before the operations run.
  const prefer = { prefer: 'isolation=serializable' }
  const unique = [{ id: 'e', op: 'insert', table: 'entries', values: [{ n: 1, note: 'once' }] }]
  const first = await post('k', unique, prefer)
  t.equal(first.status, 200)
  const repeated = await post('k', unique, prefer)
  t.equal(repeated.text, first.text)
  t.ok(isReplay(repeated))
  refused(t, await post('k', [...unique, ...read({ id: { eq: 1 } })], prefer), 422,
    'idempotency_key_reused')
  t.match((await post('other', unique, prefer)).body.error, { code: 'unique_violation' })
  t.equal(await applied(), 1)
})

t.test('the same key with another request is rejected, and nothing is applied', async t => {
  const transactions = await startCount(TRANSACTIONS)
  const text = JSON.stringify(entry())
  const first = await post('k', text)
  t.equal(first.status, 200)
  const rows: ReadonlyArray<readonly [name: string, body: unknown, headers?: Headers]> = [
    ['another number', entry(2)],
    ['members in another order',
      [{ op: 'insert', id: 'e', table: 'entries', values: [{ n: 1 }] }]],
    ['counts', text, { prefer: 'return=minimal' }]
  ]
  for (const [name, body, headers] of rows) {
    const response = await post('k', body, headers)
    refused(t, response, 422, 'idempotency_key_reused', name)
    t.match(response.body.error, { type: 'request_error', retryable: undefined })
  }
  // An invalid batch is reported before the key is checked.
  refused(t, await post('k', '[]'), 400, 'body_empty')
  t.equal(await applied(), 1)
  t.equal(await transactions(), 1)

  const same: readonly Headers[] = [
    { 'content-type': 'application/json; charset=utf-8' },
    { prefer: 'tx=commit, isolation=read-committed, return=representation, handling=strict' }
  ]
  for (const headers of same) {
    expectReplay(t, await post('k', text, headers), first, JSON.stringify(headers))
  }
})

t.test('a batch that fails frees its key, whatever the error is', async t => {
  retryAtOnce(t)
  const limited = await useAnother(t, { env: { LOCK_TIMEOUT_MS: '100' } })
  const slot = await holdRow(service.database)
  const insert = (table: string, row: object): object[] =>
    [...entry(), { id: 'x', op: 'insert', table, values: [row] }]
  const expects =
    [...entry(), { id: 'x', op: 'select', table: 'slots', where: { id: { eq: 1 } }, expect: 3 }]
  const rows: ReadonlyArray<readonly [code: string, status: number, batch: unknown]> = [
    ['foreign_key_violation', 409, insert('late', { id: 1, slot: 99 })],
    ['expectation_failed', 412, expects],
    ['serialization_failure', 409, insert('orders', { id: 1, code: '40001' })],
    ['lock_not_available', 409, [...entry(), increment(0)]],
    ['role_denied', 403, entry()]
  ]
  for (const [code, status, batch] of rows) {
    const headers = { 'idempotency-key': code }
    const role = code === 'role_denied' ? 'nobody_knows_this_role' : 'oneflight_user'
    // Twice, because a failure is not stored and replayed.
    for (const time of ['first', 'second']) {
      const response = await limited.post(batch, { role, headers })
      refused(t, response, status, code, `${code}, ${time} time`)
      if (code !== 'foreign_key_violation') continue
      const constraint = 'late_slot_fkey'
      const deferred = { type: 'execution_error', op: null, index: null, sqlstate: '23503' }
      t.match(response.body.error, { ...deferred, constraint }, 'a deferred constraint')
    }
    t.same(await keys(), [], 'no key is kept')
    t.equal(await applied(), 0, 'nothing is applied')
    expectFresh(t, await limited.post(entry(), { headers }), `${code}: the key is free`)
    await sql`truncate entries, oneflight.idempotency_keys`
  }
  await slot.free()
})

const member = (tenant: string, more: Claims = {}): Claims =>
  ({ role: 'oneflight_user', sub: 'a', app_metadata: { tenant }, ...more })

t.test('a tenant does not get the response of another tenant with its subject', async t => {
  const transactions = await startCount(TRANSACTIONS)
  const first = await send(member('bakery'))
  expectFresh(t, first)
  for (const batch of [entry(), entry(2)]) {
    const other = await send(member('corner-shop'), batch)
    refused(t, other, 422, 'idempotency_key_reused', 'the other tenant')
    t.match(other.body.error, { message: /token had other claims.* was committed/ })
  }
  const another = await send(member('bakery'), entry(2))
  refused(t, another, 422, 'idempotency_key_reused')
  t.match(another.body.error, { message: /different body/ })
  expectReplay(t, await send(member('bakery')), first)
  t.equal(await applied(), 1)
  t.equal(await transactions(), 1)
  const rows = await sql`select length(principal) as principal, length(claims) as claims,
    length(fingerprint) as request from oneflight.idempotency_keys`
  t.same(rows, [{ principal: 32, claims: 32, request: 32 }], 'only hashes are stored')
})

t.test('the claims that differ are named, and their values are not', async t => {
  const claims = { role: 'oneflight_user', sub: 'a', amr: ['pwd'], org: 'canary', 'a b"': 1 }
  const first = await send({ ...claims, fva: [1, 2], session_id: 'x' })
  expectFresh(t, first)
  expectReplay(t, await send({ ...claims, fva: [9, 9], session_id: 'y', nonce: 'z' }), first)
  const { org, ...others } = claims
  const rows: ReadonlyArray<readonly [claims: Claims, named: string]> = [
    [{ ...claims, amr: ['otp', 'canary'] }, '"amr"'],
    [{ ...others, age: 7, amr: [], 'a b"': 2 }, '"a b\\"", "age", "amr", "org"']
  ]
  for (const [changed, named] of rows) {
    const other = await send(changed)
    refused(t, other, 422, 'idempotency_key_reused', named)
    t.ok(other.body.error.message.includes(`other claims (${named}). That`), other.text)
    const id = other.headers.get('x-request-id')
    const line = await until(() => service.log.find(({ request_id: of }) => of === id))
    t.equal(line['reason'], `${named}: claims that change with every token and decide no rights ` +
      'belong to IDEMPOTENCY_IGNORED_CLAIMS')
    t.notOk(`${other.text}${JSON.stringify(line)}`.includes('canary'))
  }
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`c${i + 10}`, i]))
  t.match((await send({ ...claims, ...many })).body.error, { message: /"c18", "c19" and more\)/ })
  t.equal(await applied(), 1)
})

t.test('a key that an earlier version stored with its claims is honoured', async t => {
  const claims = member('bakery', { session_id: 1 })
  const first = await send(claims)
  const hashes = await sql`select claim_hashes from oneflight.idempotency_keys`
  await sql`update oneflight.idempotency_keys set claim_hashes = null`
  expectReplay(t, await send(claims), first)
  const other = await send({ ...claims, session_id: 2 })
  refused(t, other, 422, 'idempotency_key_reused')
  t.match(other.body.error, { message: /token had other claims\. That/ }, 'nothing is known of them')
  // It has taken over an expired key since, and does not write the new column.
  await sql`update oneflight.idempotency_keys set claims = sha256(claims),
    claim_hashes = ${String(hashes[0]?.['claim_hashes'])}`
  refused(t, await send(claims), 422, 'idempotency_key_reused', 'the claims of the expired key')
  t.equal(await applied(), 1)
})

t.test('while a request runs, other claims get 409, and another subject does not wait', async t => {
  const slot = await holdRow(service.database)
  const first = send(member('bakery'), touch())
  await slot.awaited()
  const other = (): Promise<Answer> => send(member('corner-shop'), touch())
  refused(t, await other(), 409, 'idempotency_key_in_progress', 'running')
  expectFresh(t, await send({ role: 'oneflight_user', sub: 'b' }))
  await slot.free()
  t.equal((await first).status, 200)
  refused(t, await other(), 422, 'idempotency_key_reused', 'committed')
})

t.test('settings decide which claims may differ, and which divide keys', async t => {
  const some = await useAnother(t, {
    env: {
      IDEMPOTENCY_IGNORED_CLAIMS: 'session_id', IDEMPOTENCY_SCOPE: 'app_metadata.tenant'
    }
  })
  const first = await send(member('bakery', { session_id: 1 }), entry(), some)
  expectFresh(t, await send(member('corner-shop'), entry(), some), 'another tenant')
  expectReplay(t, await send(member('bakery', { session_id: 2 }), entry(), some), first)
  const other = await send(member('bakery', { email: 'a@corner.shop' }), entry(), some)
  refused(t, other, 422, 'idempotency_key_reused', 'another claim')
  t.equal(await applied(), 2)
})

t.test('an expired key is taken over with the claims of the new request', async t => {
  const first = await send(member('bakery'))
  // An earlier version stored no claims.
  await sql`update oneflight.idempotency_keys set claims = null`
  expectReplay(t, await send(member('bakery', { email: 'a@corner.shop' })), first)
  refused(t, await send(member('bakery'), entry(2)), 422, 'idempotency_key_reused', 'another body')
  await expire()
  refused(t, await send(member('corner-shop'), entry(-1)), 400, 'check_violation')
  const next = await send(member('corner-shop'))
  expectFresh(t, next, 'a failed take-over leaves it free, and the old response is not replayed')
  expectReplay(t, await send(member('corner-shop')), next)
  refused(t, await send(member('bakery')), 422, 'idempotency_key_reused', 'the first')
  t.equal(await applied(), 2)
})

t.test('a key is kept for IDEMPOTENCY_TTL', async t => {
  const other = await useAnother(t, { env: { IDEMPOTENCY_TTL: '1h' } })
  for (const [some, time] of [[other, '01:00'], [service, '24:00']] as const) {
    expectFresh(t, await poster(some)(time, entry()))
    // Counted from when the key was stored, some time after the transaction began.
    const kept = await sql`select expires_at - created_at >= ${time}::interval as least,
      expires_at - created_at < ${time}::interval + interval '1 min' as most
      from oneflight.idempotency_keys where key = ${time}`
    t.same(kept, [{ least: true, most: true }], time)
  }
})

t.test('an expired key that is not deleted yet is taken over by one request', async t => {
  for (const [i, level] of ['read-committed', 'repeatable-read', 'serializable'].entries()) {
    const prefer = { prefer: `isolation=${level}` }
    t.equal((await post('k', entry(), prefer)).status, 200)
    await expire()
    const before = await applied()
    const requests = Array.from({ length: 12 }, () => post('k', entry(i), prefer))
    const responses = await Promise.all(requests)
    const unexpected = responses.filter(({ status }) => ![200, 409].includes(status))
    t.same(unexpected.map(({ text }) => text), [])
    t.equal(responses.filter(response => response.status === 200 && !isReplay(response)).length, 1)
    t.equal(await applied() - before, 1)
    t.same(
      await sql`select key, created_at < expires_at as whole, cardinality(answer)
        as answers, expires_at > now() as alive from oneflight.idempotency_keys`,
      [{ key: 'k', whole: true, answers: 1, alive: true }]
    )
    await sql`truncate oneflight.idempotency_keys`
  }
})

const insertRows = (sql: Sql, count: number, ttl: string): Promise<unknown> =>
  sql.unsafe(`
  insert into oneflight.idempotency_keys select sha256(i::text::bytea), '${ttl} ' || i, '', '{}',
    now(), now() + interval '${ttl}' from generate_series(1, ${count}) as i`)

t.test('only expired keys are deleted in the background', async t => {
  const database = await useDatabase(t)
  await makeKeyTable(database)
  const { sql } = database
  await insertRows(sql, 2500, '-2 days')
  await insertRows(sql, 5, '1 hour')
  const held = await holdRow(
    database,
    "select from oneflight.idempotency_keys where key = '-2 days 1'"
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
  await held.free()
  await until(async () => await expired() === 0)
  t.equal((await keys(database)).length, 5)

  await sql.unsafe(`revoke delete on oneflight.idempotency_keys from ${LOGIN_ROLE}`)
  await until(() => refusals.length > 0)
  await insertRows(sql, 3, '-3 days')
  await sql.unsafe(`grant delete on oneflight.idempotency_keys to ${LOGIN_ROLE}`)
  await until(async () => await expired() === 0)
  t.same(refusals, ['42501'], 'reported once')

  // The pruner stops even while it waits for a lock.
  const table = await holdRow(
    database,
    'lock table oneflight.idempotency_keys in access exclusive mode; select 1'
  )
  await table.awaited()
  await pruner.close()
  await table.free()
  await untilSessions(database, 0)
  await sql`drop schema oneflight cascade`
  const other = start()
  t.teardown(() => other.close())
  for (let i = 0; i < 3; i++) {
    await untilSessions(database, 1)
    await untilSessions(database, 0)
  }
  await other.close()
  t.same(refusals, ['42501'], 'a missing table is not reported')
})

t.test('the service deletes expired keys at start, and logs once that it may not', async t => {
  await sql.unsafe(`revoke delete on oneflight.idempotency_keys from ${LOGIN_ROLE}`)
  t.teardown(() => sql.unsafe(`grant delete on oneflight.idempotency_keys to ${LOGIN_ROLE}`))
  const refused = await useAnother(t)
  const warnings = () =>
    refused.log.filter(({ msg }) => msg === 'could not delete expired idempotency keys')
  await until(() => warnings().length > 0)
  t.equal((await poster(refused)('a', entry())).status, 200)
  t.match(warnings(), [{ level: 40, sqlstate: '42501' }])
})

t.test('keys are refused while the table or a privilege is missing, without a restart', async t => {
  const without = await useService(t, { schema })
  const { database } = without
  const post = poster(without)
  const expectRefusal = async (name: string): Promise<void> => {
    const response = await post('k', entry())
    refused(t, response, 400, 'idempotency_key_invalid', name)
    const message = /oneflight\.idempotency_keys.*npm run migrate/
    t.match(response.body.error, { type: 'request_error', message, sqlstate: undefined }, name)
    t.equal(await applied(database), 0, name)
  }
  // More often than the pool has connections and than a statement runs before it is prepared.
  for (let i = 0; i < 6; i++) await expectRefusal('no table')
  t.equal(await metric(without, TRANSACTIONS), 0)
  t.equal((await without.post(read({}))).status, 200, 'without a key')
  t.equal((await post('k', entry(), { prefer: 'tx=rollback' })).status, 200, 'a dry run')
  await database.sql.unsafe(
    'create schema oneflight; create table oneflight.idempotency_keys (key text)'
  )
  await expectRefusal('another table of that name')
  await database.sql.unsafe('drop schema oneflight cascade')
  await makeKeyTable(database)
  await database.sql.unsafe('alter table oneflight.idempotency_keys drop column claims')
  await expectRefusal('the table of an earlier version')
  await makeKeyTable(database)
  const table = 'oneflight.idempotency_keys'
  const privileges = [
    'usage on schema oneflight',
    ...['select', 'insert', 'update'].map(right => `${right} on ${table}`)
  ]
  for (const privilege of privileges) {
    await database.sql.unsafe(`revoke ${privilege} from ${LOGIN_ROLE}`)
    await expectRefusal(`no ${privilege}`)
    if (privilege.startsWith('select')) {
      // Such a batch does not read the table before it fails.
      const serializable = { prefer: 'isolation=serializable' }
      refused(t, await post('k', entry(-1), serializable), 400, 'idempotency_key_invalid')
    }
    await database.sql.unsafe(`grant ${privilege} to ${LOGIN_ROLE}`)
  }
  const first = await post('k', entry())
  expectFresh(t, first)
  expectReplay(t, await post('k', entry()), first)
  t.equal(await applied(database), 1)
})

t.test('a read-only default of the database does not count as a missing table', async t => {
  const role = `alter role ${LOGIN_ROLE} in database ${service.database.name}`
  await sql.unsafe(`${role} set default_transaction_read_only = on`)
  t.teardown(() => sql.unsafe(`${role} reset default_transaction_read_only`))
  const other = await useAnother(t)
  expectFresh(t, await poster(other)('k', entry()), 'the transaction sets its own access mode')
})

t.test('dry runs and read-only batches store no key and replay nothing', async t => {
  const rollback = { prefer: 'tx=rollback' }
  const select = read({ id: { eq: 0 } })
  for (const headers of [rollback, { prefer: 'access=read-only' }]) {
    const batch = headers === rollback ? entry() : select
    for (let i = 0; i < 2; i++) expectFresh(t, await post('k', batch, headers), headers.prefer)
  }
  t.same(await keys(), [])
  const first = await post('k', entry())
  const dry = await post('k', entry(), rollback)
  expectFresh(t, dry, 'with a key that has a stored response')
  expectReplay(t, await post('k', entry()), first)
  t.equal(await applied(), 1)
  const slot = await holdRow(service.database)
  const running = post('l', touch())
  await slot.awaited()
  expectFresh(t, await post('l', entry(), rollback), 'with a key that is in progress')
  await slot.free()
  t.equal((await running).status, 200)
})

t.test('replays of every kind of response are byte-identical', async t => {
  const minimal = { prefer: 'return=minimal' }
  const rows: ReadonlyArray<readonly [name: string, batch: unknown, headers?: Headers]> = [
    [
      'texts',
      `[{"id":"__proto__","op":"insert","table":"Ünï","values":
        [{"__proto__":"{\\"}\\\\,'NULL\\n\\u2028","a b":"\\ud83d\\ude00\\u0001"}]},
        {"id":"toString","op":"select","table":"Ünï"}]`
    ],
    ['counts', [...entry(), { id: 's', op: 'select', table: 'slots' }], minimal],
    ['skipped', [...entry(), { ...increment(0), when: { e: 0 } }]]
  ]
  for (const [name, batch, headers] of rows) {
    const first = await post(name, batch, headers)
    expectFresh(t, first, `${name} ${first.text.slice(0, 300)}`)
    expectReplay(t, await post(name, batch, headers), first, name)
    const [row] = await sql`select cardinality(answer) as n from oneflight.idempotency_keys
      where key = ${name}`
    t.equal(row?.['n'], Object.keys(first.body.data).length, `${name}: one text for each operation`)
  }
})

/** A service with one connection, through a proxy. */
async function useProxied (
  t: Test,
  prepare: (proxy: Proxy) => void = () => {},
  more: Headers = {}
): Promise<{ readonly proxy: Proxy, readonly proxied: ServiceUnderTest }> {
  const proxy = await useProxy(t, service.database.loginUrl)
  prepare(proxy)
  const env = { POOL_SIZE: '1', ...more }
  return { proxy, proxied: await useAnother(t, { env, databaseUrl: proxy.through }) }
}

t.test('a connection lost at any moment hides no stored response', async t => {
  const { proxy, proxied } = await useProxied(t)
  const post = poster(proxied)
  const first = await post('stored', entry(5))
  await sql`insert into entries (n, note) values (1, 'there')`
  const fails = [{ id: 'e', op: 'insert', table: 'entries', values: [{ n: 1, note: 'there' }] }]
  const from = ['begin isolation', 'commit and chain', 'commit\0']
  const cases: ReadonlyArray<readonly [
    name: string,
    send: () => Promise<Answer>,
    check: (response: Answer, name: string) => void
  ]> = [
    [
      'a response is stored',
      () => post('stored', entry(5)),
      // If the connection is lost, the batch may be the one that stored the response.
      ({ status, text }, name) => t.same([status, text], [200, first.text], name)
    ],
    [
      'nothing is stored',
      () => post('failed', fails),
      (response, name) => refused(t, response, 409, 'unique_violation', name)
    ]
  ]
  for (const [name, send, check] of cases) {
    await send()
    const whole = proxy.inject({ kind: 'cut', side: 'client', from, after: { messages: Infinity } })
    check(await send(), name)
    const { seen } = whole
    const ends = { client: seen.client.messages, server: seen.server.messages }
    t.ok(ends.client > 5 && ends.server > 5, name)
    for (const side of ['client', 'server'] as const) {
      for (let messages = 0; messages <= ends[side]; messages++) {
        // All of them take ten seconds.
        if (!isTaken(messages, 3)) continue
        const kind = messages % 2 === 0 ? 'cut' : 'reset'
        proxy.inject({ kind, side, from, after: { messages } })
        check(await send(), `${name}, lost after ${messages} messages of the ${side}`)
      }
    }
  }
  t.equal(await applied(), 2)
})

t.test('a look-up that fails does not report that the key is in use', async t => {
  const { proxy, proxied } = await useProxied(t, undefined, { REQUEST_TIMEOUT_MS: '2000' })
  const post = poster(proxied)
  const first = await post('k', entry(5))
  // The statement that reads what is stored, and only that.
  const looksUp = 'with ordinality as a (answer'
  proxy.forward = ({ client, sent }) => {
    if (!sent.includes(looksUp)) return true
    proxy.open = false
    client.destroy()
    return false
  }
  refused(t, await post('k', entry(5)), 503, 'database_unavailable')
  proxy.forward = () => true
  proxy.open = true
  expectReplay(t, await post('k', entry(5)), first)
  t.equal(await applied(), 1)
})

t.test('a batch that never reaches the server behind a pooler is retried', async t => {
  const keyData = Buffer.from([0x4b, 0, 0, 0, 12])
  const { proxy, proxied } = await useProxied(t, proxy => {
    proxy.deliver = ({ held }) => {
      // Like a pooler, report a process id that is not the one of the backend.
      const at = held.indexOf(keyData)
      if (at >= 0) held.writeInt32BE(2 ** 30, at + keyData.length)
      return held.length
    }
  })
  proxy.forward = ({ client, sent }) => {
    if (!sent.includes(CLAIMS)) return true
    proxy.forward = () => true
    client.destroy()
    return false
  }
  const response = await poster(proxied)('lost', entry(5))
  expectFresh(t, response)
  t.match(response.body.data, { e: [{ n: 5 }] })
  t.equal(await applied(), 1)
  t.equal(await metric(proxied, LOST), 1)
})
