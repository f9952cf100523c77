/**
 * Tests invalid extensions of an operation. Each is rejected with 422 before the transaction, with
 * the code and the path of every issue.
 */
import t from 'tap'
import { useService } from '../support/service.ts'

const schema = `
  create table things (id int primary key, name text, n int, data jsonb, tags text[]);
  grant all on things to oneflight_user;
`
type IssueRow = readonly [code: string, path: ReadonlyArray<string | number>]
type InvalidOperation = readonly [operation: Record<string, unknown>, ...issues: IssueRow[]]
const insert = { op: 'insert', table: 'things', values: [{ id: 1, name: 'x' }] }
const update = { op: 'update', table: 'things', set: { name: 'x' }, where: { id: { eq: 1 } } }
const remove = { op: 'delete', table: 'things', where: { id: { eq: 1 } } }
const select = { op: 'select', table: 'things' }
const nothing = { columns: ['id'], do: 'nothing' }
const upsert = { columns: ['id'], do: 'update' }
const long = 'x'.repeat(64)
const conflict = (onConflict: unknown): Record<string, unknown> => ({
  ...insert,
  on_conflict: onConflict
})
const many = (count: number): string[] => Array.from({ length: count }, (_, i) => `c${i}`)

/** Members that the kind of operation does not have. */
const foreign: ReadonlyArray<
  readonly [operation: Record<string, unknown>, members: Record<string, unknown>]
> = [
  [insert, {
    columns: ['id'],
    group_by: ['id'],
    order: [{ id: 'asc' }],
    limit: 1,
    offset: 1,
    lock: 'update',
    all: true
  }],
  [update, {
    columns: ['id'],
    group_by: ['id'],
    order: [{ id: 'asc' }],
    limit: 1,
    offset: 1,
    lock: 'update',
    on_conflict: nothing
  }],
  [remove, {
    columns: ['id'],
    group_by: ['id'],
    order: [{ id: 'asc' }],
    limit: 1,
    offset: 1,
    lock: 'update',
    on_conflict: nothing
  }],
  [select, { returning: ['id'], on_conflict: nothing, all: true }]
]

/** Optional members. Null is invalid for each of them. */
const optional: ReadonlyArray<
  readonly [operation: Record<string, unknown>, members: readonly string[]]
> = [
  [insert, ['returning', 'on_conflict', 'expect']],
  [update, ['returning', 'expect', 'all']],
  [remove, ['returning', 'expect', 'all']],
  [select, ['columns', 'order', 'limit', 'offset', 'lock', 'expect', 'where']],
  [{ ...select, columns: ['id'] }, ['group_by']]
]

