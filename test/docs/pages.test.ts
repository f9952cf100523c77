/**
 * Sends the requests of pages to the sample shop and compares the responses with the printed ones.
 * A request is a batch, the parameters of a named batch, or an HTTP message. A status line above a
 * response repeats the request before.
 */
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { asCustomer } from '../support/database/shop.ts'
import { settleJson, useShop } from '../support/docs/commands.ts'
import { readBlocks, readPage } from '../support/docs/pages.ts'
import type { UseServiceOptions } from '../support/service.ts'

const isFile = (text: string): boolean => text.includes('"operations"')

interface Page {
  readonly path: string
  /** Returns the name of the named batch that takes parameters. */
  readonly nameOf?: (parameters: string) => string
  /** Returns options of the service. `files`: the named batches of the page. */
  readonly optionsOf?: (files: readonly unknown[]) => Omit<UseServiceOptions, 'schema'>
  /** Each request finds the shop as it was at first. */
  readonly isReset?: boolean
}

const pages: readonly Page[] = [
  { path: 'README.md', nameOf: () => 'order', isReset: true },
  { path: 'docs/guides/coming-from.md' },
  {
    path: 'docs/reference/named-batches.md',
    nameOf: text => text.includes('"items"') ? 'receive' : 'transfer',
    optionsOf: ([transfer, receive]) => ({
      batches: { transfer, receive },
      env: { MAX_UPLOAD_ROWS: '100', ERROR_VERBOSITY: 'terse' }
    })
  }
]

interface Exchange {
  readonly path: string
  readonly type: string
  readonly body: string
  /** The printed status line. */
  readonly head?: string
  readonly answer: string
}

function readExchanges (page: string, nameOf: (parameters: string) => string): Exchange[] {
  const found: Exchange[] = []
  let next: Omit<Exchange, 'answer'> = { path: '/', type: 'application/json', body: '' }
  for (const { language, text, check } of readBlocks(page)) {
    if (check !== undefined || isFile(text)) continue
    const type = /\nContent-Type: (\S+)/.exec(text)?.[1] ?? 'application/json'
    const [, path] = /^POST (\/(?:batches\/\w+)?) /.exec(text) ?? []
    if (language === 'http' && path !== undefined) {
      next = { path, type, body: text.slice(text.indexOf('\n\n') + 2) }
    } else if (language === 'http' && text.startsWith('HTTP/1.1 ')) {
      next = { ...next, head: text.split('\n')[0] as string }
    } else if (language === 'json' && /^\{\s*"error": /.test(text)) {
      found.push({ ...next, answer: text })
    } else if (language === 'json') {
      next = { path: text.startsWith('[') ? '/' : `/batches/${nameOf(text)}`, type, body: text }
    }
  }
  return found
}

for (const { path, nameOf = () => '', optionsOf = () => ({}), isReset = false } of pages) {
  t.test(path, async t => {
    const page = readPage(path)
    const files = readBlocks(page).filter(({ text }) => isFile(text))
    const start = () => useShop(t, optionsOf(files.map(({ text }) => JSON.parse(text))))
    const exchanges = readExchanges(page, nameOf)
    t.not(exchanges.length, 0)
    let service = await start()
    for (const [i, { path, type, body, head, answer }] of exchanges.entries()) {
      if (isReset && i > 0) service = await start()
      const headers = { ...asCustomer(), 'x-request-id': 'docs', 'content-type': type }
      const sent = path === '/'
        ? await service.post(body, { headers })
        : await service.run(path.replace('/batches/', ''), body, { headers })
      if (head !== undefined) t.equal(`HTTP/1.1 ${sent.status} ${STATUS_CODES[sent.status]}`, head)
      t.equal(settleJson(sent.text), settleJson(answer), body.slice(0, 80))
    }
  })
}
