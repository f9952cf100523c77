/**
 * A proxy counts the traffic between the service and PostgreSQL. A batch of any size takes two
 * round trips, and COMMIT is in the same burst as the operations. The proxy holds every response
 * until the whole batch was sent, so a client that waits for one earlier hangs.
 */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { useDatabase } from '../support/database/database.ts'
import { useEngine } from '../support/database/engine.ts'
import {
  holdUntilWritten,
  isIdle,
  untilAlone,
  messageTypes,
  useProxy,
  type Proxy
} from '../support/network/proxy.ts'
import { useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = readFileSync(new URL('../support/database/shop.sql', import.meta.url), 'utf8')

/** Operations that each read the result of the previous one. */
const chain = (length: number, name: string): object[] =>
  Array.from({ length }, (_, i) =>
    i === 0
      ? { id: 'o0', op: 'insert', table: 'customers', values: [{ name }] }
      : { id: `o${i}`, op: 'select', table: 'customers', where: { id: { eq: `$o${i - 1}.0.id` } } })

async function useProxiedService (t: Test): Promise<{ service: ServiceUnderTest, proxy: Proxy }> {
  const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
  const service = await useService(t, {
    schema,
    env: { POOL_SIZE: '1' },
    databaseUrl: proxy.through
  })
  await untilAlone(proxy)
  holdUntilWritten(proxy)
  return { service, proxy }
}

/** The bursts that the service sends for one batch, from idle to idle. */
async function countBursts (
  proxy: Proxy,
  batch: () => Promise<{ status: number }>
): Promise<{ status: number, bursts: readonly Buffer[] }> {
  await until(() => isIdle(proxy))
  proxy.record()
  const { status } = await batch()
  // The response does not wait for the statements after COMMIT.
  await until(() => isIdle(proxy))
  return {
    status,
    bursts: proxy.bursts.filter(({ from }) => from === 'client').map(({ bytes }) => bytes)
  }
}

t.test('two round trips for any number of operations and references, prepared or not', async t => {
  const { service, proxy } = await useProxiedService(t)
  await service.post([{ id: 'a', op: 'select', table: 'stock' }])
  for (const length of [1, 10, 100]) {
    // The first time, a text is unknown. The second time it is prepared, the third time reused.
    for (const time of ['first', 'second', 'third']) {
      const { status, bursts } = await countBursts(
        proxy,
        () => service.post(chain(length, `${length} ${time}`))
      )
      t.equal(status, 200)
      t.equal(bursts.length, 2, `${length} operations, ${time} time`)
      const [begin, operations] = bursts as [Buffer, Buffer]
      t.match(begin.toString(), /begin isolation level read committed read write/)
      t.match(
        operations.toString('latin1'),
        /commit and chain\0Q....set session authorization default; [^\0]+\0[PB]/s,
        'COMMIT is in the burst of the operations'
      )
      t.match(
        messageTypes(operations),
        new RegExp(`^((PD)?BES){${length + 1}}QQ(PD)?BES$`),
        'no other message in between'
      )
    }
  }
})

t.test('large parameters and results take two round trips', async t => {
  const { service, proxy } = await useProxiedService(t)
  await service.post([{ id: 'a', op: 'select', table: 'stock' }])
  const rows = Array.from(
    { length: 900 },
    (_, i) => ({ name: `${i}`, email: `${'n'.repeat(1120)}${i}` })
  )
  const batch = [
    { id: 'in', op: 'insert', table: 'customers', values: rows },
    { id: 'out', op: 'select', table: 'customers', where: { name: { eq: '$in.7.name' } } },
    { id: 'all', op: 'select', table: 'customers' },
    { id: 'deleted', op: 'delete', table: 'customers', all: true }
  ]
  t.ok(JSON.stringify(batch).length > 1_030_000, 'the body is nearly 1 MiB')
  for (const time of ['first', 'second', 'third']) {
    const { status, bursts } = await countBursts(proxy, () => service.post(batch))
    t.equal(status, 200)
    t.equal(bursts.length, 2, time)
  }
})

t.test('a failed batch takes two round trips too', async t => {
  const { service, proxy } = await useProxiedService(t)
  await service.post([{ id: 'a', op: 'select', table: 'stock' }])
  const batch = [
    { id: 'a', op: 'select', table: 'nowhere' },
    { id: 'b', op: 'select', table: 'stock' }
  ]
  const { status, bursts } = await countBursts(proxy, () => service.post(batch))
  t.equal(status, 404)
  t.equal(bursts.length, 2)
})

t.test('a batch with a statement made stale by DDL is retried on a new connection', async t => {
  const database = await useDatabase(t, { schema })
  const proxy = await useProxy(t, database.loginUrl)
  const engine = useEngine(t, proxy.through(database.loginUrl))
  const texts = ["select 'before'", 'select * from stock limit 1', "select 'after'"]
  for (let i = 0; i < 3; i++) t.equal((await engine.run(texts)).kind, 'committed')
  await database.sql`alter table stock add column place text`
  await until(() => isIdle(proxy))
  proxy.record()
  t.equal((await engine.run(texts)).kind, 'committed')
  await until(() => isIdle(proxy))
  const bursts = proxy.bursts
    .filter(({ from }) => from === 'client')
    .map(({ bytes }) => bytes.toString('latin1'))
  const kinds = bursts.map(bytes =>
    ['begin isolation', 'commit and chain', 'pg_is_in_recovery'].find(word => bytes.includes(word))
  )
  t.same(kinds.filter(kind => kind !== undefined), [
    'begin isolation',
    'commit and chain',
    'pg_is_in_recovery',
    'begin isolation',
    'commit and chain'
  ], 'one attempt on the old connection, one on a new connection')
})
