/**
 * Tests that an upload is read in the same way wherever its chunks end, and that lines are parsed
 * together only if each of them is a JSON text.
 */
import t from 'tap'
import { parseLines, type Json } from '../../../src/json/parse.ts'
import type { NamedBatch } from '../../../src/named/named-batch.ts'
import { readNamedBatch } from '../../../src/named/read-files.ts'
import { findModifier } from '../../../src/plan/find-value.ts'
import type { PlanNode } from '../../../src/plan/nodes.ts'
import { Upload } from '../../../src/named/upload.ts'
import { writtenRows } from '../../../src/values/rows.ts'
import { builtIn } from '../../support/built-in-types.ts'

const limits = {
  schemas: ['public'],
  maxOps: 10,
  maxRows: 10,
  maxConditions: 10,
  maxUploadRows: 100_000,
  maxLineBytes: 200_000,
  maxBytes: 10_000_000
}
const row = {
  type: 'object',
  properties: { a: { type: 'integer' }, b: { type: ['string', 'array'] } },
  required: ['a'],
  additionalProperties: false
}
/** The types of columns are not known. */
const members = new Map<number, never>()
const asLines = { query: '', isCsv: false, members }
const columns = { a: { $col: 'a' }, b: { $col: 'b' } }
const batchOf = (
  operations: readonly object[],
  more: object = {},
  properties: object = row.properties
): NamedBatch => {
  const params = {
    type: 'object',
    properties: { rows: { type: 'array', items: { ...row, properties } }, ...more },
    required: ['rows']
  }
  const file = Buffer.from(JSON.stringify({ params, operations }))
  const read = readNamedBatch('x.json', file, limits)
  if ('issues' in read) throw new Error(read.issues.join())
  return read.batch
}
const insert = { id: 'i', op: 'insert', table: 't', values: '$params.rows', returning: [] }
const inserted = batchOf([insert])
const both = batchOf([
  insert,
  { id: 'j', op: 'insert', table: 't', from: { param: 'rows' }, columns, returning: [] }
])

/** The texts of the rows that an upload hands on. */
async function read (batch: NamedBatch, chunks: readonly Buffer[]): Promise<readonly string[]> {
  const upload = new Upload(batch, asLines, limits)
  for (const chunk of chunks) upload.read(chunk)
  await upload.end()
  const values = upload.finish().values as readonly Json[]
  return values.flatMap(value => {
    const written = writtenRows(value as readonly Json[]) ?? []
    return written.map(({ text }) => Buffer.concat(text).toString())
  })
}

t.test('chunks of CSV may end at every byte', async t => {
  const body = Buffer.from('\uFEFFa,b\r\n1,"é𝄞\r\n"""\r\n2,"x,"\r\n')
  const texts = batchOf([insert], {}, { ...row.properties, b: { type: 'string' } })
  for (let end = 3; end <= body.length; end++) {
    const upload = new Upload(texts, { query: '', isCsv: true, members }, limits)
    upload.read(body.subarray(0, end))
    upload.read(body.subarray(end))
    await upload.end()
    const [rows] = upload.finish().values as readonly Json[]
    const [written] = writtenRows(rows as readonly Json[]) ?? []
    const text = Buffer.concat(written?.text ?? []).toString()
    t.equal(text, '[{"a":1,"b":"é𝄞\\r\\n\\""},{"a":2,"b":"x,"}]')
  }
})

t.test('chunks may end at every byte', async t => {
  const lines = ['{"a":1,"b":"é𝄞"}', '{"b":"\\"\\\\","a":2}\r', '{"a":3,"b":[1.10]}']
  const whole = [`[${lines.join()}]`]
  for (const text of [lines.join('\n'), `${lines.join('\n')}\n`]) {
    const body = Buffer.from(text)
    for (let cut = 0; cut <= body.length; cut++) {
      t.strictSame(await read(inserted, [body.subarray(0, cut), body.subarray(cut)]), whole)
    }
    t.strictSame(await read(inserted, Array.from(body, byte => Buffer.from([byte]))), whole)
  }
  t.strictSame(await read(inserted, []), ['[]'])
})

t.test('each use of the rows has its own text', async t => {
  const long = 'x'.repeat(70_000)
  const body = Buffer.from(`{"a":1,"b":"${long}"}\n{"a":2,"b":"y"}`)
  const texts = await read(both, [body])
  const [rows, documents, ...more] = texts.map(text => JSON.parse(text) as unknown[])
  t.same(rows, [{ a: 1, b: long }, { a: 2, b: 'y' }])
  t.equal(documents?.length, 2)
  t.strictSame(more, [])
})

