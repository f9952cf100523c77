/**
 * Tests that filters match the same rows as the same condition in SQL (comparisons, patterns,
 * lists, containment, ranges, keys, combinators, paths), and that they use indexes.
 */
import t from 'tap'
import type { Batch } from '../../schemas/batch.ts'
import { render } from '../../src/fragment/fragment.ts'
import { parseJson } from '../../src/json/parse.ts'
import { planBatch } from '../../src/plan/plan-batch.ts'
import { fillStatement } from '../../src/sql/statement/statement.ts'
import { compile } from '../../src/sql/compile.ts'
import { sessionStatement } from '../../src/sql/frame/session.ts'
import { ColumnTypes, columnTypesQuery } from '../../src/sql/values/column-types.ts'
import * as op from '../support/operations.ts'
import { sameRows, thingsSchema, type FilterRow } from '../support/database/same-rows.ts'
import { useDatabase } from '../support/database/database.ts'
import { useService } from '../support/service.ts'

const service = await useService(t, { schema: thingsSchema })
const comparisons = { eq: '=', neq: '<>', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const
const others = Object.entries(comparisons).slice(1)

t.test('comparisons use the type of the column', async t => {
  /** Operands, as JSON and as SQL, lie between stored values: each comparison matches some rows. */
  const operands: ReadonlyArray<readonly [column: string, operand: string, literal: string]> = [
    ['n', '2', '2'],
    ['n', '"2"', '2'],
    ['n', '0', '0'],
    ['big', '9007199254740992', '9007199254740992'],
    ['big', '"42"', '42'],
    ['num', '1.10', '1.10'],
    ['num', '1.1000', '1.1'],
    ['num', '8', '8'],
    ['num', '1e1', '10'],
    ['txt', '"apple"', "'apple'"],
    ['txt', '"O\'Brien \\"quoted\\" \\\\"', "'O''Brien \"quoted\" \\'"],
    ['txt', 'true', "'true'"],
    ['txt', '"$$src.0.id"', "'$src.0.id'"],
    ['other', '"a_b\\\\d"', "'a_b\\d'"],
    ['vc', '"blue"', "'blue'"],
    ['vc', '"$5.00"', "'$5.00'"],
    ['ch', '"ab"', "'ab'"],
    ['ch', '"null"', "'null'"],
    ['day', '"2024-01-02"', "'2024-01-02'"],
    ['mood', '"ok"', "'ok'"],
    ['pos', '5', '5'],
    ['ts', '"2024-01-01T00:00:00.000001Z"', "'2024-01-01T00:00:00.000001Z'"],
    ['ts', '"2024-01-01 02:00:00.000003+02"', "'2024-01-01T00:00:00.000003Z'"],
    ['uid', '"b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"', "'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    ['raw', '"\\\\x00ff"', "'\\x00ff'"],
    ['ints', '{"$value":[1,2,3]}', "'{1,2,3}'"],
    ['ints', '"{1,2,3}"', "'{1,2,3}'"],
    ['ints', '{"$value":[1,null,3]}', "'{1,null,3}'"],
    ['texts', '{"$value":["red","green"]}', "'{red,green}'"],
    ['moods', '{"$value":["ok"]}', "'{ok}'"],
    ['span', '"[1,5)"', "'[1,5)'"],
    ['span', '"[1,5]"', "'[1,6)'"],
    ['jb', '{"$value":{"items":[{"qty":2,"sku":"p1"},{"sku":"p2"}],"k":"x","a":1.0}}',
      '\'{"a": 1, "k": "x", "items": [{"sku": "p1", "qty": 2}, {"sku": "p2"}]}\''],
    ['jb', '{"$value":[1,"x",null,{"a":1}]}', '\'[1, "x", null, {"a": 1}]\''],
    ['jb', '{"$value":5}', "'5'"],
    ['jb', '5', "'5'"],
    ['jb', '{"$value":"x"}', '\'"x"\''],
    ['"select"', '"banana"', "'banana'"],
    ['"x.y"', '2', '2'],
    ['"eq"', '2', '2']
  ]
  await sameRows(
    t,
    service,
    // The operand decides the type, so each has the equality and one of the other comparisons.
    operands.flatMap(([column, operand, literal], i) =>
      [['eq', '='] as const, others[i % others.length] ?? []].map(([name, operator]): FilterRow => [
        `{${column.startsWith('"') ? column : `"${column}"`}:{"${name}":${operand}}}`,
        `${column} ${operator} ${literal}`
      ]))
  )
  await sameRows(t, service, [
    [{ flag: { eq: true } }, 'flag'],
    [{ flag: { eq: 'f' } }, 'not flag'],
    [{ flag: { lt: true } }, 'not flag'],
    [{ flag: { neq: false } }, 'flag'],
    [{ 'We"ird Col': { gt: 1 } }, '"We""ird Col" > 1'],
    [{ num: { gt: 1.104 } }, 'num > 1.104'],
    ['{"num":{"lt":100000000.5}}', 'num < 100000000.5'],
    [{ txt: { eq: 'ünïcödé 😀 100%' } }, 'id = 6'],
    [{ num: { eq: 'NaN' } }, "num = 'NaN'"],
    [{ day: { lt: 'infinity' } }, "day < 'infinity'"],
    [{ txt: { eq: '' } }, "txt = ''"],
    [{ raw: { eq: '\\x' } }, "raw = ''"],
    [{
      jb: {
        eq: {
          $value: {
            $col: 'n', a: { b: [10, 20, { c: 'deep foxes' }] }, 0: 'zero', tags: ['red', 'blue']
          }
        }
      }
    }, 'id = 8'],
    [{ jb: { neq: { $value: {} } } }, "jb <> '{}'"],
    [{ ints: { eq: { $value: [] } } }, "ints = '{}'"],
    [{ texts: { eq: { $value: ['ünï', 'a,b', '{x}'] } } }, 'id = 6'],
    [{ num: { eq: 1.104 } }, 'num = 1.104',
      'none: an operand is not rounded to the scale of the column'],
    [{ vc: { eq: 'red but longer than eight' } }, 'false',
      'none: an operand is not cut to the length of the column'],
    [{ pos: { gt: -1 } }, 'pos > -1'],
    [{ n: { gt: 0, lt: 9, neq: 2 }, m: { lte: 5 } }, 'n > 0 and n < 9 and n <> 2 and m <= 5']
  ])
})

t.test('a column of the same row can be an operand', async t => {
  await sameRows(t, service, [
    ...Object.entries(comparisons).map(([name, operator]): FilterRow =>
      [{ n: { [name]: { $col: 'm' } } }, `n ${operator} m`]
    ),
    [{ txt: { eq: { $col: 'other' } } }, 'txt = other'],
    [{ big: { gt: { $col: 'n' } } }, 'big > n'],
    [{ num: { eq: { $col: 'n' } } }, 'num = n'],
    [{ n: { eq: { $col: 'We"ird Col' }, lt: { $col: 'num' } } }, 'n = "We""ird Col" and n < num'],
    [{ txt: { like: { $col: 'other' } } }, 'txt like other'],
    [{ other: { ilike: { $col: 'txt' } } }, 'other ilike txt'],
    [{ txt: { match: { $col: 'other' } } }, 'txt ~ other'],
    [{ txt: { imatch: { $col: 'other' } } }, 'txt ~* other'],
    [{ txt: { isdistinct: { $col: 'other' } } }, 'txt is distinct from other'],
    [{ m: { between: [{ $col: 'n' }, { $col: 'big' }] } }, 'm between n and big'],
    [{ m: { between: [1, { $col: 'n' }] } }, 'm between 1 and n'],
    [{ span: { cs: { $col: 'n' } } }, 'span @> n'],
    [{ n: { cd: { $col: 'span' } } }, 'n <@ span'],
    [{ 'jb->>a': { eq: { $col: 'other' } } }, "jb ->> 'a' = other", 'none'],
    [{ 'jb->>k': { neq: { $col: 'txt' } } }, "jb ->> 'k' <> txt"],
    [{ txt: { neq: { $col: 'jb->>k' } } }, "txt <> jb ->> 'k'"],
    [{ 'jb->items->0': { eq: { $col: 'jb->items->0' } } }, "jb -> 'items' -> 0 is not null"],
    [{ n: { not: { eq: { $col: 'm' } } } }, 'not n = m']
  ])
})

t.test('tests for NULL, patterns and lists match the same rows as SQL', async t => {
  await sameRows(t, service, [
    // is
    [{ flag: { is: null } }, 'flag is null'],
    [{ flag: { is: 'not_null' } }, 'flag is not null'],
    [{ flag: { is: true } }, 'flag is true'],
    [{ flag: { is: false } }, 'flag is false'],
    [{ flag: { is: 'unknown' } }, 'flag is unknown'],
    [{ txt: { is: null } }, 'txt is null'],
    [{ txt: { is: 'not_null' } }, 'txt is not null'],
    [{ jb: { is: null } }, 'jb is null'],
    [{ ints: { is: 'not_null' } }, 'ints is not null'],
    [{ 'jb->k': { is: null } }, "jb -> 'k' is null"],
    [{ 'jb->>k': { is: null } }, "jb ->> 'k' is null"],
    [{ 'jb->>k': { is: 'not_null' } }, "jb ->> 'k' is not null"],
    [{ flag: { not: { is: true } } }, 'flag is not true'],
    [{ doc: { is: null } }, 'doc is null'],
    // isdistinct
    [{ n: { isdistinct: 2 } }, 'n is distinct from 2'],
    [{ n: { isdistinct: null } }, 'n is not null'],
    [{ txt: { isdistinct: '' } }, "txt is distinct from ''"],
    [{ flag: { isdistinct: true } }, 'flag is distinct from true'],
    [{ n: { not: { isdistinct: null } } }, 'n is null'],
    [{ 'jb->>a': { isdistinct: '1' } }, "jb ->> 'a' is distinct from '1'"],
    [{ jb: { isdistinct: { $value: {} } } }, "jb is distinct from '{}'"],
    [{ ints: { isdistinct: { $value: [1] } } }, "ints is distinct from '{1}'"],
    // patterns
    [{ txt: { like: '%pp%' } }, "txt like '%pp%'"],
    [{ txt: { like: 'apple' } }, "txt like 'apple'"],
    [{ txt: { ilike: 'APPLE%' } }, "txt ilike 'APPLE%'"],
    [{ txt: { like: '_anana' } }, "txt like '_anana'"],
    [{ other: { like: 'a\\_b%' } }, "other like 'a\\_b%'"],
    [{ txt: { like: '%100\\%' } }, "txt like '%100\\%'"],
    [{ txt: { match: '^[a-b]' } }, "txt ~ '^[a-b]'"],
    [{ txt: { imatch: '^[a-b]' } }, "txt ~* '^[a-b]'"],
    [{ txt: { match: '\\$src\\.' } }, "txt ~ '\\$src\\.'"],
    [{ vc: { ilike: 'RE%' } }, "vc ilike 'RE%'"],
    [{ ch: { like: 'ab%' } }, "ch like 'ab%'"],
    [{ ch: { like: 'ab' } }, "ch like 'ab'", 'none: the column is padded'],
    [{ ch: { match: '^ab *$' } }, "ch ~ '^ab *$'"],
    [{ 'jb->>k': { like: 'x%' } }, "jb ->> 'k' like 'x%'"],
    [{ 'doc->>k': { imatch: 'X' } }, "doc ->> 'k' ~* 'X'"],
    [{ txt: { not: { like: '%e%' } } }, "txt not like '%e%'"],
    // in, nin
    [{ n: { in: [1, 2, '8', 77] } }, 'n in (1, 2, 8, 77)'],
    [{ n: { nin: [1, 2, 8] } }, 'n not in (1, 2, 8)'],
    [{ n: { in: [1] } }, 'n in (1)'],
    [{ txt: { in: ['apple', '', 'O\'Brien "quoted" \\'] } },
      "txt in ('apple', '', 'O''Brien \"quoted\" \\')"],
    [{ txt: { nin: ['NULL', '{}', 'a,b', 'banana'] } },
      "txt not in ('NULL', '{}', 'a,b', 'banana')"],
    [{ txt: { in: ['$$src.0.id', '$5.00', 'true'] } }, "txt in ('$src.0.id', 'true')"],
    [{ txt: { in: [true, 5] } }, "txt = 'true'"],
    [{ vc: { in: ['red', 'RED'] } }, "vc in ('red', 'RED')"],
    [{ ch: { in: ['ab', 'b'] } }, "ch in ('ab', 'b')"],
    ['{"big":{"in":[9007199254740993, 42]}}', 'big in (9007199254740993, 42)'],
    ['{"num":{"in":[1.10,8.000]}}', 'num in (1.1, 8)'],
    [{ num: { nin: [1.104, 1.1] } }, 'num not in (1.104, 1.1)'],
    [{ flag: { in: [true] } }, 'flag'],
    [{ mood: { in: ['sad', 'happy'] } }, "mood in ('sad', 'happy')"],
    [{ mood: { nin: ['sad'] } }, "mood <> 'sad'"],
    [{ pos: { in: [1, 2] } }, 'pos in (1, 2)'],
    [{ pos: { nin: [1, -2] } }, 'pos <> 1'],
    [{ uid: { in: ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'] } }, 'id = 1'],
    [{ ts: { in: ['2024-01-01T00:00:00.000001Z', '2024-06-01T14:00:00+02'] } }, 'id in (1, 3)'],
    [{ day: { nin: ['infinity', '2024-01-02'] } }, "day not in ('infinity', '2024-01-02')"],
    [{ raw: { in: ['\\x00', '\\x'] } }, 'id in (2, 3)'],
    [{ span: { in: ['[1,5)', 'empty'] } }, "span in ('[1,5)', 'empty')"],
    [{ 'jb->>a': { in: ['1', 'x'] } }, "jb ->> 'a' in ('1', 'x')"],
    [{ 'jb->a': { in: ['1', 2] } }, "jb -> 'a' in ('\"1\"', '2')"],
    [{ 'jb->a': { nin: [1] } }, "jb -> 'a' not in ('1')"],
    [{ n: { in: Array.from({ length: 5000 }, (_, i) => i + 1) } }, 'n between 1 and 5000'],
    // any, all
    [{ n: { neq: { any: [1, 8] } } }, 'n is not null', 'all but NULL'],
    [{ n: { eq: { all: [1, 8] } } }, 'false', 'none'],
    ...Object.entries(comparisons).flatMap(([name, operator]): FilterRow[] =>
      ['any', 'all'].filter(which => !['neq any', 'eq all'].includes(`${name} ${which}`)).map(
        which => [{ n: { [name]: { [which]: [1, 8] } } }, `n ${operator} ${which} (array[1, 8])`]
      )),
    [{ txt: { like: { any: ['a%', '%dogs'] } } }, "txt like any (array['a%', '%dogs'])"],
    [{ txt: { like: { all: ['%p%', '%e'] } } }, "txt like '%p%' and txt like '%e'"],
    [{ txt: { ilike: { any: ['A%', 'B%'] } } }, "txt ~* '^[ab]'"],
    [{ txt: { ilike: { all: ['A%', '%E'] } } }, "txt ~* '^a.*e$'"],
    [{ txt: { match: { any: ['^a', 's$'] } } }, "txt ~ '^a' or txt ~ 's$'"],
    [{ txt: { match: { all: ['a', 'e'] } } }, "txt ~ 'a' and txt ~ 'e'"],
    [{ txt: { imatch: { any: ['^A'] } } }, "txt ~* '^a'"],
    [{ txt: { imatch: { all: ['A', 'PIE'] } } }, "txt ~* 'pie'"],
    [{ mood: { gt: { any: ['sad', 'happy'] } } }, "mood > 'sad'"],
    [{ num: { eq: { any: ['1.1', 8] } } }, 'num in (1.1, 8)'],
    [{ 'jb->>a': { eq: { any: ['1'] } } }, "jb ->> 'a' = '1'"],
    [{ ch: { eq: { any: ['ab'] } } }, "ch = 'ab'"],
    [{ n: { not: { gt: { all: [1, 8] } } } }, 'n <= 8'],
    // between
    [{ n: { between: [1, 8] } }, 'n between 1 and 8'],
    [{ n: { between: ['1', 1] } }, 'n = 1'],
    [{ n: { between: [8, 1] } }, 'false', 'none: the bounds are not sorted'],
    [{ n: { not: { between: [1, 8] } } }, 'n not between 1 and 8'],
    [{ num: { between: [1.104, 8] } }, 'num between 1.104 and 8'],
    [{ txt: { between: ['a', 'b'] } }, "txt between 'a' and 'b'"],
    [{ day: { between: ['-infinity', '2024-01-01'] } }, "day between '-infinity' and '2024-01-01'"],
    [{ mood: { between: ['sad', 'ok'] } }, "mood between 'sad' and 'ok'"],
    [{ 'jb->>a': { between: ['0', '2'] } }, "jb ->> 'a' = '1'"]
  ])
})

t.test('array filters match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ ints: { cs: [1, 3] } }, "ints @> '{1,3}'"],
    [{ ints: { cs: [3] } }, "ints @> '{3}'"],
    [{ ints: { cs: [] } }, 'ints is not null'],
    [{ ints: { cs: '{1,3}' } }, "ints @> '{1,3}'"],
    [{ ints: { cs: ['1', '2'] } }, "ints @> '{1,2}'"],
    [{ ints: { cs: [null] } }, "ints @> '{null}'", 'none: NULL is contained in nothing'],
    [{ ints: { cd: [1, 2, 3] } }, "ints <@ '{1,2,3}'"],
    [{ ints: { cd: [] } }, "ints = '{}'"],
    [{ ints: { ov: [1, 7] } }, "ints && '{1,7}'"],
    [{ ints: { ov: [] } }, 'false', 'none'],
    [{ texts: { cs: ['red'] } }, "texts @> '{red}'"],
    [{ texts: { cs: ['a,b', '{x}'] } }, 'id = 6'],
    [{ texts: { ov: ['$$x.y', '', 'ünï'] } }, "texts && array['', 'ünï']"],
    [{ texts: { cd: ['red', 'green', 'blue'] } }, "texts <@ '{red,green,blue}'"],
    [{ texts: { cs: '{"a,b"}' } }, 'id = 6'],
    [{ moods: { cs: ['ok'] } }, "moods @> '{ok}'"],
    [{ moods: { ov: ['happy', 'ok'] } }, "moods && '{happy,ok}'"],
    [{ ints: { cs: { $value: [1] } } }, "ints @> '{1}'"],
    [{ ints: { not: { ov: [1] } } }, "not ints && '{1}'"],
    [{ ints: { cs: { $col: 'ints' } } }, 'ints @> ints'],
    [{ texts: { cs: [true] } }, "texts @> '{true}'", 'none']
  ])
})

t.test('range filters match the same rows as SQL', async t => {
  const operators =
    { cs: '@>', cd: '<@', ov: '&&', sl: '<<', sr: '>>', nxr: '&<', nxl: '&>', adj: '-|-' }
  const literals = {
    span: ['[4,6)', '(,0]', '[5,5]'],
    period: ['[2024-02-01T01:00:00+01,)', '["2024-03-01 00:00:00+00",2024-03-02Z)']
  }
  await sameRows(t, service, [
    ...Object.entries(literals).flatMap(([column, list]) => list.flatMap(literal =>
      Object.entries(operators).map(([name, operator]): FilterRow => [
        { [column]: { [name]: literal } },
        `${column} ${operator} '${literal}'`,
        'perhaps none'
      ]))),
    [{ span: { sl: '[5,10)' } }, "span << '[5,10)'"],
    [{ span: { sr: '[1,5)' } }, "span >> '[1,5)'"],
    [{ span: { nxr: '[1,5)' } }, "span &< '[1,5)'"],
    [{ span: { nxl: '[5,10)' } }, "span &> '[5,10)'"],
    [{ span: { adj: '[5,10)' } }, "span -|- '[5,10)'"],
    [{ span: { ov: '[4,6)' } }, "span && '[4,6)'"],
    [{ span: { cd: '[0,11)' } }, "span <@ '[0,11)'"],
    [{ span: { cs: '[3,4)' } }, "span @> '[3,4)'"],
    [{ span: { cs: 'empty' } }, 'span is not null'],
    [{ span: { cd: 'empty' } }, "span = 'empty'"],
    [{ period: { cs: '[2024-01-16Z,2024-01-17Z)' } },
      "period @> '[2024-01-16Z,2024-01-17Z)'::tstzrange"],
    [{ period: { adj: '[2024-02-01Z,2024-03-01Z)' } }, "period -|- '[2024-02-01Z,2024-03-01Z)'"],
    [{ n: { cd: { $col: 'span' } } }, 'n <@ span'],
    [{ span: { cs: { $col: 'm' } } }, 'span @> m'],
    [{ span: { not: { ov: '[4,6)' } } }, "not span && '[4,6)'"]
  ])
})

t.test('JSON filters match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ jb: { cs: { a: 1 } } }, 'jb @> \'{"a": 1}\''],
    [{ jb: { cs: { k: null } } }, 'id = 2'],
    [{ jb: { cs: {} } }, "jsonb_typeof(jb) = 'object'"],
    [{ jb: { cs: [] } }, "jsonb_typeof(jb) = 'array'"],
    [{ jb: { cs: [1, null] } }, 'id = 6'],
    [{ jb: { cs: [{ a: 1 }] } }, 'id = 6'],
    [{ jb: { cs: 1 } }, "jb @> '1'"],
    [{ jb: { cs: true } }, 'id = 10'],
    ['{"jb":{"cs":{"a":1.0}}}', 'jb @> \'{"a": 1}\''],
    [{ jb: { cs: { items: [{ sku: 'p2' }] } } }, 'id = 1'],
    [{ jb: { cs: { a: { b: [20] } } } }, 'id = 8'],
    [{ jb: { cd: { a: '1', k: null, 'with space': true, 'quo"te': 1, 'a-b': 1, more: 5 } } },
      'id in (2, 3)'],
    [{ jb: { cd: {} } }, "jb = '{}'"],
    [{ jb: { cd: [1, 5, 'x', true, null] } }, 'jb <@ \'[1, 5, "x", true, null]\''],
    [{ jb: { cs: { $value: { $col: 'n' } } } }, 'id = 8'],
    [{ jb: { cs: { $value: { a: 1 } } } }, 'jb @> \'{"a": 1}\''],
    [{ jb: { cs: { $col: 'n', tags: ['red'] } } }, 'id = 8'],
    [{ jb: { cs: { k: '$$x.y' } } }, 'false', 'none: the operand is an escaped string'],
    [{ jb: { cs: { $col: 'jb' } } }, 'jb is not null'],
    [{ jb: { not: { cs: { a: 1 } } } }, 'not jb @> \'{"a": 1}\''],
    [{ 'jb->a': { cs: { b: [10] } } }, 'id = 8'],
    [{ 'jb->items': { cs: [{ qty: 2 }] } }, 'id = 1'],
    [{ 'doc->items': { cd: [{ sku: 'p1', qty: 2 }, { sku: 'p2' }] } }, 'id = 1'],
    // keys
    [{ jb: { has_key: 'a' } }, "jb ? 'a'"],
    [{ jb: { has_key: 'x' } }, "jb ? 'x'"],
    [{ jb: { has_key: 'with space' } }, 'id = 2'],
    [{ jb: { has_key: '$$col' } }, 'id = 8'],
    [{ jb: { has_key: '0' } }, 'id = 8'],
    [{ jb: { has_key: 'quo"te' } }, 'id = 2'],
    [{ jb: { has_keys_any: ['k', 'tags'] } }, 'id in (1, 2, 8)'],
    [{ jb: { has_keys_any: ['a,b', '{a}', 'NULL', 'quo"te'] } }, 'id = 2'],
    [{ jb: { has_keys_all: ['a', 'k'] } }, 'id in (1, 2)'],
    [{ jb: { has_keys_all: ['a'] } }, "jb ? 'a'"],
    [{ jb: { not: { has_keys_any: ['a'] } } }, "not jb ? 'a'"],
    [{ jb: { not: { has_keys_all: ['a', 'k'] } } }, "not (jb ? 'a' and jb ? 'k')"],
    [{ 'jb->tags': { has_keys_all: ['red', 'blue'] } }, 'id = 8'],
    [{ 'jb->a': { has_key: 'b' } }, 'id = 8']
  ])
})

