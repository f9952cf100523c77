/**
 * Tests docs/internals/how-it-works.md: scripts/timeline.ts draws the diagram with the measured
 * round trips, and the SQL has the described effect on the sample shop.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readRecord } from '../../bench/record.ts'
import { awaited, batch, countRoundTrips, drawTimeline, file } from '../../scripts/timeline.ts'
import { useShop } from '../support/docs/commands.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'

const page = readPage('docs/internals/how-it-works.md')

t.test('the diagram is up to date', async t => {
  const directory = t.testdir()
  t.equal(
    spawnSync(process.execPath, [join(root, 'scripts/timeline.ts')], { cwd: directory }).status,
    0
  )
  t.equal(readFileSync(join(directory, file), 'utf8'), drawTimeline())
  t.equal(readFileSync(join(root, file), 'utf8'), drawTimeline(), 'run "node scripts/timeline.ts"')
  t.ok(page.includes(file.replace('docs/internals/', '')))
})

t.test('the diagram shows the measured round trips', async t => {
  const [one, many] = ['postgres.js, awaiting', 'Oneflight'].map(name =>
    readRecord().wire.find(row => row.name === name && row.work === 'invoice')
  )
  const { roundTrips, underLock } = countRoundTrips(batch)
  t.same(countRoundTrips(awaited), { roundTrips: one?.roundTrips, underLock: one?.underLock })
  t.equal(underLock, many?.underLock)
  t.equal(roundTrips, many?.afterBatch)
})

t.test('the SQL has the described effect', async t => {
  const { database: { sql } } = await useShop(t)
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
      { name: 'Corner Shop', owner: 'corner-shop', status: 'open' },
      { name: 'Bakery', owner: 'corner-shop', status: 'open' }
    ].map((row, i) => i === 0 ? { ...row, status: 'paid' } : row)
  )
})
