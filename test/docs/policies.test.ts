/**
 * Tests docs/guides/row-level-security.md: its SQL creates the database, the service uses its login
 * role, and its batches return the printed responses. Tests that the tests named in
 * docs/operations/security.md exist.
 */
import { existsSync, readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { withAdmin } from '../support/database/database.ts'
import { codeBlocks, compact, type CodeBlock } from '../support/docs/markdown.ts'
import { makeKeyTable, token, useService } from '../support/service.ts'

interface Example {
  readonly heading: string
  /** The name of the payload for the token; undefined for a request without token. */
  readonly bearer: string | undefined
  readonly batch: string
  /** The printed status line and headers. */
  head: readonly string[]
  answer: string
}

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/**
 * A suffix for role names. Roles belong to the cluster, which concurrent runs of the suite may
 * share.
 */
const suffix = `${process.pid}_${Date.now().toString(36)}`
const rename = (text: string): string =>
  text.replace(/\b(oneflight|shop_(?:guest|member|auditor))\b/g, `$1_${suffix}`)

const major = await withAdmin(async sql =>
  Math.floor(Number((await sql`show server_version_num`)[0]?.['server_version_num']) / 10_000)
)
/** The blocks of the page; `security_invoker` views need PostgreSQL 15. */
const page = read('docs/guides/row-level-security.md')
const blocks = codeBlocks(page).filter(({ heading }) =>
  major >= 15 || heading !== 'Views'
)
const schema = rename(
  blocks.filter(({ language }) => language === 'sql').map(({ text }) => text).join('\n')
)
const roles = Array.from(schema.matchAll(/^create role (\w+)/gm), ([, name]) => name as string)
const payloads = JSON.parse(blocks.find(isPayloads)?.text ?? '{}') as Readonly<
  Record<string, Readonly<Record<string, unknown>>>
>
const examples = readExamples()

function isPayloads ({ language, text }: CodeBlock): boolean {
  return language === 'json' && text.startsWith('{\n  "corner-shop"')
}

/** Reads the headers of the request, the batch, optional response headers and the response. */
function readExamples (): readonly Example[] {
  const found: Example[] = []
  let request: string | undefined
  for (const block of blocks) {
    const { language, text, heading } = block
    const last = found.at(-1)
    if (language === 'http' && text.startsWith('HTTP/1.1 ') && last !== undefined) {
      last.head = text.split('\n')
    } else if (language === 'http') request = text
    else if (language === 'json' && text.startsWith('[')) {
      if (request === undefined) throw new Error(`no request headers above ${text}`)
      found.push({
        heading,
        bearer: /^Authorization: Bearer <(.+)>$/.exec(request)?.[1],
        batch: text,
        head: ['HTTP/1.1 200 OK'],
        answer: ''
      })
      request = undefined
    } else if (language === 'json' && last !== undefined) last.answer = text
  }
  return found
}

// Teardown handlers run in reverse order, so the databases that refer to the roles are already
// dropped.
t.teardown(() => withAdmin(sql => sql.unsafe(`drop role if exists ${roles.join()}`)))

const login = (url: string): string =>
  Object.assign(new URL(url), { username: rename('oneflight'), password: 'change-me' }).href

t.test('the examples return the printed responses', async t => {
  const service = await useService(t, {
    schema,
    env: { ANON_ROLE: rename('shop_guest') },
    databaseUrl: login
  })
  t.not(examples.length, 0)
  for (const { heading, bearer, batch, head, answer } of examples) {
    const name = `${heading}: ${bearer ?? 'no token'} ${compact(batch).slice(0, 60)}`
    if (bearer !== undefined) t.hasProp(payloads, bearer)
    const authorization = bearer === undefined
      ? {}
      : { authorization: `Bearer ${token(JSON.parse(rename(JSON.stringify(payloads[bearer]))))}` }
    const { status, headers, text } = await service.post(batch, {
      role: null,
      headers: { 'x-request-id': 'docs', ...authorization }
    })
    t.equal(`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, head[0], `${name}, status`)
    for (const [header = '', value] of head.slice(1).map(line => line.split(': '))) {
      t.equal(headers.get(header), value, `${name}, ${header}`)
    }
    t.equal(compact(text), compact(answer), name)
  }
})

t.test('with the setting of the page, a key of one tenant is free in another', async t => {
  const [, name = '', scope = ''] = /`(IDEMPOTENCY_SCOPE)=([^`]+)`/.exec(page) ?? []
  const service = await useService(t, { schema, env: { [name]: scope }, databaseUrl: login })
  await makeKeyTable({ ...service.database, login: rename('oneflight') })
  const send = async (tenant: string): Promise<string> => {
    const claims = { ...payloads['bakery'], app_metadata: { tenant } }
    const authorization = `Bearer ${token(JSON.parse(rename(JSON.stringify(claims))))}`
    const { text } = await service.post(
      [{ id: 'i', op: 'insert', table: 'invoices', values: [{ total: 1 }], returning: ['tenant'] }],
      { role: null, headers: { 'idempotency-key': 'k', authorization } }
    )
    return text
  }
  for (const tenant of ['bakery', 'corner-shop', 'bakery', 'corner-shop']) {
    t.equal(await send(tenant), `{"error":null,"data":{"i":[{"tenant":"${tenant}"}]}}`)
  }
  t.equal((await service.database.sql`select from invoices`).length, 2)
})

t.test('claims in a subquery are read once per statement', async t => {
  const { database: { sql } } = await useService(t, { schema })
  const plan = await sql.begin(async sql => {
    await sql.unsafe(`set local role ${rename('shop_member')}`)
    return sql.unsafe('explain (verbose, costs off) select * from lines')
  })
  t.match(plan.map(row => row['QUERY PLAN']).join('\n'), /InitPlan[^]*claims/)
})

t.test('the tests named in security.md exist', async t => {
  const page = read('docs/operations/security.md')
  const named = new Set(page.match(/(?<=`)test\/[\w/-]+\.test\.ts(?=`)/g))
  t.not(named.size, 0)
  for (const name of named) t.ok(existsSync(new URL(`../../${name}`, import.meta.url)), name)
})
