/**
 * A proxy shows what the service sends: a batch on a connection that was just used in one write,
 * one that DDL makes stale again on a new connection, and the settings of all connections.
 * cost.test.ts counts the round trips of batches, words-on-the-wire.test.ts those of words.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { startupSettings } from '../../src/sql/frame/session.ts'
import { sessionDefaults, useEngine } from '../support/database/engine.ts'
import {
  holdUntilWritten,
  isIdle,
  readSentBatch,
  untilAlone,
  useProxy
} from '../support/network/proxy.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = readFileSync(new URL('../support/database/shop.sql', import.meta.url), 'utf8')

const proxy = await useProxy(t, process.env['TEST_DATABASE_URL'] as string)
const { post, database } = await useService(t, {
  schema,
  keys: true,
  env: { POOL_SIZE: '1' },
  databaseUrl: proxy.through
})
await untilAlone(proxy)
holdUntilWritten(proxy)
// The first batch that names a table reads the types of its columns.
await post([{ id: 'a', op: 'select', table: 'stock' }])

t.test('a connection that was just used takes one round trip', async t => {
  // On a busy machine a batch may come too late.
  await until(async () => {
    await until(() => isIdle(proxy))
    proxy.record()
    await post([{ id: 'a', op: 'select', table: 'stock' }])
    // The response does not wait for the statements after COMMIT.
    await until(() => proxy.bursts.length > 1 && isIdle(proxy))
    return readSentBatch(proxy).begin === undefined
  })
  t.equal(proxy.bursts.filter(({ from }) => from === 'client').length, 1)
})

t.test('a batch with a statement made stale by DDL is retried on a new connection', async t => {
  const proxy = await useProxy(t, database.loginUrl)
  const engine = useEngine(t, proxy.through(database.loginUrl))
  const texts = ["select 'before'", 'select * from stock limit 1', "select 'after'"]
  for (let i = 0; i < 3; i++) t.equal((await engine.run(texts)).kind, 'committed')
  await database.sql`alter table stock add column place text`
  await until(() => isIdle(proxy))
  proxy.record()
  t.equal((await engine.run(texts)).kind, 'committed')
  await until(() => isIdle(proxy))
  const sent = proxy.bursts.filter(({ from }) => from === 'client').map(({ bytes }) =>
    bytes.toString('latin1')
  )
  const kinds = sent.map(bytes =>
    ['commit and chain', 'pg_is_in_recovery'].find(word => bytes.includes(word))
  )
  t.same(kinds.filter(kind => kind !== undefined), [
    // Sent again after the error.
    'commit and chain',
    'commit and chain',
    'pg_is_in_recovery',
    'commit and chain'
  ], 'one attempt on the old connection, one on a new connection')
})

t.test('all connections start with the settings of batches', async t => {
  const proxy = await useProxy(t, database.loginUrl)
  const { pool, run } = useEngine(t, proxy.through(database.loginUrl), {
    startup: connection => startupSettings(sessionDefaults, connection)
  })
  const names = ['lock_timeout', 'search_path', 'oneflight.search_path', 'tcp_user_timeout']
  const shown = [names.map(name => `current_setting('${name}')`).join(" || ' ' || ")]
  const show = async (): Promise<{ readonly answer: unknown, readonly sent: string }> => {
    proxy.record()
    const answer = await run(shown.map(columns => `select ${columns}`))
    await until(() => isIdle(proxy))
    const sent = proxy.bursts.filter(({ from }) => from === 'client')
    return { answer, sent: sent.map(({ bytes }) => bytes.toString('latin1')).join('') }
  }
  const rows = ({ answer }: { readonly answer: any }): readonly string[] => answer.rows.map(String)
  const first = await show()
  t.match(rows(first), [/^15s "public", pg_temp "public", pg_temp 15000$/])
  const connection = await pool.acquire(performance.now() + 5000)
  connection.state.retired = true
  pool.release(connection)
  const second = await show()
  t.same(rows(second), rows(first))
  for (const { sent } of [first, second]) {
    const [session] = sent.match(/set_config\(.*?oneflight\.r/s) ?? ['']
    for (const name of names) {
      t.notOk(session.includes(`'${name}', E'`), `a batch does not set ${name}`)
      t.match(sent, `\0${name}\0`, 'the startup message has it')
    }
  }
  await run(names.map(name => `select set_config('${name}', '7', false)`))
  t.same(rows(await show()), rows(first), 'the reset returns to it')
})
