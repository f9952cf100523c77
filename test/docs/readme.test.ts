/**
 * Tests that the batches of the README return the printed responses on the sample shop.
 */
import t from 'tap'
import { asCustomer, useShopService } from '../support/database/shop.ts'
import { compact } from '../support/docs/markdown.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'

const blocks = readBlocks(readPage('README.md'))
const [request = ''] = blocks.flatMap(({ language, text }) => language === 'http' ? [text] : [])
const batch = request.slice(request.indexOf('\n\n'))
const [answer = '', parameters = '', namedAnswer = '', ...more] = blocks.flatMap(
  ({ language, text }) => language === 'json' ? [text] : []
)

t.test('the batch returns the printed response', async t => {
  const service = await useShopService(t)
  const post = () => service.post(batch, { headers: asCustomer() })
  t.equal(compact((await post()).text), compact(answer))

  await service.database.sql`update stock set qty = 3 where sku = 'apple'`
  const rejected = await post()
  t.equal(rejected.status, 400)
  t.match(rejected.body.error, { code: 'check_violation', op: 'items' })
  t.same(await service.database.sql`select count(*)::int as n from customers`, [{ n: 2 }])
})

t.test('the named batch returns the printed response', async t => {
  const service = await useShopService(t)
  const { text } = await service.run('order', parameters, { headers: asCustomer() })
  t.equal(compact(text), compact(namedAnswer))
  t.same(more, [])
})
