/**
 * Tests that the batch of the README returns the printed response on the sample shop.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { asCustomer, useShopService } from '../support/database/shop.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const batch = /```http\nPOST [^[]*(\[[\s\S]*?\n\])\n```/.exec(readme)?.[1] as string
const answer = /```json\n(\{\n {2}"error": null,[\s\S]*?)\n```/.exec(readme)?.[1] as string

t.test('the example returns the printed response', async t => {
  const service = await useShopService(t)
  const post = (text: string) => service.post(text, { headers: asCustomer() })
  const { status, body } = await post(batch)
  t.equal(status, 200)
  const withoutTimes = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value).replace(/"created_at":"[^"]*"/g, '"created_at":"then"'))
  t.same(withoutTimes(body), withoutTimes(JSON.parse(answer)))

  await service.database.sql`update stock set qty = 3 where sku = 'apple'`
  const rejected = await post(batch)
  t.equal(rejected.status, 400)
  t.match(rejected.body.error, { code: 'check_violation', op: 'items' })
  t.same(await service.database.sql`select count(*)::int as n from customers`, [{ n: 2 }])
})