t.test('paths into JSON match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ 'jb->>a': { eq: '1' } }, "jb ->> 'a' = '1'"],
    [{ 'jb->>a': { eq: 1 } }, "jb ->> 'a' = '1'"],
    [{ 'jb->a': { eq: 1 } }, "jb -> 'a' = '1'"],
    [{ 'jb->a': { eq: '1' } }, "jb -> 'a' = '\"1\"'"],
    [{ 'jb->a': { neq: 1 } }, "jb -> 'a' <> '1'"],
    [{ 'jb->with space': { eq: true } }, "jb -> 'with space' = 'true'"],
    [{ 'jb->>with space': { eq: true } }, "jb ->> 'with space' = 'true'"],
    [{ 'jb->>quo"te': { eq: 1 } }, 'id = 2'],
    [{ 'jb->>a-b': { eq: 1 } }, 'id = 2'],
    [{ "jb->>it's": { eq: 1 } }, 'false', 'none'],
    [{ 'jb->items->0->>sku': { eq: 'p1' } }, 'id = 1'],
    [{ 'jb->tags->>-1': { eq: 'blue' } }, 'id = 8'],
    [{ 'jb->tags->-99999999999': { is: 'not_null' } }, 'false', 'none: no array is as long'],
    [{ 'jb->items->1->sku': { eq: 'p2' } }, 'id = 1'],
    [{ 'jb->items->0': { eq: { $value: { sku: 'p1', qty: 2 } } } }, 'id = 1'],
    [{ 'jb->items->0->qty': { gte: 2 } }, 'id = 1'],
    [{ 'jb->items->9': { is: null } }, 'true', 'all'],
    [{ 'jb->0': { eq: 1 } }, "jb -> 0 = '1'"],
    [{ 'jb->>1': { eq: 'x' } }, "jb ->> 1 = 'x'"],
    [{ 'jb->3->>a': { eq: 1 } }, 'id = 6'],
    [{ 'jb->a->b->2->>c': { like: 'deep%' } }, 'id = 8'],
    [{ 'jb->a->b': { cs: [20, 10] } }, 'id = 8'],
    [{ 'jb->k': { eq: { $value: 'x' } } }, 'id = 1'],
    [{ 'jb->$col': { eq: 'n' } }, 'id = 8'],
    [{ 'jb->tags': { has_key: 'red' } }, 'id = 8'],
    [{ 'doc->>a': { eq: '1' } }, "doc ->> 'a' = '1'"],
    [{ 'doc->items->0->>qty': { gt: '1' } }, 'id = 1'],
    [{ 'doc->a': { eq: 1 } }, "jb -> 'a' = '1'"],
    [{ 'doc->items': { cs: [{ sku: 'p2' }] } }, 'id = 1'],
    [{ 'jb->a': { gt: 0, lt: 2 } }, 'id = 1'],
    [{ 'jb->a': { eq: { $value: { b: [10, 20, { c: 'deep foxes' }] } } } }, 'id = 8']
  ])
})

