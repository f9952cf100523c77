/**
 * Tests the guarantees of the named batches of the sample shop (deploy/batches), which hold however
 * many requests run at the same time.
 */
import t, { type Test } from 'tap'
import { untilBlocked } from '../support/database/hold.ts'
import { asCustomer, outcomes, useShopService } from '../support/database/shop.ts'
import { retriesOf, type Answer, type ServiceUnderTest } from '../support/service.ts'

interface Shop extends ServiceUnderTest {
  readonly sql: ServiceUnderTest['database']['sql']
  /** Runs a named batch as a customer. */
  readonly send: (name: string, parameters: object, sub?: string) => Promise<Answer>
  readonly untilBlocked: (batches: number) => Promise<unknown>
}

async function useShop (t: Test): Promise<Shop> {
  const service = await useShopService(t, { env: { POOL_SIZE: '8' } })
  const { sql, name } = service.database
  await sql.unsafe(`alter database ${name} set deadlock_timeout = '10ms'`)
  return {
    ...service,
    sql,
    send: (name, parameters, sub) => service.run(name, parameters, { headers: asCustomer(sub) }),
    untilBlocked: batches => untilBlocked(service.database, batches)
  }
}

const balances = ({ sql }: Shop) =>
  sql`select name, balance::float8, (select count(*)::int from transfers) as transfers from accounts
    order by name`

t.test('transfers in both directions neither deadlock nor lose money', async t => {
  const shop = await useShop(t)
  await shop.sql`update accounts set balance = 50`
  const answers = await shop.sql.begin(async blocker => {
    await blocker`select from accounts where name = 'till' for update`
    // Without an order of the locks, each would hold the account that the other one waits for.
    const forth = shop.send('transfer', { from: 'till', to: 'bank', amount: 10.5 })
    await shop.untilBlocked(1)
    const back = shop.send('transfer', { from: 'bank', to: 'till', amount: 0.25 })
    await shop.untilBlocked(2)
    return [forth, back]
  })
  t.same(outcomes(await Promise.all(answers)), ['200', '200'])
  t.same(await retriesOf(shop), {}, 'no batch was retried')
  t.same(await balances(shop), [
    { name: 'bank', balance: 60.25, transfers: 2 },
    { name: 'till', balance: 39.75, transfers: 2 }
  ])
})

t.test('no account is overdrawn, and the sum of all accounts stays', async t => {
  const shop = await useShop(t)
  const answers = await Promise.all(Array.from({ length: 24 }, (_, i) =>
    shop.send('transfer', i % 3 === 0
      ? { from: 'bank', to: 'till', amount: 30 }
      : { from: 'till', to: 'bank', amount: 40 })))
  const applied = answers.filter(({ status }) => status === 200)
  t.same(
    [...new Set(outcomes(answers))],
    ['200', '412 expectation_failed from'],
    'some are refused'
  )
  for (const { body: { data: { from, to } } } of applied) {
    t.ok(from[0].balance >= 0)
    t.equal(from[0].balance + to[0].balance, 100)
  }
  const [bank, till] = await balances(shop)
  t.equal(bank?.['balance'] + till?.['balance'], 100)
  t.ok(bank?.['balance'] >= 0 && till?.['balance'] >= 0)
  t.equal(bank?.['transfers'], applied.length, 'each transfer is recorded')
})

t.test('a transfer needs two accounts of the caller and a valid amount', async t => {
  const shop = await useShop(t)
  await shop.sql`insert into accounts (name, balance, owner) values ('vault', 500, 'bakery')`
  const refused = [
    { from: 'till', to: 'till' },
    { from: 'vault', to: 'till' },
    { from: 'till', to: 'nowhere' }
  ]
  for (const accounts of refused) {
    const { body } = await shop.send('transfer', { ...accounts, amount: 1 })
    t.match(body.error, { code: 'expectation_failed', op: 'accounts' }, JSON.stringify(accounts))
  }
  for (const amount of [0, -5, 0.001, 1_000_000.01, '5', null]) {
    const { body } = await shop.send('transfer', { from: 'till', to: 'bank', amount })
    t.equal(body.error.code, 'params_invalid', String(amount))
    t.same(body.error.errors[0].path, ['amount'])
  }
  t.same(await shop.sql`select sum(balance)::int as sum, count(*)::int as n from accounts`, [
    { sum: 600, n: 3 }
  ])
})

