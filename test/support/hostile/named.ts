/**
 * Named batches, and bodies with as much of each kind of parameter as the limits allow.
 */
import * as op from '../operations.ts'
import { times, type Element } from './part.ts'

const rowsOf = (properties: object): object => ({
  type: 'array', items: { type: 'object', properties, additionalProperties: false }
})
const paramsOf = (properties: object): object => ({
  type: 'object', properties, required: Object.keys(properties)
})
const select = (where: object): object => ({ id: 's', op: 'select', table: 't', where })
/** A batch whose one parameter has this schema. */
const takes = (schema: object): object => ({
  params: paramsOf({ x: schema }), operations: [select({ j: { eq: { $value: '$params.x' } } })]
})

/** The files of the batches, by name. */
export const namedBatches: Readonly<Record<string, object>> = {
  insert: {
    params: paramsOf({
      x: rowsOf(Object.fromEntries(['a', 'b', 'j', 'n'].map(name => [name, true])))
    }),
    operations: [{ id: 'i', op: 'insert', table: 't', values: '$params.x' }]
  },
  'update-from': {
    params: paramsOf({ x: rowsOf({ id: { type: 'integer' }, b: { type: 'number' } }) }),
    operations: [op.update('u', 't', {
      from: { param: 'x', on: { id: 'id' } }, set: { b: { $inc: { $from: 'b' } } }
    })]
  },
  list: {
    params: paramsOf({ x: { type: 'array', items: { type: 'string' }, minItems: 1 } }),
    operations: [select({ a: { in: '$params.x' } })]
  },
  number: takes({ type: 'number' }),
  limits: takes({
    type: 'array', items: { type: 'number', minimum: -1e15, maximum: 1e15, multipleOf: 0.01 }
  }),
  unique: takes({ type: 'array', uniqueItems: true }),
  pattern: takes({ type: 'array', items: { type: 'string', pattern: '^[a-z]+@[a-z]+\\.com$' } }),
  words: takes({ type: 'array', items: { enum: times(100, i => `word${i}`) } }),
  open: takes({ type: 'object', additionalProperties: { type: 'number' } })
}

/** Bodies of a batch: `n` of something. */
export interface NamedPart {
  readonly name: string
  readonly batch: string
  readonly make: (n: number) => string
}

const list = (item: Element) => (n: number): string => `{"x":[${times(n, item).join()}]}`
const digits = (n: number): string => '9'.repeat(n)

const elements: Readonly<Record<string, Element>> = {
  strings: i => `"x${i}"`,
  'exact numbers': i => `${i}.10`,
  'exponents of 400 digits': i => `1e${i + 1}${digits(400)}`,
  'objects of a number': i => `{"k":${i}.50}`,
  'strings that almost match': () => `"${'a'.repeat(100)}@${'a'.repeat(100)}.co"`
}

const rows: Readonly<Record<string, Element>> = {
  'one column': i => `{"a":"x${i}"}`,
  'JSON in turns': i => i % 2 === 0 ? '{"j":[1]}' : '{"j":{"k":{"l":1}}}',
  'an unknown column': i => `{"c${i}":1}`,
  'keys and numbers': i => `{"id":${i},"b":1.10}`
}

export const namedParts: readonly NamedPart[] = [
  ...['list', 'limits', 'unique', 'pattern', 'words'].flatMap(batch =>
    Object.entries(elements).map(([name, element]) => ({ name, batch, make: list(element) }))),
  ...['insert', 'update-from'].flatMap(batch => Object.entries(rows).map(([name, row]) =>
    ({ name: `rows of ${name}`, batch, make: list(row) }))),
  { name: 'a number of digits', batch: 'number', make: n => `{"x":1${digits(n)}}` },
  { name: 'a number of an exponent', batch: 'number', make: n => `{"x":1e${digits(n)}}` },
  { name: 'members', batch: 'open', make: n => `{"x":{${times(n, i => `"b${i}":"x"`).join()}}}` },
  // An issue inside of a member with a long name.
  { name: 'an issue of a long key', batch: 'open', make: n => `{"x":{"${'k'.repeat(n)}":"x"}}` },
  { name: 'a long unknown parameter', batch: 'list', make: n => `{"${'x'.repeat(n)}":1}` }
]

/** Writes parameters of at most this many bytes; the later ones of a list may be longer. */
export function writeParameters ({ make }: NamedPart, bytes: number): string {
  let n = 64
  for (;;) {
    const size = Buffer.byteLength(make(n))
    const next = Math.max(1, Math.floor(n * Math.min(bytes / size, 64)))
    if (next === n || (size <= bytes && size > 0.9 * bytes)) return make(n)
    n = next
  }
}