t.test('combinators match the same rows as SQL', async t => {
  const deep = (inner: object, levels: number): object =>
    levels === 0 ? inner : deep({ [levels % 2 ? 'and' : 'or']: [inner] }, levels - 1)
  await sameRows(t, service, [
    [{ n: { not: { eq: 1 } } }, 'not n = 1'],
    [{ n: { not: { gt: 0, lt: 9 } } }, 'not (n > 0 and n < 9)'],
    [{ n: { not: { not: { eq: 1 } } } }, 'n = 1'],
    [{ n: { not: { in: [1, 2] }, gt: 0 } }, 'n not in (1, 2) and n > 0'],
    [{ n: { not: { nin: [1, 2] } } }, 'n in (1, 2)'],
    [{ n: { not: { not: { not: { gt: 1, lt: 9 } } }, gt: -5 } },
      'not (n > 1 and n < 9) and n > -5'],
    [{ ints: { not: { cs: [1] } } }, "not ints @> '{1}'"],
    [{ jb: { not: { has_key: 'a' } } }, "not jb ? 'a'"],
    [{ not: { n: { eq: 1 } } }, 'not n = 1'],
    [{ not: { n: { gt: 0 }, m: { gt: 1 } } }, 'not (n > 0 and m > 1)'],
    [{ not: { not: { n: { eq: 1 } } } }, 'n = 1'],
    [{ not: { n: { not: { eq: 1 } } } }, 'n = 1'],
    [{ or: [{ n: { eq: 1 } }, { m: { eq: 9 } }] }, 'n = 1 or m = 9'],
    [{ or: [{ n: { eq: 1 } }] }, 'n = 1'],
    [{ and: [{ n: { gt: 0 } }, { n: { lt: 9 } }] }, 'n > 0 and n < 9'],
    [{ or: [{ n: { gt: 0 }, m: { gt: 1 } }, { txt: { eq: '' } }] }, "n > 0 and m > 1 or txt = ''"],
    [{ n: { gt: 0 }, or: [{ m: { eq: 1 } }, { m: { eq: 9 } }] }, 'n > 0 and (m = 1 or m = 9)'],
    [{
      or: [{ n: { eq: 1 } }, { n: { eq: 2 } }],
      and: [{ m: { eq: 1 } }, { big: { gt: '9007199254740992' } }]
    }, 'id = 1'],
    [{ or: [{ n: { eq: 1 } }], not: { n: { eq: 2 } }, m: { gt: 0 } }, 'id = 1'],
    [{
      or: [{ and: [{ n: { eq: 1 } }, { m: { eq: 1 } }] }, {
        not: { or: [{ n: { gt: 0 } }, { txt: { eq: '' } }] }
      }]
    }, "(n = 1 and m = 1) or not (n > 0 or txt = '')"],
    [{ not: { or: [{ n: { is: null } }, { n: { gt: 0 } }] } }, 'n <= 0'],
    [{
      and: [{ or: [{ n: { eq: 1 } }, { n: { eq: 2 } }] }, {
        or: [{ m: { eq: 1 } }, { m: { eq: 2 } }]
      }]
    }, 'n in (1, 2) and m in (1, 2)'],
    [deep({ n: { eq: 1 } }, 10), 'n = 1'],
    [deep({ n: { not: { eq: 1 } } }, 9), 'n <> 1'],
    [JSON.stringify({ n: { eq: 1 } }).replace(/^/, '{"not":'.repeat(10)) + '}'.repeat(10), 'n = 1'],
    [{ n: { eq: 1 }, and: [{ n: { eq: 2 } }] }, 'false', 'none: the conditions are joined by AND'],
    [{ or: [{ eq: { gt: 8 } }, { eq: { eq: 1 } }] }, 'n > 8 or n = 1']
  ])
})

