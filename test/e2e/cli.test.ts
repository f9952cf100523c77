/**
 * Tests `oneflight run` and the program as a whole against a real service: exact output and exit
 * codes. `check` is tested in cli-check.test.ts, network failures in cli-lost.test.ts.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { runCommand } from '../../src/cli/main.ts'
import { useDatabase } from '../support/database/database.ts'
import * as op from '../support/operations.ts'
import { oneflight, runInside, type Ended, type RunOptions } from '../support/process/cli.ts'
import { token, useService } from '../support/service.ts'
import { until } from '../support/until.ts'

// Starts many processes, each of which loads the program.
t.setTimeout(300_000)

const role = 'oneflight_user'
const schema = `
  create table things (
    id int8 primary key, price numeric, name text, data jsonb, raw json, ok boolean
  );
  create table many (n int, filler text);
  insert into many select n, repeat('x', 1000) from generate_series(1, 5000) as n;`

const contents = `
  truncate things;
  insert into things values
    (1, 1.10, 'apple', '{"a": [1, 2.50], "b": null}', '{ "z": 1,  "a": 1.0 }', true),
    (9007199254740993, -0.00, E'two\\nlines\\u001b[31m', '"text"', 'null', false),
    (3, null, null, null, null, null),
    (4, 1e20, '日本語 🍎 é', '[]', '[]', true),
    (5, 'NaN', 'null', 'null', '12.340', true)`

const all = JSON.stringify([
  { id: 'all', op: 'select', table: 'things', order: [{ id: 'asc' }] },
  { id: 'none', op: 'delete', table: 'public.things', where: { id: { lt: 0 } } },
  op.select('some', 'things', { columns: ['name', 'ok'], order: [{ id: 'asc' }], limit: 1 }),
  op.update('bare', 'things', { set: { ok: false }, where: { id: { eq: 5 } }, returning: [] })
])

/* eslint-disable @stylistic/max-len -- tables as they are printed */
const allTables = String.raw`all: select things, 5 rows
        id        |         price         |      name       |            data             |          raw          |   ok
------------------+-----------------------+-----------------+-----------------------------+-----------------------+--------
                1 |                  1.10 | apple           | {"a": [1, 2.50], "b": null} | { "z": 1,  "a": 1.0 } | true
                3 |                (null) | (null)          | (null)                      | (null)                | (null)
                4 | 100000000000000000000 | 日本語 🍎 é     | []                          | []                    | true
                5 |                   NaN | null            | (null)                      | 12.340                | true
 9007199254740993 |                  0.00 | two            +| text                        | (null)                | false
                  |                       | lines\u001b[31m |                             |                       |

none: delete public.things, 0 rows

some: select things, 1 row
 name  |  ok
-------+------
 apple | true

bare: update things
`
/* eslint-enable @stylistic/max-len */

const service = await useService(t, {
  schema,
  env: { ANON_ROLE: 'oneflight_anon', ERROR_VERBOSITY: 'verbose' }
})
const { sql } = service.database
const environment = { ONEFLIGHT_URL: service.url, ONEFLIGHT_TOKEN: token({ role }) }
const run = (
  args: readonly string[],
  { input = all, env = {} }: Pick<RunOptions, 'input' | 'env'> = {}
): Promise<Ended> => runInside(['run', ...args], { env: { ...environment, ...env }, input })

t.beforeEach(() => sql.unsafe(contents))

const insert = (id: string): string =>
  `[{"id":"i","op":"insert","table":"things","values":[{"id":${id},"price":0.10}],` +
  '"returning":["id","price"]}]'
const inserted = async (id: number): Promise<boolean> =>
  (await sql`select from things where id = ${id}`).length === 1

t.test('tables are printed exactly', async t => {
  const printed = await oneflight(['run', '--table', '-'], { env: environment, input: all })
  t.same(printed, { code: 0, out: allTables, err: '' })
})