const invalidOperations: readonly InvalidOperation[] = [
  ...foreign.flatMap(([operation, members]) =>
    Object.entries(members).map(([name, value]) =>
      [{ ...operation, [name]: value }, ['member_invalid', [name]] as IssueRow] as const
    )
  ),
  ...optional.flatMap(([operation, members]) =>
    members.map(name =>
      [{ ...operation, [name]: null }, ['member_invalid', [name]] as IssueRow] as const
    )
  ),
  // a typo never widens an operation
  [
    { ...select, Limit: 1, orderBy: [], groupBy: [], colums: [] },
    ['member_unknown', ['Limit']],
    ['member_unknown', ['orderBy']],
    ['member_unknown', ['groupBy']],
    ['member_unknown', ['colums']]
  ],
  [
    { ...insert, onConflict: nothing, expected: 1, return: [] },
    ['member_unknown', ['onConflict']],
    ['member_unknown', ['expected']],
    ['member_unknown', ['return']]
  ],

  // returning
  ...[insert, update, remove].flatMap(operation =>
    ([
      ['id', ['returning']],
      [{}, ['returning']],
      [true, ['returning']],
      ['*', ['returning']],
      [[1], ['returning', 0]],
      [[null], ['returning', 0]],
      [[['id']], ['returning', 0]],
      [['id', ''], ['returning', 1]],
      [[long], ['returning', 0]],
      [['data->'], ['returning', 0]],
      [['->a'], ['returning', 0]],
      [['data->>a->b'], ['returning', 0]],
      [['data->>a->>b'], ['returning', 0]],
      [['data->->b'], ['returning', 0]],
      [[`${long}->a`], ['returning', 0]],
      [[{ column: '' }], ['returning', 0, 'column']],
      [[{ column: 1 }], ['returning', 0, 'column']],
      [[{ column: null }], ['returning', 0, 'column']],
      [[{ column: 'id', as: '' }], ['returning', 0, 'as']],
      [[{ column: 'id', as: long }], ['returning', 0, 'as']],
      [[{ column: 'id', as: null }], ['returning', 0, 'as']],
      [[{ column: 'id', as: 1 }], ['returning', 0, 'as']],
      [['id', 'id'], ['returning', 1]],
      [['id', 'name', { column: 'n', as: 'id' }], ['returning', 2]],
      [['data->name', 'name'], ['returning', 1]],
      [[{ column: 'n', as: 'id' }, { column: 'name', as: 'id' }], ['returning', 1]],
      [['data->0', 'data'], ['returning', 1]],
      [many(1601), ['returning']]
    ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>).map(([returning, path]) =>
      [{ ...operation, returning }, ['member_invalid', path] as IssueRow] as const
    )
  ),
  [{ ...update, returning: [{}] }, ['member_missing', ['returning', 0, 'column']]],
  [{ ...update, returning: [{ as: 'x' }] }, ['member_missing', ['returning', 0, 'column']]],
  [{ ...update, returning: [{ column: 'id', alias: 'x' }] }, ['member_unknown', [
    'returning',
    0,
    'alias'
  ]]],
  [{ ...update, returning: [{ column: 'id', constructor: 'x' }] }, ['member_unknown', [
    'returning',
    0,
    'constructor'
  ]]],
  [
    JSON.parse(
      '{"op":"delete","table":"things","all":true,"returning":[{"column":"id","__proto__":{}}]}'
    ),
    ['member_unknown', ['returning', 0, '__proto__']]
  ],
  [{ ...update, returning: [1, 'id', ''] }, ['member_invalid', ['returning', 0]], [
    'member_invalid',
    ['returning', 2]
  ]],
  [{ ...update, returning: ['n', 'id', 'n', { column: 'name', as: 'id' }] }, ['member_invalid', [
    'returning',
    2
  ]], ['member_invalid', ['returning', 3]]],

  // columns
  ...([
    [[], ['columns']],
    ['id', ['columns']],
    [{}, ['columns']],
    [[2], ['columns', 0]],
    [[null], ['columns', 0]],
    [[[]], ['columns', 0]],
    [[''], ['columns', 0]],
    [['id', long], ['columns', 1]],
    [['data->'], ['columns', 0]],
    [['->a'], ['columns', 0]],
    [['->>a'], ['columns', 0]],
    [['data->>a->b'], ['columns', 0]],
    [['data->->b'], ['columns', 0]],
    [[{ column: 'data->', as: 'x' }], ['columns', 0, 'column']],
    [[{ column: [], as: 'x' }], ['columns', 0, 'column']],
    [[{ column: 'id', as: '' }], ['columns', 0, 'as']],
    [[{ column: 'id', as: 'ä'.repeat(32) }], ['columns', 0, 'as']],
    [['id', 'id'], ['columns', 1]],
    [['id', { column: 'name', as: 'id' }], ['columns', 1]],
    [['data->a', 'data->b->a'], ['columns', 1]],
    [[{ fn: 'count' }, { fn: 'count', column: 'id' }], ['columns', 1]],
    [['count', { fn: 'count' }], ['columns', 1]],
    [[{ fn: 'sum', column: 'id' }, { fn: 'sum', column: 'n' }], ['columns', 1]],
    [[{ fn: 'sum', column: 'n', as: 'id' }, 'id'], ['columns', 1]],
    [[{ fn: 'median', column: 'id' }], ['columns', 0, 'fn']],
    [[{ fn: 'COUNT' }], ['columns', 0, 'fn']],
    [[{ fn: 1, column: 'id' }], ['columns', 0, 'fn']],
    [[{ fn: null, column: 'id' }], ['columns', 0, 'fn']],
    [[{ fn: 'constructor', column: 'id' }], ['columns', 0, 'fn']],
    [[{ fn: 'count', column: null }], ['columns', 0, 'column']],
    [[{ fn: 'count', column: '*' }, { fn: 'max', column: '' }], ['columns', 1, 'column']],
    [[{ fn: 'count', as: null }], ['columns', 0, 'as']],
    [[{ fn: 'sum', column: 'id', as: '' }], ['columns', 0, 'as']],
    [many(1601), ['columns']]
  ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>).map(([columns, path]) =>
    [{ ...select, columns }, ['member_invalid', path] as IssueRow] as const
  ),
  ...['sum', 'avg', 'min', 'max'].map(fn =>
    [
      { ...select, columns: ['id', { fn, as: 'x' }] },
      ['member_missing', ['columns', 1, 'column']] as IssueRow
    ] as const
  ),
  [{ ...select, columns: [{}] }, ['member_invalid', ['columns', 0]]],
  [{ ...select, columns: [{ fn: 'count', distinct: true }] }, ['member_missing', [
    'columns',
    0,
    'column'
  ]]],
  [{ ...select, columns: [{ column: 'id', x: 1 }, { column: 'n', as: '' }, 'name'] }, [
    'member_unknown',
    ['columns', 0, 'x']
  ], ['member_invalid', ['columns', 1, 'as']]],

  // group_by
  [{ ...select, group_by: ['id'] }, ['member_missing', ['columns']]],
  ...([
    ['id', ['group_by']],
    [{}, ['group_by']],
    [[1], ['group_by', 0]],
    [[null], ['group_by', 0]],
    [[{ column: 'id' }], ['group_by', 0]],
    [[''], ['group_by', 0]],
    [['id', long], ['group_by', 1]],
    [['data->'], ['group_by', 0]]
  ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>)
    .map(([groupBy, path]) =>
      [
        { ...select, columns: ['id'], group_by: groupBy },
        ['member_invalid', path] as IssueRow
      ] as const
    ),

  // order
  ...([
    ['id', ['order']],
    [{ id: 'asc' }, ['order']],
    [['id'], ['order', 0]],
    [[null], ['order', 0]],
    [[[]], ['order', 0]],
    [[{}], ['order', 0]],
    [[{ id: 'asc', name: 'asc' }], ['order', 0]],
    [[{ id: 'ASC' }], ['order', 0, 'id']],
    [[{ id: 'up' }], ['order', 0, 'id']],
    [[{ id: 1 }], ['order', 0, 'id']],
    [[{ id: null }], ['order', 0, 'id']],
    [[{ id: ['asc'] }], ['order', 0, 'id']],
    [[{ id: {} }], ['order', 0, 'id']],
    [[{ id: true }], ['order', 0, 'id']],
    [[{ n: 'asc' }, { id: { direction: 'down' } }], ['order', 1, 'id', 'direction']],
    [[{ id: { nulls: 'smallest' } }], ['order', 0, 'id', 'nulls']],
    [[{ id: { direction: null } }], ['order', 0, 'id', 'direction']],
    [[{ id: { direction: 'asc', nulls: null } }], ['order', 0, 'id', 'nulls']],
    [[{ '': 'asc' }], ['order', 0, '']],
    [[{ [long]: 'asc' }], ['order', 0, long]],
    [[{ 'data->': 'asc' }], ['order', 0, 'data->']],
    [[{ 'data->>a->b': 'asc' }], ['order', 0, 'data->>a->b']]
  ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>).map(([order, path]) =>
    [{ ...select, order }, ['member_invalid', path] as IssueRow] as const
  ),
  [{ ...select, order: [{ id: { dir: 'asc' } }] }, ['member_unknown', ['order', 0, 'id', 'dir']]],
  [{ ...select, order: [{ id: { direction: 'asc', null: 'first' } }, { n: 'x' }] }, [
    'member_unknown',
    ['order', 0, 'id', 'null']
  ], ['member_invalid', ['order', 1, 'n']]],

  // limit and offset
  ...['limit', 'offset'].flatMap(name =>
    [-1, 1.5, '1', true, [], {}, '$o.0.id'].map(value =>
      [{ ...select, [name]: value }, ['member_invalid', [name]] as IssueRow] as const
    )
  ),

  // lock
  ...([
    ['exclusive', ['lock']],
    ['UPDATE', ['lock']],
    ['for update', ['lock']],
    ['', ['lock']],
    [true, ['lock']],
    [1, ['lock']],
    [['update'], ['lock']],
    [{ mode: 'exclusive' }, ['lock', 'mode']],
    [{ mode: null }, ['lock', 'mode']],
    [{ mode: 'constructor' }, ['lock', 'mode']],
    [{ mode: 'share', wait: 'no' }, ['lock', 'wait']],
    [{ wait: null }, ['lock', 'wait']],
    [{ wait: true }, ['lock', 'wait']]
  ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>)
    .map(([lock, path]) => [{ ...select, lock }, ['member_invalid', path] as IssueRow] as const),
  [{ ...select, lock: { mode: 'share', skip_locked: true } }, ['member_unknown', [
    'lock',
    'skip_locked'
  ]]],
  [{ ...select, lock: { mode: 'x', wait: 'y', of: 'z' } }, ['member_invalid', ['lock', 'mode']], [
    'member_invalid',
    ['lock', 'wait']
  ], ['member_unknown', ['lock', 'of']]],

  // expect
  ...[insert, update, remove, select].flatMap(operation =>
    ([
      [-1, ['expect']],
      [1.5, ['expect']],
      ['1', ['expect']],
      [true, ['expect']],
      [[1], ['expect']],
      [{}, ['expect']],
      [{ min: 2, max: 1 }, ['expect']],
      [{ min: -1 }, ['expect', 'min']],
      [{ max: 0.5 }, ['expect', 'max']],
      [{ min: '1' }, ['expect', 'min']],
      [{ min: 1, max: null }, ['expect', 'max']]
    ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>)
      .map(([expect, path]) =>
        [{ ...operation, expect }, ['member_invalid', path] as IssueRow] as const
      )
  ),
  [{ ...select, expect: { exactly: 1 } }, ['member_unknown', ['expect', 'exactly']]],
  [{ ...select, expect: { min: 1, most: 2 } }, ['member_unknown', ['expect', 'most']]],

  // on_conflict
  ...([
    ['nothing', []],
    [[], []],
    [true, []],
    [1, []],
    [{ columns: ['id'], do: 'ignore' }, ['do']],
    [{ columns: ['id'], do: null }, ['do']],
    [{ columns: ['id'], do: 1 }, ['do']],
    [{ columns: [], do: 'nothing' }, ['columns']],
    [{ columns: 'id', do: 'nothing' }, ['columns']],
    [{ columns: null, do: 'nothing' }, ['columns']],
    [{ columns: ['id', 1], do: 'nothing' }, ['columns', 1]],
    [{ columns: [''], do: 'nothing' }, ['columns', 0]],
    [{ columns: [long], do: 'nothing' }, ['columns', 0]],
    [{ constraint: '', do: 'nothing' }, ['constraint']],
    [{ constraint: 1, do: 'nothing' }, ['constraint']],
    [{ constraint: null, do: 'nothing' }, ['constraint']],
    [{ constraint: long, do: 'nothing' }, ['constraint']],
    [{ constraint: ['a'], do: 'nothing' }, ['constraint']],
    [{ ...nothing, set: { n: 1 } }, ['set']],
    [{ ...nothing, where: { n: { eq: 1 } } }, ['where']],
    [{ constraint: 'c', do: 'nothing', index_where: { n: { eq: 1 } } }, ['index_where']],
    [{ constraint: 'c', do: 'update', index_where: { n: { eq: 1 } } }, ['index_where']],
    [{ ...upsert, set: null }, ['set']],
    [{ ...upsert, set: [] }, ['set']],
    [{ ...upsert, set: { '': 1 } }, ['set', '']],
    [{ ...upsert, set: { [long]: 1 } }, ['set', long]],
    [{ ...upsert, where: null }, ['where']],
    [{ ...upsert, where: [] }, ['where']],
    [{ ...upsert, where: 'true' }, ['where']],
    [{ ...nothing, index_where: null }, ['index_where']],
    [{ ...nothing, index_where: [] }, ['index_where']],
    [{ ...nothing, index_where: 'n = 1' }, ['index_where']],
    [{ ...upsert, set: { n: { $plus: 1 } } }, ['set', 'n', '$plus']]
  ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>).map(([onConflict, path]) =>
    [conflict(onConflict), ['member_invalid', ['on_conflict', ...path]] as IssueRow] as const
  ),
  [conflict({ columns: ['id'] }), ['member_missing', ['on_conflict', 'do']]],
  [
    conflict({ ...nothing, target: 'x', doo: 'y' }),
    ['member_unknown', ['on_conflict', 'target']],
    ['member_unknown', ['on_conflict', 'doo']]
  ],
  [conflict({ ...upsert, set: {} }), ['set_empty', ['on_conflict', 'set']]],
  [conflict({ ...upsert, where: { n: {} } }), ['where_empty', ['on_conflict', 'where', 'n']]],
  [conflict({ ...upsert, where: { n: { eq: null }, name: { nope: 1 } } }), ['operand_invalid', [
    'on_conflict',
    'where',
    'n',
    'eq'
  ]], ['operator_unknown', ['on_conflict', 'where', 'name', 'nope']]],
  [
    conflict({
      ...upsert,
      set: { n: '$later.0.id', data: [{ x: '$o.id' }] },
      where: { n: { eq: '$nope.id' } }
    }),
    ['reference_unknown', ['on_conflict', 'set', 'n']],
    ['reference_unknown', ['on_conflict', 'set', 'data', 0, 'x']],
    ['reference_unknown', ['on_conflict', 'where', 'n', 'eq']]
  ],
  // the default set would write defaults to columns that a row does not name
  [{ ...insert, values: [{ id: 1, n: 1 }, { id: 2 }], on_conflict: upsert }, ['member_invalid', [
    'on_conflict',
    'set'
  ]]],
  [{ ...insert, values: [{ id: 1, n: 1 }, { id: 2, name: 'x' }], on_conflict: upsert }, [
    'member_invalid',
    ['on_conflict', 'set']
  ]],
  [{ ...insert, values: [{}], on_conflict: upsert }, ['member_invalid', ['on_conflict', 'set']]],
  // Other inserts ignore these members. Here they look like conditions of the conflict.
  [{ ...insert, on_conflict: upsert, where: { n: { gt: 1 } }, set: { n: 1 } }, [
    'member_invalid',
    ['where']
  ], ['member_invalid', ['set']]],
  [{ ...insert, values: [1], on_conflict: upsert }, ['member_invalid', ['values', 0]]],
  [
    conflict({
      ...upsert,
      set: Object.fromEntries(Array.from({ length: 1601 }, (_, i) => [`c${i}`, i]))
    }),
    ['member_invalid', ['on_conflict', 'set']]
  ],

  // index_where accepts only columns and constants
  ...([
    [{ n: { eq: '$before.0.id' } }, ['n', 'eq']],
    [{ n: { in: [1, '$before.0.id'] } }, ['n', 'in', 1]],
    [{ n: { in: '$before.*.id' } }, ['n', 'in']],
    [{ n: { eq: { $col: 'id' } } }, ['n', 'eq']],
    [{ n: { eq: { $excluded: 'id' } } }, ['n', 'eq']],
    [{ n: { eq: null } }, ['n', 'eq']],
    [{ n: { in: [] } }, ['n', 'in']],
    [{ n: { in: 5 } }, ['n', 'in']],
    [{ n: { is: 'maybe' } }, ['n', 'is']],
    [{ data: { eq: { $value: {} } } }, ['data', 'eq']],
    [{ n: { eq: { any: [1] } } }, ['n', 'eq']],
    [{ data: { eq: {} } }, ['data', 'eq']],
    [{ n: { gt: [1] } }, ['n', 'gt']],
    [{ n: {} }, ['n']]
  ] as ReadonlyArray<readonly [unknown, IssueRow[1]]>).map(([indexWhere, path]) =>
    [
      conflict({ ...nothing, index_where: indexWhere }),
      ['operand_invalid', ['on_conflict', 'index_where', ...path]] as IssueRow
    ] as const
  ),
  [conflict({ ...nothing, index_where: { 'data->n': { eq: 1 } } }), ['member_invalid', [
    'on_conflict',
    'index_where',
    'data->n'
  ]]],
  ...[
    'like',
    'ilike',
    'match',
    'imatch',
    'nin',
    'between',
    'isdistinct',
    'fts',
    'cs',
    'ov',
    'sl',
    'has_key'
  ].map(operator =>
    [
      conflict({ ...nothing, index_where: { name: { [operator]: 'x' } } }),
      ['operator_unknown', ['on_conflict', 'index_where', 'name', operator]] as IssueRow
    ] as const
  ),
  [conflict({ ...nothing, index_where: { n: { EQ: 1 } } }), ['operator_unknown', [
    'on_conflict',
    'index_where',
    'n',
    'EQ'
  ]]],

  // modifiers
  ...[
    '$nope',
    '$',
    '$$inc',
    '$INC',
    '$Inc',
    '$set',
    '$unset',
    '$push',
    '$excluded',
    '$constructor',
    '$__proto__',
    '$inc '
  ].map(name =>
    [
      { ...update, set: { n: { [name]: 1 } } },
      ['member_invalid', ['set', 'n', name]] as IssueRow
    ] as const
  ),
  ...([
    [{ $inc: '1' }],
    [{ $inc: null }],
    [{ $inc: true }],
    [{ $inc: [1] }],
    [{ $inc: {} }],
    [{ $inc: { $col: 'n' } }],
    [{ $inc: '$$later.0.id' }],
    [{ $mul: '2' }],
    [{ $mul: null }],
    [{ $mul: { $inc: 1 } }],
    [{ $now: false }],
    [{ $now: null }],
    [{ $now: 1 }],
    [{ $now: 'true' }],
    [{ $now: {} }],
    [{ $default: false }],
    [{ $default: null }],
    [{ $default: 5 }],
    [{ $col: '' }],
    [{ $col: long }],
    [{ $col: 1 }],
    [{ $col: null }],
    [{ $col: ['n'] }],
    [{ $col: 'data->' }],
    [{ $col: '->x' }],
    [{ $col: 'data->>a->b' }],
    [{ $merge: null }],
    [{ $merge: 1 }],
    [{ $merge: 'text' }],
    [{ $merge: [1] }],
    [{ $merge: true }],
    [{ $append: null }],
    [{ $append: 1 }],
    [{ $append: 'text' }],
    [{ $append: { a: 1 } }],
    [{ $remove: null }],
    [{ $remove: 1 }],
    [{ $remove: ['a'] }],
    [{ $remove: {} }]
  ] as ReadonlyArray<readonly [Record<string, unknown>]>).flatMap(([modifier]) => [
    [
      { ...update, set: { n: modifier } },
      ['member_invalid', ['set', 'n', Object.keys(modifier)[0]]] as unknown as IssueRow
    ] as const,
    [
      conflict({ ...upsert, set: { n: modifier } }),
      ['member_invalid', [
        'on_conflict',
        'set',
        'n',
        Object.keys(modifier)[0]
      ]] as unknown as IssueRow
    ] as const
  ]),
  ...([['', []], [long, []], [1, []], [null, []], ['data->', []]] as ReadonlyArray<
    readonly [unknown, IssueRow[1]]
  >).map(([column]) =>
    [
      conflict({ ...upsert, set: { n: { $excluded: column } } }),
      ['member_invalid', ['on_conflict', 'set', 'n', '$excluded']] as IssueRow
    ] as const
  ),
  [
    {
      ...update,
      set: {
        n: { $inc: '$later.0.id' },
        name: { $remove: '$nope.' },
        data: { $merge: { a: ['$o.id'] } },
        tags: { $append: ['x', '$nope.id'] }
      }
    },
    ['reference_unknown', ['set', 'n', '$inc']],
    ['reference_unknown', ['set', 'name', '$remove']],
    ['reference_unknown', ['set', 'data', '$merge', 'a', 0]],
    ['reference_unknown', ['set', 'tags', '$append', 1]]
  ],
  [{ ...update, set: { n: { $inc: '$before.' }, data: { $value: { x: '$before.0.' } } } }, [
    'reference_malformed',
    ['set', 'n', '$inc']
  ], ['reference_malformed', ['set', 'data', '$value', 'x']]],
  // $excluded is valid only in on_conflict
  [{ ...update, where: { id: { eq: { $excluded: 'id' } } } }, ['operand_invalid', [
    'where',
    'id',
    'eq'
  ]]],
  [{ ...select, where: { id: { eq: { $excluded: 'id' } } } }, ['operand_invalid', [
    'where',
    'id',
    'eq'
  ]]],

  // several issues at once
  [
    {
      ...select,
      columns: ['', { fn: 'x' }],
      group_by: [1],
      order: [{ id: 'x' }],
      limit: -1,
      offset: '1',
      lock: 'x',
      expect: {},
      returning: []
    },
    ['member_invalid', ['columns', 0]],
    ['member_invalid', ['columns', 1, 'fn']],
    ['member_invalid', ['group_by', 0]],
    ['member_invalid', ['order', 0, 'id']],
    ['member_invalid', ['limit']],
    ['member_invalid', ['offset']],
    ['member_invalid', ['lock']],
    ['member_invalid', ['expect']],
    ['member_invalid', ['returning']]
  ],
  [
    {
      ...update,
      set: { n: { $nope: 1 }, name: '$nope.id', '': 1 },
      where: { id: { nope: 1, eq: '$o.id' } },
      returning: [1],
      expect: -1,
      limit: 1
    },
    ['member_invalid', ['set', 'n', '$nope']],
    ['reference_unknown', ['set', 'name']],
    ['member_invalid', ['set', '']],
    ['operator_unknown', ['where', 'id', 'nope']],
    ['reference_unknown', ['where', 'id', 'eq']],
    ['member_invalid', ['returning', 0]],
    ['member_invalid', ['expect']],
    ['member_invalid', ['limit']]
  ],
  [
    {
      ...insert,
      values: [{ id: '$nope.id' }, 5],
      returning: ['id', 'id'],
      expect: { min: 2, max: 1 },
      on_conflict: { columns: ['id'], constraint: 'x', do: 'nothing', set: { n: 1 } }
    },
    ['reference_unknown', ['values', 0, 'id']],
    ['member_invalid', ['values', 1]],
    ['member_invalid', ['returning', 1]],
    ['member_invalid', ['expect']],
    ['member_invalid', ['on_conflict']],
    ['member_invalid', ['on_conflict', 'set']]
  ],
  [
    conflict({
      columns: ['id'],
      do: 'update',
      set: { n: { $inc: 'x' }, name: '$nope.id', '': 1 },
      where: { n: { eq: [1] } },
      index_where: { n: { eq: {} } },
      x: 1
    }),
    ['member_invalid', ['on_conflict', 'set', 'n', '$inc']],
    ['reference_unknown', ['on_conflict', 'set', 'name']],
    ['member_invalid', ['on_conflict', 'set', '']],
    ['operand_invalid', ['on_conflict', 'where', 'n', 'eq']],
    ['operand_invalid', ['on_conflict', 'index_where', 'n', 'eq']],
    ['member_unknown', ['on_conflict', 'x']]
  ],
  [
    {
      ...select,
      columns: ['id', 'id', { fn: 'max' }],
      group_by: ['id', ''],
      where: { n: { eq: '$nope.id' }, id: {} },
      expect: { min: 2, max: 1 },
      offset: -1
    },
    ['member_invalid', ['columns', 1]],
    ['member_missing', ['columns', 2, 'column']],
    ['member_invalid', ['group_by', 1]],
    ['reference_unknown', ['where', 'n', 'eq']],
    ['operand_invalid', ['where', 'id']],
    ['member_invalid', ['expect']],
    ['member_invalid', ['offset']]
  ],
  [
    {
      ...insert,
      values: [],
      returning: 1,
      expect: -1,
      on_conflict: { do: 'x', columns: [1], set: { n: { $x: 1 } } }
    },
    ['values_empty', ['values']],
    ['member_invalid', ['returning']],
    ['member_invalid', ['expect']],
    ['member_invalid', ['on_conflict', 'do']],
    ['member_invalid', ['on_conflict', 'columns', 0]],
    ['member_invalid', ['on_conflict', 'set', 'n', '$x']]
  ]
]

t.test('each issue has its code and its path', async t => {
  const service = await useService(t, { schema })
  const byPath = (a: IssueRow, b: IssueRow): number =>
    JSON.stringify(a) < JSON.stringify(b) ? -1 : 1
  for (const [operation, ...issues] of invalidOperations) {
    const text = JSON.stringify([{ id: 'before', ...select }, { id: 'o', ...operation }, {
      id: 'later',
      ...select
    }])
    const { status, body, text: response } = await service.post(text)
    t.equal(
      status,
      422,
      encodeURI(
        `${JSON.stringify(operation).slice(0, 250)} ${status === 422 ? '' : response.slice(0, 250)}`
      )
    )
    if (status !== 422) continue
    t.match(body.error, { type: 'validation_error', code: 'validation_failed', committed: false })
    const found: ReadonlyArray<{ code: string, path: IssueRow[1] }> = body.error.errors ?? []
    t.strictSame(
      found.map(({ code, path }): IssueRow => [code, path]).sort(byPath),
      [...issues].sort(byPath)
    )
    for (const issue of found) {
      t.match(issue, { op: 'o', index: 1, message: /^.+[.?]$/s })
    }
  }
  t.same(await service.database.sql`select * from things`, [], 'nothing was written')
})

t.test('an issue of a whole member has the path of the member', async t => {
  const service = await useService(t, { schema })
  const rows: ReadonlyArray<readonly [operation: Record<string, unknown>, member: string]> = [
    [conflict({ do: 'nothing' }), 'on_conflict'],
    [conflict({ do: 'update', set: { n: 1 } }), 'on_conflict'],
    [conflict({ columns: ['id'], constraint: 'things_pkey', do: 'nothing' }), 'on_conflict'],
    [conflict({}), 'on_conflict'],
    [conflict({ ...upsert, where: {} }), 'on_conflict'],
    [conflict({ columns: ['id', 'id'], do: 'nothing', x: 1 }), 'on_conflict'],
    [{ ...update, returning: [{ fn: 'count' }] }, 'returning'],
    [{ ...update, returning: [{ fn: 'max', column: 'id' }] }, 'returning']
  ]
  for (const [operation, member] of rows) {
    const { status, body, text } = await service.post([{ id: 'o', ...operation }])
    t.match({ status, first: body.error?.errors?.[0] }, {
      status: 422,
      first: { op: 'o', index: 0, path: [member] }
    }, encodeURI(`${JSON.stringify(operation)} ${text}`))
  }
})

t.test('the number and the depth of conditions of on_conflict are limited', async t => {
  const service = await useService(t, { schema, env: { MAX_CONDITIONS: '3' } })
  const four = { id: { gt: 0, lt: 9 }, n: { gt: 0, lt: 9 } }
  const nested = (depth: number): unknown =>
    depth === 0 ? { n: { eq: 1 } } : { not: nested(depth - 1) }
  const nots = Array.from({ length: 11 }, () => 'not')
  const rows: ReadonlyArray<readonly [onConflict: Record<string, unknown>, issue?: IssueRow]> = [
    [{ ...upsert, where: four }, ['member_invalid', ['on_conflict', 'where']]],
    [{ ...nothing, index_where: four }, ['member_invalid', ['on_conflict', 'index_where']]],
    [{ ...upsert, where: nested(11) }, ['depth_exceeded', ['on_conflict', 'where', ...nots]]],
    [{ ...nothing, index_where: nested(11) }, ['depth_exceeded', [
      'on_conflict',
      'index_where',
      ...nots
    ]]],
    [{ ...upsert, where: nested(10) }],
    [{ ...nothing, index_where: nested(10) }]
  ]
  for (const [onConflict, issue] of rows) {
    const { status, body, text } = await service.post([{ id: 'o', ...conflict(onConflict) }])
    if (issue === undefined) t.equal(status, 200, encodeURI(text))
    else {
      t.strictSame(
        body.error?.errors?.map(({ code, path }: Record<string, unknown>) => [code, path]),
        [issue],
        encodeURI(text)
      )
    }
  }
})

t.test('numbers out of range never cause a server error', async t => {
  const service = await useService(t, { schema })
  for (const name of ['limit', 'offset', 'expect']) {
    const numbers = [
      '9223372036854775807',
      '9223372036854775808',
      '99999999999999999999',
      '1e2',
      '1.0',
      '1e400',
      '-0',
      '1E+2',
      '-1e2',
      '1e-2'
    ]
    for (const number of numbers) {
      const { status, text } = await service.post(
        `[{"id":"o","op":"select","table":"things","${name}":${number}}]`
      )
      t.ok([200, 412, 422].includes(status), `${name} ${number} ${status} ${text}`)
    }
  }
})

t.test('valid extensions are accepted', async t => {
  const service = await useService(t, { schema })
  const rows: ReadonlyArray<Record<string, unknown>> = [
    { ...select, values: null, set: 5, columns: ['id'] },
    { ...insert, where: null, set: 5, returning: [], expect: 1 },
    { ...remove, set: null, values: 3, expect: { min: 0 } },
    { ...update, set: { n: { $inc: 1 }, data: { $inc: 1, x: 2 }, name: { $now: true } } },
    { ...update, set: { data: { $value: { $nope: { $nope: 1 } } } } },
    { ...update, set: { data: { a: { $nope: 1 } } } },
    { ...insert, values: [{ id: 2, data: { $nope: 1 } }], on_conflict: upsert },
    { ...insert, values: [{ id: 2, name: 'a' }, { name: 'b', id: 3 }], on_conflict: upsert },
    {
      ...insert,
      values: [{ id: 2, name: 'a' }, { id: 4 }],
      on_conflict: { ...upsert, set: { n: { $excluded: 'n' } } }
    },
    { ...insert, on_conflict: { ...nothing }, returning: ['id', { column: 'id', as: 'ID' }] },
    { ...insert, on_conflict: { constraint: 'things_pkey', do: 'nothing' } },
    {
      ...select,
      columns: ['id', { column: 'data->id', as: 'n' }, { column: 'data->>name', as: 'x' }],
      order: [{ n: { nulls: 'last' } }, { 'data->>x': 'desc' }],
      limit: 0,
      offset: 0,
      lock: { mode: 'share' },
      expect: { max: 0 }
    },
    {
      ...select,
      columns: ['name', { fn: 'count', as: 'name2' }, { fn: 'count', column: 'id' }],
      group_by: ['name'],
      order: [{ count: 'asc' }]
    }
  ]
  for (const operation of rows) {
    const { status, text } = await service.post([{ id: 'o', ...operation }])
    t.equal(status, 200, encodeURI(`${JSON.stringify(operation)} ${text}`))
  }
})
