/**
 * `Prefer: timing`: success and error responses carry a `Server-Timing` header with the duration of
 * each stage. Responses to other requests do not.
 */
import t from 'tap'
import { useService, type Answer } from '../support/service.ts'

const schema = `
  create table t (id int primary key);
  create view nap as select pg_sleep(0.5)::text as slept;
  create table slow (id int);
  create function doze () returns trigger language plpgsql as
    'begin perform pg_sleep(0.5); return null; end';
  create trigger doze after insert on slow execute function doze();`

const { post, database: { sql } } = await useService(t, { schema, keys: true })

t.beforeEach(() => sql`truncate t, slow`)

interface Entry {
  readonly name: string
  readonly ms: number
  readonly id: string | undefined
}

const select = (id: string, table = 't'): object => ({ id, op: 'select', table })
const headers = { prefer: 'timing' }

/** Parses a Server-Timing header that contains only the parameters `dur` and `desc`. */
function entriesOf ({ headers }: Answer): readonly Entry[] {
  return (headers.get('server-timing') ?? '').split(', ').map(text => {
    const [, name = '', ms, , id] =
      /^([a-z0-9]+);dur=([0-9]+(\.[0-9]{1,3})?)(?:;desc="(\w+)")?$/.exec(text) ?? []
    return { name, ms: Number(ms), id }
  })
}

t.test('Server-Timing lists the duration of every stage and operation', async t => {
  const response = await post([select('a'), select('sleepy', 'nap'), select('b')], { headers })
  t.equal(response.headers.get('preference-applied'), 'timing')
  const entries = entriesOf(response)
  t.same(entries.map(({ name }) => name), [
    'request', 'plan', 'wait', 'session', 'op0', 'op1', 'op2', 'commit', 'total'
  ])
  t.same(entries.map(({ id }) => id).slice(4, 7), ['a', 'sleepy', 'b'])
  const ms = Object.fromEntries(entries.map(({ name, ms }) => [name, ms]))
  t.ok((ms['op1'] ?? 0) > 250, 'it sleeps 500 ms; its time ends when its result is received')
  const sum = entries.slice(0, -1).reduce((sum, { ms }) => sum + ms, 0)
  t.ok(Math.abs(sum - (ms['total'] ?? 0)) < 0.01, 'the durations add up to the total')
})

t.test('the time of an operation includes its triggers, and no other operation', async t => {
  const insert = (id: string, table: string): object => ({ id, op: 'insert', table, values: [{}] })
  const late = { ...select('late'), expect: { min: 1000 } }
  const cases: ReadonlyArray<readonly [readonly object[], slow: string]> = [
    [[insert('a', 'slow'), select('b')], 'op0'],
    [[select('a'), insert('b', 'slow'), select('c')], 'op1'],
    [[select('a', 'nap'), late], 'op0']
  ]
  for (const [batch, slow] of cases) {
    const entries = entriesOf(await post(batch, { headers }))
    const longest = entries.filter(({ ms }) => ms > 250).map(({ name }) => name)
    t.same(longest, [slow, 'total'], JSON.stringify(batch))
  }
})

t.test('without Prefer: timing there is no Server-Timing header', async t => {
  for (const prefer of ['', 'return=minimal', 'timing=off']) {
    t.equal(
      (await post([select('a')], { headers: { prefer } })).headers.has('server-timing'),
      false,
      prefer
    )
  }
})

t.test('a failed batch has the header too', async t => {
  const insert = { id: 'i', op: 'insert', table: 't', values: [{ id: 1 }, { id: 1 }] }
  const failed = await post([select('a'), insert, select('b')], { headers })
  t.equal(failed.status, 409)
  t.same(entriesOf(failed).map(({ name }) => name), [
    'request', 'plan', 'wait', 'session', 'op0', 'op1', 'commit', 'total'
  ])
  const denied = await post([select('a')], { headers, role: 'postgres' })
  t.equal(denied.status, 403)
  t.same(entriesOf(denied).map(({ name }) => name), [
    'request', 'plan', 'wait', 'session', 'commit', 'total'
  ])
  t.equal(
    (await post([{ id: 'x' }], { headers })).headers.has('server-timing'),
    false,
    'a batch that fails validation has no header'
  )
})

t.test('only the 20 slowest operations are listed, in the order of the batch', async t => {
  const long = 'x'.repeat(64)
  const operations = Array.from(
    { length: 40 },
    (_, i) => select(i === 39 ? long : `s${i}`, i % 20 === 19 ? 'nap' : 't')
  )
  const entries = entriesOf(await post(operations, { headers })).filter(({ name }) =>
    name.startsWith('op')
  )
  const numbers = entries.map(({ name }) => Number(name.slice(2)))
  t.equal(numbers.length, 20)
  t.same(numbers, numbers.toSorted((a, b) => a - b))
  t.ok(numbers.includes(19) && numbers.includes(39))
  t.equal(entries.find(({ name }) => name === 'op19')?.id, 's19')
  t.equal(entries.find(({ name }) => name === 'op39')?.id, undefined, 'a long id is left out')
})

t.test('a replayed response has the time of the key lookup', async t => {
  const repeat = () =>
    post([{ id: 'i', op: 'insert', table: 't', values: [{ id: 1 }] }], {
      headers: { ...headers, 'idempotency-key': 'k' }
    })
  await repeat()
  const replayed = await repeat()
  t.equal(replayed.headers.get('idempotent-replayed'), 'true')
  t.same(entriesOf(replayed).map(({ name }) => name), ['request', 'plan', 'key', 'total'])
})
