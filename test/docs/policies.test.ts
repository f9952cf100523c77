/**
 * docs/guides/row-level-security.md: its SQL makes the database, its login role is the one the
 * service uses, and its batches answer as printed. Of docs/operations/security.md: the tests that
 * it names exist.
 */
import { existsSync, readFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import t from 'tap'
import { withAdmin } from '../support/database/database.ts'
import { codeBlocks, compact, type CodeBlock } from '../support/docs/markdown.ts'
import { token, useService } from '../support/service.ts'

interface Example {
  readonly heading: string
  /** Whose token it is sent with; undefined: none. */
  readonly bearer: string | undefined
  readonly batch: string
  /** Status line and headers, as printed. */
  head: readonly string[]
  answer: string
}

const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

/**
 * Roles belong to the cluster, which other runs of the suite may share: every name gets a suffix of
 * this run.
 */
const suffix = `${process.pid}_${Date.now().toString(36)}`
const ours = (text: string): string =>
  text.replace(/\b(oneflight|shop_(?:guest|member|auditor))\b/g, `$1_${suffix}`)

const major = await withAdmin(async sql =>
  Math.floor(Number((await sql`show server_version_num`)[0]?.['server_version_num']) / 10_000)
)
/** Views with `security_invoker` exist from PostgreSQL 15 on. */
const blocks = codeBlocks(read('docs/guides/row-level-security.md')).filter(({ heading }) =>
  major >= 15 || heading !== 'Views'
)
const schema = ours(
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

/** The head of a request, the batch, an optional head of the answer, the answer. */
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
      if (request === undefined) throw new Error(`who sends this? ${text}`)
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

// Handlers run from the last to the first: the databases, in which the roles have privileges, are
// dropped by then.
t.teardown(() => withAdmin(sql => sql.unsafe(`drop role if exists ${roles.join()}`)))

t.test('the examples', async t => {
  const login = (url: string): string =>
    Object.assign(new URL(url), { username: ours('oneflight'), password: 'change-me' }).href
  const service = await useService(t, {
    schema,
    env: { ANON_ROLE: ours('shop_guest') },
    databaseUrl: login
  })
  t.not(examples.length, 0)
  for (const { heading, bearer, batch, head, answer } of examples) {
    const name = `${heading}: ${bearer ?? 'nobody'} ${compact(batch).slice(0, 60)}`
    if (bearer !== undefined) t.hasProp(payloads, bearer)
    const authorization = bearer === undefined
      ? {}
      : { authorization: `Bearer ${token(JSON.parse(ours(JSON.stringify(payloads[bearer]))))}` }
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

t.test('in a subquery the claims are read once a statement', async t => {
  const { database: { sql } } = await useService(t, { schema })
  const plan = await sql.begin(async sql => {
    await sql.unsafe(`set local role ${ours('shop_member')}`)
    return sql.unsafe('explain (verbose, costs off) select * from lines')
  })
  t.match(plan.map(row => row['QUERY PLAN']).join('\n'), /InitPlan[^]*claims/)
})

t.test('every test that the page on security names is there', async t => {
  const named = [
    ...new Set(read('docs/operations/security.md').match(/`test\/[\w/-]+\.test\.ts`/g))
  ].map(
    name => name.slice(1, -1)
  )
  t.not(named.length, 0)
  for (const name of named) t.ok(existsSync(new URL(`../../${name}`, import.meta.url)), name)
})
