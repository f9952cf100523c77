/**
 * The pure parts of the command line: where a text stops being JSON, where a part of it stands, how
 * wide a line is, and what a terminal must not see.
 */
import fc from 'fast-check'
import { PassThrough } from 'node:stream'
import { createInterface } from 'node:readline'
import t from 'tap'
import { createLocator, indentJson, readParts } from '../../../src/json/source.ts'
import { findSyntaxFault } from '../../../src/json/syntax.ts'
import { renderTable } from '../../../src/cli/table.ts'
import { visible, widthOf } from '../../../src/cli/text.ts'
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

t.test('a text is JSON for it when it is for JSON.parse', async t => {
  const bits = fc.array(
    fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '"a"',
      '"\\u00e',
      '"\\x"',
      '1',
      '-',
      '0',
      '.5',
      'e1',
      'true',
      'nul',
      ' ',
      '\n',
      '\u00a0',
      '\u0001',
      'null',
      '"b":1'
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
  const runs = propertyRuns(4000, 20_000)
  let good = 0
  fc.assert(
    fc.property(fc.oneof(json, bits, cut), text => {
      const fault = findSyntaxFault(text)
      if (fault === undefined) good++
      return (fault === undefined) === isJson(text) &&
        (fault === undefined || (fault >= 0 && fault <= text.length))
    }),
    { numRuns: runs }
  )
  t.ok(good > runs / 20 && good < runs * 0.95, `${good} of ${runs} are JSON`)
  const rows: ReadonlyArray<readonly [text: string, fault: number]> = [
    ['', 0],
    ['  ', 2],
    ['[1,]', 3],
    ['[1 2]', 3],
    ['{"a":1,}', 7],
    ['{"a" 1}', 5],
    ['{a:1}', 1],
    ['[1}', 2],
    ['{]', 1],
    ['[}', 1],
    ['1 1', 2],
    ['1,', 1],
    ['[:', 1],
    ['["a\nb"]', 1],
    ['{"a":01}', 5],
    ['[1', 2],
    ['nullx', 0],
    ['[[1], {}', 8],
    ['{"a":{', 6],
    ['"a" {', 4]
  ]
  for (const [text, fault] of rows) t.equal(findSyntaxFault(text), fault, text)
})

t.test('parts of a text are those that JSON.parse finds', async t => {
  fc.assert(
    fc.property(json, text => {
      const from = text.search(/\S/)
      const value = JSON.parse(text) as unknown
      const parts = readParts(text, from)
      const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
      const found = Object.fromEntries(
        parts.map(({ key, from, to }) => [key, JSON.parse(text.slice(from, to))])
      )
      return JSON.stringify(Object.entries(found)) === JSON.stringify(entries)
    }),
    { numRuns: propertyRuns(1000, 3000) }
  )
  fc.assert(
    fc.property(
      json,
      text => JSON.stringify(JSON.parse(indentJson(text))) === JSON.stringify(JSON.parse(text))
    ),
    { numRuns: propertyRuns(1000, 3000) }
  )
  t.same(
    readParts(' [ 1.0 ,{"a":[]}]', 1).map(({ key, start, from, to }) => [key, start, from, to]),
    [[0, 3, 3, 6], [1, 8, 8, 16]]
  )
  t.equal(indentJson('{"a":[ ],"b" : {"c":1.0}}'), '{\n  "a": [],\n  "b": {\n    "c": 1.0\n  }\n}')
})

t.test('places: lines and characters from 1', async t => {
  const { locate, placeOf } = createLocator('\n[{"😀": 1,\r\n  "a": [true, {"b": 2}]}]')
  const rows: ReadonlyArray<
    readonly [path: ReadonlyArray<string | number>, line: number, column: number]
  > = [
    [[], 2, 1],
    [[0], 2, 2],
    [[0, '😀'], 2, 3],
    [[0, 'a'], 3, 3],
    [[0, 'a', 1], 3, 15],
    [[0, 'a', 1, 'b'], 3, 16],
    [[0, 'a', 1, 'c', 'd'], 3, 15],
    [[7], 2, 1],
    [[0, 'a', 0, 'x'], 3, 9]
  ]
  for (const [path, line, column] of rows) {
    t.same(locate(path), { line, column }, JSON.stringify(path))
  }
  t.same(placeOf(9), { line: 2, column: 8 }, 'an emoji is one character')
})

t.test('the width of a line is that on a terminal', async t => {
  const rows: ReadonlyArray<readonly [text: string, width: number]> = [
    ['', 0],
    ['abc', 3],
    ['é', 1],
    ['e\u0301', 1],
    ['日本語', 6],
    ['ｱ', 1],
    ['한글', 4],
    ['ＡＢ', 4],
    ['。', 2],
    ['🍎', 2],
    ['👩‍👩‍👧', 2],
    ['❤️', 2],
    ['❤', 1],
    ['🇩🇪', 2],
    ['a\u200bb', 2],
    ['─', 1],
    ['ü ß', 3]
  ]
  for (const [text, width] of rows) t.equal(widthOf(text), width, text)
  // Node measures for its own prompt, by the tables of ICU.
  const prompt = createInterface({ input: new PassThrough() })
  const byNode = (text: string): number => {
    prompt.setPrompt(text)
    return prompt.getCursorPos().cols + prompt.getCursorPos().rows
  }
  const letters = fc.stringMatching(
    /^[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Han}\p{Script=Hiragana}\p{Lu}]{0,20}$/u
  )
  fc.assert(
    fc.property(letters, text => widthOf(text.normalize('NFC')) === byNode(text.normalize('NFC'))),
    { numRuns: 2000 }
  )
  prompt.close()
})

t.test('what a terminal would obey is shown', async t => {
  t.equal(
    visible('a\u001b[31m\tb\r\n\u0085\u202e\u2066é'),
    'a\\u001b[31m\\tb\\r\\n\\u0085\\u202e\\u2066é'
  )
  t.equal(visible('a\nb\r', { lines: true }), 'a\nb\\r')
})

t.test('tables of rows that differ, and of none', async t => {
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
