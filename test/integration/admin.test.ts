/**
 * Tests the admin server: liveness, readiness, metrics and configuration, in which secrets.test.ts
 * looks for secrets.
 */
import t from 'tap'
import { configItems } from '../../schemas/config.ts'
import { holdRow } from '../support/database/hold.ts'
import { dial } from '../support/network/wire.ts'
import { answering, ask, useService, type Answer } from '../support/service.ts'
import * as op from '../support/operations.ts'
import { nowhere, shopSchema as schema } from '../support/shorthand.ts'

const brief = ({ status, text }: Answer): unknown => [status, text]

t.test('both probes succeed while the database is reachable', async t => {
  const { url, adminUrl } = await useService(t, { schema })
  await answering(`${adminUrl}/ready`)
  for (const path of ['/live', '/ready']) {
    const response = await ask(adminUrl + path)
    t.same(brief(response), [200, '{"ok":true}'])
    t.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
    t.equal((await ask(adminUrl + path, { method: 'HEAD' })).status, 200)
    t.equal((await ask(url + path)).status, 404, 'not on the main server')
  }
  t.equal((await ask(`${adminUrl}/health`)).status, 404)
  const headers = { 'content-type': 'application/json' }
  t.equal((await ask(adminUrl, { method: 'POST', body: '[]', headers })).status, 404)
})

t.test('without a reachable database, liveness succeeds and readiness fails', async t => {
  const { url, adminUrl } = await useService(t, nowhere)
  t.same(brief(await ask(`${adminUrl}/live`)), [200, '{"ok":true}'])
  t.same(brief(await ask(`${adminUrl}/ready`)), [503, '{"ok":false,"error":"database"}'])
  t.same(brief(await ask(`${url}/health`)), [503, '{"ok":false,"error":"database"}'])
  t.equal((await ask(`${adminUrl}/metrics`)).status, 200)
  t.equal((await ask(`${adminUrl}/config`)).status, 200)
})

t.test('a stopping service reports that it is not ready until it has stopped', async t => {
  const service = await useService(t, { schema })
  const lock = await holdRow(service.database, 'select from stock')
  const batch = service.post([op.update('u', 'stock', { set: { qty: 3 }, all: true })])
  await lock.awaited(1)
  const stopped = service.stop()
  t.same(brief(await ask(`${service.adminUrl}/ready`)), [503, '{"ok":false,"error":"stopping"}'])
  t.same(brief(await ask(`${service.adminUrl}/live`)), [200, '{"ok":true}'])
  await lock.free()
  t.equal((await batch).status, 200)
  await stopped
})

t.test('silent clients and half-sent requests do not delay the shutdown', async t => {
  const service = await useService(t, { schema })
  const silent = await dial(service.adminUrl, '')
  const half = await dial(service.adminUrl, 'GET /live HTTP/1.1\r\n')
  await ask(`${service.adminUrl}/live`)
  await service.stop()
  for (const line of [silent, half]) t.same(await line.end(), [])
})

t.test('/config returns every setting', async t => {
  const { adminUrl, database } = await useService(t, { schema })
  const { status, body, headers } = await ask(`${adminUrl}/config`)
  t.equal(status, 200)
  t.equal(headers.get('content-type'), 'application/json; charset=utf-8')
  t.match(body, { DATABASE_URL: { database: database.name }, JWT_SECRET: '[redacted]' })
  t.same(Object.keys(body).sort(), configItems.map(([name]) => name).sort())
})
