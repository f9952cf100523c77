/**
 * Tests the TypeScript of named batches: that of a whole batch, and the type of each kind of
 * parameter.
 */
import t from 'tap'
import { readLimits } from '../../../src/config/config.ts'
import { readNamedBatch } from '../../../src/named/read-files.ts'
import { writeTypes, type ColumnsOf } from '../../../src/named/write-types.ts'
import { batchLimits } from '../../../src/plan/check/read-batch.ts'
import * as op from '../../support/operations.ts'

const write = (name: string, content: object, columnsOf?: ColumnsOf): string => {
  const bytes = Buffer.from(JSON.stringify(content))
  const read = readNamedBatch(`${name}.json`, bytes, batchLimits(readLimits({})))
  if ('issues' in read) throw new Error(read.issues.join('\n'))
  return writeTypes([read.batch], columnsOf)
}
const select = { id: 's', op: 'select', table: 't' }

t.test('a batch has parameters and results', async t => {
  const text = write('take-job', {
    description: 'Takes a job.\nSee */ docs.',
    params: {
      type: 'object',
      properties: { id: { type: 'integer', description: 'the job' }, 'a b': { type: 'string' } },
      required: ['id']
    },
    operations: [
      { ...select, expect: 1 },
      { ...select, id: 'rows', expect: { min: 1 } },
      { ...select, id: 'some', when: { s: 1 } },
      { ...select, id: 'n', answer: 'count', when: { s: 1 } }
    ]
  })
  t.equal(text, `/** The named batches of a folder, written by \`oneflight types\`. */
export interface Batches {
  /** Takes a job. See *\\/ docs. */
  "take-job": {
    params: {
      /** the job */
      id: number | bigint
      "a b"?: string
    }
    result: {
      s: [Row]
      rows: Row[]
      some: Row[] | null
      n: number | null
    }
  }
}

/** A row: its columns are not checked. */
export interface Row {
  [column: string]: unknown
}
`)
})

t.test('rows have the types of columns that are known', async t => {
  const columns = new Map([['id', 'bigint'], ['note', 'string | null']])
  const count = { fn: 'count' }
  const text = write('rows', {
    operations: [
      { ...select, expect: 1 },
      {
        ...select,
        id: 'some',
        columns: ['note', count, 'gone', 'note->>a', { column: 'id', cast: 'text' }]
      },
      {
        ...select,
        id: 'all',
        columns: ['*', { ...count, column: 'id', as: 'n' }],
        group_by: ['id', 'note']
      },
      { ...select, id: 'other', table: 'u' },
      op.insert('new', 't', [{}], {
        returning: ['id', { fn: 'inserted' }], on_conflict: { columns: ['id'], do: 'nothing' }
      }),
      { id: 'silent', op: 'insert', table: 't', values: [{}], returning: [] },
      { id: 'called', op: 'call', function: 't' },
      {
        ...select,
        id: 'nested',
        columns: ['id'],
        with: {
          many: { table: 't', on: { id: 'id' }, columns: ['note'] },
          one: { table: 'u', on: { id: 'id' }, one: true }
        }
      }
    ]
  }, ({ name }) => name === 't' ? columns : undefined)
  const shown = text.slice(text.indexOf('result: '), text.indexOf('/** A row')).replaceAll(/\s+/g, ' ')
  t.equal(shown, 'result: { ' + [
    's: [{ id: bigint note: string | null }]',
    'some: { note: string | null count: bigint gone: unknown a: unknown id: unknown }[]',
    'all: { id: bigint note: string | null n: bigint }[]',
    'other: Row[]',
    'new: { id: bigint inserted: boolean }[]',
    'silent: Row[]',
    'called: Row[]',
    'nested: { id: bigint many: { note: string | null }[] one: Row | null }[]'
  ].join(' ') + ' } } } ')
})

t.test('a batch without parameters takes an empty object', async t => {
  for (const content of [{}, { params: { type: 'object' } }]) {
    t.match(write('a', { ...content, operations: [select] }), 'params: Record<string, never>\n')
  }
})

t.test('each schema has a type', async t => {
  const definitions = { sku: { type: 'string', maxLength: 9 } }
  const rows: ReadonlyArray<readonly [schema: unknown, type: string]> = [
    [true, 'unknown'],
    [{ type: 'string' }, 'string'],
    [{ type: 'integer' }, 'number | bigint'],
    [{ type: ['string', 'null'] }, 'string | null'],
    [{ enum: ['a', 1, null] }, '"a" | 1 | null'],
    [{ type: 'string', enum: ['a', 'b'] }, '"a" | "b"'],
    [{ enum: [{}, 'a'] }, 'unknown'],
    [{ const: 'x' }, '"x"'],
    [{ const: [1] }, 'unknown'],
    [{ type: 'array' }, 'ReadonlyArray<unknown>'],
    [{ type: 'array', items: { type: ['string', 'null'] } }, 'ReadonlyArray<string | null>'],
    [{ type: 'array', prefixItems: [{ type: 'string' }] }, 'ReadonlyArray<unknown>'],
    [{ type: 'object' }, '{ [name: string]: unknown }'],
    [{ type: 'object', additionalProperties: { type: 'string' } }, '{ [name: string]: string }'],
    [{ type: 'object', patternProperties: { '^a': { type: 'string' } } },
      '{ [name: string]: unknown }'],
    [{ type: 'object', additionalProperties: false }, 'Record<string, never>'],
    [{ type: 'object', properties: { a: { type: 'string' } }, required: ['a', 'b'] },
      '{ a: string b: unknown }'],
    [{ type: 'object', properties: { a: true }, additionalProperties: true },
      '{ a?: unknown [name: string]: unknown }'],
    [{ anyOf: [{ type: 'string' }, { type: 'boolean' }] }, 'string | boolean'],
    [{ oneOf: [{ type: 'string' }, { type: 'string' }] }, 'string'],
    [{ anyOf: [{ type: 'string' }, {}] }, 'unknown'],
    [{ type: 'integer', anyOf: [{ const: 1 }, { const: 2 }] }, '(1 | 2) & (number | bigint)'],
    [{ type: 'object', properties: { a: true, b: true }, anyOf: [{ required: ['a'] }] },
      '{ a?: unknown b?: unknown }'],
    [{ allOf: [{ type: 'string' }, { $ref: '#/$defs/sku' }] }, 'string'],
    [{ allOf: [{ type: 'string' }, { type: 'boolean' }] }, 'string & boolean'],
    [{ $ref: '#/$defs/sku' }, 'string']
  ]
  for (const [schema, type] of rows) {
    const text = write('a', {
      params: { type: 'object', properties: { x: schema }, required: ['x'], $defs: definitions },
      operations: [select]
    })
    const [, found] = /\n {6}x: ([^]*?)\n {4}\}\n {4}result/.exec(text) ?? []
    t.equal(found?.replaceAll(/\s+/g, ' '), type, JSON.stringify(schema))
  }
})
