/**
 * Tests that types are read from the catalogue as trees, and that PostgreSQL reads the texts that
 * are written for values as the JSON that was sent.
 */
import fc from 'fast-check'
import t from 'tap'
import { nameOf, type Type } from '../../src/catalogue/type.ts'
import { constant, render, sql as write, type Fragment } from '../../src/fragment/fragment.ts'
import { parseJson, type Json } from '../../src/json/parse.ts'
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

/** Types with values, and what PostgreSQL returns for a value if that is other JSON. */
type Value = readonly [json: string, returned?: string]
const values: Readonly<Record<string, readonly Value[]>> = {
  int2: [['5'], ['1.0', '1'], ['1e3', '1000'], ['"7"', '7']],
  int8: [['9223372036854775807'], ['12e3', '12000']],
  oid: [['4294967295', '"4294967295"']],
  numeric: [['1.10'], ['12345678901234567890.5'], ['"NaN"']],
  'numeric(6,3)': [['1.100'], ['1.1000', '1.100'], ['1e-3', '0.001']],
  float4: [['0.1']],
  float8: [['0.1'], ['1e+22'], ['"Infinity"']],
  bool: [['true'], ['"off"', 'false']],
  text: [['"a\\nb\\"\\\\"'], ['""'], ['true', '"true"'], ['1.10', '"1.10"'], ['"{}"']],
  'char(3)': [['"ab"', '"ab "'], ['"äöü"']],
  'varchar(3)': [['"äöü"'], ['"ab "']],
  citext: [['"MiXeD"']],
  '"char"': [['"x"']],
  uuid: [['"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"']],
  date: [['"2024-02-29"'], ['"2024-02-29T00:00:00"', '"2024-02-29"'], ['"0044-03-15 BC"']],
  time: [['"23:59:59.999999"']],
  'time(0)': [['"23:59:59.000"', '"23:59:59"']],
  timetz: [['"23:59:59.5+14:00"', '"23:59:59.5+14"']],
  timestamp: [['"2024-02-29T23:59:59.999999"'], ['"infinity"']],
  timestamptz: [['"2024-02-29T23:59:59+05:45"', '"2024-02-29T18:14:59+00:00"']],
  'timestamptz(3)': [['"2024-02-29T23:59:59.123Z"', '"2024-02-29T23:59:59.123+00:00"']],
  interval: [['"1 year 2 mons -3 days +04:05:06.789012"'], ['"5"', '"00:00:05"']],
  'interval minute': [['"5"', '"00:05:00"'], ['"00:05:00"'], ['60', '"01:00:00"']],
  'interval year to month': [['"5"', '"5 mons"'], ['"1-2"', '"1 year 2 mons"']],
  'interval minute to second': [['"4:05"', '"00:04:05"'], ['"-4:05"', '"-00:04:05"']],
  'interval second(2)': [['1.25', '"00:00:01.25"']],
  bytea: [['"\\\\x00ff10"'], ['"plain"', '"\\\\x706c61696e"']],
  json: [['{"b":[1,2.50,1e400],"a":null}'], ['"text"'], ['1.10']],
  jsonb: [['{"a":null,"b":[1,2.50]}', '{"a": null, "b": [1, 2.50]}'], ['"5"'], ['[]']],
  money: [['1.50', '"$1.50"'], ['"$1,234.56"']],
  inet: [['"192.168.0.1/24"']],
  macaddr: [['"08:00:2b:01:02:03"']],
  'bit(3)': [['"101"']],
  'varbit(5)': [['"101"'], ['""']],
  xml: [['"<a b=\\"c\\">ä&amp;</a>"']],
  tsvector: [["\"'cat':1A,3 'fat':2\""]],
  tsquery: [["\"'a' & !'b'\""]],
  jsonpath: [['"$.\\"a\\""']],
  pg_lsn: [['"16/B374D848"']],
  xid8: [['"18446744073709551615"']],
  point: [['"(1.5,-2)"']],
  lseg: [['[1,2,3,4]', '"[(1,2),(3,4)]"']],
  box: [['"(3,4),(1,2)"']],
  path: [['[1,2,3,4]', '"[(1,2),(3,4)]"']],
  int4range: [['"[1,5)"'], ['[1,5]', '"[1,6)"'], ['"empty"']],
  tsrange: [['["2024-01-01","2024-01-02 10:00"]',
    '"[\\"2024-01-01 00:00:00\\",\\"2024-01-02 10:00:00\\"]"']],
  floats: [['[1.5,2]', '"[1.5,2]"']],
  int4multirange: [['"{[1,3),[5,7)}"']],
  manyfloats: [['"{[1,2)}"']],
  mood: [['"so so"'], ['"ä\\"\'\\\\"']],
  hstore: [['"\\"a\\"=>\\"1\\", \\"b\\"=>NULL"', '{"a": "1", "b": null}']],
  cents: [['1.50'], ['1.5000', '1.50']],
  some_amounts: [['[1.50,null]'], ['[]']],
  'some_amounts[]': [['["{1.50,2.00}",null]', '[[1.50,2.00],null]']],
  'int[]': [['[]'], ['[1,null,-3]'], ['[[1,2],[3,4]]'], ['"{1,2}"', '[1,2]'], ['[1.0]', '[1]']],
  'text[]': [['["a\\"b","c,d","{e}","NULL","null",null,"","\\\\"," "]'], ['[["a"],["b"]]'],
    ['["1",2,true,1.10]', '["1","2","true","1.10"]']],
  'interval minute[]': [['["5","90"]', '["00:05:00","01:30:00"]'],
    ['"{5,90}"', '["00:05:00","01:30:00"]']],
  'jsonb[]': [['[{"a":1.10},[1],null,"x"]', '[{"a": 1.10},[1],null,"x"]']],
  'mood[]': [['["sad","so so","ä\\"\'\\\\"]']],
  'box[]': [['["(1,1),(0,0)","(2,2),(0,0)"]']],
  'hstore[]': [['["\\"a\\"=>\\"1\\""]', '[{"a": "1"}]']],
  inner_pair: [
    ['{"x":1,"y Z":1.10,"tags":["a",null]}'], ['{}', '{"x":null,"y Z":null,"tags":null}'],
    ['"(1,2.00,{})"', '{"x":1,"y Z":2.00,"tags":[]}']
  ],
  pair_domain: [['{"x":1,"y Z":null,"tags":["\\"","(",",","\\\\",""]}']],
  outer_pair: [
    ['{"p":{"x":1,"y Z":null,"tags":["\\"\\\\,"]},"list":[{"x":2,"y Z":9.99,"tags":[]},null],' +
      '"m":"ä\\"\'\\\\","j":{"k": ["\\"\\\\"]}}'],
    ['{"p":null,"list":null,"m":null,"j":null}']
  ],
  'outer_pair[]': [
    ['[{"p":{"x":1,"y Z":null,"tags":["\\"\\\\,"]},"list":null,"m":null,"j":"\\""}]']
  ],
  dropped: [['{"a":1,"c":""}']],
  node: [['{"id":1,"doubled":2,"p":[{"x":2,"y Z":null,"tags":[]}]}']],
  'other.color': [['"red"']]
}

