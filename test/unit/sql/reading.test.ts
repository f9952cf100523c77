/**
 * Tests how the value of an earlier operation is read, by the types of both ends.
 */
import t from 'tap'
import { readTypes, type TypeRow } from '../../../src/catalogue/read-types.ts'
import type { Type } from '../../../src/catalogue/type.ts'
import { isScalarType, readingOf } from '../../../src/sql/values/reading.ts'
import { builtIn } from '../../support/built-in-types.ts'

const rows: readonly TypeRow[] = [
  [20_000, 'c', 's', 'price', 'C', 0, -1, ',', [['amount', 1700, -1]], 20_000],
  [20_001, 'c', 's', 'cost', 'C', 0, -1, ',', [['amount', 1700, -1]], 20_001],
  [20_002, 'b', 's', '_price', 'A', 20_000, -1, ',', null, 0],
  [20_003, 'b', 's', '_cost', 'A', 20_001, -1, ',', null, 0],
  [20_004, 'e', 's', 'mood', 'E', 0, -1, ',', null, 0],
  [20_005, 'b', 's', 'isbn', 'N', 0, -1, ',', null, 0],
  [20_006, 'b', 's', 'vector', 'U', 0, -1, ',', null, 0],
  [20_007, 'd', 's', 'paid', 'C', 20_000, -1, ',', null, 0]
]
const find = readTypes(rows, 's')
const builtInOids = {
  int: 23,
  text: 25,
  jsonb: 3802,
  'int[]': 1007,
  'text[]': 1009,
  'json[]': 199,
  'jsonb[]': 3807,
  span: 3904,
  spans: 4451,
  point: 600
}
const types = new Map<string, Type | undefined>([
  ['not known', undefined],
  // One of more types than are read.
  ['further', find(20_008, -1)],
  ['even further', find(20_009, -1)],
  ...rows.map(([oid, , , name]) => [name.replace(/^_(.*)/, '$1[]'), find(oid, -1)] as const),
  ...Object.entries(builtInOids).map(([name, oid]) => [name, builtIn(oid)] as const)
])

t.test('the JSON of a scalar type is one value', async t => {
  for (const [name, expected] of [['mood', true], ['span', true], ['price', false]] as const) {
    t.equal(isScalarType(types.get(name) as Type), expected, name)
  }
})

t.test('values are read as exactly as both types allow', async t => {
  const cases: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    int: { text: 'scalar', mood: 'scalar', span: 'scalar', 'int[]': 'scalar', price: 'scalar' },
    mood: { text: 'scalar', mood: 'scalar' },
    span: { span: 'scalar', text: 'scalar' },
    isbn: { isbn: 'text', text: 'checked', vector: 'json', 'text[]': 'checked' },
    further: { further: 'text', 'even further': 'checked', span: 'json', text: 'checked' },
    'not known': { int: 'checked', 'int[]': 'checked', price: 'checked', span: 'json' },
    jsonb: { int: 'checked', spans: 'json', point: 'json', mood: 'checked' },
    'int[]': {
      'int[]': 'text',
      'text[]': 'text',
      'jsonb[]': 'json',
      'price[]': 'text',
      span: 'json',
      vector: 'json',
      int: 'list',
      mood: 'list',
      price: 'other',
      further: 'other'
    },
    'jsonb[]': { 'json[]': 'text', 'int[]': 'checked' },
    price: { paid: 'text', cost: 'other', 'int[]': 'other', span: 'other', text: 'list' },
    paid: { price: 'text', mood: 'list' },
    'price[]': { 'price[]': 'text', 'cost[]': 'other', 'text[]': 'list', 'json[]': 'json' }
  }
  for (const [source, targets] of Object.entries(cases)) {
    for (const [target, expected] of Object.entries(targets)) {
      const reading = readingOf(types.get(source), types.get(target) as Type)
      const name = `${source} in ${target}`
      t.equal(reading.as === 'refused' ? reading.problem : reading.as, expected, name)
    }
  }
})
