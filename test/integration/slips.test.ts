/**
 * Tests the answers to common mistakes: what is wrong, where, and what to write instead.
 */
import t from 'tap'
import { asCustomer, useShopService } from '../support/database/shop.ts'
import type { Answer } from '../support/service.ts'
import { bodyOf, slips } from '../slips.ts'

/** The parts of an error that tell what is wrong. An issue has a path. */
function errorOf ({ status, body: { error } }: Answer): object {
  const [{ code, path, message } = error, ...more] = error.errors ?? []
  return { status, code, ...path === undefined ? {} : { path }, message, more }
}

t.test('every common mistake has its answer, and its repair works', async t => {
  const service = await useShopService(t)
  for (const slip of slips) {
    const { mistake, repair, status, code, path, message } = slip
    const options = { headers: asCustomer() }
    const refused = await service.post(bodyOf(slip, mistake), options)
    t.same(
      errorOf(refused),
      { status, code, ...path === undefined ? {} : { path }, message, more: [] },
      mistake
    )
    const accepted = await service.post(bodyOf(slip, repair), options)
    t.same([accepted.status, accepted.body.error], [200, null], repair)
  }
})

t.test('the example of a message uses what was sent', async t => {
  const service = await useShopService(t)
  type Row = readonly [members: object, path: ReadonlyArray<string | number>, message: string]
  const operators = (text: string): string => `must be an object of operators, for example ${text}.`
  const columns = (name: string, text: string): string =>
    `"${name}" must be an array of columns, for example ${text}.`
  const element = (text: string): string =>
    'Element 0 of "order" must be an object of a column and its direction, ' +
    `for example "order": [${text}].`
  const rows: readonly Row[] = [
    [{ where: { qty: 3 } }, ['where', 'qty'], `"qty" ${operators('{"qty": {"eq": 3}}')}`],
    [{ where: { a: true } }, ['where', 'a'], `"a" ${operators('{"a": {"eq": true}}')}`],
    [
      { where: { sku: null } },
      ['where', 'sku'],
      `"sku" ${operators('{"sku": {"eq": "apple"}}')} In SQL, nothing equals null; ` +
      'use {"is": null}.'
    ],
    [
      { where: { sku: ['pear'] } },
      ['where', 'sku'],
      `"sku" ${operators('{"sku": {"eq": "apple"}}')}`
    ],
    [
      { where: { sku: 'x'.repeat(39) } },
      ['where', 'sku'],
      `"sku" ${operators('{"sku": {"eq": "apple"}}')}`
    ],
    [
      { where: { 'a->"b"': 'pear' } },
      ['where', 'a->"b"'],
      `"a->"b"" ${operators('{"a->\\"b\\"": {"eq": "pear"}}')}`
    ],
    [
      { where: { sku: { not: 'pear' } } },
      ['where', 'sku', 'not'],
      `"not" ${operators('{"not": {"eq": "pear"}}')}`
    ],
    [{ order: ['qty'] }, ['order', 0], element('{"qty": "asc"}')],
    [{ order: ['qty.DESC'] }, ['order', 0], element('{"qty": "desc"}')],
    [{ order: ['qty desc'] }, ['order', 0], element('{"qty": "desc"}')],
    [{ order: ['-qty'] }, ['order', 0], element('{"sku": "asc"}')],
    [{ order: ['q'.repeat(41)] }, ['order', 0], element('{"sku": "asc"}')],
    [
      { order: { qty: 'asc' } },
      ['order'],
      '"order" must be an array of objects, for example [{"sku": "asc"}].'
    ],
    [{ columns: 'qty' }, ['columns'], columns('columns', '["qty"]')],
    [{ columns: 'sku, qty' }, ['columns'], columns('columns', '["sku"]')],
    [
      { columns: ['qty'], group_by: 'qty' },
      ['group_by'],
      columns('group_by', '["qty"]')
    ],
    [
      { columns: [] },
      ['columns'],
      '"columns" must be a non-empty array of at most 1600 elements.'
    ],
    [
      { order: Array.from({ length: 1601 }, () => ({ sku: 'asc' })) },
      ['order'],
      '"order" must be an array of at most 1600 elements.'
    ]
  ]
  for (const [members, path, message] of rows) {
    const answer = await service.post(
      [{ id: 'a', op: 'select', table: 'stock', ...members }],
      { headers: asCustomer() }
    )
    const { path: actualPath, message: actualMessage } = answer.body.error.errors[0]
    t.same([actualPath, actualMessage], [path, message], JSON.stringify(members).slice(0, 60))
  }
})

