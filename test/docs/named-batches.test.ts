/**
 * Tests the examples of docs/reference/named-batches.md on the sample shop: beside the files, pairs
 * of blocks are requests and their responses.
 */
import t from 'tap'
import { codeBlocks, compact } from '../support/docs/markdown.ts'
import { readPage } from '../support/docs/pages.ts'
import { asCustomer, useShopService } from '../support/database/shop.ts'

t.test('the examples give the responses of the page', async t => {
  const blocks = codeBlocks(readPage('docs/reference/named-batches.md')).map(({ text }) => text)
  const [transfer, receive, ...more] = blocks.filter(text => text.includes('"operations"'))
    .map(text => JSON.parse(text) as unknown)
  t.same(more, [])
  const service = await useShopService(t, {
    batches: { transfer, receive },
    env: { MAX_UPLOAD_ROWS: '100' }
  })
  const headers = { ...asCustomer(), 'x-request-id': 'docs' }
  const examples = blocks.filter(text => !text.includes('"operations"'))
  t.equal(examples.length, 10)
  for (let i = 0; i < examples.length; i += 2) {
    const [request, response] = examples.slice(i, i + 2) as [string, string]
    const [, upload, type = '', rows = ''] =
      /^POST \/batches\/(\w+) [^\n]*\nContent-Type: (\S+)\n\n(.*)$/s.exec(request) ?? []
    const name = upload ?? (request.includes('"items"') ? 'receive' : 'transfer')
    const answer = upload === undefined
      ? await service.run(name, request, { headers })
      : await service.run(name, rows, { headers: { ...headers, 'content-type': type } })
    t.equal(compact(answer.text), compact(response))
  }
})
