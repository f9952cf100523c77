/**
 * Tests docs/operations/reliability.md: the table of retries has the codes of the service.
 */
import t from 'tap'
import { catalogue } from '../../src/errors/catalogue.ts'
import { conditions } from '../../src/errors/conditions.ts'
import { readPage } from '../support/docs/pages.ts'

const page = readPage('docs/operations/reliability.md')

/** Returns the cells of the table whose header begins with `head`, by row. */
function tableOf (head: string): ReadonlyArray<readonly string[]> {
  const [, , ...rows] =
    page.slice(page.indexOf(`\n| ${head} |`) + 1).split('\n\n')[0]?.split('\n') ?? []
  return rows.map(row => row.split('|').slice(1, -1).map(cell => cell.trim()))
}

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
