/**
 * Tests `oneflight check`: the position of every issue, and the limits from the environment.
 */
import { join } from 'node:path'
import t from 'tap'
import * as op from '../support/operations.ts'
import { oneflight, runInside, type Ended } from '../support/process/cli.ts'

const check = (
  input: string | Buffer,
  env: Readonly<Record<string, string>> = {}
): Promise<Ended> => runInside(['check', '-'], { input, env })
const failed = (line: string): Ended => ({ code: 1, out: `<stdin>${line}\n`, err: '' })

t.test('a file may name its schema beside its operations', async t => {
  const inFile = (operations: string, more = ''): string =>
    `{\n  "$schema": "batch-file.json",\n  "operations": ${operations}${more}\n}`
  const slip = '[{"id": "a", "op": "select", "tabel": "t"}]'
  t.same((await check(inFile('[{"id": "a", "op": "select", "table": "t"}]'))).code, 0)
  const { out } = await check(inFile(slip))
  t.match(out, /^<stdin>:3:46: operation 0 \(a\): member_unknown at tabel/m)
  const notArray = ': body_invalid: The body must be a JSON array of operations.'
  for (const more of [', "params": {}', ', "operations": []', ', "a": 1']) {
    t.match(await check(inFile(slip, more)), { code: 1, out: /body_invalid/ }, more)
  }
  t.same(await check('{"$schema": "batch-file.json"}'), failed(notArray))
  t.match(await check('{"operations": ['), { code: 1, out: /^<stdin>:1:17: body_invalid: / })
})

t.test('all issues of all files are printed', async t => {
  const directory = t.testdir({
    'a.json':
      '[\n  {"id": "a", "op": "select", "table": "t",\n   "where": {"data->é": {"eqq": 1, ' +
      '"in": [1, null]}}}\n]',
    'b.json': '[{"id": "ok", "op": "delete", "table": "t", "all": true}]',
    'c.json': '[{"id":"ö\\u001b[2J","op":"select","table":"t"},\r\n{"id":"日本","op":"update",' +
      '"table":"t","set":{"a":{"$inc":"x"}},"all":true}]'
  })
  const [a, b, c] = ['a', 'b', 'c'].map(name => `${directory}/${name}.json`) as [
    string,
    string,
    string
  ]
  t.same(await oneflight(['check', a, b, c]), {
    code: 1,
    out: [
      `${a}:3:26: operation 0 (a): operator_unknown at where["data->é"].eqq: Unknown ` +
      'operator "eqq". Did you mean "eq"?',
      `${a}:3:46: operation 0 (a): operand_invalid at where["data->é"].in[1]: Element 1 ` +
      'of "in" must be a string, a number, a boolean or {"$first": …}. In SQL, nothing equals ' +
      'null; use {"is": null}.',
      `${b}: ok: 1 operation`,
      `${c}:1:3: operation 0 (ö\\u001b[2J): id_invalid at id: "id" must match ` +
      '^[A-Za-z_][A-Za-z0-9_]*$.',
      `${c}:2:2: operation 1 (日本): id_invalid at id: "id" must match ` +
      '^[A-Za-z_][A-Za-z0-9_]*$.',
      `${c}:2:50: operation 1 (日本): member_invalid at set.a.$inc: "$inc" must be a number, ` +
      'a reference, {"$first": …} or {"$from": …}.',
      ''
    ].join('\n'),
    err: ''
  })
  t.match(await oneflight(['check', b, `${directory}/none.json`]), {
    code: 2,
    out: `${b}: ok: 1 operation\n`,
    err: /^oneflight: .*none\.json: ENOENT/
  })
})

t.test('an issue in text with too deep nesting has no line and column', async t => {
  const deep = `${'['.repeat(5000)}${']'.repeat(5000)}`
  const { code, out } = await check(
    `[{"id":"a","op":"insert","table":"t","values":[{"j":${deep}}]}]`
  )
  t.equal(code, 1)
  t.match(out, /^<stdin>: operation 0 \(a\): depth_exceeded at values\[0\]\.j/)
})

t.test('an invalid body is reported', async t => {
  const rows: ReadonlyArray<readonly [input: string | Buffer, line: string]> = [
    ['[\n{"id": x}]', ':2:8: body_invalid: The body is not valid JSON: unexpected character at ' +
      'line 2, column 8.'],
    [
      '[{"id":"a",\n"b":{"c":1,"\\u0063":2}}]',
      ':2:12: body_invalid: The body has an object with the duplicate key "\\u0063".'
    ],
    [Buffer.from([0x22, 0xff, 0x22]), ': body_invalid: The body is not valid UTF-8.'],
    [
      '[{"id":"a"}, 1]',
      ':1:14: operation 1: id_missing: Operation 1 must be an object with a string "id".'
    ]
  ]
  for (const [input, line] of rows) t.same(await check(input), failed(line), line)
})

