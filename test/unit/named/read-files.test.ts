/**
 * Tests that the file of a named batch is refused with every issue and its position, and which
 * values its parameters take.
 */
import t from 'tap'
import type { Failure } from '../../../src/errors/catalogue.ts'
import { parseJson, writeJson, type Json, type JsonObject } from '../../../src/json/parse.ts'
import { readParameters, type Parameters } from '../../../src/named/parameters.ts'
import { readNamedBatch, readFolder } from '../../../src/named/read-files.ts'
import type { PathIssue } from '../../../src/named/issues.ts'
import { planBatch } from '../../../src/plan/plan-batch.ts'
import { growthOf } from '../../support/growth.ts'

const limits = { schemas: ['public'], maxOps: 3, maxRows: 10, maxConditions: 10 }
const read = (text: string, name = 'dir/order.json') =>
  readNamedBatch(name, Buffer.from(text), limits)

const select = '{"id": "s", "op": "select", "table": "t"}'
const file = (params: string, where: string): string =>
  `{"params": ${params},\n "operations": [{"id": "s", "op": "select", "table": "t",\n  "where": ${
    where}}]}`
const object = (properties: string, more = ''): string =>
  `{"type": "object", "properties": ${properties}${more}}`

/** A file with the parameter `x`, which is required. */
const fileWithX = (schema: string, where: string, more = ', "required": ["x"]'): string =>
  file(object(`{"x": ${schema}}`, more), where)

t.test('a valid file is a batch', async t => {
  const result = read(
    `{"description": "d", "roles": ["a"], "params": ${
      object('{"x": true, "y": {"default": 5}}', ', "required": ["x"]')
    }, "operations": [${select.replace('}', ', "where": {"id": {"eq": "$params.x"}}}')}]}`
  )
  if ('issues' in result) throw new Error(result.issues.join())
  t.match(result.batch, { name: 'order', description: 'd' })
  t.same(result.batch.roles, new Set(['a']))
  t.same(result.batch.parameters.read({ x: null }), [null, 5])
})

t.test('a parameter that is never a list can be part of an operand', async t => {
  for (const type of ['"string"', '["object", "null"]']) {
    const text = fileWithX(`{"type": ${type}}`, '{"tags": {"cs": ["$params.x"]}}')
    t.ok('batch' in read(text), type)
  }
})

/** The content of a file, and its issues, each without the name of the file. */
const issues: ReadonlyArray<readonly [text: string, ...issues: string[]]> = [
  ['', '1:1: The file is not valid JSON: unexpected end at line 1, column 1.'],
  ['[]', '1:1: The file must be a JSON object with "operations".'],
  ['{"a": 1, "a": 2}', '1:1: The file has an object with the duplicate key "a".'],
  [`{"operations": [${select}],\n "rolls": []}`, '2:2: "rolls": Unexpected property.'],
  ['{"operations": []}', '1:2: "operations": '],
  [`{"operations": [${select}, ${select}]}`, '1:60: operation 1 (s): id_duplicate'],
  [`{"operations": [${[1, 2, 3, 4].map(n => select.replace('"s"', `"s${n}"`)).join()}]}`,
    '1:2: too_many_ops'],
  [`{"operations": [${select.replace('"s"', '"params"')}]}`,
    '1:17: operation 0 (params): id_duplicate: The id "params" is reserved'],
  [file(object('{}'), '{"id": {"eqq": 1}, "n": {"eq": "$params.x"}}'),
    '3:20: operation 0 (s): operator_unknown at where.id.eqq',
    '3:37: operation 0 (s): reference_unknown at where.n.eq: "$params.x" names no'],
  [fileWithX('true', '{"id": {"eq": "$params.x"}}', ''),
    '3:20: operation 0 (s): reference_malformed at where.id.eq: "$params.x" can ' +
    'be missing: add it to "required"'],
  [fileWithX('{"type": "array"}', '{"id": {"nin": "$params.x", "eq": "$params.x"}}'),
    '3:40: operation 0 (s): operand_invalid at where.id.eq: "$params.x" is a list'],
  [fileWithX('{"type": "array"}', '{"id": {"nin": "$params.x"}}'),
    '3:20: operation 0 (s): reference_malformed at where.id.nin: "$params.x" can ' +
    'be an empty list'],
  [fileWithX('{}', '{"tags": {"cs": ["a", "$params.x"]}}'),
    '3:34: operation 0 (s): reference_malformed at where.tags.cs[1]: "$params.x" can be an empty'],
  [`{"roles": ["a", 5], "operations": [${select}]}`, '1:17: "roles[1]": Expected string.'],
  [`{"operations": [${'['.repeat(9000)}${']'.repeat(9000)}]}`,
    '1:1: The file is nested too deeply.'],
  [fileWithX('{"type": "integer"}', '{"id": {"eq": {"$first": ["$params.x"]}}}'),
    '3:38: operation 0 (s): reference_malformed at where.id.eq.$first[0]: ' +
    '"$params.x" always exists'],
  [file(object('{"__proto__": true}'), '{}'), '1:46: "__proto__" is not allowed.'],
  [file('{"type": "string"}', '{}'), '1:2: "params" must be a JSON Schema with'],
  [file('{"type": "object", "properties": []}', '{}'), '1:31: "properties" must be an object.'],
  [fileWithX('{"maximum": 9007199254740993}', '{}', ''),
    '1:52: The number has more digits than a double can hold.'],
  [fileWithX('{"type": "integer", "default": "a"}', '{}', ''), '1:71: "x" must be an integer.']
]

