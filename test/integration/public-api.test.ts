/**
 * The exports of the package, src/index.ts: exactly these names. package.test.ts checks that an
 * installed package can be imported.
 */
import { pino } from 'pino'
import t from 'tap'
import * as api from '../../src/index.ts'
import { useDatabase } from '../support/database/database.ts'
import { answering, SECRET } from '../support/service.ts'

t.test('the package exports its documented names, which start a service', async t => {
  t.same(Object.keys(api).sort(), ['buildApp', 'oneflight', 'readConfig', 'startService'])
  const { loginUrl } = await useDatabase(t)
  const service = await api.startService({
    ...api.readConfig({
      DATABASE_URL: loginUrl,
      JWT_SECRET: SECRET,
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0'
    }),
    logger: pino({ level: 'silent' })
  })
  t.teardown(() => service.stop())
  await answering(`${service.url}/health`)
  await answering(`${service.url}/openapi.json`)
  await answering(`${service.adminUrl}/ready`)
})
