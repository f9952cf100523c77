/**
 * Tests that filters match the same rows as the same condition in SQL (comparisons, patterns,
 * lists, containment, ranges, keys, paths) where the random batches of the model have no such type
 * or operand, and that they use indexes.
 */
import t from 'tap'
import { differsOneByOne } from '../support/environment.ts'
import * as op from '../support/operations.ts'
import { sameRows, thingsSchema, type FilterRow } from '../support/database/same-rows.ts'
import { useService } from '../support/service.ts'

const service = await useService(t, { schema: thingsSchema })
const comparisons = { eq: '=', neq: '<>', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const
const others = Object.entries(comparisons).slice(1)

t.test('comparisons use the type of the column', async t => {
  /** Operands, as JSON and as SQL, lie between stored values: each comparison matches some rows. */
  const operands: ReadonlyArray<readonly [column: string, operand: string, literal: string]> = [
    ['n', '"2"', '2'],
    ['n', '2.0', '2'],
    ['big', '9007199254740992', '9007199254740992'],
    ['num', '1.1000', '1.1'],
    ['txt', '"$$src.0.id"', "'$src.0.id'"],
    ['ch', '"ab"', "'ab'"],
    ['mood', '"ok"', "'ok'"],
    ['pos', '5', '5'],
    ['ts', '"2024-01-01T00:00:00.000001Z"', "'2024-01-01T00:00:00.000001Z'"],
    ['ints', '{"$value":[1,2,3]}', "'{1,2,3}'"],
    ['jb', '{"$value":{"items":[{"qty":2,"sku":"p1"},{"sku":"p2"}],"k":"x","a":1.0}}',
      '\'{"a": 1, "k": "x", "items": [{"sku": "p1", "qty": 2}, {"sku": "p2"}]}\''],
    ['jb', '5', "'5'"],
    ['"x.y"', '2', '2']
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
    [{ 'We"ird Col': { gt: 1 } }, '"We""ird Col" > 1'],
    [{ num: { eq: 1.104 } }, 'num = 1.104',
      'none: an operand is not rounded to the scale of the column'],
    [{ vc: { eq: 'red but longer than eight' } }, 'false',
      'none: an operand is not cut to the length of the column'],
    [{ or: [{ eq: { gt: 8 } }, { eq: { eq: 1 } }] }, 'n > 8 or n = 1']
  ])
})

t.test('an operand that its column refuses has a path', async t => {
  const from = { table: 'things', on: { n: 'n' }, where: { n: { eq: 'x' } } }
  const page = { order: [{ n: 'asc' }, { big: 'asc' }], after: [1, 'x'] }
  const counted = { columns: [{ fn: 'max', column: 'n', as: 'most' }] }
  const refused: ReadonlyArray<readonly [operation: object, ...path: unknown[]]> = [
    [{ where: { n: { gt: 0.5 } } }, 'where', 'n', 'gt'],
    [{ where: { n: { in: [1, 'x'] } } }, 'where', 'n', 'in'],
    [{ where: { n: { eq: { any: ['x'] } } } }, 'where', 'n', 'eq', 'any'],
    [{ where: { n: { between: [1, 'x'] } } }, 'where', 'n', 'between', 1],
    [{ where: { ints: { cs: [[{}]] } } }, 'where', 'ints', 'cs', 0, 0],
    [{ where: { txt: { not: { imatch: '(' } } } }, 'where', 'txt', 'not', 'imatch'],
    [{ where: { txt: { ilike: 'a%\\' } } }, 'where', 'txt', 'ilike'],
    [{ where: { or: [{ n: { eq: 1 } }, { not: { n: { eq: 'x' } } }] } }, 'where', 'or', 1, 'not',
      'n', 'eq'],
    [{ where: { exists: { table: 'things', on: { n: 'n' }, where: { big: { eq: 'x' } } } } },
      'where', 'exists', 'where', 'big', 'eq'],
    [{ ...counted, having: { most: { eq: 'x' } } }, 'having', 'most', 'eq'],
    [page, 'after', 1],
    [{ op: 'update', set: { txt: 'a' }, from }, 'from', 'where', 'n', 'eq']
  ]
  for (const [operation, ...path] of refused) {
    const answer = await service.post([op.select('s', 'things', operation)])
    t.match(answer.body.error, { op: 's', committed: false }, JSON.stringify(operation))
    t.strictSame(answer.body.error.path, path, JSON.stringify(operation))
  }
})

