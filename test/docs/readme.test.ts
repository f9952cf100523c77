/**
 * The batch of the README gives the answer of the README, on the sample shop that `npm run dev` and
 * compose.yaml start.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { asCustomer, useShopService } from '../support/database/shop.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const batch = /```http\nPOST [^[]*(\[[\s\S]*?\n\])\n```/.exec(readme)?.[1] as string
const answer = /```json\n(\{\n {2}"error": null,[\s\S]*?)\n```/.exec(readme)?.[1] as string

t.test('the example of the README', async t => {
  const service = await useShopService(t)
  const post = (text: string) => service.post(text, { headers: asCustomer() })
  const { status, body } = await post(batch)
  t.equal(status, 200)
  const sameTime = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value).replace(/"created_at":"[^"]*"/g, '"created_at":"then"'))
  t.same(sameTime(body), sameTime(JSON.parse(answer)))

  await service.database.sql`update stock set qty = 3 where sku = 'apple'`
  const refused = await post(batch)
  t.equal(refused.status, 400)
  t.match(refused.body.error, { code: 'check_violation', op: 'items' })
  t.same(await service.database.sql`select count(*)::int as n from customers`, [{ n: 1 }])
})
