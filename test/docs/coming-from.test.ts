/**
 * Tests docs/guides/coming-from.md on the sample shop: the handwritten endpoint and the SQL
 * function do the same as the first batch. pages.test.ts sends the batches.
 */
import { pathToFileURL } from 'node:url'
import type { Sql } from 'postgres'
import t from 'tap'
import { CUSTOMER, useShopDatabase } from '../support/database/shop.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'

const blocks = readBlocks(readPage('docs/guides/coming-from.md'))

type PlaceOrder = (
  sql: Sql,
  claims: object,
  name: string,
  lines: readonly object[]
) => Promise<Record<string, unknown>>

t.test('the handwritten endpoint does the same as the first batch', async t => {
  const { sql } = await useShopDatabase(t)
  const text =
    blocks.find(({ check }) =>
      check?.kind === 'run by' && check.file === 'test/docs/coming-from.test.ts'
    )?.text ?? ''
  const { placeOrder } = await import(
    pathToFileURL(`${t.testdir({ 'endpoint.mjs': text })}/endpoint.mjs`).href
  ) as { placeOrder: PlaceOrder }
  const placed = await placeOrder(sql, CUSTOMER, 'Bakery', [
    { sku: 'apple', qty: 4 },
    { sku: 'pear', qty: 1 }
  ])
  const answer = blocks.find(({ text }) => /^\{\s*"error"/.test(text))?.text
  const first = JSON.parse(answer as string) as {
    data: { order: Array<{ id: number }>, items: Array<{ order_id: number }> }
  }
  const [order] = first.data.order
  // postgres.js returns a bigint as a string.
  t.same(placed, {
    order: { ...order, id: String(order?.id) },
    items: first.data.items.map(item => ({ ...item, order_id: String(item.order_id) }))
  })
  await t.rejects(placeOrder(sql, CUSTOMER, 'Bakery', [{ sku: 'quince', qty: 5 }]), {
    code: '23514'
  })
  t.same(await sql`select count(*)::int as n from orders`, [{ n: 2 }])
})

t.test('the SQL function for PostgREST places an order', async t => {
  const { sql } = await useShopDatabase(t)
  await sql.unsafe(blocks.find(({ language }) => language === 'sql')?.text ?? '')
  const [placed] = await sql.begin(async sql => {
    // As PostgREST does. The policies apply.
    await sql`select set_config('role', ${CUSTOMER.role}, true),
      set_config('request.jwt.claims', ${JSON.stringify(CUSTOMER)}, true)`
    return sql`select id from place_order('Bakery',
      '[{"sku": "apple", "qty": 4}, {"sku": "pear", "qty": 1}]'::jsonb)`
  })
  t.same(
    await sql`select sku, qty from order_items where order_id = ${placed?.['id']} order by sku`,
    [{ sku: 'apple', qty: 4 }, { sku: 'pear', qty: 1 }]
  )
})
