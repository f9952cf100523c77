/**
 * Tests that values are lossless: a written value is stored as PostgreSQL parses it, and a read
 * value is the output of to_json, byte for byte. Every value is written by insert and `set`, read
 * by returning and select, matched by `eq` and copied by a reference.
 */
import t from 'tap'
import * as op from '../support/operations.ts'
import { differsOneByOne } from '../support/environment.ts'
import { useService } from '../support/service.ts'

const schema = `
  create extension citext;
  create extension hstore;
  create type mood as enum ('sad', 'so so', 'HAPPY', 'ä"''\\');
  create domain positive as int check (value > 0);
  create domain email as text not null check (value like '%@%');
  create domain amount as numeric(10, 2);
  create type point3 as (x int, "y Z" numeric, tags text[]);
  create type nested as (p point3, j jsonb);
  create domain cents as numeric(10, 2);
  create domain amounts as cents[];
  create domain some_amounts as amounts;
  create domain point_domain as point3;
  create type floats as range (subtype = float8, multirange_type_name = manyfloats);
  create type dropped as (a int, b int, c text);
  alter type dropped drop attribute b;
  create table node (id int, doubled int generated always as (id * 2) stored, p point3[]);
`

interface Value {
  /** The JSON of the request. */
  readonly json: string
  /**
   * PostgreSQL's text of the value. The default is the content of the JSON string, or the JSON
   * itself.
   */
  readonly text?: string
  /** False if `eq` does not find the value, for example because the type has no equality. */
  readonly eq?: false
}

const huge = `${'1234567890'.repeat(20)}.${'0123456789'.repeat(20)}`
const v = (json: string, text?: string): Value => text === undefined ? { json } : { json, text }
const unequal = (json: string, text?: string): Value => ({ ...v(json, text), eq: false })