/** A file with one operation and the parameter `rows`. */
const rowsFile = (rows: string, operation: string, more = ', "required": ["rows"]'): string =>
  `{"params": ${object(`{"rows": ${rows}, "other": true}`, more)},
    "operations": [${operation}]}`
const items = (more: string): string => `{"type": "array", "items": {"type": "object"${more}}}`
const closed = items(', "properties": {"sku": true}, "additionalProperties": false')
const insert = '{"id": "i", "op": "insert", "table": "t", "values": "$params.rows"}'
const joined = (from: string, set = '{"a": 1}'): string =>
  `{"id": "u", "op": "update", "table": "t", "set": ${set}, "from": ${from}}`
const copied = (from: string, columns = '{"a": 1}'): string =>
  `{"id": "i", "op": "insert", "table": "t", "columns": ${columns}, "from": ${from}}`

/** Uses of rows, with their issues: each names the operation and the path. */
const rowIssues: ReadonlyArray<readonly [text: string, ...issues: string[]]> = [
  [rowsFile(closed, insert)],
  [rowsFile(items(''), copied('{"param": "rows", "columns": [{"fn": "count"}]}'))],
  [rowsFile('{"type": "array"}', insert),
    'reference_malformed at values: "$params.rows" must be a list of objects'],
  [rowsFile('{"type": "array", "prefixItems": [true], "items": {"type": "object"}}', insert),
    'reference_malformed at values: "$params.rows" must be a list of objects'],
  [rowsFile(items(', "additionalProperties": false, "patternProperties": {"^a": true}'), insert),
    'reference_malformed at values: "items" of "$params.rows" must have "additionalProperties"'],
  [rowsFile(closed, copied('{"param": "$params.rows"}')),
    'reference_unknown at from.param: "param" takes the name of a parameter: "rows".'],
  [rowsFile(closed, joined('{"param": "rows", "on": {"a": "sku"}, "group_by": ["sku"]}')),
    'member_missing at from.columns: "group_by" requires "columns".'],
  [rowsFile(closed, insert, ''), 'reference_malformed at values: "$params.rows" can be missing'],
  [rowsFile(items(', "properties": {"": true}'), insert),
    'reference_malformed at values: "items" of "$params.rows" must have "additionalProperties"',
    'reference_malformed at values: A column name must be'],
  [
    rowsFile(
      items(`, "additionalProperties": false, "properties": {${
        Array.from({ length: 1700 }, (_, i) => `"c${i}": true`).join()
      }}`),
      insert
    ),
    'reference_malformed at values: "$params.rows" has 1700 columns; at most 1600 are allowed.'
  ],
  [`{"params": ${object('{}')}, "operations": [${insert}]}`,
    'reference_unknown at values: There is no parameter "rows". Parameters: none.'],
  [rowsFile(closed, copied('{"param": "rows", "columns": ["sku", {"fn": "count"}]}')),
    'member_invalid at from.columns[0]: "sku" must be in "group_by", or be aggregated.',
    'member_invalid at from.columns[0]: "sku" meets no column whose type it could take.'],
  [rowsFile(closed, insert.replace('$params.', '')), 'member_invalid at values: "values" must be'],
  [
    rowsFile(
      closed,
      '{"id": "u", "op": "update", "table": "t", "key": ["sku"], "values": "$params.rows"}'
    ),
    'member_invalid at values: Beside "key", "values" must be an array. To use rows of a parameter'
  ],
  [rowsFile(closed, joined('{"param": "rows"}')), 'member_missing at from.on: "on" is required'],
  [rowsFile(closed, joined('{"param": "rows", "on": {"a": "sku"}, "where": {}}')),
    'member_unknown at from.where: Unknown member "where"'],
  [rowsFile(closed, joined('{"param": "rows", "on": {"a": "skuu"}}')),
    'member_invalid at from.on.a: Unknown member "skuu". Did you mean "sku"?'],
  [
    rowsFile(
      closed,
      joined(
        '{"param": "rows", "on": {"a": "sku"}, "columns": ["*", "sku", {"fn": "max", ' +
          '"column": "sku", "as": "m"}], "group_by": ["sku", "other"]}',
        '{"b": {"$from": "other"}}'
      )
    ),
    'member_invalid at from.columns[0]: "*" is not possible with "param"',
    'member_invalid at set.b.$from: "other" is not in "columns" of "from". Output columns: *, sku',
    'member_invalid at from.columns[2]: "sku" meets no column whose type it could take.'
  ],
  [
    rowsFile(
      closed,
      joined('{"param": "rows", "on": {"a": "sku"}, "columns": ["sku"], "group_by": ["qty"]}')
    ),
    'member_invalid at from.columns[0]: "sku" must be in "group_by", or be aggregated.',
    'member_invalid at from.group_by[0]: "qty" must also be in "columns".'
  ],
  [
    rowsFile(
      closed,
      `${joined('{"param": "rows", "on": {"a": "sku"}}').slice(0, -1)}, "where": {"exists": ` +
        '{"table": "x", "on": {"a": "a"}, "where": {"b": {"eq": {"$from": "sku"}}}}}}'
    ),
    'member_invalid at where.exists.where.b.eq.$from: "sku" meets no column whose type'
  ]
]

