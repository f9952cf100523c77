/**
 * Tests that a reference that names no earlier operation, or is malformed, is refused wherever a
 * reference may stand, one in brackets or braces with the right form as the repair, and that all
 * other texts stay data.
 */
/* eslint-disable no-template-curly-in-string -- texts of the request */
import t from 'tap'
import { readLimits } from '../../../src/config/config.ts'
import { readNamedBatch } from '../../../src/named/read-files.ts'
import { batchLimits, readBatch } from '../../../src/plan/check/read-batch.ts'
import { storedRows } from '../../../src/plan/find-value.ts'
import type { PlanNode } from '../../../src/plan/nodes.ts'
import { BatchPlanner, type PlannedBatch } from '../../../src/plan/plan-batch.ts'
import { findFailure, issuesOf } from '../../support/issues.ts'

const source = { id: 'm', op: 'select', table: 'things' }
const later = { id: 'later', op: 'select', table: 'things' }
const insert = { id: 'o', op: 'insert', table: 't' }
const update = { id: 'o', op: 'update', table: 't' }
const select = { id: 'o', op: 'select', table: 't' }

/** Where a reference may stand: the operation with a text there, and the path of the text. */
const places: ReadonlyArray<readonly [operation: (text: string) => object, path: string]> = [
  [x => ({ ...insert, values: [{ a: 1 }, { a: x }] }), 'values[1].a'],
  [x => ({ ...insert, values: [{ a: { b: [0, { c: x }] } }] }), 'values[0].a.b[1].c'],
  [x => ({ ...insert, values: [{ a: { $first: [x] } }] }), 'values[0].a.$first[0]'],
  [
    x => ({ ...insert, values: Array.from({ length: 20 }, (_, i) => ({ a: i === 7 ? x : i })) }),
    'values[7].a'
  ],
  [x => ({ ...insert, from: { table: 'f' }, columns: { a: x } }), 'columns.a'],
  [x => ({ ...insert, from: { table: 'f', where: { a: { eq: x } } }, columns: { a: 1 } }),
    'from.where.a.eq'],
  [
    x => ({
      ...insert,
      values: [{ a: 1, b: 2 }],
      on_conflict: { columns: ['a'], do: 'update', set: { b: x } }
    }),
    'on_conflict.set.b'
  ],
  [
    x => ({
      ...insert,
      values: [{ a: 1 }],
      on_conflict: { columns: ['a'], index_where: { b: { eq: x } }, do: 'nothing' }
    }),
    'on_conflict.index_where.b.eq'
  ],
  [x => ({ ...update, set: { a: x }, all: true }), 'set.a'],
  [x => ({ ...update, set: { a: { $value: [x] } }, all: true }), 'set.a.$value[0]'],
  [x => ({ ...update, set: { a: { $inc: x } }, all: true }), 'set.a.$inc'],
  [x => ({ ...update, set: { a: { $append: [x] } }, all: true }), 'set.a.$append[0]'],
  [x => ({ ...update, set: { a: { $merge: { b: x } } }, all: true }), 'set.a.$merge.b'],
  [x => ({ ...update, set: { a: { $remove: x } }, all: true }), 'set.a.$remove'],
  [x => ({ ...update, set: { a: { $first: [x] } }, all: true }), 'set.a.$first[0]'],
  [x => ({ ...update, key: ['a'], values: [{ a: x, b: 1 }] }), 'values[0].a'],
  [x => ({ ...update, key: ['a'], values: [{ a: 1, b: { $mul: x } }] }), 'values[0].b.$mul'],
  [x => ({ ...select, where: { a: { eq: x } } }), 'where.a.eq'],
  [x => ({ ...select, where: { a: { like: { any: ['b', x] } } } }), 'where.a.like.any[1]'],
  [x => ({ ...select, where: { a: { in: [1, x] } } }), 'where.a.in[1]'],
  [x => ({ ...select, where: { a: { in: x } } }), 'where.a.in'],
  [x => ({ ...select, where: { a: { between: [1, x] } } }), 'where.a.between[1]'],
  [x => ({ ...select, where: { a: { cs: { b: x } } } }), 'where.a.cs.b'],
  [x => ({ ...select, where: { a: { eq: { $value: { b: x } } } } }), 'where.a.eq.$value.b'],
  [x => ({ ...select, where: { a: { isdistinct: x } } }), 'where.a.isdistinct'],
  [x => ({ ...select, where: { a: { has_key: x } } }), 'where.a.has_key'],
  [x => ({ ...select, where: { a: { has_keys_any: ['b', x] } } }), 'where.a.has_keys_any[1]'],
  [x => ({ ...select, where: { a: { fts: x } } }), 'where.a.fts'],
  [x => ({ ...select, where: { a: { fts: { query: x } } } }), 'where.a.fts.query'],
  [x => ({ ...select, where: { not: { or: [{ a: { gt: x } }] } } }), 'where.not.or[0].a.gt'],
  [x => ({ ...select, order: [{ a: 'asc' }], after: [x] }), 'after[0]'],
  [x => ({ id: 'o', op: 'call', function: 'f', args: { a: x } }), 'args.a'],
  [x => ({ id: 'o', op: 'call', function: 'f', args: { a: [[x]] } }), 'args.a[0][0]']
]

