/**
 * Named batches, and bodies with as much of each kind of parameter as the limits allow.
 */
import { times, type Element } from './part.ts'

const rowsOf = (properties: object): object => ({
  type: 'array', items: { type: 'object', properties, additionalProperties: false }
})
const paramsOf = (properties: object, more = {}): object => ({
  type: 'object', properties, required: Object.keys(properties), ...more
})
const select = (where: object): object => ({ id: 's', op: 'select', table: 't', where })
const selectValue = [select({ j: { eq: { $value: '$params.x' } } })]
/** A batch whose one parameter has this schema. */
const takes = (schema: object, definitions = {}): object => ({
  params: paramsOf({ x: schema }, definitions), operations: selectValue
})

/** The files of the batches, by name. */
export const namedBatches: Readonly<Record<string, object>> = {
  insert: {
    params: paramsOf({
      x: rowsOf(Object.fromEntries(['a', 'b', 'j', 'n'].map(name => [name, true])))
    }),
    operations: [{ id: 'i', op: 'insert', table: 't', values: '$params.x' }]
  },
  'insert-from': {
    params: paramsOf({ x: rowsOf({ a: { type: 'string' }, j: true }) }),
    operations: [{
      id: 'i',
      op: 'insert',
      table: 't',
      from: { param: 'x' },
      columns: { a: { $col: 'a' }, j: { $col: 'j->k' } }
    }]
  },
  'update-from': {
    params: paramsOf({ x: rowsOf({ id: { type: 'integer' }, b: { type: 'number' } }) }),
    operations: [{
      id: 'u',
      op: 'update',
      table: 't',
      from: { param: 'x', on: { id: 'id' } },
      set: { b: { $inc: { $from: 'b' } } }
    }]
  },
  list: {
    params: paramsOf({ x: { type: 'array', items: { type: 'string' }, minItems: 1 } }),
    operations: [select({ a: { in: '$params.x' } })]
  },
  many: {
    params: paramsOf(Object.fromEntries(times(50, i => `p${i}`).map(name => [name, true]))),
    operations: [select({ and: times(50, String).map(i => ({ a: { eq: `$params.p${i}` } })) })]
  },
  number: takes({ type: 'number' }),
  limits: takes({
    type: 'array', items: { type: 'number', minimum: -1e15, maximum: 1e15, multipleOf: 0.01 }
  }),
  exclusive: takes({
    type: 'array', items: { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 100 }
  }),
  unique: takes({ type: 'array', uniqueItems: true }),
  text: takes({ type: 'array', items: { type: 'string', minLength: 2, maxLength: 9 } }),
  pattern: takes({ type: 'array', items: { type: 'string', pattern: '^[a-z]+@[a-z]+\\.com$' } }),
  words: takes({ type: 'array', items: { enum: times(100, i => `word${i}`) } }),
  open: takes({ type: 'object', additionalProperties: { type: 'number' } }),
  keys: takes({ type: 'object', propertyNames: { pattern: '^[a-z]{1,9}$' }, maxProperties: 9 }),
  patterns: takes({
    type: 'object',
    patternProperties: { '^a': { type: 'number' }, '^b': { type: 'string' } },
    additionalProperties: false
  }),
  either: takes({
    type: 'array',
    items: { oneOf: times(10, i => `k${i}`).map(name => ({ type: 'object', required: [name] })) }
  }),
  any: takes({
    type: 'array',
    items: { anyOf: [{ type: 'string' }, { type: 'number', minimum: 0 }, { type: 'array' }] }
  }),
  contains: takes({ type: 'array', contains: { const: 'x' }, minContains: 1, maxContains: 5 }),
  tree: takes({ $ref: '#/$defs/node' }, {
    $defs: {
      node: {
        type: 'object',
        properties: {
          name: { type: 'string' }, children: { type: 'array', items: { $ref: '#/$defs/node' } }
        },
        unevaluatedProperties: false
      }
    }
  }),
  depends: takes({
    type: 'array',
    items: { type: 'object', dependentRequired: { a: ['b'], c: ['d'] }, minProperties: 1 }
  })
}

/** Bodies of a batch: `n` of something. */
export interface NamedPart {
  readonly name: string
  readonly batch: string
  readonly make: (n: number) => string
}

const list = (item: Element) => (n: number): string => `{"x":[${times(n, item).join()}]}`
const object = (member: Element) => (n: number): string => `{"x":{${times(n, member).join()}}}`
const value = (write: (n: number) => string) => (n: number): string => `{"x":${write(n)}}`
const digits = (n: number): string => '9'.repeat(n)