t.test('JSON: requests and responses keep their bytes', async t => {
  await service.post(all)
  const { text } = await service.post(all)
  for (const args of [['-'], ['--json', '-']]) {
    t.same(await run(args), { code: 0, out: `${text}\n`, err: '' })
  }
  // Spelling, white space and exact numbers of the file arrive unchanged, as the response shows.
  const batch = '[ {"id":"i", "op":"insert",\n"table":"things",' +
    '"values":[{"id":9007199254740995,"raw":{"b":1.00,"\\u0061":1e400},"price":0.10}], ' +
    '"returning":["id","raw","price"]}]\n'
  t.equal(
    (await run(['-'], { input: batch })).out,
    '{"error":null,"data":{"i":[{"id":9007199254740995,"raw":{"b":1.00,"a":1e400},"price":' +
      '0.10}]}}\n'
  )
  const file = t.testdir({ 'batch.json': insert('77') })
  t.match(await run([join(file, 'batch.json')]), {
    code: 0,
    out: '{"error":null,"data":{"i":[{"id":77,"price":0.10}]}}\n'
  })
  const input = `{"$schema": "batch-file.json", "operations": ${insert('78')}}`
  t.match(await run(['-'], { input }), {
    code: 0,
    out: '{"error":null,"data":{"i":[{"id":78,"price":0.10}]}}\n'
  }, 'of a file with a schema, only the operations are sent')
})

t.test('the schema of batch files is printed with the limits of the environment', async t => {
  const committed = readFileSync(join(import.meta.dirname, '../../schemas/batch-file.json'), 'utf8')
  t.same(await runInside(['schema']), { code: 0, out: committed, err: '' })
  const { out } = await runInside(['schema'], { env: { MAX_OPS: '7', MAX_ROWS: '8' } })
  t.match(JSON.parse(out), {
    anyOf: [{ maxItems: 7 }, { properties: { operations: { maxItems: 7 } } }]
  })
  t.match(await runInside(['schema', 'x']), { code: 2, err: /schema takes no arguments/ })
})

t.test('on a terminal: tables, or blocks if a table is too wide', async t => {
  const show = async (columns: number): Promise<string> => {
    const [stdout, stderr] = [
      Object.assign(new PassThrough(), { isTTY: true, columns }),
      new PassThrough()
    ]
    const context = { env: environment, stdin: Readable.from([Buffer.from(all)]), stdout, stderr }
    t.equal(await runCommand(['run', '-'], '1.0.0', context), 0)
    return await text(stdout.end())
  }
  t.equal(await show(123), allTables)
  const narrow = await show(60)
  t.equal(
    narrow.slice(0, narrow.indexOf('-[ ROW 2')),
    `all: select things, 5 rows
-[ ROW 1 ]-------------------------
id    | 1
price | 1.10
name  | apple
data  | {"a": [1, 2.50], "b": null}
raw   | { "z": 1,  "a": 1.0 }
ok    | true
`
  )
  t.ok(
    narrow.includes(String.raw`
name  | two                        +
      | lines\u001b[31m
data  | text
`),
    narrow
  )
  t.ok(narrow.endsWith(allTables.slice(allTables.indexOf('\nnone: '))), 'narrow tables stay tables')
  t.match(await show(20), /^-\[ ROW 1 \]-{10}$/m, 'never wider than the terminal')
  t.equal(await show(0), await show(80), 'a terminal without a width has 80 columns')
})

t.test('the token comes from the variable, an option or a file', async t => {
  const file = join(t.testdir({ token: `${token({ role })}\n`, empty: '\n' }), 'token')
  const none = { ONEFLIGHT_TOKEN: '' }
  t.equal((await run(['--token-file', file, '-'], { env: none })).code, 0)
  t.equal((await run([`--token=${token({ role })}`, '-'], { env: none })).code, 0)
  t.equal(
    (await run([`--token=${token({ role })}`, '-'], { env: { ONEFLIGHT_TOKEN: 'bad' } })).code,
    0,
    'the option takes precedence'
  )
  const denied = { code: 1, err: /permission denied/ }
  const bad = { env: { ONEFLIGHT_TOKEN: 'bad' } }
  t.match(await run(['-'], { env: none }), denied, 'without a token the request is anonymous')
  t.match(await run(['--token', '', '-'], bad), denied, 'an empty token counts as none')
  t.match(await run(['-'], bad), { code: 1, err: /^oneflight: <stdin>: token_invalid: / })
})

