/**
 * Tests the texts that are written for values of JSON, by a table of types and values, and how fast
 * many plain values are checked.
 */
import t from 'tap'
import { readTypes, type TypeRow } from '../../../src/catalogue/read-types.ts'
import { nameOf, type Type } from '../../../src/catalogue/type.ts'
import { parseJson, type Json } from '../../../src/json/parse.ts'
import { describeIssue } from '../../../src/values/describe.ts'
import type { WriteIssue } from '../../../src/values/issue.ts'
import {
  differenceType,
  isIssue,
  isPlain,
  write,
  writeMember
} from '../../../src/values/write.ts'
import { builtInRows } from '../../support/built-in-types.ts'

const numeric = (precision: number, scale: number): number =>
  ((precision << 16) | (scale & 0x7ff)) + 4
const interval = (fields: number, precision = 0xffff): number => (fields << 16) | precision

const rows: readonly TypeRow[] = [
  [20_000, 'c', 's', 'price', 'C', 0, -1, ',',
    [['amount', 1700, numeric(10, 2)], ['curr', 1042, 7], ['tags', 1009, -1]], 20_000],
  [20_001, 'b', 's', '_price', 'A', 20_000, -1, ',', null, 0],
  [20_002, 'e', 's', 'mood', 'E', 0, -1, ',', null, 0],
  [20_003, 'd', 's', 'cents', 'N', 1700, numeric(10, 2), ',', null, 0],
  [20_004, 'd', 'other', 'centses', 'A', 20_005, -1, ',', null, 0],
  [20_005, 'b', 's', '_cents', 'A', 20_003, -1, ',', null, 0],
  [20_006, 'b', 's', 'hstore', 'U', 0, -1, ',', null, 0],
  [20_007, 'b', 's', 'vector', 'U', 0, -1, ',', null, 0],
  [20_008, 'r', 's', 'centrange', 'R', 20_003, -1, ',', null, 0],
  [20_009, 'm', 's', 'centranges', 'R', 20_003, -1, ',', null, 0],
  [20_010, 'c', 's', 'node', 'C', 0, -1, ',',
    [['id', 23, -1], ['parents', 20_011, -1]], 20_010],
  [20_011, 'b', 's', '_node', 'A', 20_010, -1, ',', null, 0],
  [20_012, 'c', 's', 'wide', 'C', 0, -1, ',',
    Array.from({ length: 201 }, (_, i) => [`a${i}`, 23, -1] as const), 20_012],
  [20_014, 'c', 's', 'nothing', 'C', 0, -1, ',', null, 20_014],
  [20_015, 'b', 's', 'citext', 'S', 0, -1, ',', null, 0],
  [20_016, 'p', 's', 'record', 'P', 0, -1, ',', null, 0],
  [20_017, 'b', 's', '_mood', 'A', 20_002, -1, ',', null, 0]
]

