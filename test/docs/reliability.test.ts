/**
 * Tests docs/operations/reliability.md: the curl command returns the printed response, once and
 * again, and the table of retries has the codes of the service.
 */
import { readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { catalogue } from '../../src/errors/catalogue.ts'
import { conditions } from '../../src/errors/conditions.ts'
import { CUSTOMER, useShopService } from '../support/database/shop.ts'
import { codeBlocks, compact, type CodeBlock } from '../support/docs/markdown.ts'
import { token } from '../support/service.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const page = read('docs/operations/reliability.md')
const blocks = codeBlocks(page)

const CURL =
  /^curl -i http:\/\/127\.0\.0\.1:4000 ((?:-H (?:'[^']*'|"[^"]*") )+)-d @(examples\/[a-z-]+\.json)$/

/** Reads headers and file from a curl command. Throws an Error for any other command. */
function readCurl (
  line: string
): { readonly headers: Record<string, string>, readonly file: string } {
  const [, sent = '', file = ''] = CURL.exec(line.replace(/\s*\\\n\s*/g, ' ')) ?? []
  if (file === '') throw new Error(`unexpected curl command: ${line}`)
  const headers: Record<string, string> = {}
  for (const [, name = '', value = ''] of sent.matchAll(/-H ['"](.*?): (.*?)['"] /g)) {
    // The customer of the token that `npm run dev` prints.
    headers[name.toLowerCase()] = value.replace('$ONEFLIGHT_TOKEN', token(CUSTOMER))
  }
  return { headers, file }
}

t.test('the curl command returns the printed response, and again with the header', async t => {
  const service = await useShopService(t, { keys: true })
  const printed = (language: string): readonly CodeBlock[] =>
    blocks.filter(block => block.language === language)
  const [[command], heads, [answer]] = [printed('sh'), printed('http'), printed('json')]
  const { headers, file } = readCurl((command as CodeBlock).text)
  t.equal(heads.length, 2)
  for (const [i, head] of heads.entries()) {
    const { status, headers: sent, text } = await service.post(read(file), { role: null, headers })
    const [first, ...fields] = head.text.split('\n')
    t.equal(`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, first)
    const replayed = sent.get('idempotent-replayed')
    t.same(fields, replayed === null ? [] : [`Idempotent-Replayed: ${replayed}`])
    t.equal(compact(text), compact((answer as CodeBlock).text), `attempt ${i}`)
  }
  const [counted] = await service.database.sql`select count(*)::int as transfers from transfers`
  t.same(counted, { transfers: 1 }, 'the second one transfers no money')
})

/** Returns the cells of the table whose header begins with `head`, by row. */
function tableOf (head: string): ReadonlyArray<readonly string[]> {
  const [, , ...rows] =
    page.slice(page.indexOf(`\n| ${head} |`) + 1).split('\n\n')[0]?.split('\n') ?? []
  return rows.map(row => row.split('|').slice(1, -1).map(cell => cell.trim()))
}

/** Words in backticks. */
const quoted = (text: string): readonly string[] =>
  Array.from(text.matchAll(/`([^`]+)`/g), ([, word]) => word as string)

t.test('the table of retries lists every code that may be retried, with its status', async t => {
  const rows = tableOf('Status and code')
  const known = new Map<string, number | undefined>([
    ...Array.from(conditions.values(), name => [name, undefined] as const),
    ...Object.entries(catalogue).map(([code, { status }]) => [code, status] as const)
  ])
  const named = new Map(
    rows.flatMap(([first = '']) => quoted(first).map(code => [code, first] as const))
  )
  t.not(named.size, 0)
  for (const [code, cell] of named) {
    t.ok(known.has(code), code)
    const status = known.get(code)
    if (status !== undefined) {
      t.match(cell, new RegExp(`\\b${status}\\b`), `${code} has status ${status}`)
    }
  }
  const expected = Object.entries(catalogue).filter(([, { status }]) =>
    status >= 500 || status === 409 || status === 408
  )
  for (const [code] of expected) t.ok(named.has(code), `${code} is in the table`)
  const statuses = new Set(
    rows.flatMap(([first = '']) => first.match(/\b[45]\d\d\b/g) ?? []).map(Number)
  )
  for (const [code, { status }] of Object.entries(catalogue)) {
    t.ok(statuses.has(status) || code === 'client_closed_request', `${code}, ${status}`)
  }
})
