/**
 * Tests the code and the path of the issues of an operation's extensions: one value for each rule.
 * grammar.test.ts tests that the planner refuses what the schemas refuse.
 */
import t from 'tap'
import { assertIssues, type InvalidOperation, issuesOf } from '../../support/issues.ts'

const insert = { op: 'insert', table: 'things', values: [{ id: 1, name: 'x' }] }
const update = { op: 'update', table: 'things', set: { name: 'x' }, where: { id: { eq: 1 } } }
const remove = { op: 'delete', table: 'things', where: { id: { eq: 1 } } }
const select = { op: 'select', table: 'things' }
const nothing = { columns: ['id'], do: 'nothing' }
const upsert = { columns: ['id'], do: 'update' }
const long = 'x'.repeat(64)
const conflict = (onConflict: unknown): object => ({ ...insert, on_conflict: onConflict })
const many = (count: number): string[] => Array.from({ length: count }, (_, i) => `c${i}`)

/** The values of a member, by the path of their issue. */
type ValuesByPath = Readonly<Record<string, readonly unknown[]>>

/** Invalid values, of which each has one issue. `withValue` creates the operation. */
function invalid (
  values: ValuesByPath,
  withValue: (value: unknown) => object,
  code = 'member_invalid'
): InvalidOperation[] {
  return Object.entries(values).flatMap(([path, list]) =>
    list.map((value): InvalidOperation => [withValue(value), `${code} ${path}`]))
}

t.test('returning', async t => {
  const values = {
    returning: ['id', many(1601)],
    'returning[0]': [[1], [long], ['data->']],
    'returning[1]': [['id', 'id'], ['data->name', 'name']]
  }
  assertIssues(t, [
    ...invalid(values, returning => ({ ...update, returning })),
    ...[update, remove].map((operation): InvalidOperation =>
      [{ ...operation, returning: [{ as: 'x' }] }, 'member_missing returning[0].column']),
    [{ ...update, returning: [{ column: 'id', alias: 'x' }] }, 'member_unknown returning[0].alias'],
    [{ ...update, returning: [{ fn: 'max', column: 'id' }] }, 'member_unknown returning[0].fn'],
    [{ ...update, returning: ['n', 'id', 'n', { column: 'name', as: 'id' }] },
      'member_invalid returning[2]', 'member_invalid returning[3]']
  ])
})

t.test('columns and group_by', async t => {
  const columns = {
    columns: [[], 'id', many(1601)],
    'columns[0]': [[2], ['data->'], ['->a'], ['data->>a->b'], [{}]],
    'columns[1]': [
      ['id', long], ['id', 'id'], ['id', { column: 'name', as: 'id' }], ['data->a', 'data->b->a'],
      ['count', { fn: 'count' }], [{ fn: 'sum', column: 'n', as: 'id' }, 'id']
    ],
    'columns[0].column': [[{ column: 'data->', as: 'x' }], [{ fn: 'count', column: null }]],
    'columns[1].column': [[{ fn: 'count', column: '*' }, { fn: 'max', column: '' }]],
    'columns[0].as': [[{ column: 'id', as: 'ä'.repeat(32) }], [{ fn: 'count', as: null }]],
    'columns[0].fn': ['COUNT', 1, 'constructor'].map(fn => [{ fn, column: 'id' }])
  }
  const groupBy = {
    group_by: ['id'],
    'group_by[0]': [[1], [{ column: 'id' }], ['data->']],
    'group_by[1]': [['id', long]]
  }
  assertIssues(t, [
    ...invalid(columns, columns => ({ ...select, columns })),
    [{ ...select, columns: ['id', { fn: 'sum', as: 'x' }] }, 'member_missing columns[1].column'],
    [{ ...select, columns: [{ fn: 'count', distinct: true }] }, 'member_missing columns[0].column'],
    [{ ...select, group_by: ['id'] }, 'member_missing columns'],
    ...invalid(groupBy, value => ({ ...select, columns: ['id'], group_by: value }))
  ])
})