const find = readTypes([...rows, ...builtInRows], 's')
const types = {
  bool: find(16, -1),
  int2: find(21, -1),
  int4: find(23, -1),
  'int4[]': find(1007, -1),
  text: find(25, -1),
  'text[]': find(1009, -1),
  json: find(114, -1),
  jsonb: find(3802, -1),
  'jsonb[]': find(3807, -1),
  float8: find(701, -1),
  numeric: find(1700, -1),
  'numeric(10,2)': find(1700, numeric(10, 2)),
  'numeric(10,2)[]': find(1231, numeric(10, 2)),
  'numeric(3)': find(1700, numeric(3, 0)),
  'numeric(3,-2)': find(1700, numeric(3, -2)),
  money: find(790, -1),
  'money[]': find(791, -1),
  'varchar(3)': find(1043, 7),
  'char(3)': find(1042, 7),
  'varchar(3)[]': find(1015, 7),
  name: find(19, -1),
  char: find(18, -1),
  date: find(1082, -1),
  time: find(1083, -1),
  'timetz(0)': find(1266, 0),
  timestamp: find(1114, -1),
  'timestamp(0)': find(1114, 0),
  timestamptz: find(1184, -1),
  'timestamptz(3)': find(1184, 3),
  interval: find(1186, -1),
  'interval(1)': find(1186, interval(0x7fff, 1)),
  'interval year': find(1186, interval(1 << 2)),
  'interval year to month': find(1186, interval((1 << 2) | (1 << 1))),
  'interval day': find(1186, interval(1 << 3)),
  'interval hour': find(1186, interval(1 << 10)),
  'interval minute': find(1186, interval(1 << 11)),
  'interval minute[]': find(1187, interval(1 << 11)),
  'interval second(2)': find(1186, interval(1 << 12, 2)),
  'interval minute to second': find(1186, interval((1 << 11) | (1 << 12))),
  'bit(3)': find(1560, 3),
  uuid: find(2950, -1),
  point: find(600, -1),
  'box[]': find(1020, -1),
  int4range: find(3904, -1),
  'int4range[]': find(3905, -1),
  tsrange: find(3908, -1),
  nummultirange: find(4532, -1),
  price: find(20_000, -1),
  'price[]': find(20_001, -1),
  mood: find(20_002, -1),
  'mood[]': find(20_017, -1),
  cents: find(20_003, -1),
  centses: find(20_004, -1),
  hstore: find(20_006, -1),
  vector: find(20_007, 7),
  centrange: find(20_008, -1),
  centranges: find(20_009, -1),
  node: find(20_010, -1),
  nothing: find(20_014, -1),
  wide: find(20_012, -1),
  missing: find(20_999, -1)
}
type Name = keyof typeof types

/** The result of `write` in short: a text, NULL, or the problem and the path. */
function result (value: Json, type: Type): string {
  const text = write(value, type)
  if (!isIssue(text)) return text ?? 'NULL'
  return `! ${[text.problem, ...text.path].join(' ')}`
}

/** JSON of each kind. */
const kinds = [
  'null', 'true', '5', '1.50', '"x"', '""', '[]', '[1,"2",null]', '[[1],[2]]', '[[1],[2,3]]',
  '[[1],2]', '[[]]', '[{"a":1}]', '{"a":1}', '{}'
]

const lists = ['! list', '! list', '! list', '! list', '! list', '! list', '! list']
const scalar = ['NULL', 'true', '5', '1.50', 'x', '', ...lists, '! list', '! list']
const json = [
  'NULL', 'true', '5', '1.50', '"x"', '""', '[]', '[1,"2",null]', '[[1],[2]]', '[[1],[2,3]]',
  '[[1],2]', '[[]]', '[{"a":1}]', '{"a":1}', '{}'
]
const listed = [
  'NULL', 'true', '5', '1.50', 'x', '', '[]', '[1,"2",null]', '[[1],[2]]', '[[1],[2,3]]',
  '[[1],2]', '[[]]', '[{"a":1}]', '{"a":1}', '{}'
]
const array = [
  'NULL', '! array', '! array', '! array', 'x', '', '{}', '{1,"2",NULL}', '{{1},{2}}',
  '! ragged 1', '! ragged 1', '! empty 0', '! list 0', '! array', '! array'
]
const range = [
  'NULL', 'true', '5', '1.50', 'x', '', '! bounds', '! bounds', '! list 0', '! list 0',
  '! list 0', '! bounds', '! bounds', '! bounds', '! bounds'
]
const composite = [
  'NULL', '! object', '! object', '! object', 'x', '', '! object', '! object', '! object',
  '! object', '! object', '! object', '! object', '! member a', '(,,)'
]
const changed = (list: readonly string[], changes: Readonly<Record<number, string>>): string[] =>
  list.map((text, i) => changes[i] ?? text)
const matrix: Readonly<Partial<Record<Name, readonly string[]>>> = {
  bool: scalar,
  int4: changed(scalar, { 3: '! digits' }),
  text: scalar,
  'varchar(3)': changed(scalar, { 1: '! characters', 3: '! characters' }),
  'numeric(10,2)': scalar,
  'timestamp(0)': changed(scalar, { 3: '! form' }),
  interval: scalar,
  uuid: scalar,
  mood: scalar,
  cents: scalar,
  hstore: scalar,
  json,
  jsonb: json,
  point: listed,
  vector: listed,
  'int4[]': array,
  'text[]': array,
  centses: array,
  'jsonb[]': changed(array, {
    7: String.raw`{1,"\"2\"",NULL}`, 12: String.raw`{"{\"a\":1}"}`
  }),
  'price[]': changed(array, {
    7: '! object 0', 8: '! object 0 0', 9: '! object 0 0', 10: '! object 0 0', 12: '! member 0 a'
  }),
  int4range: range,
  nummultirange: changed(range, { 8: '! bounds', 9: '! bounds', 10: '! bounds' }),
  price: composite,
  nothing: changed(composite, { 14: '()' }),
  wide: scalar.map(text => text.replace('list', 'unknown')),
  missing: scalar.map(text => text.replace('list', 'unknown'))
}

