/**
 * The shape of a batch: which parts are values, and which make another shape.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { parseJson, finish } from '../../../src/json/parse.ts'
import { BatchPlanner } from '../../../src/plan/plan-batch.ts'
import {
  hasPlaceholder,
  readPlaceholder,
  readFingerprint,
  textPlaceholder
} from '../../../src/plan/fingerprint.ts'
import { createTemplate, fillTemplate } from '../../../src/sql/statement/statement.ts'

const read = (text: string): Batch => parseJson(Buffer.from(text)) as unknown as Batch
const shapeOf = (operation: string) => readFingerprint(read(`[{"id":"a",${operation}}]`))

const insert = (row: string): string => `"op":"insert","table":"t","values":[${row}]`
const update = (set: string): string =>
  `"op":"update","table":"t","set":${set},"where":{"id":{"eq":1}}`
const upsert = (set: string, where = '{}'): string =>
  `${insert('{"n":1}')},"on_conflict":{"columns":["n"],"do":"update","set":${set},"where":${where}}`
const select = (where: string): string => `"op":"select","table":"t","where":${where}`

t.test('values of one kind have the same shape', async t => {
  const groups: ReadonlyArray<readonly string[]> = [
    [insert('{"n":1}'), insert('{"n":-2.5e10}'), insert('{"n":12345678901234567890.10}')],
    [insert('{"n":"x"}'), insert('{"n":""}'), insert('{"n":"$5.00 \\" \\u00e9"}')],
    [insert('{"n":{}}'), insert('{"n":{"b":[1,"x"]}}'), insert('{"n":[[1]]}')],
    [insert('{"n":[]}'), insert('{"n":[1]}'), insert('{"n":["a",null,true]}')],
    [update('{"n":1}'), update('{"n":2}')],
    [update('{"n":{"$inc":1}}'), update('{"n":{"$inc":-7}}')],
    [update('{"n":{"$value":"a"}}'), update('{"n":{"$value":"b"}}')],
    [upsert('{"n":{"$inc":1}}', '{"n":{"lt":1}}'), upsert('{"n":{"$inc":2}}', '{"n":{"lt":2}}')],
    [upsert('{"n":"a"}'), upsert('{"n":"b"}')],
    [select('{"n":{"gt":1,"lt":2}}'), select('{"n":{"gt":3,"lt":4}}')],
    [select('{"n":{"eq":"a"}}'), select('{"n":{"eq":"b"}}')],
    [select('{"n":{"between":[1,"a"]}}'), select('{"n":{"between":[2,"b"]}}')],
    [select('{"or":[{"n":{"eq":1}},{"not":{"n":{"not":{"neq":2}}}}]}'),
      select('{"or":[{"n":{"eq":3}},{"not":{"n":{"not":{"neq":4}}}}]}')]
  ]
  for (const [first = '', ...others] of groups) {
    const shape = shapeOf(first)
    t.ok(shape, first)
    for (const other of others) t.equal(shapeOf(other)?.text, shape?.text, other)
  }
})

t.test('everything else makes another shape', async t => {
  const all = [
    insert('{"n":1}'),
    insert('{"n":"1"}'),
    insert('{"n":true}'),
    insert('{"n":false}'),
    insert('{"n":null}'),
    insert('{"n":{}}'),
    insert('{"n":[]}'),
    insert('{"n":["$b"]}'),
    insert('{"n":{"a":"$b"}}'),
    insert('{"n":"$a.0.id"}'),
    insert('{"n":"$$a.0.id"}'),
    insert('{"m":1}'),
    insert('{"n":1},{"n":1}'),
    insert('{"n":1,"m":1}'),
    insert('{}'),
    `${insert('{"n":1}')},"expect":1`,
    `${insert('{"n":1}')},"returning":["n"]`,
    update('{"n":1}'),
    update('{"n":{"$inc":1}}'),
    update('{"n":{"$mul":1}}'),
    update('{"n":{"$col":"a"}}'),
    update('{"n":{"$col":"b"}}'),
    update('{"n":{"$now":true}}'),
    `${insert('{"n":1}')},"on_conflict":{"columns":["n"],"do":"nothing"}`,
    upsert('{"n":1}'),
    upsert('{"n":{"$excluded":"a"}}'),
    upsert('{"n":{"$excluded":"b"}}'),
    upsert('{"n":1}', '{"n":{"lt":1}}'),
    select('{}'),
    select('{"n":{"eq":1}}'),
    select('{"n":{"gt":1}}'),
    select('{"n":{"in":[1]}}'),
    select('{"n":{"in":[2]}}'),
    select('{"n":{"is":"not_null"}}'),
    select('{"n":{"is":null}}'),
    select('{"n":{"eq":{"$col":"m"}}}'),
    select('{"n":{"search":"a"}}'),
    select('{"n":{"constructor":1}}'),
    select('{"and":[]}'),
    select('1'),
    `${select('{}')},"limit":1`,
    `${select('{}')},"limit":2`,
    '"op":"insert","table":"t","values":1',
    update('1')
  ]
  const texts = all.map(operation => shapeOf(operation)?.text)
  t.notOk(texts.includes(undefined))
  t.same(new Set(texts).size, all.length)
  t.not(
    readFingerprint(read('[{"id":"a","op":"select","table":"t"}]'))?.text,
    readFingerprint(read('[{"id":"b","op":"select","table":"t"}]'))?.text,
    'the id'
  )
})

t.test('some batches have no shape', async t => {
  const rows = Array.from({ length: 17 }, () => '{"n":1}').join()
  const deep = `{"n":${'['.repeat(100)}${']'.repeat(100)}}`
  for (
    const operation of [
      `${insert('{"n":1}')},"on_conflict":{"columns":["n"],"index_where":{},"do":"nothing"}`,
      '"op":"update","table":"t","key":"id","values":[{"id":1,"n":1}]',
      '"op":"update","table":"t","key":["id"],"values":[1,1]',
      '"op":"update","table":"t","key":["id"],"values":{"id":1,"n":1}',
      insert(rows),
      insert(deep),
      select(`{"n":{"in":["${'x'.repeat(9000)}"]}}`),
      select(`{"n":{"in":[${Array.from({ length: 101 }, () => 1).join()}]}}`)
    ]
  ) {
    t.equal(shapeOf(operation), undefined, operation.slice(0, 80))
    const two = read(`[{"id":"a",${operation}},{"id":"b",${insert('{"n":1}')}}]`)
    t.equal(readFingerprint(two), undefined)
  }
})

t.test('placeholders are found only as a whole', async t => {
  const name = textPlaceholder(12)
  t.same(readPlaceholder(name), { position: 12, as: 'text' })
  t.same(readPlaceholder(`"${name}"`), { position: 12, as: 'json' })
  t.same(readPlaceholder(`{"${name}":0}`), { position: 12, as: 'json' })
  t.same(readPlaceholder(`["${name}list"]`), { position: 12, as: 'json' })
  for (const text of [`{"${name}list"}`, `${name} `, `x${name}`, `["${name}"]`, '', '12']) {
    t.equal(readPlaceholder(text), undefined, text)
  }
  t.ok(hasPlaceholder(`x${name}`))
  t.notOk(hasPlaceholder('x'))
})

t.test('a statement with a placeholder inside its text or a parameter is no template', async t => {
  const [name, prepare] = [textPlaceholder(0), false]
  t.equal(createTemplate({ text: `select '${name}'`, parameters: [], prepare }), undefined)
  t.equal(createTemplate({ text: 'select $1', parameters: [`{${name}}`], prepare }), undefined)
  const template = createTemplate({
    text: 'select $1, $2, $3, $4',
    parameters: [null, 'fixed', name, `"${name}"`],
    prepare
  })
  t.same(template && fillTemplate(template, ['a "b"']), {
    text: 'select $1, $2, $3, $4',
    parameters: [null, 'fixed', 'a "b"', '"a \\"b\\""'],
    places: [undefined, undefined, undefined, undefined],
    refused: [],
    prepare
  })
  t.equal(template && fillTemplate(template, [{ a: 1 }]), undefined, 'an object has no text')
})

t.test('an genericPlan is made when a valid shape is seen for the second time', async t => {
  const planner = new BatchPlanner({
    schemas: ['public'],
    maxRows: 10,
    maxConditions: 10,
    maxWork: 100_000
  })
  const batch = (n: number): Batch => read(`[{"id":"a",${insert(`{"n":${n}}`)}}]`)
  const [first, second, third, fourth] = [1, 2, 3, 4].map(n => finish(planner.plan(batch(n))))
  t.same([first?.values, second?.values], [undefined, undefined])
  t.same([third?.values, fourth?.values], [[3], [4]])
  t.equal(third?.genericPlan, fourth?.genericPlan)
  t.equal(fourth?.plan(), fourth?.plan(), 'planned once')
  t.match(JSON.stringify(fourth?.plan()), '"positions":[0]')
  for (let i = 0; i < 3; i++) {
    t.throws(() => finish(planner.plan(read('[{"id":"a","op":"insert","table":"t"}]'))), {
      code: 'validation_failed'
    })
  }
})

t.test('the plans that were used last are kept, within a number of bytes', async t => {
  const planner = new BatchPlanner({
    schemas: ['public'],
    maxRows: 100,
    maxConditions: 1000,
    maxWork: 100_000
  })
  const plan = (n: number): unknown => {
    const conditions = Array.from({ length: 100 }, () => ({ [`c${n}`]: { eq: 1 } }))
    const operation = { id: 'a', op: 'select', table: 't', where: { and: conditions } }
    return finish(planner.plan(read(JSON.stringify([operation])))).values
  }
  for (let n = 0; n < 500; n++) {
    plan(n)
    plan(n)
  }
  t.ok(plan(499))
  t.equal(plan(0), undefined)
})