const elements: Readonly<Record<string, Element>> = {
  strings: i => `"x${i}"`,
  'strings like references': i => `"$p.${i}.a"`,
  numbers: String,
  'exact numbers': i => `${i}.10`,
  'numbers of 400 digits': i => `${i + 1}${digits(400)}`,
  'exponents of 400 digits': i => `1e${i + 1}${digits(400)}`,
  'large exponents': i => `1e${400 + i % 1000}`,
  nulls: () => 'null',
  'empty objects': () => '{}',
  'objects of a number': i => `{"k":${i}.50}`,
  'objects with their members in turns': i => i % 2 === 0 ? `{"a":${i},"b":1}` : `{"b":1,"a":${i}}`,
  'long strings': () => `"${'a'.repeat(1000)}"`,
  'strings that almost match': () => `"${'a'.repeat(100)}@${'a'.repeat(100)}.co"`
}
const lists = ['list', 'limits', 'exclusive', 'unique', 'text', 'pattern', 'words', 'either', 'any',
  'contains', 'depends']

const rows: Readonly<Record<string, Element>> = {
  'one column': i => `{"a":"x${i}"}`,
  'columns in turns': i => i % 2 === 0 ? `{"a":"x${i}"}` : `{"j":${i}}`,
  'JSON in turns': i => i % 2 === 0 ? '{"j":[1]}' : '{"j":{"k":{"l":1}}}',
  'no column': () => '{}',
  'an unknown column': i => `{"c${i}":1}`,
  'no objects': String,
  'keys and numbers': i => `{"id":${i},"b":1.10}`,
  'exact keys': i => `{"id":${i}.0,"b":1}`,
  'deep JSON': () => `{"j":${'['.repeat(80)}${']'.repeat(80)}}`
}
const rowBatches = ['insert', 'insert-from', 'update-from']

const numbers: Readonly<Record<string, (n: number) => string>> = {
  digits: n => `1${digits(n)}`,
  'a fraction': n => `0.${'0'.repeat(n)}1`,
  'an exponent': n => `1e${digits(n)}`,
  'a negative exponent': n => `-1.5e-${digits(n)}`,
  zeros: n => `1${'0'.repeat(n)}.0`
}

const members: Readonly<Record<string, Element>> = {
  numbers: i => `"a${i}":${i}`,
  strings: i => `"b${i}":"x"`,
  'long keys': i => `"${'k'.repeat(200)}${i}":"x"`,
  'unknown keys': i => `"c${i}":1`
}

export const namedParts: readonly NamedPart[] = [
  ...lists.flatMap(batch => Object.entries(elements).map(([name, element]) =>
    ({ name, batch, make: list(element) }))),
  ...rowBatches.flatMap(batch => Object.entries(rows).map(([name, row]) =>
    ({ name: `rows of ${name}`, batch, make: list(row) }))),
  ...Object.entries(numbers).flatMap(([name, write]) => [
    { name: `a number of ${name}`, batch: 'number', make: value(write) },
    ...['limits', 'exclusive', 'unique', 'any'].map(batch =>
      ({ name: `a number of ${name}`, batch, make: value(n => `[${write(n)},1]`) }))
  ]),
  ...['open', 'keys', 'patterns'].flatMap(batch => Object.entries(members).map(([name, member]) =>
    ({ name: `members of ${name}`, batch, make: object(member) }))),
  // Many issues inside of one member with a long name.
  { name: 'issues behind a long key', batch: 'open', make: n => `{"x":{"${'k'.repeat(n)}":"x"}}` },
  {
    name: 'issues behind long keys',
    batch: 'tree',
    make: n => {
      const steps = Math.ceil(Math.sqrt(n))
      return `{"x":{"children":[${times(steps, () => `{"name":1,"${'k'.repeat(steps)}":1}`)}]}}`
    }
  },
  {
    name: 'children',
    batch: 'tree',
    make: n => `{"x":{"children":[${times(n, i => `{"name":"n${i}"}`)}]}}`
  },
  {
    name: 'levels', batch: 'tree', make: n => `{"x":${'{"children":['.repeat(n)}${']}'.repeat(n)}}`
  },
  { name: 'parameters', batch: 'many', make: n => `{${times(n, i => `"p${i}":${i}`).join()}}` },
  {
    name: 'lists of parameters',
    batch: 'many',
    make: n => `{${times(50, i => `"p${i}":[${times(Math.ceil(n / 50), String).join()}]`).join()}}`
  },
  { name: 'a long unknown parameter', batch: 'list', make: n => `{"${'x'.repeat(n)}":1}` },
  { name: 'an array instead of an object', batch: 'list', make: n => `[${times(n, String)}]` }
]