t.test('options for preferences and request ids work', async t => {
  t.same(await run(['--dry-run', '--table', '-'], { input: insert('100') }), {
    code: 0,
    out: 'i: insert things, 1 row\n id  | price\n-----+-------\n 100 |  0.10\n',
    err: 'oneflight: dry run: nothing was committed\n'
  })
  t.notOk(await inserted(100))
  t.match(await run(['--read-only', '-'], { input: insert('100') }), {
    code: 1,
    err:
      /^oneflight: <stdin>:1:2: operation 0 \(i\): read_only_sql_transaction: .*\n {2}sqlstate: 25006\n {2}nothing was committed; request /
  })
  const level = '[{"id":"l","op":"select","table":"level"}]'
  await sql.unsafe(
    "create view level as select current_setting('transaction_isolation') as level; grant " +
      `select on level to ${role}`
  )
  t.match(await run(['--isolation', 'serializable', '-'], { input: level }), {
    code: 0,
    out: '{"error":null,"data":{"l":[{"level":"serializable"}]}}'
  })

  t.match(await run(['--request-id', 'mine.1', '-'], { input: insert('1') }), {
    code: 1,
    err: 'oneflight: <stdin>:1:2: operation 0 (i): unique_violation: duplicate key value ' +
      'violates unique constraint "things_pkey"\n  sqlstate: 23505\n  constraint: ' +
      'things_pkey\n  detail: Key (id)=(1) already exists.\n' +
      '  nothing was committed; request mine.1\n'
  })
  await until(() => service.log.some(({ request_id: id }) => id === 'mine.1'))
})

t.test('errors are printed to standard error with the position of every issue', async t => {
  const input = `[
  {"id": "one", "op": "select", "wheer": {}},
  {"id": "two", "op": "insert", "table": "things", "values": [3]}
]`
  const { code, out, err } = await run(['--request-id', 'r', '-'], { input })
  t.same([code, err], [
    1,
    `oneflight: validation_failed: The batch has 3 issues.
  <stdin>:2:3: operation 0 (one): member_missing at table: "table" is required.
  <stdin>:2:33: operation 0 (one): member_unknown at wheer: Unknown member "wheer". ` +
    `Did you mean "where"?
  <stdin>:3:63: operation 1 (two): member_invalid at values[0]: A row must ` +
    `be an object, for example {"sku": "apple"}.
  nothing was committed; request r
`
  ])
  t.match(
    JSON.parse(out),
    { error: { code: 'validation_failed' }, data: null },
    'the response is printed to standard output'
  )
  t.same((await run(['--table', '-'], { input })).out, '', 'tables replace the response')
  t.match(await run(['-'], { input: '[{"id":"a"},' }), {
    code: 1,
    err: /^oneflight: <stdin>: body_invalid: /
  })
})

t.test('it is printed that a retry may succeed', async t => {
  await sql.begin(async holder => {
    await holder`lock table things`
    t.match(
      await run(['-'], {
        input: '[{"id":"l","op":"select","table":"things","lock":{"wait":"nowait"}}]'
      }),
      { code: 1, err: /nothing was committed; request \S+; a retry may succeed\n$/ }
    )
  })
})

t.test('the exit code is that of the batch when standard output is closed', async t => {
  const input =
    '[{"id":"m","op":"select","table":"many"},{"id":"i","op":"insert","table":"things",' +
    '"values":[{"id":200}]}]'
  const { code, err } = await oneflight(['run', '-'], { env: environment, input, deaf: true })
  t.same([code, err], [0, ''])
  t.ok(await inserted(200))
})