t.test('order, limit, offset and lock', async t => {
  const order = {
    order: ['id', { id: 'asc' }],
    'order[0]': [['id'], [{}], [{ id: 'asc', name: 'asc' }]],
    'order[0].id': ['ASC', 1, null, ['asc']].map(id => [{ id }]),
    'order[1].id.direction': [[{ n: 'asc' }, { id: { direction: 'down' } }]],
    'order[0].id.nulls': [[{ id: { nulls: 'smallest' } }]],
    'order[0][""]': [[{ '': 'asc' }]],
    'order[0]["data->>a->b"]': [[{ 'data->>a->b': 'asc' }]]
  }
  const lock = {
    lock: ['exclusive', true, ['update']],
    'lock.mode': [{ mode: 'exclusive' }, { mode: null }],
    'lock.wait': [{ mode: 'share', wait: 'no' }, { wait: true }]
  }
  const numbers = [-1, 1.5, '1', [], '$o.0.id']
  assertIssues(t, [
    ...invalid(order, order => ({ ...select, order })),
    [{ ...select, order: [{ id: { dir: 'asc' } }] }, 'member_unknown order[0].id.dir'],
    ...invalid({ limit: numbers }, limit => ({ ...select, limit })),
    ...invalid({ offset: numbers }, offset => ({ ...select, offset })),
    ...invalid(lock, lock => ({ ...select, lock })),
    [{ ...select, lock: { mode: 'share', skip_locked: true } }, 'member_unknown lock.skip_locked']
  ])
})

t.test('expect', async t => {
  const values = {
    expect: [-1, '1', [1], {}, { min: 2, max: 1 }],
    'expect.min': [{ min: -1 }],
    'expect.max': [{ max: 0.5 }, { min: 1, max: null }]
  }
  assertIssues(t, [
    ...invalid(values, expect => ({ ...update, expect })),
    ...[insert, remove, select].map((operation): InvalidOperation =>
      [{ ...operation, expect: { exactly: 1 } }, 'member_unknown expect.exactly'])
  ])
})

t.test('on_conflict', async t => {
  const one = { n: { eq: 1 } }
  const values = {
    on_conflict: ['nothing', [], null],
    'on_conflict.do': [{ columns: ['id'], do: 'ignore' }],
    'on_conflict.columns': [[], 'id'].map(columns => ({ columns, do: 'nothing' })),
    'on_conflict.columns[1]': [{ columns: ['id', 1], do: 'nothing' }],
    'on_conflict.constraint': ['', null, long].map(constraint => ({ constraint, do: 'nothing' })),
    'on_conflict.set': [
      { ...nothing, set: { n: 1 } },
      { ...upsert, set: [] },
      { ...upsert, set: Object.fromEntries(many(1601).map(name => [name, 1])) }
    ],
    'on_conflict.set[""]': [{ ...upsert, set: { '': 1 } }],
    'on_conflict.set.n.$plus': [{ ...upsert, set: { n: { $plus: 1 } } }],
    'on_conflict.where': [{ ...nothing, where: one }, { ...upsert, where: 'true' }],
    'on_conflict.index_where': [
      { constraint: 'c', do: 'update', index_where: one }, { ...nothing, index_where: [] }
    ]
  }
  assertIssues(t, [
    ...invalid(values, conflict),
    [conflict({ columns: ['id'] }), 'member_missing on_conflict.do'],
    [conflict({ do: 'nothing' }), 'member_invalid on_conflict'],
    [conflict({ columns: ['id'], constraint: 'c', do: 'nothing' }), 'member_invalid on_conflict'],
    [conflict({ ...upsert, where: {} }), 'where_empty on_conflict.where'],
    [conflict({ ...nothing, target: 'x', doo: 'y' }),
      'member_unknown on_conflict.target', 'member_unknown on_conflict.doo'],
    [conflict({ ...upsert, set: {} }), 'set_empty on_conflict.set'],
    [{ ...conflict(upsert), values: 1 }, 'member_invalid values'],
    [conflict({ ...upsert, where: { n: {} } }), 'where_empty on_conflict.where.n'],
    [conflict({ ...upsert, set: { n: '$later.0.id' }, where: { n: { eq: '$nope.id' } } }),
      'reference_unknown on_conflict.set.n', 'reference_unknown on_conflict.where.n.eq'],
    // the default set would write defaults to columns that a row does not name
    ...invalid({
      'on_conflict.set': [
        [{ id: 1, n: 1 }, { id: 2 }], [{ id: 1, n: 1 }, { id: 2, name: 'x' }], [{}]
      ]
    }, values => ({ ...insert, values, on_conflict: upsert })),
    // Other inserts ignore these members. Here they look like conditions of the conflict.
    [{ ...insert, on_conflict: upsert, where: { n: { gt: 1 } }, set: { n: 1 } },
      'member_invalid where', 'member_invalid set']
  ])
})

