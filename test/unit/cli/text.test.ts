/**
 * Tests the pure parts of the command line: positions in JSON text, tables, terminal escapes.
 */
import fc from 'fast-check'
import t from 'tap'
import { renderTable } from '../../../src/cli/result.ts'
import { listOf, visible } from '../../../src/cli/terminal.ts'
import {
  childrenOf,
  findSyntaxError,
  membersOf,
  offsetOf,
  parseJsonText,
  positionOf,
  sourceOf,
  type JsonNode
} from '../../../src/json/json-text.ts'
import { propertyRuns } from '../../support/runs.ts'

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const space = fc.constantFrom('', ' ', '\n', '\t', '\r\n')
/** JSON texts with white space of all kinds. */
const json = fc.tuple(fc.json(), fc.array(space)).map(([text, spaces]) =>
  text.replace(
    /"(?:[^"\\]|\\.)*"|[{}[\],:]/g,
    (part, offset: number) => `${spaces[offset % 7] ?? ''}${part}${spaces[offset % 5] ?? ''}`
  )
)

t.test('a text is valid if and only if JSON.parse accepts it', async t => {
  const bits = fc.array(
    fc.constantFrom(
      '{', '}', '[', ']', ',', ':', '"', '"a"', '"\\u00e', '"\\x"', '1', '-', '0', '.5', 'e1',
      'true', 'nul', ' ', '\n', '\u00a0', '\u0001', 'null', '"b":1', '//', '/*', '*/'
    ),
    { maxLength: 12 }
  ).map(parts => parts.join(''))
  const cut = fc.tuple(
    json,
    fc.nat(),
    fc.nat({ max: 2 }),
    fc.constantFrom('', ',', '}', ']', '"', 'x', '0')
  ).map(([text, at, length, put]) => {
    const from = at % (text.length + 1)
    return text.slice(0, from) + put + text.slice(from + length)
  })
  const runs = propertyRuns(2000, 20_000)
  let valid = 0
  fc.assert(
    fc.property(fc.oneof(json, bits, cut), text => {
      const position = findSyntaxError(text)
      if (position === undefined) valid++
      return (position === undefined) === isJson(text) &&
        (position === undefined || (position >= 0 && position <= text.length))
    }),
    { numRuns: runs }
  )
  t.ok(valid > runs / 20 && valid < runs * 0.95, `${valid} of ${runs} are JSON`)
  const rows: ReadonlyArray<readonly [text: string, position: number]> = [
    ['', 0],
    ['{"a":1,}', 7],
    ['{"a" 1}', 5],
    ['["a\nb"]', 1],
    ['{"a":01}', 6],
    ['[[1], {}', 8],
    ['"a" {', 4]
  ]
  for (const [text, position] of rows) t.equal(findSyntaxError(text), position, text)
})

t.test('members and elements match JSON.parse and keep their source text', async t => {
  const read = (text: string, node: JsonNode): unknown => {
    if (node.type === 'array') return childrenOf(node).map(child => read(text, child))
    if (node.type !== 'object') return JSON.parse(sourceOf(text, node))
    return Object.fromEntries(membersOf(node).map(([key, value]) => [key, read(text, value)]))
  }
  fc.assert(
    fc.property(json, text => {
      const root = parseJsonText(text)
      return JSON.stringify(read(text, root as JsonNode)) === JSON.stringify(JSON.parse(text))
    }),
    { numRuns: propertyRuns(1000, 3000) }
  )
  const text = ' [ 1.0 ,{"a":[]}]'
  const elements = childrenOf(parseJsonText(text) as JsonNode)
  t.same(elements.map(element => sourceOf(text, element)), ['1.0', '{"a":[]}'])
  t.same(childrenOf(elements[0] as JsonNode), [], 'a scalar has no children')
})

t.test('lines and characters of a position count from 1', async t => {
  const text = '\n[{"😀": 1,\r\n  "a": [true, {"b": 2}]}]'
  const root = parseJsonText(text) as JsonNode
  const rows = [
    [[], 2, 1],
    [[0], 2, 2],
    [[0, '😀'], 2, 3],
    [[0, 'a'], 3, 3],
    [[0, 'a', 1], 3, 15],
    [[0, 'a', 1, 'b'], 3, 16],
    [[0, 'a', 1, 'c', 'd'], 3, 15],
    [[7], 2, 1],
    [[0, 'a', 0, 'x'], 3, 9]
  ] as const
  for (const [path, line, column] of rows) {
    t.same(positionOf(text, offsetOf(root, path)), { line, column }, JSON.stringify(path))
  }
  t.same(positionOf(text, 9), { line: 2, column: 8 }, 'an emoji is one character')
})

t.test('text nested too deeply for the parser has no positions', async t => {
  const deep = '['.repeat(100_000)
  for (const text of [deep, deep + ']'.repeat(100_000)]) {
    t.equal(parseJsonText(text), undefined)
    t.equal(findSyntaxError(text), undefined)
  }
})

t.test('a list of words ends with "or"', async t => {
  t.equal(listOf(['a', 'b', 'c']), 'a, b or c')
})

t.test('characters that a terminal interprets are escaped', async t => {
  t.equal(
    visible('a\u001b[31m\tb\r\n\u0085\u202e\u2066é'),
    'a\\u001b[31m\\tb\\r\\n\\u0085\\u202e\\u2066é'
  )
  t.equal(visible('a\nb\r', { lines: true }), 'a\nb\\r')
})

t.test('a table may have no rows, or rows with different columns', async t => {
  const row = (value: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
    new Map(Object.entries(value))
  t.equal(renderTable([]), '')
  t.equal(renderTable([row({}), row({})]), '')
  t.equal(
    renderTable([row({ a: '1', 'b\n': '""' }), row({ c: '"-Infinity"' })]),
    '   a    |  b\\n   |     c\n--------+--------+-----------\n      1 |        |    ' +
      '(null)\n (null) | (null) | -Infinity\n'
  )
})
