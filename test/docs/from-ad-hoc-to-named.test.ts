/**
 * Tests what docs/guides/from-ad-hoc-to-named.md says without a command: its operations are those
 * of the files, and ad-hoc batches can be closed. commands.test.ts runs the commands.
 */
import t from 'tap'
import { compact, readBlocks, readPage } from '../support/docs/pages.ts'
import { settleJson, useShop } from '../support/docs/commands.ts'
import { asCustomer } from '../support/database/shop.ts'

const json = readBlocks(readPage('docs/guides/from-ad-hoc-to-named.md'))
  .filter(({ language, check }) => language === 'json' && check === undefined)
  .map(({ text }) => text)
const adhoc = readPage('examples/transfer.json')

t.test('the operations before and after are those of the files', async t => {
  const [before = '', after = '', ...others] = json
  t.ok(compact(adhoc).includes(compact(before)))
  t.ok(compact(readPage('deploy/batches/transfer.json')).includes(compact(after)))
  t.equal(others.length, 1)
})

t.test('ADHOC_BATCHES=off refuses the batch that the client sent before', async t => {
  const service = await useShop(t, { env: { ADHOC_BATCHES: 'off' } })
  const headers = { ...asCustomer(), 'x-request-id': 'docs' }
  const { status, text } = await service.post(adhoc, { headers })
  t.equal(status, 403)
  t.equal(settleJson(text), settleJson(json.at(-1) as string))
  const parameters = { from: 'till', to: 'bank', amount: 25 }
  t.equal((await service.run('transfer', parameters, { headers })).status, 200)
})
