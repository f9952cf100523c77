/**
 * Tests validation: the code and path of every issue that is found before the transaction starts,
 * and the checks of the body that precede it. filter-validation.test.ts has those of filters and
 * references, extension-validation.test.ts those of the other members.
 */
import t from 'tap'
import { assertIssues, findFailure, type InvalidOperation, issuesOf, toTexts }
  from '../../support/issues.ts'

const settings = { DB_SCHEMAS: 'public,other', MAX_ROWS: '5', conditions: '3', MAX_OPS: '12' }
const insert = { op: 'insert', table: 'things', values: [{ name: 'x' }] }
const update = { op: 'update', table: 'things', set: { name: 'x' }, where: { id: { eq: 1 } } }
const remove = { op: 'delete', table: 'things', where: { id: { eq: 1 } } }
const select = { op: 'select', table: 'things' }
const long = 'x'.repeat(64)
const wide = 'ä'.repeat(32)

/**
 * Returns nested arrays. As the value of a member, the innermost array is at level `depth` of the
 * body.
 */
const nested = (depth: number): unknown => JSON.parse('['.repeat(depth - 2) + ']'.repeat(depth - 2))
const inner = '[0]'.repeat(98)
const repeat = <T>(count: number, create: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => create(i))
const columns = (count: number): object =>
  Object.fromEntries(repeat(count, i => [`c${i}`, 1]))

/** The same issue for each value of a member. */
const each = (
  operation: object,
  member: string,
  code: string,
  values: readonly unknown[]
): InvalidOperation[] =>
  values.map(value => [{ ...operation, [member]: value }, `${code} ${member}`])

t.test('every issue of one operation is reported with its code and path', async t => {
  const ids = ['', '1a', 'a-b', 'ä', 'a\n', '"}],"x":[{"']
  assertIssues(t, [
    ...each(select, 'id', 'id_invalid', ids),

    // op
    [{ table: 'things' }, 'member_missing op'],
    ...each(select, 'op', 'member_invalid', [1, null]),
    ...each(select, 'op', 'op_unknown', ['SELECT', 'upsert', 'constructor', '__proto__']),
    [{}, 'member_missing table', 'member_missing op'],

    // table
    [{ op: 'select' }, 'member_missing table'],
    ...each(select, 'table', 'member_invalid', [1, null, ['things']]),
    ...each(select, 'table', 'table_invalid', [
      '', '.things', 'public.', 'db.public.things', wide, `${long}.things`
    ]),
    ...each(select, 'table', 'schema_forbidden', [
      'hidden.things', 'pg_catalog.pg_authid', 'PUBLIC.things', '"public".things'
    ]),

    // members
    [{ ...select, wheer: {} }, 'member_unknown wheer'],
    [{ ...select, toString: 1, constructor: 1 }, 'member_unknown toString',
      'member_unknown constructor'],
    [{ ...select, '': 1 }, 'member_unknown [""]'],
    ...['order', 'limit', 'offset', 'lock', 'group_by', 'columns', 'on_conflict'].flatMap(name =>
      each(remove, name, 'member_invalid', [1])),
    [JSON.parse('{"op":"select","table":"things","__proto__":{}}'), 'member_unknown __proto__'],

    // values
    [{ op: 'insert', table: 'things' }, 'member_missing values'],
    ...each(insert, 'values', 'member_invalid', [null, {}, '$a.0.b']),
    [{ ...insert, values: [] }, 'values_empty values'],
    [{ ...insert, values: [1, {}, null, [], 'x'] },
      ...[0, 2, 3, 4].map(i => `member_invalid values[${i}]`)],
    [{ ...insert, values: repeat(6, () => ({})) }, 'rows_limit values'],
    [{ ...insert, values: [{ [long]: 1, [wide]: 2 }] }, `member_invalid values[0].${long}`,
      `member_invalid values[0]["${wide}"]`],

    // set
    [{ op: 'update', table: 'things', where: { id: { eq: 1 } } }, 'member_missing set'],
    ...each(update, 'set', 'member_invalid', [null, [], [{ name: 1 }]]),
    [{ ...update, set: {} }, 'set_empty set'],
    [{ ...update, set: { '': 1, [long]: 1 } }, 'member_invalid set[""]',
      `member_invalid set.${long}`],

    // where
    [{ op: 'update', table: 'things', set: { name: 'x' } }, 'member_missing where'],
    [{ ...update, where: {} }, 'where_empty where'],
    ...each(select, 'where', 'member_invalid', [null, [], 'id = 1']),
    ...each(remove, 'where', 'member_invalid', [null, '1=1']),

    // all
    [{ ...update, all: true }, 'member_invalid all'],
    ...each(remove, 'all', 'member_invalid', [true, false]),
    [{ op: 'delete', table: 'things', all: 1 }, 'member_invalid all', 'member_missing where'],
    [{ ...remove, all: true, where: null }, 'member_invalid where'],
    [{ ...insert, all: true }, 'member_invalid all'],
    [{ ...select, all: true }, 'member_invalid all'],

    // references
    [{ ...insert, values: [{ name: '$nope.id' }, 5] }, 'member_invalid values[1]',
      'reference_unknown values[0].name'],

    // depth: the batch is level 1, the operation 2, its member 3
    [{ ...insert, values: nested(101) }, `depth_exceeded values${inner}`],
    [{ ...select, where: JSON.parse('{"a":'.repeat(200) + '1' + '}'.repeat(200)) },
      `depth_exceeded where${'.a'.repeat(98)}`],
    [{ op: 'nope', table: 1, x: nested(101) }, 'member_invalid table', 'member_unknown x',
      'op_unknown op', `depth_exceeded x${inner}`]
  ], settings)
  const tooWide = {
    set: { ...update, set: columns(1601) },
    values: { ...insert, values: [columns(1601)] }
  }
  for (const [member, operation] of Object.entries(tooWide)) {
    const message = `"${member}" names 1601 columns; at most 1600 are allowed.`
    t.match(findFailure([{ id: 'a', ...operation }]), {
      message, details: { errors: [{ code: 'member_invalid', path: [member] }] }
    })
  }
})

