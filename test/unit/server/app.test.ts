/**
 * Tests the service as a program starts it, without options that the process always gives.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { readConfig } from '../../../src/config/config.ts'
import { startService } from '../../../src/server/service.ts'

t.test('a service has the named batches of BATCHES_DIR', async t => {
  const batch = { operations: [{ id: 'a', op: 'select', table: 't' }] }
  const folder = t.testdir({ 'list.json': JSON.stringify(batch) })
  const env = {
    DATABASE_URL: 'postgres://app@127.0.0.1:1/shop',
    ANON_ROLE: 'guest',
    HTTP_PORT: '0',
    ADMIN_HTTP_PORT: '0',
    SHUTDOWN_DELAY_MS: '0',
    BATCHES_DIR: folder
  }
  const options = { ...readConfig(env), logger: pino({ level: 'silent' }) }
  const { url, adminUrl, stop } = await startService(options)
  t.teardown(() => stop())
  for (const server of [url, adminUrl]) {
    const document = await (await fetch(`${server}/openapi.json`)).json() as { paths: object }
    t.ok('/batches/list' in document.paths, server)
  }
  writeFileSync(join(folder, 'list.json'), '{}')
  await t.rejects(startService(options), { message: /list\.json:1:1: / })
})
