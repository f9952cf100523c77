/**
 * The shape of a batch: which parts are values, and which make another shape.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { parseJson } from '../../../src/json/parse.ts'
import { BatchPlanner } from '../../../src/plan/plan-batch.ts'
import { readShape } from '../../../src/plan/batch-shape.ts'

const limits = { schemas: ['public'], maxRows: 100, maxConditions: 1000 }
const read = (text: string): Batch => parseJson(Buffer.from(text)) as unknown as Batch
const readOne = (text: string) => readShape(read(text), limits.maxRows)
const shapeOf = (operation: string) => readOne(`[{"id":"a",${operation}}]`)

const repeat = (row: string, times: number): string => Array(times).fill(row).join()
const insert = (row: string): string => `"op":"insert","table":"t","values":[${row}]`
const update = (set: string): string =>
  `"op":"update","table":"t","set":${set},"where":{"id":{"eq":1}}`
const upsert = (set: string, where = '{}'): string =>
  `${insert('{"n":1}')},"on_conflict":{"columns":["n"],"do":"update","set":${set},"where":${where}}`
const select = (where: string): string => `"op":"select","table":"t","where":${where}`

/** An update by key with many rows. */
const byKey = (row: string, times = 17, id = (i: number): string => String(i)): string => {
  const rows = Array.from({ length: times }, (_, i) => `{"id":${id(i)},${row}}`)
  return `"op":"update","table":"t","key":["id"],"values":[${rows.join()}]`
}

t.test('values of one kind have the same shape', async t => {
  const groups: ReadonlyArray<readonly string[]> = [
    [insert('{"n":1}'), insert('{"n":-2.5e10}'), insert('{"n":12345678901234567890.10}')],
    [insert('{"n":"x"}'), insert('{"n":""}'), insert('{"n":"$5.00 \\" \\u00e9"}')],
    [17, 20, 100].map(times =>
      insert(`{"m":2,"n":null},${repeat('{"n":[1],"m":"x"}', times - 1)}`)),
    [byKey('"n":1', 17), byKey('"n":"x"', 20), byKey('"n":null', 100)],
    [byKey('"n":{"$inc":1},"m":{"$now":true}'), byKey('"m":{"$now":true},"n":{"$inc":2}')],
    [byKey('"n":{"$append":[1]},"m":{"$value":1}'), byKey('"n":{"$append":[]},"m":{"$value":[]}')],
    [insert('{"n":{}}'), insert('{"n":{"b":[1,"x"]}}')],
    [update('{"n":{"$append":[1]}}'), update('{"n":{"$append":["a"]}}')],
    [select('{"n":{"cs":{"a":1}}}'), select('{"n":{"cs":{"b":[]}}}')],
    [insert('{"n":[]}'), insert('{"n":[1]}'), insert('{"n":[[1]]}'), insert('{"n":[{},null]}')],
    [update('{"n":1}'), update('{"n":2}')],
    [update('{"n":{"$inc":1}}'), update('{"n":{"$inc":-7}}')],
    [update('{"n":{"$value":"a"}}'), update('{"n":{"$value":"b"}}')],
    [upsert('{"n":{"$inc":1}}', '{"n":{"lt":1}}'), upsert('{"n":{"$inc":2}}', '{"n":{"lt":2}}')],
    [upsert('{"n":"a"}'), upsert('{"n":"b"}')],
    [select('{"n":{"gt":1,"lt":2}}'), select('{"n":{"gt":3,"lt":4}}')],
    [select('{"n":{"eq":"a"}}'), select('{"n":{"eq":"b"}}')],
    [select('{"n":{"in":[1]}}'), select('{"n":{"in":[1.50,2]}}')],
    [select('{"n":{"like":{"any":["a"]}}}'), select('{"n":{"like":{"any":["b","c"]}}}')],
    [select('{"n":{"between":[1,"a"]}}'), select('{"n":{"between":[2,"b"]}}')],
    [select('{"or":[{"n":{"eq":1}},{"not":{"n":{"not":{"neq":2}}}}]}'),
      select('{"or":[{"n":{"eq":3}},{"not":{"n":{"not":{"neq":4}}}}]}')]
  ]
  for (const [first = '', ...others] of groups) {
    const shape = shapeOf(first)
    t.ok(shape, first)
    for (const other of others) t.equal(shapeOf(other)?.key, shape?.key, other)
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
    select('{"n":{"in":["a"]}}'),
    select('{"n":{"in":[]}}'),
    select('{"n":{"in":[true]}}'),
    select('{"n":{"in":[1,"a"]}}'),
    select('{"n":{"in":["$a.0.id"]}}'),
    select('{"n":{"neq":{"any":[1]}}}'),
    select('{"n":{"neq":{"all":[1]}}}'),
    select('{"n":{"is":"not_null"}}'),
    select('{"n":{"is":null}}'),
    select('{"n":{"eq":{"$col":"m"}}}'),
    select('{"n":{"search":"a"}}'),
    select('{"n":{"constructor":1}}'),
    select('{"and":[]}'),
    select('1'),
    byKey('"n":1'),
    byKey('"m":1'),
    byKey('"n":{"$value":1}'),
    byKey('"n":{"$inc":1}'),
    byKey('"n":{"$dec":1}'),
    byKey('"n":{"$append":[1]}'),
    byKey('"n":{"$append":{}}'),
    `${select('{}')},"limit":1`,
    `${select('{}')},"limit":-1`,
    `${select('{}')},"limit":1.5`,
    `${select('{}')},"offset":1`,
    '"op":"insert","table":"t","values":1',
    update('1')
  ]
  const texts = all.map(operation => shapeOf(operation)?.key)
  t.notOk(texts.includes(undefined))
  t.same(new Set(texts).size, all.length)
  t.not(
    readOne('[{"id":"a","op":"select","table":"t"}]')?.key,
    readOne('[{"id":"b","op":"select","table":"t"}]')?.key,
    'the id'
  )
})

