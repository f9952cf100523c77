/**
 * Tests unusual schemas of parameters: each is refused with the position of its issue, or checks
 * values as JSON Schema says. No schema takes long, to read and to write as TypeScript.
 */
import t from 'tap'
import { readLimits } from '../../../src/config/config.ts'
import { parseJson, type JsonObject } from '../../../src/json/parse.ts'
import { readNamedBatch } from '../../../src/named/read-files.ts'
import { writeTypes } from '../../../src/named/write-types.ts'
import { batchLimits } from '../../../src/plan/check/read-batch.ts'

const operations = [{ id: 's', op: 'select', table: 't' }]

/** Reads a schema with the properties, which are on a line of their own, and with more keywords. */
function read (properties: object, more: object = {}): ReturnType<typeof readNamedBatch> {
  const rest = Object.entries(more).map(([word, value]) =>
    `,\n"${word}": ${JSON.stringify(value)}`).join('')
  const params = `{"type": "object",\n"properties": ${JSON.stringify(properties)}${rest}}`
  const text = `{"operations": ${JSON.stringify(operations)},\n"params": ${params}}`
  return readNamedBatch('a.json', Buffer.from(text), batchLimits(readLimits({})))
}

const paths = 'A reference is a path, such as {"$ref": "#/$defs/name"}.'
const unknown = (word: string): string => `"${word}" is unknown.`
const refused = (word: string): string => `"${word}" is not allowed.`
const nowhere = (reference: string): string =>
  `"${reference}" does not name a schema in "params". ${paths}`
const endless = '2:1: The schema is invalid: Maximum call stack size exceeded.'
const dialect = '"$schema" must be equal to constant: "https://json-schema.org/draft/2020-12/'
const own = 'https://example.com/own'
const text = { type: 'string' }
/** [properties, other keywords, position: issue …] */
const issues: ReadonlyArray<
  readonly [properties: object, more: object, ...issues: string[]]
> = [
  // keywords
  [{ a: { minLenght: 1 } }, {}, `3:21: ${unknown('minLenght')}`],
  [{ a: { items: { not: { dependencies: {} } } } }, {}, `3:37: ${refused('dependencies')}`],
  [{ a: true }, { $async: true }, `4:1: ${unknown('$async')}`],
  [{ a: { $anchor: 'x' } }, {}, `3:21: ${refused('$anchor')}`],
  [{ a: { $dynamicRef: '#n' } }, { $dynamicAnchor: 'n' }, `3:21: ${refused('$dynamicRef')}`,
    `4:1: ${refused('$dynamicAnchor')}`],
  [{ a: { $id: own } }, {}, `3:21: ${refused('$id')}`],
  [{ a: true }, { $schema: 'http://json-schema.org/draft-07/schema#' }, `4:1: ${dialect}`],
  [{ a: null }, {}, '3:16: "a" must be an object or a boolean.'],
  [{}, { patternProperties: { a: true, '[': true } }, ': Invalid regular expression: /[/u: '],
  [{ a: { pattern: '(?=a)b' } }, {}, ': RE2 does not support the regular expression: invalid'],
  [{ a: { if: true } }, {}, '2:1: The schema is invalid: strict mode: "if" without "then" and'],
  [{ a: true }, { required: ['a', 'b'] }, '4:18: "properties" does not contain "b".'],
  // references
  [{ a: { $ref: '#/$defs/b' } }, {}, `3:21: ${nowhere('#/$defs/b')}`],
  [{ a: { $ref: '#/$defs' } }, { $defs: { b: true } }, `3:21: ${nowhere('#/$defs')}`],
  [{ a: { $ref: '#/properties/a/default' }, b: { default: {} } }, {}, '3:21: "#/properties/a/def'],
  [{ a: { $ref: '#/__proto__' } }, {}, `3:21: ${nowhere('#/__proto__')}`],
  [{ a: { $ref: '#/%E0%A4%A' } }, {}, `3:21: ${nowhere('#/%E0%A4%A')}`],
  [{ a: { $ref: 'other.json' } }, {}, `3:21: ${nowhere('other.json')}`],
  [{ a: { contentSchema: { $ref: '#/$defs/b' } } }, {}, `3:38: ${nowhere('#/$defs/b')}`],
  [{}, { $defs: { b: { $ref: '#/$defs/c' } } }, `4:16: ${nowhere('#/$defs/c')}`],
  // without end
  [{ a: true }, { allOf: [{ $ref: '#' }] }, endless],
  [{ a: true }, { $ref: '#' }, endless],
  [{ a: { $ref: '#/properties/b' }, b: { $ref: '#/properties/a' } }, {}, endless]
]