t.test('only named batches take rows of a parameter', async t => {
  const batch = [JSON.parse(insert), JSON.parse(joined('{"param": "rows", "on": {"a": "b"}}'))]
  try {
    planBatch(batch as never, limits)
    t.fail('The batch is invalid.')
  } catch (error) {
    t.match((error as Failure).details['errors'], [
      { op: 'i', path: ['values'], message: '"values" must be an array of rows' },
      { op: 'u', path: ['from', 'table'] },
      { op: 'u', path: ['from', 'param'] }
    ])
  }
})

t.test('every issue has its position', async t => {
  for (const [before, rows] of [['dir/order.json:', issues], [': ', rowIssues]] as const) {
    for (const [text, ...expected] of rows) {
      const result = read(text)
      const got = 'issues' in result ? result.issues : []
      t.equal(got.length, expected.length, got.join('\n'))
      for (const [i, issue] of expected.entries()) {
        t.ok(got[i]?.includes(`${before}${issue}`), `${issue} | ${got[i]}`)
      }
    }
  }
  for (const name of ['Order.json', 'a b.json', `${'x'.repeat(64)}.json`, '.json', '-a.json']) {
    t.match(read('{}', `dir/${name}`), { issues: [/The name of the file must match/] }, name)
  }
})

t.test('a file that cannot be read is an issue', async t => {
  const alone = `${t.testdir({ x: { 'a.json': {} } })}/x`
  t.same(readFolder(alone, limits), { issues: [`${alone}/a.json: The file cannot be read.`] })
  const gone = `${alone}/gone`
  t.same(readFolder(gone, limits), { issues: [`${gone}: The folder cannot be read.`] })
  const unread = `${t.testdir({ 'a.json': {}, 'b.txt': '', 'c.json': '{"operations": [1]}' })}`
  t.same(readFolder(unread, limits), {
    issues: [
      `${unread}/a.json: The file cannot be read.`,
      `${unread}/c.json:1:17: operation 0: id_missing: ` +
        'Operation 0 must be an object with a string "id".'
    ]
  })
})

