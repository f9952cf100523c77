/**
 * A proxy shows what the service sends on connections: a batch that DDL makes stale is sent again
 * on a new one, and all start with the settings of batches. cost.test.ts counts the round trips of
 * batches, words-on-the-wire.test.ts those of words, and experiments/protocol.test.ts those on a
 * connection that was just used.
 */
import t from 'tap'
import { startupSettings } from '../../src/sql/frame/session.ts'
import { useDatabase } from '../support/database/database.ts'
import { sessionDefaults, useEngine } from '../support/database/engine.ts'
import { isIdle, useProxy } from '../support/network/proxy.ts'
import { shopSchema } from '../support/shorthand.ts'
import { until } from '../support/until.ts'

const database = await useDatabase(t, { schema: shopSchema })

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
