/**
 * Tests validation: the code and path of every issue that is found before the transaction starts,
 * and the checks of the body that precede it.
 */
import fc from 'fast-check'
import t from 'tap'
import { useService } from '../support/service.ts'

const schema = `
  create table things (id int generated always as identity primary key, name text, data jsonb);
  create schema other;
  create table other.things (id int, name text);
  create schema hidden;
  create table hidden.things (id int);
  grant usage on schema public, other, hidden to oneflight_user;
  grant all on all tables in schema public, other to oneflight_user;
`
const env = { DB_SCHEMAS: 'public,other', MAX_ROWS: '5', MAX_CONDITIONS: '3', MAX_OPS: '12' }

type ExpectedIssue = readonly [code: string, path: ReadonlyArray<string | number>]
const insert = { op: 'insert', table: 'things', values: [{ name: 'x' }] }
const update = { op: 'update', table: 'things', set: { name: 'x' }, where: { id: { eq: 1 } } }
const remove = { op: 'delete', table: 'things', where: { id: { eq: 1 } } }
const select = { op: 'select', table: 'things' }
/**
 * Returns nested arrays. As the value of a member, the innermost array is at level `depth` of the
 * body.
 */
const nested = (depth: number): unknown => JSON.parse('['.repeat(depth - 2) + ']'.repeat(depth - 2))
const levels = (count: number): number[] => Array.from({ length: count }, () => 0)