const table = { schema: 'public', name: 'typed' }
const names = Object.keys(values)
const createTable = `create table typed (${names.map((type, i) => `c${i} ${type}`).join(', ')});`

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

t.test('values of every type are stored as they were sent', async t => {
  const database = await useDatabase(t, { schema: schema + createTable })
  const columns = await readTable(database)
  const { sql } = database
  const named = new Map((await sql`
    select attname as column, format_type(atttypid, atttypmod) as name from pg_attribute
    where attrelid = 'typed'::regclass and attnum > 0`)
    .map(({ column, name }) => [column as string, name as string]))
  for (const [i, [type, list]] of Object.entries(values).entries()) {
    const tree = columns.get(`c${i}`)?.tree as Type
    t.equal(nameOf(tree), named.get(`c${i}`), type)
    t.equal(tree.sql === undefined, type === 'other.color')
    for (const [json, returned = json] of [...list, ['null'] as const]) {
      const value = literal(parseJson(Buffer.from(json)), tree, tree.sql ?? write`other.color`)
      const [row] = await sql.begin(async sql => {
        await sql.unsafe("set local timezone = 'UTC'; set local intervalstyle = 'postgres'")
        return sql.unsafe(`with w as (insert into typed (c${i}) values (${value}) returning c${i})
          select to_json(c${i})::text as text from w`)
      })
      t.equal(row?.['text'] ?? 'null', returned, `${type} ${json}`)
    }
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
    const { tree } = table.get(`c${i}`) as { readonly tree: Type }
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
  const types = Object.keys(arbitraries).map(type => type === 'matrix' ? 'text[]' : type)
  const database = await useDatabase(t, {
    schema: `${schema} create table random (${types.map((type, i) => `c${i} ${type}`).join()})`
  })
  const columns = await readTable(database, 'random')
  for (const [i, [name, arbitrary]] of Object.entries(arbitraries).entries()) {
    const { tree } = columns.get(`c${i}`) as { readonly tree: Type }
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
  t.match(typed.get('w')?.tree, { kind: 'unknown', name: 'wide' })
  const kinds = [...(await readTable(database, 'many')).values()].map(({ tree }) => tree.kind)
  t.equal(kinds.filter(kind => kind === 'enum').length, 200)
  t.equal(kinds.filter(kind => kind === 'unknown').length, 5)
})