t.test('a column of the same row can be an operand', async t => {
  await sameRows(t, service, [
    [{ n: { eq: { $col: 'We"ird Col' }, lt: { $col: 'num' } } }, 'n = "We""ird Col" and n < num'],
    [{ txt: { like: { $col: 'other' } } }, 'txt like other'],
    [{ span: { cs: { $col: 'n' } } }, 'span @> n']
  ])
})

t.test('lists and bounds match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ ch: { like: 'ab' } }, "ch like 'ab'", 'none: the column is padded'],
    [{ n: { in: [1, 2, '8', 77] } }, 'n in (1, 2, 8, 77)'],
    [{ txt: { nin: ['NULL', '{}', 'a,b', 'banana'] } },
      "txt not in ('NULL', '{}', 'a,b', 'banana')"],
    [{ txt: { in: ['$$src.0.id', '$5.00', 'true'] } }, "txt in ('$src.0.id', 'true')"],
    [{ txt: { in: [true, 5] } }, "txt = 'true'"],
    ['{"big":{"in":[9007199254740993, 42]}}', 'big in (9007199254740993, 42)'],
    ['{"num":{"in":[1.10,8.000]}}', 'num in (1.1, 8)'],
    [{ mood: { in: ['sad', 'happy'] } }, "mood in ('sad', 'happy')"],
    [{ 'jb->>a': { in: ['1', 'x'] } }, "jb ->> 'a' in ('1', 'x')"],
    [{ n: { in: Array.from({ length: 5000 }, (_, i) => i + 1) } }, 'n between 1 and 5000'],
    [{ n: { between: [8, 1] } }, 'false', 'none: the bounds are not sorted']
  ])
})

t.test('array filters match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ ints: { cs: [1, 3] } }, "ints @> '{1,3}'"],
    [{ ints: { cs: [] } }, 'ints is not null'],
    [{ ints: { cs: [null] } }, "ints @> '{null}'", 'none: NULL is contained in nothing'],
    [{ ints: { cd: [] } }, "ints = '{}'"],
    [{ ints: { ov: [] } }, 'false', 'none'],
    [{ texts: { cs: ['a,b', '{x}'] } }, 'id = 6'],
    [{ texts: { ov: ['$$x.y', '', 'ünï'] } }, "texts && array['', 'ünï']"],
    [{ ints: { cs: { $value: [1] } } }, "ints @> '{1}'"],
    [{ ints: { cs: { $col: 'ints' } } }, 'ints @> ints']
  ])
})

t.test('range filters match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ span: { sl: '[5,10)' } }, "span << '[5,10)'"],
    [{ span: { sr: '[1,5)' } }, "span >> '[1,5)'"],
    [{ span: { nxr: '[1,5)' } }, "span &< '[1,5)'"],
    [{ span: { nxl: '[5,10)' } }, "span &> '[5,10)'"],
    [{ span: { adj: '[5,10)' } }, "span -|- '[5,10)'"],
    [{ span: { ov: '[4,6)' } }, "span && '[4,6)'"],
    [{ span: { cd: '[0,11)' } }, "span <@ '[0,11)'"],
    [{ span: { cs: '[3,4)' } }, "span @> '[3,4)'"],
    [{ span: { cs: 'empty' } }, 'span is not null']
  ])
})

t.test('JSON filters match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ jb: { cs: { k: null } } }, 'id = 2'],
    [{ jb: { cs: [1, null] } }, 'id = 6'],
    [{ jb: { cd: { a: '1', k: null, 'with space': true, 'quo"te': 1, 'a-b': 1, more: 5 } } },
      'id in (2, 3)'],
    [{ jb: { cs: { $value: { $col: 'n' } } } }, 'id = 8'],
    [{ jb: { cs: { $col: 'n', tags: ['red'] } } }, 'id = 8'],
    [{ jb: { cs: { k: '$$x.y' } } }, 'false', 'none: the operand is an escaped string'],
    [{ jb: { cs: { $col: 'jb' } } }, 'jb is not null'],
    [{ jb: { has_key: '$$col' } }, 'id = 8'],
    [{ jb: { has_keys_any: ['a,b', '{a}', 'NULL', 'quo"te'] } }, 'id = 2'],
    [{ jb: { not: { has_keys_any: ['a'] } } }, "not jb ? 'a'"]
  ])
})