const values: Readonly<Record<string, readonly Value[]>> = {
  int2: [v('-32768'), v('-0', '0'), v('1.0', '1'), v('"7"')],
  int4: [v('2147483647'), v('1e2', '100')],
  int8: [v('-9223372036854775808'), v('9007199254740993'), v('12e3', '12000')],
  numeric: [v('1.10'), v('0.000'), v(huge), v(`-${huge}`), v('1E-400'), v('"NaN"')],
  'numeric(6, 3)': [v('999.999'), v('1.1000'), v('1e-3')],
  float4: [v('-0'), v('1e-45'), v('16777217'), v('0.1')],
  float8: [v('5e-324'), v('0.30000000000000004'), v('"-Infinity"'), v('9007199254740993')],
  bool: [v('true'), v('"off"')],
  text: [
    v('""'), v('"NULL"'), v('true'), v('1.10'), v('"a\\nb\\tc\\r\\u0001\\u007f"'),
    v('"\\\\ \\" \' / \\b\\f"'), v('"😀👨‍👩‍👧‍👦🏳️‍🌈"'),
    v('"\uffff\ufffe\u{10ffff}"'), v('"e\u0301 é"'),
    v('"\u2028\u2029\ufeff"'), v('"$1 $5.00 $2b$10$x $$ off $"'), v('"%s %I -- ; /* */"'),
    v(JSON.stringify('ä😀"\\'.repeat(160_000)))
  ],
  'char(5)': [v('"ab"', 'ab   ')],
  'varchar(3)': [v('"äöü"'), v('"ab "')],
  citext: [v('"MiXeD"')],
  name: [v(`"${'x'.repeat(63)}"`)],
  '"char"': [v('"x"')],
  uuid: [v('"A0EEBC999C0B4EF8BB6D6BB9BD380A11"')],
  date: [v('"infinity"'), v('"0044-03-15 BC"'), v('"5874897-12-31"'), v('"2024-02-29T00:00:00"')],
  time: [v('"24:00:00"')],
  'time(0)': [v('"23:59:59.000"')],
  timetz: [v('"23:59:59.999999+14:00"')],
  timestamp: [v('"0044-03-15T12:00:00.000001 BC"')],
  timestamptz: [v('"2024-02-29T23:59:59.999999+05:45"'), v('"-infinity"')],
  'timestamptz(3)': [v('"2024-02-29T23:59:59.123Z"')],
  interval: [v('"1 year 2 mons -3 days 04:05:06.789012"'), v('"P1Y2M3DT4H5M6.7S"')],
  'interval minute': [v('"5"', '00:05:00'), v('"00:05:00"'), v('60', '01:00:00')],
  'interval year to month': [v('"5"', '5 mons'), v('"1-2"')],
  'interval minute to second': [v('"4:05"', '00:04:05'), v('"-4:05"', '-00:04:05')],
  'interval second(2)': [v('1.25')],
  bytea: [v('"\\\\x00ff10"'), v('"plain"')],
  json: [
    unequal('{"b":[1,2.50,-0,1e400],"a":null}'), unequal('"text"', '"text"'),
    unequal('"$$x"', '"$x"'), unequal('{"__proto__":{"constructor":1.10},"":[[]]}'),
    unequal('["\\u00e4","\\ud83d\\ude00"]', '["ä","😀"]')
  ],
  jsonb: [
    v('12345678901234567890.0'), unequal('"5"', '"5"'), unequal('[]'), unequal(`[${huge}]`),
    unequal('{"__proto__":1,"constructor":{"toString":[]}}'), unequal('[[[[{"a":"$x y"}]]]]')
  ],
  'int[]': [v('[1,null,-3]', '{1,NULL,-3}'), v('[[1,2],[3,4]]', '{{1,2},{3,4}}'), v('"{1,2}"'),
    v('[1.0]', '{1}'), v('[]', '{}')],
  'text[]': [
    v('["a\\"b","c,d","{e}","NULL",null,"","\\\\"]', '{"a\\"b","c,d","{e}","NULL",NULL,"","\\\\"}'),
    v('["1",2,true,1.10]', '{1,2,true,1.10}'), v('[["a"],[" "]]', '{{a},{" "}}')
  ],
  'interval minute[]': [v('["5","90"]', '{00:05,01:30}'), v('"{5,90}"', '{00:05,01:30}')],
  'box[]': [unequal('["(1,1),(0,0)","(2,2),(0,0)"]', '{(1,1),(0,0);(2,2),(0,0)}')],
  'hstore[]': [v('["\\"a\\"=>\\"1\\""]', String.raw`{"\"a\"=>\"1\""}`)],
  'jsonb[]': [v('[{"a":1.10},null,"x"]', '{"{\\"a\\": 1.10}",NULL,"\\"x\\""}')],
  'timestamptz[]': [v('["2024-01-01T00:00:00.000001Z"]', '{2024-01-01T00:00:00.000001Z}')],
  int4range: [v('"[1,5)"'), v('"empty"'), v('[1,5]', '[1,6)')],
  tsrange: [v('["2024-01-01","2024-01-02 10:00"]', '[2024-01-01,2024-01-02 10:00]')],
  floats: [v('[1.5,2]', '[1.5,2]')],
  manyfloats: [v('"{[1,2)}"')],
  tstzrange: [v('"[2024-01-01 00:00:00.000001+00,)"')],
  int4multirange: [v('"{[1,3),[5,7)}"')],
  'int4range[]': [v('["[1,2)","empty"]', '{"[1,2)",empty}')],
  inet: [v('"192.168.0.1/24"')],
  cidr: [v('"10.0.0.0/8"')],
  macaddr: [v('"08:00:2b:01:02:03"')],
  macaddr8: [v('"08:00:2b:01:02:03:04:05"')],
  'bit(3)': [v('"101"')],
  varbit: [v('""')],
  mood: [v('"ä\\"\'\\\\"')],
  'mood[]': [v('["sad","so so"]', '{sad,"so so"}')],
  positive: [v('5')],
  email: [v('"a@b"')],
  amount: [v('1.10')],
  some_amounts: [v('[1.50,null]', '{1.50,NULL}'), v('[]', '{}')],
  'some_amounts[]': [v('["{1.50,2.00}",null]', '{"{1.50,2.00}",NULL}')],
  point3: [
    unequal('{"x":1,"y Z":1.10,"tags":["a",null]}', '(1,1.10,"{a,NULL}")'), unequal('"(1,2,)"')
  ],
  'point3[]': [unequal('[{"x":1},null]', '{"(1,,)",NULL}')],
  nested: [unequal(
    '{"p":{"x":1,"y Z":9007199254740993.10},"j":{"k":[1.10]}}',
    '("(1,9007199254740993.10,)","{""k"": [1.10]}")'
  )],
  point_domain: [unequal('{"x":1,"tags":[]}', '(1,,{})')],
  dropped: [unequal('{"a":1,"c":""}', '(1,"")')],
  node: [unequal('{"id":1,"doubled":2,"p":[{"x":2}]}', '(1,2,"{""(2,,)""}")')],
  hstore: [
    v('"\\"a\\"=>\\"1\\", \\"b\\"=>NULL"'),
    v(String.raw`"\"k \\\" =>,ä\"=>\"\\\\ NULL \\\"x\", \"NULL\"=>\"\""`)
  ],
  point: [unequal('"(1.5,-2)"')],
  lseg: [v('[1,2,3,4]', '[(1,2),(3,4)]')],
  path: [unequal('"[(1,2),(3,4)]"'), unequal('[1,2,3,4]', '[(1,2),(3,4)]')],
  circle: [v('"<(1,2),3>"')],
  xml: [unequal('"<a b=\\"c\\">ä&amp;</a>"')],
  tsvector: [v("\"'cat':1A,3 'fat':2\"")],
  tsquery: [v("\"'a' & !'b'\"")],
  money: [v('"$1,234.56"'), v('"-$0.01"'), v('1.50')],
  oid: [v('4294967295')],
  regclass: [unequal('"pg_class"')],
  regtype: [unequal('"integer"')],
  pg_lsn: [v('"16/B374D848"')],
  xid8: [v('"18446744073709551615"')],
  jsonpath: [unequal('"$.\\"a\\"[*]?(@ > 1)"')]
}