t.test('an unknown name is answered with the known one that it resembles', async t => {
  const service = await useShopService(t)
  const all = 'Operators: eq, neq, gt, gte, lt, lte, like, ilike, match, imatch, in, nin, ' +
    'between, is, isdistinct, fts, plfts, phfts, wfts, cs, cd, ov, sl, sr, nxr, nxl, adj, ' +
    'has_key, has_keys_any, has_keys_all, not.'
  const operator = (name: string): object => ({ where: { qty: { [name]: 1 } } })
  const rows: ReadonlyArray<readonly [members: object, help: string]> = [
    [operator('ne'), 'Unknown operator "ne". Did you mean "neq"?'],
    [operator('EQ'), 'Unknown operator "EQ". Did you mean "eq"?'],
    [operator('$gte'), 'Unknown operator "$gte". Did you mean "gte"?'],
    [operator('_lte'), 'Unknown operator "_lte". Did you mean "lte"?'],
    [operator('betwen'), 'Unknown operator "betwen". Did you mean "between"?'],
    [operator('>='), 'Unknown operator ">=". Did you mean "gte"?'],
    [operator('contains'), `Unknown operator "contains". ${all}`],
    [operator(''), `Unknown operator "". ${all}`],
    [operator('ink'), 'Unknown operator "ink". Did you mean "in"?'],
    [{ wheer: {} }, 'Unknown member "wheer". Did you mean "where"?'],
    [
      { filter: {} },
      'Unknown member "filter". Members: id, op, table, where, columns, group_by, order, limit, ' +
      'offset, lock, expect.'
    ],
    [
      { order: [{ qty: { dir: 'asc' } }] },
      'Unknown member "dir". Did you mean "direction"?'
    ],
    [
      { op: 'update', set: { qty: { $increment: 1 } }, all: true },
      'Unknown modifier "$increment". Did you mean "$inc"? ' +
      'To store the object itself, use {"$value": …}.'
    ],
    [
      {
        op: 'insert',
        values: [{}],
        on_conflict: { columns: ['sku'], do: 'nothing', index_where: { qty: { '@>': 1 } } }
      },
      'Unknown operator "@>". Operators: eq, neq, gt, gte, lt, lte, in, is, not.'
    ]
  ]
  for (const [members, message] of rows) {
    const answer = await service.post(
      [{ id: 'a', op: 'select', table: 'stock', ...members }],
      { headers: asCustomer() }
    )
    t.same(answer.body.error.errors[0].message, message)
  }
})

t.test('an invalid reference is answered with the operations that it can name', async t => {
  const service = await useShopService(t)
  const plain = 'To send plain text, start the string with $$.'
  const unquoted = 'The string looks like a reference, but names no earlier operation.'
  const many = Array.from({ length: 11 }, (_, i) => `o${i}`)
  const rows: ReadonlyArray<readonly [earlier: readonly string[], text: string, message: string]> =
    [
      [[], '$x.id', `Unknown operation "x". There is no earlier operation. ${plain}`],
      [['a', 'b'], '$c.*.id', `Unknown operation "c". Earlier operations: a, b. ${plain}`],
      [
        many,
        '$o.0.id',
        `Unknown operation "o". Earlier operations: ${many.slice(0, 10).join(', ')} and 1 more. ` +
        plain
      ],
      // It may be a password.
      [['a'], '$ecret', `${unquoted} Earlier operations: a. ${plain}`],
      [['a'], `$${'s'.repeat(64)}.id`, `${unquoted} Earlier operations: a. ${plain}`],
      [
        ['a'],
        '$own.id',
        '"own" is this operation itself; a reference must name an earlier operation.'
      ],
      [
        ['a'],
        '$later',
        'Operation "later" comes later in the batch; move it before this operation.'
      ],
      [
        ['a'],
        '$a.01',
        'A reference must have the form $op, $op.column, $op.row, $op.row.column or ' +
        `$op.*.column. ${plain}`
      ]
    ]
  for (const [earlier, text, message] of rows) {
    const select = { op: 'select', table: 'stock' }
    const batch = [
      ...earlier.map(id => ({ id, ...select })),
      { id: 'own', ...select, where: { sku: { cs: text } } },
      { id: 'later', ...select }
    ]
    const answer = await service.post(batch, { headers: asCustomer() })
    t.same(answer.body.error.errors.map((issue: Error) => issue.message), [message], text)
  }
})
