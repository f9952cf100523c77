/**
 * Tests that the plain form of an operation returns the same rows, stores the same values and
 * refuses the same batches as the general form. Where it fails with a condition of class 0A, 22 or
 * 42, or cannot decide, the service runs the batch again in the general form.
 */
import t, { type Test } from 'tap'
import { useForms, type Forms } from '../support/forms.ts'

const schema = `
  create type mood as enum ('sad', 'happy');
  create domain short as text check (length(value) < 100);
  create table v (
    id int primary key, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric,
    n2 numeric(6, 2), txt text, vc varchar(5), code char(4), u uuid, d date, tm time, tm0 time(0),
    tz timetz, ts timestamp, ts0 timestamp(0), tstz timestamptz, tstz3 timestamptz(3), raw bytea,
    j json, jb jsonb, mood mood, short short, tags text[], span int4range
  );
  create table w (like v including all);
  create table parent (id int generated always as identity primary key, name text not null,
    amount numeric(8, 2) default 1, doubled numeric generated always as (amount * 2) stored);
  create table child (parent_id int references parent, sku text, qty int check (qty > 0),
    primary key (parent_id, sku));
  create table empty ();
  create view rich as select * from parent where amount > 10 with check option;
  create table secret (id int primary key, owner text default current_user, hidden text);
  alter table secret enable row level security;
  create policy own on secret using (owner = current_user);
  create table columns_only (a int default 7, b text, c text);
  create table picky (id int primary key, name text);
  create function skip() returns trigger language plpgsql as $$
    begin if new.name = 'skip' then return null; end if; return new; end $$;
  create trigger skip before insert or update on picky for each row execute function skip();
  create table ruled (id int);
  create table log (id int);
  create rule also as on insert to ruled do also insert into log values (new.id);
  create function label(parent) returns text language sql immutable as 'select $1.name';
  insert into v (id, txt, jb, n, i4) values
    (1, 'one', '{"a": 1, "l": [1, 2]}', 1.10, 1), (2, 'two', null, null, 2), (3, null, '[1]', 3, 3);
  insert into secret values (1, 'oneflight_user', 'mine'), (2, 'somebody', 'other');
  grant all on v, w, parent, child, empty, rich, secret, picky, ruled, log to oneflight_user;
  grant insert, select (a) on columns_only to oneflight_user;
`
const tables = [
  'v', 'w', 'parent', 'child', 'secret', 'columns_only', 'picky', 'ruled', 'log'
]

/** Failures after which the service runs the batch again in the general form. */
const undecided = /^(?:inspect|(?:0A|22|42)\w{3}) at /

function expectSame (t: Test, { general, plain }: Forms, what: string): void {
  if (plain.failure !== undefined && undecided.test(plain.failure)) {
    t.ok(general.failure, `${what}: only the plain form failed: ${plain.failure}`)
  } else t.same(plain, general, what)
}

const strings = [
  '5', 'null', '"x"', '{}', '[1]', '{"a":1}', '', ' x ', 'a\\b"c\n\u001f\u2028é😀', 'true',
  'NaN', 'Infinity', '-infinity', '1.10', '-0', '1e400', '9007199254740993', '99999', 'abcdef',
  'ab   ', 'sad', 'other', '\\x00ff', '\\x', 'a\\000', '2024-02-29', '2023-02-29', 'infinity',
  'epoch',
  '2024-01-01 00:00:00.1234567', '2024-01-01T12:00:00+05:30', '24:00:00', '12:34:56.789+01',
  '00000000-0000-4000-8000-00000000000A', '{00000000000040008000000000000001}', 'NULL', '{a,b}',
  '[1,5)', '$$op.x', '$5.00', "'; drop table v"
].map(text => JSON.stringify(text))
const values = [
  ...strings, 'null', 'true', 'false', '1', '0', '1.10', '-0', '1e400', '9007199254740993', '1.5',
  '12345678901234567890.1234567890', '1e-3', '99999.999', '{}', '{"a": [1, {"$$op": null}]}',
  '[]', '[1,2]', '[null,"x"]', '{"n": 1.10, "1": -0}'
]
const columns = [
  'b', 'i2', 'i4', 'i8', 'f4', 'f8', 'n', 'n2', 'txt', 'vc', 'code', 'u', 'd', 'tm', 'tm0', 'tz',
  'ts', 'ts0', 'tstz', 'tstz3', 'raw', 'j', 'jb', 'mood', 'short', 'tags', 'span'
]
const unsupported = ['short', 'tags', 'span']