t.test('an invalid command line: exit code 2, one line, nothing is sent', async t => {
  const directory = t.testdir({ 'batch.json': all, 'token\n': '' })
  const rows: ReadonlyArray<readonly [args: readonly string[], line: RegExp]> = [
    [['frob'], /^unknown command "frob" \(expected start, run, check, schema, types, token or migrate\)$/],
    [['--frob'], /^Unknown option '--frob'$/],
    [['-'], /^expected a command$/],
    [['start', 'now'], /^start takes no arguments$/],
    [['run'], /^expected one file, or - for standard input$/],
    [['run', 'a', 'b'], /^expected one file/],
    [['run', '--token', '--json', '-'], /^Option '--token' argument is ambiguous$/],
    [['run', '--json', '--table', '-'], /^--table and --json cannot be used together$/],
    [
      ['run', '--isolation', 'none', '-'],
      /^invalid --isolation "none" \(expected read-committed, repeatable-read or serializable\)$/
    ],
    [['run', '--url', 'ftp://127.0.0.1', '-'], /^invalid --url "ftp:\/\/127\.0\.0\.1" \(expected an /],
    [['run', '--url', '127.0.0.1:4000', '-'], /^invalid --url "127/],
    [['run', '--url', 'http://u:p@127.0.0.1', '-'], /^--url must not contain a user or password/],
    [
      ['run', '--token', 'a\nb', '-'],
      /^invalid character in the value of the authorization header$/
    ],
    [
      ['run', '--token', 'a', '--token-file', 'b', '-'],
      /^--token and --token-file cannot be used together$/
    ],
    [['run', '--token-file', join(directory, 'none'), '-'], /none: ENOENT: no such file/],
    [['run', join(directory, 'a\u001bb')], /a\\u001bb: ENOENT/],
    [['types'], /^expected one folder, or --database$/],
    [['types', 'a', 'b'], /^expected one folder, or --database$/],
    [['types', 'none'], /^none: ENOENT/],
    [['check'], /^expected a file, or - for standard input$/],
    ...['0', 'x', '86401'].map((seconds): [string[], RegExp] => [
      ['run', `--timeout=${seconds}`, '-'],
      /^invalid --timeout ".*" \(expected seconds: more than 0, at most 86400\)$/
    ])
  ]
  // All rows but the last run in the process of the test, so the program is loaded only once.
  for (const [args, line] of rows) {
    const { code, out, err } = await runInside(args, {
      env: { ONEFLIGHT_URL: 'http://127.0.0.1:1' }
    })
    t.same([code, out], [2, ''], args.join(' '))
    const [, message = ''] = /^oneflight: ([^\n]*); see oneflight --help\n$/.exec(err) ?? []
    t.match(message, line, `${args.join(' ')}: ${err}`)
  }
  t.match(await oneflight(['frob']), {
    code: 2,
    out: '',
    err: /^oneflight: unknown command "frob"/
  })
})

t.test('internal errors of the program are thrown', async t => {
  const broken = {
    get () {
      throw new RangeError('broken')
    }
  }
  for (const [command, member] of [['run', 'isTTY'], ['check', 'write']] as const) {
    const stdout = Object.defineProperty(new PassThrough(), member, broken)
    const context = { env: {}, stdin: Readable.from([]), stdout, stderr: new PassThrough() }
    await t.rejects(runCommand([command, 'examples/order.json'], '1.0.0', context), RangeError)
  }
})

t.test('help and version are printed', async t => {
  const { version, engines } = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')
  ) as { version: string, engines: { node: string } }
  t.same(await oneflight(['--version']), { code: 0, out: `${version}\n`, err: '' })
  const rows = [
    [['-h'], /^Usage: oneflight \[command\] \[options\]\n[^]*\n {2}run {6}Send a batch [^]* {2}-h, --help {2}Show/],
    [['start', '--help'], /^Usage: oneflight start \[options\]/],
    [['run', '--url', 'x', '--help'], /^Usage: oneflight run [^]*--token <token> .* Other users .* can see it \(ps\)/]
  ] as const
  for (const [args, out] of rows) {
    t.match(await oneflight(args), { code: 0, err: '', out })
  }
  // Simulates an older Node. package.test.ts runs the compiled program with a real one.
  const older = `data:text/javascript,${
    encodeURIComponent("Object.defineProperty(process, 'version', { value: 'v24.11.9' })")
  }`
  t.same(
    await oneflight(['--version'], {
      env: {
        NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import=${
          older.replaceAll("'", '%27')
        }`
      }
    }),
    { code: 2, out: '', err: `oneflight: requires Node ${engines.node}, found v24.11.9\n` }
  )
})

t.test('start and migrate are those of npm', async t => {
  const { url, loginUrl, sql } = await useDatabase(t)
  t.match(
    await oneflight(['migrate'], { env: { DATABASE_URL: loginUrl, MIGRATE_DATABASE_URL: url } }),
    { code: 0, out: /^oneflight: schema oneflight is ready/, err: '' }
  )
  t.same(await sql`select from oneflight.idempotency_keys`, [])
  t.match(await oneflight(['start']), {
    code: 1,
    out: '',
    err: /^oneflight: DATABASE_URL: required\n/
  })
})