t.test('workers take each job once, and do not wait for each other', async t => {
  const shop = await useShop(t)
  await shop.sql`insert into jobs (task, owner)
    select '{"mail": "offer"}', 'corner-shop' from generate_series(1, 10)`
  await shop.sql`update jobs set attempts = 5 where id = 3`
  const take = (kind = 'mail'): Promise<Answer> => shop.send('take-job', { kind })
  const first = await shop.sql.begin(async blocker => {
    await blocker`select from jobs where id = 2 for update`
    return take() // returns while the other transaction holds its lock
  })
  t.match(first.body.data, { next: 1, job: [{ id: 4, task: { mail: 'offer' }, attempts: 1 }] })
  const answers = await Promise.all(Array.from({ length: 12 }, () => take()))
  const taken = answers.flatMap(({ body }) => body.data.job.map(({ id }: { id: number }) => id))
  t.same(taken.sort((a, b) => a - b), [2, 5, 6, 7, 8, 9, 10, 11, 12, 13])
  t.same((await take()).body.data, { next: 0, job: [] }, 'a job with five attempts stays')
  t.match((await take('print')).body.data.job, [{ id: 1 }])
  t.equal((await take('fax')).body.error.code, 'params_invalid')
  t.same((await shop.send('take-job', { kind: 'mail' }, 'bakery')).body.data.job, [])
})

const order = {
  customer_id: 1,
  account: 'till',
  items: [{ sku: 'apple', qty: 4 }, { sku: 'pear', qty: 1 }]
}
/** What an order changes. */
const stateOf = async ({ sql }: Shop) =>
  (await sql`select
    (select count(*)::int from orders where status = 'paid') as orders,
    (select count(*)::int from order_items) as items,
    (select sum(balance)::float8 from accounts where name = 'till') as tills,
    (select qty from stock where sku = 'apple') as apples,
    (select qty from stock where sku = 'pear') as pears`)[0]
const before = { orders: 1, items: 2, tills: 100, apples: 996, pears: 499 }

t.test('orders take their goods and their money, however many run at once', async t => {
  const shop = await useShop(t)
  t.same(await stateOf(shop), before)
  const { body } = await shop.send('order', order)
  t.same(body.data, {
    customer: 1,
    order: [{ id: 2, status: 'paid' }],
    items: order.items,
    total: [{ order_total: 1.65 }],
    account: [{ name: 'till', balance: 98.35 }]
  })
  // Half of them name the goods in the other order, so that some may deadlock and run again.
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) =>
    shop.send('order', { ...order, items: i % 2 ? order.items.toReversed() : order.items })))
  t.same(outcomes(answers), Array<string>(10).fill('200'))
  t.same(await stateOf(shop), { orders: 12, items: 24, tills: 81.85, apples: 952, pears: 488 })
})

t.test('an order that cannot be delivered or paid changes nothing', async t => {
  const shop = await useShop(t)
  await shop.sql`insert into customers (name, owner) values ('Bakery', 'bakery')`
  const refused = async (change: object, outcome: string): Promise<void> => {
    t.same(outcomes([await shop.send('order', { ...order, ...change })]), [outcome])
    t.same(await stateOf(shop), before, outcome)
  }
  const item = { sku: 'apple', qty: 1 }
  await refused({ customer_id: 2 }, '412 expectation_failed customer')
  await refused({ account: 'bank' }, '412 expectation_failed account')
  await refused({ items: [{ ...item, qty: 997 }] }, '400 check_violation items')
  await refused({ items: [{ ...item, sku: 'fig' }] }, '409 foreign_key_violation items')
  await refused({ items: [item, item] }, '409 unique_violation items')
  for (const wrong of [
    { items: [] },
    { items: [{ ...item, qty: 0 }] },
    { items: [{ ...item, price: 0 }] },
    { items: Array.from({ length: 101 }, () => item) },
    { customer_id: 0 },
    { status: 'shipped' }
  ]) {
    await refused(wrong, '422 params_invalid undefined')
  }
})

t.test('two customers do not order the same goods', async t => {
  const shop = await useShop(t)
  const { sql } = shop
  await sql`insert into customers (name, owner) values ('Bakery', 'bakery')`
  await sql`insert into accounts (name, balance, owner) values ('till', 100, 'bakery')`
  // There are three quinces.
  const items = [{ sku: 'quince', qty: 2 }]
  const answers = await Promise.all([
    shop.send('order', { ...order, items }),
    shop.send('order', { ...order, items, customer_id: 2 }, 'bakery')
  ])
  t.same(outcomes(answers), ['200', '400 check_violation items'])
  t.same(await sql`select qty from stock where sku = 'quince'`, [{ qty: 1 }])
  t.equal((await stateOf(shop))?.['tills'], 197.6)
})
