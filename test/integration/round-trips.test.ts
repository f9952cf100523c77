/**
 * A proxy counts the traffic between the service and PostgreSQL. A batch of any size takes one
 * round trip on a connection that was just used, and two on one that was quiet: BEGIN, then the
 * rest. COMMIT is in the same burst as the operations. The proxy holds every response until the
 * whole batch was sent, so a client that waits for one earlier hangs.
 */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { startupSettings } from '../../src/sql/frame/session.ts'
import { sessionDefaults, useEngine } from '../support/database/engine.ts'
import {
  holdUntilWritten,
  isIdle,
  messageTypes,
  readSentBatch,
  untilAlone,
  untilQuiet,
  useProxy,
  type SentBatch
} from '../support/network/proxy.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = readFileSync(new URL('../support/database/shop.sql', import.meta.url), 'utf8')

/** Operations that each read the result of the previous one. */
const chain = (length: number, name: string): object[] =>
  Array.from({ length }, (_, i) =>
    i === 0
      ? { id: 'o0', op: 'insert', table: 'customers', values: [{ name }] }
      : { id: `o${i}`, op: 'select', table: 'customers', where: { id: { eq: `$o${i - 1}.0.id` } } })

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
for (const table of ['stock', 'customers']) await post([{ id: 'a', op: 'select', table }])

/** Sends a batch and returns its status and what the service sent for it. */
async function send (
  batch: readonly object[],
  headers: Readonly<Record<string, string>> = {}
): Promise<{ readonly status: number } & SentBatch> {
  await until(() => isIdle(proxy))
  proxy.record()
  const { status } = await post(batch, { headers })
  // The response does not wait for the statements after COMMIT.
  await until(() => proxy.bursts.length > 1 && isIdle(proxy))
  return { status, ...readSentBatch(proxy) }
}

interface Sent extends SentBatch {
  readonly operations: number
  readonly name: string
  readonly key?: boolean
}

/**
 * Checks that BEGIN, the operations and COMMIT are what was sent. If operations can run code, the
 * session is sent again between them, and a reset follows COMMIT.
 */
function checkPipeline (
  t: Test,
  { begin, pipeline, operations, name, key = false }: Sent
): void {
  // In the pipeline BEGIN is prepared, without its text.
  if (begin !== undefined) t.match(String(begin), /level read committed read write/, name)
  t.match(
    pipeline.toString('latin1'),
    /Q.{4}commit( and chain; set session authorization default; [^\0]+commit\0F.{14}|\0)$/s,
    `${name}: COMMIT is in the burst of the operations`
  )
  // BEGIN, the claim of a key and the settings.
  const count = (begin === undefined ? 2 : 1) + (key ? 1 : 0)
  // SET CONSTRAINTS, the login role, storage and the role again.
  const stored = key ? '(P?BE){4}' : ''
  t.match(
    messageTypes(pipeline),
    new RegExp(`^(P?BEH?){${count}}((P?BE){${operations}}${stored}Q|` +
      `(P?BE){${2 * operations - 1}}${stored}QF)$`),
    `${name}: nothing else in between but a Flush after the settings`
  )
}

t.test('one round trip for any number of operations and references, prepared or not', async t => {
  for (const moment of ['just used', 'quiet', 'with a key']) {
    const key = moment === 'with a key'
    for (const operations of [1, 10, 100]) {
      // The first time, a text is unknown. The second time it is prepared, the third time reused.
      for (const time of ['first', 'second', 'third']) {
        const name = `${operations} operations, ${time} time, ${moment}`
        if (moment === 'quiet') await untilQuiet(proxy)
        const headers = key ? { 'idempotency-key': `"${name}"` } : {}
        const sent = await send(chain(operations, name), headers)
        t.equal(sent.status, 200)
        if (moment === 'quiet') t.ok(sent.begin, 'BEGIN is sent first')
        checkPipeline(t, { ...sent, operations, name, key })
      }
    }
  }
})

t.test('a connection that was just used takes one round trip', async t => {
  // On a busy machine a batch may come too late.
  await until(async () => {
    const { begin } = await send([{ id: 'a', op: 'select', table: 'stock' }])
    return begin === undefined
  })
  t.equal(proxy.bursts.filter(({ from }) => from === 'client').length, 1)
})

t.test('large parameters and results take no more round trips', async t => {
  const long = 'n'.repeat(1120)
  const rows = Array.from({ length: 900 }, (_, i) => ({ name: `${i}`, email: `${long}${i}` }))
  const batch = [
    { id: 'in', op: 'insert', table: 'customers', values: rows },
    { id: 'out', op: 'select', table: 'customers', where: { name: { eq: '$in.7.name' } } },
    { id: 'all', op: 'select', table: 'customers' },
    { id: 'deleted', op: 'delete', table: 'customers', all: true }
  ]
  t.ok(JSON.stringify(batch).length > 1_030_000, 'the body is nearly 1 MiB')
  for (const time of ['first', 'second', 'third']) {
    const sent = await send(batch)
    t.equal(sent.status, 200)
    checkPipeline(t, { ...sent, operations: batch.length, name: time })
  }
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
