/**
 * Runs every example of the language reference on its sample data and compares the response with
 * the printed one: once as it is printed, and once built with the client, which must send the
 * printed batch. Checks that every member, operator, modifier and preference has an example.
 */
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import {
  $,
  OneflightError,
  type AnyDatabase,
  type Batch,
  type BatchOptions
} from '../../client/src/index.ts'
import { IssueCode } from '../../schemas/error.ts'
import { modifiers } from '../../schemas/modifier.ts'
import { memberKinds, OnConflict } from '../../schemas/operation.ts'
import { operators, type Operator } from '../../schemas/operator.ts'
import { preferenceItems } from '../../schemas/prefer.ts'
import { useClient } from '../support/client.ts'
import { compact, readBlocks, readLanguage } from '../support/docs/pages.ts'
import { useService } from '../support/service.ts'

interface Example {
  readonly heading: string
  readonly prefer?: string
  readonly batch: string
  /** The printed status line and headers. */
  head: readonly string[]
  answer?: string
}

const page = readLanguage()
const blocks = readBlocks(page)
const [tables = '', rows = ''] = blocks
  .filter(({ language }) => language === 'sql')
  .map(({ text }) => text)
const examples = readExamples()

/** Reads an optional `Prefer` header, the batch, optional response headers and the response. */
function readExamples (): readonly Example[] {
  const found: Example[] = []
  let prefer: string | undefined
  for (const { language, text, heading } of blocks) {
    const last = found.at(-1)
    if (language === 'http' && text.startsWith('Prefer: ')) prefer = text.slice('Prefer: '.length)
    else if (language === 'http' && last !== undefined) last.head = text.split('\n')
    else if (language === 'json' && text.startsWith('[')) {
      found.push({
        heading,
        ...prefer === undefined ? {} : { prefer },
        batch: text,
        head: ['HTTP/1.1 200 OK']
      })
      prefer = undefined
    } else if (language === 'json' && last !== undefined) last.answer = text
  }
  return found
}

const service = await useService(t, {
  schema: `${tables}; grant all on all tables in schema public to oneflight_user`
})
const { sql } = service.database
const names = (await sql`select relname from pg_class where relnamespace = 'public'::regnamespace
    and relkind = 'r'`)
  .map(({ relname }) => relname as string)

async function resetData (): Promise<void> {
  await sql.unsafe(`truncate ${names.join()} restart identity; ${rows}`)
}