t.test('some batches have no shape', async t => {
  const deep = `{"n":${'['.repeat(100)}${']'.repeat(100)}}`
  for (
    const operation of [
      `${insert('{"n":1}')},"on_conflict":{"columns":["n"],"index_where":{},"do":"nothing"}`,
      '"op":"update","table":"t","key":"id","values":[{"id":1,"n":1}]',
      '"op":"update","table":"t","key":["id"],"values":[1,1]',
      '"op":"update","table":"t","key":["id"],"values":{"id":1,"n":1}',
      ...['1e300', '{}', '{"as":1e300}', '{"as":{"as":1}}', 'null'].map(key =>
        `"op":"update","table":"t","key":[${key}],"values":[{"id":1,"n":1}]`),
      insert(repeat('{"n":1}', 101)),
      insert(repeat('{}', 17)),
      insert(repeat('1', 17)),
      insert(`${repeat('{"n":1}', 17)},{"n":1,"m":1}`),
      insert(`${repeat('{"n":1}', 17)},{"n":"$a.0.id"}`),
      ...['{"$now":false}', '{"$inc":null}', '{"$nope":1}', '{"$col":"m"}', '{"$first":["$a.0.n"]}',
        '"$a.0.n"', '{"$value":{"$inc":1}}'].map(value => byKey(`"n":${value}`)),
      ...['1', 'null', '1,"m":1', '{"$inc":1}', '{"$value":null}'].map(last =>
        byKey('"n":1', 17, i => i === 16 ? last : String(i))),
      `${byKey('"n":1')},1`.replace('],1', ',1]'),
      `"op":"update","table":"t","key":["id"],"values":[${repeat('null', 17)}]`,
      byKey('"n":1').replace('"n"', '"m"'),
      byKey('"n":1').replace('"key":["id"]', '"key":"id"'),
      insert(deep),
      select(`{"n":{"search":["${'x'.repeat(9000)}"]}}`)
    ]
  ) {
    t.equal(shapeOf(operation), undefined, operation.slice(0, 80))
    const two = `[{"id":"a",${operation}},{"id":"b",${insert('{"n":1}')}}]`
    t.equal(readOne(two), undefined)
  }
})

t.test('batches of one shape have one plan, each with its own values', async t => {
  const planner = new BatchPlanner(limits)
  const plan = (...operations: readonly string[]) =>
    planner.plan(read(`[${
      operations.map((operation, i) => `{"id":"o${i}",${operation}}`).join()
    }]`))
  const batch = (n: number, list: string) => plan(
    insert(`{"n":${n},"m":{"b":[${n}]}},{"n":"x${n}","m":[]}`),
    upsert(`{"n":{"$inc":${n}},"m":${n}}`, `{"n":{"lt":${n}}}`),
    update(`{"n":{"$value":${n}},"m":{"$append":[${n}]},"k":[${n}]}`),
    `"op":"update","table":"t","key":["n"],"values":[{"n":${n},"m":{"$inc":1}},{"n":"a","m":2}]`,
    select(`{"n":{"in":${list},"gt":{"any":${list}},"between":[${n},1],"isdistinct":${n}}}`),
    `${select('{}')},"order":[{"n":"asc"}],"after":[${n}],"limit":${n},"offset":${n + 1}`,
    `${select('{}')},"with":{"m":{"table":"s","on":{"n":"n"},"limit":${n}}}`,
    `"op":"call","function":"f","args":{"a":${n},"b":[[${n}]],"c":{"d":${n}}}`
  )
  const first = batch(1, '[1]')
  const second = batch(2, '[3,4]')
  t.ok(first.isKept)
  t.equal(first.plan, second.plan)
  t.same(second.values, [
    2, { b: [2] }, 'x2', [],
    1, 2, 2, 2,
    2, [2], [2], 1,
    2, 1, 'a', 2,
    [3, 4], [3, 4], 2, 1, 2,
    2, 2, 3,
    2,
    2, [[2]], { d: 2 }
  ])
  t.notMatch(JSON.stringify(first.plan), /x1/, 'the plan has no values')
  for (let i = 0; i < 2; i++) {
    t.throws(() => plan('"op":"insert","table":"t"'), { code: 'validation_failed' })
  }
})

t.test('the plans that were used last are kept, within a number of bytes', async t => {
  const planner = new BatchPlanner(limits)
  const plan = (n: number): unknown => {
    const conditions = Array.from({ length: 100 }, () => ({ [`c${n}`]: { eq: 1 } }))
    const operation = { id: 'a', op: 'select', table: 't', where: { and: conditions } }
    return planner.plan(read(JSON.stringify([operation]))).plan
  }
  const first = plan(0)
  let last: unknown
  for (let n = 1; n < 500; n++) last = plan(n)
  t.equal(plan(499), last)
  t.not(plan(0), first)
})
