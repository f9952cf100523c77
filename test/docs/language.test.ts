/**
 * Runs every example of the language reference on its sample data and compares the response with
 * the printed one. Checks that every member, operator, modifier and preference has an example.
 */
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { IssueCode } from '../../schemas/error.ts'
import { maxFilterDepth } from '../../schemas/filter.ts'
import { modifiers } from '../../schemas/modifier.ts'
import { maxFirstReferences } from '../../schemas/operand.ts'
import {
  maxAllNestedReads,
  maxColumns,
  maxDepth,
  memberKinds,
  OnConflict
} from '../../schemas/operation.ts'
import { operators, type Operator } from '../../schemas/operator.ts'
import { preferenceItems } from '../../schemas/prefer.ts'
import { maxFirsts } from '../../src/plan/context.ts'
import { maxGroups, maxRepetition } from '../../src/plan/values.ts'
import { units } from '../../src/plan/work.ts'
import { MAX_LISTS } from '../../src/sql/statement/shared-results.ts'
import { codeBlocks, compact } from '../support/docs/markdown.ts'
import { readLanguage } from '../support/docs/pages.ts'
import { useService } from '../support/service.ts'

interface Example {
  readonly heading: string
  readonly sameData: boolean
  readonly prefer?: string
  readonly batch: string
  /** The printed status line and headers. */
  head: readonly string[]
  answer?: string
}

const page = readLanguage()
const blocks = codeBlocks(page)
const [tables = '', rows = ''] = blocks
  .filter(({ language }) => language === 'sql')
  .map(({ text }) => text)
const examples = readExamples()

/** Reads an optional `Prefer` header, the batch, optional response headers and the response. */
function readExamples (): readonly Example[] {
  const found: Example[] = []
  let prefer: string | undefined
  for (const { language, text, heading, lead } of blocks) {
    const last = found.at(-1)
    if (language === 'http' && text.startsWith('Prefer: ')) prefer = text.slice('Prefer: '.length)
    else if (language === 'http' && last !== undefined) last.head = text.split('\n')
    else if (language === 'json' && text.startsWith('[')) {
      found.push({
        heading,
        sameData: lead === 'Then, on the same data:',
        ...prefer === undefined ? {} : { prefer },
        batch: text,
        head: ['HTTP/1.1 200 OK']
      })
      prefer = undefined
    } else if (language === 'json' && last !== undefined) last.answer = text
  }
  return found
}

t.test('the examples return the printed responses', async t => {
  const service = await useService(t, {
    schema: `${tables}; grant all on all tables in schema public to oneflight_user`
  })
  const { sql } = service.database
  const names = (await sql`select relname from pg_class where relnamespace = 'public'::regnamespace
      and relkind = 'r'`)
    .map(({ relname }) => relname as string)
  for (const { heading, sameData, prefer, batch, head, answer } of examples) {
    if (!sameData) await sql.unsafe(`truncate ${names.join()} restart identity; ${rows}`)
    const { status, headers, text } = await service.post(batch, {
      headers: { 'x-request-id': 'docs', ...prefer === undefined ? {} : { prefer } }
    })
    const name = `${heading}: ${compact(batch).slice(0, 60)}`
    const [, ...expected] = head.map(line => line.split(': '))
    t.equal(`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, head[0], `${name}, status`)
    for (const [header = '', value] of expected) {
      t.equal(headers.get(header), value, `${name}, ${header}`)
    }
    t.equal(compact(text), compact(answer ?? ''), name)
  }
})

t.test('every member, operator, modifier and preference has an example', async t => {
  const used = new Set<string>()
  for (const { batch } of examples) {
    JSON.parse(batch, (key, value: unknown) => {
      used.add(key)
      return value
    })
  }
  const words = [
    memberKinds.keys(),
    Object.keys(OnConflict.properties),
    Object.keys(operators),
    Object.keys(modifiers)
  ].flatMap(names => [...names])
  for (const word of words) t.ok(used.has(word), word)
  for (const name of preferenceItems.keys()) {
    t.ok(examples.some(({ prefer }) => prefer?.split(/[=, ]+/).includes(name)), name)
  }
})

t.test('issue codes, limits and constant operators are those of the schemas', async t => {
  const rowsOf = (heading: string) =>
    (page.split(`\n## ${heading}\n`)[1] ?? '').split('\n## ')[0]?.match(/^\| .*(?= \|$)/gm)?.map(
      row => row.slice(2).split(' | ')
    ) ?? []
  t.same(
    rowsOf('Errors').slice(2).map(([code]) => code),
    IssueCode.anyOf.map(({ const: code }) => `\`${code}\``),
    'every issue code'
  )
  const limits = rowsOf('Limits').map(([, most = '']) => parseInt(most, 10)).filter(most =>
    !isNaN(most)
  )
  t.same(limits, [
    maxColumns,
    maxFilterDepth,
    maxAllNestedReads,
    maxDepth,
    maxGroups,
    maxRepetition,
    MAX_LISTS,
    maxFirstReferences,
    maxFirsts,
    maxDepth
  ])
  t.same(rowsOf('Work').slice(2).map(([, count]) => Number(count)), Object.values(units))
  const all: ReadonlyArray<readonly [string, Operator]> = Object.entries(operators)
  const constant = all.flatMap(([name, operator]) =>
    operator.constant === true ? [`\`${name}\``] : []
  )
  t.match(
    page.replaceAll('\n', ' '),
    `constants and the operators ${constant.slice(0, -1).join(', ')} and ${constant.at(
      -1
    ) as string}:`
  )
})