t.test('the examples return the printed responses', async t => {
  for (const example of examples) {
    const { heading, prefer, batch, head, answer } = example
    await resetData()
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

t.test('every example has a plan without internals of the service', async t => {
  // More than 200 runs of rows with the same columns use another statement.
  const values = Array.from(
    { length: 201 },
    (_, i) => i % 2 === 0 ? { sku: `s${i}`, qty: i } : { sku: `s${i}` }
  )
  const many = JSON.stringify([{ id: 'i', op: 'insert', table: 'stock', values }])
  const { post } = await service.useAnother(t, { env: { EXPLAIN: 'on' } })
  await resetData()
  let explained = 0
  for (const batch of [...examples.map(({ batch }) => batch), many]) {
    const { status, text, body } = await post(batch, { headers: { prefer: 'explain' } })
    t.ok(status < 500, `${status}: ${batch.slice(0, 60)}`)
    t.notMatch(text, /oneflight-[0-9a-f]{8}|oneflight\.[a-z]+_[0-9a-f]{8}/)
    if (status !== 200) continue
    explained++
    for (const plan of Object.values(body.data as Record<string, ReadonlyArray<object>>)) {
      t.same(Object.keys(plan[0] as object), ['Plan'])
    }
  }
  t.ok(explained > 0.8 * examples.length, `${explained} of ${examples.length}`)
})

/** The heading of an example that the client cannot send: an unknown preference. */
const NOT_IN_CLIENT = 'Strict handling'

type Operations = ReadonlyArray<Readonly<Record<string, unknown>>>
interface Built {
  row(index?: number): Readonly<Record<string, unknown>>
  readonly rows: Readonly<Record<string, unknown>>
}

/** Builds a printed batch with the client. The member names of the result are the operation ids. */
function rebuild (operations: Operations, b: Batch<AnyDatabase>): Readonly<Record<string, Built>> {
  const built: Record<string, Built> = {}
  const add = b as unknown as Readonly<Record<string, (...args: readonly unknown[]) => Built>>
  for (const { id, op, table, function: name, when, ...members } of operations) {
    const options: Record<string, unknown> = {}
    for (const [member, value] of Object.entries(members)) {
      options[member] = rebuildValue(value, built)
    }
    if (when !== undefined) {
      options['when'] = Object.entries(when as object).map(([id, count]) =>
        [built[id], count as unknown]
      )
    }
    const { values, args, ...rest } = options
    const parameters = {
      call: [name, args, rest],
      insert: values === undefined ? [table, rest] : [table, values, rest]
    }[op as string] ?? [table, options]
    const method = op === 'insert' && values === undefined ? 'insertFrom' : op as string
    built[id as string] = add[method]?.(...parameters) as Built
  }
  return built
}

/** Replaces references and modifiers by those of the client, which marks data itself. */
function rebuildValue (value: unknown, built: Readonly<Record<string, Built>>): unknown {
  if (typeof value === 'string') return rebuildText(value, built)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(item => rebuildValue(item, built))
  if ('$value' in value) return value.$value
  const entries = Object.entries(value).map(([key, inner]) =>
    [key, rebuildValue(inner, built)] as const
  )
  const [[word, operand] = [], ...others] = entries
  if (word === undefined || others.length > 0) return Object.fromEntries(entries)
  if (word === '$first') return $.first(...operand as Parameters<typeof $.first>)
  const modifier = word === 'any' || word === 'all' ? word : /^\$(\w+)$/.exec(word)?.[1]
  return modifier === undefined
    ? { [word]: operand }
    : ($ as unknown as Readonly<Record<string, (operand: unknown) => unknown>>)[modifier]?.(operand)
}

function rebuildText (text: string, built: Readonly<Record<string, Built>>): unknown {
  const [, id = '', row = '0', column] =
    /^\$([A-Za-z_]\w*)(?:\.(\*|\d+))?(?:\.(.+))?$/.exec(text) ?? []
  const operation = built[id]
  if (operation === undefined) return text.replace(/^\$\$/, '$')
  const source = row === '*' ? operation.rows : operation.row(Number(row))
  return column === undefined ? source : source[column]
}

function optionsOf (prefer = ''): BatchOptions {
  const words = new Map(prefer.split(', ').map(word => {
    const [name = '', value] = word.split('=')
    return [name, value]
  }))
  const isolation = words.get('isolation') as BatchOptions['isolation']
  return {
    ...words.get('tx') === 'rollback' && { dryRun: true },
    ...words.get('access') === 'read-only' && { readOnly: true },
    ...words.get('return') === 'minimal' && { return: 'minimal' },
    ...isolation !== undefined && { isolation },
    ...words.has('timing') && { timing: true },
    ...words.has('explain') && { explain: true }
  }
}

/** Adds the row index 0 to references without one, as the client does. Leaves `$$` unchanged. */
const longForm = (batch: string): string => batch.replace(
  /"\$(\w+)(\.\w+)?"(?!:)/g,
  (text, op: string, rest = '') => /\.\d/.test(rest as string) ? text : `"$${op}.0${String(rest)}"`
)

t.test('the client sends the printed batches and returns the printed responses', async t => {
  let body = ''
  const client = useClient<AnyDatabase>(service, {
    idempotency: false,
    fetch: async (url, init) => {
      body = String(init.body)
      return fetch(url, init)
    }
  })
  for (const example of examples.filter(({ heading }) => heading !== NOT_IN_CLIENT)) {
    const { heading, batch, prefer, answer = '' } = example
    await resetData()
    const outcome: unknown = await client.batch(
      b => rebuild(JSON.parse(batch) as Operations, b) as Record<string, never>,
      { ...optionsOf(prefer), requestId: 'docs' }
    ).catch((error: unknown) => error)
    const name = `${heading}: ${compact(batch).slice(0, 60)}`
    t.same(JSON.parse(body), JSON.parse(longForm(batch)), `${name}: the batch`)
    const { error, data } = JSON.parse(answer) as { error: object | null, data: object | null }
    if (error === null) t.same((outcome as { data: unknown }).data, data, `${name}: the response`)
    else {
      t.ok(outcome instanceof OneflightError, name)
      const { request_id: requestId, ...expected } = error as Readonly<Record<string, unknown>>
      t.match(outcome, { ...expected, requestId }, `${name}: the error`)
    }
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

t.test('issue codes and constant operators are those of the schemas', async t => {
  const section = page.split('# Issue codes\n')[1]?.split(/\n##+ /)[0] ?? ''
  t.same(
    Array.from(section.matchAll(/^\| `(\w+)` \|/gm), ([, code]) => code),
    IssueCode.anyOf.map(({ const: code }) => code)
  )
  const constant = Object.entries<Operator>(operators).filter(([, { constant }]) => constant)
  t.match(
    page.replace('operators\n', 'operators ').replace(' and `is`:', ', `is`:'),
    `constants and the operators ${constant.map(([name]) => `\`${name}\``).join(', ')}:`
  )
})
