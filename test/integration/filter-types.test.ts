/** Tests filters on arrays, JSON and ranges: containment, overlap, position and keys. */
import t from 'tap'
import { sameRows, thingsSchema } from '../support/database/same-rows.ts'
import { useService } from '../support/service.ts'

t.test('array filters match the same rows as SQL', async t => {
  const service = await useService(t, { schema: thingsSchema })
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
  const service = await useService(t, { schema: thingsSchema })
  const operators = {
    cs: '@>',
    cd: '<@',
    ov: '&&',
    sl: '<<',
    sr: '>>',
    nxr: '&<',
    nxl: '&>',
    adj: '-|-'
  } as const
  const literalsByColumn = Object.entries({
    span: ['[4,6)', '[1,5)', '(,0]', '[5,5]', '(11,)'],
    period: [
      '[2024-01-16Z,2024-01-17Z)',
      '[2024-02-01T01:00:00+01,)',
      '(,2024-01-01Z)',
      '["2024-03-01 00:00:00+00",2024-03-02Z)'
    ]
  })
  for (const [column, literals] of literalsByColumn) {
    await sameRows(
      t,
      service,
      literals.flatMap(literal =>
        Object.entries(operators).map(([name, operator]) =>
          [
            { [column]: { [name]: literal } },
            `${column} ${operator} '${literal}'`,
            'perhaps none'
          ] as const
        )
      )
    )
  }
  await sameRows(t, service, [
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
    [
      { period: { cs: '[2024-01-16Z,2024-01-17Z)' } },
      "period @> '[2024-01-16Z,2024-01-17Z)'::tstzrange"
    ],
    [{ period: { adj: '[2024-02-01Z,2024-03-01Z)' } }, "period -|- '[2024-02-01Z,2024-03-01Z)'"],
    [{ n: { cd: { $col: 'span' } } }, 'n <@ span'],
    [{ span: { cs: { $col: 'm' } } }, 'span @> m'],
    [{ span: { not: { ov: '[4,6)' } } }, "not span && '[4,6)'"]
  ])
})

t.test('JSON filters match the same rows as SQL', async t => {
  const service = await useService(t, { schema: thingsSchema })
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
    [
      { jb: { cd: { a: '1', k: null, 'with space': true, 'quo"te': 1, 'a-b': 1, more: 5 } } },
      'id in (2, 3)'
    ],
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
