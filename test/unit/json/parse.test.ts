/** Tests the JSON parser: every value is kept exactly; a body that would lose data is rejected. */
import fc from 'fast-check'
import t from 'tap'
import { Failure } from '../../../src/errors/catalogue.ts'
import { isNumber, isObject, parseJson, type Json } from '../../../src/json/parse.ts'
import { findDuplicate } from '../../../src/json/try-parse.ts'

const parse = (text: string | Buffer): Json => parseJson(Buffer.from(text as string))

function resultOf (body: string | Buffer): string {
  try {
    parse(body)
    return 'accepted'
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return `${error.code}: ${error.message}`
  }
}

/** JSON text without the white space between its tokens. */
function compact (text: string): string {
  return text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
}

/**
 * Escapes a text for use as an assertion message. TAP is parsed by lines, and U+2028 would end one.
 */
function name (body: string | Buffer): string {
  return encodeURI(body.toString().toWellFormed())
}

t.test('a parsed value serialises to the same text, apart from spaces and escapes', async t => {
  const rows = [
    'null', 'true', '0', '""', '[]', '{}', ' [ 1 , 2 ] ',
    // numbers: digit for digit
    '-0', '-0.0', '0.0', '1.10', '10.00', '1e2', '1E2', '1e+2', '1E-7', '1e400', '-1e400', '1e-400',
    '5e-324', '9007199254740993', '123456789012345', '1234567890123456', '-9223372036854775808',
    '18446744073709551616', '1234567890123456789012345678901234567890',
    '0.1234567890123456789012345678901234567890', '[-0,[-0,{"a":-0}]]',
    // numbers near the limits of isPlain in src/json/scan.ts
    '0.5', '-0.5', '-5', '0.000001', '0.0000001', '0.1234567', '12.345670', '123456789.12345',
    '1234567890.12345', '1234567890.123456', '99999999999999.9', '999999999999999',
    '9999999999999999', '{"a":[1.10,{"b":9007199254740993}]}',
    // keys with a special meaning in JavaScript
    '{"__proto__":1}', '{"__proto__":{"__proto__":1.10}}', '{"":0}', '{"rawJSON":1.10}',
    '{"constructor":1,"toString":2,"hasOwnProperty":3,"rawJSON":"1"}',
    // text: every plane, combining characters, right-to-left, noncharacters
    '"ä€😀"', '"שלום"', '"e\u0301"', '"\u200f\u202e"', '"\uffff\ufffe"', '"\u2028\u2029"',
    '"\ufeff in the middle"', '"\u007f"', '"e1 E2 -0 1.5 12345678901234567890"', '"{}[]:,"',
    '"true e"'
  ]
  for (const text of rows) t.equal(JSON.stringify(parse(text)), compact(text), name(text))
  t.equal(parse('"\\u00e4\\ud83d\\ude00\\/\\n"'), 'ä😀/\n', 'escapes')
  t.same(parse('{"1":"a","0":"b"}'), { 0: 'b', 1: 'a' })
})

t.test('a body that cannot be stored exactly is rejected', async t => {
  const zero =
    'body_invalid: The body contains the character U+0000, which PostgreSQL cannot store.'
  const lone = 'body_invalid: The body contains a lone surrogate, which is not a valid character.'
  const utf8 = 'body_invalid: The body is not valid UTF-8.'
  const bom = 'body_invalid: The body must not begin with a byte order mark.'
  const twice = (key: string): string =>
    `body_invalid: The body has an object with the duplicate key ${key}.`
  const syntax = 'body_invalid: The body is not valid JSON'
  const at = (column: number, line = 1): string =>
    `${syntax}: unexpected character at line ${line}, column ${column}.`
  const end = (column: number): string =>
    `${syntax}: unexpected end at line 1, column ${column}.`
  const rows: ReadonlyArray<readonly [body: string | Buffer, expected: string]> = [
    ['\ufeff[]', bom],
    [Buffer.from([0xff, 0xfe, 0x5b, 0, 0x5d, 0]), utf8],
    [Buffer.from([0x22, 0xc0, 0x80, 0x22]), utf8],
    [Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), utf8],
    [Buffer.from([0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]), utf8],
    [Buffer.from([0x22, 0xe2, 0x82, 0x22]), utf8],
    ['"\\u0000"', zero],
    ['"\\ud800"', lone],
    ['{"\\ud83d":1}', lone],
    ['{"a":1,"a":1}', twice('"a"')],
    ['{"a":1,"\\u0061":2}', twice('"\\u0061"')],
    ['{"__proto__":1,"__proto__":2}', twice('"__proto__"')],
    ['[{"a":{"b":1}},{"b":[{"c":1,"d":"c:","c" : 2}]}]', twice('"c"')],
    ['{"":1,"":2}', twice('""')],
    ['{"a\\"":1,"a\\"":2}', twice('"a\\""')],
    ['[1,]', at(4)],
    ['{"a":1,}', at(8)],
    ['[1 2]', at(4)],
    ['[1.50, 01.50]', at(9)],
    ['[1.50,1e]', at(9)],
    ['["a"1.50]', at(5)],
    ['{1.50:1}', at(2)],
    ['["ä",{"b":1.50,1.50:2}]', at(16)],
    ['["😀",x]', at(6)],
    ['[1,\n  x]', at(3, 2)],
    ['["a\nb"]', at(4)],
    ["{'a':1}", at(2)],
    ['', end(1)],
    ['[', end(2)],
    ['nul', at(1)],
    ['NaN', at(1)],
    ['x in JSON at position 42', at(1)],
    ['\0', at(1)],
    [`${'['.repeat(100_000)}x`, 'body_invalid: The body is not valid JSON.']
  ]
  for (const [body, expected] of rows) t.equal(resultOf(body), expected, name(body))
})