t.test('every kind of JSON for every kind of type', t => {
  for (const [name, expected] of Object.entries(matrix)) {
    const actual = kinds.map(kind => result(parseJson(Buffer.from(kind)), types[name as Name]))
    t.same(actual, expected, name)
  }
  t.end()
})

const huge = `${'1234567890'.repeat(20)}.5`
const long = 'ä'.repeat(32)

/** Values of a type, and what is written for them; by default the value. */
type Case = readonly [json: string, text?: string]
const cases: Readonly<Partial<Record<Name, readonly Case[]>>> = {
  int4: [
    ['1.0', '1'], ['1e3', '1000'], ['-2.50e1', '-25'], ['-0', '0'], ['1e-1', '! digits'],
    ['1.5', '! digits'], ['"1.0"', '1.0'], ['1e50'], ['12345678901234567890']
  ],
  float8: [['0.1'], ['1e400'], ['12345678901234567890.5']],
  numeric: [[huge], ['1e-400'], ['"NaN"', 'NaN']],
  'numeric(10,2)': [
    ['25.00'], ['25.000'], ['25.005', '! digits'], ['9.999', '! digits'], ['1e-2'],
    ['1e-3', '! digits'], ['1.5e1'], ['0e-5'], ['0.000'], ['"25.005"', '! digits'],
    ['" 25.005 "', '! digits'], ['"+.5"', '+.5'], ['"5."', '5.'], ['"NaN"', 'NaN'],
    ['"1_000.50"', '1_000.50'], ['"1_000.505"', '! digits'], ['"0x1F"', '0x1F'], ['"x"', 'x'],
    ['123456789012']
  ],
  'numeric(3)': [['1.0'], ['1.5', '! digits']],
  'numeric(3,-2)': [
    ['1200'], ['12e2'], ['1250', '! digits'], ['0'], ['"0x1F"', '! digits'],
    ['"-0b1_01"', '! digits'], ['"0o17"', '! digits'], ['"NaN"', 'NaN']
  ],
  money: [
    ['1.50'], ['1.505', '! digits'], ['1.234e1', '12.34'], ['1.2345e1', '! digits'],
    ['"$1.505"', '! digits'], ['"$ 1.005"', '! digits'], ['"(1.005)"', '! digits'],
    ['"1,000.005"', '! digits'], ['"1.005-"', '! digits'], ['"-$1,000.500"', '-$1,000.500']
  ],
  'money[]': [['"{$1.505}"', '! digits'], ['["$1.50","1.005-"]', '! digits 1']],
  'varchar(3)': [
    ['"abc"', 'abc'], ['"äöü"', 'äöü'], ['"😀😀😀"', '😀😀😀'],
    ['"abcd"', '! characters'], ['"ab  "', '! characters'],
    ['"😀😀😀😀"', '! characters'], ['"abcdefgh"', '! characters'],
    ['1234', '! characters']
  ],
  'char(3)': [['"a"', 'a'], ['"a   "', '! characters']],
  'varchar(3)[]': [
    ['["a","bcde"]', '! characters 1'], ['"{abcd}"', '! characters'],
    ['"{abc,NULL, null }"', '{abc,NULL, null }'], ['"{\\"null\\"}"', '! characters']
  ],
  name: [['"a"', 'a'], [`"${long}"`, '! bytes']],
  char: [['"x"', 'x'], ['"xy"', '! bytes'], ['"ä"', '! bytes'], [String.raw`"\\101"`, '\\101']],
  date: [
    ['"2026-01-02"', '2026-01-02'], ['"2026-01-02 00:00:00"', '2026-01-02 00:00:00'],
    ['"2026-01-02T00:00"', '2026-01-02T00:00'], ['"2026-01-02T00:00Z"', '! zone'],
    ['"2026-01-02 PM"', '! clock'], ['"2026-01-02 AM"', '2026-01-02 AM'],
    ['"2026-01-02T10:00"', '! clock'], ['"2026-01-02 00:00:00.0001"', '! clock'],
    ['"20260102T101500"', '! clock'], ['"2026-01-02+02:00"', '! zone'], ['"2026-01-02Z"', '! zone'],
    ['"now"', 'now'], ['"infinity"', 'infinity'], ['"Jan 5 2026"', 'Jan 5 2026'],
    ['"0044-03-15 BC"', '0044-03-15 BC'], ['20260102'], ['"2026-W01-1"', '! form'],
    ['"5oct2026"', '5oct2026'], ['"99999-01-01"', '99999-01-01'],
    ['"J2461105"', 'J2461105'], ['"Thu, March 5, 2026"', 'Thu, March 5, 2026'],
    ['"20260305 100000"', '! clock'], ['"2026-03-05 040506.789"', '! clock'],
    ['"2026-03-05 1:2"', '! clock'], ['"J2461105.5"', '! form'], ['"2026-03-05 1000"', '! form'],
    ['"2026-03-05 UTC"', '! zone'], ['"2026-03-05 America/New_York"', '! zone'],
    ['"20260305Z"', '! zone'], ['"20260305+05"', '! zone'], ['"Mar 5 2026 +05"', '! zone'],
    ['"2026 064 MART"', '! form'], ['"040506"', '040506'], ['5'], ['1.5', '! form']
  ],
  time: [
    ['"10:00"', '10:00'], ['"10:00:00.123456"', '10:00:00.123456'],
    ['"10:00:00.1234567"', '! fraction'], ['"10:00:00.1234560"', '10:00:00.1234560'],
    ['"10:00+02"', '! zone'], ['"10:00 PST"', '! zone'], ['"T100000"', 'T100000'],
    ['"10:00 PM"', '10:00 PM'], ['"2026-01-02 10:00"', '! day'],
    ['"10:00 2026-01-02"', '! day'], ['"10:00 J2461105"', '! day'], ['"10:00 BC"', '! day'],
    ['"2026-01-02Z"', '! day'], ['"allballs"', 'allballs'], ['"1000"', '1000'],
    ['"040506-08"', '! zone'], ['"040506+07:30:00"', '! zone'], ['"040506Z"', '! zone'],
    ['"1:2:3+02"', '! zone'], ['"UTC 10:00"', '! zone'], ['"040506.1234567"', '! fraction'],
    ['"1:2:3.1234567"', '! fraction'], ['"040506.123456"', '040506.123456'],
    ['"10:00 10:00"', '! form']
  ],
  'timetz(0)': [
    ['"10:00:00+02"', '10:00:00+02'], ['"10:00:00.5+02"', '! fraction'],
    ['"2026-01-02 10:00+02"', '! day'], ['"10:00+02 J2461105"', '! day'], ['"040506Z"', '040506Z'],
    ['"1:2:3.5+02"', '! fraction']
  ],
  timestamp: [
    ['"2026-01-02 10:00"', '2026-01-02 10:00'], ['"2026-01-02T10:00:00Z"', '! zone'],
    ['"2026-01-02T10:00:00.5-08"', '! zone'], ['"2026-01-02 10:00 +02:00"', '! zone'],
    ['"2026-01-02 10:00 Europe/Berlin"', '! zone'], ['"2026-01-02 10:00 PM UTC"', '! zone'],
    ['"2026-01-02+02"', '! zone'], ['"0044-03-15 12:00:00 BC"', '0044-03-15 12:00:00 BC'],
    ['"10:00 Friday January 2 2026"', '10:00 Friday January 2 2026'],
    ['"2026-01-02 10:00:00.1234567"', '! fraction'], ['"today"', 'today'],
    ['"20260102T100000.5"', '20260102T100000.5'], ['"2026.01.02"', '2026.01.02'],
    ['"20260305 100000"', '20260305 100000'], ['"20260305 100000+05"', '! zone'],
    ['"2026-03-05 UTC 10:00"', '! zone'], ['"J2461105 UTC"', '! zone'],
    ['"2026-03-05 1:2:3+02"', '! zone'], ['"20260305 100000.1234567"', '! fraction'],
    ['"today UTC"', '! zone'], ['"Wed Dec 17 07:37:16 1997"', 'Wed Dec 17 07:37:16 1997'],
    ['"2026-01-02 10:00 (CET)"', '! form']
  ],
  'timestamp(0)': [
    ['"2026-01-02 10:00:00.0"', '2026-01-02 10:00:00.0'],
    ['"2026-01-02 10:00:00.5"', '! fraction']
  ],
  timestamptz: [
    ['"2026-01-02T10:00:00.123456+02:00"', '2026-01-02T10:00:00.123456+02:00'],
    ['"20260305 100000.1234567 UTC"', '! fraction'], ['"J2461105.5 UTC"', '! form'],
    ['"2026-01-02 10:00 EST5EDT"', '2026-01-02 10:00 EST5EDT']
  ],
  'timestamptz(3)': [['"2026-01-02T10:00:00.1234Z"', '! fraction']],
  interval: [
    ['"1.123456"', '1.123456'], ['1.1234567', '! fraction'], ['"00:00:00.1234567"', '! fraction'],
    ['"1.1234567 secs"', '! fraction'], ['"PT1.1234567S"', '! fraction'],
    ['1e2', '100'], ['-1.5e-6', '! fraction'], ['-2e-6', '-0.000002'], ['0e5', '0'],
    ['1.25e1', '12.5'], ['"1e2"', '! form'], ['1e400', '! form'],
    ['"1.5 months"', '1.5 months'], ['"5"', '5'], ['"0.5 us"', '! fraction'],
    ['"1.5 ms"', '1.5 ms'], ['"1 century"', '1 century'], ['"0.1 centuries"', '! form'],
    ['"PT1e-7S"', '! form'], ['"0.123 years"', '! form'], ['"0.25 years"', '0.25 years'],
    [`"1.${'0'.repeat(300)}1"`, '! form'], ['"infinity"', 'infinity']
  ],
  'interval(1)': [
    ['"1.25 s"', '! fraction'], ['"1.50 s"', '1.50 s'], ['"1234 ms"', '! fraction'],
    ['"1234567 us"', '! fraction'], ['"1.2345 minutes"', '! fraction'], ['"1.25 min"', '1.25 min'],
    ['"1 century"', '! form']
  ],
  'interval year': [
    ['"2 years"', '2 years'], ['"14 mons"', '! fields'], ['"5"', '5 year'], ['1.5', '! fields']
  ],
  'interval year to month': [
    ['"1-2"', '1-2'], ['"5"', '5 month'], ['"1 year 2 mons"', '1 year 2 mons'],
    ['"1-2 3"', '! form'], ['"1-2 3 00:00"', '! fields'], ['1.5', '! fields'],
    ['"1.5 years"', '1.5 years'], ['"P1Y2M"', 'P1Y2M'], ['"P1Y2M3D"', '! fields'],
    ['"-1-2"', '-1-2'], ['"1 week"', '! fields']
  ],
  'interval day': [
    ['"3"', '3 day'], ['"3 04:00"', '! fields'], ['"1.5 days"', '! fields'], ['1.5', '! fields'],
    ['"P1.5D"', '! fields'], ['"P0000-00-01T12:00:00"', '! fields'], ['"61000 ms"', '! fields'],
    ['"1.5 weeks"', '! fields'], ['"P00010203T040506"', '! form'], ['"-3 00:00"', '-3 00:00'],
    ['"0.1 months"', '0.1 months']
  ],
  'interval hour': [
    ['"90 minutes"', '! fields'], ['"120 minutes ago"', '120 minutes ago'], ['"1.5 h"', '! fields'],
    ['"5400000 ms"', '! fields'], ['"P0000-00-00T01:30:00"', '! fields'], ['"1.5 d"', '1.5 d']
  ],
  'interval minute': [
    ['"5"', '5 minute'], ['5', '5 minute'], ['"1.5"', '! fields'], ['"60 seconds"', '60 seconds'],
    ['"90 seconds"', '! fields'], ['"00:05:00"', '00:05:00'], ['"-00:05:01"', '! fields'],
    ['"@ 1 day 5 min"', '@ 1 day 5 min'], ['"5 parsecs"', '! form'], ['"PT5M"', 'PT5M'],
    ['"PT5M6.7S"', '! fields'], ['"soon"', 'soon'],
    ['"P0001-02-03T04:05:06"', '! fields'], ['""', ''],
    ['"P0001-02-03T04:05:00"', 'P0001-02-03T04:05:00']
  ],
  'interval minute[]': [
    ['["5",90,null]', '{"5 minute",90 minute,NULL}'],
    ['"{5,\\"00:01:00\\",NULL}"', '{"5 minute","00:01:00",NULL}'],
    ['["00:00:01"]', '! fields 0'], ['"[0:1]={5,\\"00:00:01\\"}"', '! fields']
  ],
  'interval second(2)': [['"5"', '5 second'], ['"5.125"', '! fraction'], ['"1:02"', '1:02']],
  'interval minute to second': [
    ['"4:05"', '00:4:05'], ['"-4:05"', '-00:4:05'], ['"1 -04:05"', '1 -00:04:05'],
    ['"5"', '5 second']
  ],
  'bit(3)': [['"1"', '1']],
  'text[]': [
    ['["a\\"b","c,d","{e}","NULL",null,"","\\\\"," "]',
      String.raw`{"a\"b","c,d","{e}","NULL",NULL,"","\\"," "}`],
    ['[true,1,1.10]', '{true,1,"1.10"}'], ['[["a"],["b"]]', '{{"a"},{"b"}}'],
    ['["a",["b"]]', '! list 1'], ['[[["a"]],[["b","c"]]]', '! ragged 1 0'],
    ['[null,["a"]]', '! list 1'], ['[[["a"]],[[]]]', '! empty 1 0']
  ],
  'box[]': [['["(1,1),(0,0)","(2,2),(0,0)"]', '{"(1,1),(0,0)";"(2,2),(0,0)"}']],
  'jsonb[]': [['[{"a":1},[1]]', String.raw`{"{\"a\":1}","[1]"}`], ['[[1],{"a":1}]', '! ragged 1']],
  'numeric(10,2)[]': [
    ['[1,25.005]', '! digits 1'], ['"{1,25.005}"', '! digits'],
    ['"{1, 25.00 ,NULL}"', '{1, 25.00 ,NULL}'], ['"{{1},{\\"2.50\\"}}"', '{{1},{"2.50"}}'],
    ['"{\\"25\\\\.005\\"}"', '! digits'], ['"{25\\\\.005}"', '! digits'], ['"x"', 'x']
  ],
  'int4[]': [['[1.0,2]', '{"1",2}'], ['"{1.0}"', '{1.0}'], ['[1,1.5]', '! digits 1']],
  int4range: [
    ['[1,5]', '[1,5]'], ['"[1,5)"', '[1,5)'], ['[1]', '! bounds'], ['[1,null]', '! bounds']
  ],
  tsrange: [
    ['"[2026-01-01 10:00, 2026-01-02 10:00)"', '[2026-01-01 10:00, 2026-01-02 10:00)'],
    ['"[\\"2026-01-01 10:00Z\\",)"', '! zone'],
    ['"[2026-01-01 \\"10:00:00.1234\\"567,)"', '! fraction'], ['["2026-01-01","2026-01-02 10:00"]',
      '["2026-01-01","2026-01-02 10:00"]'], ['["2026-01-01","2026-01-02 10:00Z"]', '! zone 1']
  ],
  'int4range[]': [['["[1,2)","empty"]', '{"[1,2)","empty"}'], ['[[1,5]]', '{{1,5}}']],
  centrange: [['"[1.005,2]"', '! digits'], ['[1.5,2]']],
  centranges: [['"{[1.00,2],[3,3.005]}"', '! digits']],
  cents: [['1.005', '! digits']],
  centses: [['[1.50,1.005]', '! digits 1']],
  price: [
    ['{"amount":1.50,"curr":"EUR","tags":["a",null]}',
      String.raw`("1.50","EUR","{\"a\",NULL}")`],
    ['{"curr":"","amount":null}', '(,"",)'], ['{"amount":1.505}', '! digits amount'],
    ['{"tags":["a",{}]}', '! list tags 1'], ['{"currr":1}', '! member currr'],
    ['{"__proto__":1}', '! member __proto__'], ['"(1.50,EUR,)"', '(1.50,EUR,)'],
    ['"(1.505,EUR,)"', '! digits'], ['"(,\\"E\\"\\"UR\\",)"', '! characters'],
    ['"(,\\"E\\"\\"U\\",)"', '(,"E""U",)'], ['"(1,EU\\\\\\\\R,)"', '! characters'],
    ['"(1,\\"E\\\\\\"\\\\U\\",)"', String.raw`(1,"E\"\U",)`],
    ['"(1,EUR)"', '(1,EUR)'], ['"(1"', '(1'], ['"(1,\\""', '(1,"'], ['"(1,\\")"', '(1,")']
  ],
  'price[]': [
    ['[{"amount":1},null]', '{"(1,,)",NULL}'], ['[{"amount":1},{"curr":"EURO"}]',
      '! characters 1 curr'], ['"{\\"(1.505,,)\\"}"', '! digits'], ['["(1.505,,)"]', '! digits 0']
  ],
  mood: [['"so \\"so\\""', 'so "so"']],
  'mood[]': [['"{sad}"', '{sad}']],
  json: [['"5"', '"5"'], ['1.10'], ['{"b":[1,2.50],"a":null}']],
  node: [
    ['{"id":1,"parents":[{"id":2},{"id":3,"parents":[]}]}',
      String.raw`(1,"{\"(2,)\",\"(3,\\\"{}\\\")\"}")`],
    ['{"parents":[{"parents":[{"x":1}]}]}', '! member parents 0 parents 0 x'],
    ['"(1,)"', '(1,)']
  ]
}

