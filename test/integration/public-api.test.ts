/**
 * What the package gives to programs, src/index.ts: these names and no more. That it can be
 * imported by them is in package.test.ts.
 */
import { pino } from 'pino'
import t from 'tap'
import * as door from '../../src/index.ts'
import { useDatabase } from '../support/database/database.ts'
import { answering, SECRET } from '../support/service.ts'

t.test('the door', async t => {
  t.same(Object.keys(door).sort(), ['buildApp', 'readConfig', 'startService'])
  const { loginUrl } = await useDatabase(t)
  const service = await door.startService({
    ...door.readConfig({
      DATABASE_URL: loginUrl,
      JWT_SECRET: SECRET,
      HTTP_PORT: '0',
      ADMIN_HTTP_PORT: '0'
    }),
    logger: pino({ level: 'silent' })
  })
  t.teardown(() => service.stop())
  await answering(`${service.url}/health`)
  await answering(`${service.adminUrl}/ready`)
})
