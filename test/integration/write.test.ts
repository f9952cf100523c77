/**
 * Tests that types are read from the catalogue as trees, and that PostgreSQL reads the texts that
 * are written for random values as the JSON that was sent. values.test.ts has a table of values.
 */
import fc from 'fast-check'
import t from 'tap'
import { nameOf, type Type } from '../../src/catalogue/type.ts'
import { constant, render, sql as write, type Fragment } from '../../src/fragment/fragment.ts'
import type { Json } from '../../src/json/parse.ts'
import {
  ColumnTypes,
  columnTypesQuery,
  type TableColumns
} from '../../src/sql/values/column-types.ts'
import { isIssue, write as writeValue } from '../../src/values/write.ts'
import { useDatabase, type Database } from '../support/database/database.ts'

const schema = `
  create extension citext;
  create extension hstore;
  create schema other;
  create type mood as enum ('sad', 'so so', 'ä"''\\');
  create type other.color as enum ('red');
  create type inner_pair as (x int, "y Z" numeric(10, 2), tags text[]);
  create type outer_pair as (p inner_pair, list inner_pair[], m mood, j jsonb);
  create domain cents as numeric(10, 2);
  create domain amounts as cents[];
  create domain some_amounts as amounts;
  create domain pair_domain as inner_pair;
  create type floats as range (subtype = float8, multirange_type_name = manyfloats);
  create type dropped as (a int, b int, c text);
  alter type dropped drop attribute b;
  create table node (id int, doubled int generated always as (id * 2) stored, p inner_pair[]);`

const types = [
  'int2', 'int8', 'oid', 'numeric', 'numeric(6,3)', 'float4', 'float8', 'bool', 'text', 'char(3)',
  'varchar(3)', 'citext', '"char"', 'uuid', 'date', 'time', 'time(0)', 'timetz', 'timestamp',
  'timestamptz', 'timestamptz(3)', 'interval', 'interval minute', 'interval year to month',
  'interval minute to second', 'interval second(2)', 'bytea', 'json', 'jsonb', 'money', 'inet',
  'macaddr', 'bit(3)', 'varbit(5)', 'xml', 'tsvector', 'tsquery', 'jsonpath', 'pg_lsn', 'xid8',
  'point', 'lseg', 'box', 'path', 'int4range', 'tsrange', 'floats', 'int4multirange', 'manyfloats',
  'mood', 'hstore', 'cents', 'some_amounts', 'some_amounts[]', 'int[]', 'text[]',
  'interval minute[]', 'jsonb[]', 'mood[]', 'box[]', 'hstore[]', 'inner_pair', 'pair_domain',
  'outer_pair', 'outer_pair[]', 'dropped', 'node', 'other.color'
]

const table = { schema: 'public', name: 'typed' }
const createTable = `create table typed (${types.map((type, i) => `c${i} ${type}`).join(', ')});`

async function readTable ({ sql }: Database, name = 'typed'): Promise<TableColumns> {
  const known = new ColumnTypes()
  const query = render(columnTypesQuery([{ ...table, name }])).text
  const [row] = await sql.unsafe(`select (${query})::text as text`)
  known.remember(row?.['text'] as string)
  return known.lookup({ ...table, name }) as TableColumns
}

function literal (value: Json, tree: Type, type: Fragment): string {
  const text = writeValue(value, tree)
  if (isIssue(text)) throw new Error(JSON.stringify(text))
  return text === null ? 'null' : render(write`${constant(text)}::${type}`).text
}

t.test('a type has the name that PostgreSQL gives it', async t => {
  const database = await useDatabase(t, { schema: schema + createTable })
  const columns = await readTable(database)
  const named = await database.sql<Array<{ column: string, name: string }>>`
    select attname as column, format_type(atttypid, atttypmod) as name from pg_attribute
    where attrelid = 'typed'::regclass and attnum > 0 order by attnum`
  t.equal(named.length, types.length)
  for (const { column, name } of named) {
    const tree = columns.get(column)?.type as Type
    t.equal(nameOf(tree), name)
    t.equal(tree.sql === undefined, name === 'other.color')
  }
})

/** Texts from which PostgreSQL drops a part without an error, and what it stores instead. */
const dropped: ReadonlyArray<readonly [type: string, text: string, stored: string]> = [
  ['numeric(10,2)', '25.005', '25.01'],
  ['numeric(3)', '1.5', '2'],
  ['money', '1.005', '1.01'],
  ['varchar(3)', 'ab   ', 'ab '],
  ['name', 'ä'.repeat(40), 'ä'.repeat(31)],
  ['"char"', 'xy', 'x'],
  ['date', '2026-01-02T10:00', '2026-01-02'],
  ['date', '2026-01-02T00:00Z', '2026-01-02'],
  ['date', '2026-01-02+02', '2026-01-02'],
  ['time', '10:00:00.1234567', '10:00:00.123457'],
  ['time', '10:00+02', '10:00:00'],
  ['time', '2026-01-02 10:00', '10:00:00'],
  ['time(0)', '10:00:00.5', '10:00:01'],
  ['timetz', '2026-01-02 10:00+02', '10:00:00+02'],
  ['timestamp', '2026-01-02T10:00+02:00', '2026-01-02 10:00:00'],
  ['timestamp', '2026-01-02 10:00 Europe/Berlin', '2026-01-02 10:00:00'],
  ['timestamp(0)', '2026-01-02 10:00:00.6', '2026-01-02 10:00:01'],
  ['interval', '1.1234567 secs', '00:00:01.123457'],
  ['interval(1)', 'PT1.25S', '00:00:01.3'],
  ['interval year', '14 mons', '1 year'],
  ['interval year to month', '1-2 3 04:05:06', '1 year 2 mons'],
  ['interval day', '3 04:00', '3 days'],
  ['interval minute', '1.5', '00:01:00'],
  ['interval minute', 'P1DT5M6.7S', '1 day 00:05:00'],
  ['numeric(10,2)[]', '{1,"25.005"}', '{1.00,25.01}'],
  ['tsrange', '[2026-01-01 10:00Z,)', '["2026-01-01 10:00:00",)'],
  ['inner_pair', '(1,25.005,)', '(1,25.01,)']
]