t.test('issues of values have the path of the value', async t => {
  const schema = object(
    '{"x": {"type": "object", "additionalProperties": false}}', ', "minProperties": 1'
  )
  const parameters = readParameters(parseJson(Buffer.from(schema))) as Parameters
  t.same([...parameters.check({ x: { y: 1 } })], [{ path: ['x', 'y'], message: '"y" is unknown.' }])
  t.same([...parameters.check({})], [{
    path: [],
    message: 'The value must have at least 1 member.'
  }])
})

/** Schemas of one value, with values that they take and refuse. */
const numbers = [
  ['{"type": "integer"}', ['1', '1.0', '1e2', '9007199254740993', '-0', '1e400'], [
    '1.5', '0.1', '"1"', 'null'
  ]],
  ['{"type": "array", "uniqueItems": true}', ['[9007199254740993, 9007199254740992]'], [
    '[9007199254740993, 9007199254740993.0]', '[1e400, 10e399]', '[0.1e-400, -0.0, 0.10e-400]'
  ]],
  ['{"maximum": 9007199254740992}', ['9007199254740992', '1', '"x"'], [
    '9007199254740993', '9007199254740992.0000000001', '1e400'
  ]],
  ['{"exclusiveMinimum": 0.1}', ['0.1000000000000000000001', '5'], ['0.1', '-1e400', '0.10']],
  ['{"minimum": -1, "exclusiveMaximum": 1}', ['-1', '0.99999999999999999999999'], [
    '-1.00000000000000000000001',
    '1'
  ]],
  ['{"multipleOf": 0.01}', ['0.29', '1e400', '12345678901234567890.12', '0'], [
    '0.291', '12345678901234567890.123', '1e-400'
  ]],
  ['{"additionalProperties": {"maximum": 1}}', ['{"__proto__": 1.0, "a": "2"}'], [
    '{"__proto__": 1.00000000000000000000001}', '{"a": 1e400}'
  ]],
  ['{"enum": [9007199254740992, "a"]}', ['9007199254740992', '"a"'], ['9007199254740994']],
  ['{"uniqueItems": true}', [
    '"x"', '[]', '["1", 1, [1], {"a": 1}, null, "null"]',
    '[{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1}]',
    '[0.123456789012, 0.1234567890120000000001, 1e400, 1e401]'
  ], [
    '[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}]',
    '[[{"a": 9007199254740993}], 1, [{"a": 9007199254740993.0}]]', '[0, 1, -0]'
  ]],
  ['{"uniqueItems": false}', ['[1, 1]'], []],
  ['{"$ref": "#/$defs/n"}', ['4'], ['5']]
] as const

/** The parameter `x` with a schema, which may refer to `n`. */
function parameterOf (schema: string): Parameters {
  const text = object(`{"x": ${schema}}`, ', "$defs": {"n": {"maximum": 4}}')
  return readParameters(parseJson(Buffer.from(text))) as Parameters
}

t.test('numbers are checked by their digits', async t => {
  for (const [schema, valid, invalid] of numbers) {
    const check = prepareCheck(schema)
    for (const value of valid) t.same(check(value), [], `${schema} takes ${value}`)
    for (const value of invalid) t.ok(check(value).length > 0, `${schema} refuses ${value}`)
  }
})

/** Returns a check of one value by a schema. */
function prepareCheck (schema: string): (value: string) => readonly PathIssue[] {
  const parameters = parameterOf(schema)
  return value => [...parameters.check(parseJson(Buffer.from(`{"x": ${value}}`)) as JsonObject)]
}

t.test('integers become their digits', async t => {
  const read = (schema: string, value: string): string => {
    const values = parseJson(Buffer.from(value === '' ? '{}' : `{"x":${value}}`)) as JsonObject
    return writeJson(parameterOf(schema).read(values)[0] as Json)
  }
  for (const [sent, digits] of [
    ['1.0', '1'], ['1e3', '1000'], ['-0', '0'], ['-1.50e1', '-15'], ['7', '7'], ['null', 'null'],
    ['9007199254740993.0', '9007199254740993'], ['1e40', '1e40'], ['1e999999', '1e999999']
  ] as const) {
    t.equal(read('{"type": ["integer", "null"]}', sent), digits, sent)
    t.equal(read('{"type": "array", "items": {"type": "integer"}}', `[${sent}]`), `[${digits}]`)
    for (const schema of ['true', '{"type": "number"}', '{"type": ["integer", "number"]}']) {
      t.equal(read(schema, sent), sent, `${schema} ${sent}`)
    }
  }
  t.equal(read('{"type": "integer", "default": 1e3}', ''), '1000')
  t.equal(read('{"properties": {"a": {"type": "integer"}}}', '{"a":1.0}'), '{"a":1.0}')
})

