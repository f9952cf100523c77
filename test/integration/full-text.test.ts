/** Tests full-text search on tsvector columns, and on text and JSON with a configuration. */
import t from 'tap'
import { sameRows, thingsSchema, type FilterRow } from '../support/database/same-rows.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'

const schema = `${thingsSchema};
  alter table things add class regclass, add kind regtype, add role regrole;
  create domain note as jsonb;
  create table notes (id int primary key, j json, b jsonb, d note, v text);
  insert into notes values
    (1, '{"a": "ripe pears"}', '{"a": "ripe pears"}', '["ripe pears"]', 'ripe pears'),
    (2, '{"ripe": "apples"}', '["apples", 1]', '"apples"', 'apples');
  create index on notes using gin (to_tsvector('english', b));`
const service = await useService(t, { schema })

const functions = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery'
} as const

t.test('every operator works with and without a configuration', async t => {
  const columns: ReadonlyArray<readonly [key: string, vector: (config: string) => string]> = [
    ['tsv', () => 'tsv'],
    ['txt', config => `to_tsvector(${config}txt)`],
    ['jb->>k', config => `to_tsvector(${config}jb ->> 'k')`],
    ['jb->a', config => `to_tsvector(${config}jb -> 'a')`],
    ['doc', config => `to_tsvector(${config}doc)`]
  ]
  await sameRows(t, service, columns.flatMap(([column, vector]) =>
    Object.entries(functions).flatMap(([name, fn]): FilterRow[] => {
      const query = 'foxes'
      const plain = `${vector('')} @@ ${fn}('${query}')`
      return [
        [{ [column]: { [name]: query } }, plain, 'perhaps none'],
        [{ [column]: { [name]: { query } } }, plain, 'perhaps none'],
        ...['english', 'pg_catalog.german'].map((config): FilterRow => [
          { [column]: { [name]: { query, config } } },
          `${vector(`'${config}', `)} @@ ${fn}('${config}', '${query}')`,
          'perhaps none'
        ])
      ]
    })))
})

t.test('queries match the same rows as SQL', async t => {
  const config = 'english'
  await sameRows(t, service, [
    [{ txt: { fts: { query: 'foxes & dog', config } } }, 'id = 7'],
    [{ txt: { wfts: { query: '"lazy dog" or banana', config } } }, 'id in (3, 7)'],
    [{ txt: { fts: { query: 'fox', config: 'simple' } } }, 'false', 'none'],
    [{ txt: { fts: { query: 'foxes', config: 'simple' } } }, 'id = 7'],
    [
      { txt: { plfts: { query: '$$src.0.id', config: 'simple' } } },
      "to_tsvector('simple', txt) @@ plainto_tsquery('simple', '$src.0.id')"
    ],
    [{ 'jb->a->b->2->>c': { phfts: { query: 'deep fox', config } } }, 'id = 8'],
    [{ 'doc->>k': { fts: 'x' } }, 'id = 1']
  ])
})

t.test('errors of PostgreSQL are reported', async t => {
  const rows: ReadonlyArray<
    readonly [where: object, code: string | RegExp, ...path: readonly string[]]
  > = [
    [{ tsv: { fts: 'a &' } }, 'syntax_error', 'tsv', 'fts'],
    [{ txt: { fts: 'a b' } }, 'syntax_error', 'txt', 'fts'],
    [{ txt: { fts: 'a b' }, tsv: { fts: 'a' } }, 'syntax_error'],
    [{ txt: { fts: { query: 'a', config: 'xx' } } }, 'undefined_object', 'txt', 'fts', 'config'],
    [{ tsv: { plfts: { query: 'a', config: "english'; --" } } }, /./, 'tsv', 'plfts', 'config'],
    [{ txt: { wfts: { query: 'a', config: '' } } }, /./, 'txt', 'wfts', 'config'],
    [{ class: { fts: 'things' } }, 'cannot_coerce'],
    [{ role: { fts: 'postgres' } }, 'cannot_coerce']
  ]
  for (const [where, code, ...path] of rows) {
    const answer = await service.post([op.select('o', 'things', { where })])
    const expected = failed(400, code, { type: 'execution_error', op: 'o' })
    t.match(answer, expected, JSON.stringify(where))
    const { path: found } = answer.body.error
    t.strictSame(found, path.length === 0 ? undefined : ['where', ...path], JSON.stringify(where))
  }
})

t.test('a number is no name of a configuration', async t => {
  for (const config of ['0', '9'.repeat(1000), '-']) {
    const where = { txt: { fts: { query: 'a', config } } }
    const answer = await service.post([op.select('o', 'things', { where })])
    t.match(answer, failed(422, 'validation_failed'))
    t.match(answer.body.error.errors, [{
      path: ['where', 'txt', 'fts', 'config'],
      message: /the name of a text search configuration, such as english/
    }])
  }
})

t.test('whole json and jsonb columns are searched', async t => {
  const search = (column: string): object => op.select(column, 'notes', {
    columns: ['id'], where: { [column]: { plfts: { query: 'ripe pear', config: 'english' } } }
  })
  const { body, text } = await service.post(['j', 'b', 'd', 'v'].map(search))
  t.same(body.data, Object.fromEntries(['j', 'b', 'd', 'v'].map(id => [id, [{ id: 1 }]])), text)
})