t.test('operations at the limits are valid', async t => {
  const valid = [
    { ...insert, values: [{ data: nested(97) }] },
    { ...select, table: 'other.things' },
    { ...select, where: { id: { gt: 1, lt: 5, neq: 3 } } },
    { ...update, set: columns(1600) },
    { ...insert, values: [columns(1600)] },
    // Members of other kinds of operations, and JSON that looks like a modifier.
    { ...select, values: 5, set: null, columns: ['id'] },
    { ...insert, where: 5, set: [], returning: [], expect: 1 },
    { ...update, values: '$x.y' },
    { ...update, set: { n: { $inc: 1 }, data: { $inc: 1, x: 2 }, a: { b: { $nope: 1 } } } },
    { ...insert, values: [{ data: { $inc: 1 } }, { data: { $nope: 1 } }] },
    { ...remove, set: 1, values: 2, expect: { min: 0 } },
    { ...update, where: {}, all: true }
  ]
  for (const operation of valid) {
    t.equal(findFailure([{ id: 'o', ...operation }], settings), undefined)
  }
})

t.test('the schema belongs to the name', async t => {
  const messageOf = (operation: object): string | undefined =>
    findFailure([{ id: 'o', ...operation }])?.details.errors?.[0]?.message
  for (const [operation, name] of [
    [{ ...select, schema: 'sales' }, '"table": "sales.things"'],
    [{ ...select, schema: 5 }, '"table": "<schema>.things"'],
    [{ op: 'call', function: 'tax', schema: 'sales' }, '"function": "sales.tax"']
  ] as const) {
    const message = messageOf(operation) ?? ''
    t.ok(message.endsWith(`: ${name}.`), message)
  }
})

t.test('the issues of all operations are reported together, with id and index', async t => {
  const failure = findFailure([
    { id: 'a', ...insert, values: [{ name: '$b.0.id' }] },
    { id: '__proto__', op: 'nope', table: 'things' },
    { id: 'b', ...select, table: 'hidden.things' },
    { id: 'constructor', ...update, set: {}, where: { id: { eq: '$constructor.id' } } },
    { id: 'c', ...select }
  ])
  t.equal(failure?.status, 422)
  t.strictSame(
    failure?.details.errors?.map(issue => [issue.op, issue.index, ...toTexts([issue])]),
    [['a', 0, 'reference_unknown values[0].name'], ['__proto__', 1, 'op_unknown op'],
      ['b', 2, 'schema_forbidden table'], ['constructor', 3, 'reference_unknown where.id.eq'],
      ['constructor', 3, 'set_empty set']]
  )
})