const tables = `
  create table j (k int, v json);
  create table x (k int, e email default 'a@b');`
const service = await useService(t, {
  schema: schema + tables, env: { MAX_BODY_BYTES: '16000000' }
})
const { sql } = service.database

const castToJson = differsOneByOne('a type with a cast to JSON takes no value of an earlier row')
t.test('values of every built-in type are stored and returned exactly', castToJson, async t => {
  const expected = (type: string, text: string): Promise<string> =>
    sql.begin(async sql => {
      await sql.unsafe(
        "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local intervalstyle " +
          "= 'postgres'"
      )
      const [row] = await sql.unsafe<Array<{ v: string }>>(
        `select to_json($1::text::${type})::text as v`, [text]
      )
      return row?.v ?? ''
    })
  for (const [i, [type, list]] of Object.entries(values).entries()) {
    await sql.unsafe(`create table t${i} (k int primary key, v ${type})`)
    for (const { json, eq = true, ...value } of list) {
      const text = value.text ?? (json.startsWith('"') ? JSON.parse(json) as string : json)
      const row = (k: number): string => `[{"k":${k},"v":${rendered}}]`
      // The domain `email` is NOT NULL.
      const before = type === 'email' ? '"x@y"' : 'null'
      const operations = [
        ['ins', `"op":"insert","values":[{"k":1,"v":${json}}]`],
        ['bare', `"op":"insert","values":[{"k":2,"v":${before}}]`],
        ['upd', `"op":"update","set":{"v":${json}},"where":{"k":{"eq":2}}`],
        ['sel', '"op":"select","where":{"k":{"eq":2}}'],
        ['ref', '"op":"insert","values":[{"k":3,"v":"$sel.0.v"}]'],
        ['del', '"op":"delete","where":{"k":{"gt":1}}'],
        ...eq
          ? [
              ['lit', `"op":"select","where":{"v":{"eq":${JSON.stringify(text)}}}`],
              ['by', '"op":"select","where":{"v":{"eq":"$ref.0.v"}}']
            ]
          : [],
        ['rest', '"op":"delete","all":true']
      ]
      const body = `[${
        operations.map(([id, rest]) => `{"id":"${id}","table":"t${i}",${rest}}`).join()
      }]`
      const rendered = await expected(type, text)
      const { status, text: actual } = await service.post(body)
      const problem = status === 200 ? '' : actual.slice(0, 400)
      t.equal(status, 200, encodeURI(`${type} ${json.slice(0, 60)} ${problem}`))
      if (status !== 200) continue
      const found = eq ? `"lit":${row(1)},"by":${row(1)},` : ''
      const first = type === 'email' ? rendered.replace(/.*/s, '"x@y"') : 'null'
      const want = `{"error":null,"data":{"ins":${row(1)},"bare":[{"k":2,"v":${first}}],"upd":${
        row(2)
      },"sel":${row(2)},"ref":${
        row(3)
      },"del":[{"k":2,"v":${rendered}}, \n {"k":3,"v":${rendered}}],${found}"rest":${row(1)}}}`
      t.ok(
        actual === want,
        encodeURI(
          actual === want ? 'byte for byte' : `${actual.slice(0, 600)} is not ${want.slice(0, 600)}`
        )
      )
    }
  }
})

const whiteSpace = differsOneByOne('JSON of an earlier row has another white space')
t.test('a json column is returned unchanged, byte for byte', whiteSpace, async t => {
  const stored = '{ "a" : 1,\t"a":\n 2.0, "b":"\\u00e4\\/" }'
  await sql.unsafe('insert into j values (1, $1::text::json)', [stored])
  const { text } = await service.post(
    [op.select('s', 'j'), op.insert('i', 'j', [{ k: 2, v: '$s.v' }])]
  )
  t.equal(text, `{"error":null,"data":{"s":[{"k":1,"v":${stored}}],"i":[{"k":2,"v":${stored}}]}}`)
})

t.test('a column of a NOT NULL domain gets its default if a row omits it', async t => {
  const returning = ['k', 'e']
  const { body } = await service.post([
    op.insert('i', 'x', [{ k: 1 }], { returning }),
    op.insert('m', 'x', [{ k: 2 }, { k: 3, e: 'c@d' }, {}], { returning }),
    op.update('u', 'x', { set: { k: 4 }, where: { k: { eq: '$i.k' } }, returning })
  ])
  t.same(body.data, {
    i: [{ k: 1, e: 'a@b' }],
    m: [{ k: 2, e: 'a@b' }, { k: 3, e: 'c@d' }, { k: null, e: 'a@b' }],
    u: [{ k: 4, e: 'a@b' }]
  })
})