t.test('an operand or operator that does not fit the column is an error of PostgreSQL', async t => {
  const rows: ReadonlyArray<readonly [where: object, code: string]> = [
    [{ n: { like: '1%' } }, 'undefined_function'],
    [{ n: { eq: 'x' } }, 'invalid_text_representation'],
    [{ n: { in: [1, 'x'] } }, 'invalid_text_representation'],
    [{ mood: { eq: 'angry' } }, 'invalid_text_representation'],
    [{ txt: { match: '(' } }, 'invalid_regular_expression'],
    [{ nope: { eq: 1 } }, 'undefined_column'],
    [{ n: { eq: { $col: 'nope' } } }, 'undefined_column'],
    [{ n: { is: true } }, 'datatype_mismatch'],
    [{ doc: { eq: { $value: {} } } }, 'undefined_function'],
    [{ txt: { like: 'a\\' } }, 'invalid_escape_sequence'],
    [{ day: { between: ['2024-02-30', 'infinity'] } }, 'datetime_field_overflow'],
    [{ 'nope->>a': { eq: 1 } }, 'undefined_column'],
    [{ n: { has_key: 'a' } }, 'undefined_function'],
    [{ 'jb->>a': { cs: ['x'] } }, 'undefined_function'],
    [{ ints: { eq: { $value: ['x'] } } }, 'invalid_text_representation']
  ]
  const select = { op: 'select', table: 'things' }
  for (const [where, code] of rows) {
    const { status, body } = await service.post(
      [{ id: 'a', ...select }, { id: 'o', ...select, where }]
    )
    t.match({ status, error: body.error }, {
      status: 400, error: { type: 'execution_error', code, committed: false, op: 'o', index: 1 }
    }, JSON.stringify(where))
  }
})

