/**
 * Large batches. Rows that need no change are passed on as they were sent, and nobody can tell that from rows that were written again. Growth is asserted by counts, never by times.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { parseJson, writeJson, type Json, type JsonObject } from '../src/json/parse.ts'
import type { InsertNode, PlanNode } from '../src/plan/nodes.ts'
import { planBatch } from '../src/plan/plan.ts'
import type { Batch } from '../schemas/batch.ts'
import { useService } from './support/service.ts'

const limits = { schemas: ['public'] as [string], maxRows: 10_000, maxConditions: 1000 }
/** JSON text of as many rows as one batch may insert. `more`: members beside `id`. */
const rowsOf = (more: (i: number) => string, count = 10_000): string => `[${Array.from({ length: count }, (_, i) => `{"id":${i}${more(i)}}`).join()}]`
const insertOf = (rows: string, id = 'a'): string => `{"id":"${id}","op":"insert","table":"t","values":${rows}}`

function plan (body: string): readonly PlanNode[] {
  return planBatch(parseJson(Buffer.from(body)) as unknown as Batch, limits).operations
}

function piecesOf (node: PlanNode | undefined): ReadonlyArray<readonly string[]> {
  return (node as InsertNode).groups.map(({ rows }) => rows.pieces)
}

t.test('rows that need no change are the text that was sent', async t => {
  const rows: Readonly<Record<string, string>> = {
    text: rowsOf(i => `,"v":"ä€😀 ${i} {}[]:, values"`),
    numbers: rowsOf(() => ',"v":1.10,"w":9007199254740993,"x":-0,"y":1e400'),
    nested: rowsOf(i => `,"v":{"values":[${i},[{"values":[]}]]}`),
    'keys that are integers': rowsOf(() => ',"v":{"b":1,"0":2}')
  }
  for (const [name, text] of Object.entries(rows)) t.same(piecesOf(plan(`[${insertOf(text)}]`)[0]), [[text]], name)
  const [first, second, third] = plan(`[${insertOf(rows['text'] as string)},${insertOf('[{"id":1}]', 'b')},${insertOf(rows['numbers'] as string, 'c')}]`)
  t.same([first, second, third].map(piecesOf), [[[rows['text']]], [['[{"id":1}]']], [[rows['numbers']]]], 'each operation has its own')
})

t.test('what is not kept is not kept in many rows either', async t => {
  const written = (text: string): string => JSON.stringify(parseJson(Buffer.from(text)))
  const cases: Readonly<Record<string, string>> = {
    'white space': rowsOf(() => ', "v" : { "a" : 1.10 }'),
    'the spelling of escapes': rowsOf(() => ',"v":"\\u00e4\\/"'),
    'a name with escapes': rowsOf(() => ',"v\\u0061":"b"')
  }
  for (const [name, text] of Object.entries(cases)) t.same(piecesOf(plan(`[${insertOf(text)}]`)[0]), [[written(text)]], name)
})

t.test('references and $$ are found in many rows', async t => {
  const rows = rowsOf(i => `,"v":"${i === 7 ? '$first.0.id' : i === 8 ? '$$first' : '$5'}"`)
  const [, node] = plan(`[${insertOf('[{"id":1}]', 'first')},${insertOf(rows)}]`)
  t.same(piecesOf(node), [rows.replace('"$$first"', () => '"$first"').split('"$first.0.id"')])
  const escaped = rows.replaceAll('"$', '"\\u0024')
  t.same(piecesOf(plan(`[${insertOf('[{"id":1}]', 'first')},${insertOf(escaped)}]`)[1]), piecesOf(node), 'also where the $ is written as an escape')
})

t.test('rows that name different columns are written by their groups', async t => {
  const rows = rowsOf(i => i < 5000 ? ',"v":1.10' : '')
  const halves = rows.slice(1, -1).split(',{"id":5000')
  t.same(piecesOf(plan(`[${insertOf(rows)}]`)[0]), [[`[${halves[0]}]`], [`[{"id":5000${halves[1]}]`]])
})

t.test('only the member values of an operation is meant', async t => {
  const rows = rowsOf(() => ',"v":"a"')
  for (const body of [`{"x":{"values":${rows}}}`, `[[{"values":${rows}}]]`, `[1,[${rows}]]`, `[{"value":${rows}}]`, `[{"a\\"values":${rows}}]`, `[{"values":{"a":${rows}}}]`, rows]) {
    const value = parseJson(Buffer.from(body))
    t.equal(writeJson(value), JSON.stringify(value), body.slice(0, 30))
  }
  const [, operation] = parseJson(Buffer.from(`[0,{"returning":${rows},"values":${rowsOf(() => ',"v":"b"')}}]`)) as readonly [Json, JsonObject]
  t.equal(writeJson(operation['returning'] as Json), rows)
  t.equal(writeJson(operation['values'] as Json), rowsOf(() => ',"v":"b"'))
})

t.test('as many rows as one operation may have go in and come out, digit for digit', async t => {
  const service = await useService(t, { schema: 'create table t (id int primary key, v numeric, j json); grant all on t to oneflight_user', env: { MAX_BODY_BYTES: '16000000' } })
  const rows = rowsOf(i => `,"v":${i}.10,"j":{"b":${i},"0":[1e400,"ä"]}`)
  const inserted = await service.post(`[${insertOf(rows)}]`)
  t.equal(inserted.status, 200)
  const [stored] = await service.database.sql`select json_agg(t order by id)::text as rows, count(*)::int as n from t` as [{ rows: string, n: number }]
  t.equal(stored.n, 10_000)
  t.equal(stored.rows.replaceAll(/,\s+/g, ','), rows)
  t.equal(inserted.text, `{"error":null,"data":{"a":${stored.rows}}}`)
  const selected = await service.post([{ id: 'all', op: 'select', table: 't', order: [{ id: 'asc' }] }, { id: 'one', op: 'select', table: 't', where: { id: { eq: 1 } } }])
  const [one = ''] = /\{"id":1,.*/.exec(stored.rows) ?? []
  t.equal(selected.text, `{"error":null,"data":{"all":${stored.rows},"one":[${one.replace(/, *$/, '')}]}}`)
  t.equal(Number(selected.headers.get('content-length')), Buffer.byteLength(selected.text))
})

t.test('an answer of 50 MB arrives whole', async t => {
  const service = await useService(t, { schema: 'create table wide (id int, v text); grant all on wide to oneflight_user' })
  const text = randomBytes(2500).toString('hex')
  await service.database.sql`insert into wide select n, ${text} from generate_series(1, 10000) n`
  const { status, body, headers, text: answer } = await service.post([{ id: 'a', op: 'select', table: 'wide' }, { id: 'b', op: 'select', table: 'wide', limit: 1 }])
  t.equal(status, 200)
  t.ok(answer.length > 50_000_000)
  t.equal(Number(headers.get('content-length')), answer.length)
  t.equal(body.data.a.length, 10_000)
  t.ok(body.data.a.every(({ id, v }: { id: number, v: string }, i: number) => id === i + 1 && v === text))
  t.same(body.data.b, [{ id: 1, v: text }])
})