/** Texts of other languages for a reference to `m`, and the reference; undefined: there is none. */
const texts: ReadonlyArray<readonly [text: string, repair: string | undefined]> = [
  ['$m[0].name', '$m.0.name'],
  ['$m[0]', '$m.0'],
  ['$m[*].id', '$m.*.id'],
  ['$m[name]', '$m.name'],
  ['$m["name"]', '$m.name'],
  ["$m[0]['the name']", '$m.0.the name'],
  ['${m.0.id}', '$m.0.id'],
  ['${m.id}', '$m.id'],
  ['$m[', undefined],
  ['$m[0]name', undefined],
  ['$m[0].a.b', undefined],
  ['$m[-1].id', undefined],
  ['${m.0.id} and more', undefined],
  ['${m.', undefined]
]

const escape = ' To send the string itself, double its first $.'
const advice = (repair: string | undefined): string => repair === undefined
  ? 'A reference must have the form $op, $op.column, $op.row, $op.row.column or $op.*.column.'
  : `A reference has no brackets and no braces: write "${repair}".`

/** Texts that begin like a reference, by the code of their issue. */
const invalid = {
  reference_unknown: [
    '$nope', '$nope.id', '$nope.*', '$nope.*.id', '$M.id', '$M.0.id', '$later', '$later.0.id',
    '$o.id', '$o.0.id', '$__proto__.id', '$constructor.id', '$toString.0.id', '$_.x'
  ],
  reference_malformed: [
    '$m.', '$m.*', '$m.*.', '$m.*.*.id', '$m.*.a.b', '$m..id', '$m.a.b', '$m.a.0', '$m.0.',
    '$m.0..', '$m.0.*.id', '$m.0.a.b', '$m.00', '$m.00.id', '$m.01.id', '$m.-1.id', '$m.+1.id',
    '$m.1e0.id', '$m. 0.id', '$m.0x0.id', '$m.٣.id', '$m[0].name'
  ]
}

t.test('an unknown or malformed reference is refused in every place', async t => {
  for (const [operation, path] of places) {
    for (const [code, list] of Object.entries(invalid)) {
      for (const text of list) {
        t.same(issuesOf([source, operation(text), later]), [`${code} ${path}`], `${path}: ${text}`)
      }
    }
    for (const text of ['$later[0].name', '${o.0.id}', '$n[0].name', '${n.0.id}', '$m{0}']) {
      t.notMatch(
        issuesOf([source, operation(text), later]), [/reference_malformed/], `${path}: ${text}`
      )
    }
  }
})

t.test('the message names the reference', async t => {
  for (const [text, repair] of texts) {
    const failure = findFailure([source, { ...insert, values: [{ a: text }] }])
    t.match(failure?.details.errors, [{
      op: 'o', code: 'reference_malformed', message: advice(repair) + escape
    }], text)
    if (repair === undefined) continue
    t.equal(findFailure([source, { ...insert, values: [{ a: { b: repair } }] }]), undefined, repair)
  }
})