t.test('filters use the expected indexes', async t => {
  const { sql } = await useDatabase(t, {
    schema: `
      create table many (id int constraint many_id primary key, grp int, label text, tags int[],
        data jsonb, tsv tsvector, span int4range);
      insert into many select i, i % 500, 'label ' || i, array[i, i % 100],
        jsonb_build_object('sku', 's' || i, 'n', i, 'k' || i % 1000, true), to_tsvector('simple',
        'word' || i), int4range(i, i + 1) from generate_series(1, 30000) as i;
      create index many_label on many (label); create index many_grp on many (grp);
        create index many_tags on many using gin (tags); create index many_data on many
        using gin (data);
      create index many_sku on many ((data ->> 'sku')); create index many_n on many ((data -> 'n'));
        create index many_tsv on many using gin (tsv); create index many_span on many
        using gist (span); create index many_words on many using gin (to_tsvector('simple', label));
        create index many_text on many using gin (to_tsvector('english', data));
      create table one (n int, label text, tags int[], doc jsonb, word text);
      insert into one values (7, 'label 7', '{7}', '{"sku": "s7"}', 'word7');
      grant all on many, one to oneflight_user;
      analyze many;
    `
  })
  const rows: ReadonlyArray<readonly [where: object, index: string]> = [
    [{ id: { eq: 7 } }, 'many_id'],
    [{ id: { eq: '$one.n' } }, 'many_id'],
    [{ id: { in: [7, 8, 9] } }, 'many_id'],
    [{ id: { in: [7, '$one.n'] } }, 'many_id'],
    [{ id: { in: '$one.*.n' } }, 'many_id'],
    [{ id: { between: [7, 9] } }, 'many_id'],
    [{ id: { between: ['$one.n', 9] } }, 'many_id'],
    [{ id: { gte: '$one.n', lt: 9 } }, 'many_id'],
    [{ id: { eq: { any: [7, 8] } } }, 'many_id'],
    [{ label: { eq: 'label 7' } }, 'many_label'],
    [{ label: { eq: '$one.label' } }, 'many_label'],
    [{ label: { in: '$one.*.label' } }, 'many_label'],
    [{ label: { like: 'label 2999%' } }, 'many_label'],
    [{ grp: { is: null } }, 'many_grp'],
    [{ or: [{ id: { eq: 7 } }, { id: { eq: '$one.n' } }] }, 'many_id'],
    [{ not: { not: { id: { eq: 7 } } } }, 'many_id'],
    [{ and: [{ label: { eq: 'label 7' } }] }, 'many_label'],
    [{ tags: { cs: [7] } }, 'many_tags'],
    [{ tags: { cs: '$one.tags' } }, 'many_tags'],
    [{ tags: { ov: [-7, 4999] } }, 'many_tags'],
    [{ data: { cs: { sku: 's7' } } }, 'many_data'],
    [{ data: { cs: '$one.doc' } }, 'many_data'],
    [{ data: { cs: { sku: '$one.doc' } } }, 'many_data'],
    [{ data: { has_key: 'k7' } }, 'many_data'],
    [{ data: { has_keys_any: ['k7', 'k8'] } }, 'many_data'],
    [{ 'data->>sku': { eq: 's7' } }, 'many_sku'],
    [{ 'data->>sku': { in: ['s7', 's8'] } }, 'many_sku'],
    [{ 'data->>sku': { eq: '$one.label' } }, 'many_sku'],
    [{ 'data->n': { eq: 7 } }, 'many_n'],
    [{ tsv: { fts: 'word7' } }, 'many_tsv'],
    [{ tsv: { plfts: { query: 'word7', config: 'simple' } } }, 'many_tsv'],
    [{ tsv: { fts: '$one.word' } }, 'many_tsv'],
    [{ label: { plfts: { query: '77', config: 'simple' } } }, 'many_words'],
    [{ data: { plfts: { query: 's7', config: 'english' } } }, 'many_text'],
    [{ span: { cs: '[7,8)' } }, 'many_span'],
    [{ span: { ov: '[7,9)' } }, 'many_span']
  ]
  const limits = {
    schemas: ['public'] as const,
    maxRows: 10_000,
    maxBytes: 2 ** 20,
    maxConditions: 1000
  }
  const types = new ColumnTypes()
  for (const [where, index] of rows) {
    const batch = [op.select('one', 'one'), op.select('s', 'many', { where })]
    const plan = planBatch(
      parseJson(Buffer.from(JSON.stringify(batch))) as unknown as Batch, limits
    )
    const [row] = await sql.unsafe(render(columnTypesQuery(plan.tables)).text)
    types.remember(JSON.stringify(row?.['coalesce']))
    const [source, reader] = compile(plan, {
      ...limits,
      findColumns: table => types.lookup(table)
    }).map(statement => fillStatement(statement, []))
    const session = sessionStatement({ role: 'oneflight_user', claims: '{}', requestId: 'x' }, {
      schemas: ['public'], statementTimeoutMs: 5000, lockTimeoutMs: 5000, idleTimeoutMs: 5000
    })
    if (source === undefined || reader === undefined) {
      throw new Error('a batch of two operations has two statements')
    }
    const call = `execute p (${
      reader.parameters.map(value => `'${String(value).replaceAll("'", "''")}'`).join()
    })`
    const queryPlan = await sql.begin(async sql => {
      await sql.unsafe(session.text, [...session.parameters])
      await sql.unsafe(source.text, [...source.parameters])
      await sql.unsafe(`prepare p as ${reader.text}`)
      // After five executions PostgreSQL may switch to a generic plan, as on a connection of the
      // service.
      for (let i = 0; i < 6; i++) await sql.unsafe(call)
      const [row] = await sql.unsafe(`explain (format json) ${call}`)
      await sql.unsafe('deallocate p')
      return JSON.stringify(row)
    })
    t.ok(
      queryPlan.includes(`"Index Name":"${index}"`),
      `${JSON.stringify(where)} by ${index}${
        queryPlan.includes(index) ? '' : `: ${queryPlan.slice(0, 1500)}`
      }`
    )
  }
})