t.test('the texts of values', t => {
  for (const [name, list] of Object.entries(cases)) {
    for (const [json, text = json] of list) {
      const value = parseJson(Buffer.from(json))
      t.equal(result(value, types[name as Name]), text, `${name} ${json}`)
    }
  }
  t.end()
})

t.test('a long text is sent as it is if no part of it can be lost', t => {
  const texts = [['int4[]', '1'], ['text[]', 'a'], ['mood[]', 'sad'], ['int4range', '1']] as const
  for (const [name, part] of texts) {
    const text = `{${`${part},`.repeat(65_536)}}`
    t.equal(result(text, types[name]), text, name)
  }
  t.end()
})

t.test('an issue says what the type holds', t => {
  const descriptions: ReadonlyArray<readonly [Name, Json, string]> = [
    ['numeric(10,2)', 1.005, 'numeric(10,2) holds 2 digits after the point.'],
    ['numeric(3)', 1.5, 'numeric(3,0) holds no digits after the point.'],
    ['numeric(3,-2)', 5, 'numeric(3,-2) holds multiples of 100.'],
    ['int4', 1.5, 'integer holds no digits after the point.'],
    ['money', 1.005, 'money holds 2 digits after the point.'],
    ['varchar(3)', 'abcd', 'character varying(3) holds 3 characters.'],
    ['name', long, 'name holds 63 bytes.'],
    ['char', 'ab', '"char" holds 1 byte.'],
    ['timestamp(0)', '2026-01-01 10:00:00.5',
      "timestamp(0) without time zone holds no digits of a second's fraction."],
    ['interval(1)', '1.25', "interval(1) holds 1 digit of a second's fraction."],
    ['time', '10:00:00.1234567', "time without time zone holds 6 digits of a second's fraction."],
    ['timestamp', '2026-01-01T10:00Z', 'timestamp without time zone holds no offset or time zone.'],
    ['time', '2026-01-01 10:00', 'time without time zone holds no date.'],
    ['date', '2026-01-01 10:00', 'date holds no time of day.'],
    ['date', 'J2461105.5', 'date takes no text of this form. Write it like "2026-03-05".'],
    ['interval day', '1 2', 'interval day takes no text of this form. Write it like "5 days".'],
    ['interval(1)', '1 2', 'interval(1) takes no text of this form. Write it like "5 seconds".'],
    ['interval minute', '5 s', 'interval minute holds nothing smaller than a minute.'],
    ['price', { x: 1 }, 'the type price has no member "x".'],
    ['price', 5, 'the type price takes an object with its members.'],
    ['price', `(1,${' '.repeat(65_536)})`,
      'a text of the type price has at most 65536 characters. Send it as JSON.'],
    ['price[]', {}, 'the type price[] takes an array.'],
    ['centses', 5, 'the type cents[] takes an array.'],
    ['int4range', [], 'the type int4range takes an array of two bounds, each a value or a ' +
      'reference, or a text like "[1,5)".'],
    ['wide', [], 'the parts of the type wide are not known. Send its text as a string.'],
    ['int4[]', [[]], 'an array of PostgreSQL contains no empty list. Leave it out, or use a ' +
      'column of type jsonb.'],
    ['int4[]', [[1], 2], 'the arrays inside an array of PostgreSQL have the same length. Use a ' +
      'column of type jsonb.'],
    ['text', [], 'the type text takes one value, not an array or an object. To store JSON text, ' +
      'send it as a string.']
  ]
  for (const [name, value, text] of descriptions) {
    t.equal(describeIssue(write(value, types[name]) as WriteIssue), text)
  }
  t.end()
})