t.test('members are written in the types of their columns', async t => {
  const position = 0
  const written = new Map([[position, [
    [{ name: 'b', column: 'b', type: builtIn(1007) }],
    [{ name: 'a', column: 'c', type: builtIn(701) }]
  ]]])
  const read = async (lines: readonly string[]): Promise<unknown> => {
    const upload = new Upload(inserted, { ...asLines, members: written }, limits)
    upload.read(Buffer.from(lines.join('\n')))
    await upload.end()
    const [rows] = upload.finish().values as readonly Json[]
    return writtenRows(rows as readonly Json[])?.map(({ text }) => Buffer.concat(text).toString())
  }
  const texts = ['[{"a":1,"b":"{1,2}"}]', '[{"a":1,"b":[1,2]}]']
  t.strictSame(await read(['{"a":1,"b":[1,2]}']), texts)
  await t.rejects(read(['{"a":1,"b":[1]}', '{"a":1,"b":[2,1.5]}', '']), {
    code: 'value_invalid',
    message: 'Line 2, "b": integer holds no digits after the point.',
    details: { path: ['rows', 1, 'b', 1], line: 2 }
  })
})

t.test('lines are not mistaken for other lines', async t => {
  const cases: ReadonlyArray<readonly string[]> = [
    ['{"a":1},{"a":2}'],
    ['{"a":[1', '2]}', '{},{}'],
    ['{"a":[{}', '{}]}', '{},0,{}'],
    ['{}]', '[{}'],
    [''],
    ['[[[', ']]]'],
    [`${'['.repeat(101)}${']'.repeat(101)}`]
  ]
  for (const lines of cases) t.equal(parseLines(lines.map(line => Buffer.from(line))), undefined)
  t.strictSame(parseLines([]), [])
  const valid = ['{"a":1}', '5', '"x"'].map(line => Buffer.from(line))
  t.strictSame(parseLines(valid), [{ a: 1 }, 5, 'x'])
})

t.test('all rows that are inserted have the same columns', async t => {
  const upload = new Upload(inserted, asLines, limits)
  upload.read(Buffer.from('{"a":1,"b":"x"}\n'))
  t.throws(() => upload.read(Buffer.from('{"a":2}\n')), {
    code: 'params_invalid', details: { line: 2 }
  })
  const { required, ...free } = row
  const open = batchOf([insert], { rows: { type: 'array', items: free } })
  const other = new Upload(open, asLines, limits)
  t.throws(() => other.read(Buffer.from('{}\n')), {
    message: 'Line 1: The row must have a column.', details: { line: 1 }
  })
  t.strictSame(required, ['a'])
})

t.test('a line that is too long comes after those before it', async t => {
  const upload = new Upload(inserted, asLines, { ...limits, maxLineBytes: 10 })
  upload.read(Buffer.from('{"a":1}\n{"a":2'))
  t.throws(() => upload.read(Buffer.from('}\n{"a":3}\n{"a":4444444}\n')), {
    code: 'body_invalid',
    details: { line: 4 }
  })
  const other = new Upload(inserted, asLines, { ...limits, maxLineBytes: 10 })
  t.throws(() => other.read(Buffer.from('{"a":"x"}\n{"a":4444444}')), {
    code: 'params_invalid',
    details: { line: 1 }
  })
})

t.test('the rows are not part of the plan', async t => {
  const [node] = inserted.planner.planOfFile.operations
  t.equal(findModifier(node as PlanNode, { column: 'a', row: 0 }), undefined)
})

t.test('a batch refuses uploads every time', async t => {
  const batch = batchOf([insert], { rest: { type: 'array', items: row } })
  const refused = { ...batch, schema: { ...batch.schema, minProperties: 1, allOf: [] } }
  for (let i = 0; i < 2; i++) {
    t.throws(() => new Upload(refused, asLines, limits), {
      code: 'content_type_unsupported', message: /because of "allOf"/
    })
  }
})

t.test('a line is checked without the other parameters', t => {
  const batch = batchOf([insert], { note: { type: 'string', pattern: '^[a-z ]*$' } })
  const lines = Buffer.from('{"a":1}\n'.repeat(1000))
  const measure = (length: number): number => {
    const upload = new Upload(batch, { ...asLines, query: `note=${'a'.repeat(length)}` }, limits)
    const before = process.threadCpuUsage()
    upload.read(lines)
    const { user, system } = process.threadCpuUsage(before)
    return user + system
  }
  measure(1)
  const ratio = measure(10_000) / measure(1)
  t.ok(ratio < 10, String(ratio))
  t.end()
})
