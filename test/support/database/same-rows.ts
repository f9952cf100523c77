/**
 * Compares filters with SQL conditions of the same meaning, on a table with nearly every kind of
 * column. Each filter must match the same rows as its condition in a select, an update and a
 * delete.
 */
import type { Test } from 'tap'
import type { ServiceUnderTest } from '../service.ts'

/**
 * `filter` is JSON text if JavaScript would lose digits. It must match some rows but not all,
 * unless `why` explains why not.
 */
export type FilterRow = readonly [filter: object | string, condition: string, why?: string]

/** The table `things` and its copy `doomed`, where a trigger inserts deleted rows again. */
export const thingsSchema = `
  create type mood as enum ('sad', 'ok', 'happy');
  create domain positive as int check (value > 0);
  create table things (
    id int primary key, mark int, n int, m int, big bigint, num numeric(6,2), txt text, other text,
    vc varchar(8), ch char(4), ts timestamptz, uid uuid, mood mood, pos positive, raw bytea,
    ints int[], texts text[], jb jsonb, span int4range, doc json, tsv tsvector,
    "We""ird Col" int, "x.y" int, "eq" int);
  insert into things (id, n, m, big, num, txt, other, vc, ch, ts, uid, mood, pos, raw, ints, texts,
    jb, span) values
    (1, 1, 1, 9007199254740993, 1.10, 'apple', 'apple', 'red', 'ab',
      '2024-01-01T00:00:00.000001Z', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'sad', 1, '\\x00ff',
      '{1,2,3}', '{red,green}',
      '{"a": 1, "k": "x", "items": [{"sku": "p1", "qty": 2}, {"sku": "p2"}]}', '[1,5)'),
    (2, 2, 1, 9007199254740992, 1.11, 'Apple pie', 'apple', 'RED', 'abc',
      '2024-01-01T00:00:00Z', 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', 2, '\\x00', '{3,4}',
      '{green,blue}', '{"a": "1", "k": null, "with space": true, "quo\\"te": 1, "a-b": 1}',
      '[5,10)'),
    (3, 3, 5, -9223372036854775808, -1.00, 'banana', 'split', 'blue', 'b', '2024-06-01T12:00:00Z',
      'c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'happy', 3, '', '{}', '{}', '{}', 'empty'),
    (4, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
      null, null),
    (5, 0, 0, 0, 0, '', '', '', '', '-infinity', '00000000-0000-0000-0000-000000000000', null, 5,
      '\\x01', '{NULL}', '{NULL,""}', 'null', '(,0]'),
    (6, -5, 3, 42, 9999.99, 'ünïcödé 😀 100%', 'a_b\\d', 'Ünï', '😀',
      '2024-01-01T01:00:00.000003+01:00', 'd0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'sad', 6,
      '\\xdeadbeef', '{1,NULL,3}', '{ünï,"a,b","{x}"}', '[1, "x", null, {"a": 1}]', '[1,5]'),
    (7, 2147483647, 2147483647, 7, 'NaN', 'The quick brown foxes jumped over lazy dogs', 'fox',
      'fox', 'fox', '2024-01-01T00:00:00.000002Z', 'e0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'happy',
      7, '\\x61', '{7}', '{"The quick"}', '"x"', '[3,3]'),
    (8, 8, 9, 8, 8.00, '$src.0.id', 'src', '$5.00', 'null', '2025-01-01T00:00:00Z',
      'f0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ok', 8, '\\x62', '{2,1}', '{red}',
      '{"$col": "n", "a": {"b": [10, 20, {"c": "deep foxes"}]}, "0": "zero",'
        ' "tags": ["red", "blue"]}', '[20,30)'),
    (9, 9, 9, 9, 1.1, 'O''Brien "quoted" \\', 'o', 'x', 'x', '2024-01-01T00:00:00Z',
      'f1eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'sad', 9, '\\x63', '{1}', '{x}', '5', '[10,20)'),
    (10, 10, -10, 10, 10, 'true', 'null', 'y', 'y', '2024-01-01T00:00:00Z',
      'f2eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'sad', 10, '\\x64', '{10}', '{y}', 'true', '[11,12)');
  update things set doc = jb::text::json, tsv = to_tsvector('english', txt),
    "We""ird Col" = n, "x.y" = n, "eq" = n;
  create table doomed (like things);
  insert into doomed select * from things;
  create function come_back() returns trigger language plpgsql
    as 'begin insert into doomed select old.*; return null; end';
  create trigger come_back after delete on doomed for each row execute function come_back();
`

/** The number of filters that fit into a batch of 100 operations. */
const PER_BATCH = 33

/** Checks each filter in a select, an update and a delete against its condition. */
export async function sameRows (
  t: Test,
  service: ServiceUnderTest,
  rows: readonly FilterRow[]
): Promise<void> {
  const [allIds = []] = await matchingIds(service, ['true'])
  for (let start = 0; start < rows.length; start += PER_BATCH) {
    const part = rows.slice(start, start + PER_BATCH)
    const wheres = part.map(([filter]) =>
      typeof filter === 'string' ? filter : JSON.stringify(filter)
    )
    const conditions = part.map(([, condition]) => condition)
    const matching = await matchingIds(service, conditions)
    const operations = wheres.map((where, i) =>
      `{"id":"s${i}","op":"select","table":"things","where":${where}},
      {"id":"u${i}","op":"update","table":"things","set":{"mark":1},"where":${where}},
      {"id":"d${i}","op":"delete","table":"doomed","where":${where}}`
    )
    const { body, text } = await service.post(`[${operations.join()}]`)
    for (const [i, [, condition, why]] of part.entries()) {
      const expected = matching[i] ?? []
      const actual = body.error === null
        ? ['s', 'u', 'd'].map(kind => ids(body.data[`${kind}${i}`]))
        : text
      const name = encodeURI(`${wheres[i]} ${why ?? ''}`)
      t.strictSame(actual, [expected, expected, expected], name)
      if (why === undefined) {
        t.ok(
          expected.length > 0 && expected.length < allIds.length,
          encodeURI(`${condition} matches some rows but not all`)
        )
      }
    }
  }
}

/** The ids of the rows that each condition matches. */
async function matchingIds (
  service: ServiceUnderTest,
  conditions: readonly string[]
): Promise<number[][]> {
  const queries = conditions.map((condition, i) =>
    `select ${i} as i, array(select id from things where ${condition} order by id) as ids`
  )
  const rows = await service.database.sql.unsafe<Array<{ ids: number[] }>>(
    `${queries.join(' union all ')} order by i`
  )
  return rows.map(({ ids }) => ids)
}

export function ids (rows: ReadonlyArray<{ readonly id: number }>): number[] {
  return rows.map(({ id }) => id).sort((a, b) => a - b)
}
