/**
 * Tests docs/guides/coming-from.md: the batch returns the printed response on the sample shop, the
 * handwritten endpoint does the same, the operators and modifiers in the table exist, and the
 * comparison with other batches links its sources.
 */
import { pathToFileURL } from 'node:url'
import type { Sql } from 'postgres'
import t from 'tap'
import { operators } from '../../schemas/operator.ts'
import { modifiers } from '../../schemas/modifier.ts'
import { settleJson, useShop } from '../support/docs/commands.ts'
import { CUSTOMER } from '../support/database/shop.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import { token } from '../support/service.ts'

const page = readPage('docs/guides/coming-from.md')
const blocks = readBlocks(page)

const batchAt = blocks.findIndex(({ language, text }) =>
  language === 'json' && text.startsWith('[\n')
)
const [batch, answer] = blocks.slice(batchAt).map(({ text }) => text) as [string, string]

t.test('the batch returns the printed response', async t => {
  const service = await useShop(t)
  const sent = await service.post(batch, {
    headers: { authorization: `Bearer ${token(CUSTOMER)}` }
  })
  t.equal(sent.status, 200)
  t.equal(settleJson(sent.text), settleJson(answer))
})

type PlaceOrder = (
  sql: Sql,
  claims: object,
  name: string,
  lines: readonly object[]
) => Promise<Record<string, unknown>>

t.test('the handwritten endpoint does the same as the batch', async t => {
  const { database: { sql } } = await useShop(t)
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
  const first = JSON.parse(answer) as {
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
  const { database: { sql } } = await useShop(t)
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

t.test('what is said about other batches links its source', async t => {
  const table = page.slice(page.indexOf('| From | What it does |')).split('\n\n')[0] ?? ''
  const rows = table.split('\n').slice(2)
  t.equal(rows.length, 7)
  for (const row of rows) t.match(row.split('|')[1], /\]\(https:\/\/[^)]+\)/)
})

t.test('the operators and modifiers of the last column exist', async t => {
  const rows =
    page.slice(page.indexOf('| PostgREST | Hasura |')).split('\n\n')[0]?.split('\n').slice(2) ?? []
  const ours = rows.map(row => row.split('|').at(-2) ?? '').join('\n')
  const filters = Array.from(
    ours.matchAll(/\{"(\w+)": \{"(\w+)":/g),
    ([, , operator]) => operator as string
  ).filter(word => word !== 'columns')
  t.not(filters.length, 0)
  for (const word of filters) t.ok(word in operators, word)
  const named = Array.from(
    ours.matchAll(/`?(\$[a-z]+)`?(?=,|`|\]|\))/g),
    ([, word]) => word as string
  ).filter(word => !word.startsWith('$order'))
  t.not(named.length, 0)
  for (const word of named) t.ok(word in modifiers, word)
})
