/**
 * Tests docs/internals/how-it-works.md: the diagram has the measured round trips, and the SQL the
 * described effect on the sample shop.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readRecord } from '../../bench/record.ts'
import { useShopDatabase } from '../support/database/shop.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'

const page = readPage('docs/internals/how-it-works.md')

t.test('the diagram shows the measured round trips', async t => {
  const file = 'how-it-works/timeline.svg'
  t.ok(page.includes(file))
  const diagram = readFileSync(join(root, 'docs/internals', file), 'utf8')
  const [one, many] = ['postgres.js, awaiting', 'Oneflight'].map(name =>
    readRecord().wire.find(row => row.name === name && row.work === 'invoice')
  )
  t.match(diagram, `Each statement awaited: ${one?.roundTrips} round trips<`)
  t.match(diagram, `lock held: ${one?.underLock} round trips<`)
  t.same([many?.afterBatch, many?.underLock], [1, 0])
  t.match(diagram, 'One batch: 1 round trip<')
  t.match(diagram, 'lock held: no round trip<')
})

t.test('the SQL has the described effect', async t => {
  const { sql } = await useShopDatabase(t)
  const text = readBlocks(page).find(({ language }) => language === 'sql')?.text ?? ''
  const connection = await sql.reserve()
  await connection.unsafe(text)
  const [settings] = await connection`select current_setting('oneflight.r0_0', true) as value,
    current_setting('role') as role`
  connection.release()
  t.same(settings, { value: '', role: 'none' }, 'settings end with the transaction')
  t.same(
    await sql`select c.name, c.owner, o.status from orders as o join customers as c
      on c.id = o.customer_id order by o.id`,
    [
      { name: 'Corner Shop', owner: 'corner-shop', status: 'paid' },
      { name: 'Bakery', owner: 'corner-shop', status: 'open' }
    ]
  )
})