t.test('equal items are named', async t => {
  const unique = prepareCheck('{"uniqueItems": true}')
  t.same(unique('[7, "a", 7.0]'), [
    { path: ['x'], message: '"x" must have unique items; items 0 and 2 are equal.' }
  ])
})

t.test('messages about types and sizes are sentences', t => {
  for (const [schema, value, message] of [
    ['{"type": ["string", "null"]}', '1', 'must be a string or null'],
    ['{"type": "object"}', '1', 'must be an object'],
    ['{"not": {"type": "string"}}', '"a"', 'must not match the schema of "not"'],
    ['{"minLength": 2}', '"a"', 'must have at least 2 characters'],
    ['{"maxItems": 1}', '[1, 2]', 'must have at most 1 item'],
    ['{"prefixItems": [{}], "items": false}', '[1, 2]', 'must have at most 1 item']
  ] as const) t.same(prepareCheck(schema)(value)[0]?.message, `"x" ${message}.`, schema)
  t.end()
})

t.test('a value that a recursive schema checks again and again is refused', async t => {
  const twice = '{"properties": {"y": {"$ref": "#/properties/x"}}}'
  const nest = (levels: number): string => `${'{"y":'.repeat(levels)}1${'}'.repeat(levels)}`
  for (const word of ['anyOf', 'oneOf', 'allOf']) {
    const check = prepareCheck(`{"type": "object", "${word}": [${twice}, ${twice}]}`)
    t.ok(check(nest(5)).length > 0, word)
    t.throws(() => check(nest(90)), {
      code: 'params_invalid',
      message: 'The parameters have more than 100000 parts that a recursive schema checks.'
    }, word)
  }
  const list = prepareCheck('{"type": "array", "items": {"$ref": "#/properties/x"}}')
  t.same(list(`[${'[],'.repeat(50_000)}[]]`), [], 'each value is checked once')
})

t.test('the time of a check grows in proportion to the items', async t => {
  const times = (size: number, item: (i: number) => string): string =>
    Array.from({ length: size }, (_, i) => item(i)).join()
  const unique = '{"uniqueItems": true}'
  const cases: ReadonlyArray<readonly [schema: string, write: (size: number) => string]> = [
    [unique, size => `[${times(size, i => `{"i":${i}}`)}]`],
    [unique, size => `[${times(size, i => `["${i}"]`)}]`],
    [unique, size => `[${times(size, i => `${i}.00000000000000000001`)}]`],
    ['{"items": {"type": "object", "properties": {"a": true}, "additionalProperties": false}}',
      size => `[${times(size, i => `{"a":1},{"c${i}":1}`)}]`],
    ['{"additionalProperties": {"type": "number"}}',
      size => `{${times(size, i => `"b${i}":"x"`)}}`]
  ]
  for (const [schema, write] of cases) {
    const check = prepareCheck(schema)
    const growth = growthOf(500, size => {
      const value = write(size)
      return () => check(value)
    })
    t.ok(growth < 12, `${schema}: ${growth.toFixed(1)}`)
  }
})

t.test('a further file compiles only the schema of its own parameters', async t => {
  const text = fileWithX('{"type": "object", "properties": {"a": {"type": "string"}}}', '{}')
  read(text)
  const { Function: original } = globalThis
  t.teardown(() => {
    globalThis.Function = original
  })
  let compiled = 0
  // Ajv compiles a schema to a function.
  globalThis.Function = new Proxy(original, {
    construct (target, texts) {
      compiled++
      return Reflect.construct(target, texts)
    }
  })
  for (let i = 0; i < 20; i++) t.ok('batch' in read(text.replace('"a"', `"a${i}"`)))
  t.equal(compiled, 20, 'one that finds the first error')
})