t.test('limits come from the environment and default to those of the service', async t => {
  const many = (count: number): string =>
    JSON.stringify(Array.from({ length: count }, (_, i) =>
      op.select(`o${i}`, 'shop.t', { where: { a: { gt: 0 }, b: { gt: 0 } } })))
  const insert = '[{"id":"i","op":"insert","table":"t","values":[{},{}]}]'
  const rows = [
    [{ DB_SCHEMAS: 'public,shop' }, many(2), /^<stdin>: ok: 2 operations$/],
    [{}, many(1), /^<stdin>:1:\d+: operation 0 \(o0\): schema_forbidden at table: /],
    [
      {},
      many(101),
      /^<stdin>: too_many_ops: The batch has 101 operations; at most 100 are allowed \(MAX_OPS\)\.$/
    ],
    [{ MAX_OPS: '1', MAX_ROWS: '' }, many(2), /^<stdin>: too_many_ops: /],
    [{ MAX_ROWS: '1' }, insert, /rows_limit at values: /],
    [{ MAX_BODY_BYTES: '10' }, insert, /^<stdin>: body_too_large: /]
  ] as const
  for (const [env, input, line] of rows) {
    t.match((await check(input, env)).out.trimEnd(), line, JSON.stringify(env))
  }
  t.same(
    await check(insert, {
      MAX_OPS: 'many',
      DB_SCHEMAS: 'pg_catalog',
      DATABASE_URL: 'nonsense',
      JWT_TOKEN: 'x'
    }),
    {
      code: 2,
      out: '',
      err: 'oneflight: MAX_OPS: expected an integer from 1 to 1000, got "many"; DB_SCHEMAS: ' +
        '"pg_catalog" is reserved by PostgreSQL; see oneflight --help\n'
    }
  )
})

const select = { id: 's', op: 'select', table: 't', where: { a: { eq: '$params.a' } } }
const file = (content: object): string => JSON.stringify(content)

t.test('--batches checks the named batches of a folder', async t => {
  const params = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }
  const good = t.testdir({
    empty: {},
    batches: {
      'one.json': file({ params, operations: [select] }),
      'two.json': file({ params, operations: [select, { ...select, id: 'r' }] }),
      'readme.txt': 'ignored'
    }
  })
  const folder = join(good, 'batches')
  t.same(await oneflight(['check', '--batches', folder, 'examples/transfer.json']), {
    code: 0,
    out: [
      `${folder}/one.json: ok: 1 operation`,
      `${folder}/two.json: ok: 2 operations`,
      'examples/transfer.json: ok: 3 operations',
      ''
    ].join('\n'),
    err: ''
  })
  t.same(await runInside(['check', '--batches', join(good, 'empty')]), {
    code: 0,
    out: `${good}/empty: ok: no batches\n`,
    err: ''
  })
  t.match(await runInside(['check', '--batches', folder], { env: { MAX_OPS: '1' } }), {
    code: 1,
    out: /^[^\n]*two\.json:1:\d+: too_many_ops: [^\n]*\n$/
  })
})

t.test('--batches prints every issue of every file', async t => {
  const folder = t.testdir({
    'Order.json': '{}',
    'a.json': '{"operations":\n  [{"id": "s", "op": "select", "tabel": "t"}]}',
    'b.json': file({ operations: [select] }),
    'c.json': '{"operations": []',
    'd.json': file({ operations: [{ id: 's', op: 'select', table: 't' }] })
  })
  const { code, out, err } = await runInside(['check', '--batches', folder])
  t.same([code, err], [1, ''])
  const lines = [
    'Order.json: The name of the file must match ',
    'a.json:2:4: operation 0 (s): member_missing at table: ',
    'a.json:2:32: operation 0 (s): member_unknown at tabel: ',
    'b.json:1:',
    'c.json:1:18: '
  ]
  const printed = out.trimEnd().split('\n')
  t.equal(printed.length, lines.length, out)
  for (const [i, line] of lines.entries()) t.ok(printed[i]?.startsWith(`${folder}/${line}`), out)
})

t.test('--batches needs a folder, and no database', async t => {
  const rows = [
    [['--batches', 'none'], /^oneflight: none: ENOENT/],
    [['--batches', 'package.json'], /^oneflight: package\.json: ENOTDIR/],
    [
      ['--batches', 'examples', '--database', '--role', 'r'],
      /^oneflight: --batches and --database cannot be used together; /
    ]
  ] as const
  for (const [args, message] of rows) {
    t.match(await runInside(['check', ...args]), { code: 2, out: '', err: message })
  }
})
