/**
 * Tests the examples of docs/reference/named-batches.md on the sample shop: the first block is the
 * file, each pair of blocks after it is a request and its response.
 */
import t from 'tap'
import { codeBlocks, compact } from '../support/docs/markdown.ts'
import { readPage } from '../support/docs/pages.ts'
import { asCustomer, useShopService } from '../support/database/shop.ts'

t.test('the examples give the responses of the page', async t => {
  const [file, ...blocks] = codeBlocks(readPage('docs/reference/named-batches.md'))
    .map(({ text }) => text)
  const service = await useShopService(t, {
    batches: { transfer: JSON.parse(file as string) as unknown }
  })
  const headers = { ...asCustomer(), 'x-request-id': 'docs' }
  t.equal(blocks.length, 4)
  for (let i = 0; i < blocks.length; i += 2) {
    const [request, response] = blocks.slice(i, i + 2) as [string, string]
    const answer = await service.run('transfer', request, { headers })
    t.equal(compact(answer.text), compact(response))
  }
})
