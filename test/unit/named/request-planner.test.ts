/**
 * Tests that requests of a named batch share a plan if they differ only in values.
 */
import t from 'tap'
import type { Batch } from '../../../schemas/batch.ts'
import { parseJson, type Json, type JsonObject } from '../../../src/json/parse.ts'
import { readParameters, type Parameters } from '../../../src/named/parameters.ts'
import { PlanCache, RequestPlanner } from '../../../src/named/request-planner.ts'
import { growthOf } from '../../support/growth.ts'

const rows = { type: 'array', items: { type: 'object', properties: { a: true, b: true } } }
const parameters = readParameters({
  type: 'object',
  properties: {
    inserted: { ...rows, items: { ...rows.items, additionalProperties: false } },
    read: rows,
    value: true,
    stored: rows
  },
  required: ['inserted', 'read', 'value', 'stored']
}) as Parameters
const operations = [
  { id: 'i', op: 'insert', table: 't', values: '$params.inserted' },
  {
    id: 'u',
    op: 'update',
    table: 't',
    from: {
      param: 'read',
      on: { a: 'a' },
      columns: [{ column: 'b->0->>x', cast: 'text', as: 'x' }]
    },
    set: { b: { $from: 'b->-1' }, c: '$params.value', d: { $from: 'x' }, e: '$params.stored' }
  }
] as unknown as Batch
const limits = { schemas: ['public'], maxRows: 4, maxConditions: 10 }
const known = { known: parameters.known, plans: new PlanCache() }
const planner = new RequestPlanner({ name: 'a', operations }, limits, known)
const plan = (text: string) => {
  const values = parseJson(Buffer.from(text)) as readonly Json[]
  t.same(planner.findIssues(values), [])
  return planner.plan(values)
}

t.test('requests have one plan if they insert the same columns', async t => {
  const first = plan('[[{"a": 1, "b": "x"}], [{"a": 1}], 5, [{}]]')
  const sameColumns = [
    '[[{"b": null, "a": 9007199254740993}, {"a": 1, "b": 2}], [], "$x.0.id", [{"z": 1}]]',
    '[[{"a": "", "b": true}], [{"a": 2, "b": 3, "c": []}, {}], null, [{"z": {}}]]',
    '[[{"a": [], "b": {}}], [{"a": {}}], [], []]',
    '[[], [], 5, []]'
  ]
  for (const text of sameColumns) t.equal(plan(text).plan, first.plan, text)
  const otherColumns = ['[[{"a": 1}], [], 5, []]', '[[{"b": 1}, {"b": 2}], [], 5, []]']
  const plans = new Set([first.plan])
  for (const text of otherColumns) {
    const { plan: other } = plan(text)
    t.notOk(plans.has(other), text)
    t.equal(plan(text).plan, other, text)
    plans.add(other)
  }
})

t.test('without inserted rows, the plan is that of the file', async t => {
  const withoutInsert = new RequestPlanner(
    { name: 'b', operations: operations.slice(1) },
    limits,
    known
  )
  for (const text of ['[0, [], 5, 0]', '[0, [{"a": "x"}, {"a": []}], {"a": 1}, "$x"]']) {
    const { plan } = withoutInsert.plan(parseJson(Buffer.from(text)) as readonly Json[])
    t.equal(plan, withoutInsert.planOfFile, text)
  }
})

t.test('a plan for rows of different members is not kept', async t => {
  const text = '[[{"a": 1}, {"b": "$i.0.id"}], [], 5, []]'
  t.not(plan(text).plan, plan(text).plan)
  t.match(plan(text).plan.operations[0], {
    groups: [{ columns: ['a'], positions: [0] }, { columns: ['b'], positions: [1] }]
  })
  const empty = '[[{}, {}], [], 5, []]'
  t.match(plan(empty).plan.operations[0], { groups: [{ columns: [], positions: [0, 1] }] })
})

t.test('text of rows that looks like a reference is data', async t => {
  const braces = (inner: string): string => `$\{${inner}}`
  const texts = ['$i.0.id', '$i[0].id', braces('u.0.x'), '$$i[0].id', '$params[a]', '$$params[a]',
    '$n[0].id', '$$n[0].id', braces('n.0.id'), '$$i.0.id']
  const rows = texts.map((text, i) => i % 2 === 0 ? { a: text } : { b: [text] })
  const [node] = plan(JSON.stringify([rows.slice(0, 4), [], 5, []])).plan.operations
  const [more] = plan(JSON.stringify([rows.slice(4, 8), [], 5, []])).plan.operations
  const [last] = plan(JSON.stringify([rows.slice(8), [], 5, []])).plan.operations
  const stored = [node, more, last].flatMap(node => node?.kind !== 'insert'
    ? []
    : node.groups.flatMap(({ rows: { value } }) => value))
  t.same(stored, rows)
})

t.test('rows that are read become objects of fields', async t => {
  const { values } = plan(
    '[[], [{"a": 1.10, "b": [{"x": {"y": 1}}, "last"]}, {"b": [{"x": "t"}]}, {"b": {"0": 1}}, ' +
      '{"b": []}], 0, []]'
  )
  const text = JSON.stringify(values?.at(-1))
  const fields = JSON.parse(text) as JsonObject[]
  t.same(fields, [
    { f1: '{"y":1}', f2: 1.1, f3: 'last' },
    { f1: 't', f2: null, f3: { x: 't' } },
    { f1: null, f2: null, f3: null },
    { f1: null, f2: null, f3: null }
  ])
  t.match(text, '1.10', 'numbers keep their digits')
})

t.test('a path into an alias leads into its member, not into another column', async t => {
  const from = {
    param: 'read',
    on: { a: 'y->k' },
    columns: [{ column: 'a', as: 'y' }, { column: 'b', cast: 'int', as: 'a' }]
  }
  const update = { id: 'u', op: 'update', table: 't', from, set: { c: { $from: 'a' } } }
  const batch = [update] as unknown as Batch
  const aliased = new RequestPlanner({ name: 'c', operations: batch }, limits, known)
  const { values } = aliased.plan([[], [{ a: { k: 1 }, b: 2 }], 0, []])
  t.same(values.at(-1), [{ f1: 2, f2: 1 }])
})

t.test('more rows than an operation may have are an issue', async t => {
  const many = [{}, {}, {}, {}, {}]
  t.same(planner.findIssues([many, many, 0, many]), [
    { path: ['inserted'], message: '"inserted" has 5 rows; at most 4 are allowed.' },
    { path: ['read'], message: '"read" has 5 rows; at most 4 are allowed.' }
  ])
})

t.test('the time of a plan grows in proportion to the rows', async t => {
  const many = new RequestPlanner({ name: 'g', operations }, { ...limits, maxRows: 10_000 }, known)
  const kinds: ReadonlyArray<(i: number) => string> = [
    i => `{"a":${i},"b":1.10}`,
    i => i % 2 === 0 ? '{"a":[1]}' : '{"b":{"k":1}}'
  ]
  for (const [kind, row] of kinds.entries()) {
    const growth = growthOf(2000, size => {
      const text = `[${Array.from({ length: size }, (_, i) => row(i)).join()}]`
      const rows = parseJson(Buffer.from(text)) as Json
      return () => many.plan([rows, rows, 5, rows])
    })
    t.ok(growth < 12, `rows ${kind}: ${growth.toFixed(1)}`)
  }
})

t.test('a plan for rows of very many columns is not kept', async t => {
  const row = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`column_${i}`, 1]))
  const text = JSON.stringify([[row], [], 5, []])
  t.not(plan(text).plan, plan(text).plan)
})
