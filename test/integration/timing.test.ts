/**
 * `Prefer: timing`: the answer says what took how long, whether it succeeded or not; nobody else is
 * told.
 */
import t from 'tap'
import { useService, type Answer } from '../support/service.ts'

const schema = `
  create table t (id int primary key);
  create view nap as select pg_sleep(0.5)::text as slept;
  grant all on t, nap to oneflight_user;`

interface Entry {
  readonly name: string
  readonly ms: number
  readonly id: string | undefined
}

const select = (id: string, table = 't'): object => ({ id, op: 'select', table })
const headers = { prefer: 'timing' }

/** By the grammar of Server-Timing, of which only `dur` and `desc` are used. */
function entriesOf ({ headers }: Answer): readonly Entry[] {
  return (headers.get('server-timing') ?? '').split(', ').map(text => {
    const [, name = '', ms, , id] =
      /^([a-z0-9]+);dur=([0-9]+(\.[0-9]{1,3})?)(?:;desc="(\w+)")?$/.exec(text) ?? []
    return { name, ms: Number(ms), id }
  })
}

t.test('what took how long', async t => {
  const { post } = await useService(t, { schema })
  const answer = await post([select('a'), select('sleepy', 'nap'), select('b')], { headers })
  t.equal(answer.headers.get('preference-applied'), 'timing')
  const entries = entriesOf(answer)
  t.same(entries.map(({ name }) => name), [
    'request',
    'plan',
    'wait',
    'session',
    'op0',
    'op1',
    'op2',
    'commit',
    'total'
  ])
  t.same(entries.map(({ id }) => id).slice(4, 7), ['a', 'sleepy', 'b'])
  const ms = Object.fromEntries(entries.map(({ name, ms }) => [name, ms]))
  t.ok((ms['op1'] ?? 0) > 250, 'it slept 500 ms, and each time is when its answer was taken')
  const sum = entries.slice(0, -1).reduce((sum, { ms }) => sum + ms, 0)
  t.ok(Math.abs(sum - (ms['total'] ?? 0)) < 0.1, 'the parts are the whole')
})

t.test('nobody is told who did not ask', async t => {
  const { post } = await useService(t, { schema })
  for (const prefer of ['', 'return=minimal', 'timing=off']) {
    t.equal(
      (await post([select('a')], { headers: { prefer } })).headers.has('server-timing'),
      false,
      prefer
    )
  }
})

t.test('a batch that failed says it too', async t => {
  const { post } = await useService(t, { schema })
  const insert = { id: 'i', op: 'insert', table: 't', values: [{ id: 1 }, { id: 1 }] }
  const failed = await post([select('a'), insert, select('b')], { headers })
  t.equal(failed.status, 409)
  t.same(entriesOf(failed).map(({ name }) => name), [
    'request',
    'plan',
    'wait',
    'session',
    'op0',
    'op1',
    'commit',
    'total'
  ])
  const denied = await post([select('a')], { headers, role: 'postgres' })
  t.equal(denied.status, 403)
  t.same(entriesOf(denied).map(({ name }) => name), [
    'request',
    'plan',
    'wait',
    'session',
    'commit',
    'total'
  ])
  t.equal(
    (await post([{ id: 'x' }], { headers })).headers.has('server-timing'),
    false,
    'one that was not sent has none'
  )
})

t.test('of many operations the slowest, in their order', async t => {
  const { post } = await useService(t, { schema })
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

t.test('an answer by the key', async t => {
  const { post } = await useService(t, { schema, keys: true })
  const repeat = () =>
    post([{ id: 'i', op: 'insert', table: 't', values: [{ id: 1 }] }], {
      headers: { ...headers, 'idempotency-key': 'k' }
    })
  await repeat()
  const again = await repeat()
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  t.same(entriesOf(again).map(({ name }) => name), ['request', 'plan', 'key', 'total'])
})