t.test('every issue of one operation is reported with its code and path', async t => {
  const service = await useService(t, { schema, env })
  type Row = readonly [operation: Record<string, unknown>, ...issues: ExpectedIssue[]]
  const rows: readonly Row[] =
    [
      // id
      [{ ...select, id: '' }, ['id_invalid', ['id']]],
      [{ ...select, id: '1a' }, ['id_invalid', ['id']]],
      [{ ...select, id: 'a-b' }, ['id_invalid', ['id']]],
      [{ ...select, id: 'a.b' }, ['id_invalid', ['id']]],
      [{ ...select, id: 'ä' }, ['id_invalid', ['id']]],
      [{ ...select, id: 'a\n' }, ['id_invalid', ['id']]],
      [{ ...select, id: ' a' }, ['id_invalid', ['id']]],
      [{ ...select, id: '"}],"x":[{"' }, ['id_invalid', ['id']]],
      // op
      [{ table: 'things' }, ['member_missing', ['op']]],
      [{ ...select, op: 1 }, ['member_invalid', ['op']]],
      [{ ...select, op: null }, ['member_invalid', ['op']]],
      [{ ...select, op: 'SELECT' }, ['op_unknown', ['op']]],
      [{ ...select, op: 'upsert' }, ['op_unknown', ['op']]],
      [{ ...select, op: 'constructor' }, ['op_unknown', ['op']]],
      [{ ...select, op: '__proto__' }, ['op_unknown', ['op']]],
      [{}, ['member_missing', ['table']], ['member_missing', ['op']]],
      // table
      [{ op: 'select' }, ['member_missing', ['table']]],
      [{ ...select, table: 1 }, ['member_invalid', ['table']]],
      [{ ...select, table: null }, ['member_invalid', ['table']]],
      [{ ...select, table: ['things'] }, ['member_invalid', ['table']]],
      [{ ...select, table: '' }, ['table_invalid', ['table']]],
      [{ ...select, table: '.' }, ['table_invalid', ['table']]],
      [{ ...select, table: '.things' }, ['table_invalid', ['table']]],
      [{ ...select, table: 'public.' }, ['table_invalid', ['table']]],
      [{ ...select, table: 'db.public.things' }, ['table_invalid', ['table']]],
      [{ ...select, table: 'x'.repeat(64) }, ['table_invalid', ['table']]],
      [{ ...select, table: 'ä'.repeat(32) }, ['table_invalid', ['table']]],
      [{ ...select, table: `${'x'.repeat(64)}.things` }, ['table_invalid', ['table']]],
      [{ ...select, table: 'hidden.things' }, ['schema_forbidden', ['table']]],
      [{ ...select, table: 'pg_catalog.pg_authid' }, ['schema_forbidden', ['table']]],
      [{ ...select, table: 'PUBLIC.things' }, ['schema_forbidden', ['table']]],
      [{ ...select, table: '"public".things' }, ['schema_forbidden', ['table']]],
      // members
      [{ ...select, wheer: {} }, ['member_unknown', ['wheer']]],
      [
        { ...remove, limit: 1, order: [], columns: ['id'], lock: 'update' },
        ['member_invalid', ['limit']],
        ['member_invalid', ['order']],
        ['member_invalid', ['columns']],
        ['member_invalid', ['lock']]
      ],
      [
        { ...select, returning: [], on_conflict: {} },
        ['member_invalid', ['returning']],
        ['member_invalid', ['on_conflict']]
      ],
      [
        { ...insert, limit: null, group_by: [] },
        ['member_invalid', ['limit']],
        ['member_invalid', ['group_by']]
      ],
      [
        { ...select, toString: 1, constructor: 1 },
        ['member_unknown', ['toString']],
        ['member_unknown', ['constructor']]
      ],
      [{ ...select, '': 1 }, ['member_unknown', ['']]],
      // values
      [{ op: 'insert', table: 'things' }, ['member_missing', ['values']]],
      [{ ...insert, values: null }, ['member_invalid', ['values']]],
      [{ ...insert, values: {} }, ['member_invalid', ['values']]],
      [{ ...insert, values: '$a.0.b' }, ['member_invalid', ['values']]],
      [{ ...insert, values: [] }, ['values_empty', ['values']]],
      [
        { ...insert, values: [1, {}, null, [], 'x'] },
        ['member_invalid', ['values', 0]],
        ['member_invalid', ['values', 2]],
        ['member_invalid', ['values', 3]],
        ['member_invalid', ['values', 4]]
      ],
      [{ ...insert, values: levels(6).map(() => ({})) }, ['rows_limit', ['values']]],
      [{ ...insert, values: [{ name: 1 }, { '': 1 }] }, ['member_invalid', ['values', 1, '']]],
      [
        { ...insert, values: [{ ['x'.repeat(64)]: 1, ['ä'.repeat(32)]: 2 }] },
        ['member_invalid', ['values', 0, 'x'.repeat(64)]],
        ['member_invalid', ['values', 0, 'ä'.repeat(32)]]
      ],
      // set
      [{ op: 'update', table: 'things', where: { id: { eq: 1 } } }, ['member_missing', ['set']]],
      [{ ...update, set: null }, ['member_invalid', ['set']]],
      [{ ...update, set: [] }, ['member_invalid', ['set']]],
      [{ ...update, set: [{ name: 1 }] }, ['member_invalid', ['set']]],
      [{ ...update, set: {} }, ['set_empty', ['set']]],
      [
        { ...update, set: { '': 1, ['x'.repeat(64)]: 1 } },
        ['member_invalid', ['set', '']],
        ['member_invalid', ['set', 'x'.repeat(64)]]
      ],
      [
        { ...update, set: { data: { $inc: '1' }, name: { $nope: [] } } },
        ['member_invalid', ['set', 'data', '$inc']],
        ['member_invalid', ['set', 'name', '$nope']]
      ],
      // where
      [{ op: 'update', table: 'things', set: { name: 'x' } }, ['member_missing', ['where']]],
      [{ op: 'delete', table: 'things' }, ['member_missing', ['where']]],
      [{ ...update, where: {} }, ['where_empty', ['where']]],
      [{ ...remove, where: {} }, ['where_empty', ['where']]],
      [{ ...update, where: { id: {} } }, ['where_empty', ['where', 'id']]],
      [{ ...remove, where: { id: {}, name: { eq: 1 } } }, ['where_empty', ['where', 'id']]],
      [{ ...select, where: { id: {} } }, ['operand_invalid', ['where', 'id']]],
      [{ ...select, where: null }, ['member_invalid', ['where']]],
      [{ ...select, where: [] }, ['member_invalid', ['where']]],
      [{ ...select, where: 'id = 1' }, ['member_invalid', ['where']]],
      [{ ...remove, where: null }, ['member_invalid', ['where']]],
      [{ ...remove, where: '1=1' }, ['member_invalid', ['where']]],
      [
        { ...select, where: { id: 1, name: null, data: [1] } },
        ['operand_invalid', ['where', 'id']],
        ['operand_invalid', ['where', 'name']],
        ['operand_invalid', ['where', 'data']]
      ],
      [{ ...select, where: { '': { eq: 1 } } }, ['member_invalid', ['where', '']]],
      [
        { ...select, where: { id: { '=': 1, constructor: 1, __proto__: 1, EQ: 1 } } },
        ['operator_unknown', ['where', 'id', '=']],
        ['operator_unknown', ['where', 'id', 'constructor']],
        ['operator_unknown', ['where', 'id', 'EQ']]
      ],
      [
        JSON.parse(
          '{"op":"select","table":"things","where":{"id":{"__proto__":1}},"__proto__":{}}'
        ),
        ['member_unknown', ['__proto__']],
        ['operator_unknown', ['where', 'id', '__proto__']]
      ],
      [
        { ...select, where: { id: { eq: null }, name: { like: [], match: {} } } },
        ['operand_invalid', ['where', 'id', 'eq']],
        ['operand_invalid', ['where', 'name', 'like']],
        ['operand_invalid', ['where', 'name', 'match']]
      ],
      [
        {
          ...select,
          where: { id: { eq: { $cool: 'name' } }, name: { eq: { any: ['x'], all: ['y'] } } }
        },
        ['operand_invalid', ['where', 'id', 'eq']],
        ['operand_invalid', ['where', 'name', 'eq']]
      ],
      [
        { ...select, where: { and: { id: { eq: 1 } }, not: [], or: [{}] } },
        ['operand_invalid', ['where', 'and']],
        ['operand_invalid', ['where', 'not']],
        ['operand_invalid', ['where', 'or', 0]]
      ],
      [
        { ...select, where: { id: { gt: 1, lt: 5 }, name: { eq: 'x', neq: 'y' } } },
        ['member_invalid', ['where']]
      ],
      // all
      [{ ...update, all: true }, ['member_invalid', ['all']]],
      [{ ...remove, all: true }, ['member_invalid', ['all']]],
      [{ ...remove, all: false }, ['member_invalid', ['all']]],
      [
        { op: 'delete', table: 'things', all: 1 },
        ['member_invalid', ['all']],
        ['member_missing', ['where']]
      ],
      [
        { op: 'delete', table: 'things', all: null, where: {} },
        ['member_invalid', ['all']],
        ['where_empty', ['where']]
      ],
      [{ ...remove, all: true, where: null }, ['member_invalid', ['where']]],
      [{ ...insert, all: true }, ['member_invalid', ['all']]],
      [{ ...select, all: true }, ['member_invalid', ['all']]],
      // references
      [
        { ...insert, values: [{ name: '$nope.0.id', data: ['$o.id', { x: '$nope.' }] }] },
        ['reference_unknown', ['values', 0, 'name']],
        ['reference_unknown', ['values', 0, 'data', 0]],
        ['reference_unknown', ['values', 0, 'data', 1, 'x']]
      ],
      [
        { ...insert, values: [{ name: 'a' }, { data: '$nope.id' }, { name: '$nope.id' }] },
        ['reference_unknown', ['values', 1, 'data']],
        ['reference_unknown', ['values', 2, 'name']]
      ],
      [
        { ...insert, values: [{ name: '$nope.id' }, 5] },
        ['member_invalid', ['values', 1]],
        ['reference_unknown', ['values', 0, 'name']]
      ],
      [
        { ...update, set: { name: '$nope' }, where: { id: { eq: '$o.0.id' } } },
        ['reference_unknown', ['set', 'name']],
        ['reference_unknown', ['where', 'id', 'eq']]
      ],
      // depth: the batch is level 1, the operation 2, its member 3
      [{ ...insert, values: nested(101) }, ['depth_exceeded', ['values', ...levels(98)]]],
      [
        { ...select, where: JSON.parse('{"a":'.repeat(200) + '1' + '}'.repeat(200)) },
        ['depth_exceeded', ['where', ...levels(98).map(() => 'a')]]
      ],
      [
        { op: 'nope', table: 1, x: nested(101) },
        ['member_invalid', ['table']],
        ['member_unknown', ['x']],
        ['op_unknown', ['op']],
        ['depth_exceeded', ['x', ...levels(98)]]
      ],
      [{ ...select, values: nested(101) }, ['depth_exceeded', ['values', ...levels(98)]]],
      // several members at once
      [
        { op: 'update', table: 'a.b.c', sett: 1, set: {}, where: {} },
        ['table_invalid', ['table']],
        ['member_unknown', ['sett']],
        ['set_empty', ['set']],
        ['where_empty', ['where']]
      ]
    ]
  for (const [operation, ...issues] of rows) {
    const { id = 'o' } = operation as { id?: string }
    const text = JSON.stringify([{ ...operation, id }])
    const { status, body } = await service.post(text)
    const forbidden = issues.every(([code]) => code === 'schema_forbidden')
    t.equal(status, forbidden ? 403 : 422, encodeURI(text.slice(0, 150)))
    const { request_id: requestId, message, errors, ...error } = body.error
    t.same({ ...error, data: body.data }, {
      type: 'validation_error',
      code: 'validation_failed',
      committed: false,
      data: null
    })
    t.type(requestId, 'string')
    t.equal(
      message,
      errors.length === 1 ? errors[0].message : `The batch has ${errors.length} issues.`
    )
    const byPath = (a: ExpectedIssue, b: ExpectedIssue): number =>
      JSON.stringify(a) < JSON.stringify(b) ? -1 : 1
    t.strictSame(
      errors.map(({ code, path }: { code: string, path: Array<string | number> }) => [code, path])
        .sort(byPath),
      [...issues].sort(byPath)
    )
    for (const issue of errors) t.match(issue, { op: id, index: 0, message: /^.+[.?]$|^".+/s })
  }
  t.equal(
    (await service.post([{ id: 'o', ...select }])).body.data.o.length,
    0,
    'nothing was written'
  )
})

t.test('unusual but valid operations are accepted', async t => {
  const service = await useService(t, { schema, env })
  const rows: ReadonlyArray<Record<string, unknown>> = [
    { ...select, values: 5, set: null },
    { ...select, where: {} },
    { ...insert, where: 5, set: [] },
    { ...insert, values: [{ data: nested(97) }] },
    { ...update, values: '$x.y' },
    { ...update, set: { data: { $a: 1, b: 2 } } },
    { ...update, set: { data: { a: { $inc: 1 } } } },
    { ...insert, values: [{ data: { $inc: 1 } }] },
    { ...remove, set: 1, values: 2 },
    { op: 'delete', table: 'things', all: true },
    { op: 'update', table: 'things', set: { name: 'x' }, where: {}, all: true },
    { ...select, table: 'public.things' },
    { ...select, table: 'other.things' },
    { ...select, where: { id: { gt: 1, lt: 5, neq: 3 } } }
  ]
  for (const operation of rows) {
    const { status, text } = await service.post([{ id: 'o', ...operation }])
    t.equal(status, 200, encodeURI(text))
  }
})

t.test('the issues of all operations are reported together, with id and index', async t => {
  const service = await useService(t, { schema, env })
  const { status, body } = await service.post([
    { id: 'a', ...insert, values: [{ name: '$b.0.id' }] },
    { id: '__proto__', op: 'nope', table: 'things' },
    { id: 'b', ...select, table: 'hidden.things' },
    { id: 'constructor', ...update, set: {}, where: { id: { eq: '$constructor.id' } } },
    { id: 'c', ...select }
  ])
  t.equal(status, 422)
  const errors = body.error.errors as ReadonlyArray<Record<string, unknown>>
  t.strictSame(
    errors.map(({ op, index, code, path }) => [op, index, code, path]),
    [
      ['a', 0, 'reference_unknown', ['values', 0, 'name']],
      ['__proto__', 1, 'op_unknown', ['op']],
      ['b', 2, 'schema_forbidden', ['table']],
      ['constructor', 3, 'set_empty', ['set']],
      ['constructor', 3, 'reference_unknown', ['where', 'id', 'eq']]
    ]
  )
})

t.test('the status is 403 only if every issue is a forbidden schema', async t => {
  const service = await useService(t, { schema, env })
  const forbidden = { ...select, table: 'hidden.things' }
  t.equal(
    (await service.post([
      { id: 'a', ...forbidden },
      { id: 'b', ...select },
      { id: 'c', ...forbidden }
    ])).status,
    403
  )
  t.equal(
    (await service.post([{ id: 'a', ...forbidden }, { id: 'b', ...select, op: 'x' }])).status,
    422
  )
  t.equal((await service.post([{ id: 'a', ...forbidden, x: 1 }])).status, 422)
})

t.test('the body is checked before its operations', async t => {
  const service = await useService(t, { schema, env })
  const rows: ReadonlyArray<readonly [body: string, status: number, code: string]> = [
    ['', 400, 'body_invalid'],
    ['{', 400, 'body_invalid'],
    ['null', 400, 'body_invalid'],
    ['5', 400, 'body_invalid'],
    ['1.10', 400, 'body_invalid'],
    ['"[]"', 400, 'body_invalid'],
    ['true', 400, 'body_invalid'],
    ['{}', 400, 'body_invalid'],
    ['{"id":"a"}', 400, 'body_invalid'],
    ['[]', 400, 'body_empty'],
    [' [\n] ', 400, 'body_empty'],
    ['[1]', 400, 'id_missing'],
    ['[null]', 400, 'id_missing'],
    ['["a"]', 400, 'id_missing'],
    ['[[]]', 400, 'id_missing'],
    ['[1.10]', 400, 'id_missing'],
    ['[{}]', 400, 'id_missing'],
    ['[{"id":null}]', 400, 'id_missing'],
    ['[{"id":1}]', 400, 'id_missing'],
    ['[{"id":1.10}]', 400, 'id_missing'],
    ['[{"id":["a"]}]', 400, 'id_missing'],
    ['[{"ID":"a"}]', 400, 'id_missing'],
    ['[{"__proto__":{"id":"a"}}]', 400, 'id_missing'],
    [`${'['.repeat(500_000)}${']'.repeat(500_000)}`, 400, 'id_missing'],
    ['[{"id":"a","op":"nope"},{"op":"nope"}]', 400, 'id_missing'],
    ['[{"id":"a"},{"id":"b"},{"id":"a"}]', 400, 'id_duplicate'],
    ['[{"id":"-"},{"id":"-"}]', 400, 'id_duplicate'],
    ['[{"id":"__proto__"},{"id":"__proto__"}]', 400, 'id_duplicate'],
    ['[{"id":"a"},{"id":"\\u0061"}]', 400, 'id_duplicate'],
    [`[${levels(13).map((_, i) => `{"id":"a${i}"}`).join()}]`, 413, 'too_many_ops'],
    ['[{"id":"a","id":"a"}]', 400, 'body_invalid'],
    [
      '[{"id":"a","op":"insert","table":"things","values":[{"name":"x","\\u006eame":"y"}]}]',
      400,
      'body_invalid'
    ],
    [
      '[{"id":"a","op":"insert","table":"things","values":[{"data":{"k":[{"a":1,"a":1}]}}]}]',
      400,
      'body_invalid'
    ],
    [
      '[{"id":"a","op":"insert","table":"things","values":[{"name":"\\u0000"}]}]',
      400,
      'body_invalid'
    ],
    [
      '[{"id":"a","op":"insert","table":"things","values":[{"data":{"\\ud800":1}}]}]',
      400,
      'body_invalid'
    ],
    ['\ufeff[{"id":"a","op":"select","table":"things"}]', 400, 'body_invalid'],
    [
      `[{"id":"a","op":"insert","table":"things","values":[{"data":${'['.repeat(400_000)}1.10${
        ']'.repeat(400_000)
      }}]}]`,
      422,
      'validation_failed'
    ]
  ]
  for (const [text, status, code] of rows) {
    const { body, status: actual } = await service.post(text)
    t.match({ status: actual, ...body }, {
      status,
      data: null,
      error: {
        type: status === 422 ? 'validation_error' : 'request_error',
        code,
        committed: false,
        message: /\.$/
      }
    }, encodeURI(text.slice(0, 100)))
  }
  t.equal(
    (await service.post([{ id: 'a', ...select }])).text,
    '{"error":null,"data":{"a":[]}}',
    'nothing was written'
  )
})

t.test('property: no operation causes a 5xx', async t => {
  const service = await useService(t, { schema, env })
  const rarely = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
    fc.oneof({ arbitrary: usual, weight: 19 }, { arbitrary: odd, weight: 1 })
  const column = rarely(
    fc.constantFrom('id', 'name', 'data'),
    fc.oneof(
      fc.constantFrom('ctid', 'text', 'things', '__proto__', '"', 'a.b', ''),
      fc.string({ unit: 'binary', maxLength: 5 })
    )
  ) as fc.Arbitrary<string>
  const scalar = fc.oneof(
    fc.constantFrom<unknown>(
      '$a.0.id',
      '$a.data',
      '$$a',
      true,
      -0,
      1e300,
      '',
      "'; drop table things; --",
      '{}',
      '(',
      '%'
    ),
    fc.integer(),
    fc.string({ unit: 'binary', maxLength: 8 }),
    fc.double()
  )
  const odd = fc.oneof(
    scalar,
    fc.constantFrom<unknown>(null, '$b', '$a.9.x', '$a.0.nope', []),
    fc.dictionary(column, fc.array(scalar), { maxKeys: 2 })
  )
  const value = fc.oneof({ arbitrary: scalar, weight: 3 }, { arbitrary: odd, weight: 1 })
  const row = fc.dictionary(column, value, { maxKeys: 2 })
  const operation = fc.record({
    op: rarely(fc.constantFrom('insert', 'update', 'delete', 'select'), odd),
    table: rarely(
      fc.constantFrom('things', 'other.things'),
      fc.oneof(odd, fc.constantFrom('nope', 'other.nope', 'hidden.things'))
    ),
    values: rarely(fc.array(row, { minLength: 1, maxLength: 3 }), odd),
    set: rarely(fc.dictionary(column, value, { minKeys: 1, maxKeys: 2 }), odd),
    where: rarely(
      fc.dictionary(
        column,
        fc.dictionary(fc.constantFrom('eq', 'neq', 'gt', 'like', 'imatch'), scalar, {
          minKeys: 1,
          maxKeys: 2
        }),
        { minKeys: 1, maxKeys: 2 }
      ),
      odd
    )
  })
  const codes = new Set<string>()
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 3 }), async operations => {
      const { status, body } = await service.post(
        operations.map((operation, i) => ({ id: 'abc'[i], ...operation }))
      )
      codes.add(body.error?.code)
      return status < 500
    }),
    { numRuns: 300 }
  )
  t.ok(codes.size > 5, `several error codes occur: ${[...codes].join(', ')}`)
})

