/**
 * Tests that the batches of examples/ keep the guarantees of examples/README.md on the sample shop.
 * test/docs/commands.test.ts compares their responses.
 */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { Answer, ServiceUnderTest } from '../support/service.ts'
import { asCustomer, outcomes, useShopService } from '../support/database/shop.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/** Sends a file of examples/, modified by `change`. */
type Send = (name: string, change?: (batch: string) => string) => Promise<Answer>

async function useShop (t: Test): Promise<{ service: ServiceUnderTest, send: Send }> {
  const service = await useShopService(t)
  return {
    service,
    send: (name, change = batch => batch) =>
      service.post(change(read(`examples/${name}.json`)), { headers: asCustomer() })
  }
}

t.test('two concurrent transfers with money for one: exactly one is applied', async t => {
  const { service: { database: { sql } }, send } = await useShop(t)
  await sql`update accounts set balance = 30 where name = 'till'`
  const responses = await Promise.all([send('transfer'), send('transfer')])
  t.same(outcomes(responses), ['200', '412 expectation_failed from'])
  const accounts = await sql`select name, balance::int, (select count(*)::int from transfers)
    as transfers from accounts order by name`
  t.same(accounts, [
    { name: 'bank', balance: 25, transfers: 1 },
    { name: 'till', balance: 5, transfers: 1 }
  ])
})

t.test('an order without its customer or articles is not stored', async t => {
  const { service, send } = await useShop(t)
  const { sql } = service.database
  await sql`update customers set name = 'Bakery'`
  t.same(outcomes([await send('order')]), ['412 expectation_failed customer'])

  await sql`update customers set name = 'Corner Shop'`
  t.same(outcomes([await send('order')]), ['200'])
  t.same(outcomes([await send('order')]), ['400 check_violation items'])
  t.same(
    await sql`select count(*)::int as orders, (select count(*)::int from order_items)
      as items, (select qty from stock where sku = 'apple') as apples from orders`,
    [{ orders: 2, items: 4, apples: 984 }]
  )
})

t.test('concurrent find-or-create requests return the same row', async t => {
  const { service, send } = await useShop(t)
  const responses = await Promise.all(Array.from({ length: 8 }, () => send('find-or-create')))
  const id = responses[0]?.body.data.tag[0].id as number
  t.same(
    responses.map(({ body }) => body.data.tag),
    Array(8).fill([{ id, name: 'fragile', owner: 'corner-shop' }])
  )
  const creators = responses.filter(({ body }) => body.data.created.length === 1)
  t.equal(creators.length, 1, 'one request creates the tag')
  t.same(await service.database.sql`select count(*)::int as n from tags`, [{ n: 1 }])
})

t.test('concurrent jobs with a new tag have the same tag', async t => {
  const { service, send } = await useShop(t)
  const responses = await Promise.all(Array.from({ length: 8 }, () => send('tag-job')))
  t.same(outcomes(responses), Array(8).fill('200'))
  const again = await send('tag-job')
  t.match(again.body.data, { found: [{ id: Number }], created: null })
  t.same(
    await service.database.sql`select count(*)::int as jobs, count(distinct tags.id)::int as tags
      from jobs left join tags on tags.id = (task -> 'tag')::int and name = 'urgent'
      where task ? 'tag'`,
    [{ jobs: 9, tags: 1 }]
  )
})

t.test('an update of an outdated version is rejected', async t => {
  const { service, send } = await useShop(t)
  const responses = await Promise.all([send('new-version'), send('new-version')])
  t.same(outcomes(responses), ['200', '412 expectation_failed offer'])
  const offers = await service.database.sql`select price, version from offers`
  t.same(offers, [{ price: '0.32', version: 2 }])
})

t.test('a worker skips a job that another worker has locked', async t => {
  const { service, send } = await useShop(t)
  const { sql } = service.database
  const taken = await sql.begin(async blocker => {
    await blocker`select from jobs where id = 1 for update`
    return send('take-job') // returns while the other transaction holds its lock
  })
  t.equal(taken.body.data.job[0].id, 2)
  const both = await Promise.all([send('take-job'), send('take-job')])
  t.same(both.map(({ body }) => body.data.job[0].id as number).sort(), [1, 3])
  t.same((await send('take-job')).body.data, { next: [], job: [] })
})

t.test('the same price list changes nothing the second time', async t => {
  const { service, send } = await useShop(t)
  t.equal((await send('upsert')).body.data.changed.length, 3)
  t.same((await send('upsert')).body.data, { changed: [] })
  const unknown = (batch: string): string =>
    batch.replace('"quince"', '"fig"').replace('0.48', '0.50')
  t.same(outcomes([await send('upsert', unknown)]), ['409 foreign_key_violation changed'])
  t.same(await service.database.sql`select sku, price, version from offers order by sku`, [
    { sku: 'apple', price: '0.30', version: 2 },
    { sku: 'pear', price: '0.48', version: 1 },
    { sku: 'quince', price: '1.35', version: 1 }
  ])
})

t.test('a cart becomes one order, however many clients order it', async t => {
  const { service, send } = await useShop(t)
  const { sql } = service.database
  const responses = await Promise.all([send('cart-to-order'), send('cart-to-order')])
  t.same(outcomes(responses), ['200', '412 expectation_failed cart'])
  t.same(
    await sql`select sku, qty, (select count(*)::int from cart_items) as left from order_items
      where order_id > 1 order by sku`,
    [{ sku: 'apple', qty: 5, left: 0 }, { sku: 'pear', qty: 2, left: 0 }]
  )
})

t.test('an order is paid once, with its total, and its lines are put in stock once', async t => {
  const { service, send } = await useShop(t)
  const { sql } = service.database
  t.equal((await send('order')).status, 200)
  for (const name of ['pay-order', 'restock']) {
    const answers = await Promise.all([send(name), send(name)])
    t.same(answers.map(({ status }) => status).sort(), [200, 412], name)
  }
  const [bank] = await sql`select balance from accounts where name = 'bank'`
  t.equal(bank?.['balance'], '6.00')
  t.same(await sql`select sku, qty from inventory order by sku`, [
    { sku: 'apple', qty: 13 },
    { sku: 'pear', qty: 0 },
    { sku: 'quince', qty: 3 }
  ])
})

t.test('a price list is applied as a whole', async t => {
  const { service, send } = await useShop(t)
  t.match((await send('price-list')).body.error, { code: 'expectation_failed', op: 'prices' })
  t.equal((await send('upsert')).status, 200)
  const twice = (batch: string): string => batch.replace('"pear"', '"apple"')
  t.match((await send('price-list', twice)).body.error?.errors, [{ code: 'key_duplicate' }])
  t.equal((await send('price-list')).status, 200)
  t.same(await service.database.sql`select sku, price from offers order by sku`, [
    { sku: 'apple', price: '0.36' },
    { sku: 'pear', price: '0.60' },
    { sku: 'quince', price: '1.20' }
  ])
})