t.test('names of types, and types that statements name', t => {
  t.equal(nameOf(types['timestamptz(3)']), 'timestamp(3) with time zone')
  t.equal(nameOf(types['interval second(2)']), 'interval second(2)')
  t.equal(nameOf(types['bit(3)']), 'bit(3)')
  t.equal(nameOf(types['varchar(3)[]']), 'character varying(3)[]')
  t.equal(nameOf(types.centses), 'other.centses')
  t.equal(types.centses.sql, undefined)
  t.not(types.price.sql, undefined)
  t.equal(types.missing.sql, undefined)
  t.match(find(20_016, -1), { kind: 'unknown' })
  t.end()
})

t.test('the JSON of bulk rows is the value itself, or its text', t => {
  const members: ReadonlyArray<readonly [Name, Json, Json]> = [
    ['int4', 5, 5], ['int4', '5', '5'], ['text', null, null], ['text', 'x', 'x'],
    ['jsonb', [1], [1]], ['jsonb', 'x', 'x'], ['int4[]', [1, 2], '{1,2}'],
    ['price', {}, '(,,)'], ['interval minute', 5, '5 minute'], ['interval minute', '5', '5 minute'],
    ['int4range', [1, 5], '[1,5]'], ['text', {}, null]
  ]
  const issues: WriteIssue[] = []
  for (const [name, value, expected] of members) {
    t.strictSame(writeMember(value, types[name], issue => issues.push(issue)), expected, name)
  }
  t.match(issues, [{ problem: 'list' }])
  t.equal(writeMember(parseJson(Buffer.from('1.0')), types.int4, () => {}), '1')
  const exact = parseJson(Buffer.from('1.50'))
  t.equal(writeMember(exact, types['numeric(10,2)'], () => {}), exact)
  t.end()
})

t.test('plain types, and types of differences', t => {
  const plain: readonly Name[] = ['bool', 'text', 'json', 'float8', 'uuid', 'mood']
  for (const [name, type] of Object.entries(types)) {
    const expected = [...plain, 'jsonb', 'numeric', 'bit(3)', 'point', 'vector', 'hstore']
    t.equal(isPlain(type), expected.includes(name), name)
  }
  t.equal(differenceType(types.int4), types.int4)
  t.equal(differenceType(types['numeric(10,2)']), types['numeric(10,2)'])
  t.match(differenceType(types.cents), { name: 'numeric', scale: 2 })
  t.equal(differenceType(types.date), types.int4)
  t.equal(differenceType(types.timestamp), types.interval)
  t.equal(differenceType(types.time), types.interval)
  t.match(differenceType(types['timestamp(0)']), { name: 'interval', precision: 0 })
  t.equal(differenceType(types['interval minute']), types['interval minute'])
  t.equal(differenceType(types.money), types.money)
  for (const name of ['text', 'jsonb', 'timetz(0)', 'price', 'int4[]'] as const) {
    t.equal(differenceType(types[name]), undefined, name)
  }
  t.end()
})