t.test('the size of an error response is bounded', async t => {
  const service = await useService(t)
  const id = 'x'.repeat(500_000)
  const rows: ReadonlyArray<readonly [what: string, operation: object, issues: number]> = [
    [
      'many issues',
      {
        id: 'a',
        op: 'insert',
        table: 't',
        values: Array.from({ length: 5000 }, () => 1)
      },
      5000
    ],
    [
      'a long id',
      {
        id,
        op: 'select',
        table: 't',
        ...Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`member${i}`, 1]))
      },
      1000
    ]
  ]
  for (const [what, operation, issues] of rows) {
    const { status, body, text } = await service.post([operation])
    const listed = body.error.errors.length
    t.equal(status, 422, what)
    t.ok(listed >= 1 && listed < issues, `${listed} of ${issues} listed`)
    t.equal(
      body.error.message,
      `The batch has more than ${listed} issues; these are listed.`
    )
    t.ok(text.length < 262_144 + 2 * id.length)
  }
})

t.test('an operation may name at most 1600 columns, as many as a table can have', async t => {
  const service = await useService(t, {
    schema: 'create table t (c0 int); grant all on t to oneflight_user'
  })
  const columns = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, 1]))
  const rows: ReadonlyArray<readonly [operation: object, path?: string]> = [
    [{ op: 'update', set: columns(1601), all: true }, 'set'],
    [{ op: 'insert', values: [columns(1601)] }, 'values'],
    [{ op: 'update', set: columns(1600), all: true }],
    [{ op: 'insert', values: [columns(1600)] }]
  ]
  for (const [operation, path] of rows) {
    const { status, body } = await service.post([{ id: 'a', table: 't', ...operation }])
    if (path === undefined) {
      t.match({ status, code: body.error.code }, { status: 400, code: 'undefined_column' })
    } else {
      t.match({ status, errors: body.error.errors }, {
        status: 422,
        errors: [{
          code: 'member_invalid',
          path: [path],
          message: `"${path}" names 1601 columns; at most 1600 are allowed.`
        }]
      })
    }
  }
})