t.test('numbers are exact in texts beyond ASCII and at every depth', async t => {
  const deep = `${'['.repeat(200)}1e400${']'.repeat(200)}`
  const text = `{"ä":1.10,"b":["😀",-0,${deep},{"ä€":2.50}],"c":0.0}`
  t.equal(JSON.stringify(parse(text)), text)
})

t.test('an error message does not repeat the body', async t => {
  t.notMatch(resultOf('[{"password": hunter2}]'), 'hunter2')
})

t.test('deep nesting does not overflow the stack', async t => {
  for (const depth of [99, 100, 101, 500_000]) {
    t.ok(Array.isArray(parse('['.repeat(depth) + ']'.repeat(depth))), `${depth} arrays`)
    t.ok(isObject(parse('{"a":'.repeat(depth) + '1.10' + '}'.repeat(depth))), `${depth} objects`)
  }
  t.match(
    resultOf('{"a":'.repeat(500_000) + '{"b":1,"b":2}' + '}'.repeat(500_000)),
    'the duplicate key "b"'
  )
})

t.test('isNumber and isObject recognise numbers and objects', async t => {
  t.equal(isNumber(parse('1.10')), true)
  t.equal(isNumber(parse('1')), true)
  t.equal(isNumber(parse('{"rawJSON":"1"}')), false)
  t.equal(isObject(parse('1.10')), false)
  t.equal(isObject(parse('{"rawJSON":"1"}')), true)
  t.equal(isObject(parse('[]')), false)
  t.equal(isObject(parse('null')), false)
  t.equal(isObject(undefined), false)
})

t.test('a text without duplicate keys yields undefined', async t => {
  t.equal(findDuplicate('{"a":{"a":1},"b":"a"}'), undefined)
})

/** JSON texts with numbers, keys and white space that JSON.parse does not preserve. */
const jsonText = fc.letrec<{ value: string }>(tie => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('null', 'true', 'false'),
    fc.tuple(
      fc.constantFrom('', '-'),
      fc.oneof(fc.nat().map(String), fc.bigInt({ min: 0n, max: 10n ** 40n }).map(String)),
      fc.constantFrom('', '.0', '.10', '.00000000000000000001'),
      fc.constantFrom('', 'e5', 'E-3', 'e+400')
    )
      .map(parts => parts.join('')),
    fc.string({ unit: 'grapheme' }).filter(text => !text.includes('\0')).map(text =>
      JSON.stringify(text)
    ),
    fc.array(tie('value'), { maxLength: 4 }).map(items => `[ ${items.join('\n,\t')}]`),
    fc.uniqueArray(
      fc.tuple(
        fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('__proto__', 'constructor', 'a')),
        tie('value')
      ),
      { maxLength: 4, selector: ([key]) => key }
    )
      .filter(members => members.every(([key]) => !key.includes('\0') && !/^\d+$/.test(key)))
      .map(members =>
        `{ ${members.map(([key, value]) => `${JSON.stringify(key)} : ${value}`).join(' , ')}\r\n}`
      )
  )
})).value

t.test('property: every JSON text is preserved', async t => {
  fc.assert(fc.property(jsonText, text => JSON.stringify(parse(text)) === compact(text)), {
    numRuns: 1000
  })
  t.pass()
})

t.test('property: bytes that JSON.parse rejects are rejected as body_invalid', async t => {
  const almost = fc.tuple(
    jsonText,
    fc.nat(),
    fc.constantFrom('', ',', '"', '\\', '}', '0', '-', 'e')
  ).map(([text, at, junk]) => {
    const index = at % (text.length + 1)
    return Buffer.from(text.slice(0, index) + junk + text.slice(index + (junk === '' ? 1 : 0)))
  })
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array().map(bytes => Buffer.from(bytes)), almost), bytes => {
      const result = resultOf(bytes)
      if (result !== 'accepted') return result.startsWith('body_invalid: ')
      JSON.parse(bytes.toString())
      return true
    }),
    { numRuns: 1000 }
  )
  t.pass()
})

t.test('a duplicate key after a long string is found', async t => {
  const long = 'x'.repeat(20_000_000)
  t.throws(() => parseJson(Buffer.from(`{"a":"${long}\\n","b":1,"b":2}`)), {
    code: 'body_invalid',
    message: /the duplicate key "b"/
  })
})