t.test('issues of schemas have their positions', async t => {
  for (const [properties, more, ...expected] of issues) {
    const result = read(properties, more)
    const found = 'issues' in result ? result.issues : []
    const name = JSON.stringify([properties, more]).slice(0, 150)
    t.equal(found.length, expected.length, `${name}: ${found.join()}`)
    for (const [i, issue] of expected.entries()) {
      t.match(found[i], /^a\.json:\d+:\d+: [A-Z"]/, name)
      t.ok(found[i]?.includes(issue), `${name}: ${found[i]}`)
    }
  }
})

/** [properties, other keywords, values of `a` that are valid, and that are not, type of `a`] */
const works = [
  [{ a: false }, {}, [], [null, 1], 'never'],
  [{ a: { $ref: '#' } }, {}, [{}, { a: { a: {} } }], [1, { a: 1 }], 'unknown'],
  [{ a: { $ref: '#/$defs/b' } }, { $defs: { b: text } }, ['x'], [1], 'string'],
  [{ a: { $ref: '#/$defs/a~1b%20~0%25%23%22%C3%A9/prefixItems/0' } },
    { $defs: { 'a/b ~%#"é': { prefixItems: [{ type: 'string' }] } } }, ['x'], [1], 'string'],
  [{ a: { $ref: '#/$defs/tree' } },
    {
      $defs: {
        tree: {
          type: 'object',
          properties: { left: { $ref: '#/$defs/tree' }, n: { type: 'integer' } },
          additionalProperties: false
        }
      }
    }, [{ left: { left: { n: 1 } } }], [{ left: { left: { n: 'x' } } }, { right: {} }],
    '{ left?: unknown n?: number | bigint }'],
  // In data, nothing is a keyword.
  [{ a: { enum: [{ $ref: '#/x' }, { $id: 'x' }] } }, {}, [{ $ref: '#/x' }], [{ $ref: '#/y' }],
    'unknown'],
  [{ a: { $comment: 'c', format: 'date', type: 'string' } }, {}, ['x'], [1], 'string'],
  [{ a: { type: 'object', unevaluatedProperties: false, allOf: [{ properties: { b: true } }] } },
    {}, [{ b: 1 }], [{ c: 1 }], '{ [name: string]: unknown }']
] as const

function typeOf (result: ReturnType<typeof readNamedBatch>): string | undefined {
  const text = 'batch' in result ? writeTypes([result.batch]) : ''
  return /\n {6}a\?: ([^]*?)\n {4}\}\n {4}result/.exec(text)?.[1]?.replaceAll(/\s+/g, ' ')
}

t.test('unusual schemas check values, and have a type', async t => {
  for (const [properties, more, valid, invalid, type] of works) {
    const name = JSON.stringify([properties, more])
    const result = read(properties, more)
    if ('issues' in result) {
      t.fail(`${name}: ${result.issues.join()}`)
      continue
    }
    const isValid = (a: unknown): boolean => {
      const values = parseJson(Buffer.from(JSON.stringify({ a }))) as JsonObject
      return [...result.batch.parameters.check(values)].length === 0
    }
    for (const value of valid) t.ok(isValid(value), `${name}: ${JSON.stringify(value)}`)
    for (const value of invalid) t.notOk(isValid(value), `${name}: ${JSON.stringify(value)}`)
    t.equal(typeOf(result), type, name)
  }
})

t.test('what is known of a parameter is that of the referred schema', async t => {
  const result = read(
    { a: { $ref: '#/$defs/list' }, b: { $ref: '#/properties/c' }, c: { ...text, default: 'x' } },
    { $defs: { list: { type: 'array', minItems: 3 } } }
  )
  if ('issues' in result) throw new Error(result.issues.join())
  t.match([...result.batch.parameters.known.values()], [
    { isList: true, minItems: 3, isOptional: true },
    { isList: false, isOptional: false },
    { isOptional: false }
  ])
  t.same(result.batch.parameters.read({}), [null, 'x', 'x'])
})

t.test('a reference that leads back to itself fails every check', async t => {
  const result = read({ a: { not: { $ref: '#/properties/a' } } })
  if ('issues' in result) throw new Error(result.issues.join())
  const { parameters } = result.batch
  t.same([...parameters.check({})], [])
  t.throws(() => [...parameters.check({ a: 1 })], RangeError)
})

t.test('a reference in the schema of encoded content is kept', async t => {
  const a = { ...text, contentSchema: { $ref: '#/$defs/n' } }
  t.match(read({ a }, { $defs: { n: true } }), { batch: { schema: { properties: { a } } } })
})

t.test('the type of schemas that refer to each other in many ways is cut off', async t => {
  const numbers = Array.from({ length: 14 }, (_, i) => i)
  const $defs = Object.fromEntries(numbers.map(i => [`d${i}`, {
    type: 'object',
    properties: Object.fromEntries(numbers.map(j => [`p${j}`, { $ref: `#/$defs/d${j}` }]))
  }]))
  const type = typeOf(read({ a: { $ref: '#/$defs/d0' } }, { $defs })) ?? ''
  t.equal(type.match(/\{/g)?.length, 1000)
  t.match(type, 'p13?: unknown')
})