t.test('index_where accepts only columns and constants', async t => {
  const withFilter = (where: unknown): object => conflict({ ...nothing, index_where: where })
  const at = 'on_conflict.index_where'
  const unknown = ['like', 'nin', 'isdistinct', 'cs', 'has_key', 'EQ']
  assertIssues(t, [
    ...invalid({
      [`${at}.n.eq`]: ['$before.0.id', { $col: 'id' }, null].map(eq => ({ n: { eq } })),
      [`${at}.n.in[1]`]: [{ n: { in: [1, '$before.0.id'] } }],
      [`${at}.n.in`]: ['$before.*.id', []].map(list => ({ n: { in: list } })),
      [`${at}.n.is`]: [{ n: { is: 'maybe' } }],
      [`${at}.n.gt`]: [{ n: { gt: [1] } }],
      [`${at}.data.eq`]: [{ data: { eq: { $value: {} } } }, { data: { eq: {} } }],
      [`${at}.n`]: [{ n: {} }]
    }, withFilter, 'operand_invalid'),
    [withFilter({ 'data->n': { eq: 1 } }), `member_invalid ${at}["data->n"]`],
    ...unknown.map((operator): InvalidOperation =>
      [withFilter({ name: { [operator]: 'x' } }), `operator_unknown ${at}.name.${operator}`]
    )
  ])
})

t.test('modifiers', async t => {
  const names = ['$nope', '$', '$$inc', '$INC', '$set', '$excluded', '$constructor', '$inc ']
  const operands = {
    $inc: ['1', null, [1], { $col: 'n' }, '$$later.0.id'],
    $mul: ['2', { $inc: 1 }],
    $now: [false, 1],
    $default: [false, 5],
    $col: ['', long, 1, 'data->', 'data->>a->b'],
    $merge: [1, 'text', [1]],
    $append: ['text', { a: 1 }],
    $remove: [1, ['a']]
  }
  assertIssues(t, [
    ...names.map((name): InvalidOperation => [
      { ...update, set: { n: { [name]: 1 } } },
      `member_invalid set.n${name === '$inc ' ? '["$inc "]' : `.${name}`}`
    ]),
    ...Object.entries(operands).flatMap(([name, list]) =>
      list.flatMap((operand): InvalidOperation[] => {
        const set = { n: { [name]: operand } }
        return [
          [{ ...update, set }, `member_invalid set.n.${name}`],
          [conflict({ ...upsert, set }), `member_invalid on_conflict.set.n.${name}`]
        ]
      })
    ),
    ...invalid(
      { 'on_conflict.set.n.$excluded': ['', 1, 'data->'] },
      column => conflict({ ...upsert, set: { n: { $excluded: column } } })
    ),
    // $excluded is valid only in on_conflict
    ...[update, select].map((operation): InvalidOperation => [{
      ...operation, where: { id: { eq: { $excluded: 'id' } } }
    }, 'operand_invalid where.id.eq'])
  ])
})

t.test('the number and the depth of conditions of on_conflict are limited', async t => {
  const four = { id: { gt: 0, lt: 9 }, n: { gt: 0, lt: 9 } }
  const nested = (depth: number): object =>
    depth === 0 ? { n: { eq: 1 } } : { not: nested(depth - 1) }
  for (const [member, action] of [['where', upsert], ['index_where', nothing]] as const) {
    const check = (where: object): string[] =>
      issuesOf([{ id: 'o', ...conflict({ ...action, [member]: where }) }], { conditions: '3' })
    t.same(check(four), [`member_invalid on_conflict.${member}`])
    t.same(check(nested(11)), [`depth_exceeded on_conflict.${member}${'.not'.repeat(11)}`])
    t.same(check(nested(10)), [])
  }
})
