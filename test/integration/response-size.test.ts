/**
 * Tests MAX_RESPONSE_BYTES: a batch with larger rows is rolled back,
 * and the service keeps none of them. Constants of requests leave no memory behind either. The
 * service runs in this process.
 */
import t from 'tap'
import { expectReplay, useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'
import * as op from '../support/operations.ts'
import { collectGarbage } from '../support/garbage.ts'

const MAX = 100_000

const schema = `
  create table texts (id int primary key, size int, text text, note int default 1);
  create table grown (id int primary key, text text);
  create table notes (id int primary key, n int default 0, text text);
  create function grow() returns trigger language plpgsql as $$
    begin new.text = repeat('x', length(new.text)  * 1000); return new; end $$;
  create trigger grow before insert or update on grown for each row execute function grow();
  create function repeated(size int) returns text language sql as $$ select repeat('x', size) $$;
  create function forget() returns int language plpgsql as $$
    begin perform set_config('oneflight.bytes', '', true); return 1; end $$;
  create function fail(size int) returns int language plpgsql as $$
    begin raise exception '%', repeat('x', size); end $$;
  insert into texts select n, n * 1000, repeat('x', n * 1000) from generate_series(1, 100) as n;
  insert into texts values (0, 99987, repeat('x', 99987));
  insert into notes values (1);
`
const mark = op.update('mark', 'notes', { set: { n: { $inc: 1 } }, all: true })

const text = (id: string, size: number): object =>
  op.select(id, 'texts', { columns: ['text'], where: { size: { eq: size } } })
const grown = (id: string, lengths: readonly number[], more: object = {}): object =>
  op.insert(id, 'grown', lengths.map((length, i) => ({ id: i, text: 'y'.repeat(length) })), more)

const many = (count: number): readonly object[] =>
  Array.from({ length: count }, (_, i) => text(`t${i}`, 30_000))

t.test('PostgreSQL refuses a result that is too large', { timeout: 120_000 }, async t => {
  const { post } = await useService(t, { schema, env: { MAX_RESPONSE_BYTES: String(MAX) } })
  const all = { id: 'all', op: 'select', table: 'texts' }
  /** [name, batch, the operation that is refused] */
  const cases: ReadonlyArray<
    readonly [name: string, batch: readonly object[], index?: number]
  > = [
    ['one select', [all], 0],
    ['exactly the limit', [text('a', MAX - 13)]],
    ['one insert', [grown('a', [101])], 0],
    ['an insert that is read', [
      grown('a', [30], { returning: ['text'] }),
      { id: 'b', op: 'update', table: 'notes', set: { text: '$a.0.text' }, all: true },
      text('c', 50_000)
    ], 2],
    ['columns', [grown('a', [60, 60], { returning: ['text'] })], 0],
    ['an update', [
      { id: 'a', op: 'insert', table: 'grown', values: [{ id: 1, text: 'x' }] },
      { id: 'b', op: 'update', table: 'grown', set: { text: 'y'.repeat(101) }, all: true }
    ], 1],
    ['several operations together', many(4), 3],
    ['with', [op.select('a', 'notes', { with: { texts: { table: 'texts', on: { note: 'id' } } } })],
      0],
    ['call', [{ id: 'a', op: 'call', function: 'repeated', args: { size: MAX } }],
      0],
    ['no rows', [{ id: 'a', op: 'select', table: 'texts', where: { id: { eq: -1 } } }, all],
      1]
  ]
  for (const [name, batch, index] of cases) {
    const { body } = await post(batch, dryRun())
    t.equal(body.error?.index, index, name)
    t.equal(body.error?.code, index === undefined ? undefined : 'response_too_large', name)
    t.equal((await post(batch, dryRun('return=minimal'))).status, 200, `${name}: return=minimal`)
  }
})

const dryRun = (...more: readonly string[]) =>
  ({ headers: { prefer: ['tx=rollback', ...more].join() } })

const refused = failed(422, 'response_too_large', {
  type: 'execution_error',
  message: /100000 bytes \(MAX_RESPONSE_BYTES\)/,
  committed: false,
  retryable: false
})

t.test('a response that is too large is rolled back', async t => {
  const service = await useService(t, { schema, env: { MAX_RESPONSE_BYTES: String(MAX) } })
  const { sql } = service.database
  for (const attempt of [1, 2, 3, 4]) {
    t.match(await service.post([mark, ...many(4)]), refused, `attempt ${attempt}`)
    t.match(await service.post([grown('a', [101])]), {
      ...refused,
      body: { error: { op: 'a', index: 0 } }
    })
    const [note] = await sql`select n from notes`
    t.equal(note?.['n'], 0)
  }
  t.equal((await sql`select from grown`).length, 0)
  const minimal = await service.post([mark, ...many(4)], { headers: { prefer: 'return=minimal' } })
  t.same(minimal.body.data, { mark: 1, t0: 1, t1: 1, t2: 1, t3: 1 })
  const counts = many(4).map(operation => ({ ...operation, answer: 'count' }))
  t.same((await service.post(counts)).body.data, { t0: 1, t1: 1, t2: 1, t3: 1 })
  t.equal((await service.post([grown('a', [101], { returning: [] })])).status, 200)
  t.equal((await service.post(many(3))).status, 200)
})

t.test('with a key nothing is stored, and a replay is not refused', async t => {
  const service = await useService(t, {
    schema,
    keys: true,
    env: { MAX_RESPONSE_BYTES: String(MAX) },
    batches: {
      large: { operations: [mark, ...many(4)] },
      small: { operations: [mark, ...many(3)] }
    }
  })
  const headers = { 'idempotency-key': 'k' }
  for (const attempt of [1, 2, 3]) {
    t.match(await service.post([mark, ...many(4)], { headers }), refused, `attempt ${attempt}`)
    t.match(await service.run('large', {}, { headers: { 'idempotency-key': 'n' } }), refused)
  }
  t.equal((await service.database.sql`select from oneflight.idempotency_keys`).length, 0)
  const first = await service.run('small', {}, { headers })
  const second = await service.run('small', {}, { headers })
  expectReplay(t, second, first)
})

t.test('the service stops what PostgreSQL does not count', { timeout: 120_000 }, async t => {
  const service = await useService(t, {
    schema,
    env: { MAX_RESPONSE_BYTES: String(MAX), MAX_OPS: '1000' }
  })
  const { sql } = service.database
  // 18 MB, and the counter starts again each time.
  const batch = [
    mark,
    ...Array.from({ length: 200 }, (_, i) => [
      { id: `f${i}`, op: 'call', function: 'forget' },
      text(`t${i}`, 90_000)
    ]).flat()
  ]
  const dry = await service.post(batch, { headers: { prefer: 'tx=rollback' } })
  t.match(dry, refused)
  // The connection is closed while the server may be anywhere before or after COMMIT.
  const { body: { error } } = await service.post(batch)
  const [note] = await sql`select n from notes`
  if (note?.['n'] === 0) t.match(error, refused.body.error)
  else t.match(error, { code: 'commit_unknown', message: /is committed/ })
  const fail = { id: 'f', op: 'call', function: 'fail', args: { size: 2e7 } }
  const erring = await service.post([mark, fail])
  t.match(erring, refused, 'the text of an error')
  t.same(await sql`select n from notes`, [note])
})

const MIB = 1024 * 1024

/** The heap and buffers after a garbage collection, in bytes. */
function usedMemory (): number {
  collectGarbage()
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const itemsSchema = `
  create table items (id int, name text);
  create unique index on items (id) where name = 'x';
`

/** Each request has another text, where SQL takes no parameter. */
const constant = (n: number): object => op.insert('i', 'items', [{ id: 1 }], {
  on_conflict: {
    columns: ['id'], index_where: { name: { eq: `${n} ${'y'.repeat(100_000)}` } }, do: 'nothing'
  }
})

t.test('constants of requests are not kept', { timeout: 120_000 }, async t => {
  const service = await useService(t, {
    schema: itemsSchema, env: { LOG_LEVEL: 'silent', POOL_SIZE: '1' }
  })
  const post = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++) {
      const answer = await service.post([constant(n)])
      if (answer.status !== 400) throw new Error(answer.text)
    }
  }
  await post(0, 20)
  const before = usedMemory()
  await post(20, 120)
  const grown = (usedMemory() - before) / MIB
  t.ok(grown < 6, `${grown.toFixed(1)} MiB more`)
})
