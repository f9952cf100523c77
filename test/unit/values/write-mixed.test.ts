/**
 * Tests the JSON that is written for values with references in them, by type.
 */
import t from 'tap'
import type { CompositeType, RangeType, Type } from '../../../src/catalogue/type.ts'
import { isNested, type Json } from '../../../src/json/parse.ts'
import { writeMixed } from '../../../src/values/write-mixed.ts'
import { builtIn } from '../../support/built-in-types.ts'

const [int, ints, texts, documents, span, spans, point, json] =
  [23, 1007, 1009, 3807, 3904, 4451, 600, 114].map(oid => builtIn(oid)) as
    [Type, Type, Type, Type, Type, Type, Type, Type]
const pair: CompositeType = {
  kind: 'composite',
  oid: 20_000,
  name: 'pair',
  sql: undefined,
  relation: 20_000,
  attributes: new Map([['n', int], ['list', texts]])
}

/** What the strings that stand for references give. */
const references = { $one: 'value', $list: 'list', $any: 'any' } as const

/** Writes a value. The result is the JSON, or what is refused: problems with their paths. */
function mix (value: Json, type: Type): Json {
  const problems: string[] = []
  const written = writeMixed(value, type, {
    refers: part => JSON.stringify(part).includes('"$'),
    meet: text => references[text as keyof typeof references],
    meetRange: bounds => bounds.some(bound => isNested(bound)) ? undefined : { bounds },
    report: ({ problem, path }) => problems.push([problem, ...path].join(' '))
  })
  return problems.length === 0 ? written : problems.join(', ')
}

t.test('references stay where they are, and other parts are written', async t => {
  const cases: ReadonlyArray<readonly [type: Type, value: Json, written: Json]> = [
    [int, '$one', '$one'],
    [ints, ['$one', 2, '3', null], ['$one', 2, '3', null]],
    [ints, [[1, '$one'], [2, 3]], [[1, '$one'], [2, 3]]],
    [ints, ['$list', [2, 3], '$any'], ['$list', [2, 3], '$any']],
    [ints, [[[1], ['$any']], '$list'], [[[1], ['$any']], '$list']],
    [texts, [['a'], ['$one']], [['a'], ['$one']]],
    [documents, ['$any', [1], { a: '$any' }], ['$any', [1], { a: '$any' }]],
    [pair, { n: '$one', list: ['a'] }, { n: '$one', list: '{"a"}' }],
    [pair, { list: ['a', '$one'] }, { list: ['a', '$one'] }],
    [span, ['$one', 2], { bounds: ['$one', 2] }],
    ...[point, json].map(type => [type, ['$one', 2], ['$one', 2]] as const)
  ]
  for (const [type, value, written] of cases) {
    t.strictSame(mix(value, type), written, `${type.name} ${JSON.stringify(value)}`)
  }
})

t.test('a part that does not fit its type is refused', async t => {
  const cases: ReadonlyArray<readonly [type: Type, value: Json, problems: string]> = [
    [int, ['$one'], 'list'],
    [ints, { a: '$one' }, 'array'],
    [ints, ['$one', 1.5], 'digits 1'],
    [ints, ['$one', [1]], 'list 1'],
    [ints, ['$one', '$list'], 'ragged 1'],
    [ints, ['$one', ['$one']], 'list 1'],
    [ints, ['$list', 1], 'ragged 1'],
    [ints, [[1], '$one', null, []], 'ragged 1, ragged 2, empty 3'],
    [ints, [[1, '$one'], [2]], 'ragged 1'],
    [pair, ['$one'], 'object'],
    [pair, { n: '$one', x: 1 }, 'member x'],
    [pair, { list: { a: '$one' } }, 'array list'],
    [span, ['$one', 2.5], 'digits 1'],
    [span, ['$one', ['$one']], 'list 1'],
    ...[['$one'], ['$one', null], { a: '$one' }].map(value => [span, value, 'bounds'] as const),
    [{ ...span as RangeType, subtype: json }, ['$one', { a: '$one' }], 'bounds'],
    [spans, [['$one', 2]], 'bounds']
  ]
  for (const [type, value, problems] of cases) {
    t.strictSame(mix(value, type), problems, `${type.name} ${JSON.stringify(value)}`)
  }
})
