/**
 * Tests that the regular expressions of schemas match the same texts as in JavaScript, in linear
 * time.
 */
import fc from 'fast-check'
import t from 'tap'
import { compilePattern } from '../../../src/named/pattern.ts'
import { growthOf } from '../../support/growth.ts'
import { propertyRuns } from '../../support/runs.ts'

/** White space, ends of lines, their neighbours, and others. */
const character = fc.constantFrom(...[
  ...'\t\v\f\r\n \u00a0\u1680\u2000\u200a\u200b\u2028\u2029\u202a\u202f\u205f\u3000\ufeff',
  ...'\0\b\x0e\x1f!\x9f\xa1\u167f\u1fff\u2027\u202e\u2030\u2060\u2fff\u3001\ufefe\uff00',
  ...'ab1_-.]s\\é😀\u{10ffff}'
])
const text = fc.array(character, { maxLength: 6 }).map(all => all.join(''))

const item = fc.constantFrom(
  ...['a', '1', '.', '\\s', '\\S', '\\d', '\\w', '\\W', '\\.', '\\\\', '\\]', '\\u00e9', '\\/'],
  ...['\\u{1F600}', '\\p{L}', '\\x41', '(?:\\0)', '\\cA', '[.]', '[a-b\\s]', '[^\\s]', '[\\S1]'],
  ...['[^\\S\\n]', '[\\]s.]', '[[.]', '[(?s:]', '[^]']
)
const repeated = fc.oneof(
  fc.constantFrom('^', '$', '\\b'),
  fc.tuple(item, fc.constantFrom('', '', '*', '+?', '?', '{1,3}')).map(all => all.join(''))
)
const { pattern } = fc.letrec<{ pattern: string }>(tie => ({
  pattern: fc.oneof(
    { maxDepth: 3 },
    fc.array(repeated, { maxLength: 4 }).map(all => all.join('')),
    fc.tuple(tie('pattern'), tie('pattern')).map(([a, b]) => `(?:${a}|${b})`),
    fc.tuple(tie('pattern'), repeated).map(([a, b]) => `(${a})${b}`),
    fc.tuple(tie('pattern'), repeated).map(([a, b]) => `(?<x>${a})*${b}`)
  )
}))

t.test('patterns match the texts that they match in JavaScript', async () => {
  const texts = fc.array(text, { minLength: 10, maxLength: 10 })
  fc.assert(fc.property(pattern, texts, (source, texts) => {
    if (source.split('(?<x>').length > 2) return true
    const compiled = compilePattern(source)
    const native = new RegExp(source, 'u')
    return texts.every(text => compiled.test(text) === native.test(text))
  }), { numRuns: propertyRuns(1500, 5000) })
})

t.test('a pattern that JavaScript or RE2 does not have is an error', async t => {
  for (const pattern of ['(', '[', 'a**', '\\A', '[[:alpha:]]', '(?P<a>b)']) {
    t.throws(() => compilePattern(pattern), { message: /^Invalid regular expression: / }, pattern)
  }
  for (const pattern of ['(?=a)', '(?<!a)b', '(a)\\1', 'a{1001}', '\\p{Script=Greek}']) {
    const message = /^RE2 does not support the regular expression: .+: .+/
    t.throws(() => compilePattern(pattern), { message }, pattern)
  }
  for (const pattern of ['(?i:a)', '(?s-m:.)']) {
    t.throws(() => compilePattern(pattern), { message: /^A group with modifiers is not / }, pattern)
  }
})

t.test('the time grows in proportion to the text', async t => {
  const cases: ReadonlyArray<readonly [pattern: string, part: string, end: string]> = [
    ['^(a+)+$', 'a', '!'],
    ['^(\\w+\\s?)*$', 'a', '!'],
    ['\\s+$', ' ', 'x'],
    ['^\\s*\\s*$', ' ', 'x'],
    ['(?:a|b)*c', 'ab', ''],
    ['^.*[A-Z].*$', 'A', '\n'],
    ['^(?:a?){30}a{30}$', 'a', '']
  ]
  for (const [pattern, part, end] of cases) {
    const growth = growthOf(20_000, size => {
      const compiled = compilePattern(pattern)
      const text = part.repeat(size) + end
      return () => compiled.test(text)
    })
    t.ok(growth < 12, `${pattern}: ${growth}`)
  }
})