t.test('a text that is not JSON is refused where it stands', async t => {
  const repair = /^Column "jb": .*\. It is read as .* For a string of JSON, write {"\$value": /
  for (const [operator, operand, ...steps] of [
    ['eq', 'x y'], ['in', ['1', 'x']], ['neq', { all: ['x\n$9'] }, 'all']
  ] as const) {
    const { body } = await service.post([
      op.select('s', 'things', {
        where: { or: [{ id: { eq: 1 } }, { jb: { [operator]: operand } }] }
      })
    ])
    t.match(body.error, {
      code: 'invalid_text_representation',
      path: ['where', 'or', 1, 'jb', operator, ...steps],
      message: repair
    })
  }
})

t.test('paths into JSON match the same rows as SQL', async t => {
  await sameRows(t, service, [
    [{ 'jb->a': { eq: '1' } }, "jb -> 'a' = '\"1\"'"],
    [{ 'jb->items->0->>sku': { eq: 'p1' } }, 'id = 1'],
    [{ 'jb->tags->-99999999999': { is: 'not_null' } }, 'false', 'none: no array is as long'],
    [{ 'jb->items->9': { is: null } }, 'true', 'all'],
    [{ 'jb->0': { eq: 1 } }, "jb -> 0 = '1'"],
    [{ 'doc->>a': { eq: '1' } }, "doc ->> 'a' = '1'"]
  ])
})

const noValue = differsOneByOne('a plan has no value for a reference')
t.test('filters use the expected indexes', noValue, async t => {
  const service = await useService(t, {
    env: { EXPLAIN: 'on' },
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
      analyze many;
    `
  })
  const rows: ReadonlyArray<readonly [where: object, index: string]> = [
    [{ id: { eq: 7 } }, 'many_id'],
    [{ id: { eq: '$one.n' } }, 'many_id'],
    [{ id: { in: [7, '$one.n'] } }, 'many_id'],
    [{ id: { between: [7, 9] } }, 'many_id'],
    [{ id: { between: ['$one.n', 9] } }, 'many_id'],
    [{ id: { gte: '$one.n', lt: 9 } }, 'many_id'],
    [{ label: { like: 'label 2999%' } }, 'many_label'],
    [{ not: { not: { id: { eq: 7 } } } }, 'many_id'],
    [{ tags: { cs: [7] } }, 'many_tags'],
    [{ tags: { cs: '$one.tags' } }, 'many_tags'],
    [{ data: { cs: { sku: 's7' } } }, 'many_data'],
    [{ data: { cs: '$one.doc' } }, 'many_data'],
    [{ data: { cs: { sku: '$one.doc' } } }, 'many_data'],
    [{ data: { has_key: 'k7' } }, 'many_data'],
    [{ 'data->>sku': { eq: 's7' } }, 'many_sku'],
    [{ 'data->>sku': { eq: '$one.label' } }, 'many_sku'],
    [{ 'data->n': { eq: 7 } }, 'many_n'],
    [{ tsv: { fts: 'word7' } }, 'many_tsv'],
    [{ tsv: { fts: '$one.word' } }, 'many_tsv'],
    [{ label: { plfts: { query: '77', config: 'simple' } } }, 'many_words'],
    [{ data: { plfts: { query: 's7', config: 'english' } } }, 'many_text'],
    [{ span: { cs: '[7,8)' } }, 'many_span']
  ]
  const headers = { prefer: 'explain' }
  for (const [where, index] of rows) {
    const batch = [op.select('one', 'one'), op.select('s', 'many', { where })]
    const { body, text } = await service.post(batch, { headers })
    const found = JSON.stringify(body.data?.s).includes(`"Index Name":"${index}"`)
    t.ok(found, `${JSON.stringify(where)} by ${index}${found ? '' : `: ${text}`}`)
  }
})