t.test('the status is 403 only if every issue is a forbidden schema', async t => {
  const forbidden = { ...select, table: 'hidden.things' }
  const other = { id: 'b', ...select }
  const rows = [
    [[{ id: 'a', ...forbidden }, other, { id: 'c', ...forbidden }], 403],
    [[{ id: 'a', ...forbidden }, { ...other, op: 'x' }], 422],
    [[{ id: 'a', ...forbidden, x: 1 }], 422]
  ] as const
  for (const [batch, status] of rows) t.equal(findFailure(batch)?.status, status)
})

t.test('the body is checked before its operations', async t => {
  const inserted = (values: string): string =>
    `[{"id":"a","op":"insert","table":"things","values":[${values}]}]`
  const bodies: ReadonlyArray<readonly [code: string, status: number, bodies: readonly string[]]> =
    [
      ['body_invalid', 400, ['{', 'null', '1.10', '"[]"', '{"id":"a"}', '[{"id":"a","id":"a"}]']],
      ['body_empty', 400, ['[]', ' [\n] ']],
      ['id_missing', 400, [
        '[1]', '[null]', '[[]]', '[1.10]', '[{}]', '[{"id":null}]', '[{"id":1.10}]',
        '[{"id":["a"]}]', '[{"__proto__":{"id":"a"}}]',
        `${'['.repeat(500_000)}${']'.repeat(500_000)}`, '[{"id":"a","op":"nope"},{"op":"nope"}]'
      ]],
      ['id_duplicate', 400, [
        '[{"id":"-"},{"id":"b"},{"id":"-"}]', '[{"id":"__proto__"},{"id":"__proto__"}]',
        '[{"id":"a"},{"id":"\\u0061"}]'
      ]],
      ['too_many_ops', 413, [JSON.stringify(repeat(13, i => ({ id: `a${i}` })))]],
      ['validation_failed', 422, [
        inserted(`{"data":${'['.repeat(400_000)}1.10${']'.repeat(400_000)}}`)
      ]]
    ]
  for (const [code, status, texts] of bodies) {
    const type = status === 422 ? 'validation_error' : 'request_error'
    for (const text of texts) {
      t.match(
        findFailure(text, settings),
        { code, status, type, committed: false, message: /\.$/ },
        encodeURI(text.slice(0, 100))
      )
    }
  }
})

t.test('the size of all issues is bounded', async t => {
  const id = 'x'.repeat(500_000)
  const members = Object.fromEntries(repeat(1000, i => [`member${i}`, 1]))
  const rows: ReadonlyArray<readonly [what: string, operation: object, issues: number]> = [
    ['many issues', { id: 'a', ...insert, values: repeat(5000, () => 1) }, 5000],
    ['a long id', { id, ...select, ...members }, 1000],
    ['many references', {
      id: 'a',
      ...insert,
      values: [{ data: repeat(7000, () => '$b.*') }]
    }, 7000]
  ]
  for (const [what, operation, issues] of rows) {
    const failure = findFailure([{ id: 'b', ...select }, operation])
    const errors = failure?.details.errors ?? []
    t.equal(failure?.status, 422, what)
    t.ok(errors.length >= 1 && errors.length < issues, `${errors.length} of ${issues} listed`)
    t.equal(
      failure?.message,
      `The batch has more than ${errors.length} issues; these are listed.`
    )
    t.ok(JSON.stringify(errors).length < 262_144 + 2 * id.length)
  }
})

t.test('a path can have as many keys as JSON can have levels', async t => {
  const check = (keys: number): string[] => {
    const column = `j${'->a'.repeat(keys)}`
    const members = {
      where: { [column]: { isdistinct: 1 } },
      columns: [{ column, as: 'a' }],
      order: [{ [column]: 'asc' }],
      group_by: [column]
    }
    return issuesOf([{ id: 's', ...select, ...members }]).map(text => text.replace(column, 'j'))
  }
  t.same(check(100), [])
  t.same(check(101), [
    'member_invalid columns[0].column', 'member_invalid group_by[0]',
    'member_invalid order[0]["j"]', 'member_invalid where["j"]'
  ])
})
