/**
 * Tests the compiled client in Chromium against the service.
 */
import t from 'tap'
import { browserProgram, usePage } from '../support/process/browser.ts'
import { compileClient, useOrigin } from '../support/process/client-browser.ts'
import { needs } from '../support/process/programs.ts'
import { token, useService } from '../support/service.ts'

const title = 'the client runs batches, retries and aborts in a browser'

t.test(...needs(title, { Chromium: browserProgram }), async t => {
  const service = await useService(t, {
    schema: 'create table stock (sku text primary key, qty int8, price numeric)',
    keys: true
  })
  const client = t.testdir()
  await compileClient(client)
  const origin = await useOrigin(t, { client, service: service.url })
  const page = await usePage(t, origin)
  const outcome = await page.evaluate(async ([url = '', token = '']) => {
    const { createClient, $, OneflightError } = await import(
      `${url}/client/index.js`
    ) as typeof import('../../client/src/index.ts')
    interface Database {
      stock: { sku: string, qty: bigint, price: number }
    }
    let calls = 0
    const client = createClient<Database>({
      url: `${url}/batch`,
      token,
      numbers: 'bigint',
      retry: { minDelay: 1 },
      // The first response is lost.
      fetch: async (target, init) => {
        const answer = await fetch(target, init)
        if (++calls === 1) throw new TypeError('Failed to fetch')
        return answer
      }
    })
    const { data, attempts, replayed, requestId } = await client.batch(b => {
      const apple = b.insert('stock', {
        sku: '$apple.0.sku',
        qty: 9007199254740993n,
        price: '1.10'
      }, { expect: 1 })
      const more = b.update('stock', {
        set: { qty: $.inc(1n) },
        where: { sku: { eq: apple.row().sku } },
        returning: ['qty']
      })
      return { apple, more }
    })
    const failed = await client.batch(b =>
      b.insert('stock', { sku: '$apple.0.sku', qty: 1, price: 1 })
    ).catch((error: unknown) => error)
    const controller = new AbortController()
    controller.abort()
    const aborted = await client.batch(b => b.select('stock'), { signal: controller.signal }).catch(
      (error: unknown) => error
    )
    const codes = [failed, aborted].map(error =>
      error instanceof OneflightError ? [error.code, error.committed] : String(error)
    )
    return {
      rows: [data.apple[0], ...data.more].map(row => Object.values(row).map(String)),
      attempts,
      replayed,
      requestId: typeof requestId,
      codes
    }
  }, [origin, token({ role: 'oneflight_user' })])
  t.strictSame(outcome, {
    rows: [['$apple.0.sku', '9007199254740993', '1.10'], ['9007199254740994']],
    attempts: 2,
    replayed: true,
    requestId: 'string',
    codes: [['unique_violation', false], ['aborted', false]]
  })
})
