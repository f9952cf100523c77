/**
 * Tests that a value has the same effect wherever a batch writes it, and that it is the effect of a
 * literal in SQL: a value that PostgreSQL refuses is refused, and no other value is stored. A value
 * that would lose a part is refused by the service, in every place.
 */
import t from 'tap'
import type { Sql } from 'postgres'
import * as op from '../support/operations.ts'
import { isTaken } from '../support/runs.ts'
import { useService, type Answer } from '../support/service.ts'

const columns = `b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric,
  n2 numeric(6,2), txt text, vc varchar(5), code char(4), u uuid, d date, tm time, tm0 time(0),
  tz timetz, ts timestamp, ts0 timestamp(0), tstz timestamptz, tstz3 timestamptz(3), iv interval,
  im interval minute, raw bytea, j json, jb jsonb, mood mood, short short, tags text[], ints int[],
  span int4range, size size, bag hstore, place point`
const list = columns.split(/,\s+/).map(column => column.split(/ (.*)/) as [string, string, string])
const names = list.map(([name]) => name)
/** A function has no modifiers of types, and takes a string as the text of JSON. */
const called = list.filter(([, type]) => !/\(|interval |json/.test(type))

const schema = `
  create extension hstore;
  create type mood as enum ('sad', 'happy');
  create type size as (w int, h int);
  create domain short as text check (length(value) < 100);
  create table v (id int primary key, ${columns});
  create table one (j json);
  insert into v (id) values (1);
  ${called.map(([name, type]) => `create function f_${name}(v ${type}) returns text
    language sql as 'select v::text';`).join('')}`

const strings = [
  '5', 'null', '"x"', '{}', '[1]', '{"a":1}', '', ' x ', 'a\\b"c\n\u001f\u2028é😀', 'true', 'NaN',
  'Infinity', '-infinity', '1.10', '-0', '1e400', '9007199254740993', '99999', 'abcdef', 'ab   ',
  'sad', 'other', '\\x00ff', '\\x', 'a\\000', '2024-02-29', '2023-02-29', 'infinity', 'epoch',
  '2024-01-01 00:00:00.1234567', '2024-01-01T12:00:00+05:30', '24:00:00', '12:34:56.789+01',
  '00000000-0000-4000-8000-00000000000A', '{00000000000040008000000000000001}', 'NULL', '{a,b}',
  '[1,5)', '$5.00', "'; drop table v", '(1,2)', 'k=>1', '5 days'
].map(text => JSON.stringify(text))
const values = [
  ...strings, 'null', 'true', 'false', '1', '0', '1.10', '-0', '1e400', '9007199254740993', '1.5',
  '12345678901234567890.1234567890', '1e-3', '99999.999', '{}', '{"a": [1, {"b": null}]}', '[]',
  '[1,2]', '[null,"x"]', '{"n": 1.10, "1": -0}', '{"w": 1}', '[[1],[2]]', '[[1],[]]',
  // PostgreSQL skips brackets and quotes where it reads a time.
  '["2026-01-01"]', '["10:00Z"]', '[["5"]]', '{"k": "1"}'
]

const inserts = { id: 'w', op: 'insert', table: 'v' }
const rowsOf = (name: string): object => op.rowsOf({ id: true, [name]: true })

const service = await useService(t, {
  schema,
  batches: Object.fromEntries(names.flatMap(name => Object.entries({
    write: {
      params: { type: 'object', properties: { v: true }, required: ['v'] },
      operations: [{ ...inserts, values: [{ id: 9, [name]: '$params.v' }] }, read(name)]
    },
    rows: {
      params: rowsOf(name), operations: [{ ...inserts, values: '$params.rows' }, read(name)]
    },
    from: {
      params: rowsOf(name),
      operations: [{
        ...inserts,
        from: { param: 'rows' },
        columns: { id: { $col: 'id' }, [name]: { $col: name } }
      }, read(name)]
    }
  }).map(([kind, file]) => [`${kind}_${name}`, file])))
})

function read (name: string): object {
  const columns = [{ column: name, cast: 'text', as: 'text' }]
  return { id: 's', op: 'select', table: 'v', columns, where: { id: { eq: 9 } } }
}

/** What a batch does with a value: the code of its error, or the text that is stored. */
interface Outcome {
  readonly code: string | undefined
  readonly text?: unknown
}

const dryRun = { headers: { prefer: 'tx=rollback', 'content-type': 'application/json' } }

/** Runs operations, JSON text, of which `w` writes a value in row 9, and reads it. */
async function write (column: string, operations: string): Promise<Outcome> {
  return outcomeOf(await service.post(`[${operations},${JSON.stringify(read(column))}]`, dryRun))
}

const outcomeOf = ({ body }: Answer): Outcome =>
  ({ code: body.error?.code, text: body.data?.s[0].text })

const insert = (id: string, rows: string): string =>
  `{"id":"${id}","op":"insert","table":"v","values":[${rows}]}`
const empty = insert('e', '{"id":9}')
const others = Array.from({ length: 16 }, (_, i) => `{"id":${10 + i},"txt":null}`).join()
const update = '"id":"w","op":"update","table":"v"'

type Write = (column: string, value: string) => Promise<Outcome>

/** The ways to write a value, JSON text, in a column. */
const ways: Readonly<Record<string, Write>> = {
  'one of two rows': (column, value) =>
    write(column, insert('w', `{"id":8,"txt":"x"},{"${column}":${value},"id":9}`)),
  'one of many rows': (column, value) =>
    write(column, insert('w', `${others},{"id":9,"${column}":${value}}`)),
  set: (column, value) =>
    write(column, `${empty},{${update},"set":{"${column}":${value}},"where":{"id":{"eq":9}}}`),
  'by key': (column, value) =>
    write(column, `${empty},{${update},"key":["id"],"values":[{"id":9,"${column}":${value}}]}`),
  'by many keys': (column, value) => write(column, `${empty},{${update},"key":["id"],
    "values":[${others.replaceAll('txt', column)},{"id":9,"${column}":${value}}]}`),
  on_conflict: (column, value) => write(column, `${empty},{"id":"w","op":"insert","table":"v",
    "values":[{"id":9}],
    "on_conflict":{"columns":["id"],"do":"update","set":{"${column}":${value}}}}`),
  'rows of a query': (column, value) => write(column, `{"id":"w","op":"insert","table":"v",
    "from":{"table":"v"},"columns":{"id":9,"${column}":${value}}}`),
  'a parameter': async (column, value) =>
    outcomeOf(await service.run(`write_${column}`, `{"v":${value}}`, dryRun)),
  'rows of a parameter': async (column, value) =>
    outcomeOf(await service.run(
      `rows_${column}`, `{"rows":[{"id":8},{"${column}":${value},"id":9}]}`, dryRun
    )),
  'joined rows of a parameter': async (column, value) =>
    outcomeOf(await service.run(
      `from_${column}`, `{"rows":[{"id":8},{"${column}":${value},"id":9}]}`, dryRun
    )),
  'an argument': async (column, value) => {
    const { body } = await service.post(
      `[{"id":"w","op":"call","function":"f_${column}","args":{"v":${value}}}]`
    )
    return { code: body.error?.code, text: body.data?.w[0][`f_${column}`] }
  }
}
const places = Object.entries(ways)
type Place = (typeof places)[0]

/** What PostgreSQL makes of a literal in an insert; undefined: it refuses the literal. */
async function store (sql: Sql, column: string, value: string): Promise<string | null | undefined> {
  let stored: string | null | undefined
  await sql.begin(async sql => {
    await sql.unsafe("set local timezone = 'UTC'; set local intervalstyle = 'postgres'")
    const [row] = await sql.unsafe(
      `with w as (insert into v (id, ${column}) values (9, ${value}) returning ${column})
        select ${column}::text as text from w`
    )
    stored = row?.['text'] as string | null
    throw ROLLBACK
  }).catch((error: { readonly code?: string }) => {
    if (error !== ROLLBACK && error.code === undefined) throw error
  })
  return stored
}
const ROLLBACK = {}

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** The texts that PostgreSQL stores for a value: of a string, and of a number. */
async function literalsOf (column: string, value: string): Promise<ReadonlyArray<unknown>> {
  const { sql } = service.database
  const parsed = JSON.parse(value) as unknown
  if (parsed === null) return [null]
  if (column === 'j' || column === 'jb') return [await store(sql, column, quote(value))]
  const text = typeof parsed === 'string' ? parsed : value
  return [
    await store(sql, column, quote(text)),
    ...typeof parsed === 'number'
      ? [await store(sql, column, value), await store(sql, column, quote(String(parsed)))]
      : []
  ]
}

t.test('a value has the effect of its literal in every place', { timeout: 240_000 }, async t => {
  const counts = { stored: 0, refused: 0, rejected: 0 }
  for (const [c, column] of names.entries()) {
    for (const [i, value] of values.entries()) {
      // All of them take seven minutes.
      if ((c + i) % 4 !== 0 || !isTaken((c + i) / 4, 5)) continue
      const name = `${column} ${encodeURI(value)}`
      const first = await write(column, insert('w', `{"id":9,"${column}":${value}}`))
      // Each column and each value meets all places, not each pair of them.
      for (const k of [0, 3, 6]) {
        const [way, writeIn] = places[(c + (i >> 2) + k) % places.length] as Place
        if (way === 'an argument' && !called.some(([name]) => name === column)) continue
        t.same(await writeIn(column, value), first, `${name}: ${way}`)
      }
      const { code, text } = first
      const literals = await literalsOf(column, value)
      if (code === undefined) {
        counts.stored++
        // PostgreSQL has other literals of lists and objects.
        if (!/^[[{]/.test(value)) {
          t.ok(literals.includes(text), `${name}: ${encodeURI(`${text} ${literals}`)}`)
        }
      } else if (code === 'value_invalid') {
        counts.refused++
      } else {
        counts.rejected++
        t.equal(literals[0], undefined, `${name}: ${code}`)
      }
    }
  }
  t.ok(Math.min(...Object.values(counts)) > 10, JSON.stringify(counts))
})
