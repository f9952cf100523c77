/**
 * Tests that the objects of a batch are garbage as soon as it has ended, also for minor
 * collections, which do not look at the old generation.
 */
import t from 'tap'
import { readMetric } from '../experiments/own-server.ts'
import { useDatabase } from '../support/database/database.ts'
import * as op from '../support/operations.ts'
import { useRestartableService } from '../support/process/restartable-service.ts'
import { headersOfBatch } from '../support/shorthand.ts'

t.test('only small objects, those of the driver, outlive a batch', async t => {
  const database = await useDatabase(t, { schema: 'create table notes (text text)' })
  const service = await useRestartableService(t, {
    DATABASE_URL: database.loginUrl,
    // A minor collection after a few dozen batches.
    NODE_OPTIONS: '--max-semi-space-size=1'
  })
  const text = 'x'.repeat(15_000)
  const request = {
    method: 'POST',
    headers: headersOfBatch(),
    body: JSON.stringify([op.select('found', 'notes', { where: { text: { eq: text } } })])
  }
  const oldBytesAfter = async (batches: number): Promise<number> => {
    for (let i = 0; i < batches; i++) t.equal((await fetch(service.url, request)).status, 200)
    return readMetric(service, 'nodejs_heap_space_size_used_bytes', 'space="old"')
  }
  const before = await oldBytesAfter(500)
  const batches = 200
  const kept = (await oldBytesAfter(batches) - before) / batches
  // A major collection in the meantime makes it less.
  t.ok(kept < text.length, `${kept} bytes of each batch`)
})