const limits = batchLimits(readLimits({}))
const planWith = (planner: BatchPlanner, batch: readonly object[]): PlannedBatch =>
  planner.plan(readBatch(Buffer.from(JSON.stringify(batch)), limits))

t.test('an additional $ makes the text a string; other texts stay as they are', async t => {
  const stored: ReadonlyArray<readonly [sent: string, stored: string]> = [
    ...texts.flatMap(([text]): ReadonlyArray<readonly [string, string]> =>
      [[`$${text}`, text], [`$$${text}`, `$${text}`]]),
    ...['$n[0].id', '${n.0.id}', '$$n[0].id', '$${n.0.id}', '$later[0].id', '${later.0.id}', '${m}',
      '${m[0].id}', '$m{0}', '$[0]', '${0.m.}', '$M[0]', 'see $m[0].id', '$5.00', '$2b$10$abc',
      '$', '$$', '$$ off', '$$5', '$ m.txt', '$m txt', '$m-x.txt', '$m,txt', ' $m.txt', 'x$m.txt',
      '$(m)', '$é', '$m\n', '$$m!', '$1.txt', '$.txt', ''].map(text => [text, text] as const),
    ['$$m', '$m'],
    ['$$$m.txt', '$$m.txt'],
    ['$$nope.', '$nope.'],
    ['$$_', '$_'],
    ['$$later[0].id', '$later[0].id'],
    ['$${o.0.id}', '${o.0.id}']
  ]
  for (const [sent, expected] of stored) {
    const values = [{ a: sent }, { a: { b: [sent] } }]
    const planner = new BatchPlanner(limits)
    // The second time, the plan is known.
    for (let i = 0; i < 2; i++) {
      const { plan, values: sentValues } =
        planWith(planner, [source, { ...insert, values }, later])
      const rows = storedRows(plan.operations[1] as PlanNode, {
        values: sentValues, readReference: () => undefined
      })
      t.same(rows.map(row => row.values), [{ a: expected }, { a: { b: [expected] } }], sent)
    }
  }
})

t.test('a kept plan of other values accepts no reference in brackets', async t => {
  const planner = new BatchPlanner(limits)
  const plan = (text: string): PlannedBatch =>
    planWith(planner, [source, { ...insert, values: [{ a: text }] }])
  for (const text of ['a', 'b', 'c', '$5.00']) plan(text)
  for (const text of ['$m[0].id', '${m.0.id}']) {
    t.throws(() => plan(text), { code: 'validation_failed' }, text)
  }
})

const file = (operation: object): string => JSON.stringify({
  params: {
    type: 'object',
    properties: {
      id: true,
      items: {
        type: 'array',
        items: { type: 'object', properties: { a: true }, additionalProperties: false }
      }
    },
    required: ['id', 'items']
  },
  operations: [source, operation]
})

t.test('the file of a named batch writes parameters and references alike', async t => {
  const issuesIn = (operation: object): readonly string[] => {
    const result = readNamedBatch('b.json', Buffer.from(file(operation)), limits)
    return 'issues' in result ? result.issues : []
  }
  for (const [operation, path] of places) {
    if (path.includes('$first')) continue
    for (const [text, name] of [['$params[id]', '$params.id'], ['${params.id}', '$params.id'],
      ['$params["id"]', '$params.id'], ['$m[0].id', '$m.0.id']] as const) {
      const [issue, ...more] = issuesIn(operation(text))
      t.same(more, [], text)
      t.ok(issue?.includes(`operation 1 (o): reference_malformed at ${path}: ${advice(name)}`),
        `${path}: ${String(issue)}`)
    }
  }
  for (const values of ['$params[items]', '${params.items}']) {
    t.match(
      issuesIn({ ...insert, values }),
      [`reference_malformed at values: ${advice('$params.items')}`]
    )
  }
  for (const text of ['$params[other]', '$params[id].a', '${params.}']) {
    t.match(
      issuesIn({ ...insert, values: [{ a: text }] }),
      [`reference_malformed at values[0].a: A parameter must have the form $params.name.${escape}`]
    )
  }
  t.same(issuesIn({ ...insert, values: '$params.items' }), [])
  t.same(issuesOf([source, { ...insert, values: [{ a: '$params[id]' }] }]), [], 'not ad hoc')
})