t.test('every value is stored, compared and refused the same', { timeout: 120_000 }, async t => {
  const forms = await useForms(t, { schema, tables })
  for (const [c, column] of columns.entries()) {
    for (const [i, value] of values.entries()) {
      const nested = /^[[{]/.test(value) && column !== 'j' && column !== 'jb'
      const general = unsupported.includes(column) || nested
      const [insert, rows, update, where] = [
        `{"id":"i","op":"insert","table":"v","values":[{"id":9,"${column}":${value}}]}`,
        `{"id":"r","op":"insert","table":"v","expect":2,"values":[{"id":8,"${column}":${value}},
          {"${column}":null,"id":9}]}`,
        `{"id":"u","op":"update","table":"v","set":{"${column}":${value}},"where":{"id":{"lt":3}}}`,
        `{"id":"w","op":"select","table":"v","where":{"${column}":{"eq":${value}}}}`
      ]
      const ops = [insert, rows, update, ...scalar(value) ? [`${insert},${where}`] : []]
      if (!often.includes(value) && (c + i) % 2 === 0) continue
      const chosen = [ops[(c + i) % ops.length] as string]
      for (const op of chosen) {
        const result = await forms.run(`[${op}]`)
        // TAP does not allow every character in a name.
        const name = `${op.slice(0, 10)} ${column} value ${i}`
        expectSame(t, result, name)
        t.equal(result.used[0] === 'general', general, name)
      }
    }
  }
})

/** Values that are tested with every column; every second column has each of the others. */
const often = ['"5"', '"null"', '"ab   "', '"NaN"', 'null', 'true', '1.10']

function scalar (value: string): boolean {
  return value !== 'null' && !/^[[{]/.test(value)
}

const full = {
  id: 9,
  b: true,
  i2: -5,
  i4: 7,
  i8: '9007199254740993',
  f4: 0.1,
  f8: 'Infinity',
  n: '1.10',
  n2: '3.999',
  txt: '5',
  vc: 'null',
  code: 'ab',
  u: '00000000-0000-4000-8000-00000000000A',
  d: '2024-02-29',
  tm: '12:34:56.789123',
  tm0: '12:34:56.789123',
  tz: '12:34:56+05:30',
  ts: '2024-01-01 00:00:00.000001',
  ts0: '2024-01-01 00:00:00.9',
  tstz: '2024-01-01T00:00:00.123456+05:30',
  tstz3: 'infinity',
  raw: '\\x00ff',
  j: '5',
  jb: { a: 1 },
  mood: 'sad'
}
const special = { ...full, txt: '{"a": "\\u0000"}', vc: '"x"', code: '', f8: 'NaN', n: 'NaN' }

t.test('references to every type have the same value', { timeout: 120_000 }, async t => {
  const forms = await useForms(t, { schema, tables })
  const names = columns.filter(column => !unsupported.includes(column))
  for (const from of names) {
    for (const [i, row] of [full, special, { id: 9 }].entries()) {
      const targets = ['txt', 'j', 'jb', ...i > 0 ? [] : ['code', 'n', 'i4', 'tstz', 'd', 'raw']]
      for (const to of new Set([from, ...targets])) {
        const reference = `$src.0.${from}`
        const src = { id: 'src', op: 'insert', table: 'v', values: [row] }
        const changed = { id: 'src', op: 'update', table: 'v', set: row, where: { id: { eq: 3 } } }
        const uses = [
          { id: 'i', op: 'insert', table: 'w', values: [{ id: 1, [to]: reference }] },
          { id: 'u', op: 'update', table: 'w', set: { [to]: reference }, where: { id: { eq: 1 } } },
          { id: 's', op: 'select', table: 'w', where: { [to]: { eq: reference } } }
        ]
        const source = i === 1 ? changed : src
        expectSame(t, await forms.run([source, ...uses]), `${from} ${i} to ${to}`)
      }
    }
  }
})

t.test('chains of operations are in the plain form', async t => {
  const forms = await useForms(t, { schema, tables })
  const batch = [
    { id: 'p', op: 'insert', table: 'parent', values: [{ name: 'a', amount: 12.5 }] },
    {
      id: 'c',
      op: 'insert',
      table: 'child',
      values: [
        { parent_id: '$p.0.id', sku: 'x', qty: 1 },
        { sku: 'y', qty: 2, parent_id: '$p.0.id' }
      ]
    },
    {
      id: 'u',
      op: 'update',
      table: 'parent',
      set: { name: 'b', amount: { $inc: 1.5 } },
      where: { id: { eq: '$p.0.id' } },
      expect: 1
    },
    {
      id: 'q',
      op: 'update',
      table: 'child',
      set: { qty: { $inc: '$c.1.qty' } },
      where: { sku: { eq: '$c.1.sku' }, parent_id: { between: [0, '$u.0.id'] } }
    },
    {
      id: 'd',
      op: 'delete',
      table: 'child',
      returning: ['sku'],
      where: { sku: { eq: '$c.0.sku' } }
    },
    {
      id: 's',
      op: 'select',
      table: 'child',
      columns: ['sku', { column: 'qty', as: 'number' }],
      where: { parent_id: { eq: '$u.0.id' } },
      order: [{ sku: 'desc' }]
    }
  ]
  const result = await forms.run(batch)
  expectSame(t, result, 'chain')
  t.equal(result.plain.failure, undefined)
  t.same(result.used, ['direct', ...Array(5).fill('aggregated')])
  expectSame(t, await forms.run(batch, { minimal: true }), 'minimal')
})

const user = (id: string, op: string, table: string, more: object): object =>
  ({ id, op, table, ...more })
const picky = { id: 1, name: 'skip' }

/** [name, operations, forms that are used] */
const batches: ReadonlyArray<readonly [name: string, ops: readonly object[], used?: string]> = [
  ['defaults', [user('o', 'insert', 'parent', { values: [{ name: 'x' }] })], 'direct'],
  ['a missing NOT NULL value', [user('o', 'insert', 'parent', { values: [{}] })], 'direct'],
  ['NULL in a NOT NULL column', [user('o', 'insert', 'parent', { values: [{ name: null }] })]],
  ['an identity column', [user('o', 'insert', 'parent', { values: [{ id: 5, name: 'x' }] })]],
  ['a generated column', [user('o', 'insert', 'parent', { values: [{ name: 'x', doubled: 5 }] })]],
  ['a set generated column', [
    user('o', 'update', 'parent', { set: { doubled: 5 }, all: true })
  ]],
  ['a view', [user('o', 'insert', 'rich', { values: [{ name: 'x', amount: 11 }] })], 'direct'],
  ['a view that refuses', [user('o', 'insert', 'rich', { values: [{ name: 'x', amount: 1 }] })]],
  ['an update of a view', [
    user('i', 'insert', 'rich', { values: [{ name: 'x', amount: 11 }] }),
    user('o', 'update', 'rich', { set: { amount: 20.005 }, where: { id: { eq: '$i.0.id' } } })
  ], 'direct aggregated'],
  ['row security', [
    user('s', 'select', 'secret', {}),
    user('u', 'update', 'secret', { set: { hidden: 'x' }, all: true }),
    user('d', 'delete', 'secret', { all: true })
  ], 'aggregated aggregated aggregated'],
  ['a row that row security refuses', [
    user('o', 'insert', 'secret', { values: [{ id: 3, owner: 'somebody' }] })
  ]],
  ['row security of a reference', [
    user('o', 'insert', 'secret', { values: [{ id: 3 }] }),
    user('s', 'select', 'secret', { where: { owner: { eq: '$o.0.owner' } } })
  ], 'direct aggregated'],
  ['permitted columns', [
    user('o', 'insert', 'columns_only', { values: [{ b: 'x' }], returning: ['a'] })
  ], 'direct'],
  ['forbidden columns', [
    user('o', 'insert', 'columns_only', { values: [{ b: 'x' }], returning: ['b'] })
  ]],
  ['all columns', [user('o', 'insert', 'columns_only', { values: [{ b: 'x' }] })]],
  ['no columns', [
    user('o', 'insert', 'columns_only', { values: [{ b: 'x' }], returning: [] })
  ], 'aggregated'],
  ['a forbidden select', [user('o', 'select', 'columns_only', {})]],
  ['a permitted select', [user('o', 'select', 'columns_only', { columns: ['a'] })]],
  ['a table without columns', [
    user('o', 'insert', 'empty', { values: [{}] }),
    user('s', 'select', 'empty', {})
  ], 'direct aggregated'],
  ['a rule', [user('o', 'insert', 'ruled', { values: [{ id: 1 }] })]],
  ['a suppressed row', [user('o', 'insert', 'picky', { values: [picky] })], 'direct'],
  ['one of two suppressed rows', [
    user('o', 'insert', 'picky', { values: [{ ...picky, id: 2 }, { id: 1, name: 'x' }] }),
    user('s', 'select', 'picky', {})
  ], 'direct aggregated'],
  ['a suppressed row that is expected', [
    user('o', 'insert', 'picky', { values: [picky], expect: 1 })
  ]],
  ['a suppressed row that a condition reads', [
    user('o', 'insert', 'picky', { values: [picky] }),
    user('s', 'select', 'v', { where: { id: { eq: '$o.0.id' } } })
  ], 'direct aggregated'],
  ['a suppressed row that is stored', [
    user('o', 'insert', 'picky', { values: [picky] }),
    user('s', 'insert', 'w', { values: [{ id: '$o.0.id' }] })
  ]],
  ['a suppressed row that nothing needs', [
    user('o', 'insert', 'picky', { values: [picky] }),
    user('s', 'update', 'w', { set: { txt: '$o.0.name' }, where: { id: { eq: 77 } } })
  ]],
  ['a missing row', [
    user('o', 'select', 'v', { where: { id: { eq: 77 } } }),
    user('s', 'update', 'w', { set: { txt: '$o.0.txt' }, all: true })
  ], 'aggregated aggregated'],
  ['a missing second row', [
    user('o', 'select', 'v', { where: { id: { eq: 1 } } }),
    user('s', 'select', 'w', { where: { id: { eq: '$o.1.id' } } })
  ]],
  ['a missing column', [
    user('o', 'select', 'v', {}),
    user('s', 'select', 'w', { where: { id: { eq: '$o.0.none' } } })
  ], 'general general'],
  ['a column outside of the output', [
    user('o', 'select', 'v', { columns: ['txt'] }),
    user('s', 'select', 'w', { where: { id: { eq: '$o.0.id' } } })
  ], 'general general'],
  ['an unknown column', [user('o', 'select', 'v', { where: { none: { eq: 1 } } })], 'general'],
  ['an unknown table', [user('o', 'select', 'none', {})], 'general'],
  ['expect', [user('o', 'update', 'v', { set: { i4: 5 }, where: { id: { gt: 1 } }, expect: 2 })]],
  ['expect that fails', [
    user('o', 'delete', 'v', { where: { id: { gt: 1 } }, expect: { max: 1 } })
  ], 'aggregated'],
  ['a violated check', [
    user('o', 'insert', 'child', { values: [{ sku: 'x', qty: 0 }] })
  ]],
  ['a second row of the same key', [
    user('o', 'insert', 'picky', { values: [{ id: 1 }, { id: 1 }] })
  ]],
  ['names of columns that are used twice', [
    user('o', 'select', 'v', {
      columns: ['id', { column: 'txt', as: 'row' },
        { column: 'n', as: 'p0' }, { column: 'i4', as: 'n' }],
      order: [{ row: 'asc' }]
    }),
    user('s', 'select', 'w', { where: { txt: { eq: '$o.1.row' }, n: { lt: '$o.0.p0' } } })
  ], 'aggregated aggregated'],
  ['paths', [
    user('o', 'select', 'v', { order: [{ id: 'asc' }] }),
    user('a', 'select', 'v', { where: { 'jb->a': { eq: '$o.0.id' } } }),
    user('b', 'select', 'v', { where: { 'jb->>a': { eq: '$o.0.id' } } }),
    user('c', 'select', 'v', { where: { 'jb->a': { eq: 1 }, 'jb->l->>0': { in: ['1', '2'] } } }),
    user('d', 'select', 'v', { where: { 'jb->a': { isdistinct: '$o.1.n' } } })
  ], 'aggregated aggregated aggregated aggregated aggregated'],
  ['operators', [
    user('a', 'select', 'v', { where: { id: { in: [1, 3] }, txt: { like: 'o%', ilike: 'O%' } } }),
    user('b', 'select', 'v', { where: { jb: { cs: { a: 1 } } } }),
    user('c', 'select', 'v', { where: { or: [{ n: { is: null } }, { n: { gte: 3.0 } }] } }),
    user('d', 'select', 'v', { where: { jb: { has_key: 'a' }, txt: { fts: 'one' } } }),
    user('e', 'select', 'v', {
      where: { txt: { eq: { $col: 'txt' } }, id: { neq: { all: [3] } } }
    }),
    user('f', 'select', 'v', { where: { tags: { is: null }, span: { isdistinct: '[1,2)' } } })
  ], Array(6).fill('aggregated').join(' ')],
  ['modifiers', [
    user('a', 'update', 'v', { set: { i4: { $inc: 1 }, n: { $mul: 1.10 } }, all: true }),
    user('b', 'update', 'v', { set: { jb: { $merge: { b: [1] } } }, where: { id: { eq: 1 } } }),
    user('c', 'update', 'v', { set: { jb: { $append: [2] } }, where: { id: { eq: 3 } } }),
    user('d', 'update', 'v', {
      set: { jb: { $remove: 'a' }, txt: { $col: 'code' } },
      where: { id: { eq: 1 } }
    }),
    user('e', 'update', 'v', {
      set: { i4: { $default: true }, j: { $value: { $inc: 1 } } },
      where: { id: { eq: 1 } }
    }),
    user('f', 'update', 'v', { set: { d: { $inc: 3 } }, all: true })
  ], Array(6).fill('aggregated').join(' ')],
  ['modifiers that do not fit', [
    user('b', 'update', 'v', { set: { jb: { $merge: { b: [1] } } }, where: { id: { eq: 3 } } })
  ], 'aggregated'],
  ['the JSON null', [
    user('a', 'update', 'v', { set: { jb: { $value: null } }, where: { id: { eq: 1 } } })
  ], 'general'],
  ['lists, rows and conflicts', [
    user('o', 'select', 'v', {}),
    user('a', 'select', 'v', { where: { id: { in: '$o.*.id' } } }),
    user('b', 'insert', 'w', { values: [{ id: 1, jb: '$o.0' }] }),
    user('c', 'insert', 'w', {
      values: [{ id: 1 }],
      on_conflict: { columns: ['id'], do: 'nothing' }
    })
  ], 'general general general general'],
  ['a computed column', [
    user('o', 'insert', 'parent', { values: [{ name: 'x' }], returning: ['label', 'id'] }),
    user('a', 'select', 'parent', { where: { label: { eq: 'x' } } })
  ], 'direct general'],
  ['system columns', [
    user('a', 'select', 'v', { where: { ctid: { eq: '(0,1)' } }, columns: ['id'] })
  ], 'general'],
  ['aggregates', [
    user('a', 'select', 'v', {
      columns: [{ fn: 'count' }, { fn: 'sum', column: 'n' }, 'txt'],
      group_by: ['txt'],
      order: [{ txt: 'asc' }]
    }),
    user('b', 'select', 'w', { where: { txt: { eq: '$a.0.txt' } } })
  ], 'aggregated aggregated'],
  ['limits and locks', [
    user('a', 'select', 'v', { order: [{ id: 'desc' }], limit: 2, offset: 1, lock: 'update' })
  ], 'aggregated']
]

t.test('operations have the same effect', { timeout: 120_000 }, async t => {
  const forms = await useForms(t, { schema, tables })
  for (const [name, ops, used] of batches) {
    for (const minimal of [false, true]) {
      const result = await forms.run(ops, { minimal })
      const undecidedReader = name.startsWith('a suppressed row that') &&
        result.plain.failure?.startsWith('inspect') === true
      if (undecidedReader) t.ok(result.general.failure?.startsWith('row'), name)
      else expectSame(t, result, `${name}${minimal ? ', minimal' : ''}`)
      if (used !== undefined && !minimal) t.equal(result.used.join(' '), used, name)
    }
  }
})

t.test('the number of rows is limited', async t => {
  const forms = await useForms(t, { schema, tables })
  for (const maxRows of [2, 3]) {
    const result = await forms.run([user('o', 'select', 'v', {})], { maxRows })
    expectSame(t, result, String(maxRows))
    t.equal(result.plain.failure, maxRows === 2 ? 'rows at 0' : undefined)
  }
})