t.test('what is refused would have lost a part', async t => {
  const columns = dropped.map(([type], i) => `c${i} ${type}`).join()
  const database = await useDatabase(t, { schema: `${schema} create table typed (${columns})` })
  const { sql } = database
  const table = await readTable(database)
  await sql`set intervalstyle = 'postgres'`
  for (const [i, [type, text, stored]] of dropped.entries()) {
    const tree = table.get(`c${i}`)?.type as Type
    t.ok(isIssue(writeValue(text, tree)), `${type} ${text}`)
    const [row] = await sql.unsafe(
      `with w as (insert into typed (c${i}) values (${render(constant(text)).text}) returning c${i})
        select c${i}::text as text from w`)
    t.equal(String(row?.['text']).replace('$', ''), stored, `${type} ${text}`)
  }
})

t.test('random values are read as json_populate_record reads them', async t => {
  const special = fc.constantFrom('"', '\\', '{', '}', '(', ')', ',', ' ', 'NULL', "'", 'a', '\n')
  const text = fc.oneof(fc.string(), fc.string({ unit: special }))
  const int = fc.integer({ min: -1000, max: 1000 })
  const optional = <Value>(value: fc.Arbitrary<Value>): fc.Arbitrary<Value | null> =>
    fc.option(value)
  const json = fc.oneof(fc.dictionary(text, fc.oneof(int, text)), text, int, fc.boolean())
  const tags = optional(fc.array(optional(text)))
  const pair = fc.record({ x: optional(int), 'y Z': optional(int), tags }, { requiredKeys: [] })
  const arbitraries: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    text,
    'int[]': fc.array(optional(int)),
    'text[]': fc.array(optional(text)),
    matrix: fc.array(fc.tuple(optional(text), optional(text)), { minLength: 1 }),
    'jsonb[]': fc.array(optional(json)),
    jsonb: json,
    inner_pair: pair,
    outer_pair: fc.record({
      p: optional(pair),
      list: optional(fc.array(optional(pair))),
      m: optional(fc.constantFrom('sad', 'so so', 'ä"\'\\')),
      j: optional(json)
    }, { requiredKeys: [] }),
    'outer_pair[]': fc.array(fc.record({ list: fc.array(pair), j: json }))
  }
  const columnTypes = Object.keys(arbitraries).map(type => type === 'matrix' ? 'text[]' : type)
  const database = await useDatabase(t, {
    schema: `${schema}
      create table random (${columnTypes.map((type, i) => `c${i} ${type}`).join()})`
  })
  const columns = await readTable(database, 'random')
  for (const [i, [name, arbitrary]] of Object.entries(arbitraries).entries()) {
    const tree = columns.get(`c${i}`)?.type as Type
    const samples = fc.sample(arbitrary, { seed: 42, numRuns: 300 }) as readonly Json[]
    const pairs = samples.map(sample => {
      const document = render(constant(JSON.stringify({ [`c${i}`]: sample }))).text
      return `(${document}::json, ${literal(sample, tree, tree.sql as Fragment)})`
    })
    const found = await database.sql.unsafe(`
      select document::text as text, to_json(expected)::text as expected, to_json(v)::text as actual
      from (values ${pairs.join()}) as w (document, v),
        lateral (select (json_populate_record(null::random, document)).c${i} as expected) as e
      where to_json(v)::text is distinct from to_json(expected)::text`)
    t.same(found.slice(0, 3), [], name)
  }
})

t.test('what is read has a limit', async t => {
  const enums = Array.from({ length: 205 }, (_, i) => `create type e${i} as enum ('a');`).join('')
  const columns = Array.from({ length: 300 }, (_, i) => `c${i} int`).join()
  const database = await useDatabase(t, {
    schema: `${enums} create table wide (${columns});
      create table typed (w wide, n int);
      create table many (${Array.from({ length: 205 }, (_, i) => `c${i} e${i}`).join()})`
  })
  const typed = await readTable(database)
  t.match(typed.get('w')?.type, { kind: 'unknown', name: 'wide' })
  const kinds = [...(await readTable(database, 'many')).values()].map(({ type }) => type.kind)
  t.equal(kinds.filter(kind => kind === 'enum').length, 200)
  t.equal(kinds.filter(kind => kind === 'unknown').length, 5)
})
