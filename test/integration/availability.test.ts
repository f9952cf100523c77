/**
 * One client cannot take the connections of the others: a request that cannot run is refused before
 * it has a connection, and is not retried.
 */
import t from 'tap'
import { ask, gauge, useService } from '../support/service.ts'
import { until } from '../support/until.ts'
import * as op from '../support/operations.ts'

const schema = 'create table t (id int primary key, a text, b int, j jsonb); ' +
  "insert into t values (1, 'x', 1, '{}'); grant all on t to oneflight_user"

const list = <T>(length: number, create: (i: number) => T): T[] =>
  Array.from({ length }, (_, i) => create(i))
const path = (keys: number): string => `j${'->k'.repeat(keys)}`
const one = [{ id: 'a', op: 'select', table: 't', where: { id: { eq: 1 } } }]

/** About 65 530 parameters with checks of values, fewer without. */
const manyWithChecks = [op.select('a', 't', {
  where: {
    or: [
      { a: { eq: { $value: [1] } } },
      ...list(655, () => ({ [path(99)]: { eq: 1 } })),
      ...list(29, () => ({ b: { eq: 1 } }))
    ]
  }
})]

/** More parameters than the protocol can count, beside a reference. */
const manyWithReference = [...one, op.select('b', 't', {
  where: { id: { eq: '$a.0.id' }, or: list(700, () => ({ [path(99)]: { eq: 1 } })) }
})]

const env = { POOL_SIZE: '2', QUEUE_TIMEOUT_MS: '200' }

t.test('operations with too many parameters cost no connection', async t => {
  const service = await useService(t, { schema, env: { ...env, MAX_WORK: '100000000' } })
  await service.post(one)
  const backends = async (): Promise<unknown> =>
    service.database.sql`select pid from pg_stat_activity
      where datname = ${service.database.name} and usename = 'oneflight_login' order by pid`
  const before = await backends()
  const rows: ReadonlyArray<readonly [batch: object[], op: string]> = [
    [manyWithChecks, 'a'],
    [manyWithReference, 'b']
  ]
  for (const [batch, op] of rows) {
    for (let i = 0; i < 3; i++) {
      const { status, body } = await service.post(batch)
      t.match({ status, error: body.error }, {
        status: 400,
        error: { code: 'program_limit_exceeded', committed: false, retryable: false, op }
      })
    }
  }
  await until(async () => await gauge(service, 'service_pool_connections_busy') === 0)
  t.same(await backends(), before, 'no connection was closed')
  t.equal((await service.post(one)).status, 200)
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.notMatch(text, /^service_txn_retry_count\{reason="connection"\} [1-9]/m, 'nothing was retried')
})

t.test('with the default limits they are refused as too much work', async t => {
  const service = await useService(t, { schema, env })
  for (const batch of [manyWithChecks, manyWithReference]) {
    const { status, body } = await service.post(batch)
    t.match({ status, code: body.error.code }, { status: 413, code: 'too_much_work' })
  }
})
